"""MAPPO: what policy and value see, who learns from what, and where it is refused."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tiny_team

from rl.agents.algos.registry import get_algo
from rl.envs.agents import row_space
from rl.errors import UsageError
from rl.hparams.merge import resolve
from rl.models.grouped import Grouped
from rl.ops import random

ROWS = 6


def made(**overrides):
    env = tiny_team.TinyTeam(1)
    hparams = resolve("mappo", {"env": "Test-v0", "model.hidden": (8,), **overrides})
    return get_algo("mappo")(hparams, row_space(env, True), env.action_space, 0)


def seen(**parts):
    rng = np.random.default_rng(0)
    shown = {"agent": np.eye(2)[[0, 1] * 3], "observation": rng.normal(size=(ROWS, 4))}
    shown |= {"state": rng.normal(size=(ROWS, 8))} | parts
    return {name: tf.constant(x, tf.float32) for name, x in shown.items()}


@pytest.mark.parametrize("options", [{}, {"model.name": "gru"}, {"policies": "independent"}])
def test_the_value_sees_the_state_and_the_policy_does_not(options):
    agent = made(**options)
    state = agent.initial_state(ROWS)
    before, after = (
        agent.policy(each, state["network"] if state else (), random.key(0), True)
        for each in (seen(), seen(state=np.zeros((ROWS, 8))))
    )
    np.testing.assert_array_equal(before.distribution.logits, after.distribution.logits)
    assert (np.abs(before.value - after.value) > 1e-4).all()
    other = agent.policy(seen(observation=np.zeros((ROWS, 4))), state["network"] if state else (), 0, True)
    assert (before.distribution.logits.numpy() != other.distribution.logits.numpy()).any(-1).all()
    assert isinstance(agent.network, Grouped) == ("policies" in options)


def test_the_state_is_standardised_like_all_else():
    agent = made(normalize_observation=True)
    agent.encoder.observe(seen(state=np.full((ROWS, 8), 3.0)), tf.ones([ROWS]))
    parts = agent.encoder.parts(seen(state=np.full((ROWS, 8), 3.0)))
    assert {name: x.shape[1] for name, x in parts.items()} == {"agent": 2, "observation": 4, "state": 8}
    np.testing.assert_allclose(parts["state"], np.zeros((ROWS, 8)), atol=1e-5)
    policy = agent.network.policy_encoder(seen())
    assert policy.shape == (ROWS, 6)


def test_where_it_is_refused(build):
    with pytest.raises(UsageError, match="mappo is for environments of many agents, and CartPole-v1 has one"):
        build("mappo", env="CartPole-v1")
    with pytest.raises(UsageError, match=r"model.shared=true: mappo's policy must not see"):
        build("mappo", env="TwoStepGame-v0", **{"model.shared": True})
