"""DreamerV3: where gradients go, how states are carried and begin anew, what is imagined."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from marked import few

from rl.errors import UsageError
from rl.ops import random
from rl.types import SequenceBatch

SMALL = dict(deter=8, groups=2, classes=3, units=8, bins=11, bin_limit=5.0, horizon=3, batch_size=4,
             unroll_length=8, rollout_length=8, num_envs=4, compile="eager")  # fmt: skip
SEED = random.key(3)
BOX = spaces.Box(-2.0, 4.0, (2,), np.float32)


@pytest.fixture
def agent_of(make_agent):
    return lambda **overrides: make_agent("dreamer", **(SMALL | overrides))


def say(head, bin):
    """Lets a head give all weight to one of its 11 bins, of the symlogs -5 to 5."""
    head.out.kernel.assign(tf.zeros_like(head.out.kernel))
    head.out.bias.assign(1e3 * tf.one_hot(bin, 11))


def sequences(agent, make_rollout, **options):
    trajectory = make_rollout(agent, **options)
    ones = tf.ones([trajectory.reward.shape[1]])
    return SequenceBatch(trajectory, ones, tf.range(ones.shape[0]), ones)


def reached(agent, loss, tape):
    """Which networks, and parts of `network`, have a gradient that is not 0."""
    owned = [(name, each) for name, net in agent.networks.items() for each in net.trainable_variables]
    gradients = tape.gradient(loss, [each.value for _, each in owned])
    found = set()
    for (name, variable), gradient in zip(owned, gradients, strict=True):
        if gradient is not None and np.any(gradient):
            part = variable.path.removeprefix("network/").split("/")[0]
            found.add(part if name == "network" else name)
    return found


@pytest.mark.parametrize("action_space", few([None, BOX], [BOX]), ids=["discrete", "box"])
def test_what_is_imagined_teaches_actor_and_critic_alone(agent_of, make_rollout, action_space):
    agent = agent_of(**({} if action_space is None else {"action_space": action_space}))
    # Zeros in the last layer of the critic would leave nothing to see.
    agent.critic.head.out.kernel.assign(tf.ones_like(agent.critic.head.out.kernel) * np.linspace(-1, 1, 11))
    batch = sequences(agent, make_rollout)
    with tf.GradientTape(persistent=True) as tape:
        observed, loss, _ = agent.model_loss(batch, SEED)
        behaviour, imagined, _ = agent.behaviour_loss(batch, observed.features, SEED)
        replayed = agent.replayed_value_loss(batch.trajectory, observed.features, imagined)
    assert loss.shape == behaviour.shape == replayed.shape == (4,)
    assert reached(agent, behaviour, tape) == {"actor", "critic"}
    assert reached(agent, loss, tape) == {"torso", "rssm", "heads"}
    assert reached(agent, replayed, tape) == {"torso", "rssm", "critic"}


def test_an_update_moves_what_learns_and_the_slow_critic_after_it(agent_of, make_rollout, snapshot):
    agent = agent_of(slow_critic_tau=0.5, lr=0.01)
    batch, before = sequences(agent, make_rollout), snapshot(agent)
    metrics = agent.update(batch, SEED).metrics
    after = snapshot(agent)
    assert all(np.isfinite(value) for value in metrics.values())
    moved = {name.split("/")[0] for name in before if (before[name] != after[name]).any()}
    assert moved == {"network", "heads", "critic", "target_critic", "optimizer"}
    kernel = "target_critic/value/out/kernel"
    learned = after[kernel.replace("target_critic", "critic")]
    np.testing.assert_allclose(after[kernel], (before[kernel] + learned) / 2, rtol=1e-6)


def test_the_range_of_returns_follows_and_counts_where_it_is_above_one(agent_of):
    agent = agent_of()
    for low, high, scale in ((0.0, 0.5, 1.0), (-1.0, 3.0, 4.0)):
        agent.return_range.assign([low, high])
        assert agent.return_scale() == scale


def test_the_observed_state_begins_anew_with_each_episode(agent_of, make_rollout):
    """After the autoreset row, states are those of a sequence that begins there, whatever was before."""
    agent = agent_of()
    t = make_rollout(agent)
    ended = int(np.argmin(t.mask.numpy()[:, 0]))  # the autoreset row of the first environment
    assert t.mask[ended, 0] == 0.0
    noise = tf.constant(np.random.default_rng(0).gumbel(size=(9, 4, 6)), tf.float32)
    rssm = agent.network.rssm
    embedding = tf.random.stateless_normal([9, 4, agent.network.torso.size], SEED)
    action = tf.random.stateless_normal([9, 4, 3], SEED)
    alive = tf.concat([tf.ones([1, 4]), t.mask], 0)
    state = tf.ones([4, 8]), tf.ones([4, 6])
    found = rssm.observe(embedding, action, alive, state, noise).features[ended + 1 :, :1]
    rest = [x[ended + 1 :, :1] for x in (embedding, action, alive, noise)]
    zeros = tf.zeros([1, 8]), tf.zeros([1, 6])
    alone = rssm.observe(rest[0], rest[1], rest[2], zeros, rest[3]).features
    np.testing.assert_allclose(found, alone, rtol=1e-5, atol=1e-6)
    other = rssm.observe(embedding, action, tf.ones_like(alive), state, noise).features[ended + 1 :, :1]
    assert np.abs(other - found).max() > 1e-3


def test_acting_goes_through_the_states_that_are_learned_from(agent_of, make_rollout):
    """h of the acting states, whose latents are the likeliest ones, is that of the unrolled sequence."""
    agent = agent_of()
    t = make_rollout(agent, ends=False)
    state = t.recurrent_state
    for i in range(8):
        state = {
            **state,
            "action": state["action"] if i == 0 else agent.actions.clipped_code(t.action[i - 1]),
        }
        _, state = agent.network.step(t.observation[i], state, tf.zeros([4, 6]))
    network, codes = agent.network, tf.one_hot(t.action, 3)
    target = network.target(tf.reshape(t.observation, [36, 3]))
    embedding = tf.reshape(network.torso(target), [9, 4, -1])
    action = tf.concat([t.recurrent_state["action"][None], codes], 0)
    before = t.recurrent_state["deter"], t.recurrent_state["stoch"]
    observed = network.rssm.observe(embedding, action, tf.ones([9, 4]), before, tf.zeros([9, 4, 6]))
    np.testing.assert_allclose(observed.features[7, :, :8], state["deter"], rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(observed.features[7, :, 8:], state["stoch"])


def test_the_state_holds_the_action_that_was_chosen_within_its_bounds(agent_of):
    for options in ({}, {"action_space": BOX}):
        agent = agent_of(**options)
        state = agent.initial_state(5)
        assert all(not np.any(x) for x in tf.nest.flatten(state))
        arguments = tf.ones([5, 3]), state, SEED, tf.constant(0, tf.int64), True
        action, _, state = agent.act(*arguments)
        found = state["network"]["action"]
        if options:  # low -2 is -1, high 4 is 1
            expected = np.clip((action + 2.0) / 3.0 - 1.0, -1.0, 1.0)
            np.testing.assert_allclose(found, expected, atol=1e-6)
        else:
            np.testing.assert_array_equal(found, tf.one_hot(action, 3))


def test_imagination_begins_in_every_state(agent_of, make_rollout):
    agent = agent_of()
    batch = sequences(agent, make_rollout)
    observed, _, _ = agent.model_loss(batch, SEED)
    states, codes = agent.imagine(observed.features, SEED)
    assert states.shape == (4, 36, 14) and codes.shape == (3, 36, 3)
    np.testing.assert_array_equal(states[0], tf.reshape(observed.features, [36, 14]))
    np.testing.assert_array_equal(tf.reduce_sum(codes, -1), tf.ones([3, 36]))
    # One step on: h by the model, z a one-hot row of each variable.
    deter = agent.network.rssm.forward(states[0][:, :8], states[0][:, 8:], codes[0])
    np.testing.assert_allclose(states[1][:, :8], deter, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(
        tf.reduce_sum(tf.reshape(states[1][:, 8:], [36, 2, 3]), -1), tf.ones([36, 2])
    )


def test_the_loss_of_actor_and_critic_by_hand(agent_of, make_rollout):
    """Rewards e - 1, discounts 0.8 / 2, values 0, 3 actions alike: returns 1.718282 (1 + 0.4 / 2) = 2.061938
    and 1.718282, which count 1 and 0.4. The actor's loss is the mean of (2.061938 / 4 - 0.1) ln 3 = 0.456456
    and 0.4 (1.718282 / 4 - 0.1) ln 3 = 0.144828, the critic's that of 2 ln 11 and 0.4 * 2 ln 11."""
    agent = agent_of(horizon=2, gamma=0.8, gae_lambda=0.5, entropy_coef=0.1)
    say(agent.heads.reward, 6)
    for head in (agent.heads.goes_on, agent.network.actor):
        head.out.kernel.assign(tf.zeros_like(head.out.kernel))
    agent.return_range.assign([0.0, 4.0])
    batch = sequences(agent, make_rollout, steps=2, batch=3, ends=False)
    loss, imagined, metrics = agent.behaviour_loss(batch, tf.zeros([3, 3, 14]), SEED)
    np.testing.assert_allclose(metrics["policy_loss"], 0.300642, rtol=1e-5)
    np.testing.assert_allclose(metrics["value_loss"], 3.357054, rtol=1e-5)
    np.testing.assert_allclose(loss, [3.657696] * 3, rtol=1e-5)
    np.testing.assert_allclose(imagined, np.full((3, 3), 2.061938), rtol=1e-5)
    found = metrics["return_low"], metrics["return_high"]
    np.testing.assert_allclose(found, [1.718282, 2.061938], rtol=1e-5)


def test_the_critic_learns_its_target_and_what_the_slow_critic_says(agent_of):
    """Its chances are 10 in 20 for the slow critic's bin, 6, and 1 in 20 for the target's: ln 2 + ln 20."""
    agent = agent_of()
    say(agent.slow_critic.head, 6)
    logits = np.log(10.0) * tf.one_hot([[6]], 11)
    found = agent.value_loss(tf.zeros([1, 1, 14]), logits, tf.zeros([1, 1]))
    np.testing.assert_allclose(found, [[3.688879]], rtol=1e-5)


def test_the_prior_learns_with_the_weight_of_the_dynamics_alone(agent_of, make_rollout):
    for other, learns in (("representation_coef", True), ("dynamics_coef", False)):
        agent = agent_of(free_nats=0.0, **{other: 0.0})
        batch = sequences(agent, make_rollout, steps=2, batch=2, ends=False)
        with tf.GradientTape() as tape:
            loss = agent.model_loss(batch, SEED)[1]
        assert np.any(tape.gradient(loss, agent.network.rssm.prior_out.kernel.value)) == learns


@pytest.mark.parametrize(
    ("terminated", "expected"), [(True, [10.9, 2.0, 48.0]), (False, [23.05, 29.0, 48.0])]
)
def test_returns_of_replayed_steps_end_with_the_episode_and_have_imagined_values(
    agent_of, make_rollout, terminated, expected
):
    """By hand: 48 = 3 + 0.9 * 50, 29 = 2 + 0.9 * 30, 23.05 = 1 + 0.9 (20 + 29) / 2, 10.9 with 2 for 29."""
    agent = agent_of(gamma=0.9, gae_lambda=0.5)
    ends = tf.constant([[False], [True], [False], [False]])
    trajectory = make_rollout(agent)._replace(
        reward=tf.constant([[1.0], [2.0], [0.0], [3.0]]),
        terminated=tf.logical_and(ends, terminated),
        truncated=tf.logical_and(ends, not terminated),
        mask=tf.constant([[1.0], [1.0], [0.0], [1.0]]),  # the third is an autoreset
    )
    found = agent.replayed_return(trajectory, tf.constant([[10.0], [20.0], [30.0], [40.0], [50.0]]))
    np.testing.assert_allclose(found.numpy()[[0, 1, 3], 0], expected, rtol=1e-6)


def test_ended_episodes_are_no_beginnings(agent_of, make_rollout):
    """The actor learns nothing from what it would imagine after a last observation."""
    agent = agent_of()
    batch = sequences(agent, make_rollout)
    features = tf.random.stateless_normal([9, 4, 14], SEED)
    ended = int(np.argmin(batch.trajectory.mask.numpy()[:, 0]))  # observation[ended] is the episode's last
    losses = []
    for size in (0.0, 1.0):
        change = tf.one_hot(ended, 9)[:, None, None] * tf.one_hot(0, 4)[None, :, None] * size
        losses.append(agent.behaviour_loss(batch, features + change, SEED)[0].numpy())
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-6)
    change = tf.one_hot(ended - 1, 9)[:, None, None] * tf.one_hot(0, 4)[None, :, None]
    other = agent.behaviour_loss(batch, features + change, SEED)[0].numpy()
    assert other[0] != losses[0][0] and other[1] == losses[0][1]


def test_empty_slots_and_masked_steps_have_no_influence_by_their_rewards(agent_of, make_rollout):
    agent = agent_of()
    batch = sequences(agent, make_rollout)
    batch = batch._replace(mask=tf.constant([1.0, 1.0, 1.0, 0.0]))
    t = batch.trajectory
    other = t._replace(reward=t.reward + 3.0 * (1.0 - t.mask))
    one, two = (agent.loss(batch._replace(trajectory=each), SEED)[0].numpy() for each in (t, other))
    np.testing.assert_array_equal(one, two)
    assert one[3] == 0.0 and one[:3].all()


def test_what_fills_a_sequence_up_beyond_its_episode_is_not_learned_from(
    agent_of, make_rollout, losses_of_filled
):
    agent = agent_of()
    unchanged, beyond, last = losses_of_filled(agent, sequences(agent, make_rollout, ends=False), SEED)
    np.testing.assert_allclose(beyond, unchanged, rtol=1e-6)
    assert np.all(np.abs(last - unchanged) > 1e-4)


def test_models_that_keep_state_and_long_rollouts_are_refused(agent_of):
    with pytest.raises(UsageError, match="dreamer remembers by a model of its own"):
        agent_of(**{"model.name": "lstm"})
    with pytest.raises(UsageError, match="rollout_length=9 is above unroll_length=8"):
        agent_of(rollout_length=9)
    with pytest.raises(UsageError, match="MultiBinary"):
        agent_of(action_space=spaces.MultiBinary(3))
    with pytest.raises(UsageError, match="dreamer squashes its actions"):
        agent_of(action_space=spaces.Box(-np.inf, np.inf, (1,)))


def test_evaluations_draw_latents_and_take_the_policys_mode(agent_of):
    agent = agent_of()
    weights = agent.network.actor.out.kernel
    weights.assign(50.0 * tf.random.stateless_normal(weights.shape, SEED))
    now = tf.ones([400, 3]), agent.initial_state(400), SEED, tf.constant(0, tf.int64), False
    action, _, after = agent.act(*now)
    np.testing.assert_array_equal(agent.act(*now)[0], action)
    chosen = {}
    for latents, each in zip(after["network"]["stoch"].numpy(), action.numpy(), strict=True):
        chosen.setdefault(latents.tobytes(), set()).add(int(each))
    assert len(chosen) > 1 and all(len(actions) == 1 for actions in chosen.values())
