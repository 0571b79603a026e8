"""What rollouts keep beside the transitions, in the memory of sequences."""

from __future__ import annotations

import types

import gymnasium
import numpy as np
import tensorflow as tf

from rl.memory.registry import get_memory
from rl.memory.spec import MemorySpec
from rl.ops import random

from .conftest import make_hparams, random_rows, split_rows

STEP = tf.constant(0, tf.int64)


def test_what_was_kept_beside_comes_with_the_steps_that_it_was_kept_of() -> None:
    settings = vars(make_hparams(replay_capacity=90, batch_size=16))
    hparams = types.SimpleNamespace(**settings, burn_in=0, unroll_length=8, prioritized=False)
    box, names = gymnasium.spaces.Box(-np.inf, np.inf, [1]), ("twice", "more")
    memory = get_memory("sequence")(
        MemorySpec(box, gymnasium.spaces.Discrete(100), 3, 5, extras=names), hparams
    )
    rows = random_rows(np.random.default_rng(0), 100, 3)
    for rollout in split_rows(rows, [5] * 20):  # six of which it holds
        memory.add(rollout._replace(extras={"twice": 2.0 * rollout.reward, "more": rollout.reward + 100.0}))
    memory.check_valid()
    found = memory.sample(random.key(0), STEP).trajectory
    assert len(np.unique(found.reward)) > 50
    np.testing.assert_array_equal(found.extras["twice"], 2.0 * found.reward)
    np.testing.assert_array_equal(found.extras["more"], found.reward + 100.0)
    assert {"extras/twice", "extras/more"} <= memory.variables.keys() & memory.appended().keys()
