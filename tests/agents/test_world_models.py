"""World Models: what its losses reach, what is dreamt of models whose returns are known, its evolution."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from rl.errors import UsageError
from rl.ops import random
from rl.types import SequenceBatch

SEED = random.key(0)
SMALL = {
    **{"num_envs": 4, "rollout_length": 8, "unroll_length": 8, "batch_size": 4, "latents": 2},
    **{"memory_units": 4, "mixtures": 2, "population": 4, "dream_length": 3, "dream_period": 2},
}


@pytest.fixture
def agent_of(make_agent):
    return lambda **overrides: make_agent("world_models", **(SMALL | overrides))


def sequences(agent, make_rollout, **options):
    trajectory = make_rollout(agent, **options)
    return SequenceBatch(trajectory, tf.ones([4]), tf.range(4), tf.ones([4]))


def states(agent, count, value=0.1):
    return tf.nest.map_structure(lambda x: x + value, agent.network.start(count))


def dreamt(agent, *seeds):
    """Returns [4, 5] of dreams from 5 states, one for each seed."""
    dream = tf.function(agent.dream, autograph=False)
    found = [dream(states(agent, 5), seed).numpy() for seed in seeds]
    return found if len(found) > 1 else found[0]


def foresees(agent, reward, ends):
    """Lets M say, whatever it remembers: this reward, and the end by this logit."""
    layer = agent.heads.foreseen
    layer.kernel.assign(tf.zeros_like(layer.kernel))
    layer.bias.assign(tf.concat([layer.bias[:-2], [reward, ends]], 0))


def test_returns_of_dreams_count_what_follows_by_the_chance_to_get_there(agent_of):
    agent = agent_of()
    foresees(agent, 2.0, 0.0)  # an episode ends with probability 1/2
    agent.population.resample(SEED)
    # 2 + 2 / 2 + 2 / 4, of each of the 4 members from each of 5 states.
    np.testing.assert_allclose(dreamt(agent, SEED), np.full((4, 5), 3.5), rtol=1e-6)


def test_members_dream_with_the_same_noise(agent_of):
    agent = agent_of(perturbation_std=1e-9, dream_length=6)
    agent.controller.bias.assign([1.0, 0.0, 0.0])
    agent.population.resample(SEED)  # members that are alike
    returns, other = dreamt(agent, SEED, random.key(1))
    np.testing.assert_allclose(returns, np.repeat(returns[:1], 4, 0), rtol=1e-6)
    assert np.unique(returns[0].round(5)).size == 5  # and each state has other noise
    assert np.abs(other - returns).max() > 1e-4


def test_a_generation_finds_the_action_that_the_model_rewards(agent_of, make_rollout):
    """M remembers the last action, and foresees reward after the third one alone."""
    agent = agent_of(population=16, controller_lr=0.1, perturbation_std=0.5, dream_length=4)
    memory, units = agent.network.memory, 4
    kernel = np.zeros(memory.kernel.shape, np.float32)  # z, then the action's code; gates i, f, new, o
    kernel[2 + 2, 2 * units] = 3.0  # the third action is what is new
    memory.kernel.assign(kernel)
    memory.recurrent_kernel.assign(tf.zeros_like(memory.recurrent_kernel))
    bias = np.zeros(4 * units, np.float32)
    bias[units : 2 * units] = -20.0  # what was before is forgotten
    bias[:units] = bias[3 * units :] = 20.0
    memory.bias.assign(bias)
    foresees(agent, 0.0, -20.0)
    layer = agent.heads.foreseen
    column = layer.kernel.numpy()
    column[0, -2] = 1.0
    layer.kernel.assign(column)
    batch, step = sequences(agent, make_rollout), tf.function(agent.generation, autograph=False)
    found = [step(batch, random.key(i))["dream_return"].numpy() for i in range(30)]
    # tanh(tanh(3)) a step at best; chance chooses it in a third of the steps.
    best = 4.0 * np.tanh(np.tanh(3.0))
    assert found[0] < 0.7 * best and found[-1] > 0.95 * best
    z = states(agent, 20, 0.0)
    output = agent.policy(
        tf.constant(np.random.default_rng(0).normal(size=(20, 3)), tf.float32), z, SEED, True
    )
    assert (tf.argmax(output.q_values, -1).numpy() == 2).mean() > 0.9


def test_v_learns_nothing_from_what_m_cannot_foresee(agent_of, make_rollout):
    agent = agent_of()
    batch, gradients = sequences(agent, make_rollout), []
    for scale in (1.0, 3.0):
        layer = agent.heads.foreseen
        layer.kernel.assign(layer.kernel * scale)
        seeing = agent.network.torso.trainable_variables + agent.network.latent.trainable_variables
        with tf.GradientTape() as tape:
            loss, metrics, _ = agent.loss(batch, SEED)
        gradients.append(tape.gradient(loss, [each.value for each in seeing]))
        gradients[-1].append(metrics["latent_loss"])
    for one, other in zip(*gradients, strict=True):
        assert np.abs(one).max() > 0.0
        if one.shape.rank:
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    assert gradients[0][-1] != gradients[1][-1]


def test_its_losses_are_those_of_their_closed_forms(agent_of, make_rollout):
    """With all weights 0: z standard normal, every density standard normal, rewards 0, ends by half."""
    agent = agent_of()
    for each in agent.trained["network"]:
        each.assign(tf.zeros_like(each))
    batch = sequences(agent, make_rollout, ends=False)
    _, z, _, _ = agent.latents(batch, SEED)
    loss, metrics, _ = agent.loss(batch, SEED)
    t = batch.trajectory
    expected = {
        "kl": 0.0,
        "decoder_loss": 0.5 * np.square(t.observation).sum(-1).mean(),
        "latent_loss": (0.5 * np.square(z[1:]) + 0.9189385).sum(-1).mean(),
        "reward_loss": 0.5 * np.square(t.reward).mean(),
        "end_loss": np.log(2.0),
    }
    assert set(metrics) == set(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(metrics[name], value, rtol=1e-5, atol=1e-6, err_msg=name)
    np.testing.assert_allclose(tf.reduce_mean(loss), sum(expected.values()), rtol=1e-5)


def test_the_controller_moves_with_every_period_th_update_and_v_and_m_with_each(
    agent_of, make_rollout, snapshot
):
    agent = agent_of(lr=0.01)
    batch = sequences(agent, make_rollout)
    update = tf.function(agent.update, autograph=False)
    kept, norms = [snapshot(agent)], []
    for i in range(2):
        norms.append(update(batch, random.key(i)).metrics["controller_norm"].numpy())
        kept.append(snapshot(agent))
    controller = "network/controller/linear/kernel"
    assert controller in kept[0]
    np.testing.assert_array_equal(kept[1][controller], kept[0][controller])
    assert (kept[2][controller] != kept[1][controller]).all()
    for before, after in ((kept[0], kept[1]), (kept[1], kept[2])):
        names = [each for each in before if each.endswith("kernel") and "/controller/" not in each]
        moved = [each for each in names if each.startswith(("network/", "heads/"))]
        assert len(moved) == 7 and all((before[each] != after[each]).any() for each in moved)
    # Of means over the updates, that of the only generation is left.
    weights = [kept[2][f"network/controller/linear/{each}"].ravel() for each in ("kernel", "bias")]
    np.testing.assert_allclose(np.mean(norms), np.linalg.norm(np.concatenate(weights)), rtol=1e-5)


def test_no_dream_begins_where_an_episode_has_terminated(agent_of, make_rollout):
    agent = agent_of()
    generation = tf.function(agent.generation, autograph=False)
    batch = sequences(agent, make_rollout, ends=False)
    t = batch.trajectory
    last = tf.one_hot(8, 9)[:, None, None] * tf.one_hot(1, 4)[None, :, None]  # of the second sequence
    other = batch._replace(trajectory=t._replace(observation=t.observation + last))
    found = {}
    for ended in (False, True):
        flags = tf.cast(tf.one_hot(7, 8)[:, None] * tf.one_hot(1, 4)[None] * float(ended), tf.bool)
        for name, each in (("as it was", batch), ("changed", other)):
            each = each._replace(trajectory=each.trajectory._replace(terminated=flags))
            found[ended, name] = generation(each, SEED)["dream_return"].numpy()
            for variable in agent.controller.trainable_variables:
                variable.assign(tf.zeros_like(variable))
    assert found[False, "as it was"] != found[False, "changed"]
    assert found[True, "as it was"] == found[True, "changed"]


def test_what_fills_a_sequence_up_beyond_its_episode_is_not_learned_from(
    agent_of, make_rollout, losses_of_filled
):
    agent = agent_of()
    unchanged, beyond, last = losses_of_filled(agent, sequences(agent, make_rollout, ends=False), SEED)
    np.testing.assert_allclose(beyond, unchanged, rtol=1e-6)
    assert np.all(np.abs(last - unchanged) > 1e-4)


def test_acting_remembers_what_is_learned_from(agent_of, make_rollout):
    """The memory while acting, which sees means, is that of the unrolled sequence of the same z."""
    agent = agent_of()
    t = make_rollout(agent, ends=False)
    state, z = t.recurrent_state, []
    for i in range(8):
        state = agent.policy(t.observation[i], state, SEED, False).recurrent_state
        z.append(state["z"])
        state = agent.carried(state, t.action[i])
    batch = SequenceBatch(t, *[tf.ones([4])] * 3)
    outputs, (h, c) = agent.remembered_along(batch, tf.stack([*z, z[-1]]))
    np.testing.assert_allclose(h, state["h"], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(c, state["c"], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(outputs[-1], state["h"], rtol=1e-5, atol=1e-6)


def test_what_does_not_fit_is_refused(agent_of):
    with pytest.raises(UsageError, match="world_models remembers by a model of its own"):
        agent_of(**{"model.name": "lstm"})
    with pytest.raises(UsageError, match="rollout_length=9 is above unroll_length=8"):
        agent_of(rollout_length=9)
    with pytest.raises(UsageError, match="population=5: it is of mirrored pairs"):
        agent_of(population=5)
    with pytest.raises(UsageError, match="grad_comp=evolution: what sees and foresees"):
        agent_of(grad_comp="evolution")
    masked = spaces.Dict({"number": spaces.Box(-1.0, 1.0, (3,)), "action_mask": spaces.MultiBinary(3)})
    with pytest.raises(UsageError, match="does not dream of which actions are legal: take dreamer"):
        agent_of(observation_space=masked)
