"""Parts that are not what they must be get one line that names them and says what is missing."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from rl.agents.agent import Agent
from rl.agents.algos.act_select.registry import registry as act_selects
from rl.agents.algos.dqn import DQN
from rl.agents.algos.grad_comp.registry import registry as grad_comps
from rl.errors import UsageError
from rl.hparams.merge import resolve
from rl.memory.registry import registry as memories
from rl.memory.replay import Replay
from rl.models.registry import registry as models
from rl.ops import random
from rl.ops.loops import Sum
from rl.registry import Entry
from rl.types import Batch

BOX = spaces.Box(-5.0, 5.0, (3,), np.float32)
SEED = random.key(0)


@pytest.fixture
def register(monkeypatch):
    """`register(registry, name, member)` for the time of a test."""

    def enter(registry, name, member):
        entry = Entry(name, "", __name__, member.__name__, __file__, member)
        monkeypatch.setitem(registry._entries(), name, entry)

    return enter


def agent_of(kind=DQN, name="dqn", seed=0, **overrides):
    hparams = resolve(name, {"env": "Test-v0", "model.hidden": (8,), **overrides})
    return kind(hparams, BOX, spaces.Discrete(3), seed)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda loss, metrics, priorities: tf.reduce_mean(loss), r"a loss returned \[\], not"),
        (lambda loss, *rest: (tf.reduce_mean(loss), *rest), r"loss of shape \[\] for 6 examples"),
        (lambda loss, *rest: (tf.stack([loss, loss], 1), *rest), r"loss of shape \[6, 2\] for 6 examples"),
        (lambda loss, metrics, priorities: (loss, metrics, priorities[:2]), r"priorities of shape \[2\]"),
        (lambda loss, metrics, _: (loss, {"rows": loss}, None), r"metric rows has shape \[6\]"),
    ],
)
@pytest.mark.parametrize("grad_comp", ["backprop", "accumulate"])
def test_a_loss_is_one_number_for_each_example(make_batch, change, words, grad_comp):
    class Changed(DQN):
        def loss(self, batch, seed):
            return change(*super().loss(batch, seed))

    agent = agent_of(Changed, grad_comp=grad_comp)
    with pytest.raises(UsageError, match=f"^algorithm dqn: .*{words}.*$"):
        agent.update(make_batch(), SEED)


def test_a_metric_may_be_a_sum(make_batch):
    class Counting(DQN):
        def loss(self, batch, seed):
            loss, metrics, priorities = super().loss(batch, seed)
            return loss, metrics | {"examples": Sum(tf.reduce_sum(batch.mask))}, priorities

    assert float(agent_of(Counting).update(make_batch(), SEED).metrics["examples"].value) == 6.0


def test_an_algorithm_says_what_it_learns_from_and_has_a_policy():
    with pytest.raises(
        UsageError, match=r"dqn \(Empty\) lacks action_spaces, build, experience, loss, policy"
    ):
        agent_of(type("Empty", (Agent,), {}))
    with pytest.raises(UsageError, match="experience 'memories' is none of rollout, parameters, transition"):
        agent_of(type("Lost", (DQN,), {"experience": "memories"}))
    with pytest.raises(UsageError, match="algorithm dqn has no acting network"):
        agent_of(type("Blind", (DQN,), {"build": lambda self: None}))
    kind = type("Mute", (DQN,), {"policy": lambda self, *_: tf.zeros([6, 3])})
    with pytest.raises(UsageError, match=r"policy returned .*, not a PolicyOutput"):
        agent_of(kind).act(tf.zeros([6, 3]), (), SEED, tf.constant(0, tf.int64), True)
    with pytest.raises(UsageError, match="trajectory_extras asks for value, its policy gives none"):
        agent = agent_of(type("Poor", (DQN,), {"trajectory_extras": ("value",)}))
        agent.act(tf.zeros([6, 3]), (), SEED, tf.constant(0, tf.int64), True)


class NoPair:
    def __call__(self, output, seed, step, training):
        return tf.argmax(output.q_values, -1)


class NoThird:
    def initial_state(self, action_space, count):
        return tf.zeros([count])

    def __call__(self, output, seed, step, training, state):
        return tf.argmax(output.q_values, -1), state


def test_an_act_select_may_choose_by_argmax_whose_integers_are_of_64_bits(register):
    register(
        act_selects,
        "mine",
        lambda hparams: lambda output, *_: (tf.argmax(output.q_values, -1), tf.zeros([6])),
    )
    agent = agent_of(act_select="mine")
    found = agent.act(tf.zeros([6, 3]), agent.initial_state(6), SEED, tf.constant(0, tf.int64), True)
    assert found[0].dtype == tf.int32 and found[0].shape == [6]


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (None, r"returned no function of \(output, seed, step, training\), but a NoneType"),
        (max, r"returned no function of \(output, seed, step, training\), \(no signature found"),
        (lambda output, seed: None, r"returned no function of \(output, seed, step, training\), \(too many"),
        (NoPair(), r"returned \[6\], not \(action, log_prob\)"),
        (NoThird(), r"returned 2 values, not \(action, log_prob, state\)"),
        (lambda output, *_: (tf.argmax(output.q_values), tf.zeros([6])), r"action \[3\] and .* for 6 obs"),
        (
            lambda output, *_: (output.q_values[:, 0], tf.zeros([6])),
            r"action of float32, Discrete\(3\) takes int32",
        ),
    ],
)
def test_an_act_select_returns_an_action_and_its_log_prob_for_each_observation(register, made, words):
    register(act_selects, "mine", lambda hparams: made)
    with pytest.raises(UsageError, match=f"act_select mine.*{words}"):
        agent = agent_of(act_select="mine")
        agent.act(tf.zeros([6, 3]), agent.initial_state(6), SEED, tf.constant(0, tf.int64), True)


def test_a_part_names_the_hparams_that_it_lacks():
    hparams = {"env": "Test-v0", "act_select": "per_worker_epsilon"}
    with pytest.raises(UsageError, match=r"act_select per_worker_epsilon needs .*epsilon_base.*PPOHParams"):
        act_selects.get("per_worker_epsilon")(resolve("ppo", hparams))
    with pytest.raises(UsageError, match=r"memory uniform needs the hparams batch_size, .*PPOHParams"):
        memories.get("uniform")(None, resolve("ppo", {"env": "Test-v0"}))


def test_a_grad_comp_returns_an_update(register, make_batch):
    register(grad_comps, "mine", lambda hparams: lambda *_: None)
    with pytest.raises(UsageError, match="grad_comp mine returned NoneType, not an Update"):
        agent_of(grad_comp="mine").update(make_batch(), SEED)


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda loss_fn, batch, variables, optimizer: None, r"optimizer, unless=\), .*argument 'unless'"),
        (None, r"optimizer, unless=\), as dqn calls it with these hyperparameters, but a NoneType"),
        (max, r"optimizer, unless=\), .*no signature found"),
    ],
)
def test_a_grad_comp_that_cannot_be_called_as_the_algorithm_calls_it_is_refused(
    register, make_batch, made, words
):
    register(grad_comps, "mine", lambda hparams: made)
    with pytest.raises(UsageError, match=f"grad_comp mine: its factory returned no function of .*{words}"):
        agent_of(grad_comp="mine").gradient_step(make_batch(), SEED, unless=lambda metrics: False)


def test_a_memory_has_all_that_a_memory_has(register):
    members = {name: each for name, each in vars(Replay).items() if name != "sample"}
    register(memories, "mine", type("Mine", (), {**members, "sample": lambda self, seed, step: Batch}))
    with pytest.raises(UsageError, match=r"memory mine \(Mine in .*\) lacks add, appended, can_sample, cut"):
        memories.get("mine")
    register(memories, "mine", type("Mine", (Replay,), {}))
    assert memories.get("mine").experiences == ("transition",)


class NoSize(keras.layers.Layer):
    def call(self, x):
        return x


class NoUnroll(NoSize):
    size = 3

    def initial_state(self, count):
        return tf.zeros([count, 3])


class Unbuilt(keras.layers.Layer):
    """Its layer is made, and is to be built when it is called first."""

    def __init__(self, size=3):
        super().__init__(name="torso")
        self.size, self.dense = size, keras.layers.Dense(3, name="dense")

    def call(self, x):
        return self.dense(x)


class Regularized(Unbuilt):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(3, name="dense", kernel_regularizer="l2")


class Broken(Unbuilt):
    def call(self, x):
        raise ValueError("no such thing")


def test_a_torsos_layers_are_built_before_anything_is_compiled(register):
    register(models, "mine", lambda model, inputs, initializers, name: Unbuilt())
    networks = [agent_of(seed=seed, **{"model.name": "mine"}).networks["network"] for seed in (0, 0, 1)]
    variables = [
        [each for each in made.trainable_variables if "torso/dense" in each.path] for made in networks
    ]
    assert [len(each) for each in variables] == [2, 2, 2]  # kernel and bias, known to the optimizer
    one, same, other = (each[0].numpy() for each in variables)  # the seed alone decides what Keras draws
    assert (one == same).all() and (one != other).all()


def test_a_torsos_regularizers_are_told_not_to_be_read(register, caplog):
    register(models, "mine", lambda model, inputs, initializers, name: Regularized())
    agent_of(**{"model.name": "mine"})
    assert "its Regularized has losses of its own (regularizers), which no algorithm adds" in caplog.text


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda: Unbuilt(size=4), r"makes \[1, 3\] of inputs \[1, \d+\], not \[1, size\] = \[1, 4\]"),
        (Broken, r"fails for inputs of shape \[1, \d+\]: ValueError: .*no such thing"),
        (NoSize, "its NoSize lacks size: see"),
        (NoUnroll, "its NoUnroll lacks unroll: see"),
        (object, "made a object, not a Keras layer"),
    ],
)
def test_a_torso_says_how_wide_it_is_and_one_with_memory_unrolls(register, made, words):
    register(models, "mine", lambda model, inputs, initializers, name: made())
    with pytest.raises(UsageError, match=f"model mine.*{words}"):
        agent_of(**{"model.name": "mine"})
