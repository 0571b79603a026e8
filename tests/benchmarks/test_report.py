"""The report of the learning results: its statistics, its verdicts and marks, and that it is up to date."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

import bars
import report
import trained
import verdicts

from rl.hparams.merge import named

pytestmark = pytest.mark.slow  # of scripts that are run by hand


def row(seed=100, **fields):
    """A line of the results, as a CSV file holds it."""
    defaults = {"hparams": "some_set", "env": "Some-v0", "seed": seed, "steps": 1000, "best_step": 500}
    defaults |= {"last": 100.0, "best": 90.0, "episodes": 100, "seconds": 5.0, "first_window_s": 2.0}
    defaults |= {"cores": 2, "noisy": False}
    defaults["command"] = (
        f"python train.py --hparams some_set --seed {seed} --output_dir build/some_set/seed_{seed}"
    )
    return {key: str(value) for key, value in (defaults | fields).items()}


@pytest.fixture
def bar(monkeypatch):
    """Sets the bar of `some_set`."""
    return lambda *values: monkeypatch.setitem(bars.BARS, "some_set", bars.Bar(*values))


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([row(last=100.0), row(101, last=102.0)], "pass"),
        ([row(last=98.0), row(101, last=102.0)], "pass (1 of 2 seeds below)"),
        ([row(last=98.0, best=150.0), row(101, last=99.0, best=150.0)], "**miss**: return by 1.5"),
        ([row(last=99.96)], "**miss**: return by 0.04"),
        # The interquartile mean of these is 110.
        ([row(last=value) for value in (0.0, 110.0, 110.0, 110.0, 120.0)], "**miss**: return by 10.0"),
        ([row(best_step=200, steps=1004)], "pass"),  # the last iteration was whole
        ([row(best_step=200, steps=1500)], "**miss**: steps by 500"),
        ([row(seconds=10.0), row(101, seconds=12.5)], "**miss**: time by 2.5 s"),
        ([row(last=40.0, seconds=11.0)], "**miss**: return by 60.0, time by 1.0 s"),
    ],
)
def test_verdicts(bar, rows, expected):
    bar(100.0, "Z", 1000, 10.0)
    assert verdicts.verdict("some_set", rows) == expected
    assert verdicts.bar_text("some_set") == ">= 100, within 1,000 steps, 10 s (Z)"
    assert verdicts.verdict("a_set_without", rows) == verdicts.bar_text("a_set_without") == "-"


def test_sets_that_miss_say_what_was_tried(bar, monkeypatch):
    bar(100.0, "Z", None, None)
    monkeypatch.setitem(report.TRIED, "some_set", "larger steps")
    assert report.tried({"some_set": [row(last=100.0)], "a_set_without": [row(last=0.0)]}) == []
    lines = report.tried({"some_set": [row(last=99.0)]})
    assert lines[3:] == ["* `some_set` (return by 1.0): larger steps."]
    assert all(bars.bar_of(name) is not None for name in report.TRIED)


def test_a_mean_at_the_bar_is_no_miss_by_rounding(bar):
    bar(-69.1, "Z")
    assert verdicts.verdict("some_set", [row(last=-69.1)] * 3) == "pass"  # their mean is -69.10000000000001


def test_every_bar_names_its_source():
    for name, bar in bars.BARS.items():
        assert bar.source.split(",")[0] in bars.SOURCES, name


def test_every_line_and_command_is_in_the_report(tmp_path):
    rows = [row(seed, last=90.0 + i, version="abc1234") for i, seed in enumerate((100, 101, 102))]
    text = report.markdown([*rows, row(hparams="other", env="A-v0", noisy=True)], tmp_path)
    assert text.index("## A-v0") < text.index("## Some-v0")
    cells = "| 90.0, 91.0, 92.0 | 91.0 | 91.0 [90.0, 92.0] | 90.0 at 500, 500, 500 |"
    assert f"| `some_set` | 3 | 1,000 | - {cells}" in text
    assert "7, 7, 7 (2 cores) |" in text and "7 (2 cores) busy |" in text
    words = "python train.py --hparams some_set --seed $s --output_dir build/some_set/seed_$s"
    assert f"    for s in 100 101 102; do {words}; done  # commit abc1234\n" in text


def test_returns_of_games_have_two_digits():
    cells = verdicts.line("some_set", [row(last=0.52, best=0.25), row(101, last=0.411, best=0.25)], {})
    assert cells[4:6] == ["0.52, 0.41", "0.47"] and cells[7].startswith("0.25 at ")


def test_five_seeds_show_mean_and_interquartile_mean():
    rows = [row(100 + i, last=value) for i, value in enumerate((0.0, 110.0, 110.0, 110.0, 120.0))]
    shown = verdicts.line("some_set", rows, {})
    assert shown[5] == "90.0" and shown[6].startswith("110.0 [")


@pytest.fixture
def cartpole():
    """A line of ppo_cartpole as trained with given overrides, and what is kept of it."""

    def make(seed=100, command="", **overrides):
        hparams = named("ppo_cartpole")
        hparams.assign(overrides)
        values = trained.values(hparams)
        found = row(seed, hparams="ppo_cartpole", fingerprint=trained.fingerprint(values))
        return found | {"command": found["command"] + command}, {found["fingerprint"]: values}

    return make


def test_a_row_of_the_set_as_it_is_has_no_mark(cartpole):
    assert verdicts.marks([cartpole()[0]], cartpole()[1]) == []
    rarely = cartpole(eval_period=77, log_period=999, checkpoint_period=5.0)
    assert rarely == cartpole()  # these change nothing that is learned


@pytest.mark.parametrize(
    ("overrides", "names"),
    [({"lr": 0.0123}, "lr"), ({"model.hidden": (7,), "train_steps": 1}, "model, train_steps")],
)
def test_a_row_older_than_its_set_is_stale(cartpole, overrides, names):
    old, known = cartpole(**overrides)
    assert verdicts.marks([old], known) == [f"stale: the set has changed since ({names})"]


def test_train_steps_of_the_command_are_no_change_of_the_set(cartpole):
    short, known = cartpole(command=" --train_steps 1000", train_steps=1000)
    assert verdicts.marks([short], known) == []
    longer, known = cartpole(command=" --train_steps 1000", train_steps=2000)
    assert verdicts.marks([longer], known) == ["stale: the set has changed since (train_steps)"]


def test_how_workers_are_waited_for_is_no_change_of_a_set_without_them(cartpole):
    other, known = cartpole(sync_workers=False)
    assert verdicts.marks([other], known) == []
    with_them = other | {"hparams": "ppo_cartpole_workers_2"}
    assert verdicts.marks([with_them], known) == ["stale: the set has changed since (sync_workers)"]


def test_hparams_newer_than_a_row_count_with_their_defaults(cartpole):
    found, known = cartpole()
    values = dict(known[found["fingerprint"]])
    assert values.pop("previous_action_reward") is False
    assert verdicts.marks([found], {found["fingerprint"]: values}) == []
    values["no_longer_there"] = 1
    assert verdicts.marks([found], {found["fingerprint"]: values}) == ["stale: the set has changed since"]


def test_rows_of_other_seeds_unknown_sets_and_unknown_values_are_marked(cartpole):
    found, known = cartpole()
    tuned = ["judged on tuning seeds"]
    assert verdicts.marks([row(0), row(1), row(2)], {}) == tuned
    assert verdicts.marks([cartpole()[0], cartpole(99)[0]], known) == tuned
    old, more = cartpole(5, lr=0.0123)
    assert verdicts.marks([old], more) == [*tuned, "stale: the set has changed since (lr)"]
    assert verdicts.marks([row()], {}) == ["stale: what was trained was not kept"]
    gone = found | {"hparams": "no_such_set_workers_2"}
    assert verdicts.marks([gone], known) == ["stale: there is no such set any more"]


def test_misses_and_marked_sets_are_counted(bar, cartpole, monkeypatch):
    bar(100.0, "Z")
    for name in set(bars.BARS) - {"some_set", "ppo_cartpole", "a2c_cartpole"}:
        monkeypatch.delitem(bars.BARS, name)
    found, known = cartpole()
    groups = {"some_set": [row(0)], "ppo_cartpole_workers_2": [found | {"hparams": "ppo_cartpole_workers_2"}]}
    groups["no_bar"] = [row()]
    expected = "2 sets judged, 1 miss (50%), 1 stale or judged on tuning seeds (50%)."
    without = "1 more set has a bar and no result: `a2c_cartpole`."
    assert report.summary(groups, known) == f"{expected}\n\n{without}"


SAC = {"lr": 3e-4, "critic_lr": None, "temperature_lr": None}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (SAC, "Both have a learning rate of 0.0003 throughout."),
        (
            SAC | {"critic_lr": 1e-3},
            "Theirs has its defaults, a learning rate of 0.0003 throughout; ours has 0.0003 for the actor, "
            "0.001 for the critics, 0.0003 for the temperature.",
        ),
    ],
)
def test_learning_rates_beside_theirs_are_those_that_were_trained(values, expected):
    assert report.rates([row(fingerprint="1")], {"1": values}) == expected
    script = (report.ROOT / "benchmarks" / "peers" / "sb3_sac_learning.py").read_text()
    assert '"learning_rate": 3e-4' in script and report.PEER_LR == 3e-4


def test_learning_rates_that_were_not_kept_are_not_guessed():
    assert report.rates([row()], {}).endswith("with which ours was trained was not kept.")


def test_sac_is_compared_at_equal_steps(tmp_path):
    rows = [row(0, hparams="sac_halfcheetah")]
    assert report.cheetah(tmp_path, rows, {}) == []
    (tmp_path / "learning_curves.csv").write_text(
        "hparams,seed,step,return\n"
        + "".join(
            f"sac_halfcheetah,{s},{at},{at / 100 + s}\n" for s in (0, 1) for at in (19_990, 39_990, 60_010)
        )
    )
    assert report.cheetah(tmp_path, rows, {}) == []
    folder = tmp_path / "sb3_sac_halfcheetah"
    folder.mkdir()
    (folder / "seed_0.csv").write_text(
        "10000,50.0,3.5\n20000,150.0,7.0\n40000,450.0,15.0\n60000,900.0,20.0\n"
    )
    lines = report.cheetah(tmp_path, rows, {})
    assert "**Ours: judged on tuning seeds.**" in lines[3]
    assert "| 20,000 | 200 [200, 201] | 200, 201 | 150 [150, 150] | 150 |" in lines
    # At 60,000 our last evaluation was that of step 39,990.
    assert lines[-1] == "After 60,000 steps ours is 500 BELOW theirs."


def test_the_report_is_that_of_the_tables_and_of_the_sets():
    rows = report.read_table(report.RESULTS / "learning.csv")
    assert rows
    same = (report.RESULTS / "README.md").read_text() == report.markdown(rows, report.RESULTS)
    assert same, (
        "benchmarks/results/README.md is older than the tables or the sets: python benchmarks/report.py"
    )
    assert report.MEASURED.read_text() == report.measured(rows, report.RESULTS)


def test_results_with_workers_have_the_bar_of_the_set_but_for_its_time():
    assert bars.bar_of("ppo_cartpole").seconds == 15.0
    with_workers = bars.bar_of("ppo_cartpole_workers_2")
    assert with_workers == bars.BARS["ppo_cartpole"]._replace(seconds=None)
    assert bars.bar_of("no_such_set_workers_2") is None and bars.bar_of("no_such_set") is None
