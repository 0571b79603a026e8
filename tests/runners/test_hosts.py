"""The host side: actors of both kinds, overlapped learning, evaluation."""

from __future__ import annotations

import gymnasium
import keras
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from marked import rest

from rl.agents.algos.registry import get_algo
from rl.envs.host import env_seeds
from rl.hparams.merge import resolve
from rl.ops.affine import ROWS
from rl.runners.actor import Actor, _converted, _Tracer
from rl.runners.evaluate import MAX_PARALLEL, Evaluator

SPACES = {
    "Box": spaces.Box(-1.0, 1.0, (4,)),
    "bytes": spaces.Box(0, 255, (2, 3), np.uint8),
    "Discrete": spaces.Discrete(5, start=1),
    "MultiBinary": spaces.MultiBinary(3),
    "Dict of one": spaces.Dict({"a": spaces.Box(-1.0, 1.0, (2,))}),
    "Tuple": spaces.Tuple([spaces.Discrete(3), spaces.Box(-1.0, 1.0, (2,)), spaces.MultiDiscrete([2, 2])]),
}
ACTIONS = {
    "Discrete": spaces.Discrete(3),
    "MultiDiscrete": spaces.MultiDiscrete([2, 3]),
    "MultiBinary": spaces.MultiBinary(2),
    "Box": spaces.Box(-1.0, 1.0, (2,)),
    "Box of two axes": spaces.Box(-1.0, 1.0, (2, 3)),
}
AGENTS = {
    "epsilon-greedy": ("dqn", {"exploration_steps": 100}),
    "noisy": ("dqn", {"noisy": True, "act_select": "greedy", "dueling": True}),
    "normalised": ("ppo", {"normalize_observation": True}),
}


def make_agent(name, observation_space, action_space, **overrides):
    hparams = resolve(name, {"env": "Test-v0", **overrides})
    return get_algo(hparams.algo)(hparams, observation_space, action_space, 0)


def batches(space, steps, count):
    """Observations as a host environment of `space` gives them: stacked samples, 64-bit integers."""
    vector = gymnasium.vector.utils.batch_space(space, count)
    vector.seed(0)
    return [vector.sample() for _ in range(steps)]


def assert_both_backends_act_alike(agent, training, count=6):
    litert, compiled = (Actor(agent, count, training, 7, backend) for backend in ("litert", "compiled"))
    assert (litert.backend, compiled.backend) == ("litert", "compiled")
    for actor in (litert, compiled):
        actor.begin(2, 10)
    for t, observation in enumerate(batches(agent.observation_space, 10, count)):
        (action, extras), (other, other_extras) = (
            each(observation, t, 10 * t) for each in (litert, compiled)
        )
        assert action.shape == (count, *agent.action_space.shape)
        if isinstance(agent.action_space, spaces.Box):
            np.testing.assert_allclose(action, other, rtol=1e-4, atol=1e-5)
        else:
            np.testing.assert_array_equal(action, other)
        assert len(extras) == (len(agent.trajectory_extras) if training else 0)
        for one, two in zip(extras, other_extras, strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", ["dqn", "sac"])
def test_litert_turns_no_matrix_around_in_a_call(name):
    action_space = spaces.Discrete(3) if name == "dqn" else spaces.Box(-1.0, 1.0, (2,))
    agent = make_agent(name, SPACES["Box"], action_space)
    interpreter = Actor(agent, 1, True, 0, "litert")._program._interpreter
    products = {each["op_name"] for each in interpreter._get_ops_details()}
    assert "FULLY_CONNECTED" in products and not products & {"BATCH_MATMUL", "TRANSPOSE"}


@pytest.mark.parametrize("name", ["dqn", "ppo"])
def test_both_backends_act_alike_for_so_many_rows_that_a_bias_could_be_one_of_its_kernel(name):
    relu = {"model": {"hidden": (64, 64), "activation": "relu"}}
    agent = make_agent(name, SPACES["Box"], ACTIONS["Discrete"], **relu)
    assert_both_backends_act_alike(agent, training=False, count=ROWS)  # exploring would hide it


def test_a_conversion_that_lost_an_activation_is_refused(monkeypatch):
    observed = spaces.Box(0.0, 1.0, (4,))  # by weights above 0 a relu would change nothing
    agents = [make_agent("dqn", observed, ACTIONS["Discrete"]) for _ in range(2)]
    for layer in agents[1].networks["network"]._flatten_layers():
        if isinstance(layer, keras.layers.Dense):
            layer.activation = keras.activations.linear
    convert = tf.lite.TFLiteConverter.from_concrete_functions
    right, wrong = (_Tracer(agent, 2, False, False) for agent in agents)
    _converted(right.function(), right)
    lost = classmethod(lambda cls, functions: convert([wrong.function()]))
    monkeypatch.setattr(tf.lite.TFLiteConverter, "from_concrete_functions", lost)
    with pytest.raises(RuntimeError, match="disagrees"):
        _converted(right.function(), right)


@pytest.mark.parametrize("name", SPACES)
def test_both_act_backends_take_every_observation_space(name):
    agent = make_agent("ppo", SPACES[name], spaces.Discrete(3))
    assert_both_backends_act_alike(agent, training=True)


@pytest.mark.parametrize("name", ACTIONS)
def test_both_act_backends_give_the_same_actions(name):
    agent = make_agent("ppo", SPACES["Box"], ACTIONS[name])
    assert_both_backends_act_alike(agent, training=True)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", AGENTS)
def test_both_act_backends_explore_alike(name, training):
    algo, overrides = AGENTS[name]
    agent = make_agent(algo, SPACES["Box"], ACTIONS["Discrete"], **overrides)
    agent.resample_noise(np.array([0, 1], np.int32))
    assert_both_backends_act_alike(agent, training)


@pytest.mark.parametrize("backend", ["litert", "compiled"])
def test_an_actor_acts_with_the_weights_of_its_last_sync(backend):
    agent = make_agent("dqn", SPACES["Box"], ACTIONS["Discrete"])
    actor = Actor(agent, 50, False, 0, backend)
    observation = batches(SPACES["Box"], 1, 50)[0]
    actor.begin(0, 3)
    before = actor(observation, 0, 0)[0]
    for variable in agent.network.trainable_variables:
        variable.assign(-variable)
    np.testing.assert_array_equal(actor(observation, 1, 0)[0], before)
    actor.sync()
    expected = agent.network(observation.astype(np.float32)).numpy().argmax(-1)
    np.testing.assert_array_equal(actor(observation, 2, 0)[0], expected)
    assert (expected != before).any()


def test_an_actors_random_numbers_depend_on_seed_and_iteration_alone():
    agent = make_agent("ppo", SPACES["Box"], ACTIONS["Box"])
    observation = batches(SPACES["Box"], 1, 4)[0]

    def act(seed, iteration):
        actor = Actor(agent, 4, True, seed)
        actor.begin(iteration, 2)
        return actor(observation, 1, 0)[0]

    first = act(1, 5)
    np.testing.assert_array_equal(act(1, 5), first)
    assert (act(2, 5) != first).all() and (act(1, 6) != first).all()


def host_episode(agent, env, seed):
    """(return, length) of one greedy episode, as a user would write it."""
    observation, _ = env.reset(seed=seed)
    total, length, ended = 0.0, 0, False
    while not ended:
        q_values = agent.network(np.asarray(observation, np.float32)[None]).numpy()[0]
        observation, reward, terminated, truncated, _ = env.step(int(q_values.argmax()))
        total, length, ended = total + reward, length + 1, terminated or truncated
    return total, length


def cartpole_evaluator(episodes):
    hparams = resolve("dqn", {"env": "CartPole-v1"})
    env = gymnasium.make("CartPole-v1")
    agent = get_algo("dqn")(hparams, env.observation_space, env.action_space, 0)
    return agent, Evaluator(agent, episodes)


@pytest.mark.parametrize("episodes", [1, 5, MAX_PARALLEL + 3])
def test_evaluation_equals_a_hand_written_gymnasium_loop(episodes):
    agent, evaluator = cartpole_evaluator(episodes)
    found = evaluator.run(11)
    count = min(episodes, MAX_PARALLEL)
    seeds = env_seeds(11, count)
    envs = [gymnasium.make("CartPole-v1") for _ in range(count)]
    expected = [
        host_episode(agent, envs[i % count], seeds[i] if i < count else None) for i in range(episodes)
    ]
    np.testing.assert_array_equal(found.returns, [total for total, _ in expected])
    np.testing.assert_array_equal(found.lengths, [length for _, length in expected])
    again = evaluator.run(11)
    np.testing.assert_array_equal(again.returns, found.returns)
    evaluator.close()


def test_other_seeds_evaluate_other_episodes():
    _, evaluator = cartpole_evaluator(8)
    assert (evaluator.run(1).returns != evaluator.run(2).returns).any()
    evaluator.close()


def test_evaluation_metrics():
    _, evaluator = cartpole_evaluator(4)
    found = evaluator.run(0)
    metrics = found.metrics()
    assert metrics["eval/return_mean"] == found.returns.mean()
    assert metrics["eval/return_std"] == found.returns.std()
    assert (metrics["eval/return_min"], metrics["eval/return_max"]) == (
        min(found.returns),
        max(found.returns),
    )
    assert metrics["eval/length_mean"] == found.lengths.mean()
    evaluator.close()


@pytest.mark.parametrize(
    ("name", "overlap"),
    [
        ("ppo_identity", True),
        *rest(("dqn_identity", False), ("ppo_identity", False), ("dqn_identity", True)),
    ],
)
def test_host_environments_are_learned_with_and_without_overlap(build, name, overlap):
    runner = build(name, env_backend="gym", overlap=overlap)
    runner.run(-(-runner.agent.hparams.train_steps // runner.steps_per_iteration))
    evaluator = Evaluator(runner.agent, 4)
    assert evaluator.run(0).returns.mean() >= 18.0  # 20 at best, 5 at random
    evaluator.close()


def test_overlapped_rollouts_act_with_the_weights_of_the_iteration_before(build):
    runner = build("ppo", env="CartPole-v1", env_backend="gym", overlap=True, rollout_length=4, num_envs=4)
    events = []
    collect, finish = runner._collect, runner._finish

    def note_collect(block, iteration):
        events.append(f"collect {iteration}")
        collect(block, iteration)

    def note_finish(result):
        events.append("sync")
        return finish(result)

    runner._collect, runner._finish = note_collect, note_finish
    runner.run(4)
    assert events == ["collect 0", "collect 1", "sync", "collect 2", "sync", "collect 3", "sync", "sync"]
