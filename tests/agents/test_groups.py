"""Networks of groups of agents: whose rows they learn from, what one group is, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tiny_team
from gymnasium import spaces
from marked import few

from rl.agents.algos.registry import get_algo
from rl.agents.groups import agents_of, groups_of
from rl.envs.agents import row_space
from rl.envs.registry import registry as envs
from rl.errors import UsageError
from rl.hparams.merge import resolve
from rl.models.grouped import Grouped
from rl.ops import random

SMALL = {
    "env": tiny_team.ENV_ID,
    "num_envs": 2,
    "rollout_length": 4,
    "model.hidden": (8,),
    "model.part_hidden": (8,),
}
REPLAY = {"min_replay_size": 8, "random_steps": 0, "batch_size": 16, "updates_per_iteration": 1}
BOX = {"env_kwargs": {"actions": "box"}}
ONCE = {"epochs": 1, "minibatches": 2}
CASES = {"dqn": REPLAY, "ppo": ONCE, "a2c": {}, "impala": BOX, "sac": REPLAY | BOX, "sac_discrete": REPLAY}
CASES |= {"pqn": ONCE, "tqc": CASES["sac"], "ppg": ONCE | {"policy_iterations": 1, "aux_minibatches": 2}}


@pytest.fixture(autouse=True)
def _team():
    envs.register(tiny_team.TinyTeam)
    yield
    envs._entries().pop(tiny_team.ENV_ID)


def made(algo, policies="independent"):
    env = tiny_team.TinyTeam(1, **CASES.get(algo, {}).get("env_kwargs", {}))
    hparams = resolve(algo, SMALL | {"policies": policies})
    return get_algo(algo)(hparams, row_space(env, False), env.action_space, 0)


@pytest.mark.parametrize("algo", few(CASES, CASES.keys() - {"a2c", "tqc", "ppg"}))  # those are relatives
def test_a_groups_gradient_is_of_its_own_rows_alone(algo):
    agent = made(algo)
    left = np.array([1.0, 0, 1, 0, 1, 0])  # rows of the first agent
    seen = {
        "agent": np.stack([left, 1 - left], 1),
        "observation": np.random.default_rng(0).normal(size=(6, 4)),
    }
    seen = {name: tf.constant(x, tf.float32) for name, x in seen.items()}
    networks = {name: each for name, each in agent.networks.items() if isinstance(each, Grouped)}
    assert len(networks) == len(agent.networks)
    for name, network in networks.items():
        rest = [tf.ones([6, 1])] if "critic" in name and algo in ("sac", "tqc") else []
        with tf.GradientTape(persistent=True) as tape:
            found = tf.nest.flatten(network(seen, *rest))
            found = [each for each in found if each is not None]
            of_left = tf.add_n([tf.reduce_sum(rows_of(each, left)) for each in found])
        variables = [each.value for each in network.members[0].trainable_variables]
        assert sum(float(tf.norm(each)) for each in tape.gradient(of_left, variables) if each is not None) > 0
        others = [each.value for each in network.members[1].trainable_variables]
        gradients = tape.gradient(of_left, others, unconnected_gradients="zero")
        assert not any(tf.reduce_any(each != 0.0) for each in gradients)


def rows_of(outputs, weight):
    """Outputs, whose rows are their first or second axis, of the rows whose weight is 1."""
    axis = list(outputs.shape).index(6)
    return outputs * weight.astype(np.float32).reshape([-1, *[1] * (outputs.shape.rank - axis - 1)])


@pytest.mark.parametrize("algo", few(CASES, ("ppo",)))
def test_one_group_is_one_network_and_each_of_several_learns(build, algo):
    settings = SMALL | CASES[algo] | {"compile": "eager"}
    shared, one, two = (build(algo, **settings, policies=each) for each in ("", "*:all", "independent"))
    sums = [each.run(2) for each in (shared, one, two)]
    assert sums[1] == sums[0] and sums[0]["updates"] > 0
    for name, value in shared.agent.policy_variables.items():
        mine = one.agent.policy_variables[name.replace("network/", "network/group_all/")]
        np.testing.assert_array_equal(mine, value, err_msg=name)
    untouched = made(algo).policy_variables
    kernels = [name for name in untouched if name.endswith("kernel")]
    assert {name.split("/")[1] for name in kernels} == {"group_left", "group_right"}
    assert all(
        (two.agent.policy_variables[name].numpy() != untouched[name].numpy()).any() for name in kernels
    )


def test_networks_with_memory_keep_a_state_for_each_group(build):
    memory = {"model.name": "lstm", "model.recurrent_units": 8}
    settings = SMALL | ONCE | memory | {"policies": "l*:a,*:b"}
    runner = build("ppo", **settings, compile="eager")
    assert runner.run(2)["updates"] > 0
    agent = runner.agent
    assert {name.split("/")[1] for name in agent.policy_variables} == {"group_a", "group_b"}
    view = {"agent": tf.eye(2), "observation": tf.ones([2, 4])}
    state = agent.initial_state(2)
    before = agent.act(view, state, random.key(0), tf.constant(0, tf.int64), False)[2]
    assert all(tf.reduce_any(each != 0.0) for each in tf.nest.flatten(before))


@pytest.mark.parametrize(
    ("algo", "policies", "message"),
    [
        ("ppo", "left:a", r"policies='left:a': has no group for right of TinyTeam-v0: add \*:GROUP"),
        ("ppo", "lift:a,*:b", "no agent of TinyTeam-v0 is called lift: did you mean left"),
        ("dqn", "left", "needs independent, or PATTERN:GROUP,..., such as adversary_"),
        ("vdn", "independent", "TinyTeam-v0 has one network under vdn: leave it out"),
        ("maddpg", "independent", "maddpg's agents have networks of their own already: leave it out"),
    ],
)
def test_groups_that_do_not_fit_the_agents_are_one_line(build, algo, policies, message):
    with pytest.raises(UsageError, match=message):
        build(algo, env=tiny_team.ENV_ID, policies=policies)


def test_from_data_alone_one_line_says_that_they_do_not_tell_who_the_agents_are():
    data = {"env": tiny_team.ENV_ID, "memory": "dataset", "data": "DIR"}
    rows = spaces.Dict({name: spaces.Box(0.0, 1.0, (2,), np.float32) for name in ("agent", "alive")})
    with pytest.raises(UsageError, match="data do not say who the agents are: leave it out"):
        groups_of(resolve("dqn", data | {"policies": "independent"}), rows)
    with pytest.raises(UsageError, match="qmix learns while it plays: data do not say who the agents are"):
        agents_of(rows, resolve("qmix", data), "alive")


def test_groups_are_for_many_agents_and_algorithms_with_networks_of_groups(build):
    with pytest.raises(UsageError, match="CartPole-v1 is played by one agent: leave it out"):
        build("ppo", env="CartPole-v1", policies="independent")
    with pytest.raises(UsageError, match="es has one network for all: leave it out"):
        build("es", env="CartPole-v1", policies="independent")
