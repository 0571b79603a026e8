"""Evaluation of environments with, without and with other limits; which episodes are played for what."""

from __future__ import annotations

import contextlib

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from stop_after import StopAfter

import rl
from rl import experiment
from rl.agents.algos.registry import get_algo
from rl.envs import make_eval_envs
from rl.envs.host import Purpose, env_seeds, purpose_seed
from rl.hparams.merge import resolve
from rl.policy import Policy
from rl.request import Request
from rl.runners.evaluate import Evaluator
from rl.runners.kept import Kept
from rl.runners.player import Player


class Endless(gymnasium.Env):
    """Never ends by itself: the k-th step after a reset gives k, and the action on top where it is real."""

    observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float32)

    def __init__(self, render_mode=None, real=False):
        self.action_space = spaces.Box(-1.0, 1.0, (1,), np.float32) if real else spaces.Discrete(2)
        self.real, self.steps = real, 0

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.steps += 1
        reward = self.steps + (float(action[0]) if self.real else 0.0)
        return np.full(1, self.steps, np.float32), reward, False, False, {}


@pytest.fixture
def endless(monkeypatch):
    """The environment's id, with a cut after 5 steps in place of 27,000, and two episodes side by side."""
    gymnasium.register("Endless-v0", entry_point=Endless)
    monkeypatch.setattr("rl.envs.gym_host.UNLIMITED", 5)
    monkeypatch.setattr("rl.runners.evaluate.MAX_PARALLEL", 2)
    yield "Endless-v0"
    del gymnasium.registry["Endless-v0"]


def agent_on(env_id, name="ppo", **overrides):
    hparams = resolve(name, {"env": env_id, **overrides})
    env = make_eval_envs(env_id, 1, hparams.env_kwargs, previous_action_reward=hparams.previous_action_reward)
    env.close()
    return get_algo(name)(hparams, env.observation_space, env.action_space, 0)


def test_an_episode_that_is_cut_is_followed_by_a_new_one(endless, caplog):
    evaluator = Evaluator(agent_on(endless), 5)
    found = evaluator.run(0)
    evaluator.close()
    assert found.lengths.tolist() == [5.0] * 5
    assert found.returns.tolist() == [15.0] * 5  # 1 + 2 + 3 + 4 + 5 each time
    assert [each.getMessage() for each in caplog.records] == [
        "evaluation episodes were cut after 5 steps: Endless-v0 has no limit (max_episode_steps gives one)"
    ]


def test_memory_and_previous_reward_begin_anew_after_a_cut(endless):
    model = {"name": "lstm", "hidden": (4,), "recurrent_units": 4}
    overrides = {"env_kwargs": {"real": True}, "previous_action_reward": True, "model": model}
    agent = agent_on(endless, **overrides)
    evaluator = Evaluator(agent, 6)
    found = evaluator.run(0)
    evaluator.close()
    # The same start, without randomness: episodes differ only where something of the last one is left.
    np.testing.assert_array_equal(found.returns, [found.returns[0]] * 6)
    assert found.returns[0] != 15.0, "the actions count"


def test_an_endless_environment_is_reset_after_its_cut(endless):
    env = make_eval_envs(endless, 1, previous_action_reward=True)
    env.reset(0)
    steps = [env.step(np.zeros(1, np.int64)) for _ in range(6)]
    assert [bool(truncated[0]) for _, _, _, truncated in steps] == [False] * 4 + [True, False]
    after, reward, *_ = steps[5]
    assert (float(after["observation"][0, 0]), float(reward[0])) == (0.0, 0.0)
    assert (int(after["previous_action"][0]), float(after["previous_reward"][0, 0])) == (0, 0.0)


@pytest.mark.parametrize("limit", [7, 250])  # Pendulum-v1 is registered with 200, and never ends before
def test_max_episode_steps_is_the_limit_of_evaluations_and_films_as_of_training(limit):
    agent = agent_on("Pendulum-v1", max_episode_steps=limit, model={"hidden": (4,)})
    evaluator = Evaluator(agent, 3)
    assert evaluator.run(0).lengths.tolist() == [limit] * 3
    evaluator.close()
    assert Policy(agent).evaluate(2).lengths.tolist() == [limit] * 2
    player = Player(agent, "rgb_array")
    assert player.play(0).length == limit
    player.close()


def test_max_episode_steps_outranks_the_cut_of_environments_without_a_limit(endless, caplog):
    evaluator = Evaluator(agent_on(endless, max_episode_steps=8), 2)
    assert evaluator.run(0).lengths.tolist() == [8.0, 8.0] and not caplog.records
    evaluator.close()


def test_max_episode_steps_is_the_limit_where_evaluation_is_on_envpool():
    agent = agent_on("Pong-ram-v5", max_episode_steps=20, model={"hidden": (4,)})
    evaluator = Evaluator(agent, 2)
    assert evaluator.run(0).lengths.tolist() == [20.0, 20.0]
    evaluator.close()


def test_without_max_episode_steps_the_limit_is_gymnasiums():
    evaluator = Evaluator(agent_on("Pendulum-v1", model={"hidden": (4,)}), 2)
    assert evaluator.run(0).lengths.tolist() == [200.0, 200.0]
    evaluator.close()


class Still(Endless):
    """Ten steps from the same start; action 1 gives 1."""

    def step(self, action):
        self.steps += 1
        return np.zeros(1, np.float32), float(action), self.steps == 10, False, {}


def test_other_seeds_draw_other_random_actions():
    gymnasium.register("Still-v0", entry_point=Still, max_episode_steps=10)
    try:
        evaluator = Evaluator(agent_on("Still-v0", "dqn", evaluation_epsilon=1.0), 8)
        one, two, again = (evaluator.run(seed).returns for seed in (1, 2, 1))
        evaluator.close()
    finally:
        del gymnasium.registry["Still-v0"]
    np.testing.assert_array_equal(one, again)
    assert (one != two).any()


def test_no_episode_serves_two_purposes(tmp_path, monkeypatch):
    """The seeds of all environments that evaluations during training, the final test and `Policy.evaluate`
    reset; before, the 10 test episodes were the first of the 100 of benchmarks. What several policies play is
    the same for all of them: the last, the best, the last one's draws."""
    from rl.envs import gym_host

    used, env_seeds = [], gym_host.env_seeds

    def noted(seed, num_envs):
        seeds = env_seeds(seed, num_envs)
        used.extend(seeds)
        return seeds

    monkeypatch.setattr(gym_host, "env_seeds", noted)

    def seeds_of(call):
        used.clear()
        call()
        return list(dict.fromkeys(used))

    overrides = {"train_steps": 1_024, "eval_period": 512, "log_period": 512, "compile": "graph"}
    found = {"evaluations": seeds_of(lambda: rl.train("ppo_identity", output_dir=tmp_path, **overrides))}
    run_dir = tmp_path / "run_0"
    request = Request(resolve("ppo_identity", overrides))
    found["test"] = seeds_of(
        lambda: experiment.play_tests(request, run_dir, StopAfter(), str(run_dir), Kept())
    )
    policy = rl.load(run_dir)
    found |= {
        f"user {seed}": seeds_of(lambda seed=seed: policy.evaluate(100, *seed))
        for seed in ((), (1,), (5,), (6,))
    }
    assert {name: len(seeds) for name, seeds in found.items()} == {
        "evaluations": 20,
        "test": 10,
        **{f"user {seed}": 32 for seed in ((), (1,), (5,), (6,))},
    }
    everything = [seed for seeds in found.values() for seed in seeds]
    assert len(set(everything)) == len(everything)


def test_streams_of_seeds_share_no_environment():
    streams = [(purpose, seed, number) for purpose in Purpose for seed in range(8) for number in (0, 1, 512)]
    seeds = [each for stream in streams for each in env_seeds(purpose_seed(*stream), 32)]
    assert len(streams) == 96 and len(set(seeds)) == len(seeds) == 96 * 32
    assert all(0 <= purpose_seed(*stream) < 2**64 for stream in streams)


def test_the_policy_that_was_not_asked_for_plays_as_if_it_had_been():
    greedy, drawn = (agent_on("CartPole-v1", eval_policy=each) for each in ("greedy", "sample"))
    with contextlib.closing(Evaluator(greedy, 3)) as one, contextlib.closing(Evaluator(drawn, 3)) as other:
        name, found = one.other(7)
        assert name == "sampled"
        np.testing.assert_array_equal(found.returns, other.run(7).returns)
        name, found = other.other(7)
        assert name == "greedy"
        np.testing.assert_array_equal(found.returns, one.run(7).returns)
        assert {actor.backend for actor in one._actors.values()} == {"litert"}
