"""A search's database that fails: what may pass ends with 75, in one line."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import optuna
import pytest

from rl.errors import Unavailable, UsageError
from rl.hparams.ppo import ppo_cartpole
from rl.hparams.spaces import space_of
from rl.tune import search
from rl.tune.database import kept, not_opened, storage_of
from rl.tune.runs import Command


def full(path):
    """A study whose database takes no further page, as on a full disk."""
    study = optuna.create_study(storage=f"sqlite:///{path}", study_name="s")
    pages = sqlite3.connect(path).execute("PRAGMA page_count").fetchone()[0]
    engine = study._storage._backend.engine
    with engine.connect() as connection:
        connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
    return study


def test_a_full_disk_met_by_a_study_is_one_line_after_which_the_same_command_goes_on(tmp_path):
    study = full(tmp_path / "study.db")
    with (
        pytest.raises(
            Unavailable, match=r"--study here: its database fails now \(database or disk is full\)"
        ),
        kept("here"),
    ):
        for _ in range(1000):
            trial = study.ask()
            trial.set_user_attr("text", "x" * 1000)
            study.tell(trial, 0.0)


def test_a_full_disk_met_while_a_study_is_described_is_one_line_too(tmp_path, monkeypatch):
    there, hparams = full(tmp_path / "study.db")._storage, ppo_cartpole().freeze()
    monkeypatch.setattr(search, "storage_of", lambda _: there)
    seeds = range(1000)  # a long description
    plan = search.Plan(hparams, space_of(hparams), seeds, "last", lambda *_: Command((), tmp_path), str)
    with pytest.raises(Unavailable, match=r"--study here: its database fails now .*disk is full"):
        search.open_study("here", Path("s"), plan, search.make_pruner("none", 4))


def test_only_what_may_pass_is_unavailable():
    with pytest.raises(KeyError), kept("here"):
        raise KeyError("a fault of the program")
    with pytest.raises(UsageError, match="all trials failed") as found, kept("here"):
        raise UsageError("all trials failed: disk is full of them")
    assert type(found.value) is UsageError
    assert type(not_opened("there", ValueError("nosuch dialect"))) is UsageError
    error = ValueError("of the library")
    error.__cause__ = sqlite3.OperationalError("disk I/O error")
    assert type(not_opened("there", error)) is Unavailable
    assert str(not_opened("there", error)) == "--study there: cannot open it (disk I/O error)"


def test_the_database_of_a_folder_is_in_it_whatever_the_folder_is_called(tmp_path):
    folder = tmp_path / "why? {x} 50%20#1"
    folder.mkdir()
    for _ in range(2):
        study = optuna.create_study(
            storage=storage_of(folder / "study.db"), study_name="s", load_if_exists=True
        )
        study.add_trial(optuna.trial.create_trial(value=1.0))
    assert len(study.trials) == 2  # the second time it was found again
    assert [each.name for each in folder.iterdir()] == ["study.db"] and list(tmp_path.iterdir()) == [folder]
    assert storage_of("sqlite:///x.db") == "sqlite:///x.db" and storage_of(None) is None
