"""The decision transformer: its loss by hand, its window while it acts, the return that it is asked for."""

from __future__ import annotations

import math

import numpy as np
import own_data
import pytest
import tensorflow as tf
from gymnasium import spaces
from known_networks import BOX

from rl.agents.agent import network_state
from rl.data.dataset import Dataset, write
from rl.envs.wrappers import with_previous
from rl.errors import UsageError
from rl.hparams.merge import named, resolve
from rl.models.decision_transformer import Window
from rl.ops import random
from rl.policy import Policy
from rl.runners.actor import Actor
from rl.runners.evaluate import Evaluator
from rl.types import SequenceBatch, Trajectory

SEED, STEP = random.key(0), tf.constant(0, tf.int64)
SEEN = spaces.Box(-5.0, 5.0, (3,), np.float32)
SMALL = {"context_length": 3, "embedding": 8, "heads": 2, "layers": 2, "max_timestep": 5}
TARGET = {"target_return": 10.0, "return_scale": 4.0}


@pytest.fixture
def make(make_agent):
    """An agent whose weights are far from symmetric, and whose policy is far from uniform."""

    def make(action_space=None, **overrides):
        action_space = spaces.Discrete(3) if action_space is None else action_space
        seen = with_previous(SEEN, action_space)
        agent = make_agent(
            "dt", observation_space=seen, action_space=action_space, **SMALL | TARGET | overrides
        )
        rng = np.random.default_rng(0)
        for each in agent.network.trainable_variables:
            each.assign(each + rng.normal(0.0, 0.5, each.shape))
        return agent

    return make


def constant(agent, output):
    """Makes the outputs the same everywhere."""
    agent.network.policy.kernel.assign(tf.zeros_like(agent.network.policy.kernel))
    agent.network.policy.bias.assign(tf.constant(output, tf.float32))


def told(seen, action, reward):
    """Observations [N, 3] with the action and the reward before them."""
    parts = {"previous_action": tf.constant(action), "previous_reward": tf.constant(reward)[:, None]}
    return {"observation": tf.constant(seen), **parts}


def windows(action, mask, seed=0):
    """A `SequenceBatch` of random observations; action [K, N, ...], mask [K, N]."""
    rng, (steps, count) = np.random.default_rng(seed), np.shape(mask)
    action = np.array(action)
    nothing = np.zeros((steps + 1, count, *action.shape[2:]), action.dtype)
    seen = {
        "observation": tf.constant(rng.normal(size=(steps + 1, count, 3)), tf.float32),
        "previous_action": tf.constant(nothing),
        "previous_reward": tf.zeros([steps + 1, count, 1]),
    }
    extras = {
        "return_to_go": tf.constant(rng.normal(size=(steps, count)), tf.float32),
        "episode_step": tf.constant(rng.integers(0, 4, (steps, count)), tf.float32),
    }
    flags, mask = tf.zeros([steps, count], tf.bool), tf.constant(mask, tf.float32)
    steps = Trajectory(seen, tf.constant(action), tf.zeros(mask.shape), flags, flags, mask, extras)
    return SequenceBatch(steps, tf.ones([count]), tf.range(count), tf.ones([count]))


def test_the_loss_of_discrete_actions_is_the_mean_cross_entropy_of_a_windows_steps(make):
    agent = make()
    constant(agent, np.log([0.5, 0.3, 0.2]))
    batch = windows(np.array([[0, 2], [1, 2], [2, 0]], np.int32), [[1, 0], [1, 0], [1, 1]])
    loss, metrics, priorities = agent.loss(batch, SEED)
    whole = -math.log(0.5) - math.log(0.3) - math.log(0.2)
    np.testing.assert_allclose(loss, [whole / 3.0, -math.log(0.5) / 3.0], rtol=1e-5)
    np.testing.assert_allclose(metrics["cross_entropy"], (whole - math.log(0.5)) / 4.0, rtol=1e-5)
    assert priorities is None


def test_the_loss_of_a_boxs_actions_is_the_squared_error_in_half_ranges(make):
    """Within -2 and 4, an output of 0.5 is tanh(0.5) = 0.462117 half ranges above the middle, an action of
    2.5 is 0.5, one of 7 is out of bounds, and 1."""
    agent = make(BOX)
    constant(agent, [0.5])
    batch = windows(np.array([[[2.5]], [[7.0]], [[1.0]]], np.float32), [[1], [1], [0]])
    loss, metrics, _ = agent.loss(batch, SEED)
    errors = (0.462117 - 0.5) ** 2 + (0.462117 - 1.0) ** 2
    np.testing.assert_allclose(loss, [errors / 3.0], rtol=1e-5)
    np.testing.assert_allclose(metrics["squared_error"], errors / 2.0, rtol=1e-5)


def test_no_gradient_comes_from_steps_that_are_none_nor_from_what_they_show(make):
    agent = make()
    mask = [[0, 1], [1, 1], [1, 1]]
    batch = windows(np.array([[0, 2], [1, 2], [2, 0]], np.int32), mask)
    t = batch.trajectory
    change = 3.0 * (1.0 - t.mask)
    seen = t.observation | {
        "observation": t.observation["observation"] + tf.pad(change, [[0, 1], [0, 0]])[..., None]
    }
    other = t._replace(
        observation=seen,
        action=t.action + tf.cast(1.0 - t.mask, tf.int32),
        extras={name: x + change for name, x in t.extras.items()},
    )
    found = []
    for each in (t, other):
        with tf.GradientTape() as tape:
            loss = agent.loss(batch._replace(trajectory=each), SEED)[0]
        gradients = tape.gradient(loss, [x.value for x in agent.network.trainable_variables])
        found.append([loss.numpy(), *(each.numpy() for each in gradients)])
    for one, two in zip(*found, strict=True):
        np.testing.assert_array_equal(one, two)
    real = t._replace(extras={name: x + t.mask for name, x in t.extras.items()})
    assert (np.abs(agent.loss(batch._replace(trajectory=real), SEED)[0] - found[0][0]) > 1e-4).all()


@pytest.mark.parametrize("space", [spaces.Discrete(3), BOX], ids=["discrete", "box"])
def test_acting_step_by_step_is_the_forward_pass_over_the_window(make, space):
    """Asked for 10, after rewards of 1, 2, 3 ... 10, 9, 7, 4 ... are still wanted; three steps are seen.
    Other actions than its own are told: those that were played."""
    agent, steps, rng = make(space), 6, np.random.default_rng(1)
    seen = rng.normal(size=(steps, 2, 3)).astype(np.float32)
    reward = np.array([[0, 1, 2, 3, 4, 5], [0, -1, 0, 0, 5, 0.5]], np.float32).T
    wanted = [[10, 9, 7, 4, 0, -5], [10, 11, 11, 11, 6, 5.5]]
    if isinstance(space, spaces.Discrete):
        played = rng.integers(0, 3, (steps, 2)).astype(np.int32)
        before, code = played[:-1] + 1, np.eye(3, dtype=np.float32)[played]
        before = np.concatenate([np.zeros((1, 2), np.int32), before])
    else:
        played = rng.uniform(-2.0, 4.0, (steps, 2, 1)).astype(np.float32)
        before, code = np.concatenate([np.zeros((1, 2, 1), np.float32), played[:-1]]), (played - 1.0) / 3.0
    state = agent.initial_state(2)
    for t in range(steps):
        observation = told(seen[t], before[t], reward[t])
        output = agent.policy(observation, network_state(state), SEED, False)
        state = agent.act(observation, state, SEED, STEP, False)[2]
        first = max(0, t - 2)
        features = np.stack([agent.network.torso(tf.constant(each)) for each in seen], 1)
        shown = [np.array(x, np.float32)[:, first : t + 1] for x in (wanted, features)]
        place = np.tile(np.arange(first, t + 1, dtype=np.float32), (2, 1))
        parts = *shown, code.swapaxes(0, 1)[:, first : t + 1], place, np.ones_like(place)
        expected = agent.network(Window(*map(tf.constant, parts)))[:, -1]
        if isinstance(space, spaces.Discrete):
            np.testing.assert_allclose(output.distribution.logits, expected, rtol=1e-4, atol=1e-5)
        else:
            found = output.distribution.mode()
            np.testing.assert_allclose(found, 1.0 + 3.0 * np.tanh(expected), rtol=1e-4, atol=1e-5)


def test_its_state_is_zeros_where_an_episode_begins_as_runners_reset_it(make):
    agent = make()
    assert all(not np.any(x) for x in tf.nest.flatten(agent.initial_state(2)))
    assert {x.shape[0] for x in tf.nest.flatten(agent.initial_state(2))} == {2}


def test_steps_beyond_the_table_of_timesteps_share_the_last_one(make):
    agent = make()
    batch = windows(np.zeros((3, 1), np.int32), np.ones((3, 1)))

    def loss_at(step):
        t = batch.trajectory
        t = t._replace(extras=t.extras | {"episode_step": tf.fill([3, 1], step)})
        return agent.loss(batch._replace(trajectory=t), SEED)[0].numpy()

    np.testing.assert_array_equal(loss_at(4.0), loss_at(900.0))
    assert np.abs(loss_at(4.0) - loss_at(3.0)).min() > 1e-4


def test_on_the_host_it_acts_by_litert_as_it_does_in_tensorflow(make):
    agent, rng = make(BOX), np.random.default_rng(2)
    actor, state = Actor(agent, 2, False, 0, "litert"), agent.initial_state(2)
    action = np.zeros((2, 1), np.float32)
    for t in range(5):
        seen = told(np.float32(rng.normal(size=(2, 3))), action, np.float32([t, 1]))
        actor.begin(t, 1)
        action = actor({name: x.numpy() for name, x in seen.items()}, 0, 0)[0]
        expected, _, state = agent.act(seen, state, SEED, STEP, False)
        np.testing.assert_allclose(action, expected, rtol=1e-4, atol=1e-5)


def test_a_loaded_policy_is_told_its_rewards_and_begins_anew(make_agent):
    acts = spaces.Discrete(4)
    told_of = with_previous(spaces.Box(0.0, 1.0, (4,), np.float32), acts)
    agent = make_agent("dt_identity", observation_space=told_of, action_space=acts, env="Identity-v0")
    policy = Policy(agent)
    seen = np.eye(4, dtype=np.float32)

    for _ in range(2):
        policy(seen[0])
        for i in (1, 2, 3):
            policy(seen[i], reward=float(i))
        kept = dict(zip(sorted(agent.network.start(1)), policy._actors[1].network_state, strict=True))
        assert kept["steps"] == [4.0] and kept["reward"] == [6.0]
        np.testing.assert_allclose(kept["return_to_go"], [[19.0, 17.0, 14.0]])
        policy.reset()


def test_it_returns_what_it_is_asked_for(build, tmp_path):
    """Half of the data's episodes do what is right throughout, half of them never."""
    right, wrong = (
        own_data.play(tmp_path / name, "Identity-v0", lambda seen, _, by=by: int(seen.argmax() + by) % 4, 20)
        for name, by in (("right", 0), ("wrong", 1))
    )
    assert (right.returns.mean(), wrong.returns.mean()) == (20.0, 0.0)
    both = Dataset.of(
        [*right.episodes(), *wrong.episodes()], right.observation_space, right.action_space, right.metadata
    )
    write(tmp_path / "both", both, right.metadata)
    trained = None
    for target in (20.0, 0.0):
        settings = {"target_return": target, "act_backend": "compiled"}  # a test of LiteRT's is above
        runner = build("dt_identity", data=str(tmp_path / "both"), **settings)
        if trained is None:
            runner.run(25)
            trained = runner.agent
        for name, each in runner.agent.policy_variables.items():
            each.assign(trained.policy_variables[name])
        evaluator = Evaluator(runner.agent, 5)
        assert abs(evaluator.run(0).returns.mean() - target) <= 3.0  # the data's mean is 10
        evaluator.close()


REFUSED = {
    "previous_action_reward=false: dt has to be told its rewards": {"previous_action_reward": False},
    "memory=uniform: dt learns from episodes of data": {"memory": "uniform"},
    "the hparams name none: give --hparam_override target_return=R": {"target_return": None},
    "hparam embedding=8: each of the 3 heads has an equal part": {"embedding": 8, "heads": 3},
}


@pytest.mark.parametrize("line", REFUSED)
def test_what_it_cannot_do_without_is_one_line(line):
    with pytest.raises(UsageError, match=line):
        resolve("dt_cartpole", {"data": "somewhere", **REFUSED[line]})


def test_rewards_in_other_units_are_refused():
    for name, value in (("normalize_reward", True), ("return_span", 1000.0)):
        hparams = named("dt_cartpole")
        hparams.assign({name: value})
        with pytest.raises(UsageError, match=f"{name}=.*: dt counts rewards in the environment's own units"):
            hparams.check_training()


def test_what_it_cannot_act_by_is_one_line(make):
    with pytest.raises(UsageError, match="dt cannot learn with model lstm, which keeps state"):
        make(**{"model.name": "lstm"})
    with pytest.raises(UsageError, match="dt squashes its actions into the space's bounds"):
        make(spaces.Box(-np.inf, np.inf, (1,), np.float32))
    with pytest.raises(UsageError, match=r"eval_policy=sample: dt .* learns no distribution"):
        make(BOX, eval_policy="sample")
