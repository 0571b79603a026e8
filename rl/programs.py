"""Compiled programs, kept from process to process: a set that ran before starts without XLA's compilation.

TensorFlow keeps them, in a folder that it is told before it is imported. What it does not do is done here: it
ends a run over a file that is damaged, and cannot tell this machine from another one. So each machine,
version of TensorFlow and setting of XLA has a folder of its own, which belongs to the user alone; every file
gets a checksum when the process that wrote it ends, and whatever differs from its own is gone before
TensorFlow looks. The same program comes to the same bits, compiled or kept.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import platform
import shutil
import sys
import time
import zlib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from rl import cores

FOLDER = "RL_PROGRAM_CACHE"  # environment variable: another folder than the user's cache, or "off"
FLAG = "--tf_xla_persistent_cache_directory"
FREE = 1 << 30  # bytes that must be free on the disk, since TensorFlow ends a run where one cannot be written
LARGEST = 1 << 28  # bytes of a folder's programs together; the oldest go
YOUNG = 600.0  # seconds in which a file without a checksum may be one that another process is still using
OLD = 30 * 86_400.0  # seconds after which what other versions or settings kept is deleted
SUM = ".crc32"  # a program's file and this: its checksum
DOTS = "--xla_cpu_experimental_ynn_fusion_type"  # of XLA: what YNNPACK computes in place of its own code
TENSORFLOW = ("tensorflow", "tensorflow-cpu", "tensorflow-tpu")  # packages, of which one is installed
KNOW_DOTS = ("2.21.", "0.10.")  # releases of TensorFlow and of jaxlib, beginnings, that were run with DOTS


def choose_kernels() -> None:
    """Has YNNPACK compute matrix products in XLA's programs on processors: DQN's loop is 1.3 times as fast.

    XLA_FLAGS, which XLA reads once in a process, says so from now on, unless it says something else of DOTS;
    processes that this one starts inherit it. Nothing is changed where TensorFlow is imported already, nor
    where it or a JAX beside it is of a release that was not tried: XLA ends a process over a switch that it
    does not know.
    """
    said = os.environ.get("XLA_FLAGS", "")
    if "tensorflow" in sys.modules or DOTS in said:
        return
    bring_xla = {**_versions(*TENSORFLOW), **_versions("jaxlib")}
    tried = all(version.startswith(KNOW_DOTS) for version in bring_xla.values())
    if tried and bring_xla.keys() & set(TENSORFLOW):
        os.environ["XLA_FLAGS"] = f"{said} {DOTS}=dot".strip()


def keep() -> bool:
    """Tells TensorFlow, which must not be imported yet, to keep compiled programs; returns whether it does.

    It does not where the environment says so (`RL_PROGRAM_CACHE=off`, or `TF_XLA_FLAGS` with a folder of its
    own), nor where the folder cannot be used or the disk is nearly full: then every process compiles.
    """
    folder, flags = _folder(), os.environ.get("TF_XLA_FLAGS", "").split()
    ours = None if folder is None else str(folder.parent)
    said = [each for each in flags if each.startswith(FLAG)]
    if said and os.path.dirname(said[-1].partition("=")[2]) != ours:
        return True  # the user's own
    others = [each for each in flags if each not in said]  # ours was another process's, of other cores maybe
    os.environ["TF_XLA_FLAGS"] = " ".join(others)
    if folder is None or len(str(folder).split()) != 1:  # TensorFlow splits its flags at spaces
        return False
    try:
        _prepare(folder)
    except OSError:
        return False
    os.environ["TF_XLA_FLAGS"] = " ".join([*others, f"{FLAG}={folder}"])
    atexit.register(seal, folder)
    return True


def failed(error: BaseException) -> bool:
    """Returns whether an error of TensorFlow's is that a program could not be kept."""
    return "xla_compile_cache__" in str(error)


def advice(error: BaseException) -> str:
    """Returns one line for such an error: what happened to which folder, and what to do."""
    folder = os.environ["TF_XLA_FLAGS"].rpartition("=")[2]
    why = str(error).partition(";")[2].partition("[")[0].strip() or "it cannot be read or written"
    return f"{folder}: {why}; make room there, or set {FOLDER}=off, and give the same command again"


def seal(folder: Path) -> None:
    """Gives every program that has none its checksum, as long as that can be written."""
    with contextlib.suppress(OSError):
        for path in _programs(folder):
            beside = path.with_name(path.name + SUM)
            if not beside.exists():
                beside.write_text(_checksum(path))


def _folder() -> Path | None:
    """Returns the folder of this machine, version and setting; None where nothing is to be kept."""
    said = os.environ.get(FOLDER, "")
    if said.lower() == "off":
        return None
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    parent = Path(said) if said else Path(cache, "rl", "programs")
    return parent.absolute() / _setting()


def _setting() -> str:
    """Returns a name for what compiled programs depend on, beside the program."""
    processor = [platform.machine(), platform.processor()]
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        processor += sorted({each for each in lines if each.startswith(("model name", "flags", "Features"))})
    threads = cores.usable()
    versions = [f"{name} {version}" for name, version in _versions(*TENSORFLOW).items()]
    said = [*versions, *processor, str(threads), os.environ.get("XLA_FLAGS", "")]
    return hashlib.sha256("\n".join(said).encode()).hexdigest()[:16]


def _versions(*packages: str) -> dict[str, str]:
    """Returns which of the packages are installed, and their versions."""
    versions = {}
    for name in packages:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return versions


def _prepare(folder: Path) -> None:
    """Makes the folder, and deletes what is damaged in it, what is too much, and what is too old beside it.

    Raises:
        OSError: it cannot be used.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    about = folder.stat()
    if about.st_uid != os.getuid() or about.st_mode & 0o022:
        raise PermissionError(f"{folder} can be written by others")  # who could put programs there
    if shutil.disk_usage(folder).free < FREE:
        raise OSError(f"less than {FREE} bytes are free for {folder}")
    os.utime(folder)
    now, total = time.time(), 0
    for path in sorted(_programs(folder), key=lambda each: -each.stat().st_mtime):
        beside, about = path.with_name(path.name + SUM), path.stat()
        total += about.st_size
        known = beside.read_text() if beside.exists() else None
        sound = now - about.st_mtime < YOUNG if known is None else known == _checksum(path)
        if not sound or total > LARGEST:
            path.unlink(missing_ok=True)
            beside.unlink(missing_ok=True)
    for other in folder.parent.iterdir():
        if other.is_dir() and len(other.name) == len(folder.name) and now - other.stat().st_mtime > OLD:
            shutil.rmtree(other, ignore_errors=True)


def _programs(folder: Path) -> Iterator[Path]:
    """Yields the files of programs, not those that are being written."""
    return folder.glob("xla_compile_cache__*.pb")


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        total = 0
        while part := file.read(1 << 20):
            total = zlib.crc32(part, total)
    return f"{total:08x}"
