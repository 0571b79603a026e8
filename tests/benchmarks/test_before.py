"""Two trees take turns at a workload, and what they took becomes a row."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

import before
import duel

OURS = """\
import sys
class Args: seed = 3
def parse():
    with open("workload", "w") as file:
        file.write(" ".join(sys.argv[1:]))
    return Args()
def resolve_hparams(args): return None
"""
BUILD = """\
import time
class Runner:
    step, steps_per_iteration = 0, 100
    def run(self, iterations):
        with open("ran", "a") as file:
            file.write(f"{iterations}\\n")
        self.step += 100 * iterations
        time.sleep(SECONDS * iterations)
def build_runner(hparams, seed): return Runner()
"""


MERGE = """\
class HParams: min_replay_size, num_envs = 1_000, 8
def resolve(name, overrides):
    with open("workload", "w") as file:
        file.write(f"{name} {overrides}")
    return HParams()
"""


def a_tree(folder, seconds):
    """A tree whose iterations take that long."""
    for name, text in (
        ("benchmarks/ours.py", OURS),
        ("rl/hparams/merge.py", MERGE),
        ("rl/runners/build.py", f"SECONDS = {seconds}\n{BUILD}"),
    ):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text(text)
    return folder


def test_both_trees_make_the_same_iterations_of_the_same_workload(tmp_path, monkeypatch):
    monkeypatch.setattr(duel, "BURST_S", 0.02)
    trees = [a_tree(tmp_path / "before", 0.004), a_tree(tmp_path / "after", 0.001)]
    found = duel.duel(trees, ["dqn", "--envs", "10"], dict(os.environ), turns=3)
    assert [(tree / "workload").read_text() for tree in trees] == ["dqn --envs 10"] * 2
    first, second = ([int(each) for each in (tree / "ran").read_text().split()] for tree in trees)
    assert first[-3:] == second[-3:] and len(set(second[-3:])) == 1
    assert 100 * sum(second[:-3]) >= duel.WARM_STEPS  # it learned before it was measured
    assert found.rates[0] <= 100 / 0.004 and found.rates[1] <= 100 / 0.001  # none slept less than it was told


def test_a_named_set_is_measured_as_each_tree_has_it_once_its_memory_gives_batches(tmp_path, monkeypatch):
    monkeypatch.setattr(duel, "BURST_S", 0.02)
    trees = [a_tree(tmp_path / "before", 0.001), a_tree(tmp_path / "after", 0.001)]
    found = duel.duel(trees, ["set", "sac_pendulum"], dict(os.environ), turns=1)
    assert [(tree / "workload").read_text() for tree in trees] == ["sac_pendulum {}"] * 2
    ran = [int(each) for each in (trees[0] / "ran").read_text().split()]
    assert ran[:6] == [1, 2, 2, 2, 2, 2]  # a compiling one, then till more than 1,000 steps, 100 in each
    assert ran[6] == 1 and found.ratio > 0  # the first of those that find how many take a quarter of a second


def test_an_iteration_that_takes_long_takes_fewer_turns(tmp_path, monkeypatch):
    monkeypatch.setattr(duel, "BURST_S", 0.002)
    monkeypatch.setattr(duel, "TURNS_S", 0.0)
    trees = [a_tree(tmp_path / "before", 0.001), a_tree(tmp_path / "after", 0.001)]
    duel.duel(trees, ["set", "sac_pendulum"], dict(os.environ), turns=40)
    first, second = ((tree / "ran").read_text().split() for tree in trees)
    assert len(second) == 6 + duel.FEWEST_TURNS and len(first) > len(second)  # the first one finds the number


def test_a_tree_that_cannot_run_the_workload_says_why(tmp_path):
    trees = [a_tree(tmp_path / "before", 0.0), a_tree(tmp_path / "after", 0.0)]
    (trees[1] / "benchmarks" / "ours.py").write_text("raise SystemExit('no such workload')")
    with pytest.raises(RuntimeError, match="no such workload"):
        duel.duel(trees, ["dqn"], dict(os.environ), turns=1)


def test_the_page_names_the_command_as_typed_and_there_is_none_without_rows():
    text = before.page("python benchmarks/before.py HEAD~3 --rounds 2", ("aaa", "bbb"), ["| x |"])
    assert "Written by `python benchmarks/before.py HEAD~3 --rounds 2`: aaa beside bbb" in text
    assert text.endswith("| x |\n") and before.page("", ("aaa", "bbb"), []) == ""


def test_a_tree_that_hangs_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(duel, "TIMEOUT_S", 1.0)
    trees = [a_tree(tmp_path / "before", 3600.0), a_tree(tmp_path / "after", 0.0)]
    with pytest.raises(RuntimeError, match="no answer within 1 s"):
        duel.duel(trees, ["dqn"], dict(os.environ), turns=1)


def test_rounds_become_a_row_of_medians_and_of_the_ratios_range():
    rows = [
        {"run": "ours_dqn_10", "rates": rates, "ratio": ratio, "compile_s": compiled, "noisy": noisy}
        for rates, ratio, compiled, noisy in (
            ([100.0, 90.0], 0.91, [4.0, 5.0], False),
            ([200.0, 210.0], 1.04, [2.0, 3.0], True),
            ([120.0, 120.0], 1.0, [3.0, 4.0], False),
        )
    ]
    cells = "env_steps_per_s | 120 | 120 | 1.00 (0.91 to 1.04) | 3.0 | 4.0 | 3 (1)"
    assert before.line("ours_dqn_10", rows) == f"| ours_dqn_10 | {cells} |"
    assert before.line("ours_dqn_1", rows) == ""
    renamed = [row | {"run": "set sac_pendulum"} for row in rows]
    assert before.line("set sac_pendulum", renamed) == f"| set sac_pendulum | {cells} |"
    whole = {"run": "ours_whole", "rates": [8.0, 10.0], "ratio": 0.8, "compile_s": None, "noisy": False}
    assert (
        before.line("ours_whole", [whole])
        == "| ours_whole | wall_s | 8.0 | 10.0 | 0.80 (0.80 to 0.80) |  |  | 1 (0) |"
    )
