"""What is typed wrong is one line and exit code 2, before anything is measured or written."""

from __future__ import annotations

import argparse
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

import shared

ROOT = shared.ROOT
WRONG = [
    "adaptation /nowhere",
    "before nosuch",
    "before HEAD --only nosuch",
    "bench --runs 0",
    "bench --report",
    "compile_and_memory --hparams nosuch",
    "compile_and_memory --report",
    "dreams /nowhere",
    "endurance --kills 0",
    "endurance --victims nosuch",
    "evaluate",
    "evaluate 10 /nowhere 1",
    "evaluate 10 /nowhere",
    "flat --hparams nosuch",
    "flat --report",
    "generalization --run /nowhere",
    "generic --peer_only",
    "generic --seeds 0",
    "generic --first_seed 3",
    "guard nosuch",
    "learning --hparams nosuch",
    "learning --jobs 0",
    "learning --episodes 10",
    "offline_peers --cpus 4096 --libraries ours",
    "offline_peers --libraries ours --data /nowhere",
    "ours dqn --envs 0",
    "ours_workers nosuch",
    "report",
    "scale --workers 0",
    "scaling --only nosuch",
    "matches TicTacToe-v0 /nowhere random",
    "torture --jobs 0",
    "torture --kinds nosuch",
    "torture --report",
    "tree_search --mctx /nonexistent",
    "trials /nowhere",
]
WITHOUT_RESULTS = {"adaptation", "dreams", "evaluate", "generalization", "guard", "ours", "ours_workers"}
WITHOUT_RESULTS |= {"matches", "scale", "tree_search", "trials"}


@pytest.mark.parametrize("words", WRONG)
def test_a_mistake_is_one_line(words, tmp_path, monkeypatch, capsys):
    name, *rest = words.split()
    if name not in WITHOUT_RESULTS:
        rest += ["--results", str(tmp_path / "results")]
    if name == "offline_peers":
        rest += ["--work", str(tmp_path / "work")]
    monkeypatch.setattr(sys, "argv", [f"{name}.py", *rest])
    monkeypatch.setattr(subprocess, "Popen", None if name != "before" else subprocess.Popen)
    script = importlib.import_module(name)
    with pytest.raises(SystemExit) as ended:
        shared.answer(script.main)
    said = capsys.readouterr().err
    assert ended.value.code == 2 and said.startswith("error: ") and said.count("\n") == 1
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize("words", ["duel.py", "duel.py /nowhere dqn", "duel.py . "])
def test_the_sides_of_a_duel_say_a_mistake_without_the_package(words):
    command = [sys.executable, *words.split()]
    done = subprocess.run(command, cwd=ROOT / "benchmarks", capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and done.stderr.startswith("error: ") and done.stderr.count("\n") == 1


@pytest.mark.parametrize("name", ["arithmetic", "duel", "evaluate"])
def test_help_is_of_the_flags_and_measures_nothing(name, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [f"{name}.py", "--help"])
    script = importlib.import_module(name)
    with pytest.raises(SystemExit) as ended:
        script.main()
    assert ended.value.code == 0 and capsys.readouterr().out.startswith(f"usage: {name}.py")


def test_numbers_are_finite_and_not_below_the_least():
    assert [shared.number(0.0)(text) for text in ("2.5", "0")] == [2.5, 0.0]
    for text in ("-1", "nan", "inf", "x"):
        with pytest.raises(argparse.ArgumentTypeError, match="needs a number >= 0"):
            shared.number(0.0)(text)
    with pytest.raises(argparse.ArgumentTypeError, match="needs a number > 0"):
        shared.number(0.0, above=True)("0")


def test_a_command_can_be_ended_where_its_arguments_are_known(monkeypatch):
    class Understood(Exception):
        """Instead of hours of measurement."""

    def understood(*_):
        raise Understood

    monkeypatch.setattr(sys, "argv", ["bench.py", "--runs", "3"])
    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", understood)
    with pytest.raises(Understood):  # so `tests/test_pages.py` reads the commands of the pages
        importlib.import_module("bench").main()


def test_a_table_is_written_whole_or_not_at_all(tmp_path):
    path = tmp_path / "new" / "table.csv"
    shared.write_table(path, ("a", "b"), [{"a": 1, "b": 2, "more": 3}])
    assert shared.read_table(path) == [{"a": "1", "b": "2"}]

    def rows():
        yield {"a": 5, "b": 6}
        raise RuntimeError

    with pytest.raises(RuntimeError):
        shared.write_table(path, ("a", "b"), rows())
    assert shared.read_table(path) == [{"a": "1", "b": "2"}]
    assert shared.read_table(tmp_path / "none.csv") == []
