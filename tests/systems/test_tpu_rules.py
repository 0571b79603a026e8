"""Every algorithm in every in-graph environment compiles to what a TPU takes: static shapes, no host, no
operation that it refuses. The walk names no algorithm and no environment: new ones are walked as they come.

`make test` looks at each environment alone here, and at each algorithm where tests/test_all_algos.py has
traced it anyway; pairs of both are slow.
"""

from __future__ import annotations

import numpy as np
import own_data
import own_experts
import pytest
import tensorflow as tf
from gymnasium import spaces
from marked import few, slow
from tpu_rules import broken_in_xla, broken_rules

from rl.agents.algos.registry import get_algo
from rl.agents.algos.registry import registry as algos
from rl.agents.joint_value import JointValueAgent
from rl.envs.make import make_env
from rl.envs.registry import get_env
from rl.envs.registry import registry as envs
from rl.hparams.merge import resolve
from rl.hparams.registry import registry as hparams_sets
from rl.ops import loops, random
from rl.runners.build import build_runner
from rl.spaces import space_spec
from tests.graph_ids import OF_AGENTS

LONG = ("MinAtar/Seaquest-v1", "MinAtar/SpaceInvaders-v1")  # to trace; three such games are quick
# Pictures of games of ten by ten need the smaller convolutions, where a model remembers.
SMALL = {"num_envs": 4, "rollout_length": 4, "compile": "xla", "model.image": "minatar_cnn"}
SETS = {name: get_algo(name).hparams_type() for name in algos.names()}
FROM_OTHERS = [name for name, each in SETS.items() if each.offline or each.demonstrated or each.taught]
PLAYING = [name for name in algos.names() if name not in FROM_OTHERS]
OPTIONAL = {
    "minibatches": 2,
    "min_replay_size": 8,
    "batch_size": 8,
    "burn_in": 0,
    "unroll_length": 6,
    "unroll_steps": 2,
    "task_episodes": 2,
}


def fits(algo, env):
    """Whether an algorithm can act there. Who learns from all agents' plays environments of one no more."""
    view = SETS[algo].view
    if view != "rows" and env not in OF_AGENTS:
        return False
    if (algo == "slateq") != (env == "InterestEvolution-v0"):  # slates are not of others, nor for them
        return algo != "slateq" and env != "InterestEvolution-v0"
    if (
        SETS[algo].searches and env in OF_AGENTS
    ):  # games for two are searched without ranks, by a set of theirs
        return False
    if issubclass(get_algo(algo), JointValueAgent) and not get_env(env).cooperative:
        return False
    return isinstance(make_env(env, "graph", 1, view=view).action_space, get_algo(algo).action_spaces)


def cases():
    """(algorithm, environment) for all pairs that fit."""
    fitting = {env: [algo for algo in PLAYING if fits(algo, env)] for env in envs.names()}
    for env in OF_AGENTS:  # who compares parameters plays no environment together with others
        fitting[env] = [algo for algo in fitting[env] if get_algo(algo).experience != "parameters"]
        fitting[env] = [algo for algo in fitting[env] if not SETS[algo].adapts]  # nor who adapts to a task
    return [(algo, env) for env in fitting for algo in fitting[env]]


def compiled(name, **overrides):
    """The function that trains, and the concrete one of an argument."""
    fields = type(hparams_sets.get(name)()).model_fields
    optional = {key: value for key, value in OPTIONAL.items() if key in fields}
    runner = build_runner(resolve(name, SMALL | optional | overrides), 0)
    signature = [tf.TensorSpec([], tf.int32), tf.TensorSpec([loops.MAX_METRICS], tf.float32)]
    function = tf.function(runner._iterate, signature, jit_compile=True, autograph=False)
    return function, function.get_concrete_function()


@pytest.mark.parametrize("name", few(envs.names(), [each for each in envs.names() if each not in LONG]))
def test_every_environment_is_what_a_tpu_takes(name):
    env = make_env(name, "graph", 4)

    def play(seed, action):
        state, _ = env.reset(seed)
        return env.step(state, action, seed)

    action = space_spec(env.action_space, (env.num_envs,))
    signature = [tf.TensorSpec([2], tf.int32), action]
    function = tf.function(play, signature, jit_compile=True, autograph=False)
    assert broken_rules(function.get_concrete_function()) == []
    nothing = tf.nest.map_structure(lambda spec: tf.zeros(spec.shape, spec.dtype), action)
    assert broken_in_xla(function, random.key(0), nothing) == []


@pytest.mark.slow
@pytest.mark.parametrize(("algo", "env"), cases())
def test_what_trains_is_what_a_tpu_takes(algo, env):
    function, concrete = compiled(algo, env=env)
    assert broken_rules(concrete) == []
    assert broken_in_xla(function, tf.constant(1), tf.constant(loops.MetricPack.empty())) == []


@pytest.mark.parametrize(
    ("name", "overrides"),
    [
        slow("ppo_cartpole_no_velocity"),
        ("ppo_cartpole", {"normalize_observation": True, "normalize_reward": True, "target_kl": 0.01}),
        slow("rainbow_cartpole", prioritized=True),
        slow("dqn_breakout_minatar", **{"model.name": "minatar_cnn"}),
        slow("iqn_cartpole", **{"model.precision": "bfloat16"}),
        slow("sac_pendulum", grad_comp="accumulate", microbatches=2),
    ],
)
def test_so_is_what_options_add(name, overrides):
    function, concrete = compiled(name, **overrides)
    assert broken_rules(concrete) == []
    assert broken_in_xla(function, tf.constant(1), tf.constant(loops.MetricPack.empty())) == []


@pytest.mark.slow
@pytest.mark.parametrize("algo", FROM_OTHERS)
def test_so_is_what_learns_from_others(algo, tmp_path):
    for env in ("CartPole-v1", "Pendulum-v1"):
        if isinstance(make_env(env, "graph", 1).action_space, get_algo(algo).action_spaces):
            own_data.play(tmp_path / env, env, episodes=1)
            given = {"data": str(tmp_path / env)}
            if SETS[algo].taught:
                given["expert"] = own_experts.clone(tmp_path / f"expert of {env}", env, tmp_path / env, 10)
            function, concrete = compiled(algo, env=env, **given)
            assert broken_rules(concrete) == []
            assert broken_in_xla(function, tf.constant(1), tf.constant(loops.MetricPack.empty())) == []


UNSUITABLE = {
    "shape that depends on values: Where": lambda x: tf.reduce_sum(tf.where(x > 0.0)),
    "no static shape": lambda x: tf.reduce_sum(tf.boolean_mask(x, x > 0.0)),
    "shape that depends on values: Unique": lambda x: tf.size(tf.unique(x)[0]),
    "runs on the host: EagerPyFunc": lambda x: tf.py_function(np.sum, [x], tf.float32),
    "runs on the host: PyFunc": lambda x: tf.numpy_function(np.sum, [x], tf.float32),
    "runs on the host: PrintV2": lambda x: (tf.print(x), x)[1],
    "type float64": lambda x: tf.cast(x, tf.float64) * 2.0,
    "runs on the host: StringLength": lambda x: tf.strings.length(tf.strings.as_string(x)),
    "no static shape: Range": lambda x: tf.reduce_sum(tf.range(tf.cast(x[0], tf.int32))),
}


@pytest.mark.parametrize("what", UNSUITABLE)
def test_an_unsuitable_operation_is_found_wherever_it_is(what):
    """Deep inside: in the body of a loop in one branch of a condition."""

    def unsuitable(x):
        def body(i, total):
            return i + 1, total + tf.cast(tf.reduce_sum(UNSUITABLE[what](x)), tf.float32)

        def loop():
            return tf.while_loop(lambda i, _: i < 3, body, (tf.constant(0), tf.constant(0.0)))[1]

        return tf.cond(x[0] > 0.0, loop, lambda: tf.constant(0.0))

    function = tf.function(unsuitable, [tf.TensorSpec([4], tf.float32)], autograph=False)
    assert any(what in each for each in broken_rules(function.get_concrete_function()))


def test_a_suitable_function_breaks_no_rule():
    function = tf.function(lambda x: x * 2.0, [tf.TensorSpec([4], tf.float32)], jit_compile=True)
    assert broken_rules(function.get_concrete_function()) == []
    assert broken_in_xla(function, tf.ones([4])) == []


def test_what_xla_on_a_cpu_takes_and_a_tpu_does_not_is_found():
    def places(x):
        return tf.reduce_sum(tf.where(x > 0.0))

    def triangular(x):
        return tf.linalg.qr(x)[1]

    def found(function, x):
        return broken_in_xla(tf.function(function, jit_compile=True, autograph=False), x)

    assert any("bounded dynamic shape" in each for each in found(places, tf.ones([64])))
    assert "calls a library of the host: Qr" in found(triangular, tf.ones([8, 8]))


def test_the_walk_is_of_every_algorithm_and_environment():
    assert {env for _, env in cases()} == set(envs.names())
    by_type = {(algo, type(make_env(env, "graph", 1).action_space)) for algo, env in cases()}
    assert {algo for algo, _ in by_type} == set(PLAYING)
    assert ("sac", spaces.Box) in by_type and ("dqn", spaces.Box) not in by_type
    assert {kind for _, kind in by_type} == {spaces.Box, spaces.Discrete, spaces.MultiDiscrete}
