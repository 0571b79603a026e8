"""Observing the action and the reward before: what it is good for, in training, evaluation and by hand."""

from __future__ import annotations

import csv

import gymnasium
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

import rl
from rl.api import load
from rl.envs import make_gym_env
from rl.envs.graph.base import GraphEnv
from rl.envs.registry import registry as envs
from rl.ops import random
from rl.runners.evaluate import Evaluator
from rl.runners.player import Player

ENV_ID = "Bandit-v0"  # the name under which both forms are registered


class Bandit(GraphEnv):
    """Two levers, of which one, drawn for each episode, pays 1 at every pull; nothing is shown; 20 steps."""

    max_episode_steps = 20
    observation_space = spaces.Box(0.0, 1.0, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def initial(self, seed):
        return random.randint(seed, [self.num_envs], 2)

    def dynamics(self, physics, action, seed):
        reward = tf.cast(tf.equal(tf.cast(action, tf.int32), physics), tf.float32)
        return physics, reward, tf.zeros([self.num_envs], tf.bool)

    def observe(self, physics):
        return tf.zeros([self.num_envs, 1])


class BanditGym(gymnasium.Env):
    """The same for Gymnasium."""

    observation_space, action_space = Bandit.observation_space, Bandit.action_space

    def __init__(self, render_mode=None):
        self.render_mode = render_mode

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.lever = int(self.np_random.integers(2))
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), float(action == self.lever), False, False, {}


@pytest.fixture(autouse=True, scope="module")
def _bandit():
    envs.register(Bandit)
    gymnasium.register(ENV_ID, entry_point=BanditGym, max_episode_steps=20)
    yield
    envs._entries().pop(ENV_ID)
    del gymnasium.registry[ENV_ID]


OVERRIDES = {"env": ENV_ID, "train_steps": 16_384, "gamma": 0.0, "compile": "graph"}


def trained(folder, backend):
    settings = OVERRIDES | {"env_backend": backend, "log_period": 512}
    return rl.train("ppo_identity", output_dir=folder, previous_action_reward=True, **settings)


@pytest.fixture(scope="module")
def run(_bandit, tmp_path_factory):
    return trained(tmp_path_factory.mktemp("bandit"), "graph")


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["graph", "gym"])
def test_a_policy_without_memory_learns_to_stay_with_what_was_paid(request, tmp_path, backend):
    run = request.getfixturevalue("run") if backend == "graph" else trained(tmp_path, backend)
    with open(run.run_dir / "metrics.csv", encoding="utf-8") as file:
        first = next(csv.DictReader(file))
    assert float(first["episode/return_mean"]) < 15.0  # 10 by chance
    agent = load(run.run_dir, "last").agent
    evaluator = Evaluator(agent, 40)
    found = evaluator.run(1)
    evaluator.close()
    assert set(found.returns) == {19.0, 20.0}  # the first pull is a guess
    player = Player(agent, "human")  # which this environment, that draws nothing, bears
    assert min(player.play(seed).episode_return for seed in (5, 6, 7)) >= 19.0


@pytest.mark.slow
def test_a_saved_policy_takes_what_the_environment_shows(run):
    policy = load(run.run_dir)
    env = make_gym_env(ENV_ID, previous_action_reward=True)
    for seed in range(10):
        observation, total = env.reset(seed=seed)[0], 0.0
        for _ in range(20):
            observation, reward, *_ = env.step(policy(observation))
            total += reward
        assert total >= 19.0
    assert policy.evaluate(5).returns.min() >= 19.0


def test_nothing_of_it_can_be_learned_without(build):
    runner = build("ppo_identity", **OVERRIDES)
    runner.run(8)
    evaluator = Evaluator(runner.agent, 40)
    assert set(evaluator.run(1).returns) == {0.0, 20.0}
    evaluator.close()
