"""Which seed each draw of a run has: none is used twice, and learners share those that they must."""

from __future__ import annotations

import numpy as np
import pytest

from rl.ops import random
from rl.parallel import replicas
from rl.runners import seeds

UPDATES = 3


@pytest.fixture
def as_learner():
    """Makes this process one of three learners."""
    yield lambda rank: replicas.join(replicas.Group(3, rank))
    replicas.join(replicas.Group())


def drawn(iterations=4, root=7):
    """The seeds of a run's first iterations, by what they are for."""
    root = random.key(root)
    found = {"first": seeds.first_seed(root)}
    for number in range(iterations):
        acting, learning = seeds.iteration_seeds(root, number)
        for name, seed in zip(("noise", "steps", "episodes"), seeds.rollout_seeds(acting), strict=True):
            found[f"{name} {number}"] = seed
        for i in range(UPDATES):
            sample, update = seeds.update_seeds(learning, i)
            found |= {f"sample {number} {i}": sample, f"update {number} {i}": update}
    return {name: tuple(int(each) for each in np.asarray(seed)) for name, seed in found.items()}


def test_no_seed_serves_twice():
    found = drawn()
    assert len(set(found.values())) == len(found) == 1 + 4 * (3 + 2 * UPDATES)
    assert not set(found.values()) & set(drawn(root=8).values())


def test_learners_share_the_seeds_of_updates_and_noise_and_have_their_own_of_play_and_samples(as_learner):
    by_rank = []
    for rank in range(3):
        as_learner(rank)
        by_rank.append(drawn())
    shared = {
        name.split()[0] for name, seed in by_rank[0].items() if seed == by_rank[1][name] == by_rank[2][name]
    }
    own = {
        name.split()[0]
        for name, seed in by_rank[0].items()
        if len({seed, *(one[name] for one in by_rank[1:])}) == 3
    }
    assert (shared, own) == ({"first", "noise", "update"}, {"steps", "episodes", "sample"})


def test_devices_environments_begin_with_seeds_of_their_own_and_the_first_with_that_of_one_device():
    root = random.key(7)
    begun = [tuple(np.asarray(seeds.first_seed(root, device))) for device in range(3)]
    assert len(set(begun)) == 3 and begun[0] == tuple(np.asarray(seeds.first_seed(root)))


def test_a_buffers_batches_have_a_seed_each():
    root = random.key(7)
    found = {tuple(np.asarray(seeds.buffer_seed(root, number, i))) for number in range(5) for i in range(4)}
    assert len(found) == 20
