"""Addresses of remote places, such as `gs://bucket/folder`, as text. Nothing here imports TensorFlow."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Collection
from pathlib import Path

from rl.errors import UsageError, nearest

_RUNS = ("hparams.json", "run_0/hparams.json")  # what a run has, and the folder that one is in
_LONGEST = 100  # characters of a folder's name
_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_TORN = re.compile(r"(file|gs|hdfs|ram|s3):(?!//)/*", re.IGNORECASE)


def scheme_of(address: str | os.PathLike[str]) -> str | None:
    """Returns the scheme that an address begins with (`gs`), None for a path of this machine."""
    match = _ADDRESS.match(address) if isinstance(address, str) else None
    return None if match is None else match[1]


def is_remote(address: str | os.PathLike[str]) -> bool:
    """Says whether it is an address; else it is a path of this machine."""
    return scheme_of(address) is not None


def check_whole(address: str | os.PathLike[str], flag: str = "--output_dir") -> None:
    """Raises UsageError for a path that was meant as an address, as `pathlib` leaves one: `gs:/bucket`."""
    torn = _TORN.match(os.fspath(address))
    if torn:
        root = "/" if torn[1].lower() == "file" else ""
        meant = f"{torn[1]}://{root}{os.fspath(address)[torn.end() :]}"
        raise UsageError(f"{flag} {os.fspath(address)}: did you mean {meant} (as text, not as a path)?")


def check_recorded(folder: str, num_workers: int) -> None:
    """Raises UsageError where --record_data is not possible: its folder is remote, or workers play."""
    if not folder or is_remote(folder):
        raise UsageError(f"--record_data {folder!r}: name a folder of this machine, such as data/cartpole")
    check_whole(folder, "--record_data")
    if num_workers:
        raise UsageError(
            "--record_data and --num_workers: workers cannot record what they play; take one of them"
        )


def check_run(address: str, flag: str) -> None:
    """Raises UsageError where a path of this machine holds no run, nor is the folder that one is in."""
    run = Path(address)
    if is_remote(address) or any((run / place).exists() for place in _RUNS):
        return
    near = folders_with(run.parent if os.path.isdir(run.parent) else Path(), *_RUNS)
    hint = runs_inside(run) or (f" ({nearest(run.name, near)})" if near else "")
    raise UsageError(f"there is no run in {run}{hint}: train one there first, or name another {flag}")


def runs_inside(place: Path) -> str:
    """Returns which folders in a folder that is no run are runs, for messages; empty where none is."""
    found = folders_with(place, *_RUNS)
    return f" but in {', '.join(found[:8])}" if found else ""


def folders_with(place: Path, *files: str) -> list[str]:
    """Returns the names of the folders in a folder that have one of these files, for messages: what cannot be
    read is left out."""
    try:
        names = sorted(os.listdir(place))
    except OSError:
        return []
    return [name for name in names if any(os.path.exists(place / name / each) for each in files)]


def output_beside(
    run: str, to: str | None, name: str, writes: Collection[str], made: Callable[[Path], bool], force: bool
) -> Path:
    """Returns the output folder for something made from a run (an export, a publication): `to`, or `name` in
    the run's folder.

    writes: names of all that is ever written into such a folder: one that has more is somebody's own.
    made: says whether a folder that is there is an earlier output, which `force` replaces.

    Raises:
        UsageError: the run is remote and no folder is named; the folder exists and `force` is false, or it is
            not an earlier output: it is the run's own, or has other contents.
    """
    if to is None and is_remote(run):
        raise UsageError("--to: name a local folder, the run is at a remote address")
    place = Path(run)
    if not (place / "hparams.json").exists() and (place / "run_0" / "hparams.json").exists():
        place = place / "run_0"
    target = place / name if to is None else Path(os.path.abspath(to))
    if not target.exists():
        return target
    if not target.is_dir():
        raise UsageError(f"--to {target}: that is a file; name a folder")
    if not is_remote(run) and target.resolve() in (place.resolve(), *place.resolve().parents):
        raise UsageError(f"--to {target}: the run {place} is there; name another folder")
    there = sorted(os.listdir(target))
    others = [each for each in there if each not in writes]
    if others or (there and not made(target)):
        what = others[0] if others else "what is there"
        raise UsageError(f"--to {target}: {what} was not made by this command; name another folder")
    if not force:
        raise UsageError(f"{target} is there already: take --force to replace it, or name another --to")
    return target


def join(address: str, *names: str) -> str:
    """Returns what lies below an address, or a path of this machine."""
    for name in names:
        address = address + name if address.endswith("/") else f"{address}/{name}"
    return address


def default_output(
    name: str, env: str | None = None, overrides: str = "", seed: int = 0, num_workers: int = 0
) -> str:
    """Returns the default folder of a run: `runs/NAME`, followed by the other settings, so that different
    runs have different folders: `runs/ppo-Acrobot-v1-lr=0.001-seed_3-workers_2`; for a set in a file
    `runs/FILE`."""
    parts = [
        os.path.normpath(name.removesuffix(".toml")),
        env,
        overrides,
        f"seed_{seed}" if seed else "",
        f"workers_{num_workers}" * bool(num_workers),
    ]
    text = "-".join(filter(None, parts))
    readable = re.sub(r"[^A-Za-z0-9.,=+_-]+", "_", text)
    if len(readable) > _LONGEST:
        digest = hashlib.sha256(text.encode()).hexdigest()[:8]
        readable = f"{readable[: _LONGEST - 9]}-{digest}"
    return os.path.join("runs", readable)
