"""memory=hindsight in runs, in-graph and on the host: which it takes, learns from, resumes and refuses."""

from __future__ import annotations

import contextlib
import re

import gymnasium
import numpy as np
import pytest
import tensorflow as tf
from marked import rest
from tiny_reach import ENV_ID, Reach
from walked import iterations_of, save_restore_and_repeat

from rl.cli import main
from rl.envs.graph.bit_flip import BitFlip
from rl.errors import UsageError
from rl.hparams.merge import resolve
from rl.ops import random
from rl.runners.evaluate import Evaluator
from rl.runners.goals import check_goals_here

STEP = tf.constant(0, tf.int64)
BITS = {
    "env": "BitFlip-v0",
    "memory": "hindsight",
    "n_step": 1,
    "num_envs": 4,
    "rollout_length": 8,
    "updates_per_iteration": 4,
    "min_replay_size": 32,
    "batch_size": 64,
    "model.hidden": (16,),
}
REACH = {
    "env": ENV_ID,
    "max_episode_steps": 10,
    "memory": "hindsight",
    "goal_tolerance": 0.1,
    "num_envs": 4,
    "rollout_length": 10,
    "updates_per_iteration": 25,
    "train_steps": 2_400,
    "random_steps": 400,
    "min_replay_size": 200,
    "batch_size": 64,
    "gamma": 0.9,
    "lr": 3e-3,
    "tau": 0.05,
    "model.hidden": (32, 32),
    "model.part_hidden": (16,),
}


@pytest.fixture(autouse=True)
def _reach():
    gymnasium.register(ENV_ID, entry_point=Reach)
    yield
    gymnasium.registry.pop(ENV_ID)


@pytest.mark.parametrize("backend", ["graph", *rest("gym")])
def test_a_run_is_saved_and_restored_whole_and_repeats_itself(build, tmp_path, backend):
    runner, _ = save_restore_and_repeat(build, tmp_path, "dqn", BITS | {"env_backend": backend})
    assert {"memory/episode", "memory/next_episode"} <= runner.variables.keys()
    runner.iteration.memory.check_valid()


def assert_paid_as(runner, own):
    """Holds the rewards and ends of what a runner's memory gives to those of an environment's goals."""
    memory = runner.iteration.memory
    batches = [memory.sample(random.key(i), STEP) for i in range(8)]
    batch = tf.nest.map_structure(lambda *x: np.concatenate([np.array(y) for y in x]), *batches)
    goals = zip(batch.next_observation["achieved_goal"], batch.next_observation["desired_goal"], strict=True)
    told = [(own.compute_reward(*each, {}), own.compute_terminated(*each, {})) for each in goals]
    rewards, over = (np.array(each) for each in zip(*told, strict=True))
    full = batch.mask > 0
    assert full.mean() > 0.95
    np.testing.assert_array_equal(batch.reward[full], rewards[full])
    np.testing.assert_array_equal(batch.discount[full], np.where(over[full], 0.0, np.float32(0.9)))
    assert len(set(rewards)) == 2


@pytest.mark.slow
def test_sac_learns_of_goals_in_hindsight_on_the_host(build):
    """Seeds 0 to 5 return -8 or more in these steps, with memory=uniform -9.65 or less."""
    runner = build("sac", **REACH)
    runner.run(iterations_of(runner))
    with contextlib.closing(Evaluator(runner.agent, 20)) as evaluator:
        assert evaluator.run(0).returns.mean() > -8.5
    assert_paid_as(runner, Reach())


@pytest.mark.parametrize("ends", rest(False, True))
def test_other_rewards_and_ends_of_goals_are_the_environments_own(build, ends):
    runner = build("ddpg", **REACH, env_kwargs={"pays": "one", "ends": ends})
    runner.run(8)
    assert_paid_as(runner, Reach(pays="one", ends=ends))


def test_an_in_graph_environment_says_the_rewards_of_its_goals(build, monkeypatch):
    monkeypatch.setattr(BitFlip, "goal_reward", lambda *_: (tf.zeros([2, 1]), tf.zeros([2], tf.bool)))
    with pytest.raises(UsageError, match=re.escape("goal_reward: reward is float32 [2, 1], not float32 [2]")):
        build("dqn", **BITS)
    monkeypatch.delattr(BitFlip, "goal_reward")
    with pytest.raises(UsageError, match=re.escape("BitFlip (BitFlip-v0) has no goal_reward(achieved_goal,")):
        build("dqn", **BITS)


def test_workers_and_algorithms_without_its_hparams_are_refused():
    with pytest.raises(UsageError, match="leave --num_workers out"):
        check_goals_here(resolve("dqn", BITS), "transition", object())
    with pytest.raises(UsageError, match="memory hindsight needs the hparams hindsight_goals"):
        check_goals_here(resolve("dagger", {"env": "BitFlip-v0", "memory": "hindsight"}), "transition", None)


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("dqn", {"env": "CartPole-v1"}, "without achieved_goal and desired_goal (GoalEnv of"),
        (
            "ddpg",
            {"env_kwargs": {"without": "desired_goal"}},
            "observes Dict(achieved_goal, observation), without desired_goal (GoalEnv",
        ),
        (
            "ddpg",
            {"goal_tolerance": 0.2},
            "0.2: at a distance of 0.198 Reach-v0 gives reward -1, terminated False, not 0 and False: take",
        ),
        (
            "ddpg",
            {"goal_tolerance": 0.05, "env_kwargs": {"ends": True}},
            "0.05: at a distance of 0.0505 Reach-v0 gives reward 0, terminated True, not -1 and False: take",
        ),
        ("ddpg", {"env_kwargs": {"pays": "dense"}}, "reward -0.05, terminated False, not 0 and False"),
        ("ddpg", {"env_kwargs": {"pays": "effort"}}, "Reach-v0 gives reward -1.1, not -1"),
        ("dqn", {"n_step": 3}, "n_step=3: memory hindsight computes the reward of single steps anew"),
        ("dqn", {"prioritized": True}, "prioritized=true: dqn has memory=hindsight, which knows"),
        ("ddpg", {"reward_augmentation": "scale:2"}, "scale:2: ddpg has memory=hindsight, which knows"),
        ("ddpg", {"previous_action_reward": True}, "reward=true: ddpg has memory=hindsight, which"),
        ("r2d2", {}, "hindsight is for transition experience, r2d2 learns from sequence experience"),
        ("ppo", {}, "hindsight is for transition experience, ppo learns from rollout experience"),
    ],
)
def test_what_it_cannot_do_is_refused_in_one_line(build, name, changes, message):
    plain = {"env": "BitFlip-v0", "memory": "hindsight"}
    kind = {"ddpg": REACH, "dqn": BITS}.get(name, plain)
    with pytest.raises(UsageError, match=re.escape(message)):
        build(name, **(kind | changes))


def test_a_refusal_is_one_line_of_exit_code_2_and_writes_nothing(tmp_path, capsys):
    flags = ["--hparams", "dqn_catch", "--output_dir", str(tmp_path / "run")]
    assert main([*flags, "--hparam_override", "memory=hindsight"]) == 2
    said = capsys.readouterr().err.strip().splitlines()
    assert len(said) == 1 and "Catch-v0 observes Box" in said[0]
    assert list(tmp_path.rglob("*.json")) == []
