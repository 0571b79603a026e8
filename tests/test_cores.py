"""How many processors a process may use: bound to them, or limited by its container."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rl import cores

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize(
    ("content", "count"),
    [
        ("max 100000", 8),
        ("250000 100000", 3),  # 2.5 processors' time
        ("50000 100000", 1),
        ("6400000 100000", 8),
        ("", 8),
        ("400000", 8),
        (None, 8),  # no cgroup v2
    ],
)
def test_a_containers_limit_counts_where_it_is_the_lower(content, count, tmp_path, monkeypatch):
    if content is not None:
        (tmp_path / "cpu.max").write_text(content)
    monkeypatch.setattr(cores, "LIMIT", tmp_path / "cpu.max")
    monkeypatch.setattr(cores, "bound", lambda: 8)
    assert cores.usable() == count


# What the environment says at the moment when TensorFlow would be imported.
PROGRAM = """
import os, pathlib, sys
from rl import cores, imports
cores.bound, cores.LIMIT = lambda: 64, pathlib.Path(sys.argv[1])

def imported(name):
    if name == "tensorflow":
        print(os.environ.get("TF_NUM_INTRAOP_THREADS"), os.environ.get("TF_NUM_INTEROP_THREADS"))

imports.importlib.import_module = imported
imports.import_tensorflow()
"""


def test_tensorflow_has_no_more_threads_than_a_container_gives_time_for(tmp_path):
    (tmp_path / "cpu.max").write_text("400000 100000")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TF_NUM_")}
    words = [sys.executable, "-c", PROGRAM, str(tmp_path / "cpu.max")]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.split() == ["4", "4"]
