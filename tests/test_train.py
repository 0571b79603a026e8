"""train.py where the environment is not active: another Python, which has not what it needs."""

from __future__ import annotations

import ast
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

TRAIN = Path(__file__).parents[1] / "train.py"
WORDS = ["--hparams", "dqn_cartpole", "--train_steps", "1000"]


@pytest.mark.parametrize("version", [(3, 4), (3, 7), (3, 10)])
def test_old_pythons_can_read_it(version):
    ast.parse(TRAIN.read_text(), feature_version=version)
    assert "__future__" not in TRAIN.read_text(), "Python 3.6 does not know annotations"


@pytest.mark.parametrize("version", [(2, 7, 18), (3, 6, 15), (3, 8, 18), (3, 10, 13)])
def test_an_old_python_is_told_in_one_line_which_one_is_needed(monkeypatch, capsys, version):
    monkeypatch.setattr(sys, "version_info", (*version, "final", 0))
    monkeypatch.setattr(sys, "version", f"{'.'.join(map(str, version))} (main)")
    with pytest.raises(SystemExit) as end:
        runpy.run_path(str(TRAIN), run_name="__main__")
    monkeypatch.undo()
    out, err = capsys.readouterr()
    assert (end.value.code, out) == (2, "") and err.count("\n") == 1
    assert err.startswith(f"error: Python 3.11 or 3.12 is needed, and {sys.executable} is ")
    assert ".".join(map(str, version)) in err and "source .venv/bin/activate" in err


def bare(folder, *words, script=(str(TRAIN),)):
    """Runs train.py, or another script, without any package that is installed."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    command = [sys.executable, "-S", *script, *words]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment, timeout=60)


@pytest.mark.parametrize("words", [WORDS, ["--list", "hparams", "dqn_cartpole"]])
def test_a_python_without_the_packages_is_told_in_one_line_where_they_are(tmp_path, words):
    done = bare(tmp_path, *words)
    assert (done.returncode, done.stdout) == (2, "") and done.stderr.count("\n") == 1
    assert f"is not installed for {sys.executable}: source .venv/bin/activate, or ./setup.sh" in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_python_without_the_packages_still_helps_and_lists(tmp_path):
    assert "--hparams SET" in bare(tmp_path, "--help").stdout
    assert "CartPole-v1" in bare(tmp_path, "--list", "envs").stdout


@pytest.mark.parametrize("name, code", [("algos", 0), ("hparams no_such", 2)])
def test_what_others_do_at_an_exit_is_done_and_what_they_say_is_seen(tmp_path, name, code):
    (tmp_path / "mine.py").write_text(
        "import atexit, sys\natexit.register(sys.stdout.write, 'done at last')\n"
    )
    words = ["--user_modules", str(tmp_path / "mine.py"), "--list", *name.split()]
    done = subprocess.run([sys.executable, str(TRAIN), *words], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout.endswith("done at last")) == (code, True)


def test_the_generator_of_manifests_tells_it_too(tmp_path):
    start = f"import sys; sys.path.insert(0, {str(TRAIN.parent)!r}); import k8s.generate as generate; "
    start += "sys.exit(generate.main())"
    words = ["--hparams", "dqn_cartpole", "--image", "a/b:c", "--output_dir", "gs://bucket/run"]
    done = bare(tmp_path, *words, script=("-c", start))
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert f"is not installed for {sys.executable}: source .venv/bin/activate" in done.stderr
    assert not list(tmp_path.iterdir())
