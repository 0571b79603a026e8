"""DAgger: who acts, what is remembered and for how long, by hand; whom it asks."""

from __future__ import annotations

import numpy as np
import own_data
import own_experts
import pytest
import tensorflow as tf
from gymnasium import spaces
from small_runs import TINY

import rl
from rl.errors import UsageError
from rl.hparams.merge import resolve
from rl.ops import random
from rl.runners import from_expert
from rl.runners.build import build_runner
from rl.storage.checkpoint import CheckpointManager
from rl.workers.plan import Workers

SEED = random.key(0)
BOX = spaces.Box(-2.0, 4.0, (1,), np.float32)
SMALL = {
    "num_envs": 4,
    "rollout_length": 8,
    "batch_size": 16,
    "min_replay_size": 16,
    "updates_per_iteration": 2,
}


def constant(agent, *parameters):
    """Makes the policy's parameters the same everywhere."""
    agent.network.policy.kernel.assign(tf.zeros_like(agent.network.policy.kernel))
    agent.network.policy.bias.assign(tf.constant(parameters, tf.float32))
    return agent


@pytest.fixture
def make_pupil(make_agent):
    """An agent whose best action is 0, and whose expert's is 2."""

    def make(**overrides):
        agent = constant(make_agent("dagger", **overrides), 1.0, 0.0, 0.0)
        agent.take_expert(constant(make_agent("bc"), 0.0, 0.0, 1.0))
        return agent

    return make


def taken(agent, step, count=10_000, training=True):
    """The actions that it takes for `count` observations, in training after so many steps."""
    observation = tf.random.stateless_normal([count, 3], SEED)
    return agent.act(observation, (), SEED, tf.constant(step, tf.int64), training)[0].numpy()


@pytest.mark.parametrize(
    ("beta", "shares"), [(0.5, (1.0, 0.5, 0.25, 0.125)), (0.0, (1.0, 0.0, 0.0, 0.0)), (1.0, (1.0,) * 4)]
)
def test_the_expert_acts_in_beta_to_the_power_of_the_rollouts_before(make_pupil, beta, shares):
    agent = make_pupil(beta=beta, num_envs=4, rollout_length=8)
    for i, share in enumerate(shares):
        for step in (32 * i, 32 * i + 28):
            found = taken(agent, step)
            assert set(found) <= {0, 2}
            assert abs((found == 2).mean() - share) < 0.015
            assert agent.scalars(step)["train/beta"] == share
    assert set(taken(agent, 0, training=False)) == {0}


def test_what_is_remembered_is_what_the_expert_would_have_done(make_pupil, make_rollout):
    agent = make_pupil()
    rollout = make_rollout(agent)
    kept = agent.remembered(rollout, SEED)
    assert kept.action.dtype == rollout.action.dtype
    np.testing.assert_array_equal(kept.action, np.full([8, 4], 2))
    tf.nest.assert_same_structure(kept, rollout)
    for name in ("observation", "reward", "terminated", "truncated", "mask"):
        np.testing.assert_array_equal(getattr(kept, name), getattr(rollout, name))


def test_an_expert_s_actions_lie_within_the_bounds(make_agent):
    agent = make_agent("dagger", action_space=BOX)
    expert = make_agent("vpg", action_space=BOX)
    policy = expert.networks["network"].policy
    policy.kernel.assign(tf.zeros_like(policy.kernel))
    policy.bias.assign([-9.0])
    agent.take_expert(expert)
    np.testing.assert_array_equal(agent.advice(tf.zeros([2, 3]), SEED), [[-2.0], [-2.0]])


def test_how_an_expert_explores_is_no_answer(make_agent):
    agent, observation = make_agent("dagger"), tf.random.stateless_normal([200, 3], SEED)
    expert = make_agent("dqn", evaluation_epsilon=1.0)
    agent.take_expert(expert)
    best = tf.argmax(expert.networks["network"](observation), -1)
    np.testing.assert_array_equal(agent.advice(observation, SEED), best)
    expert = make_agent("ddpg", action_space=BOX, act_select="ou_noise")  # noise that has a state
    agent = make_agent("dagger", action_space=BOX)
    agent.take_expert(expert)
    mode = expert.policy(observation, (), SEED, False).distribution.mode()
    np.testing.assert_array_equal(agent.advice(observation, SEED), mode)


def balance(seen, rng):
    return int(seen[2] + 0.5 * seen[3] > 0.0)


@pytest.fixture(scope="module")
def expert(tmp_path_factory):
    """A run that was cloned from episodes of somebody who balances, and these episodes' folder."""
    folder = tmp_path_factory.mktemp("expert")
    own_data.play(folder / "data", "CartPole-v1", balance, episodes=8)
    return own_experts.clone(folder / "run", "CartPole-v1", folder / "data"), str(folder / "data")


def test_it_learns_what_an_expert_who_is_asked_in_the_loop_knows_and_checkpoints_hold_that_one(
    build, expert, state_of, assert_same_bits
):
    run, data = expert
    runner = build("dagger_cartpole", expert=run, data=data, **SMALL)
    before = state_of(runner)
    first = runner.run(20)
    ring, agent = runner.memory.played.ring, runner.agent
    place = tf.range(20 * 8 * 4)
    asked = agent.expert.act(ring.observation(place), (), SEED, tf.constant(0, tf.int64), False)[0]
    np.testing.assert_array_equal(ring.action(place), asked)
    after = state_of(runner)
    names = [name for name in after if name.startswith("expert/")]
    assert names
    assert_same_bits({name: after[name] for name in names}, {name: before[name] for name in names})
    second = runner.run(20)
    assert second["log_prob"] / second["updates"] > first["log_prob"] / first["updates"]


@pytest.mark.parametrize(
    "changed", [{"eval_policy": "sample"}, {"model.activation": "elu"}, {"train_steps": 2}], ids=str
)
def test_a_run_goes_on_with_an_expert_who_answers_as_the_one_it_began_with(
    build, expert, tmp_path, monkeypatch, changed
):
    run, _ = expert
    runner = build("dagger_cartpole", expert=run, **SMALL)
    manager = CheckpointManager(tmp_path)
    manager.save(runner.variables, 0)
    saved_agent = from_expert.saved_agent
    monkeypatch.setattr(
        from_expert, "saved_agent", lambda *given, **more: altered(saved_agent(*given, **more))
    )

    def altered(agent):
        agent.hparams = agent.hparams.thawed()
        agent.hparams.assign(changed)
        return agent

    again = build("dagger_cartpole", expert=run, **SMALL)
    manager.restore(again.variables, newer=again.newer)
    if changed.keys() & {"eval_policy", "model.activation"}:
        with pytest.raises(UsageError, match=r"asked another expert than .*: bring that one back, or choose"):
            again.restored(str(tmp_path))
    else:
        again.restored(str(tmp_path))


def test_a_checkpoint_of_before_does_not_say_how_its_expert_answered(build, expert, tmp_path):
    runner = build("dagger_cartpole", expert=expert[0], **SMALL)
    manager, known = CheckpointManager(tmp_path), runner.variables
    manager.save({name: each for name, each in known.items() if name not in runner.newer}, 0)
    before = float(known["data/expert_manner"].numpy())
    manager.restore(known, newer=runner.newer)
    runner.restored(str(tmp_path))
    assert float(known["data/expert_manner"].numpy()) == before


def refused(match, **overrides):
    with pytest.raises(UsageError, match=match):
        build_runner(resolve("dagger", {"env": "CartPole-v1", **overrides}), 0)


def test_what_it_needs_is_one_line_with_the_command_that_makes_it(expert, tmp_path):
    run, _ = expert
    command = r"python train.py --hparams dqn_cartpole --output_dir RUN trains one"
    refused(rf"dagger asks a trained run what is right, and none is named: give .*expert=RUN \({command}\)")
    refused(rf"there is no run in .*none.*: train one there first, or name another expert=RUN \({command}",
            expert=str(tmp_path / "none"))  # fmt: skip
    refused("was trained on CartPole-v1: name a run of Pendulum-v1 .*sac_pendulum --output_dir RUN",
            env="Pendulum-v1", expert=run)  # fmt: skip
    refused("was trained on Box.*, here is Dict", expert=run, previous_action_reward=True)
    with pytest.raises(UsageError, match="leave --num_workers out"):
        build_runner(resolve("dagger_cartpole", {"expert": run}), 0, Workers(1))
    with pytest.raises(UsageError, match="memory=dataset: dagger plays, and asks"):
        resolve("dagger_cartpole", {"expert": run, "memory": "dataset"})
    remembering = {"model": {"name": "lstm", "hidden": (8,)}, "train_steps": 16}
    remembering |= {"compile": "eager"}
    rl.train("ppo", env="CartPole-v1", output_dir=tmp_path / "lstm", eval_episodes=1, **TINY | remembering)
    refused("ppo with model lstm remembers what was before", expert=str(tmp_path / "lstm"))
