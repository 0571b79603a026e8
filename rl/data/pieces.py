"""A data set larger than memory, which is read in pieces of whole episodes."""

from __future__ import annotations

import os

import numpy as np

from rl.data import stored
from rl.data.dataset import Dataset, as_seen, data_folder
from rl.data.hdf5 import Damaged, Episode
from rl.data.metadata import read_metadata
from rl.data.spaces import from_zero, map_space, narrow_space
from rl.errors import UsageError


class Pieces:
    """The episodes of main_data.hdf5 and its shards, put into groups that are read one at a time.

    Args:
        folder: of the data set.

    Raises:
        UsageError: it has no complete episode, or it has journals, which `repair` must turn into shards
            first.
    """

    def __init__(self, folder: str | os.PathLike[str]):
        self.folder, self._data = folder, data_folder(folder)
        self.metadata = read_metadata(self._data)
        self._seen, self._acted = self.metadata.pop("observation_space"), self.metadata.pop("action_space")
        self.observation_space = map_space(self._seen, narrow_space)
        self.action_space = map_space(self._acted, from_zero)
        if stored.journals(self._data):
            raise UsageError(
                f"data_chunk reads no journals, and there are some in {folder}: end what records there, then "
                f"make shards of them by python -m rl.data repair {folder}"
            )
        self._reader = stored.Reader(self._data)
        sound = [
            (number, length) for number in self._reader.numbers if (length := self._reader.length(number))
        ]
        if not sound:
            raise UsageError(
                f"there is no whole episode in the data set {folder}: record some, or name another"
            )
        self._numbers, self.lengths = (np.array(each, np.int64) for each in zip(*sound, strict=True))
        self._groups: list[np.ndarray] = []  # of places in `lengths`

    def group(self, order: np.ndarray, size: int) -> None:
        """Puts the episodes, in the order [E] of their places, into groups of at most `size` steps, of one
        episode at least."""
        groups: list[list[int]] = []
        steps = size
        for place in order.tolist():
            if steps + self.lengths[place] > size:
                groups.append([])
                steps = 0
            groups[-1].append(place)
            steps += int(self.lengths[place])
        self._groups = [np.array(each) for each in groups]

    @property
    def steps(self) -> np.ndarray:
        """The number of steps of each group, int64 [G]."""
        return np.array([self.lengths[each].sum() for each in self._groups])

    @property
    def observations(self) -> np.ndarray:
        """The number of observations of each group (one more than steps for each episode), int64 [G]."""
        return self.steps + np.array([len(each) for each in self._groups])

    def read(self, group: int) -> Dataset:
        """Returns the episodes of a group as agents see them. Raises UsageError where one is damaged, or
        cannot be read (Unavailable where that may pass)."""
        episodes = [self._episode(int(self._numbers[place])) for place in self._groups[group]]
        return Dataset.of(episodes, self.observation_space, self.action_space, self.metadata)

    def _episode(self, number: int) -> Episode:
        try:
            jpeg = bool(self.metadata.get("jpeg_encoding", True))
            found = self._reader.episode(number, self._seen, self._acted, jpeg)
            if found is None:
                raise Damaged("its shard is")
            return as_seen(found, self._seen, self._acted)
        except Damaged as error:
            raise UsageError(
                f"episode {number} in {self.folder} is damaged: {error}; a data set without it is made by "
                f"python -m rl.data convert {self.folder} --to DIR"
            ) from error

    def close(self) -> None:
        """Closes the files."""
        self._reader.close()
