"""The worked example of CONTRIBUTING.md is true: two files, and the registry walk passes."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys

import pytest
from pages import ROOT, steps


@pytest.mark.slow
def test_the_worked_example_is_found_and_passes_the_registry_walk(tmp_path):
    for folder in ("rl", "tests"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("train.py", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
    files = [step for step in steps("CONTRIBUTING.md") if step.kind == "file"]
    assert len(files) == 2
    for step in files:
        (tmp_path / step.name).write_text(step.text)
    walk = [sys.executable, "-m", "pytest", "-q", "tests/test_all_algos.py", "-k", "reinforce"]
    done = subprocess.run(walk, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:]
    assert re.search(r"[4-9] passed", done.stdout), done.stdout[-3000:]
