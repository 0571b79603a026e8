"""A run whose output is remote: worked on in a local folder, copied in at its start and out as it goes on.

What is sent, and in which order, so that a crash between any two files leaves a run to go on from:

1. logs (`metrics.csv`, events, ...), which may hold more than the checkpoint does: a resumed run cuts them;
2. the best policy, then the newest checkpoint, each as `rl.storage.remote_checkpoint` says;
3. only then are checkpoints removed that the run has removed.

A thread of its own does it, so that training does not wait. It sends what is newest when it comes to it: what
was saved and replaced while it was busy is never sent. `mirror.json` names the folder that wrote last. Where
that is the one of this machine, what lies in it is the newer state of the same run (its process was killed,
or could not send) and is gone on with; else what is remote counts, and the folder is emptied first.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from rl.errors import UsageError
from rl.heartbeat import FILE
from rl.storage import remote, staging
from rl.storage.address import join
from rl.storage.files import write_text_atomic
from rl.storage.manifest import MANIFEST, Damaged
from rl.storage.remote_checkpoint import (
    by_step,
    get_newest,
    get_newest_manifest,
    get_single,
    newest_step,
    newest_whole,
    prune,
    put_checkpoint,
    remove_checkpoint,
)
from rl.storage.storage import Storage

EVERY = 30.0  # seconds after which logs are sent again
REST = 2.0  # seconds between the end of a pass and the next one: stores limit how often a file is rewritten
SHARE = 10.0  # times as long as a pass took it is waited before the next one that is for logs alone
GIVEN_UP = 5.0  # seconds that a pass may take where a person does not want to wait
TRIES = (1.0, 5.0)  # seconds to wait before the last state is tried again
WRITER = "mirror.json"  # of the folder that wrote last; locally with a dot in front
CHECKPOINTS, BEST = "checkpoints", "best"
_OUTGOING = ".outgoing"  # links to what is being sent
_log = logging.getLogger("rl.mirror")


class Taken(remote.RemoteError):
    """Another process has begun to write the same run."""


class Mirror(Storage):
    """A run at a remote address.

    Raises:
        UsageError: TensorFlow has no file system for it.
    """

    def __init__(self, address: str):
        remote.check_scheme(address)
        super().__init__(address)
        self.address = address
        self.folder = staging.staging_folder(address)
        self._writer = ""  # id of the folder as it is now; "": nothing has been written yet
        self._files: dict[str, tuple[int, int] | None] = {}  # remote ones -> size, mtime of what was sent
        self._manifests: dict[str, bytes] = {}  # of what was last sent as CHECKPOINTS, as BEST; b"": of none
        self._thread: threading.Thread | None = None
        self._wanted, self._ending = threading.Event(), threading.Event()
        self._told = ""  # the failure that was last told

    @property
    def parent(self) -> str:
        return self.address.rpartition("/")[0]

    def has(self, name: str) -> bool:
        return _asked(lambda: remote.exists(self._at(name)))

    def check_writable(self) -> None:
        remote.check_writable(self.address)

    @contextlib.contextmanager
    def glance(self) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(prefix="rl-look-") as folder, self._named(Path(folder)):
            into = Path(folder)

            def look() -> None:
                self._fetch_hparams(into)
                get_newest_manifest(self._at(CHECKPOINTS), into / CHECKPOINTS)

            _asked(look)
            yield into

    @contextlib.contextmanager
    def to_train(self) -> Iterator[None]:
        with staging.held(self.folder, self.address):
            if not self._goes_on():
                self._clear()
                _asked(self._fetch)
            try:
                with self._named(self.folder):
                    yield
            except BaseException as error:
                if self._thread is not None:
                    self._stop(GIVEN_UP if isinstance(error, KeyboardInterrupt) else None)
                    problem = None if isinstance(error, KeyboardInterrupt) else self._send_last()
                    if problem:
                        _log.warning("%s", problem)
                elif not self._writer:
                    self._clear()  # a copy of what is remote
                raise
            self._stop()
            self.unsent = self._send_last()
            if not self.unsent:
                self._clear()

    @contextlib.contextmanager
    def to_read(self) -> Iterator[None]:
        with tempfile.TemporaryDirectory(prefix="rl-read-", ignore_cleanup_errors=True) as folder:
            self.folder = Path(folder)
            with self._named(self.folder):
                _asked(lambda: self._fetch_hparams(self.folder))
                _asked(lambda: self._fetch_policies(pieces=False))
                there = set(self._local_files())
                yield
                for name in sorted(set(self._local_files()) - there):
                    _asked(partial(remote.put, self.folder / name, self._at(name)))

    def begin(self) -> None:
        if not self._writer:  # here first: killed before it is remote, this folder is not believed
            writer = uuid.uuid4().hex
            text = json.dumps({"writer": writer})
            write_text_atomic(self.folder / f".{WRITER}", text)
            _asked(lambda: remote.put(self.folder / f".{WRITER}", self._at(WRITER)))
            self._writer = writer
        self._thread = threading.Thread(target=self._work, name="mirror", daemon=True)
        self._thread.start()

    def saved(self) -> None:
        self._wanted.set()

    def _clear(self) -> None:
        """Empties the folder; killed meanwhile, it is not believed any more."""
        (self.folder / f".{WRITER}").unlink(missing_ok=True)
        staging.empty(self.folder)

    # -- in

    def _goes_on(self) -> bool:
        """Whether the folder holds what was last written to the address, or a newer state of it."""
        ours = _writer_in(self.folder / f".{WRITER}")
        if not ours or ours != _asked(self._remote_writer):
            return False
        there = _asked(lambda: newest_step(self._at(CHECKPOINTS)))
        here = newest_whole(self.folder / CHECKPOINTS)
        if there is not None and (here is None or here < there):  # something has cleaned up here
            return False
        self._files = {name: None for name in _asked(self._remote_files)}
        self._writer = ours
        return True

    def _fetch(self) -> None:
        """All that a run goes on from. Checkpoints first: logs that were read later hold no less."""
        self._fetch_policies(pieces=True)
        for name in self._remote_files():
            remote.get(self._at(name), self.folder / name)
            self._files[name] = _stamp(self.folder / name)
        for path in self.folder.rglob(MANIFEST):
            self._manifests[BEST if path.parent.name == BEST else CHECKPOINTS] = path.read_bytes()

    def _fetch_hparams(self, into: Path) -> None:
        if remote.exists(self._at("hparams.json")):
            remote.get(self._at("hparams.json"), into / "hparams.json")

    def _fetch_policies(self, pieces: bool) -> None:
        get_newest(self._at(CHECKPOINTS), self.folder / CHECKPOINTS, pieces)
        get_single(self._at(CHECKPOINTS, BEST), self.folder / CHECKPOINTS / BEST)

    def _remote_files(self) -> list[str]:
        """Names of the run's own files, those in folders left out."""
        left_out = {CHECKPOINTS, "buffers", "videos", WRITER}
        found = [name for name in remote.names(self.address) if name not in left_out and name[0] != "."]
        return [name for name in found if not remote.is_folder(self._at(name))]

    def _remote_writer(self) -> str:
        """Id of the folder that wrote last, "" where none did."""
        try:
            return _id_in(remote.read(self._at(WRITER)))
        except remote.Missing:
            return ""

    # -- out

    def _work(self) -> None:
        """The thread: a pass when something was saved, and every so often."""
        pause = 0.0
        while not self._ending.wait(REST if pause else 0.0):
            self._wanted.wait(pause)
            self._wanted.clear()
            if self._ending.is_set():
                return
            begun = time.monotonic()
            problem = self._try()
            if problem and str(problem) != self._told:
                with contextlib.suppress(ValueError):  # the log was closed just now: the run ends
                    _log.warning("%s is not up to date: %s", self.address, problem)
            self._told = str(problem or "")
            pause = max(EVERY, SHARE * (time.monotonic() - begun))

    def _try(self) -> Exception | None:
        """Sends what is new; what went wrong, None where nothing did."""
        try:
            self._send()
        except (remote.RemoteError, Damaged, UsageError, OSError) as error:
            return error
        return None

    def _stop(self, patience: float | None = None) -> None:
        """Lets the pass under way end (for so many seconds), and the thread with it."""
        self._ending.set()
        self._wanted.set()
        if self._thread is not None:
            self._thread.join(patience)

    def _send_last(self) -> str | None:
        """Sends the last state; why it could not, None where it could."""
        problem = self._try()
        for pause in TRIES:
            if problem is None or isinstance(problem, Taken):
                break
            time.sleep(pause)
            problem = self._try()
        if problem is None:
            return None
        if isinstance(problem, Taken):
            return f"{problem}; what it made is in {self.folder} until the run is started here again"
        return (
            f"the last state is not at {self.address}: {problem}; it is in {self.folder}, and the same "
            "command on this machine sends it"
        )

    def _send(self) -> None:
        """One pass, in the order that the module tells of."""
        writer = self._remote_writer()
        if writer != self._writer:
            if writer:
                raise Taken(f"another process has begun to write {self.address}: this one sends no more")
            remote.put(self.folder / f".{WRITER}", self._at(WRITER))  # someone has removed it
            self._files, self._manifests = {}, {}
        out, checkpoints = self.folder / _OUTGOING, self.folder / CHECKPOINTS
        try:
            newest = staging.link_newest(checkpoints, out)
            best = staging.link_single(checkpoints / BEST, out)  # after it, so no older than it
            self._send_files()
            self._send_best(best)
            if newest is not None and not self._is_sent(newest, CHECKPOINTS):
                self._put(newest, CHECKPOINTS)
                prune(self._at(CHECKPOINTS), {newest.name, *by_step(os.listdir(checkpoints))})
        finally:
            shutil.rmtree(out, ignore_errors=True)

    def _send_best(self, links: Path | None) -> None:
        if links is not None and not self._is_sent(links, BEST):
            self._put(links, BEST)
        elif links is None and self._manifests.get(BEST) != b"":
            # A run that begins anew has removed the best policy of one that never got to a checkpoint.
            remove_checkpoint(self._at(CHECKPOINTS, BEST))
            self._manifests[BEST] = b""

    def _is_sent(self, links: Path, key: str) -> bool:
        return (links / MANIFEST).read_bytes() == self._manifests.get(key)

    def _put(self, links: Path, key: str) -> None:
        put_checkpoint(links, self._at(CHECKPOINTS, links.name))
        self._manifests[key] = (links / MANIFEST).read_bytes()

    def _send_files(self) -> None:
        """Files that are new or have changed; removes those that the run has removed."""
        found = self._local_files()
        for name, path in sorted(found.items()):
            with contextlib.suppress(FileNotFoundError):  # renamed just now
                stamp = _stamp(path)
                if self._files.get(name) == stamp:
                    continue
                try:
                    remote.put(path, self._at(*name.split("/")))
                except remote.Missing:
                    if path.exists():
                        raise
                    continue
                self._files[name] = stamp
        for name in sorted(self._files.keys() - found.keys()):
            remote.remove(self._at(*name.split("/")))
            del self._files[name]

    def _local_files(self) -> dict[str, Path]:
        """All files but checkpoints, the heartbeat and what is under way (a dot in front), by name below the
        folder."""
        found, checkpoints = {}, self.folder / CHECKPOINTS
        for place, folders, files in os.walk(self.folder):
            path = Path(place)
            folders[:] = [name for name in folders if name[0] != "." and path / name != checkpoints]
            for name in files:
                if name[0] != "." and name != FILE:
                    found[(path / name).relative_to(self.folder).as_posix()] = path / name
        return found

    def _at(self, *names: str) -> str:
        return join(self.address, *names)

    @contextlib.contextmanager
    def _named(self, folder: Path) -> Iterator[None]:
        """Mistakes are told with the address, where it is worked on said behind."""
        try:
            yield
        except UsageError as error:
            text = str(error).replace(str(folder), self.address)
            if folder == staging.staging_folder(self.address) and text != str(error):
                text = f"{text} (worked on in {folder})"
            raise type(error)(text) from error


def _asked(call: Callable[[], remote.T]) -> remote.T:
    """What a remote place answers; where it cannot be reached the person, or time, is to mend it."""
    return remote.asked(call, "may this machine read and write there? else choose another --output_dir")


def _stamp(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def _writer_in(path: Path) -> str:
    try:
        return _id_in(path.read_bytes())
    except OSError:
        return ""


def _id_in(content: bytes) -> str:
    try:
        return str(json.loads(content)["writer"])
    except (ValueError, KeyError, TypeError):
        return ""
