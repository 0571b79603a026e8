"""A policy speaks the environment's own language: its observations, its actions, its masks."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from rl.agents.algos.registry import get_algo
from rl.envs.make import make_gym_env
from rl.envs.wrappers import with_previous
from rl.errors import UsageError
from rl.hparams.merge import resolve
from rl.policy import Policy

CARTPOLE = spaces.Box(-1.0, 1.0, (4,)), spaces.Discrete(2)


class Shifted(gymnasium.Env):
    """Actions and observations that agents see differently: 64 bits, numbered from 3, bounded."""

    observation_space = spaces.Dict({"place": spaces.Discrete(3, start=5), "x": spaces.Box(-9.0, 9.0, (2,))})

    def __init__(self, render_mode=None, continuous=False):
        self.action_space = spaces.Box(-0.1, 0.1, (2,)) if continuous else spaces.Discrete(2, start=3)

    def reset(self, *, seed=None, options=None):
        return self.observation_space.sample(), {}


def test_policies_speak_the_environments_own_actions():
    gymnasium.register("Shifted-v0", entry_point=Shifted)
    try:
        for continuous in (False, True):
            env = gymnasium.make("Shifted-v0", continuous=continuous, disable_env_checker=True)
            overrides = {"env": "Shifted-v0", "env_kwargs": {"continuous": continuous}}
            actions = env.action_space if continuous else spaces.Discrete(2)
            agent = get_algo("ppo")(resolve("ppo", overrides), env.observation_space, actions, 0)
            agent.network.policy.bias.assign([2.0, -2.0])
            action = Policy(agent)({"place": 6, "x": [1.0, 2.0]})
            assert env.action_space.contains(action)
            np.testing.assert_allclose(action, [0.1, -0.1] if continuous else 3)
    finally:
        del gymnasium.registry["Shifted-v0"]


def test_policies_take_the_mask_that_an_environment_says_in_its_info_and_all_is_legal_without():
    env = make_gym_env("Taxi-v4")
    agent = get_algo("ppo")(resolve("ppo", {"env": "Taxi-v4"}), env.observation_space, env.action_space, 0)
    agent.network.policy.bias.assign([9.0, 6.0, 3.0, 0.0, 0.0, 0.0])
    policy, taxi = Policy(agent), gymnasium.make("Taxi-v4")
    observation, info = taxi.reset(seed=0)
    illegal = [0, *np.flatnonzero(info["action_mask"] == 0)]  # the dearest one, too
    mask = np.where(np.isin(np.arange(6), illegal), 0, 1)
    assert policy(observation) == policy({"observation": observation, "action_mask": np.ones(6)}) == 0
    assert policy(observation, action_mask=mask) == np.flatnonzero(mask)[0]
    many = policy([observation] * 2, batched=True, action_mask=[mask, np.ones(6)])
    np.testing.assert_array_equal(many, [np.flatnonzero(mask)[0], 0])
    np.testing.assert_array_equal(policy([observation] * 3, batched=True), [0, 0, 0])
    with pytest.raises(ValueError, match="leave action_mask out"):
        policy({"observation": observation, "action_mask": mask}, action_mask=mask)


def test_policies_are_told_their_own_last_action_and_the_reward_that_is_given():
    hparams = resolve("ppo", {"env": "CartPole-v1", "previous_action_reward": True})
    agent = get_algo("ppo")(hparams, with_previous(*CARTPOLE), CARTPOLE[1], 0)
    generator = np.random.default_rng(0)
    for each in agent.network.trainable_variables:
        each.assign(generator.normal(0.0, 1.0, each.shape))
    policy, asked = Policy(agent), Policy(agent)
    taken, untold = [], []
    for _ in range(2):  # episodes
        policy.reset()
        before, reward = np.zeros(2, int), None
        for _ in range(20):
            x = generator.uniform(-1.0, 1.0, (2, 4)).astype(np.float32)
            action = policy(x, batched=True, reward=reward)
            told = {"previous_action": before, "previous_reward": np.zeros((2, 1))}
            told["previous_reward"] = told["previous_reward"] if reward is None else reward[:, None]
            np.testing.assert_array_equal(action, asked({"observation": x, **told}, batched=True))
            told["previous_action"] = before * 0
            untold.append(asked({"observation": x, **told}, batched=True))
            taken.append(action)
            before, reward = action + 1, generator.normal(size=2)  # 0: there was none
    assert np.any(np.array(taken) != untold), "a test that could not fail"
    with pytest.raises(ValueError, match=r"give reward=, but not where an episode begins"):
        policy(x, batched=True)
    with pytest.raises(ValueError, match=r"give reward=, but not where an episode begins"):
        policy(x[0], reward=1.0)
    plain = get_algo("ppo")(resolve("ppo_cartpole"), *CARTPOLE, 0)
    with pytest.raises(ValueError, match="leave reward out"):
        Policy(plain)(x[0], reward=1.0)


def known(algo, **heads):
    """A policy of CartPole whose network says the same of all observations: biases of its heads."""
    agent = get_algo(algo)(resolve(algo, {"env": "CartPole-v1"}), *CARTPOLE, 0)
    for name, bias in heads.items():
        layer = getattr(agent.network, name)
        layer.kernel.assign(layer.kernel * 0.0)
        layer.bias.assign(bias)
    return Policy(agent)


def test_a_policy_says_what_it_thinks_of_actions_and_states():
    x = [0.0, 0.1, 0.0, -0.1]
    policy = known("ppo", policy=[np.log(3.0), 0.0], value=[0.7])
    np.testing.assert_allclose(policy.scores(x), np.log([0.75, 0.25]), rtol=1e-5)
    assert policy.value(x) == pytest.approx(0.7)
    np.testing.assert_allclose(policy.value([x] * 3, batched=True), [0.7] * 3, rtol=1e-6)
    policy = known("dqn", advantage=[1.5, -2.0])
    np.testing.assert_allclose(policy.scores([x] * 2, batched=True), [[1.5, -2.0]] * 2)
    assert policy.value(x) == 1.5
    with pytest.raises(ValueError, match=r"bc, for actions in Discrete.2., has no values of states"):
        known("bc").value(x)


def test_an_illegal_action_has_no_chance_and_continuous_ones_have_no_scores():
    env = make_gym_env("Taxi-v4")
    agent = get_algo("dqn")(resolve("dqn", {"env": "Taxi-v4"}), env.observation_space, env.action_space, 0)
    agent.network.advantage.bias.assign([9.0, 6.0, 3.0, 0.0, 0.0, 0.0])
    agent.network.advantage.kernel.assign(agent.network.advantage.kernel * 0.0)
    mask = [0, 1, 1, 1, 0, 1]
    scores = Policy(agent).scores(7, action_mask=mask)
    np.testing.assert_array_equal(scores, [-np.inf, 6.0, 3.0, 0.0, -np.inf, 0.0])
    assert Policy(agent).value(7, action_mask=mask) == 6.0
    box = spaces.Box(-1.0, 1.0, (2,))
    agent = get_algo("sac")(resolve("sac", {"env": "Pendulum-v1"}), box, box, 0)
    for ask in (Policy(agent).scores, Policy(agent).value):
        with pytest.raises(ValueError, match="sac, for actions in Box"):
            ask([0.0, 0.0])


def test_what_a_recurrent_policy_remembers_counts_and_is_not_touched():
    hparams = resolve("ppo", {"env": "CartPole-v1", "model.name": "lstm"})
    agent = get_algo("ppo")(hparams, *CARTPOLE, 0)
    generator = np.random.default_rng(0)
    for each in agent.network.trainable_variables:
        each.assign(generator.normal(0.0, 1.0, each.shape))
    policy, x = Policy(agent), np.float32([0.1, -0.2, 0.3, 0.4])
    fresh = policy.scores(x)
    policy(x)
    later = policy.scores(x)
    np.testing.assert_array_equal(policy.scores(x), later)
    assert np.abs(later - fresh).max() > 1e-3
    policy.reset()
    np.testing.assert_array_equal(policy.scores(x), fresh)


@pytest.mark.parametrize("asked", [{"episodes": 0}, {"episodes": 2.5}, {"seed": -4}, {"seed": "1"}])
def test_an_evaluation_of_nothing_is_refused(asked):
    agent = get_algo("ppo")(resolve("ppo_cartpole"), *CARTPOLE, 0)
    with pytest.raises(UsageError, match=r"needs a whole number, at least [01]$"):
        Policy(agent).evaluate(**asked)


def test_an_observation_without_its_parts_is_refused_in_words():
    space = spaces.Dict({"place": spaces.Discrete(4), "x": spaces.Box(-1, 1, (2,))})
    agent = get_algo("ppo")(resolve("ppo", {"env": "CartPole-v1"}), space, spaces.Discrete(2), 0)
    with pytest.raises(ValueError, match=re.escape("the parts ['x'], not only ['place']")):
        Policy(agent)({"place": 1})
    with pytest.raises(ValueError, match=re.escape("the parts ['place', 'x'], not only []")):
        Policy(agent)(1)


@pytest.mark.parametrize("observation", [{"a": 1.0}, "north", [[1.0], [2.0, 3.0]]])
def test_an_observation_that_is_no_array_of_numbers_is_refused_in_words(observation):
    policy = Policy(get_algo("ppo")(resolve("ppo_cartpole", {}), *CARTPOLE, 0))
    with pytest.raises(ValueError, match=r"an observation of shape \[4\] is needed, not (dict|str|list)"):
        policy(observation)
    with pytest.raises(ValueError, match=r"needed, not \[8, 4\]: give batched=True for several"):
        policy(np.zeros((8, 4)))


@pytest.mark.parametrize(
    ("space", "observation", "words"),
    [
        (spaces.Box(-1.0, 1.0, (2,)), [0.0, np.nan], "it has NaN"),
        (spaces.Box(0, 255, (2,), np.uint8), np.float32([0.5, 1.0]), "not of float32 from 0.5 to 1: as"),
        (spaces.Box(0, 255, (2,), np.uint8), [300, 0], "not of int64 from 0 to 300: as"),  # not 44
        (spaces.Discrete(3, start=5), 8, "in Discrete(3, start=5) is needed, not 8"),
        (spaces.MultiDiscrete([2, 3]), [0, 3], "in MultiDiscrete([2 3]) is needed, not [0, 3]"),
        (spaces.Tuple([spaces.Discrete(2)] * 2), (0,), "a tuple of 2 parts"),
        (spaces.Tuple([spaces.Discrete(2)] * 2), 1, "a tuple of 2 parts"),
    ],
)
def test_numbers_that_the_policy_would_change_are_refused_in_words(space, observation, words):
    agent = get_algo("ppo")(resolve("ppo", {"env": "CartPole-v1"}), space, spaces.Discrete(2), 0)
    with pytest.raises(ValueError, match=re.escape(words)):
        Policy(agent)(observation)


def test_parts_and_masks_of_different_numbers_are_refused_in_words():
    space = spaces.Dict({"action_mask": spaces.Box(0, 1, (2,), np.int8), "x": spaces.Box(-1, 1, (2,))})
    agent = get_algo("ppo")(resolve("ppo", {"env": "CartPole-v1"}), space, spaces.Discrete(2), 0)
    with pytest.raises(ValueError, match=re.escape("must be as many: not [2, 3]")):
        Policy(agent)({"x": np.zeros((2, 2))}, batched=True, action_mask=np.ones((3, 2)))


def test_threads_that_call_one_policy_get_what_each_asked_for():
    agent = get_algo("ppo")(resolve("ppo", {"env": "CartPole-v1"}), *CARTPOLE, 0)
    policy, seen = Policy(agent), np.random.default_rng(0).uniform(-1.0, 1.0, (400, 4)).astype(np.float32)
    alone = [int(policy(each)) for each in seen]
    assert len(set(alone)) == 2
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda each: int(policy(each)), seen)) == alone
