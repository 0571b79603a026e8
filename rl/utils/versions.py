"""What a run was made with: `hparams.json`, `command.txt` and `versions.json` beside its results."""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import rl
from rl.utils.files import (
    ensure_writable_dir,
    failure,
    read_text,
    reason,
    set_aside,
    write_json_atomic,
    write_text_atomic,
)

__all__ = [
    "collect_versions",
    "command_line",
    "ensure_writable_dir",
    "write_json_atomic",
    "write_run_files",
    "write_text_atomic",
]

# One import name, several distributions: TensorFlow's wheels differ by accelerator.
_DISTRIBUTIONS = {
    "tensorflow": ("tensorflow", "tensorflow-cpu", "tensorflow-tpu", "tf-nightly"),
    "keras": ("keras",),
    "numpy": ("numpy",),
    "gymnasium": ("gymnasium",),
    "envpool": ("envpool",),
}


def collect_versions() -> dict[str, str | None]:
    """Versions by name, None for what is not installed; nothing is imported for it."""
    versions: dict[str, str | None] = {"python": platform.python_version(), "platform": platform.platform()}
    for name, distributions in _DISTRIBUTIONS.items():
        versions[name] = next(filter(None, map(_distribution_version, distributions)), None)
    versions["rl"] = getattr(rl, "__version__", None)
    versions["git_commit"] = _git_commit(Path(rl.__file__).resolve().parents[1])
    return versions


def command_line(arguments: Sequence[str] | None = None) -> str:
    """The command that started this process (or `arguments`), quoted so that a shell takes it back."""
    return shlex.join(["python", *sys.argv] if arguments is None else arguments)


def write_run_files(run_dir: str | os.PathLike[str], hparams: Mapping[str, Any], command: str) -> None:
    """Write `hparams.json` and `versions.json`, and add a dated line to `command.txt`: one for each start.

    Raises UsageError when they cannot be written.
    """
    run_dir = ensure_writable_dir(run_dir)
    commands = run_dir / "command.txt"
    try:
        earlier = read_text(commands)
    except FileNotFoundError:
        earlier = ""
    except ValueError:  # no run ends for its list of commands
        set_aside(commands)
        earlier = ""
    except OSError as error:
        raise failure(f"cannot read {commands} ({reason(error)})", error) from error
    now = datetime.now().astimezone().isoformat(timespec="seconds")
    write_json_atomic(run_dir / "hparams.json", hparams)
    write_json_atomic(run_dir / "versions.json", collect_versions())
    write_text_atomic(commands, f"{earlier}{command}  # {now}\n")


def _distribution_version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _git_commit(root: Path) -> str | None:
    """The commit of the checkout at `root`, with `-dirty` when files differ from it; None outside of one."""
    if not (
        root / ".git"
    ).exists():  # git itself would look in the folders above, e.g. of a virtual environment
        return None
    command = ["git", "-C", str(root), "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.strip() or None
