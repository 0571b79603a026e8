"""Data sets taken apart and put together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rl.data.dataset import Dataset
from rl.data.hdf5 import Episode
from rl.data.metadata import env_id_of, options_of
from rl.data.spaces import to_json
from rl.errors import UsageError


def split(dataset: Dataset, first: int, seed: int) -> tuple[Dataset, Dataset]:
    """Returns `first` episodes that are drawn, and the others, both in their order.

    Raises:
        UsageError: one of the two would be empty.
    """
    count = len(dataset.lengths)
    if not 0 < first < count:
        raise UsageError(f"{first} of {count} episodes: both parts need one, take 1 to {count - 1}")
    drawn = np.zeros(count, bool)
    drawn[np.random.default_rng(seed).permutation(count)[:first]] = True
    return tuple(_chosen(dataset, mask) for mask in (drawn, ~drawn))  # type: ignore[return-value]


def _chosen(dataset: Dataset, mask: np.ndarray) -> Dataset:
    episodes = [each for each, wanted in zip(dataset.episodes(), mask, strict=True) if wanted]
    return Dataset.of(episodes, dataset.observation_space, dataset.action_space, dataset.metadata)


def merge(names: Sequence[str], datasets: Sequence[Dataset]) -> Dataset:
    """Returns all episodes of data sets of one environment, in this order.

    names: of the data sets, for messages.

    Raises:
        UsageError: they are of unlike environments.
    """
    first = datasets[0]
    for name, each in zip(names[1:], datasets[1:], strict=True):
        for what, here, there in (
            ("environment", env_id_of(first.metadata), env_id_of(each.metadata)),
            ("environment's options", options_of(first.metadata), options_of(each.metadata)),
            ("observation space", to_json(first.observation_space), to_json(each.observation_space)),
            ("action space", to_json(first.action_space), to_json(each.action_space)),
        ):
            if here != there:
                raise UsageError(
                    f"{names[0]} and {name} are not merged, their {what} differs: {here} and {there}"
                )
    policies: list[dict[str, object]] = []
    episodes: list[Episode] = []
    for each in datasets:
        theirs = each.metadata.get("policies") or []
        policies += [policy for policy in theirs if policy not in policies]
        places = [policies.index(policy) for policy in theirs]
        for episode in each.episodes():
            about = dict(episode.about)
            if about.get("policy", len(places)) < len(places):
                about["policy"] = places[about["policy"]]
            episodes.append(episode._replace(about=about))
    metadata = {**first.metadata, **({"policies": policies} if policies else {})}
    return Dataset.of(episodes, first.observation_space, first.action_space, metadata)
