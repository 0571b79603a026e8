"""Decoupled weight decay: AdamW's step by hand, and which variables decay."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from rl.errors import UsageError
from rl.hparams.merge import resolve
from rl.ops import random

BOX = spaces.Box(-1.0, 1.0, (2,))
ADAMW = {"optimizer": "adamw", "weight_decay": 0.01, "adam_epsilon": 1e-12, "lr": 0.1}


def test_two_steps_of_adamw_equal_those_by_hand(make_agent):
    # Loshchilov & Hutter 2019, https://arxiv.org/abs/1711.05101, algorithm 2, beta 0.9 and 0.999:
    # g = 0.5: m / v^0.5 = 1, so 2 - 0.1 (1 + 0.01 * 2) = 1.898.
    # g = -0.25: m = 0.9 * 0.05 - 0.1 * 0.25 = 0.02, v = 0.999 * 0.00025 + 0.001 * 0.0625 = 0.00031225;
    # over 1 - 0.9^2 and 1 - 0.999^2: 0.1052632 and 0.1562031, so 1.898 - 0.1 (0.2663378 + 0.01 * 1.898).
    agent = make_agent("ppo", **ADAMW)
    variables = agent.network.trainable_variables
    for variable in variables:
        variable.assign(tf.fill(variable.shape, 2.0))
    for gradient, kernel, bias in ((0.5, 1.898, 1.9), (-0.25, 1.8694682, 1.8733662)):
        agent.optimizers["network"].apply([tf.fill(each.shape, gradient) for each in variables], variables)
        for each in variables:
            expected = kernel if each.name == "kernel" else bias
            np.testing.assert_allclose(each.numpy(), np.full(each.shape, expected), rtol=1e-5)


def test_decay_follows_the_learning_rate_s_schedule(make_agent):
    agent = make_agent("ppo", **ADAMW, lr_schedule="linear", train_steps=100)
    agent.schedule(tf.constant(75, tf.int64))
    kernel, variables = agent.network.policy.kernel, agent.network.trainable_variables
    before = kernel.numpy()
    agent.optimizers["network"].apply([tf.zeros(each.shape) for each in variables], variables)
    np.testing.assert_allclose(kernel.numpy(), before * (1.0 - 0.025 * 0.01), rtol=1e-6)


CASES = {
    "layer norm, log_std": ("ppo", {"action_space": BOX, "model.layer_norm": True}),
    "recurrent": ("ppo", {"model.name": "lstm"}),
    "temperature, ensemble": ("sac", {"action_space": BOX, "model.layer_norm": True, "critic_lr": 0.25}),
    "noisy, dueling": ("dqn", {"noisy": True, "act_select": "greedy", "dueling": True}),
    "two optimizers of one network": ("vpg", {"action_space": BOX, "value_lr": 0.25}),
    "with shared layers": ("vpg", {"model.shared": True, "value_lr": 0.25}),
}


@pytest.mark.parametrize("case", CASES)
def test_kernels_decay_once_and_nothing_else(make_agent, case):
    name, overrides = CASES[case]
    agent = make_agent(name, **ADAMW | {"lr": 0.5, "weight_decay": 0.5} | overrides)
    of_optimizer = {key: network.trainable_variables for key, network in agent.networks.items()}
    of_optimizer |= {"value": agent.network.trainable_variables}
    of_optimizer |= {"temperature": [getattr(agent, "log_temperature", None)]}
    found = {key: of_optimizer[key] for key in agent.optimizers}
    every = {id(each): each for variables in found.values() for each in variables}.values()
    for each in every:
        each.assign(tf.ones(each.shape))
    for key, variables in found.items():  # one step of each, without gradients
        agent.optimizers[key].apply([tf.zeros(each.shape) for each in variables], variables)
    decayed = [each.path for each in every if each.path.endswith(("/kernel", "/recurrent_kernel"))]
    assert 0 < len(decayed) < len(every)
    critics = {id(each) for each in found.get("critic", [])}
    for each in every:
        slow = id(each) in critics or ("value" in found and each.path.startswith("value"))  # lr 0.25, not 0.5
        left = (0.875 if slow else 0.75) if each.path in decayed else 1.0
        np.testing.assert_allclose(each.numpy(), np.full(each.shape, left), rtol=1e-6, err_msg=each.path)


def test_without_weight_decay_adamw_is_adam(make_agent, make_rollout, snapshot):
    settings = {"num_envs": 4, "rollout_length": 8, "lr": 0.1}
    rollout, found = make_rollout(make_agent("a2c", **settings)), []
    for optimizer in ("adam", "adamw"):
        agent = make_agent("a2c", **settings, optimizer=optimizer)
        agent.update(rollout, random.key(0))
        found.append(snapshot(agent)["network/policy/kernel"])
    np.testing.assert_array_equal(found[1], found[0])


@pytest.mark.parametrize("optimizer", ["adam", "rmsprop", "sgd"])
def test_weight_decay_that_nothing_would_apply_is_refused(optimizer):
    with pytest.raises(UsageError, match=f"weight_decay=0.1: optimizer {optimizer} has none"):
        resolve("ppo_cartpole", {"optimizer": optimizer, "weight_decay": 0.1})
    assert resolve("ppo_cartpole", {"optimizer": "adamw", "weight_decay": 0.1}).weight_decay == 0.1
    assert resolve("es_cartpole", {"optimizer": optimizer, "weight_decay": 0.1}).weight_decay == 0.1
