"""What nobody thought of: thousands of command lines, overrides, files and damaged runs, and no traceback.

`make test` tries some hundred of each, the same in every run; FUZZ=100000 in the environment that many.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil

import pytest
from fuzzing import command_lines, overrides, set_names, toml_files
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_runs import TINY, train, trainer_of

import rl
from rl import experiment
from rl.cli import main
from rl.errors import UsageError
from rl.hparams.merge import resolve
from rl.report.versions import write_run_files

MANY = int(os.environ.get("FUZZ", "0"))
EXITS = {0, 1, 2, 75}


def tried(count):
    """Settings of a test that `make test` runs with `count` examples."""
    return settings(
        max_examples=MANY or count,
        derandomize=not MANY,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


@pytest.fixture(autouse=True)
def _nothing_is_trained(tmp_path, monkeypatch):
    """What a command asks for is checked as ever, up to where the first copy would be trained."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("rl.cli.supervised", lambda: 0)
    monkeypatch.setattr(experiment, "_all_copies", lambda *_: ([], []))
    monkeypatch.setattr(experiment, "use_system", lambda _: None)


def typed(words):
    """Runs a command; returns its exit code and what it wrote to standard error."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(words)
        except SystemExit as end:  # of --help
            code = end.code or 0
    return code, err.getvalue()


@tried(100)
@given(command_lines())
def test_any_command_line_is_taken_or_refused_in_one_line(words):
    code, said = typed(words)
    assert code in EXITS, said
    if code == 2:
        errors = [line for line in said.splitlines() if line.startswith("error: ")]
        assert len(errors) == 1, said


@tried(300)
@given(set_names, overrides())
def test_any_override_is_taken_or_refused(names, text):
    with contextlib.suppress(UsageError):
        resolve(names, text)


@tried(100)
@given(toml_files())
def test_any_file_is_taken_or_refused(tmp_path_factory, text):
    path = tmp_path_factory.getbasetemp() / "mine.toml"
    path.write_text(text, errors="surrogateescape")
    with contextlib.suppress(UsageError):
        resolve(str(path))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A whole run: two checkpoints, the best policy, rows of metrics, a log."""
    folder = tmp_path_factory.mktemp("whole") / "run_0"
    for steps in (32, 64):
        hparams = resolve("ppo_identity", {**TINY, "train_steps": steps})
        train(hparams, folder)
        saved = {"name": "ppo_identity", "seed": 3, "hparams": hparams.to_dict()}
        write_run_files(folder, saved, "train.py --hparams ppo_identity", steps - 32 or None)
    return folder


@st.composite
def damages(draw):
    """What happens to a file: its number, and a function of its bytes; None removes it."""

    def at(content, share):
        return int(len(content) * share)

    share, new = draw(st.floats(0.0, 1.0)), draw(st.binary(max_size=8))
    kind = draw(st.sampled_from(["cut", "flip", "insert", "replace", "remove"]))
    change = {
        "cut": lambda content: content[: at(content, share)],
        "flip": lambda content: _flipped(content, min(at(content, share), len(content) - 1)),
        "insert": lambda content: content[: at(content, share)] + new + content[at(content, share) :],
        "replace": lambda content: new,
        "remove": lambda content: None,
    }[kind]
    return draw(st.integers(0, 10**6)), change


def _flipped(content, place):
    return content[:place] + bytes([content[place] ^ 0xFF]) + content[place + 1 :] if content else b"\0"


@tried(6)
@given(st.lists(damages(), min_size=1, max_size=3))
def test_any_damage_to_a_run_is_made_up_for_or_named_in_one_line(run, tmp_path_factory, found):
    copy = tmp_path_factory.mktemp("damaged") / "run_0"
    shutil.copytree(run, copy)
    files = sorted(path for path in copy.rglob("*") if path.is_file())
    for number, change in found:
        path = files[number % len(files)]
        content = change(path.read_bytes()) if path.exists() else None
        if content is None:
            path.unlink(missing_ok=True)
        else:
            path.write_bytes(content)
    for which in ("best", "last"):
        with contextlib.suppress(UsageError):
            rl.load(copy, which)
    with contextlib.suppress(UsageError):
        trainer_of(resolve("ppo_identity", {**TINY, "train_steps": 64}), copy, 3).close()
    shutil.rmtree(copy)
