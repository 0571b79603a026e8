"""The mirror: a thread that copies a run's folder to its remote address, so that training does not wait.

Files are uploaded in this order, so that after a crash between any two files the remote run can be resumed:

1. logs (`metrics.csv`, events, ...), which may hold more than the checkpoint does: a resumed run cuts them;
2. the best policy, then the newest checkpoint, each as `rl.storage.transfer` says;
3. only then are checkpoints removed that the run has removed.

The thread always uploads the newest state: a checkpoint that was replaced while it was busy is never
uploaded. `mirror.json` names the folder that wrote last. If that is this machine's folder, it has the newer
state of the same run (its process was killed, or could not upload), and the run goes on with it; otherwise
the remote state counts, and the folder is emptied first.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
import threading
import time
import uuid
from pathlib import Path

from rl.errors import UsageError
from rl.heartbeat import FILE
from rl.storage.address import join
from rl.storage.files import folder_lock, load_json, write_text_atomic
from rl.storage.manifest import BEST, MANIFEST, Damaged, load_manifest
from rl.storage.place import Folder, Missing, PlaceError, Remote, asked, read
from rl.storage.transfer import (
    by_step,
    get_best,
    get_newest,
    newest_step,
    newest_whole,
    prune,
    put_checkpoint,
    remove_checkpoint,
)

EVERY = 30.0  # seconds after which logs are sent again
REST = 2.0  # seconds between the end of a pass and the next one: stores limit how often a file is rewritten
SHARE = 10.0  # a pass for logs alone waits this many times as long as the last pass took
TRIES = (1.0, 5.0)  # seconds to wait before the last state is tried again
WRITER = "mirror.json"  # of the folder that wrote last; locally with a dot in front
CHECKPOINTS = "checkpoints"
_OUTGOING = ".outgoing"  # links to what is being sent
_ATTEMPTS = 5  # to link a checkpoint, which the run may replace in the meantime
_log = logging.getLogger("rl.mirror")


class Taken(PlaceError):
    """Another process has begun to write the same run."""


class Mirror:
    """Sends what a run writes into a folder of this machine to an address.

    Raises:
        UsageError: TensorFlow has no file system for the address.
    """

    def __init__(self, address: str, folder: Path):
        self.place, self.checkpoints = Remote(address), Remote(join(address, CHECKPOINTS))
        self.folder = folder
        self._writer = ""  # id of the folder's present contents; "": nothing has been written yet
        self._files: dict[str, tuple[int, int] | None] = {}  # remote ones -> size, mtime of what was sent
        self._manifests: dict[str, bytes] = {}  # of what was last sent as CHECKPOINTS, as BEST; b"": of none
        self._thread: threading.Thread | None = None
        self._wanted, self._ending = threading.Event(), threading.Event()
        self._told = ""  # the failure that was last told
        self.taken: str | None = None  # what is said once another process has begun to write the same run

    @property
    def begun(self) -> bool:
        """Says whether this folder has written the address last."""
        return bool(self._writer)

    @property
    def runs(self) -> bool:
        """Says whether the thread has been started."""
        return self._thread is not None

    # -- in

    def goes_on(self) -> bool:
        """Says whether the folder holds what was last written to the address, or a newer state of it."""
        ours = ""
        with contextlib.suppress(OSError):
            ours = _id_in((self.folder / f".{WRITER}").read_bytes())
        if not ours or ours != asked(self._remote_writer):
            return False
        there, here = asked(lambda: newest_step(self.checkpoints)), newest_whole(self.folder / CHECKPOINTS)
        if there is not None and (here is None or here < there):  # something has cleaned up here
            return False
        sent = _sent_in((self.folder / f".{WRITER}").read_bytes())  # the others are somebody else's
        self._files = {name: None for name in asked(self._remote_files) if name in sent}
        self._writer = ours
        return True

    def fetch(self) -> None:
        """Downloads everything that a run needs to go on. Checkpoints come first, so that the logs reach at
        least as far. Raises PlaceError."""
        self.fetch_policies(pieces=True)
        for name in self._remote_files():
            self.place.get(name, self.folder / name)
            self._files[name] = _stamp(self.folder / name)
        for path in self.folder.rglob(MANIFEST):
            self._manifests[BEST if path.parent.name == BEST else CHECKPOINTS] = path.read_bytes()

    def fetch_policies(self, pieces: bool) -> None:
        """Downloads the newest checkpoint (without the pieces of large memories unless `pieces`) and the best
        policy. Raises PlaceError."""
        get_newest(self.checkpoints, self.folder / CHECKPOINTS, pieces)
        get_best(self.checkpoints, self.folder / CHECKPOINTS)

    def _remote_files(self) -> list[str]:
        """Names of the run's own files, those in folders left out."""
        return [name for name in self.place.names(files=True) if name != WRITER and name[0] != "."]

    def _remote_writer(self) -> str:
        """Returns the id of the folder that wrote last, "" where none did."""
        return _id_in(read(self.place, WRITER) or b"")

    # -- out

    def begin(self) -> None:
        """Registers this folder at the address as the writer, and starts the thread. Raises UsageError where
        nothing can be written."""
        if not self._writer:  # noted here first: after a kill before the upload, this folder does not count
            path, writer = self.folder / f".{WRITER}", uuid.uuid4().hex
            self._note(writer)
            asked(lambda: self.place.put(path, WRITER))
            self._writer = writer
        self._thread = threading.Thread(target=self._work, name="mirror", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Has the thread send what is new."""
        self._wanted.set()

    def stop(self, patience: float | None = None) -> None:
        """Waits for the current pass to end (for at most `patience` seconds), and ends the thread."""
        self._ending.set()
        self._wanted.set()
        if self._thread is not None:
            self._thread.join(patience)

    def send_last(self) -> str | None:
        """Uploads the last state; returns the reason if that failed, else None."""
        problem = self._try()
        for pause in TRIES:
            if problem is None or isinstance(problem, Taken):
                break
            time.sleep(pause)
            problem = self._try()
        if problem is None:
            return None
        if isinstance(problem, Taken):
            return self._words_of(problem)
        return (
            f"the last state is not at {self.place.address}: {problem}; it is in {self.folder}, and the same "
            "command on this machine sends it"
        )

    def send(self) -> None:
        """Makes one pass, in the order that the module tells of.

        Raises:
            PlaceError, Damaged, UsageError, OSError: something could not be sent, or read here.
        """
        writer = self._remote_writer()
        if writer != self._writer:
            if writer:
                raise Taken(
                    f"another process has begun to write {self.place.address}: this one sends no more"
                )
            self.place.put(self.folder / f".{WRITER}", WRITER)  # someone has removed it
            self._files, self._manifests = {}, {}
        out, checkpoints = self.folder / _OUTGOING, self.folder / CHECKPOINTS
        try:
            newest = _linked(checkpoints, out)
            best = _linked(checkpoints, out, BEST)  # after it, so no older than it
            self._send_files()
            if best is not None:
                self._send_checkpoint(best, BEST)
            elif self._manifests.get(BEST) != b"":
                # A new run has removed the best policy of an earlier one that never reached a checkpoint.
                remove_checkpoint(self.checkpoints, BEST)
                self._manifests[BEST] = b""
            if newest is not None and self._send_checkpoint(newest, CHECKPOINTS):
                prune(self.checkpoints, {newest.name, *by_step(os.listdir(checkpoints))})
        finally:
            shutil.rmtree(out, ignore_errors=True)

    def local_files(self) -> dict[str, Path]:
        """Returns all files except checkpoints, the heartbeat and temporary files (with a leading dot), by
        their names relative to the folder."""
        paths, checkpoints = {}, self.folder / CHECKPOINTS
        for place, folders, files in os.walk(self.folder):
            path = Path(place)
            folders[:] = [name for name in folders if name[0] != "." and path / name != checkpoints]
            for name in files:
                if name[0] != "." and name != FILE:
                    paths[(path / name).relative_to(self.folder).as_posix()] = path / name
        return paths

    def _work(self) -> None:
        """Runs the thread: a pass when something was saved, and every so often."""
        pause = 0.0
        while not self._ending.wait(REST if pause else 0.0):
            self._wanted.wait(pause)
            self._wanted.clear()
            if self._ending.is_set():
                return
            begun = time.monotonic()
            problem = self._try()
            if isinstance(problem, Taken):
                self.taken = self._words_of(problem)
            elif problem and str(problem) != self._told:
                with contextlib.suppress(ValueError):  # the log was closed just now: the run ends
                    _log.warning("%s is not up to date: %s", self.place.address, problem)
            self._told = str(problem or "")
            pause = max(EVERY, SHARE * (time.monotonic() - begun))

    def _words_of(self, taken: Taken) -> str:
        return f"{taken}; what it made is in {self.folder} until the run is started here again"

    def _note(self, writer: str) -> None:
        """Notes in the folder who writes, and the names of all files that were sent."""
        content = {"writer": writer, "sent": sorted(self._files)}
        write_text_atomic(self.folder / f".{WRITER}", json.dumps(content))

    def _try(self) -> Exception | None:
        """Uploads what is new; returns the error if that failed, else None."""
        try:
            self.send()
        except (PlaceError, Damaged, UsageError, OSError) as error:
            return error
        return None

    def _send_checkpoint(self, links: Path, key: str) -> bool:
        """Uploads a checkpoint unless that was done before; returns whether it was uploaded now."""
        manifest = (links / MANIFEST).read_bytes()
        if manifest == self._manifests.get(key):
            return False
        put_checkpoint(links, self.checkpoints)
        self._manifests[key] = manifest
        return True

    def _send_files(self) -> None:
        """Sends files that are new or have changed; removes those that the run has removed."""
        files, before = self.local_files(), self._files.keys() | set()
        if new := files.keys() - before:  # noted first: a file sent but not noted would never be removed
            self._files |= dict.fromkeys(new)
            self._note(self._writer)
        for name, path in sorted(files.items()):
            with contextlib.suppress(FileNotFoundError):  # renamed just now
                stamp = _stamp(path)
                if self._files.get(name) == stamp:
                    continue
                try:
                    self.place.put(path, name)
                except Missing:
                    if path.exists():
                        raise
                    continue
                self._files[name] = stamp
        for name in sorted(self._files.keys() - files.keys()):
            self.place.remove(name)
            del self._files[name]
        if self._files.keys() != before:
            self._note(self._writer)


def _linked(checkpoints: Path, target: Path, name: str | None = None) -> Path | None:
    """Makes hard links, in a folder below `target`, to the files of a checkpoint that its run may remove or
    replace meanwhile; returns that folder, None where there is no checkpoint.

    name: of the checkpoint in the folder `checkpoints`; None: the newest numbered one.
    """
    place = Folder(checkpoints)
    for _ in range(_ATTEMPTS):
        if not checkpoints.is_dir():
            return None
        with contextlib.suppress(FileNotFoundError, Missing, Damaged), folder_lock(checkpoints, wait=True):
            names = place.names()
            chosen = by_step(names)[:1] if name is None else [name] if name in names else []
            if not chosen:
                return None
            links = target / chosen[0]
            shutil.rmtree(links, ignore_errors=True)
            for file in [*load_manifest(checkpoints / chosen[0]).files, MANIFEST]:
                place.get(f"{chosen[0]}/{file}", links / file)
            return links
    return None


def _stamp(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def _id_in(content: bytes) -> str:
    """Returns the id of a folder from its `mirror.json`, "" where there is none."""
    try:
        return str(load_json(content)["writer"])
    except (ValueError, KeyError, TypeError):
        return ""


def _sent_in(content: bytes) -> set[str]:
    """Returns the names that a folder's `.mirror.json` says were sent; none where it says nothing of them."""
    try:
        return set(load_json(content)["sent"])
    except (ValueError, KeyError, TypeError):
        return set()
