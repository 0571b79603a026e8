"""Where a run is kept: a folder of this machine, or a remote address (`rl/storage/mirror.py`)."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from rl.errors import UsageError
from rl.storage.address import check_whole, is_remote, join
from rl.storage.files import PATIENCE, held_alone, patiently


class Storage:
    """A run in a folder of this machine, which needs nothing done.

    Attributes:
        address: what the person calls it.
        folder: where its files are while `to_train` or `to_read` lasts.
        unsent: why its last state is not at `address`, None where it is.
    """

    def __init__(self, address: str | os.PathLike[str]):
        self.address = str(address)
        self.folder = Path(address)
        self.unsent: str | None = None
        self._holding, self._holds = contextlib.ExitStack(), False  # the folder, against other trainers

    @property
    def parent(self) -> str:
        """The folder that the run lies in, as the person calls it."""
        return str(Path(self.address).parent)

    def has(self, name: str) -> bool:
        """Whether it has a file of that name. Raises UsageError where that cannot be found out."""
        return patiently((self.folder / name).exists, f"cannot read {self.folder}")

    def check_writable(self) -> None:
        """Raises UsageError where a run could not be written; a local folder says so when it is made."""

    @contextlib.contextmanager
    def glance(self) -> Iterator[Path]:
        """A folder with what says which run is there: `hparams.json`, the newest checkpoint's manifest."""
        yield self.folder

    @contextlib.contextmanager
    def to_train(self) -> Iterator[None]:
        """While it lasts, `folder` is the run, which nobody else of this machine trains. At its end all is
        sent, or `unsent` says why not.

        Raises:
            UsageError: it cannot be read, or another process trains there.
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
        """While it lasts, `folder` has what testing and loading need: hparams and policies. Films that are
        added are sent at its end.

        Raises:
            UsageError: it cannot be read.
        """
        yield

    def begin(self) -> None:
        """Called when the folder is there, before the first file is written. Raises UsageError where a run
        could not be written."""
        if not self._holds:
            self._hold()

    def saved(self) -> None:
        """Called after a checkpoint or the best policy has been written: what is new may be sent."""


def storage_at(address: str | os.PathLike[str]) -> Storage:
    """The storage of a run. Raises UsageError for an address that cannot be one."""
    if is_remote(address):
        from rl.storage.mirror import Mirror

        return Mirror(str(address))
    check_whole(address)
    return Storage(address)


def storage_of(output_dir: str | os.PathLike[str], copy: int) -> Storage:
    """The storage of one of the runs in an output folder."""
    if is_remote(output_dir):
        return storage_at(join(str(output_dir), f"run_{copy}"))
    return storage_at(Path(output_dir) / f"run_{copy}")


def storages_of(output_dir: str | os.PathLike[str], copies: Sequence[int]) -> dict[int, Storage]:
    """The storages of an output folder's copies, by number; or of the one run that `output_dir` itself is,
    as the summary names it: `OUTPUT_DIR/run_2` is copy 2, a run of another name copy 0.

    Raises:
        UsageError: it is one run, and others are asked for; an address that cannot be one.
    """
    text = os.fspath(output_dir).rstrip("/") or "/"
    itself = storage_at(text)
    if not itself.has("hparams.json") or storage_of(output_dir, 0).has("hparams.json"):
        return {copy: storage_of(output_dir, copy) for copy in copies}
    if list(copies) != [0]:
        raise UsageError(f"{text} is one run: with --copies name the folder that it is in")
    number = re.fullmatch(r"run_(\d+)", text.rpartition("/")[2])
    return {int(number[1]) if number else 0: itself}
