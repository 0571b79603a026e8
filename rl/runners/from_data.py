"""The data set that a run learns from: read, checked, and recognised when the run is resumed."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from rl.agents.agent import Agent
from rl.data.dataset import Dataset, check_values, read
from rl.data.spaces import map_parts
from rl.envs.of_data import telling
from rl.errors import UsageError
from rl.hparams.hparams import HParams
from rl.parallel.devices import Devices
from rl.spaces import space_spec


class Fingerprint:
    """Keeps a fingerprint of the data in checkpoints; a resumed run reads the data themselves again.

    Args:
        number: `fingerprint` of what the run learns from.
        folder: where the data are.
    """

    def __init__(self, number: int, folder: str):
        self._folder, self._expected = folder, number
        self.variable = tf.Variable(self._expected, dtype=tf.int64, trainable=False, name="fingerprint")

    def check(self, address: str) -> None:
        """Raises UsageError where the run at that address, which was read into `variable`, learned from
        other data."""
        if int(self.variable.numpy()) != self._expected:
            raise UsageError(
                f"the run in {address} learned from other data than those that are in {self._folder} now: "
                "bring them back, or choose another --output_dir"
            )


def checked_data(hparams: HParams) -> Dataset:
    """Reads the data set of the hparams, its observations and rewards as they say.

    Raises:
        UsageError: there is none, or as `check_values`.
    """
    data = read(hparams.data)
    check_values(data, hparams.data)
    return scaled(hparams, telling(hparams, data), float(data.returns.min()), float(data.returns.max()))


def scaled(hparams: HParams, data: Dataset, low: float, high: float) -> Dataset:
    """Returns data with rewards as `return_span` says. low, high: the least and the largest return of all."""
    if hparams.return_span is None:
        return data
    if high == low:
        raise UsageError(
            f"return_span={hparams.return_span:g}: all episodes in {hparams.data} have a return of {low:g}, "
            "leave it out"
        )
    return dataclasses.replace(
        data, reward=np.asarray(data.reward * (hparams.return_span / (high - low)), np.float32)
    )


def fingerprint(data: Dataset) -> int:
    """Returns a hash of the data's columns (not of their files), in [-2^63, 2^63)."""
    digest = hashlib.sha256()
    columns = (data.observation, data.action, data.reward, data.terminated, data.truncated, data.lengths)
    for leaf in tf.nest.flatten(columns):
        array = np.ascontiguousarray(leaf)
        digest.update(f"{array.shape}".encode())
        digest.update(array.data)
    return int.from_bytes(digest.digest()[:8], "little", signed=True)


def data_beside(hparams: HParams, workers: Any, strategy: Any) -> Dataset | None:
    """Reads the data set that a run learns from beside what it plays; None where it has none.

    Raises:
        UsageError: as `checked_data`; something is asked for that cannot be with data.
    """
    if hparams.data_chunk:
        raise UsageError(f"hparam data_chunk={hparams.data_chunk} is for memory=dataset: leave it out")
    if not hparams.data:
        return None
    if workers is not None:
        raise UsageError(f"data={hparams.data}: workers bring no data, leave --num_workers out")
    if Devices(strategy).count > 1:
        raise UsageError(f"data={hparams.data}: data are for one device, show it one of them")
    if hparams.return_span is not None:
        raise UsageError("return_span scales rewards of data alone, which would not be those that are played")
    return checked_data(hparams)


def augmented_data(data: Dataset, augment: Any, gamma: float) -> Dataset:
    """Returns data with the rewards that `rl.ops.trajectories.augmented` gives to what is played beside them;
    as they are where `augment` is None."""
    if augment is None:
        return data
    rewards = []
    for each in data.episodes():
        now, following = (
            map_parts(lambda _, x, rows=rows: x[rows], data.observation_space, each.observation)
            for rows in (slice(None, -1), slice(1, None))
        )
        rewards.append(augment(now, each.action, each.reward, following, each.terminated, gamma))
    return dataclasses.replace(data, reward=np.asarray(np.concatenate(rewards), np.float32))


def check_fits(hparams: HParams, data: Dataset, agent: Agent) -> None:
    """Raises UsageError where the data are of other spaces than the environment that is played."""
    played = agent.observation_space, agent.action_space
    check_same_spaces(hparams, (data.observation_space, data.action_space), played)


def check_same_spaces(hparams: HParams, of_data: Sequence[Any], of_env: Sequence[Any]) -> None:
    """Raises UsageError where networks for the data's observation and action space do not fit the
    environment's."""
    for i, (data, env) in enumerate(zip(of_data, of_env, strict=True)):
        if not alike(data, env, acts=i == 1):
            raise UsageError(
                f"the data in {hparams.data} are of {data}, {hparams.env} has {env}: name the environment "
                f"that they are of by --env, and its wrappers (python -m rl.data {hparams.data} tells more)"
            )


def alike(one: spaces.Space, other: spaces.Space, acts: bool = False) -> bool:
    """Says whether networks for one space fit the other: the same tensors, of the same discrete values, which
    agents' actions (`acts`) count from 0; for these also the same finite bounds of a Box."""

    def looks(space: spaces.Space) -> Any:
        return space_spec(space), _discrete_values(space, acts)

    if looks(one) != looks(other):
        return False
    if not (acts and isinstance(one, spaces.Box) and isinstance(other, spaces.Box)):
        return True
    limits = [(one.low, other.low), (one.high, other.high)]
    return all(np.allclose(*pair) for pair in limits if np.isfinite(pair).all())


def _discrete_values(space: spaces.Space, acts: bool) -> Any:
    """Returns how many values each discrete number of a space has, and the first of them; None for what is
    not discrete."""
    if isinstance(space, spaces.Dict):
        return {key: _discrete_values(each, acts) for key, each in space.items()}
    if isinstance(space, spaces.Tuple):
        return [_discrete_values(each, acts) for each in space.spaces]
    if not isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        return None
    count = space.n if isinstance(space, spaces.Discrete) else space.nvec
    return np.array(count).tolist(), None if acts else np.array(space.start).tolist()
