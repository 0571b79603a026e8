"""What is in a data set, in words and numbers for a terminal."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from rl.data import stored
from rl.data.dataset import data_folder
from rl.data.hdf5 import Episode
from rl.data.metadata import env_id_of, options_of, read_metadata
from rl.errors import UsageError

BINS, WIDTH = 10, 40  # of the histogram: bars, and characters of the longest one


class Played(NamedTuple):
    """The facts of an episode that a summary needs."""

    episode_return: float
    length: int
    terminated: bool
    policy: int | None  # which of the data set's


def played(data: Path) -> Iterator[Played]:
    """Yields the episodes of a folder `data`, without their observations and actions.

    Raises:
        UsageError: they cannot be read.
    """
    nothing = spaces.Dict({})
    for each in stored.stored(data, nothing, nothing, jpeg=False):
        yield _played(each if isinstance(each, Episode) else each.episode)


def _played(episode: Episode) -> Played:
    total = float(episode.reward.sum(dtype=np.float64))
    return Played(total, episode.length, bool(episode.terminated[-1]), episode.about.get("policy"))


def summary(folder: str | os.PathLike[str]) -> list[str]:
    """Returns the lines that tell what is in a data set.

    Raises:
        UsageError: there is none, or no whole episode in it.
    """
    data = data_folder(folder)
    metadata, episodes = read_metadata(data), list(played(data))
    if not episodes:
        raise UsageError(f"there is no whole episode in the data set {folder}: record some, or name another")
    returns = np.array([each.episode_return for each in episodes])
    lengths = np.array([each.length for each in episodes])
    terminated = sum(each.terminated for each in episodes)
    rows = [
        ("environment", _environment(metadata)),
        ("observations", _shortened(metadata["observation_space"])),
        ("actions", _shortened(metadata["action_space"])),
        (
            "episodes",
            f"{len(episodes):,}: {terminated:,} terminated, {len(episodes) - terminated:,} truncated",
        ),
        (
            "steps",
            f"{lengths.sum():,}, {lengths.mean():.1f} an episode ({lengths.min():,} to {lengths.max():,})",
        ),
        ("returns", f"{_number(returns.mean())} +- {_number(returns.std())}"),
        ("", "min {}, quartiles {}, {}, {}, max {}".format(*map(_number, _quartiles(returns)))),
    ]
    rows += [("policy" if i == 0 else "", each) for i, each in enumerate(_policies(metadata, episodes))]
    lines = [f"{name:<13}{text}".rstrip() for name, text in rows]
    return [*lines, "", *histogram(returns)]


def _environment(metadata: dict[str, Any]) -> str:
    kwargs = options_of(metadata)["env_kwargs"]
    options = f" {json.dumps(kwargs)}" if kwargs else ""
    wrappers = metadata.get("env_wrappers") or []
    return f"{env_id_of(metadata) or 'unknown'}{options}{''.join(f' in {each}' for each in wrappers)}"


def _shortened(space: spaces.Space) -> str:
    text = " ".join(str(space).split())
    return text if len(text) <= 90 else f"{text[:87]}..."


def _policies(metadata: dict[str, Any], episodes: list[Played]) -> Iterator[str]:
    for i, policy in enumerate(metadata.get("policies") or []):
        returns = [each.episode_return for each in episodes if each.policy == i]
        known = ("hparams", "which", "step", "eval_policy", "seed", "run")
        said = ", ".join(f"{key} {policy[key]}" for key in known if policy.get(key) not in (None, ""))
        mean = f": {len(returns):,} episodes, {_number(float(np.mean(returns)))}" if returns else ""
        yield said + mean
    if not metadata.get("policies"):
        yield str(metadata.get("algorithm_name") or "unknown")


def _quartiles(returns: np.ndarray) -> list[float]:
    return [float(each) for each in np.quantile(returns, [0.0, 0.25, 0.5, 0.75, 1.0])]


def histogram(values: np.ndarray) -> list[str]:
    """Returns a histogram in lines of text, of equal bins from the least to the greatest value; a last line
    counts what is no finite number."""
    finite = values[np.isfinite(values)]
    if len(finite) < len(values):
        rest = [f"{'not finite':>10}  {len(values) - len(finite):,}"]
        return (histogram(finite) if len(finite) else []) + rest
    if values.min() == values.max():
        return [f"{_number(float(values.min())):>10}  {'#' * WIDTH} {len(values):,}"]
    counts, edges = np.histogram(values, BINS)
    texts = [f"{_number(low):>10} to {_number(high):<10}" for low, high in itertools.pairwise(edges)]
    bars = ["#" * int(np.ceil(WIDTH * count / counts.max())) for count in counts]
    return [f"{text} {bar} {count:,}".rstrip() for text, bar, count in zip(texts, bars, counts, strict=True)]


def _number(value: float) -> str:
    return f"{value:,.1f}" if abs(value) >= 10 else f"{value:.3g}"
