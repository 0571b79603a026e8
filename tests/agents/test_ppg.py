"""PPG: its joint loss by hand, when its phases come and what they see, and what it shares with PPO."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from rl.agents.algos.ppg import PPG, States
from rl.errors import UsageError
from rl.hparams.merge import resolve
from rl.ops import loops, random

SEED = random.key(0)
IN_COMMON = {
    "num_envs": 4,
    "rollout_length": 8,
    "lr": 0.01,
    "lr_schedule": "constant",
    "minibatches": 2,
    "epochs": 1,
    "value_coef": 0.7,
    "entropy_coef": 0.02,
}
SMALL = IN_COMMON | {"value_epochs": 1}
PHASE = {"policy_iterations": 3, "aux_epochs": 2, "aux_minibatches": 4}  # of 96 states, 8 updates
CONTINUOUS = spaces.Box(-1.0, 1.0, (1,), np.float32)
BOX = spaces.Box(-5.0, 5.0, (3,), np.float32)  # of observations


def said(agent, parameters, value, auxiliary):
    """The agent, whose network says these in every state."""
    network = agent.network
    for head, outputs in (
        (network.policy, parameters),
        (network.value, value),
        (network.auxiliary, auxiliary),
    ):
        head.kernel.assign(tf.zeros_like(head.kernel))
        head.bias.assign(outputs)
    return agent


def of_network(name):
    return name.startswith("network/")


def weights(agent):
    return {name: each.numpy() for name, each in agent.variables.items() if of_network(name)}


class Phasic:
    """An agent with phases of three rollouts, whose `learn` is compiled and notes the auxiliary batches.

    Attributes:
        seen: (observation, target, mask, old policy) of each, numpy.
        before: weights before the first of them.
    """

    def __init__(self):
        hparams = resolve("ppg", {"env": "Test-v0", "model.hidden": (8,), **SMALL, **PHASE})
        self.agent, self.seen, self.before = PPG(hparams, BOX, spaces.Discrete(3), 0), [], {}
        self._start, self._step = snapshot(self.agent), self.agent.gradient_step
        self.agent.gradient_step = self._noted
        self.learn = tf.function(self.agent.learn, autograph=False)

    def _noted(self, part, seed, name="network", *rest, **options):
        if name == "auxiliary":
            now = {
                name: tf.convert_to_tensor(x) for name, x in self.agent.variables.items() if of_network(name)
            }
            tf.py_function(
                lambda *leaves: self._note(now, leaves), [*now.values(), *tf.nest.flatten(part)], []
            )
        return self._step(part, seed, name, *rest, **options)

    def _note(self, names, leaves):
        values = [each.numpy() for each in leaves]
        self.before = self.before or dict(zip(names, values, strict=False))
        self.seen.append(values[len(names) :])

    @property
    def phases(self):
        """Auxiliary phases so far."""
        return int(self.agent.optimizers["auxiliary"].iterations.numpy()) / 8

    def begin(self):
        """Restarts it, and returns it."""
        for name, value in self._start.items():
            self.agent.variables[name].assign(value)
        self.seen.clear()
        self.before = {}
        return self


@pytest.fixture(scope="module")
def phasic():
    return Phasic()


def snapshot(agent):
    return {name: each.numpy() for name, each in agent.variables.items()}


@pytest.mark.parametrize(
    ("space", "new", "old", "kl"),
    [
        # Half and half to a quarter and three: ln(2) / 2 + ln(2 / 3) / 2. The other way round it is 0.1308.
        (spaces.Discrete(2), np.log([0.25, 0.75]), ([np.log([0.5, 0.5])] * 3, ()), 0.143841),
        # N(0, 2^2) to N(1, 4^2): ln(4 / 2) + (4 + 1) / (2 * 16) - 1/2. The other way round it is 0.9319.
        (CONTINUOUS, [1.0], ([[0.0]] * 3, [[np.log(2.0)]] * 3), 0.349397),
    ],
    ids=["discrete", "continuous"],
)
def test_the_joint_loss_is_what_it_is_by_hand(make_agent, space, new, old, kl):
    agent = make_agent("ppg", action_space=space, beta_clone=2.0, log_std_init=np.log(4.0), **SMALL)
    said(agent, new, [2.0], [1.0])
    old = tf.nest.map_structure(lambda x: tf.constant(x, tf.float32), old)
    batch = States(tf.ones([3, 3]), tf.constant([3.0, 3.0, 9.0]), tf.constant([1.0, 1.0, 0.0]), old)
    loss, metrics, _ = agent.auxiliary_loss(batch, SEED)
    # The second head's (3 - 1)^2 / 2, twice the divergence, the value's (3 - 2)^2 / 2; the last is masked.
    np.testing.assert_allclose(loss, [2.5 + 2 * kl, 2.5 + 2 * kl, 0.0], rtol=1e-5)
    found = [float(metrics[name]) for name in ("value_loss", "kl", "true_value_loss")]
    np.testing.assert_allclose(found, [2.0, kl, 0.5], rtol=1e-5)


def test_a_phase_follows_every_third_rollout_and_no_other(phasic, make_rollout):
    made, told = [], []
    rollout = make_rollout(phasic.begin().agent)
    for i in range(7):
        metrics = phasic.learn(rollout, random.key(i)).metrics
        made.append(phasic.phases)
        told.append(float(metrics["aux_kl"].value) != loops.NONE)
        assert metrics["updates"] == 2  # of the policy
    assert made == [0, 0, 1, 1, 1, 2, 2]
    assert told == [False, False, True, False, False, True, False]


def test_a_phase_sees_all_states_with_their_targets_and_the_policy_from_before_it(phasic, make_rollout):
    phasic.begin()
    agent, shown = phasic.agent, []
    for i in range(6):  # two phases: rows of the first one are overwritten
        rollout = make_rollout(agent, seed=i)
        shown.append(agent._advantages(rollout))
        if i == 3:
            phasic.seen.clear()
            phasic.before = {}
        phasic.learn(rollout, random.key(i))
    assert len(phasic.seen) == 8 and {len(part[0]) for part in phasic.seen} == {24}

    def rows(batches):
        """Observation, target and mask of each state, in the order of observations."""
        table = np.concatenate([np.column_stack(each) for each in batches])
        return table[np.argsort(table[:, 0])]

    expected = rows([(each.observation, each.target, each.mask) for each in shown[3:]])
    assert 0 < expected[:, -1].sum() < 96
    for epoch in (phasic.seen[:4], phasic.seen[4:]):
        np.testing.assert_allclose(rows([each[:3] for each in epoch]), expected, rtol=1e-5, atol=1e-6)
    assert not np.array_equal(phasic.seen[0][1], phasic.seen[4][1])  # in another order

    after = weights(agent)
    assert all((after[name] != x).any() for name, x in phasic.before.items() if name.endswith("kernel"))
    for name, value in phasic.before.items():
        agent.variables[name].assign(value)
    for observation, _, _, old in phasic.seen:
        np.testing.assert_allclose(old, agent.network(observation).parameters, rtol=1e-5, atol=1e-6)


def test_the_deviation_belongs_to_the_policy_from_before(make_agent, make_rollout):
    agent = make_agent("ppg", action_space=CONTINUOUS, **SMALL, **PHASE)
    agent.store(agent._advantages(make_rollout(agent)))
    agent.network.log_std.assign([0.7])
    mean, log_std = agent.present_policy()
    output = agent.network(agent.stored.observation)
    np.testing.assert_allclose(mean, output.parameters, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(log_std, np.full([96, 1], 0.7), rtol=1e-6)


def test_between_phases_it_is_ppo(phasic, make_agent, make_rollout):
    phasic.begin()
    ppo = make_agent("ppo", **IN_COMMON)
    learn = tf.function(ppo.learn, autograph=False)
    for i in range(3):
        found, expected = weights(phasic.agent), weights(ppo)
        assert found.keys() - expected.keys() == {"network/auxiliary/kernel", "network/auxiliary/bias"}
        for name, value in expected.items():
            np.testing.assert_array_equal(found[name], value, err_msg=name)
        rollout = make_rollout(ppo, seed=i)
        one, other = (each(rollout, random.key(i)).metrics for each in (learn, phasic.learn))
        assert {name: float(other[name]) for name in one} == {name: float(x) for name, x in one.items()}
    found = weights(phasic.agent)
    assert all((found[name] != value).any() for name, value in weights(ppo).items())  # after the phase


def test_it_goes_on_in_the_middle_of_a_phase(phasic, make_rollout):
    phasic.begin()
    agent, rollouts = phasic.agent, [make_rollout(phasic.agent, seed=i) for i in range(3)]
    for i in range(2):
        phasic.learn(rollouts[i], random.key(i))
    middle, found = snapshot(agent), []
    for kept in (True, True, False):
        phasic.begin()
        for name, value in middle.items():
            if kept or not name.startswith("memory/"):
                agent.variables[name].assign(value)
        phasic.learn(rollouts[2], random.key(2))
        assert phasic.phases == 1
        found.append(snapshot(agent))
    first, again, without = found
    for name, value in first.items():
        np.testing.assert_array_equal(again[name], value, err_msg=name)
    assert any((without[name] != value).any() for name, value in first.items() if of_network(name))


def test_a_rollout_of_nan_is_in_no_phase(phasic, make_rollout):
    agent, found = phasic.begin().agent, []
    rollouts = [make_rollout(agent, seed=i) for i in range(3)]
    bad = rollouts[0]._replace(reward=rollouts[0].reward * np.nan)
    for shown in (rollouts, [*rollouts[:2], bad, rollouts[2]]):
        phasic.begin()
        skipped = agent.guard.skipped
        for each in shown:
            phasic.learn(each, SEED)
        assert phasic.phases == 1 and agent.guard.skipped - skipped == len(shown) - 3
        found.append(weights(agent))
    for name, value in found[0].items():
        np.testing.assert_array_equal(found[1][name], value, err_msg=name)


def test_further_passes_of_the_value_are_those_of_a_ppo_of_as_many_and_leave_the_policy(
    make_agent, make_rollout
):
    # Policy and value have no weight in common, and plain gradient steps no memory.
    settings = IN_COMMON | {"optimizer": "sgd", "max_grad_norm": None, "minibatches": 1, "lr": 0.1}
    of_policy = make_agent("ppo", **settings)
    of_value = make_agent("ppo", **settings | {"epochs": 3})
    agent = make_agent("ppg", **settings | {"value_epochs": 3})
    rollout = make_rollout(agent)
    for each in (of_policy, of_value, agent):
        each.update(rollout, SEED)
    one, three = weights(of_policy), weights(of_value)
    for name, value in weights(agent).items():
        if "auxiliary" not in name:
            expected, other = (three, one) if "value" in name else (one, three)
            np.testing.assert_allclose(value, expected[name], rtol=1e-5, atol=1e-7, err_msg=name)
            assert np.abs(value - other[name]).max() > 1e-5, name


def test_one_network_learns_of_values_in_the_auxiliary_phase_alone(make_agent, make_rollout):
    settings = SMALL | {"model.shared": True, "policy_iterations": 3, "aux_minibatches": 1}
    torso = "network/torso/dense_0/kernel"
    found = {}
    for value_coef in (0.5, 5.0):
        agent = make_agent("ppg", **settings | {"value_coef": value_coef})
        data = agent._advantages(make_rollout(agent))
        with tf.GradientTape() as tape:
            loss = agent.loss(data, SEED)[0]
        sources = [agent.variables[name].value for name in (torso, "network/value/kernel")]
        found[value_coef] = [each.numpy() for each in tape.gradient(loss, sources)]
    np.testing.assert_array_equal(found[0.5][0], found[5.0][0])
    np.testing.assert_allclose(10 * found[0.5][1], found[5.0][1], rtol=1e-5)
    states = States(
        data.observation, data.target, data.mask, (agent.network(data.observation).parameters, ())
    )
    with tf.GradientTape() as tape:
        loss = agent.auxiliary_loss(states, SEED)[0]  # whose divergence is least, of gradient 0
    assert np.abs(tape.gradient(loss, sources[0])).max() > 1e-4


@pytest.mark.slow
def test_a_phase_teaches_the_policys_layers_values_and_the_clone_holds_the_policy(make_agent, make_rollout):
    def after(beta_clone):
        agent = make_agent("ppg", **SMALL | PHASE | {"aux_epochs": 30, "beta_clone": beta_clone, "lr": 0.03})
        agent.network.policy.kernel.assign(agent.network.policy.kernel * 100.0)  # far from uniform
        for i in range(3):
            agent.store(agent._advantages(make_rollout(agent, seed=i, ends=False)))
        agent.stored.target.assign(tf.reduce_sum(agent.stored.observation, -1))
        metrics = tf.function(agent.auxiliary_phase, autograph=False)(SEED)
        error = agent.network(agent.stored.observation).auxiliary_value - agent.stored.target
        return float(metrics["aux_kl"].value), np.mean(np.square(error)) / np.var(agent.stored.target)

    (free, _), (held, unexplained) = after(0.0), after(10.0)
    assert held < 0.1 * free and unexplained < 0.3


def test_weights_decay_by_the_steps_of_the_policy_phase_alone(make_agent):
    agent = make_agent("ppg", optimizer="adamw", weight_decay=0.5, **SMALL)
    variables = agent.network.trainable_variables
    zeros, before = [tf.zeros(each.shape) for each in variables], weights(agent)
    agent.optimizers["auxiliary"].apply(zeros, variables)
    for name, value in weights(agent).items():
        np.testing.assert_array_equal(value, before[name], err_msg=name)
    agent.optimizers["network"].apply(zeros, variables)
    name = "network/auxiliary/kernel"
    np.testing.assert_allclose(weights(agent)[name], before[name] * (1 - 0.01 * 0.5), rtol=1e-6)


@pytest.mark.parametrize(
    ("overrides", "what"),
    [
        ({"epochs": 2}, "value_epochs=1 is below epochs=2"),
        ({"aux_minibatches": 7}, "aux_minibatches=7 does not divide policy_iterations .*: change one of"),
        ({"minibatches": 7}, "minibatches=7 does not divide"),
        ({"aux_epochs": 0}, "aux_epochs"),
    ],
)
def test_settings_that_do_not_fit_are_one_clear_line(overrides, what):
    with pytest.raises(UsageError, match=what):
        resolve("ppg", {"env": "Test-v0", "epochs": 1, "value_epochs": 1} | overrides).check()


def test_models_that_keep_state_are_refused_in_a_line(make_agent):
    with pytest.raises(UsageError, match="ppg cannot learn with model lstm, which keeps state"):
        make_agent("ppg", **{"model.name": "lstm"})
