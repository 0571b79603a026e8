"""The policy's state: carried from step to step, started anew with every episode, kept in trajectories."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from rl.agents.agent import Agent
from rl.envs.graph.base import GraphEnv
from rl.errors import UsageError
from rl.hparams.hparams import HParams
from rl.memory.rollout import Rollout
from rl.models.networks import ActorCritic
from rl.ops import distributions
from rl.parallel.devices import Devices
from rl.runners.actor import Actor
from rl.runners.in_graph import InGraphRunner
from rl.runners.iteration import Iteration
from rl.types import PolicyOutput, Update

LENGTH, COUNT = 11, 3


class Clock(GraphEnv):
    """Shows the step of the episode; ends after 3 steps in environment 0, 4 in environment 1, 5 in 2."""

    max_episode_steps = None
    observation_space = spaces.Box(0.0, 9.0, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def initial(self, seed):
        return tf.zeros([self.num_envs])

    def dynamics(self, physics, action, seed):
        after = physics + 1.0
        ends = after >= 3.0 + tf.range(self.num_envs, dtype=tf.float32)
        return after, tf.ones([self.num_envs]), ends

    def observe(self, physics):
        return physics[:, None]


class Rememberer(Agent):
    """A policy whose values are what a trajectory must be able to reproduce; learns nothing."""

    experience = "rollout"
    action_spaces = (spaces.Discrete,)
    trajectory_extras = ("value", "log_prob")
    recurrent = True
    seen = None  # the trajectories given to `update`

    def build(self):
        network = ActorCritic(self.hparams, self.encoder, self.action_space, self.initializers, 0.0)
        self.network = self.add_network("network", network)

    def policy(self, observation, recurrent_state, seed, training):
        output = self.network(observation, recurrent_state)
        distribution = distributions.of_space(self.action_space, output.parameters)
        return PolicyOutput(distribution=distribution, value=output.value, recurrent_state=output.state)

    def updates_per_iteration(self):
        return 1

    def update(self, batch, seed):
        self.seen = batch
        return Update({})


class Parameters(Rememberer):
    experience = "parameters"


def make(kind=Rememberer, model="lstm", act_select="sample"):
    hparams = HParams(algo="rememberer", env="Clock-v0", num_envs=COUNT, rollout_length=LENGTH)
    hparams.model.name, hparams.model.hidden, hparams.model.recurrent_units = model, (4,), 5
    hparams.act_select = act_select
    env = Clock(COUNT)
    agent = kind(hparams, env.observation_space, env.action_space, 0)
    return agent, env


def rollouts(kind, model, times):
    """The trajectories of `times` iterations in one compiled function each."""
    agent, env = make(kind, model)
    runner = InGraphRunner(env, Iteration(agent, Rollout(None, agent.hparams)), False, Devices())

    @tf.function(autograph=False)
    def one(i):
        trajectory, _ = runner._rollout(tf.stack([i, 0]), tf.constant(0, tf.int64))
        return trajectory

    return agent, [one(tf.constant(i)) for i in range(times)]


@pytest.mark.parametrize("model", ["lstm", "gru"])
def test_a_trajectory_unrolled_from_its_stored_state_gives_the_values_that_were_acted_on(model):
    agent, found = rollouts(Rememberer, model, 3)
    for trajectory in found:
        assert (trajectory.mask.numpy() == 0.0).any()
        now = trajectory.observation[:-1]
        output = agent.network.unroll(now, trajectory.recurrent_state, trajectory.mask)
        value = tf.reshape(output.value, trajectory.reward.shape)
        np.testing.assert_allclose(value, trajectory.extras["value"], rtol=1e-5, atol=1e-6)
    assert any((leaf.numpy() != 0.0).any() for leaf in tf.nest.flatten(found[1].recurrent_state))


def test_equal_histories_have_equal_values_in_every_episode():
    _, found = rollouts(Rememberer, "lstm", 2)
    value = np.concatenate([each.extras["value"].numpy() for each in found])  # [T, B]
    shown = np.concatenate([each.observation[:-1].numpy() for each in found])[:, :, 0]
    for step in range(3):  # the first steps of every episode are the same in all environments
        values = value[shown == step]
        assert len(values) > 6
        np.testing.assert_allclose(values, values[0], rtol=1e-5, atol=1e-6)
    assert abs(value[shown == 0][0] - value[shown == 1][0]) > 1e-6


def test_agents_that_compare_parameters_get_fresh_episodes_in_every_rollout():
    _, found = rollouts(Parameters, "lstm", 3)
    for trajectory in found:
        assert (trajectory.observation[0].numpy() == 0.0).all()
        assert (trajectory.mask[0].numpy() == 1.0).all()
        assert all((leaf.numpy() == 0.0).all() for leaf in tf.nest.flatten(trajectory.recurrent_state))
    _, found = rollouts(Rememberer, "lstm", 3)
    assert any((trajectory.observation[0].numpy() != 0.0).any() for trajectory in found)


@pytest.mark.parametrize("backend", ["litert", "compiled"])
def test_the_actor_on_the_host_remembers_and_forgets_like_the_network(backend):
    agent, _ = make(act_select="greedy")
    actor = Actor(agent, COUNT, True, 0, backend)
    assert actor.backend == backend
    generator = np.random.default_rng(0)
    state = agent.initial_state(COUNT)["network"]
    actor.begin(0, 6)
    for t in range(6):
        before = actor.network_state
        for mine, theirs in zip(before, tf.nest.flatten(state), strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)
        observation = generator.normal(size=(COUNT, 1)).astype(np.float32)
        _, extras = actor(observation, t, 0)
        output = agent.network(tf.constant(observation), state)
        np.testing.assert_allclose(extras[0], output.value, rtol=1e-4, atol=1e-5)
        starts = np.array([False, t == 2, False])
        actor.forget(starts)
        state = tf.nest.map_structure(
            lambda x, keep=~starts: x * keep[:, None].astype(np.float32), output.state
        )
    actor.forget()
    assert all((leaf == 0.0).all() for leaf in actor.network_state)


def test_a_model_that_remembers_is_refused_where_the_algorithm_cannot_learn_with_it():
    class Forgetful(Rememberer):
        recurrent = False

    with pytest.raises(UsageError, match="cannot learn with model gru"):
        make(Forgetful, "gru")
    make(Forgetful, "mlp")
