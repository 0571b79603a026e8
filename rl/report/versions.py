"""The provenance of a run: `hparams.json`, `command.txt` and `versions.json` beside its results."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import platform
import re
import subprocess
import sys
from collections.abc import Mapping
from datetime import datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from rl.storage.files import (
    ensure_writable_dir,
    failure,
    load_json,
    patiently,
    reason,
    set_aside,
    text_if_sound,
    write_json_atomic,
    write_text_atomic,
)
from rl.version import __version__

_log = logging.getLogger("rl.versions")

# One import name, several distributions: TensorFlow's wheels differ by accelerator.
_DISTRIBUTIONS = {
    "tensorflow": ("tensorflow", "tensorflow-cpu", "tensorflow-tpu", "tf-nightly"),
    "keras": ("keras",),
    "numpy": ("numpy",),
    "gymnasium": ("gymnasium",),
    "envpool": ("envpool",),
    "pettingzoo": ("pettingzoo",),
}


CODE = "code of "  # before the names of the user's own modules


def collect_versions() -> dict[str, str | None]:
    """Returns versions by name, None for what is not installed; nothing is imported for it."""
    versions: dict[str, str | None] = {"python": platform.python_version(), "platform": platform.platform()}
    for name, distributions in _DISTRIBUTIONS.items():
        versions[name] = next(filter(None, map(_distribution_version, distributions)), None)
    versions["rl"] = __version__
    versions["git_commit"] = _git_commit(Path(__file__).resolve().parents[2])
    return versions


def write_run_files(
    run_dir: str | os.PathLike[str], hparams: Mapping[str, Any], command: str, resumed_at: int | None = None
) -> None:
    """Writes `hparams.json` and `versions.json`, and adds a dated line to `command.txt`: one for each start.

    resumed_at: the step from which the run is resumed, None for a new run. If it was trained with other
        versions until then, one line says so, and these are kept as `versions_to_step_N.json`.

    Raises UsageError when they cannot be written.
    """
    run_dir = ensure_writable_dir(run_dir)
    commands, versions = run_dir / "command.txt", run_dir / "versions.json"
    try:
        earlier, before = text_if_sound(commands) or "", text_if_sound(versions)
    except OSError as error:
        raise failure(f"cannot read {error.filename or run_dir} ({reason(error)})", error) from error
    now = datetime.now().astimezone().isoformat(timespec="seconds")
    current = collect_versions() | _own_code(hparams)
    write_json_atomic(run_dir / "hparams.json", hparams)
    if before is not None and resumed_at is not None:
        _keep_versions(versions, before, current, resumed_at)
    write_json_atomic(versions, current)
    write_text_atomic(commands, f"{earlier}{command}  # {now}\n")


def _own_code(hparams: Mapping[str, Any]) -> dict[str, str]:
    """Returns abbreviated SHA-256 hashes of the user's own modules that are files: those that registered
    parts, and that of an environment `module:name`."""
    named = [*hparams.get("user_modules", ()), str(hparams.get("hparams", {}).get("env")).partition(":")[0]]
    found = {}
    for name in named:
        module = sys.modules.get(Path(name).stem if name.endswith(".py") else name)
        file = getattr(module, "__file__", None)
        if file is not None:
            with contextlib.suppress(OSError):
                found[f"{CODE}{name}"] = hashlib.sha256(Path(file).read_bytes()).hexdigest()[:10]
    return found


def _keep_versions(path: Path, before: str, current: dict[str, str | None], step: int) -> None:
    """Keeps the versions that a run was made with until `step`, and says so, where they are others now."""
    try:
        there = dict(load_json(before))
    except (ValueError, TypeError):
        why = "cannot be read: it is written anew, and what was there"
        patiently(lambda: set_aside(path, why), f"cannot rename {path}")
        return
    known = [name for name in current if name in there or not name.startswith(CODE)]  # older files have none
    changed = [name for name in known if name != "platform" and there.get(name) != current[name]]
    if not changed:
        return
    kept = path.with_name(f"versions_to_step_{step}.json")
    if not patiently(kept.exists, f"cannot read {kept}"):  # else what came between has left no step
        write_text_atomic(kept, before)
    said = "; ".join(f"{name} was {_short(there.get(name))}, is {_short(current[name])}" for name in changed)
    _log.warning(
        "%s goes on from step %s with other versions (%s): see %s", path.parent, f"{step:,}", said, kept.name
    )


def _short(version: object) -> str:
    """Returns a version, a commit's with 10 of its digits."""
    return re.sub(r"^([0-9a-f]{10})[0-9a-f]{30}\b", r"\1", str(version))


def _distribution_version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _git_commit(root: Path) -> str | None:
    """Returns the commit of the checkout at `root`, with `-dirty` when files differ from it; None outside of
    one."""
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
