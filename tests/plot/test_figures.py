"""What curves, their legends and labels say of methods."""

from __future__ import annotations

import json
import re

import pytest
from matplotlib.colors import to_hex

from rl.plot import figures, methods
from rl.plot.__main__ import main
from rl.report.runs import find_runs


def methods_in(folder):
    return methods.methods_of(find_runs(folder))


def shown(folder):
    """Returns the panels of the only environment, and its legend."""
    (place,) = figures.figure_of(methods_in(folder)).subfigs
    return place.axes, [text.get_text() for text in place.legends[0].get_texts()]


def save(run, **values):
    """Changes hyperparameters as they are saved."""
    saved = json.loads((run / "hparams.json").read_text())
    saved["hparams"] |= values
    (run / "hparams.json").write_text(json.dumps(saved))


FIRST = {"lr": 0.5, "epochs": 7, "gamma": 0.9}  # three values that differ from the set's


@pytest.fixture
def alike(run_folder, tmp_path):
    """Methods whose first three differences from the set are the same: they differ in what comes later."""
    run_folder("a/run_0", "ppo_cartpole", 0, [10.0])
    for i, clip in enumerate((0.1, 0.3, 0.1234567, 0.1234568)):
        run_folder(f"b{i}/run_0", "ppo_cartpole", 0, [20.0 + i], **FIRST, value_coef=clip)
    return tmp_path


def test_methods_that_differ_have_different_labels(alike):
    ((_, found),) = methods_in(alike).items()
    labels = [each.label for each in found]
    assert len(set(labels)) == len(labels) == 5
    assert sum("value_coef=0.1234567" in each for each in labels) == 1
    assert all("value_coef=" in each for each in labels[1:])


def test_labels_are_no_longer_than_it_takes(run_folder, tmp_path):
    run_folder("a/run_0", "ppo_cartpole", 0, [10.0])
    run_folder("b/run_0", "ppo_cartpole", 0, [10.0], **FIRST, value_coef=0.1, entropy_coef=0.5)
    ((_, found),) = methods_in(tmp_path).items()
    assert all(each.label.count("=") == 3 and each.label.endswith(", ...)") for each in found)


def test_methods_whose_values_read_the_same_are_numbered(run_folder, tmp_path):
    for i, value in enumerate(("1", 1)):
        save(run_folder(f"{i}/run_0", "ppo_cartpole", 0, [i]), env_kwargs=value)
    ((_, found),) = methods_in(tmp_path).items()
    assert [each.label for each in found] == ["ppo_cartpole (env_kwargs=1)", "ppo_cartpole (env_kwargs=1) #2"]


def test_profiles_have_a_line_for_each_method(alike):
    panels, legend = shown(alike)
    assert [len(each.lines) for each in panels] == [5, 5, 5] and len(legend) == 5


def test_methods_of_one_label_are_drawn_each_for_itself(alike):
    (found,) = methods_in(alike).values()
    same = [methods.Method("same", each.algo, each.runs, each.values, each.seconds) for each in found]
    (place,) = figures.figure_of(methods.Methods({"CartPole-v1": same})).subfigs
    assert len(place.axes[2].lines) == 5


def test_the_legend_says_where_a_curve_ends_before_its_longest_run(run_folder, tmp_path):
    run_folder("a/run_0", "ppo_cartpole", 0, [1.0, 5.0])
    run_folder("a/run_1", "ppo_cartpole", 1, [3.0])
    run_folder("a/run_2", "a2c_cartpole", 0, [3.0])
    _, legend = shown(tmp_path)
    assert legend == [
        "ppo_cartpole, 2 runs, up to step 1,000, where the shortest ends",
        "a2c_cartpole, 1 run",
    ]


def test_the_legend_says_where_a_curve_ends_at_the_last_common_step(run_folder, tmp_path):
    run_folder("a/run_0", "ppo_cartpole", 0, [1.0, 5.0, 6.0])
    metrics = run_folder("a/run_1", "ppo_cartpole", 1, [3.0, 4.0, 5.0]) / "metrics.csv"
    metrics.write_text(metrics.read_text().replace("3000,", "3500,"))
    _, legend = shown(tmp_path)
    assert legend == ["ppo_cartpole, 2 runs, up to step 2,000, the last that all have"]


def test_the_legend_says_why_a_method_has_no_curve_and_its_colour_stays_its_own(run_folder, tmp_path):
    run_folder("a/run_0", "ppo_cartpole", 0, [1.0])
    metrics = run_folder("a/run_1", "ppo_cartpole", 1, [3.0]) / "metrics.csv"
    metrics.write_text(metrics.read_text().replace("1000,", "1500,"))
    run_folder("a/run_2", "a2c_cartpole", 0, [3.0])
    panels, legend = shown(tmp_path)
    assert legend == ["ppo_cartpole, 2 runs: no curve, they have no step in common", "a2c_cartpole, 1 run"]
    colours = [[to_hex(line.get_color()) for line in each.lines] for each in panels]
    assert len(panels) == 3 and colours[0] == colours[1] == colours[2]


def test_no_entry_of_the_legend_is_cut_off(alike, run_folder):
    for i in range(2):
        changed = FIRST | {"value_coef": 0.25 + i, "train_steps": 10**9}
        run_folder(f"c{i}/run_0", "ppo_cartpole", 0, [1.0, 5.0], **changed)
        run_folder(f"c{i}/run_1", "ppo_cartpole", 1, [1.0], **changed)
    figure = figures.figure_of(methods_in(alike))
    figure.draw_without_rendering()
    (legend,) = figure.subfigs[0].legends
    assert legend.get_window_extent().x1 <= figure.bbox.x1


def test_steps_of_runs_that_learn_from_data_are_updates(run_folder, tmp_path, capsys):
    save(run_folder("a/run_0", "dqn_cartpole", 0, [1.0]), memory="dataset")
    assert shown(tmp_path / "a")[0][0].get_xlabel() == "updates"
    assert main([str(tmp_path / "a")]) == 0
    assert "| method | runs | updates |" in capsys.readouterr().out
    run_folder("b/run_0", "ppo_cartpole", 0, [1.0])
    assert shown(tmp_path / "b")[0][0].get_xlabel() == "environment steps"
    assert shown(tmp_path)[0][0].get_xlabel() == "updates or environment steps"


def test_the_page_tells_values_as_the_tables_do(run_folder, tmp_path):
    for place, value in (("a", 0.000123), ("b", 0.5), ("c", 1234.56)):
        run_folder(f"{place}/run_0", "ppo_cartpole", 0, [value])
    told = []
    for place in "abc":
        page = tmp_path / f"{place}.html"
        assert main([str(tmp_path / place), "--html", str(page)]) == 0
        text = page.read_text()
        told += re.findall(r"seed 0, (\S+) at step 1,000<", text)
        assert f"<td>{told[-1]}</td>" in text
    assert told == ["0.000123", "0.500", "1234.6"]


def test_a_label_is_shown_as_it_is_whatever_it_has(run_folder, tmp_path):
    for i, goal in enumerate(("$\\q$", "a|b")):
        save(run_folder(f"{i}/run_0", "ppo_cartpole", 0, [i]), env_kwargs={"goal": goal})
    files = {ending: tmp_path / f"all.{ending}" for ending in ("svg", "html", "md")}
    out = [word for ending in ("svg", "md") for word in ("--out", str(files[ending]))]
    assert main([str(tmp_path), *out, "--html", str(files["html"])]) == 0  # the first was no formula
    drawn, page, table = (file.read_text() for file in files.values())
    assert "$\\\\q$" in drawn and "a|b" in drawn
    assert "a\\|b" in table and all(
        line.count("|") == 9 + ("a\\|b" in line) for line in table.split("\n")[4:8]
    )
    heads = re.findall(r"<tr>(.*?)</tr>", page)[:3]
    assert [row.count("<t") for row in heads] == [8, 8, 8] and "a|b" in heads[2] and "\\|" not in heads[2]


def test_the_legend_has_sets_that_begin_with_an_underscore(run_folder, tmp_path):
    run = run_folder("a/run_0", "ppo_cartpole", 0, [1.0])
    saved = json.loads((run / "hparams.json").read_text())
    (run / "hparams.json").write_text(json.dumps({**saved, "name": "_mine"}))
    assert shown(tmp_path)[1] == [" _mine, 1 run"]
