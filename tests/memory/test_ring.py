"""The ring storage: what is written where, and n-step transitions against literal numbers (gamma 0.5)."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
import tensorflow as tf

from rl.errors import UsageError
from rl.memory.replay import Replay
from rl.memory.ring import Ring
from rl.spaces import space_spec
from rl.types import Trajectory

from .conftest import make_hparams, make_spec, random_rows, rows, split_rows


def replay(n_step: int, capacity: int = 12, num_envs: int = 1) -> Replay:
    return Replay(make_spec(num_envs), make_hparams(n_step=n_step, replay_capacity=capacity))


def transition(memory: Replay, place: int) -> tuple[float, float, float, int, float]:
    """(observation, reward, discount, action, next_observation) of one place."""
    one = tf.ones([1])
    batch = memory.transitions(tf.constant([place]), one, one)
    return (
        float(batch.observation[0, 0]),
        float(batch.reward[0]),
        float(batch.discount[0]),
        int(batch.action[0]),
        float(batch.next_observation[0, 0]),
    )


def test_one_step_transitions() -> None:
    memory = replay(n_step=1)
    memory.add(rows(10, "..T"))
    memory.add(rows(13, "rC"))
    memory.add(rows(15, "r."))
    assert transition(memory, 0) == (10, 10, 0.5, 10, 11)
    assert transition(memory, 2) == (12, 12, 0.0, 12, 13)  # terminated: no bootstrap
    assert transition(memory, 4) == (14, 14, 0.5, 14, 15)  # truncated: bootstraps from the true successor


def test_three_step_transitions() -> None:
    memory = replay(n_step=3)
    memory.add(rows(1, "...."))
    memory.add(rows(5, "Tr.C"))
    memory.add(rows(9, "r..."))
    assert transition(memory, 0) == (1, 1 + 2 / 2 + 3 / 4, 0.125, 1, 4)
    assert transition(memory, 2) == (3, 3 + 4 / 2 + 5 / 4, 0.0, 3, 6)  # terminates on the third step
    assert transition(memory, 3) == (4, 4 + 5 / 2, 0.0, 4, 6)  # terminates on the second
    assert transition(memory, 4) == (5, 5, 0.0, 5, 6)
    # Truncated after two steps: gamma^2, and nothing from past the cut.
    assert transition(memory, 6) == (7, 7 + 8 / 2, 0.25, 7, 9)
    assert transition(memory, 7) == (8, 8, 0.5, 8, 9)


def test_transitions_across_the_end_of_the_ring() -> None:
    for n_step, expected in ((1, (12, 12, 0.5, 12, 13)), (3, (12, 12 + 13 / 2 + 14 / 4, 0.125, 12, 15))):
        memory = replay(n_step)
        for first in range(1, 17, 4):
            memory.add(rows(first, "...."))
        assert int(memory.ring.position) == 4
        assert transition(memory, 11) == expected


def test_rows_wrap_although_the_ring_is_no_multiple(compiled) -> None:
    ring = Ring(make_spec(), 7)
    add = compiled(lambda trajectory: ring.add(trajectory))
    for first in range(0, 20, 5):
        add(rows(first, "....."))
    np.testing.assert_array_equal(ring.variables["observation"].numpy()[:, 0], [14, 15, 16, 17, 18, 19, 13])
    assert (int(ring.position), int(ring.filled)) == (6, 7)
    ring.check_valid()


@pytest.mark.parametrize("lengths", [[1] * 20, [3] * 6 + [2], [8, 1, 8, 3]])
def test_blocks_equal_single_rows(lengths: list[int]) -> None:
    trajectory = random_rows(np.random.default_rng(1), 20, 3)
    whole, parts = Ring(make_spec(3), 8), Ring(make_spec(3), 8)
    for part in split_rows(trajectory, [8, 8, 4]):
        whole.add(part)
    for part in split_rows(trajectory, lengths):
        parts.add(part)
    for name, variable in whole.variables.items():
        np.testing.assert_array_equal(variable.numpy(), parts.variables[name].numpy(), err_msg=name)
    parts.check_valid()


def test_nested_observations_and_actions_keep_structure_and_dtype(compiled) -> None:
    spaces = gymnasium.spaces
    observation_space = spaces.Dict(
        {
            "z": spaces.Box(0, 255, [2, 2], np.uint8),
            "a": spaces.Tuple([spaces.Discrete(5), spaces.Box(0, 1, [3], np.int8)]),
        }
    )
    spec = make_spec(2, observation_space=observation_space)
    spec = spec._replace(action_space=spaces.Tuple([spaces.Discrete(3), spaces.Box(-1, 1, [2])]))
    memory = Replay(spec, make_hparams(replay_capacity=12))
    step = np.arange(4)[:, None] * 10 + np.arange(2)  # [T+1, B]
    trajectory = Trajectory(
        observation={
            "z": tf.constant(np.broadcast_to(step[..., None, None] + 200, [4, 2, 2, 2]), tf.uint8),
            "a": (tf.constant(step), tf.constant(np.broadcast_to(step[..., None] % 2, [4, 2, 3]), tf.int8)),
        },
        action=(
            tf.constant(step[:3]),
            tf.constant(np.broadcast_to(step[:3, :, None] / 100, [3, 2, 2]), tf.float32),
        ),
        reward=tf.zeros([3, 2]),
        terminated=tf.zeros([3, 2], tf.bool),
        truncated=tf.zeros([3, 2], tf.bool),
        mask=tf.ones([3, 2]),
        extras={},
    )
    compiled(lambda: memory.add(trajectory))()
    read = compiled(lambda place: memory.transitions(place, tf.ones([2]), tf.ones([2])))
    batch = read(tf.constant([1, 2]))
    assert batch.observation["z"].dtype == tf.uint8 and batch.observation["a"][1].dtype == tf.int8
    np.testing.assert_array_equal(batch.observation["z"][:, 0, 0], [201, 210])
    np.testing.assert_array_equal(batch.observation["a"][0], [1, 10])
    np.testing.assert_array_equal(batch.next_observation["z"][:, 1, 1], [211, 220])
    np.testing.assert_array_equal(batch.action[0], [1, 10])
    np.testing.assert_allclose(batch.action[1][:, 0], [0.01, 0.1])
    assert {"observation/z", "observation/a/0", "observation/a/1", "action/0", "action/1"} < set(
        memory.variables
    )


def test_spaces_without_a_fixed_shape_are_refused() -> None:
    for space in (gymnasium.spaces.Text(5), gymnasium.spaces.Sequence(gymnasium.spaces.Discrete(2))):
        with pytest.raises(UsageError, match=type(space).__name__):
            space_spec(space)


def test_wrong_trajectories_are_refused() -> None:
    ring = Ring(make_spec(2), 4)
    with pytest.raises(ValueError, match="3 x 1 transitions to a ring of 4 x 2"):
        ring.add(rows(0, "..."))
    with pytest.raises(ValueError, match="5 x 1"):
        Ring(make_spec(1), 4).add(rows(0, "....."))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (dict(replay_capacity=11, num_envs=4), "need 12 or more"),
        (dict(replay_capacity=2, n_step=1), "need 3 or more"),
        (dict(n_step=0), "at least 1 step"),
        (dict(min_replay_size=12), "keeps at most 11 transitions"),
        (dict(replay_capacity=2**30), "below 2\\^30"),
    ],
)
def test_settings_that_do_not_fit_are_one_clear_line(change: dict, message: str) -> None:
    spec = make_spec(change.pop("num_envs", 1))
    with pytest.raises(UsageError, match=message) as caught:
        Replay(spec, make_hparams(**change))
    assert "\n" not in str(caught.value)


def planted(name: str, place: int, value: float) -> Ring:
    ring = Ring(make_spec(), 8)
    ring.add(rows(1, "..Tr."))
    ring.check_valid()
    variable = ring.variables[name]
    if variable.shape.rank == 0:
        variable.assign(tf.cast(value, variable.dtype))
    else:
        variable.scatter_update(tf.IndexedSlices(tf.cast([value], variable.dtype), tf.constant([place])))
    return ring


@pytest.mark.parametrize(
    ("name", "place", "value", "message"),
    [
        ("written", 0, -1, "replay claims -1 rows"),
        ("written", 0, 3, "flags on rows from 3 on, which were never written"),
        ("flags", 6, 4, "never written"),
        ("flags", 1, 8, "row 1, environment 0: unknown flag bits"),
        ("flags", 3, 1, "row 3, environment 0: an autoreset step ends an episode"),
        ("flags", 3, 4, "row 3, environment 0: the step after an episode end is not masked"),
        ("flags", 1, 0, "row 1, environment 0: an autoreset step follows no episode end"),
        ("reward", 4, float("nan"), "row 4, environment 0: the reward is not finite"),
    ],
)
def test_check_valid_finds_planted_corruption(name: str, place: int, value: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        planted(name, place, value).check_valid()


def test_a_cut_ends_the_running_episode_with_its_true_successor() -> None:
    """A host run is resumed: the environment starts anew, the memory's newest transition must not notice."""
    memory = replay(n_step=1)
    memory.add(rows(10, "..."))
    memory.cut()
    memory.add(rows(13, "r."))  # the observation that was reached, then the fresh episode
    memory.check_valid()
    assert transition(memory, 2) == (12, 12, 0.5, 12, 13)  # truncated: bootstraps from 13
    assert np.flatnonzero(memory.ring.flags(tf.range(5)).numpy() & 4).tolist() == [0, 1, 2, 4]


def test_a_cut_leaves_ended_episodes_and_reset_steps_alone() -> None:
    for ends in ("..T", "..C", ".Tr"):
        memory = replay(n_step=1)
        memory.cut()  # nothing to cut yet
        memory.add(rows(10, ends))
        before = memory.ring.variables["flags"].numpy().copy()
        memory.cut()
        np.testing.assert_array_equal(memory.ring.variables["flags"].numpy(), before)
        memory.add(rows(13, "r."))
        memory.check_valid()


def test_a_step_that_is_both_terminal_and_truncated_does_not_bootstrap() -> None:
    memory, trajectory = replay(n_step=3), rows(1, ".T..")
    memory.add(trajectory._replace(truncated=trajectory.terminated))
    batch = memory.transitions(tf.constant([0]), tf.ones([1]), tf.ones([1]))
    # gamma 1/2: 1 + 2 / 2, and nothing after it
    np.testing.assert_allclose([batch.reward[0], batch.discount[0]], [2.0, 0.0])
