"""What all agents share: how actions are selected and gradients applied, and how variables are named."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from scipy import stats

from rl.agents.algos.act_select.registry import get_act_select
from rl.agents.algos.act_select.registry import registry as act_selects
from rl.agents.algos.grad_comp.backprop import apply_gradients
from rl.agents.algos.grad_comp.registry import get_grad_comp
from rl.agents.algos.grad_comp.registry import registry as grad_comps
from rl.agents.optimizers import OPTIMIZERS
from rl.hparams.merge import resolve
from rl.ops import random
from rl.ops.distributions import Categorical, DiagonalGaussian
from rl.ops.nests import flatten_time
from rl.types import PolicyOutput

UNLIKELY = 1e-4
MANY = 20_000
SEED = random.key(0)
STEP = tf.constant(0, tf.int64)


def selector(name, **overrides):
    hparams = "ddpg_identity" if name.endswith("_noise") else "dqn_identity"  # a set that has its hparams
    return get_act_select(name)(resolve(hparams, overrides))


def q_output(row=(1.0, 3.0, 2.0, 0.0), count=MANY):
    return PolicyOutput(q_values=tf.repeat(tf.constant([row]), count, 0))


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", act_selects.names())
def test_selected_actions_and_their_log_probs(name, training):
    logits = random.normal(random.key(1), [9, 4])
    output = PolicyOutput(q_values=logits, distribution=Categorical(logits))
    select = selector(name, num_envs=9)
    state = (select.initial_state(spaces.Discrete(4), 9),) if hasattr(select, "initial_state") else ()
    action, log_prob, *_ = select(output, SEED, STEP, training, *state)
    assert action.dtype == tf.int32 and action.shape == (9,)
    assert ((action.numpy() >= 0) & (action.numpy() < 4)).all()
    assert log_prob.dtype == tf.float32 and log_prob.shape == (9,)
    assert (log_prob.numpy() <= 0.0).all() and np.isfinite(log_prob).all()
    for jit_compile in (False, True):
        compiled = tf.function(select, jit_compile=jit_compile, autograph=False)
        np.testing.assert_array_equal(compiled(output, SEED, STEP, training, *state)[0], action)


@pytest.mark.parametrize(
    ("step", "training", "epsilon"), [(0, True, 0.9), (50, True, 0.5), (500, True, 0.1), (0, False, 0.02)]
)
def test_epsilon_greedy_explores_as_often_as_its_schedule_says(step, training, epsilon):
    select = selector(
        "epsilon_greedy",
        exploration_epsilon_start=0.9,
        exploration_epsilon_end=0.1,
        exploration_steps=100,
        evaluation_epsilon=0.02,
    )
    action, log_prob = select(q_output(), SEED, tf.constant(step, tf.int64), training)
    chance = np.full(4, epsilon / 4)
    chance[1] += 1.0 - epsilon  # the greedy one
    counts = np.bincount(action, minlength=4)
    assert stats.chisquare(counts, chance * MANY).pvalue > UNLIKELY
    np.testing.assert_allclose(log_prob, np.log(chance)[action], rtol=1e-4)


def test_epsilon_greedy_is_greedy_at_epsilon_0_and_uniform_at_1():
    for epsilon, expected in ((0.0, [0, MANY, 0, 0]), (1.0, [MANY / 4] * 4)):
        kwargs = {"exploration_epsilon_start": epsilon, "exploration_epsilon_end": epsilon}
        action = selector("epsilon_greedy", **kwargs)(q_output(), SEED, STEP, True)[0]
        counts = np.bincount(action, minlength=4)
        if epsilon == 0.0:
            np.testing.assert_array_equal(counts, expected)
        else:
            assert stats.chisquare(counts, expected).pvalue > UNLIKELY


def test_greedy_takes_the_largest_value_or_the_mode():
    np.testing.assert_array_equal(selector("greedy")(q_output(count=3), SEED, STEP, True)[0], [1, 1, 1])
    mean = tf.constant([[0.5, -2.0]])
    output = PolicyOutput(distribution=DiagonalGaussian(mean, tf.zeros(2)))
    action, log_prob = selector("greedy")(output, SEED, STEP, True)
    np.testing.assert_array_equal(action, mean)
    np.testing.assert_allclose(log_prob, [-np.log(2 * np.pi)], rtol=1e-6)


def test_sample_draws_in_training_and_takes_the_mode_in_evaluation():
    logits = tf.repeat(tf.math.log([[0.1, 0.2, 0.3, 0.4]]), MANY, 0)
    output = PolicyOutput(distribution=Categorical(logits))
    action, log_prob = selector("sample")(output, SEED, STEP, True)
    counts = np.bincount(action, minlength=4)
    assert stats.chisquare(counts, np.array([0.1, 0.2, 0.3, 0.4]) * MANY).pvalue > UNLIKELY
    np.testing.assert_allclose(log_prob, np.log([0.1, 0.2, 0.3, 0.4])[action], rtol=1e-4)
    assert (selector("sample")(output, SEED, STEP, False)[0].numpy() == 3).all()


@pytest.mark.parametrize("training", [False, True])
def test_uniform_random_ignores_the_policy(training):
    action, log_prob = selector("uniform_random")(q_output(), SEED, STEP, training)
    assert stats.chisquare(np.bincount(action, minlength=4)).pvalue > UNLIKELY
    np.testing.assert_allclose(log_prob, np.full(MANY, -np.log(4.0)), rtol=1e-6)


class Examples:
    """A batch as `grad_comp` knows it: something with a mask."""

    def __init__(self, x, mask):
        self.x, self.mask = tf.constant(x), tf.constant(mask)


# evolution takes scores of a population, not a loss: tests/agents/test_es.py
@pytest.mark.parametrize("name", sorted({*grad_comps.names()} - {"evolution"}))
def test_every_grad_comp_goes_down_the_loss(name, make_agent):
    agent = make_agent("dqn", lr=0.05, grad_comp=name)
    variables, optimizer = agent.network.trainable_variables, agent.optimizers["network"]
    batch = Examples(
        np.random.default_rng(0).normal(size=(16, 3)).astype(np.float32), np.ones(16, np.float32)
    )

    def loss(part):
        error = agent.network(part.x) - 3.0
        return tf.reduce_sum(tf.square(error), -1), {"error": tf.reduce_mean(error)}, tf.abs(error[:, 0])

    update = tf.function(lambda: agent.grad_comp(loss, batch, variables, optimizer), autograph=False)
    updates = [update() for _ in range(100)]
    first, last = updates[0], updates[-1]
    assert last.metrics["loss"] < 0.2 * first.metrics["loss"]
    assert {"loss", "grad_norm", "error"} <= set(first.metrics)
    assert first.priorities.shape == (16,)


def sgd_step(w, batch, max_grad_norm, weight=lambda part: part.x):
    """(w after one step of SGD at rate 1 on the loss w * x, metrics)."""
    import keras

    variable = keras.Variable(w)
    optimizer = OPTIMIZERS["sgd"](1.0, None)
    optimizer.build([variable])
    compute = get_grad_comp("backprop")(resolve("dqn_identity", {"max_grad_norm": max_grad_norm}))
    update = compute(
        lambda part: (variable.value * weight(part) * part.mask, {}, None), batch, [variable], optimizer
    )
    return float(variable.numpy()), update.metrics


def test_backprop_averages_over_the_examples_that_count():
    # loss (1 + 2) w / 2: gradient 1.5; the masked 99 is left out of sum and count.
    w, metrics = sgd_step(2.0, Examples([1.0, 2.0, 99.0], [1.0, 1.0, 0.0]), None)
    np.testing.assert_allclose([w, metrics["loss"], metrics["grad_norm"]], [0.5, 3.0, 1.5])


def test_backprop_on_a_batch_that_is_masked_whole_changes_nothing():
    w, metrics = sgd_step(2.0, Examples([1.0, 2.0], [0.0, 0.0]), 0.5)
    assert w == 2.0 and metrics["loss"] == 0.0 and metrics["grad_norm"] == 0.0


@pytest.mark.parametrize(
    ("max_grad_norm", "expected"),
    [
        # gradients 3 and 4: norm 5
        (None, [-3.0, -4.0]),
        (10.0, [-3.0, -4.0]),
        (1.0, [-0.6, -0.8]),
        (2.5, [-1.5, -2.0]),
    ],
)
def test_gradients_are_clipped_by_their_norm_together(max_grad_norm, expected):
    import keras

    variables = [keras.Variable(0.0), keras.Variable(0.0)]
    optimizer = OPTIMIZERS["sgd"](1.0, None)
    optimizer.build(variables)
    gradients = [tf.constant(3.0), tf.constant(4.0)]
    metrics = apply_gradients(gradients, variables, optimizer, max_grad_norm)
    np.testing.assert_allclose([float(each.numpy()) for each in variables], expected, rtol=1e-5)
    np.testing.assert_allclose(metrics["grad_norm"], 5.0)  # before clipping


@pytest.mark.parametrize("name", ["dqn", "ppo"])
def test_acting_returns_the_extras_that_the_algorithm_asked_for(make_agent, name):
    agent = make_agent(name)
    observation = random.normal(SEED, [6, 3])
    action, extras, recurrent_state = agent.act(observation, (), SEED, STEP, True)
    assert action.shape == (6,) and recurrent_state == ()
    assert tuple(extras) == agent.trajectory_extras
    for each in extras.values():
        assert each.shape == (6,) and each.dtype == tf.float32
    again = agent.act(observation, (), SEED, STEP, True)[0]
    np.testing.assert_array_equal(action, again)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", ["dqn", "ppo"])
def test_variables_have_the_same_names_however_many_agents_were_made_before(make_agent, name, optimizer):
    first, second = (make_agent(name, optimizer=optimizer, lr_schedule=s) for s in ("constant", "linear"))
    assert list(first.variables) == list(second.variables)
    assert f"optimizer/network/{optimizer}/learning_rate" in first.variables


@pytest.mark.parametrize("name", ["dqn", "ppo"])
def test_the_seed_alone_decides_the_initial_agent(make_agent, snapshot, name):
    one, same, other = (snapshot(make_agent(name, seed=seed)) for seed in (3, 3, 4))
    for variable, value in one.items():
        np.testing.assert_array_equal(same[variable], value, err_msg=variable)
    assert any((other[variable] != value).any() for variable, value in one.items())


def test_policy_variables_leave_out_optimizer_and_target(make_agent):
    agent = make_agent("dqn", normalize_observation=True)
    names = set(agent.policy_variables)
    assert {name.split("/")[0] for name in names} == {"network", "encoder"}
    assert names < set(agent.variables)
    assert {name.split("/")[0] for name in set(agent.variables) - names} == {
        "target_network",
        "optimizer",
        "updates",
    }


def test_flatten_time_joins_the_first_two_axes_of_every_tensor():
    nest = {"a": tf.reshape(tf.range(12), [2, 3, 2]), "b": (tf.zeros([2, 3]),)}
    flat = flatten_time(nest)
    np.testing.assert_array_equal(flat["a"], tf.reshape(tf.range(12), [6, 2]))
    assert flat["b"][0].shape == (6,)


def test_the_normaliser_is_saved_once_and_observes_the_rollout(make_agent):
    agent = make_agent("ppo", observation_space=spaces.Box(-9.0, 9.0, (1,)), normalize_observation=True)
    assert [name for name in agent.variables if name.endswith("mean")] == ["encoder/mean"]
    from rl.types import Trajectory

    observation = tf.reshape(
        tf.constant([1.0, 2.0, 3.0, 4.0, 100.0, 100.0]), [3, 2, 1]
    )  # the last row is no step's
    zeros = tf.zeros([2, 2])
    agent.observe(Trajectory(observation, zeros, zeros, zeros > 1, zeros > 1, zeros + 1.0, {}))
    np.testing.assert_allclose([*agent.encoder.mean.numpy(), *agent.encoder.variance.numpy()], [2.5, 1.25])


@pytest.mark.parametrize("algo", ["dqn", "rainbow"])
def test_a_share_of_the_actions_of_an_evaluation_is_random_with_noisy_layers_too(make_agent, algo):
    agent = make_agent(algo, noisy=True, evaluation_epsilon=0.3)
    observation = tf.zeros([MANY, 3])
    action = agent.act(observation, (), SEED, STEP, False)[0].numpy()
    counts = np.sort(np.bincount(action, minlength=3))
    assert stats.chisquare(counts, MANY * np.array([0.1, 0.1, 0.8])).pvalue > UNLIKELY


def test_the_normaliser_counts_no_row_of_an_agent_that_has_left(make_agent, make_rollout):
    agent = make_agent("ppo", normalize_observation=True, num_envs=4, rollout_length=8, minibatches=1)
    rollout = make_rollout(agent)
    agent.rows_of_env = 2
    agent.observe(rollout)
    seen = rollout.observation.numpy()[:-1][rollout.mask.numpy() > 0.0]
    assert 24 < len(seen) < 32 and int(agent.encoder.count) == len(seen)
    np.testing.assert_allclose(agent.encoder.mean, seen.mean(0), atol=1e-5)
    np.testing.assert_allclose(agent.encoder.variance, seen.var(0), rtol=1e-4)


@pytest.mark.parametrize(("floats", "policy"), [("float64", "float64"), ("float32", "mixed_bfloat16")])
def test_what_a_program_has_set_for_models_of_its_own_changes_no_agent(make_agent, floats, policy):
    observation = random.normal(random.key(1), [4, 3])
    options = {"normalize_observation": True, "model.layer_norm": True}
    usual = make_agent("ppo", **options).act(observation, (), SEED, STEP, False)[0]
    there = keras.config.floatx(), keras.config.dtype_policy()
    keras.config.set_floatx(floats)
    keras.config.set_dtype_policy(policy)
    try:
        agent = make_agent("ppo", **options)
        assert keras.config.floatx() == floats and keras.config.dtype_policy().name == policy
        np.testing.assert_array_equal(agent.act(observation, (), SEED, STEP, False)[0], usual)
        assert agent.encoder.compute_dtype == "float32"
        rates = [each.learning_rate.dtype for each in agent.optimizers.values()]
        assert rates == ["float32"] * len(rates)
    finally:
        keras.config.set_floatx(there[0])
        keras.config.set_dtype_policy(there[1])
