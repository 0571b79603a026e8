"""The fault campaign: a few of its faults, its judgement, and that it goes on where it was ended."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

import torture
from faulted import cases
from faulted.cases import KINDS, Case, Failed, Final

FEW = ["sigkill_checkpoint", "newest_checkpoint_flipped"]
MANY = [
    "hparams_replaced",
    "sigterm",
    "sigstop",
    "disk_small",
    "file_size",
    "best_truncated",
    "rows_missing",
    "nan_loss",
    "clock",
]


def faults(tmp_path, kinds, count, seed=0):
    words = ["--kinds", *kinds, "--faults", str(count), "--jobs", "1", "--seed", str(seed)]
    return torture.main([*words, "--work", str(tmp_path / "work"), "--results", str(tmp_path)])


@pytest.mark.slow
def test_runs_stand_a_few_faults_and_none_is_done_twice(tmp_path, monkeypatch):
    assert faults(tmp_path, FEW, 2, seed=36) == 0, (tmp_path / "torture.md").read_text()
    rows = torture.read(tmp_path / "torture.csv")
    assert sorted(row["kind"] for row in rows) == sorted(FEW)
    assert not list((tmp_path / "work/cases").iterdir())
    monkeypatch.setattr(torture, "judged", None)
    assert faults(tmp_path, FEW, 2, seed=36) == 0
    assert torture.read(tmp_path / "torture.csv") == rows
    page = (tmp_path / "torture.md").read_text()
    assert "2 faults of 2 kinds" in page and "none of which failed" in page


@pytest.mark.slow
def test_runs_stand_faults_of_many_kinds(tmp_path):
    assert faults(tmp_path, MANY, 16, seed=1) == 0, (tmp_path / "torture.md").read_text()


def test_a_whole_campaign_is_large_and_begins_with_one_of_each_kind():
    plan = torture.planned(list(KINDS), None)
    assert len(plan) == len(set(plan)) >= 400 and len(KINDS) >= 20
    assert {kind for kind, _ in plan[: len(KINDS)]} == set(KINDS)
    assert len(torture.planned(list(KINDS), 1000)) >= 950


class Ended:
    """A command that is over."""

    def __init__(self, code, text, left=()):
        self.code, self.text, self.remaining = code, text, list(left)

    def wait(self):
        return self.code

    def left(self):
        return self.remaining


@pytest.mark.parametrize(
    ("run", "why"),
    [
        (Ended(1, "Traceback (most recent call last):\nKeyError: 'seed'"), "Traceback.*KeyError: 'seed'"),
        (Ended(None, "waiting"), "hangs: waiting"),
        (Ended(0, "", [1]), "processes are left"),
        (Ended(75, "error: a\nerror: b"), "code 75 in 2 lines"),
        (Ended(139, "gone"), "code 139, expected"),
    ],
)
def test_what_a_command_may_not_end_with_is_told(tmp_path, run, why):
    with pytest.raises(Failed, match=why):
        Case("sigterm", 0, 0, tmp_path).ended(run, {0, 75})


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (None, "ended at step None"),
        (Final(960, {}, b""), "ended at step 960"),
        (Final(1024, {".data": 2}, b"rows"), "other weights"),
        (Final(1024, {".data": 1}, b"other"), "other rows"),
    ],
)
def test_a_run_that_is_not_the_undisturbed_one_is_told(tmp_path, monkeypatch, found, why):
    monkeypatch.setattr(cases, "final", lambda _: found)
    monkeypatch.setattr(Case, "reference", lambda *_: Final(1024, {".data": 1}, b"rows"))
    with pytest.raises(Failed, match=why):
        Case("sigterm", 0, 0, tmp_path).came_to("ppo", tmp_path, rows=True, exact=True)
