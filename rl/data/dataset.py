"""A data set: recorded episodes, as columns in memory and as a folder on disk.

On disk it has the format of Minari (https://minari.farama.org): `DIR/data/main_data.hdf5`, with a group for
each episode, and `DIR/data/metadata.json`. It contains no code, and reading it runs none.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from gymnasium import spaces

from rl.data import cache, hdf5, shards, stored
from rl.data.hdf5 import Episode
from rl.data.metadata import MAIN, METADATA, env_id_of, read_metadata, totals, write_metadata
from rl.data.spaces import (
    from_zero,
    in_range,
    map_parts,
    map_space,
    narrow_space,
    narrow_values,
    values_from_zero,
)
from rl.errors import UsageError, nearest
from rl.storage.address import folders_with
from rl.storage.files import (
    commit_folder,
    ensure_writable_dir,
    folder_lock,
    fsync_path,
    remove_dead,
    tidy,
)
from rl.types import Nest

_TEMPORARY = ".tmp-data-"  # before the names of folders that are written


@dataclasses.dataclass(frozen=True)
class Dataset:
    """E episodes with N steps in total, one after another.

    `observation` has one row more for each episode: its true last observation. Episode i has the observations
    `starts[i] + i` to `starts[i] + i + lengths[i]`, both included, and the rows `starts[i]` to
    `starts[i] + lengths[i] - 1` of the other columns.
    """

    observation: Nest  # [N + E, ...]: an array, or a dict or tuple of them
    action: Nest  # [N, ...]
    reward: np.ndarray  # [N] float32, as stored where it was read exactly
    terminated: np.ndarray  # [N] bool: the episode ended in a terminal state
    truncated: np.ndarray  # [N] bool: the episode was cut there; learning bootstraps
    lengths: np.ndarray  # [E] int64: steps of each episode
    observation_space: spaces.Space
    action_space: spaces.Space
    metadata: dict[str, Any] = dataclasses.field(default_factory=dict)  # rl.data.metadata
    about: tuple[dict[str, Any], ...] = ()  # of each episode, what else is known: plain numbers and texts
    # [N] float32: log-probabilities of the actions, by the policies that took them, NaN where unknown; None
    # if all are unknown.
    log_prob: np.ndarray | None = None

    @staticmethod
    def of(
        episodes: Iterable[Episode],
        observation_space: spaces.Space,
        action_space: spaces.Space,
        metadata: Mapping[str, Any] | None = None,
    ) -> Dataset:
        """Returns the data set of at least one episode."""
        listed = list(episodes)

        def together(space: spaces.Space, *values: np.ndarray) -> np.ndarray:
            return np.concatenate(values)

        return Dataset(
            map_parts(together, observation_space, *(each.observation for each in listed)),
            map_parts(together, action_space, *(each.action for each in listed)),
            np.concatenate([each.reward for each in listed]),
            np.concatenate([each.terminated for each in listed]),
            np.concatenate([each.truncated for each in listed]),
            np.array([each.length for each in listed], np.int64),
            map_space(observation_space, lambda each: each),
            map_space(action_space, lambda each: each),
            dict(metadata or {}),
            tuple(each.about for each in listed),
            _log_prob(listed),
        )

    @property
    def starts(self) -> np.ndarray:
        """The number of the first step of each episode, [E]."""
        return np.cumsum(self.lengths) - self.lengths

    @property
    def returns(self) -> np.ndarray:
        """The undiscounted return of each episode, [E] float64."""
        return np.add.reduceat(self.reward.astype(np.float64), self.starts)

    def returns_to_go(self, gamma: float = 1.0) -> np.ndarray:
        """Returns `returns_to_go` of all steps, [N] float64."""
        return returns_to_go(self.reward, self.lengths, gamma)

    @property
    def places(self) -> np.ndarray:
        """The index of each step's observation among all N + E, [N]; its next observation has the next
        index."""
        return places(self.lengths)

    @property
    def env_id(self) -> str | None:
        """The id of the environment that was played; None if unknown."""
        return env_id_of(self.metadata)

    def episodes(self) -> Iterator[Episode]:
        """Yields the episodes; their arrays are views."""
        for i, (start, length) in enumerate(zip(self.starts, self.lengths, strict=True)):
            rows, seen = slice(start, start + length), slice(start + i, start + i + length + 1)
            yield Episode(
                map_parts(lambda _, x, seen=seen: x[seen], self.observation_space, self.observation),
                map_parts(lambda _, x, rows=rows: x[rows], self.action_space, self.action),
                self.reward[rows],
                self.terminated[rows],
                self.truncated[rows],
                self.about[i] if self.about else {},
                self._log_prob_of(rows),
            )

    def _log_prob_of(self, rows: slice) -> np.ndarray | None:
        known = self.log_prob is not None and not np.isnan(self.log_prob[rows]).any()
        return self.log_prob[rows] if self.log_prob is not None and known else None


def _log_prob(episodes: list[Episode]) -> np.ndarray | None:
    if all(each.log_prob is None for each in episodes):
        return None
    unknown = [np.full(each.length, np.nan, np.float32) for each in episodes]
    pairs = zip(episodes, unknown, strict=True)
    return np.concatenate([rows if each.log_prob is None else each.log_prob for each, rows in pairs])


def places(lengths: np.ndarray) -> np.ndarray:
    """Returns the index of the observation of each of N steps among all N + E observations (each episode has
    one more than steps). lengths: int [E], steps of each episode."""
    return np.arange(int(np.sum(lengths))) + np.repeat(np.arange(len(lengths)), lengths)


def returns_to_go(reward: np.ndarray, lengths: np.ndarray, gamma: float) -> np.ndarray:
    """Returns the discounted return from each step to the end of its episode, [N] float64; where an episode
    was truncated, of the rewards until then.

    reward: [N], of whole episodes one after another.
    lengths: int [E], steps of each episode; their sum is N.
    """
    ends = np.cumsum(lengths)
    found = np.zeros(len(reward))
    # All episodes go back from their ends together: as many passes as the longest has steps.
    by_length = np.argsort(-lengths, kind="stable")
    for back in range(1, int(lengths.max(initial=0)) + 1):
        going = by_length[: np.searchsorted(-lengths[by_length], -back, side="right")]
        now = ends[going] - back
        found[now] = reward[now] + gamma * (0.0 if back == 1 else found[now + 1])
    return found


def read(folder: str | os.PathLike[str], exact: bool = False) -> Dataset:
    """Reads all complete episodes of a data set, also of a recording that is in progress or was killed.

    exact: whether to keep the stored values to the bit. If not, they are converted for agents: floats and
        rewards to float32, integers to int32 (float32 where the space is beyond that), discrete actions
        from 0; and an episode that is neither terminated nor truncated at its end counts as truncated.

    Raises:
        UsageError: there is no such folder, no data set or no whole episode in it.
    """
    data = data_folder(folder)
    metadata = read_metadata(data)
    observations, actions = metadata.pop("observation_space"), metadata.pop("action_space")
    seen = map_space(observations, narrow_space), map_space(actions, from_zero)
    before = "" if exact else cache.state(data)
    columns = None if exact else cache.load(data, *seen)
    if columns is not None:
        return Dataset(**columns, observation_space=seen[0], action_space=seen[1], metadata=metadata)
    stored = stored_episodes(data, observations, actions, metadata)
    episodes = [each if exact else as_seen(each, observations, actions) for each in stored]
    if not episodes:
        raise UsageError(f"there is no whole episode in the data set {folder}: record some, or name another")
    if exact:
        return Dataset.of(episodes, observations, actions, metadata)
    found = Dataset.of(episodes, *seen, metadata)
    cache.store(data, before, vars(found), *seen)
    return found


def check_values(dataset: Dataset, folder: str) -> None:
    """Raises UsageError where a data set, which is in `folder`, contains NaN or infinity, or categories
    outside of its spaces."""

    def look(name: str) -> Any:
        def part(space: spaces.Space, values: np.ndarray) -> None:
            if not np.isfinite(values).all():
                raise UsageError(f"the data in {folder} hold {name} that is NaN or infinite")
            if not in_range(space, values):
                raise UsageError(f"the data in {folder} hold {name} that is none of {space}")

        return part

    map_parts(look("an observation"), dataset.observation_space, dataset.observation)
    map_parts(look("an action"), dataset.action_space, dataset.action)
    if not np.isfinite(dataset.reward).all():
        raise UsageError(f"the data in {folder} hold a reward that is NaN or infinite")


def as_seen(episode: Episode, observations: spaces.Space, actions: spaces.Space) -> Episode:
    """Returns an episode in the dtypes that agents use; the spaces are those that it was stored with."""
    truncated = episode.truncated
    if not (episode.terminated[-1] or truncated[-1]):
        truncated = np.append(truncated[:-1], True)
    return episode._replace(
        observation=map_parts(narrow_values, observations, episode.observation),
        action=map_parts(values_from_zero, actions, episode.action),
        reward=np.asarray(episode.reward, np.float32),
        truncated=truncated,
    )


def stored_episodes(
    data: Path, observations: spaces.Space, actions: spaces.Space, metadata: dict[str, Any]
) -> Iterator[Episode]:
    """Yields the complete episodes of the folder `data`; leaves out damaged ones with a warning."""
    for each in stored.stored(data, observations, actions, bool(metadata.get("jpeg_encoding", True))):
        if isinstance(each, Episode):
            yield each
        elif (found := shards.fitting(data, each, observations, actions, {})) is not None:
            yield found


def data_sets_near(path: Path) -> str:
    """Returns words, in brackets, for the data sets beside a path that are called nearly so; or nothing."""
    beside = folders_with(path.parent, f"data/{METADATA}")
    return f" ({nearest(path.name, beside)})" if beside else ""


def data_folder(folder: str | os.PathLike[str]) -> Path:
    """Returns the folder in which the files of a data set are: `folder/data`, or `folder` itself.

    Raises:
        UsageError: there is no such folder (it names near ones), or no data set in it.
    """
    path = Path(folder)
    if path.is_file():
        raise UsageError(
            f"{path} is a file: make a data set of it by python -m rl.data convert {path} --to DIR"
        )
    if not path.is_dir():
        near = data_sets_near(path)
        raise UsageError(f"there is no data set {path}{near}: record one by --record_data {path}")
    for data in (path / "data", path):
        if (data / METADATA).is_file():
            return data
    inside = folders_with(path, f"data/{METADATA}")
    hint = f" but in {', '.join(inside[:8])}" if inside else ""
    raise UsageError(f"{path} is no data set: there is no data/{METADATA} in it{hint}")


def write(
    folder: str | os.PathLike[str],
    dataset: Dataset,
    metadata: Mapping[str, Any] | None = None,
    force: bool = False,
) -> None:
    """Writes a data set atomically.

    metadata: entries in addition to `dataset.metadata` (see rl.data.metadata).
    force: whether to replace an existing data set.

    Raises:
        UsageError: the folder exists, or another process has made it in the meantime; it cannot be written
            (Unavailable if that may be temporary).
    """
    folder = Path(folder)
    final = folder / "data"
    spaces_of = dataset.observation_space, dataset.action_space
    try:
        before = _which(final)
        if before is not None and not force:
            raise UsageError(f"{final} is there already: name another folder")
        ensure_writable_dir(folder, "folder")
        with _own_folder(folder) as temporary:
            with h5py.File(temporary / MAIN, "w", libver=hdf5.FORMAT) as file:
                for i, episode in enumerate(dataset.episodes()):
                    hdf5.write_episode(file, i, episode, *spaces_of)
            described = {**dataset.metadata, "dataset_id": None, **(metadata or {}), "jpeg_encoding": False}
            described |= {"observation_space": spaces_of[0], "action_space": spaces_of[1]}
            described |= totals(len(dataset.lengths), int(dataset.lengths.sum()), temporary)
            write_metadata(temporary, described)
            fsync_path(temporary / MAIN)
            fsync_path(temporary)
            with folder_lock(folder, wait=True):
                if _which(final) != before:
                    raise UsageError(f"another process has written {final} meanwhile: name another folder")
                tidy(folder)
                commit_folder(temporary, final)
    except (OSError, RuntimeError) as error:
        raise shards.unwritten(final, error) from error


def _which(folder: Path) -> tuple[int, int] | None:
    """Returns an identity of a folder, to notice its replacement; None if there is no folder. Raises
    OSError."""
    try:
        found = folder.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_dev, found.st_ino


@contextlib.contextmanager
def _own_folder(folder: Path) -> Iterator[Path]:
    """Yields a new temporary folder in `folder` for this process, which is removed at the end; also removes
    those of processes that have died. Raises OSError."""
    with contextlib.ExitStack() as held:
        with folder_lock(folder, wait=True):  # so that nobody removes it before it is held
            tidy(folder)
            remove_dead(folder, _TEMPORARY)
            temporary = folder / f"{_TEMPORARY}{uuid.uuid4().hex[:12]}"
            temporary.mkdir()
            held.enter_context(folder_lock(temporary, wait=True))
        try:
            yield temporary
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
