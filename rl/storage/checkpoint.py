"""Atomic checkpoints, checked before they are restored.

A checkpoint is a folder: one `tf.train.Checkpoint` of a flat `{name: variable}` and a `manifest.json`
with the size and checksum of every file, the variables' names, shapes and dtypes, the step and `meta`. Large
append-only variables are files of their own (`rl/storage/pieces.py`).
It is written under a temporary name (`.ckpt-tmp-...`), fsynced and renamed, so a crash at any moment
leaves the earlier checkpoints intact. If a folder of the same name must be replaced, the old one is first
renamed to `.ckpt-old-...`: at any moment one of the two is complete.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import shutil
import uuid
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from rl.errors import MachineLost, Unavailable, UsageError
from rl.storage.files import (
    OLD,
    TEMPORARY,
    checksum,
    commit_folder,
    failure,
    folder_lock,
    fsync_path,
    literally,
    patiently,
    plain,
    reason,
    remove_folder,
    tidy,
)
from rl.storage.manifest import (
    BEST,
    MANIFEST,
    STEP,
    Damaged,
    Manifest,
    body_checksum,
    check_any,
    check_file,
    compare,
    load_manifest,
    signature_of,
    single,
    unread,
)
from rl.storage.pieces import choose_large, read_pieces, write_pieces
from rl.storage.place import Place, PlaceError, empty
from rl.storage.transfer import by_step, first_intact, get_newest, prune, put_checkpoint

Variables = Mapping[str, Any]  # name -> tf.Variable | keras.Variable

_log = logging.getLogger("rl.checkpoint")


class CheckpointError(Unavailable):
    """A checkpoint could not be written now (disk full); the earlier ones are untouched."""


# TensorFlow's errors for a file with wrong content; its other errors may be temporary.
_WRONG = tf.errors.NotFoundError, tf.errors.DataLossError, tf.errors.InvalidArgumentError


class CheckpointManager:
    """The numbered checkpoints `step_000000012345` of one run, the newest `keep` of them, and its `best`.

    A manager that only restores writes nothing, but removes the leftovers of crashed writes.

    Args:
        directory: local folder.
        keep: how many numbered checkpoints are kept.
        far: remote place of the checkpoints: they are uploaded when they are saved, and restored from there;
            `directory` then holds copies. None: the checkpoints are in `directory`.
        saved: called after each checkpoint that was written.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        keep: int = 3,
        far: Place | None = None,
        saved: Callable[[], None] | None = None,
    ):
        if keep < 1:
            raise UsageError(f"checkpoints to keep must be at least 1, not {keep}")
        self.directory = Path(directory)
        self.keep = keep
        self._far, self._tell_saved = far, saved or (lambda: None)
        self.restored_step: int | None = None
        self.kept: int | None = None  # a step whose checkpoint stays, whatever `keep` says
        self._damaged: set[Path] = set()
        self._previous: tuple[Path, Manifest] | None = None  # the checkpoint last written or read whole
        if patiently(self.directory.is_dir, f"cannot read {self.directory}"):
            with contextlib.suppress(OSError), folder_lock(self.directory, wait=False) as held:
                if held:
                    tidy(self.directory)

    def save(
        self,
        variables: Variables,
        step: int,
        meta: Mapping[str, Any] | None = None,
        appended: Mapping[str, int] | None = None,
    ) -> Path:
        """Writes the checkpoint of `step` durably, then removes all but the newest `keep`.

        `meta` is anything small that JSON can hold. `appended`: append-only variables (rings of rows), with
        the number of rows ever appended: of large ones only the changed pieces are written. Raises
        CheckpointError when the checkpoint cannot be written or uploaded, or when an intact checkpoint of a
        later step exists (another run writes to this folder); UsageError where it never can be written.
        """
        later = [path for at, path in self._found() if at > step and path not in self._damaged]
        if later:
            raise CheckpointError(f"{later[0]} is newer than step {step}: does another run write there?")
        path, manifest = _write(
            self.directory / f"step_{step:012d}",
            variables,
            step,
            dict(meta or {}),
            dict(appended or {}),
            self._previous,
        )
        self._previous = path, manifest
        self._damaged.discard(path)
        self._prune(step)
        if self._far is not None:
            try:
                put_checkpoint(path, self._far)
                prune(self._far, set(by_step(os.listdir(self.directory))))
            except (PlaceError, Damaged) as error:
                raise CheckpointError(
                    f"checkpoint {path.name} is not at {self._far.address}: {error}"
                ) from error
        self._tell_saved()
        return path

    def save_best(self, variables: Variables, meta: Mapping[str, Any], step: int) -> None:
        """Writes or replaces `best`, as `write_single` does."""
        write_single(self.directory / BEST, variables, meta, step)
        self._tell_saved()

    def restore(
        self, variables: Variables, partial: bool = False, newer: Collection[str] = ()
    ) -> dict[str, Any] | None:
        """Assigns the newest intact checkpoint to `variables`; returns its `meta`, None when there is none.

        Damaged checkpoints are passed over with a warning. With `partial` the checkpoint may hold more
        than is asked for (a policy without its replay memory). `newer`: names of variables of floats which
        checkpoints of earlier versions lack; they are then NaN. `restored_step` is set. Raises UsageError,
        with nothing assigned, when all are damaged or the variables differ in name, shape or dtype; and
        Unavailable when one cannot be read now, which is not to be damaged.
        """
        if self._far is not None:
            try:
                get_newest(self._far, self.directory)
            except PlaceError as error:
                raise UsageError(str(error)) from error
        manifest = first_intact(
            str(self.directory),
            lambda: [path.name for _, path in self._found()],
            lambda name: self._try(self.directory / name, variables, partial, newer),
        )
        if manifest is None:
            return None
        self.restored_step = manifest.step
        return manifest.meta

    def latest_step(self) -> int | None:
        """Returns the newest step with a readable manifest; its data are checked only by `restore`."""
        for step, path in self._found():
            with contextlib.suppress(Damaged):
                load_manifest(path)
                return step
        return None

    def steps(self) -> list[int]:
        """Returns the steps of those that are there and not known to be damaged, newest first."""
        return [step for step, path in self._found() if path not in self._damaged]

    def go_back(self, step: int) -> None:
        """Removes the checkpoints after that of a step, newest first. Raises UsageError, with all in place,
        where neither that one nor one before it is whole."""
        found = self._found()
        check_any([path for at, path in found if at <= step])
        for path in [path for at, path in found if at > step]:
            patiently(lambda path=path: remove_folder(path), f"cannot remove {path}")  # type: ignore[misc]

    def close(self) -> None:
        """Removes the local copies of remote checkpoints."""
        if self._far is not None:
            empty(self.directory)

    def _try(self, path: Path, variables: Variables, partial: bool, newer: Collection[str]) -> Manifest:
        try:
            manifest = _read(path, variables, partial, newer)
        except Damaged:
            self._damaged.add(path)
            raise
        self._previous = None if partial else (path, manifest)
        return manifest

    def _found(self) -> list[tuple[int, Path]]:
        """Returns steps and folders, newest first; `.ckpt-old-` counts where its successor never arrived."""
        try:
            names = set(patiently(lambda: os.listdir(self.directory)))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise failure(f"cannot read {self.directory}: {reason(error)}", error) from error
        numbered = []
        for name in names:
            match = STEP.fullmatch(name.removeprefix(OLD))
            if match and (not name.startswith(OLD) or match[0] not in names):
                numbered.append((int(match[1]), self.directory / name))
        return sorted(numbered, reverse=True)

    def _prune(self, step: int) -> None:
        """Removes the checkpoints beyond `keep`, and damaged ones, which must not take the place of good
        ones."""
        good = [(at, path) for at, path in self._found() if at <= step and path not in self._damaged]
        old = [path for at, path in good[self.keep :] if at != self.kept]
        for path in [*old, *self._damaged]:
            try:
                remove_folder(path)
                self._damaged.discard(path)
            except OSError as error:
                _log.warning("cannot remove the old checkpoint %s: %s", path, reason(error))


def write_single(
    path: str | os.PathLike[str], variables: Variables, meta: Mapping[str, Any] | None = None, step: int = 0
) -> Path:
    """Writes or replaces one checkpoint folder (`best`); at any moment the old or the new one is readable.

    Raises CheckpointError, with the old one in place, when it cannot be written now, UsageError where it
    never can be.
    """
    return _write(Path(path), variables, step, dict(meta or {}))[0]


def read_single(path: str | os.PathLike[str], variables: Variables, partial: bool = False) -> Manifest | None:
    """Assigns the checkpoint that `write_single` wrote; returns its manifest, None when there is none.

    Raises UsageError, with nothing assigned, when it is damaged or does not fit `variables`.
    """
    return single(Path(path), lambda folder: _read(folder, variables, partial))


def read_manifest(path: str | os.PathLike[str]) -> Manifest:
    """Reads the manifest of the checkpoint folder `path`, not its data. Raises UsageError when it is
    damaged."""
    try:
        return load_manifest(Path(path))
    except Damaged as error:
        raise UsageError(f"checkpoint {path} is damaged ({error})") from error


def _write(
    final: Path,
    variables: Variables,
    step: int,
    meta: dict[str, Any],
    appended: Mapping[str, int] | None = None,
    previous: tuple[Path, Manifest] | None = None,
) -> tuple[Path, Manifest]:
    temporary = final.with_name(TEMPORARY + final.name)
    named = _tf_variables(variables)
    try:
        final.parent.mkdir(parents=True, exist_ok=True)
        with folder_lock(final.parent, wait=True):
            tidy(final.parent)
            try:
                temporary.mkdir()
                _fill(temporary, named, step, meta, appended or {}, previous)
                manifest = load_manifest(temporary)
                commit_folder(temporary, final)
            finally:  # gone already unless something went wrong
                shutil.rmtree(temporary, ignore_errors=True)
    except tf.errors.UnavailableError as error:  # of variables: the folder is this machine's
        raise MachineLost(f"cannot write checkpoint {final}: a machine does not answer") from error
    except (OSError, tf.errors.OpError) as error:
        said = f"cannot write checkpoint {final}: {reason(error)}"
        if isinstance(error, PermissionError | NotADirectoryError):  # a failing disk says anything else
            raise UsageError(f"{said}: make its folder writable, then repeat the command") from error
        raise CheckpointError(said) from error
    return final, manifest


def _fill(
    folder: Path,
    variables: dict[str, tf.Variable],
    step: int,
    meta: dict[str, Any],
    appended: Mapping[str, int],
    previous: tuple[Path, Manifest] | None,
) -> None:
    # A new prefix each time: if the folder is replaced while it is read, a file is missing, but files never
    # mix.
    prefix = f"state-{uuid.uuid4().hex[:12]}"
    large = choose_large(variables, appended)
    rest = {name: variable for name, variable in variables.items() if name not in large}
    tf.train.Checkpoint(variables=rest).write(str(folder / prefix), _from_here())
    files = {}
    for name in sorted(os.listdir(folder)):
        files[name] = os.path.getsize(folder / name), checksum(folder / name)
        fsync_path(folder / name)
    pieces = {}
    for name in large:
        path, before = (None, None) if previous is None else previous
        pieces[name], written = write_pieces(
            folder,
            variables[name],
            appended[name],
            None if before is None else before.pieces.get(name),
            path,
            {} if before is None else before.files,
        )
        files |= written
    _write_manifest(folder, Manifest(int(step), meta, signature_of(variables), prefix, files, pieces))
    fsync_path(folder)


def _write_manifest(folder: Path, manifest: Manifest) -> None:
    """Writes the manifest of a checkpoint whose other files are in `folder`, durably."""
    body: dict[str, Any] = {"format": 2 if manifest.pieces else 1, **manifest._asdict()}
    body = json.loads(json.dumps(body, default=plain))  # as a reader will see it, e.g. keys as text
    text = json.dumps({"checksum": body_checksum(body), **body}, indent=1)
    with open(folder / MANIFEST, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _read(path: Path, variables: Variables, partial: bool, newer: Collection[str] = ()) -> Manifest:
    """Checks everything, then assigns. Raises Damaged or, for variables that do not fit, UsageError."""
    manifest = load_manifest(path)
    named = _tf_variables(variables)
    unknown = [named.pop(name) for name in newer if name not in manifest.variables]
    compare(path, signature_of(named), manifest.variables, partial)
    unasked = {
        file for name, pieces in manifest.pieces.items() if name not in named for file in pieces["files"]
    }
    for name, (size, expected) in manifest.files.items():
        if name in unasked:  # a replay memory of gigabytes, for someone who wants the policy
            continue
        check_file(path / name, size, expected)
    patiently(lambda: _assign(path, manifest, named))
    for variable in unknown:
        variable.assign(tf.fill(variable.shape, math.nan))
    return manifest


def _assign(path: Path, manifest: Manifest, named: dict[str, tf.Variable]) -> None:
    rest = {name: variable for name, variable in named.items() if name not in manifest.pieces}
    try:
        with literally(path) as folder:
            status = tf.train.Checkpoint(variables=rest).read(str(folder / manifest.prefix), _from_here())
            status.assert_existing_objects_matched()
        status.expect_partial()  # else it warns of what it holds beyond what was asked for
        for name, pieces in manifest.pieces.items():
            if name in named:
                read_pieces(path, named[name], pieces)
    except tf.errors.UnavailableError as error:  # the checkpoint may be well
        raise MachineLost(f"cannot read checkpoint {path}: a machine does not answer") from error
    except (*_WRONG, tf.errors.OutOfRangeError, AssertionError, ValueError) as error:
        raise Damaged(reason(error)) from error
    except tf.errors.OpError as error:
        raise Unavailable(f"cannot read checkpoint {path} ({reason(error)})") from error
    except OSError as error:
        raise unread(path, error) from error


def _from_here() -> tf.train.CheckpointOptions:
    """Returns options with which this process writes and reads all files; by default each machine would do
    that for its own variables, on its own disk."""
    with tf.device("/device:CPU:0"):
        here = tf.constant(0).device  # its name among those of all machines
    return tf.train.CheckpointOptions(experimental_io_device=here)


def _tf_variables(variables: Variables) -> dict[str, tf.Variable]:
    named = {}
    for name, variable in variables.items():
        named[name] = variable.value if isinstance(variable, keras.Variable) else variable
        if not isinstance(named[name], tf.Variable):
            raise TypeError(f"{name} is a {type(variable).__name__}: only built variables can be saved")
    return named
