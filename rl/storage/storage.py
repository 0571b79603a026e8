"""Where a run is stored: in a local folder, or at a remote address, to which a local folder is mirrored."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from rl.errors import NotSent, Unavailable, UsageError
from rl.storage.address import check_whole, is_remote, join
from rl.storage.checkpoint import CheckpointManager
from rl.storage.files import PATIENCE, held_alone, patiently, reason
from rl.storage.mirror import CHECKPOINTS, WRITER, Mirror
from rl.storage.place import Remote, asked, empty
from rl.storage.transfer import get_newest_manifest

GIVEN_UP = 5.0  # seconds that a pass of the mirror may take where a person does not want to wait
_log = logging.getLogger("rl.mirror")


class Storage:
    """A run in a local folder; most methods do nothing.

    Attributes:
        address: the path or address as the user wrote it.
        folder: the local folder of its files, inside `to_train` or `to_read`.
        unsent: why the last state could not be uploaded to `address`; None if it is there.
    """

    def __init__(self, address: str | os.PathLike[str]):
        self.address = str(address)
        self.folder = Path(address)
        self.unsent: str | None = None
        self._holding, self._holds = contextlib.ExitStack(), False  # the folder, against other trainers

    @property
    def parent(self) -> str:
        """Returns the folder that the run lies in, as the person calls it."""
        return str(Path(self.address).parent)

    def has(self, name: str) -> bool:
        """Says whether it has a file of that name. Raises UsageError where that cannot be found out."""
        return patiently((self.folder / name).exists, f"cannot read {self.folder}")

    def check_writable(self) -> None:
        """Raises UsageError where a run could not be written; a local folder says so when it is made."""

    @contextlib.contextmanager
    def glance(self) -> Iterator[Path]:
        """Yields a folder with the files that identify the run: `hparams.json`, and the newest checkpoint's
        manifest.
        """
        yield self.folder

    @contextlib.contextmanager
    def to_train(self) -> Iterator[None]:
        """Makes `folder` contain the run in the `with` block, locked against other trainers on this machine.
        At the end everything is uploaded, or `unsent` says why not.

        Raises:
            UsageError: the run cannot be read.
            Unavailable: another process trains there.
        """
        try:
            with contextlib.ExitStack() as self._holding:
                if patiently(self.folder.is_dir, f"cannot read {self.folder}"):
                    self._hold()
                yield
        finally:
            self._holds = False

    def _hold(self) -> None:
        refusal = (
            f"another process trains in {self.folder}: wait for it, stop it, or choose another --output_dir"
        )
        self._holding.enter_context(held_alone(self.folder, refusal, PATIENCE))
        self._holds = True

    @contextlib.contextmanager
    def to_read(self) -> Iterator[None]:
        """Makes `folder` contain, in the `with` block, what testing and loading need: hparams and policies.
        Films that are added are uploaded at the end.

        Raises:
            UsageError: the run cannot be read.
        """
        yield

    def begin(self) -> None:
        """Is called when the folder exists, before the first file is written. Raises UsageError where a run
        cannot be written, Unavailable where another process has started one there in the meantime."""
        if not self._holds:
            self._hold()
            if self.has("hparams.json"):  # it was not there when this process looked, and built a new run
                raise Unavailable(f"another process has trained in {self.folder} meanwhile: look at its run")

    def saved(self) -> None:
        """Is called after a checkpoint or the best policy has been written: what is new may be sent.

        Raises:
            NotSent: another process has begun to write the same run at its remote address.
        """


class RemoteStorage(Storage):
    """A run at a remote address, worked on in a folder of this machine.

    Raises:
        UsageError: TensorFlow has no file system for it.
    """

    def __init__(self, address: str):
        super().__init__(address)
        self.address, self.folder = address, staging_folder(address)
        self.mirror = Mirror(address, self.folder)

    @property
    def parent(self) -> str:
        return self.address.rpartition("/")[0]

    def has(self, name: str) -> bool:
        return asked(lambda: self.mirror.place.size(name)) is not None

    def check_writable(self) -> None:
        self.mirror.place.check_writable()

    @contextlib.contextmanager
    def glance(self) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(prefix="rl-look-") as folder, self._named(Path(folder)):
            asked(lambda: self._fetch_hparams(Path(folder)))
            asked(lambda: get_newest_manifest(self.mirror.checkpoints, Path(folder) / CHECKPOINTS))
            yield Path(folder)

    @contextlib.contextmanager
    def to_train(self) -> Iterator[None]:
        _make_staging(self.folder)
        refusal = f"another process of this machine trains {self.address}: wait for it, or stop it"
        with held_alone(self.folder, refusal, PATIENCE):
            mirror = self.mirror
            if not mirror.goes_on():
                self._clear()
                asked(mirror.fetch)
            try:
                with self._named(self.folder):
                    yield
            except BaseException as error:
                if mirror.runs:
                    interrupted = isinstance(error, KeyboardInterrupt)
                    mirror.stop(GIVEN_UP if interrupted else None)
                    problem = None if interrupted or mirror.taken else mirror.send_last()
                    if problem:
                        _log.warning("%s", problem)
                elif not mirror.begun:
                    self._clear()  # a copy of what is remote
                raise
            mirror.stop()
            self.unsent = mirror.send_last()
            if not self.unsent:
                self._clear()

    @contextlib.contextmanager
    def to_read(self) -> Iterator[None]:
        with tempfile.TemporaryDirectory(prefix="rl-read-", ignore_cleanup_errors=True) as folder:
            self.folder = Path(folder)
            mirror = Mirror(self.address, self.folder)
            with self._named(self.folder):
                asked(lambda: self._fetch_hparams(self.folder))
                asked(lambda: mirror.fetch_policies(pieces=False))
                before = mirror.local_files()
                yield
                for name, path in sorted(mirror.local_files().items()):
                    if name not in before:
                        asked(partial(mirror.place.put, path, name))

    def begin(self) -> None:
        self.mirror.begin()

    def saved(self) -> None:
        if self.mirror.taken is not None:  # later states would never reach the address
            raise NotSent(self.mirror.taken)
        self.mirror.wake()

    def _clear(self) -> None:
        """Empties the folder, such that after a kill half-way it no longer counts as a run's state."""
        (self.folder / f".{WRITER}").unlink(missing_ok=True)
        empty(self.folder)

    def _fetch_hparams(self, into: Path) -> None:
        if self.mirror.place.size("hparams.json") is not None:
            self.mirror.place.get("hparams.json", into / "hparams.json")

    @contextlib.contextmanager
    def _named(self, folder: Path) -> Iterator[None]:
        """Mistakes are told with the address, where it is worked on said behind."""
        try:
            yield
        except UsageError as error:
            text = str(error).replace(str(folder), self.address)
            if folder == staging_folder(self.address) and text != str(error):
                text = f"{text} (worked on in {folder})"
            raise type(error)(text) from error


def checkpoints_at(address: str, keep: int) -> CheckpointManager:
    """Returns the checkpoint manager of a process that may run on any machine, such as a buffer, for a folder
    or a remote address. Raises UsageError where the local folder for it cannot be made."""
    if not is_remote(address):
        return CheckpointManager(address, keep)
    folder = staging_folder(address)
    _make_staging(folder)
    empty(folder)  # what is remote counts
    return CheckpointManager(folder, keep, far=Remote(address))


def storage_at(address: str | os.PathLike[str]) -> Storage:
    """Returns the storage of a run. Raises UsageError for an address that cannot be one."""
    if is_remote(address):
        return RemoteStorage(str(address))
    check_whole(address)
    return Storage(address)


def storage_of(output_dir: str | os.PathLike[str], copy: int) -> Storage:
    """Returns the storage of one of the runs in an output folder."""
    return storage_at(join(os.fspath(output_dir), f"run_{copy}"))


def storages_of(output_dir: str | os.PathLike[str], copies: Sequence[int]) -> dict[int, Storage]:
    """Returns the storages of an output folder's copies, by number. If `output_dir` is itself a run, returns
    only that: `OUTPUT_DIR/run_2` is copy 2, a run of another name copy 0.

    Raises:
        UsageError: `output_dir` is empty; it is one run, but `copies` asks for others; or it is no valid
            address.
    """
    if output_dir == "":
        raise UsageError("output_dir is empty: name a folder, such as runs/dqn_cartpole")
    text = os.fspath(output_dir).rstrip("/") or "/"
    itself = storage_at(text)
    if not itself.has("hparams.json") or storage_of(output_dir, 0).has("hparams.json"):
        return {copy: storage_of(output_dir, copy) for copy in copies}
    if list(copies) != [0]:
        raise UsageError(f"{text} is one run: with --copies name the folder that it is in")
    number = re.fullmatch(r"run_(\d+)", text.rpartition("/")[2])
    return {int(number[1]) if number else 0: itself}


def staging_folder(address: str) -> Path:
    """Returns the local working folder of the run at an address: the same in every process of this user that
    has the same TMPDIR."""
    readable = re.sub(r"[^A-Za-z0-9]+", "_", address)[-40:].strip("_")
    name = f"{readable}-{hashlib.sha256(address.encode()).hexdigest()[:12]}"
    return Path(tempfile.gettempdir()) / f"rl-staging-{os.getuid()}" / name


def _make_staging(folder: Path) -> None:
    """Makes a staging folder that nobody but this user can write in.

    Raises:
        UsageError: it cannot be made, or somebody else has made what it lies in.
    """
    try:
        folder.parent.mkdir(mode=0o700, exist_ok=True)
        if folder.parent.is_symlink() or folder.parent.stat().st_uid != os.getuid():
            raise PermissionError(0, "it is not this user's")  # /tmp is everybody's
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"cannot write in {folder.parent} ({reason(error)}), where runs with a remote output are worked "
            "on: set TMPDIR to a writable folder with room for the run"
        ) from error
