"""The judging of sets: which seeds, which sets in what order, what is done again, what is written."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

import bars
import children
import judgements
import learning
import make_data
import report
import trained

from rl.errors import UsageError
from rl.hparams import merge

pytestmark = pytest.mark.slow  # of scripts that are run by hand

SETS = ("ppo_cartpole", "a2c_cartpole", "dqn_cartpole", "es_cartpole")


@pytest.fixture
def parse(monkeypatch, tmp_path):
    """Arguments as typed, with results in tmp_path/results and runs below tmp_path."""
    monkeypatch.setattr(learning, "ROOT", tmp_path)
    monkeypatch.setattr(learning, "RUNS", tmp_path / "learning")
    monkeypatch.setattr(learning, "TUNING", tmp_path / "tuning")

    def parse(text=""):
        words = ["learning.py", "--results", str(tmp_path / "results"), *text.split()]
        monkeypatch.setattr(sys, "argv", words)
        return learning.parse()

    return parse


@pytest.fixture
def runs(monkeypatch):
    """Names of the programs that were run; training and evaluation are played."""
    made = []

    def run(command, output, nice):
        made.append(command[0])
        played = len(command[2::2]) if command[0] != "train.py" else 0
        output.write_text('JSON {"last": 499.96, "best": 400.0}\n' * played)
        if command[0] == "train.py":
            name, folder = command[2], output.parent / "run_0"
            folder.mkdir(exist_ok=True)
            values = json.dumps({"hparams": merge.named(name).to_dict()})
            (folder / "hparams.json").write_text(values)
            (folder / "metrics.csv").write_text("step,eval/return_mean\n100,300.0\n200,310.0\n")
            (folder / "perf.csv").write_text("step,perf/steps_per_second\n100,50.0\n200,100.0\n")
        return 0

    monkeypatch.setattr(learning, "run", run)
    monkeypatch.setattr(learning.measure, "wait_until_idle", lambda limit_s: True)
    monkeypatch.setattr(report, "plot", lambda *args: None)
    return made


def change(monkeypatch, name, **values):
    """Gives a set other values."""

    def named(names, original=merge.named):
        hparams = original(names)
        for key, value in values.items() if names == name else ():
            setattr(hparams, key, value)
        return hparams

    monkeypatch.setattr(merge, "named", named)
    monkeypatch.setattr(trained, "named", named)


def seconds_of(tmp_path, **seconds):
    """A table of results in which a run of a set took so many seconds."""
    rows = [
        {"hparams": name, "seed": i, "seconds": value, "first_window_s": 0.0}
        for name, value in seconds.items()
        for i in range(2)
    ]
    (tmp_path / "results").mkdir()
    judgements.write_csv(tmp_path / "results" / "learning.csv", judgements.FIELDS, rows, "", set())


def test_sets_are_judged_by_five_seeds_that_tuning_has_not(parse):
    args = parse()
    assert [job.seed for job in learning.jobs("ppo_cartpole", args)] == [100, 101, 102, 103, 104]
    assert args.judged and not args.restart
    tune = parse("--tune --seeds 3")
    assert [job.seed for job in learning.jobs("ppo_cartpole", tune)] == [0, 1, 2]
    assert not tune.judged and tune.restart
    folders = {job.folder.parents[1].name for job in learning.jobs("ppo_cartpole", tune)}
    assert folders == {"tuning"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("--first_seed 98", "tuned with others"),
        ("--seeds 6", "once more by 105 to 109, and tuned with others"),
        ("--first_seed 105 --seeds 6", "tuned with others"),
        ("--first_seed 105 --episodes 10", "judged by 100"),
        ("--seeds 0", "needs an integer >= 1"),
        ("--tune --first_seed 3", "leave out --first_seed"),
        ("--episodes 10", "judged by 100"),
        ("--train_steps 1000", "the steps that they have"),
        ("--episodes 0", "needs an integer >= 1"),
        ("--jobs 0", "needs an integer >= 1"),
        ("--num_workers -1", "needs an integer >= 0"),
        ("--seconds -1", "needs a number >= 0"),
        ("--hparams nosuch", "unknown hparams name 'nosuch'"),
        ("--hparams dqn", "names no task"),
    ],
)
def test_what_is_no_judgement_is_refused(parse, text, said):
    with pytest.raises(UsageError, match=said):
        parse(text)


def test_tuning_may_have_other_episodes_and_steps(parse):
    args = parse("--tune --episodes 10 --train_steps 1000")
    assert not args.judged and (args.episodes, args.train_steps) == (10, 1000)


def test_the_cheapest_sets_come_first_and_those_never_measured_last(parse, tmp_path, monkeypatch):
    monkeypatch.setattr(learning, "BARS", dict.fromkeys((*SETS, "no_such_set"), bars.Bar(1.0, "G")))
    seconds_of(tmp_path, ppo_cartpole=30.0, es_cartpole_workers_2=20.0, a2c_cartpole=10.0)
    assert learning.chosen(parse()) == ["a2c_cartpole", "es_cartpole", "ppo_cartpole", "dqn_cartpole"]
    assert learning.chosen(parse("--most_seconds 20")) == ["a2c_cartpole", "es_cartpole"]
    named = parse("--most_seconds 20 --hparams dqn_cartpole ppo_cartpole")
    assert learning.chosen(named) == ["dqn_cartpole"]


def do_all(args, name="ppo_cartpole"):
    mine = learning.jobs(name, args)
    for job in mine:
        learning.train(job, args)
    return mine, learning.results(mine, args)


def test_what_was_trained_with_the_present_values_is_not_trained_again(parse, runs, monkeypatch):
    args = parse("--seeds 2")
    _, rows = do_all(args)
    assert runs == ["train.py", "train.py", "benchmarks/evaluate.py"]
    assert [row["last"] for row in rows] == [499.96, 499.96] and rows[0]["best_step"] == 200
    assert do_all(args)[1] == rows and len(runs) == 3
    change(monkeypatch, "ppo_cartpole", log_period=77)  # nothing is learned otherwise
    assert do_all(args)[1] == rows and len(runs) == 3
    change(monkeypatch, "ppo_cartpole", lr=0.0123)
    with pytest.raises(learning.Failed, match="--restart deletes it"):
        do_all(args)
    again = parse("--seeds 1 --restart")
    assert do_all(again)[1][0]["fingerprint"] != rows[0]["fingerprint"] and len(runs) == 5


def test_no_run_begins_after_the_time_but_finished_ones_count(parse, runs):
    rows = do_all(parse("--seeds 1"))[1]
    assert do_all(parse("--seeds 1 --seconds 0"))[1] == rows
    with pytest.raises(learning.NoTime):
        do_all(parse("--seeds 2 --seconds 0"))
    assert len(runs) == 2


def table(tmp_path, name="learning.csv"):
    return report.read_table(tmp_path / "results" / name)


def test_judged_seeds_are_added_to_those_that_trained_the_same(parse, runs, tmp_path, monkeypatch):
    folder = tmp_path / "results"
    seconds_of(tmp_path, ppo_cartpole=1.0)  # of seeds 0 and 1, without a fingerprint
    for text in ("--seeds 2", "--seeds 1 --first_seed 104"):
        mine, rows = do_all(parse(text))
        judgements.write_results("ppo_cartpole", rows, mine, folder)
    assert [row["seed"] for row in table(tmp_path)] == ["100", "101", "104"]
    assert len(table(tmp_path, "learning_curves.csv")) == 6
    assert list(trained.read(folder)) == [rows[0]["fingerprint"]]
    assert report.up_to_date("ppo_cartpole", folder)
    assert learning.chosen(parse("--stale_only --hparams ppo_cartpole a2c_cartpole")) == ["a2c_cartpole"]
    change(monkeypatch, "ppo_cartpole", lr=0.0123)
    assert not report.up_to_date("ppo_cartpole", folder)
    assert not (folder / report.JUDGEMENTS).exists()
    mine, rows = do_all(parse("--seeds 1 --restart"))
    judgements.write_results("ppo_cartpole", rows, mine, folder)
    assert [row["seed"] for row in table(tmp_path)] == ["100"]
    assert list(trained.read(folder)) == [rows[0]["fingerprint"]]
    assert table(tmp_path, report.JUDGEMENTS) == [{"hparams": "ppo_cartpole", "judgements": "2"}]
    assert "different values: `ppo_cartpole` (2)." in (folder / "README.md").read_text()


def test_a_second_judgement_by_other_seeds_stands_beside_the_first(parse, runs, tmp_path, monkeypatch):
    folder = tmp_path / "results"
    for rate in (0.0123, 0.0124):  # judged twice
        change(monkeypatch, "ppo_cartpole", lr=rate)
        mine, rows = do_all(parse("--seeds 2 --restart"))
        judgements.write_results("ppo_cartpole", rows, mine, folder)
    before = table(tmp_path)
    change(monkeypatch, "ppo_cartpole", adam_epsilon=1e-5 + 1e-9)  # as a default that came later
    args = parse("--hparams ppo_cartpole --first_seed 105 --seeds 2")
    monkeypatch.setattr(learning, "parse", lambda: args)
    learning.main()
    assert table(tmp_path) == before
    assert [row["seed"] for row in table(tmp_path, report.CONFIRMED)] == ["105", "106"]
    text = (folder / "README.md").read_text()
    found = "0 of 1 reach their bar, and 0 of the other 1 have it within their interval."
    assert "seeds 105 to 109" in text and found in text  # 500, and `runs` come to 499.96
    assert "stale" not in text.partition("## By seeds 105 to 109")[2].partition("\n## ")[0]


@pytest.mark.parametrize(
    ("text", "written"), [("", True), ("--tune", False), ("--first_seed 7", False), ("--seconds 0", False)]
)
def test_only_whole_judgements_are_written(parse, runs, tmp_path, monkeypatch, text, written):
    args = parse(f"--hparams ppo_cartpole --seeds 2 {text}")
    monkeypatch.setattr(learning, "parse", lambda: args)
    learning.main()
    assert (tmp_path / "results" / "learning.csv").exists() == written


def test_what_learns_from_others_is_told_from_whom_which_makes_no_row_stale(parse, runs, tmp_path):
    given = "data=build/data/cartpole-expert-ten-v0,expert=build/data/runs/cartpole-expert"
    job = learning.jobs("dagger_cartpole", parse("--seeds 1"))[0]
    assert job.command[-1] == given and job.hparams.expert == "build/data/runs/cartpole-expert"
    job = learning.jobs("gail_cartpole", parse("--tune --train_steps 5000"))[0]
    assert job.command[-2:] == ("--hparam_override", "data=build/data/cartpole-expert-ten-v0")
    mine, rows = do_all(parse("--seeds 2"), "bc_cartpole")
    judgements.write_results("bc_cartpole", rows, mine, tmp_path / "results")
    assert report.up_to_date("bc_cartpole", tmp_path / "results")


def test_data_are_made_of_the_tasks_that_lack_some(tmp_path, monkeypatch):
    made = []
    monkeypatch.setattr(make_data.subprocess, "Popen", lambda words, **_: made.append(words) or Finished())
    for quality in ("random", "medium", "medium-replay", "expert", "expert-ten"):
        (tmp_path / f"pendulum-{quality}-v0" / "data").mkdir(parents=True)
        (tmp_path / f"pendulum-{quality}-v0" / "data" / "metadata.json").touch()
    make_data.provide({"pendulum"}, tmp_path)
    assert not made
    make_data.provide({"pendulum", "cartpole"}, tmp_path)
    assert made[0][-4:] == ["--tasks", "cartpole", "--output_dir", str(tmp_path)]


class Finished:
    """A process that has done its work."""

    def wait(self):
        return 0


def test_the_version_is_the_commit_of_the_checkout():
    assert trained.version() == "" or len(trained.version().removesuffix("-dirty")) >= 7


def test_a_run_that_went_on_names_all_commits_that_made_it(tmp_path):
    assert trained.version_of_run(tmp_path, "ccccccc") == "ccccccc"
    for step, commit in ((2000, "b" * 40), (100, "a" * 40 + "-dirty"), (30000, "b" * 40)):
        text = json.dumps({"python": "3.11", "git_commit": commit})
        (tmp_path / f"versions_to_step_{step}.json").write_text(text)
    assert trained.version_of_run(tmp_path, "ccccccc") == "aaaaaaa-dirty+bbbbbbb+ccccccc"


SLEEPS = "import signal, sys, time; signal.signal(15, lambda *_: sys.exit(7)); print(1); time.sleep(60)"


def test_sigterm_ends_what_was_started_and_nothing_is_started_after(tmp_path):
    outputs, codes = [tmp_path / str(i) for i in range(3)], []

    def start(output):
        codes.append(children.run(["-u", "-c", SLEEPS], output, 0))

    with pytest.raises(SystemExit) as ended, children.ended_by_sigterm():
        threads = [threading.Thread(target=start, args=[output]) for output in outputs[:2]]
        for each in threads:
            each.start()
        while not all(output.exists() and output.read_text() for output in outputs[:2]):
            time.sleep(0.01)
        children.end()
        start(outputs[2])
        for each in threads:
            each.join()
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(10.0)
    assert sorted(codes) == [7, 7, 143] and ended.value.code == 143
