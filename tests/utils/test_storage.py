"""Who may train in a local folder."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from rl.errors import UsageError
from rl.utils import storage
from rl.utils.storage import storage_at

ROOT = Path(__file__).resolve().parents[2]
HOLDER = """
    import sys, time
    from rl.utils.storage import storage_at
    with storage_at(sys.argv[1]).to_train():
        print("trains", flush=True)
        time.sleep(600)
"""


@pytest.fixture(autouse=True)
def no_patience(monkeypatch):
    monkeypatch.setattr(storage, "PATIENCE", 0.0)


def test_a_second_trainer_of_a_folder_is_refused_until_the_first_is_gone(tmp_path):
    command = [sys.executable, "-c", textwrap.dedent(HOLDER), str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as holder:
        assert holder.stdout.readline() == "trains\n"
        refused = pytest.raises(UsageError, match="another process trains in")
        with refused, storage_at(tmp_path).to_train():
            pass
        with storage_at(tmp_path).to_read():  # testing and loading may go on
            pass
        holder.kill()
    with storage_at(tmp_path).to_train():
        pass


def test_a_folder_that_begins_is_held_from_its_first_file_on(tmp_path):
    folder = tmp_path / "run_0"
    first, second = storage_at(folder), storage_at(folder)
    with first.to_train(), second.to_train():
        folder.mkdir()
        first.begin()
        with pytest.raises(UsageError, match="another process trains in"):
            second.begin()
    with storage_at(folder).to_train():
        pass
