"""Curves, tables and the page of runs."""

from __future__ import annotations

import errno
import os
import re
from html.parser import HTMLParser
from pathlib import Path

import browser
import numpy as np
import pytest

from rl.plot import methods
from rl.plot.__main__ import main
from rl.plot.page import _films
from rl.report.runs import evaluations, find_runs, table, wall_seconds


@pytest.fixture
def two(run_folder, tmp_path):
    """Three runs of one method, which came to 10, 20, 30, and two of another, 25 and 5."""
    for seed in range(3):
        run_folder(f"a/run_{seed}", "ppo_cartpole", seed, [1.0, 10.0 * (seed + 1)])
    for seed, value in ((3, 25.0), (4, 5.0)):
        run_folder(f"b/run_{seed}", "ppo_cartpole", seed, [2.0, 3.0, value], lr=0.5, epochs=7)
    return tmp_path


@pytest.fixture
def four(run_folder, two):
    """Another algorithm on the same environment, and both on another one."""
    run_folder("c/run_0", "a2c_cartpole", 0, [40.0])
    run_folder("d/run_0", "ppo_acrobot", 0, [-90.0])
    run_folder("e/run_0", "a2c_acrobot", 0, [-80.0])
    return two


def test_runs_that_differ_in_their_seeds_are_one_method(two):
    ((env, found),) = methods.methods_of(find_runs(two)).items()
    assert env == "CartPole-v1"
    assert [each.label for each in found] == [
        "ppo_cartpole (lr=0.001, epochs=5)",
        "ppo_cartpole (lr=0.5, epochs=7)",
    ]
    assert found[0].final.tolist() == [10.0, 20.0, 30.0]
    curve = found[0].curve
    assert curve.steps.tolist() == [1000, 2000] and curve.estimate.value.tolist() == [1.0, 20.0]
    np.testing.assert_allclose(curve.seconds, [2.0, 4.0])


def test_what_was_published_of_a_run_or_is_not_whole_is_no_run(run_folder):
    run = run_folder("a/run_0", "ppo_cartpole", 0, [1.0])
    for name in ("a/run_0/published", "a/run_0/exported/again", "a/.new-run_1"):
        run_folder(name, "ppo_cartpole", 0, [1.0])
    assert [each.path for each in find_runs(run.parent)] == [run]
    assert [each.path for each in find_runs(run / "published")] == [run / "published"]


def test_a_run_that_is_named_itself_is_one_whatever_its_name(run_folder, monkeypatch):
    run = run_folder(".mine/run_0", "ppo_cartpole", 0, [1.0])
    assert [each.path for each in find_runs(run.parent)] == [run]
    hidden = run_folder(".hidden", "ppo_cartpole", 0, [1.0])
    assert [each.path for each in find_runs(hidden)] == [hidden]
    (run / "checkpoints").mkdir()
    monkeypatch.chdir(run / "checkpoints")
    assert [each.path for each in find_runs(Path(".."))] == [Path("..")]


def test_runs_for_which_workers_played_are_another_method(run_folder):
    for seed in range(4):
        run = run_folder(f"a/run_{seed}", "ppo_cartpole", seed, [1.0], workers=seed > 1)
    ((_, found),) = methods.methods_of(find_runs(run.parent)).items()
    labels = ["ppo_cartpole (workers=False)", "ppo_cartpole (workers=True)"]
    assert [(each.label, len(each.runs)) for each in found] == [(label, 2) for label in labels]


def test_runs_of_unequal_length_are_told(run_folder):
    run_folder("a/run_0", "ppo_cartpole", 0, [1.0, 5.0])
    run = run_folder("a/run_1", "ppo_cartpole", 1, [3.0])
    table = methods.markdown(methods.methods_of(find_runs(run.parent)))
    assert "| ppo_cartpole | 2 | 1,000 to 2,000 | mean | 4.000 [" in table
    assert "Runs of one method are not equally long: values are of the last step of each." in table


def test_tables_have_the_methods_and_how_likely_one_is_above_the_other(two, capsys):
    assert main([str(two)]) == 0
    out = capsys.readouterr().out
    assert (
        "| ppo_cartpole (lr=0.001, epochs=5) | 3 | 2,000 | mean | 20.0 [10.0, 30.0] | 10.0 | 30.0 | 4 |"
        in out
    )
    # Of 6 pairs 10 > 5, 20 > 5, and both of 30.
    assert re.search(r"\| ppo_cartpole \(lr=0\.001, epochs=5\) \| - \| 0\.67 \[", out)
    assert "Over" not in out


def test_algorithms_are_compared_over_environments_where_each_has_one_method(four):
    found = methods.methods_of([run for place in "acde" for run in find_runs(four / place)])
    scores = methods.scaled(found)
    assert list(scores) == ["ppo", "a2c"]
    np.testing.assert_allclose(scores["a2c"][0], [1.0])  # Acrobot
    np.testing.assert_allclose(scores["ppo"][1], [0.0, 1 / 3, 2 / 3])
    table = methods.markdown(found)
    assert "| a2c | 1.00 [1.00, 1.00] | 1.00 [1.00, 1.00] |" in table
    assert "| algorithm | mean [95 %] | probability of being above ppo |" in table  # 2 and 4 runs
    assert "equally long" not in table
    assert list(methods.scaled(methods.methods_of(find_runs(four)))) == ["a2c"]  # of ppo there are two


def test_files_are_written_by_their_endings_and_the_same_each_time(four, tmp_path):
    names = [tmp_path / name for name in ("x.svg", "x.md", "x.png")]
    words = [str(four / "a"), "--out", str(names[0]), "--out", str(names[1])]
    assert main(words) == 0
    first = [name.read_bytes() for name in names[:2]]
    assert b"<svg" in first[0] and first[1].startswith(b"# eval/return_mean")
    assert main(words) == 0 and [name.read_bytes() for name in names[:2]] == first
    assert main([*(str(four / each) for each in "acde"), "--out", str(names[2])]) == 0
    assert names[2].read_bytes().startswith(b"\x89PNG")


class Links(HTMLParser):
    """What a page would load, and which tags it has."""

    def __init__(self):
        super().__init__()
        self.loaded, self.tags, self.open = [], set(), []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.loaded += [
            value for key, value in attrs if key in ("src", "href", "xlink:href", "data", "action")
        ]
        if tag not in ("meta", "br", "path", "use", "rect"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag in self.open:
            assert self.open.pop() == tag


def test_the_page_stands_alone_and_tells_all_of_a_run(two, tmp_path, run_folder):
    folder = run_folder("f/run_9", "ppo_cartpole", 9, [1.0, 7.0])
    (folder / "train.log").write_text(
        "2026-01-01 10:00:00 ok\n2026-01-01 10:00:01 warning: <b>slow</b> disk\n"
    )
    (folder / "videos").mkdir()
    (folder / "videos" / "one.mp4").write_bytes(b"film")
    folder.rename(folder.with_name(os.fsdecode(b"caf\xe9")))  # no UTF-8
    assert main([str(two), "--html", str(tmp_path / "x.html")]) == 0
    text = (tmp_path / "x.html").read_text()
    links = Links()
    links.feed(text)
    assert not links.open and "script" not in links.tags and {"svg", "video", "details"} <= links.tags
    assert all(each.startswith(("#", "data:video/mp4;base64,")) for each in links.loaded)
    assert (
        "warning: &lt;b&gt;slow&lt;/b&gt; disk" in text and "python train.py --hparams ppo_cartpole" in text
    )
    assert "<td>lr</td><td>0.0003</td><td>0.001</td>" in text and "3.11.7" in text


def test_a_film_that_cannot_be_read_is_named_and_the_one_before_it_shown(run_folder, monkeypatch):
    folder = run_folder("f/run_9", "ppo_cartpole", 9, [1.0, 7.0])
    (folder / "videos").mkdir()
    for name in ("one.mp4", "two.mp4"):
        (folder / "videos" / name).write_bytes(b"film")
        os.utime(folder / "videos" / name, (9, 9))
    read = Path.read_bytes

    def failing(path):
        if path.name == "two.mp4":
            raise OSError(errno.EIO, "Input/output error")
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", failing)
    shown = "".join(_films(folder))
    assert "<figcaption>one.mp4</figcaption>" in shown and "videos: two.mp4" in shown


@browser.needed
def test_a_browser_shows_the_page_and_finds_nothing_wrong_with_it(four, tmp_path):
    page, picture = tmp_path / "x.html", tmp_path / "x.png"
    assert main([str(four), "--html", str(page)]) == 0
    shown = browser.shown(page.as_uri(), f"--screenshot={picture}")
    assert "<svg" in shown and "a2c_acrobot" in shown
    assert picture.stat().st_size > 10_000


def test_a_run_that_is_being_written_is_read_up_to_its_last_whole_row(run_folder):
    folder = run_folder("run_0", "ppo_cartpole", 0, [1.0, 2.0])
    with (folder / "metrics.csv").open("a") as file:
        file.write("x,1,1\n3000,nan,1\n4000,9")
    assert [row["step"] for row in table(folder / "metrics.csv")] == ["1000", "2000", "x", "3000"]
    assert evaluations(folder) == [(1000, 1.0), (2000, 2.0)]
    assert wall_seconds(folder) == pytest.approx({1000: 2.0, 2000: 4.0})


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "required: RUN"),
        (["nowhere"], "there is no run in nowhere"),
        (["."], "there is no run in ."),
        (["gs://b/x"], "copy the run here first"),
        (["a", "--out", "x.jpg"], "--out x.jpg: needs an ending of .png, .svg, .md"),
        (["a", "--out", "no/x.png"], "cannot write no/x.png"),
        (["a", "--html", "x.md"], "needs the ending .html"),
        (
            ["a", "--metric", "eval/return", "--out", "x.md"],
            "metric eval/return: did you mean eval/return_mean",
        ),
        (["a", "--metric", "eval/late"], "none of the 1 runs has a value of eval/late yet: wait"),
        (["early"], "none of the 1 runs has a value of eval/return_mean yet: wait"),
        (["noise"], "noise/run_0/metrics.csv has no column step: is it damaged?"),
        (["broken"], "cannot read broken/run_0/hparams.json"),
        (["other"], "other/run_0/hparams.json is none of a run's"),
        (["list"], "list/run_0/hparams.json is none of a run's"),
    ],
)
def test_what_is_wrong_is_one_line_and_nothing_is_written(
    words, said, run_folder, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    if words:
        for name, text in (("broken", "{"), ("other", "{}"), ("list", "[1]")):
            (tmp_path / name / "run_0").mkdir(parents=True)
            (tmp_path / name / "run_0" / "hparams.json").write_text(text)
    if words[:1] == ["a"]:
        folder = run_folder("a/run_0", "ppo_cartpole", 0, [1.0])
        (folder / "metrics.csv").write_text("step,eval/return_mean,eval/late\n1000,1.0,\n")
    if words == ["early"]:
        early = run_folder("early/run_0", "ppo_cartpole", 0, [1.0]) / "metrics.csv"
        early.write_text("step,episode/return_mean\n1000,1.0\n")
    if words == ["noise"]:
        noise = run_folder("noise/run_0", "ppo_cartpole", 0, [1.0]) / "metrics.csv"
        noise.write_bytes(b"\x1b[2J\xff,\n1,2\n")
    if words[:1] == ["."]:
        monkeypatch.chdir(tmp_path / "other")
        (tmp_path / "other" / "run_0" / "hparams.json").unlink()
    assert main(words) == 2
    err = capsys.readouterr().err
    assert said in err and err.startswith("error: ") and err.count("\n") == 1
    assert not list(tmp_path.rglob("x.*"))


def test_without_matplotlib_tables_are_still_there(two, monkeypatch, capsys):
    monkeypatch.setattr("rl.plot.figures.importlib.util.find_spec", lambda name: None)
    assert main([str(two)]) == 0
    assert main([str(two), "--out", str(two / "x.png")]) == 2
    assert "./setup.sh --extra plot" in capsys.readouterr().err
