"""Goals in hindsight against what may be drawn, worked by hand: from the same episode, later, and stored."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from marked import rest

from rl.errors import UsageError
from rl.memory.registry import get_memory
from rl.memory.spec import MemorySpec
from rl.ops import random
from rl.types import Batch, Trajectory

from .conftest import chi_square, make_hparams, split_rows

STEP = tf.constant(0, tf.int64)
PART = spaces.Box(-np.inf, np.inf, [1])
SPACE = spaces.Dict(observation=PART, achieved_goal=PART, desired_goal=PART)
WANTED = -7.0  # the goal that every row has by itself, which nothing reaches
# Of ten and more rows: two whole episodes, by termination and by truncation, and one that goes on.
ENDS = "..Tr..Cr..."


def reached(achieved: tf.Tensor, desired: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """0 and an end where the goal is met, else -1."""
    met = tf.reduce_all(achieved == desired, -1)
    return tf.where(met, 0.0, -1.0), met


def reached_on_the_way(achieved: tf.Tensor, desired: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The same, but no goal is an end."""
    reward, met = reached(achieved, desired)
    return reward, tf.zeros_like(met)


def make_memory(num_envs: int = 1, goals: Any = 4, goal_reward: Any = reached, **hparams: Any) -> Any:
    own = make_hparams(**hparams)
    own.hindsight_goals = goals
    spec = MemorySpec(SPACE, spaces.Discrete(100), num_envs, 1, goal_reward=goal_reward)
    return get_memory("hindsight")(spec, own)


def goal_rows(first: int, *ends: str) -> Trajectory:
    """A trajectory: row t of environment b has reached the goal 1000 b + first + t, and is paid 50.

    Letters as of `conftest.rows`, a word for each environment.
    """
    letters = np.array([list(each) for each in ends]).T  # [T, B]
    steps, envs = letters.shape
    number = np.arange(first, first + steps + 1)[:, None] + 1000 * np.arange(envs)  # [T + 1, B]
    reached = tf.constant(number[..., None], tf.float32)
    return Trajectory(
        observation={
            "observation": -reached,
            "achieved_goal": reached,
            "desired_goal": tf.fill(reached.shape, WANTED),
        },
        action=tf.constant(number[:-1] % 100),
        reward=tf.constant(np.where(letters == "r", 0, 50), tf.float32),
        terminated=tf.constant(letters == "T"),
        truncated=tf.constant(letters == "C"),
        mask=tf.constant(letters != "r", tf.float32),
        extras={},
    )


def batches(memory: Any, draws: int) -> Batch:
    """Many batches as one, without empty slots."""
    drawn = [memory.sample(random.key(i), STEP) for i in range(draws)]
    joined = tf.nest.map_structure(lambda *each: np.concatenate([np.array(x) for x in each]), *drawn)
    full = joined.mask > 0
    return tf.nest.map_structure(lambda x: x[full], joined)


def number_of(part: np.ndarray) -> np.ndarray:
    return part[:, 0].astype(int)


def goals_of(memory: Any, draws: int = 4) -> dict[int, list[int]]:
    """Which goals are drawn for each transition, both by the number of the row that reached them."""
    batch, found = batches(memory, draws), defaultdict(set)
    row, goal = (number_of(batch.observation[name]) for name in ("achieved_goal", "desired_goal"))
    for one, other in zip(row, goal, strict=True):
        if other != WANTED:
            found[one].add(other)
    return {one: sorted(found[one]) for one in sorted(found)}


def test_a_goal_is_one_that_the_same_episode_reached_later_and_is_still_stored() -> None:
    memory = make_memory(replay_capacity=12, batch_size=1000)
    memory.add(goal_rows(0, ENDS))  # the autoreset rows 3 and 7 hold the episodes' last observations
    memory.check_valid()
    second = {4: [5, 6, 7], 5: [6, 7], 6: [7]}
    assert goals_of(memory) == {0: [1, 2, 3], 1: [2, 3], 2: [3], **second, 8: [9, 10], 9: [10]}
    memory.add(goal_rows(11, "..Tr."))  # over rows 0 to 3: row 4 is the oldest, 15 the newest
    third = {row: list(range(row + 1, 15)) for row in range(8, 14)}
    assert goals_of(memory) == {**second, **third}
    memory.add(goal_rows(16, "......"))  # the third episode's beginning is gone, its end is not
    running = {row: list(range(row + 1, 22)) for row in range(15, 21)}
    assert goals_of(memory) == {row: third[row] for row in range(10, 14)} | running
    memory.add(goal_rows(22, "." * 9))
    memory.add(goal_rows(31, "." * 10))  # one episode fills the ring, and its beginning was overwritten
    assert goals_of(memory) == {row: list(range(row + 1, 41)) for row in range(29, 40)}
    memory.check_valid()


def test_environments_have_goals_of_their_own() -> None:
    memory = make_memory(2, replay_capacity=12, batch_size=1000)
    memory.add(goal_rows(0, "..Tr", "...."))
    memory.add(goal_rows(4, "..", "Cr"))
    memory.check_valid()
    first, second = (
        {0: [1, 2, 3], 1: [2, 3], 2: [3], 4: [5]},
        {0: [1, 2, 3, 4, 5], 1: [2, 3, 4, 5], 2: [3, 4, 5]},
    )
    second = {1000 + row: [1000 + goal for goal in goals] for row, goals in second.items()}
    second |= {1003: [1004, 1005], 1004: [1005]}
    assert goals_of(memory) == first | second
    memory.add(goal_rows(6, "C", "."))
    assert goals_of(memory) == {1: [2, 3], 2: [3], 4: [5, 6], 5: [6]} | {
        row: goals for row, goals in second.items() if row > 1000
    }


def test_a_run_that_was_cut_has_no_goals_of_the_episode_after_it() -> None:
    memory = make_memory(replay_capacity=12, batch_size=1000)
    memory.add(goal_rows(0, "..."))
    memory.cut()
    memory.add(goal_rows(3, "r..."))
    assert goals_of(memory) == {0: [1, 2, 3], 1: [2, 3], 2: [3], 4: [5, 6], 5: [6]}
    memory.check_valid()


def random_ends(rng: np.random.Generator, steps: int) -> str:
    """Episodes of 1 to 9 steps, each with its autoreset row."""
    ends = ""
    while len(ends) < steps:
        ends += "." * int(rng.integers(9)) + str(rng.choice(["Tr", "Cr"]))
    return ends[:steps]


def full_memory(**settings: Any) -> Any:
    """Three environments in a ring of 40 rows, three times overwritten."""
    rng = np.random.default_rng(3)
    memory = make_memory(3, replay_capacity=120, batch_size=1000, **settings)
    for part in split_rows(goal_rows(0, *(random_ends(rng, 140) for _ in range(3))), [7] * 20):
        memory.add(part)
    memory.check_valid()
    return memory


def test_transitions_and_their_later_goals_are_drawn_alike() -> None:
    """The chance of a pair is that of the transition over the number of its goals."""
    memory = full_memory()
    flags = memory.variables["flags"].numpy().reshape(40, 3)
    newest, chances = int(memory.ring.position) - 1, {}
    for env in range(3):
        row = 139 - 39  # the oldest
        while row < 139:
            end = row
            while end < 139 and not flags[(newest - 139 + end) % 40, env] & 3:
                end += 1
            last = min(end + 1, 139)  # the row after the last transition
            for own in range(row, last):
                for goal in range(own + 1, last + 1):
                    chances[1000 * env + own, 1000 * env + goal] = 1 / (last - own)
            row = last + 1 if flags[(newest - 139 + end) % 40, env] & 3 else last
    transitions = {own for own, _ in chances}
    assert 60 < len(transitions) < 110 and len(chances) > 200
    batch = batches(memory, 60)
    row, goal = (number_of(batch.observation[name]) for name in ("achieved_goal", "desired_goal"))
    counts = dict.fromkeys(chances, 0)
    for pair in zip(row.tolist(), goal.tolist(), strict=True):
        if pair[1] != WANTED:
            counts[pair] += 1  # KeyError: it must not be drawn
    probabilities = np.array(list(chances.values())) / len(transitions)
    assert abs(chi_square(np.array(list(counts.values())), probabilities)) < 4


@pytest.mark.parametrize("goals", [1, *rest(4)])
def test_k_of_k_and_one_transitions_get_another_goal(goals: int) -> None:
    batch = batches(full_memory(goals=goals), 20)
    other = batch.observation["desired_goal"][:, 0] != WANTED
    share, count = goals / (goals + 1), len(other)
    assert abs(other.mean() - share) < 4 * np.sqrt(share * (1 - share) / count)


def test_what_gets_another_goal_gets_its_reward_and_nothing_else_changes() -> None:
    memory = full_memory(gamma=0.5)
    batch = batches(memory, 2)
    before, after = batch.observation, batch.next_observation
    row, goal, successor = (
        number_of(x) for x in (before["achieved_goal"], before["desired_goal"], after["achieved_goal"])
    )
    np.testing.assert_array_equal(after["desired_goal"], before["desired_goal"])
    np.testing.assert_array_equal(successor, row + 1)
    np.testing.assert_array_equal(before["observation"], -before["achieved_goal"])
    np.testing.assert_array_equal(batch.action, row % 1000 % 100)
    terminated = (memory.variables["flags"].numpy()[batch.index] & 1) != 0
    same, met = goal == WANTED, goal == successor
    assert min(same.sum(), met.sum(), (same & terminated).sum(), (~same & ~met).sum()) > 20
    np.testing.assert_array_equal(batch.reward, np.where(same, 50.0, np.where(met, 0.0, -1.0)))
    np.testing.assert_array_equal(batch.discount, np.where(np.where(same, terminated, met), 0.0, 0.5))


def test_goals_that_end_nothing_keep_the_ends_that_there_were() -> None:
    memory = make_memory(replay_capacity=12, batch_size=1000, goal_reward=reached_on_the_way)
    memory.add(goal_rows(0, ENDS))
    batch = batches(memory, 2)
    row, goal = (number_of(batch.observation[name]) for name in ("achieved_goal", "desired_goal"))
    assert {(r, g) for r, g in zip(row, goal, strict=True)} >= {(2, 3), (2, WANTED), (6, 7), (0, 1)}
    np.testing.assert_array_equal(batch.discount, np.where(row == 2, 0.0, 0.5))
    np.testing.assert_array_equal(
        batch.reward, np.where(goal == WANTED, 50.0, np.where(goal == row + 1, 0.0, -1.0))
    )


def test_nothing_is_drawn_before_a_row_has_followed() -> None:
    memory = make_memory()
    for row in range(2):
        batch = memory.sample(random.key(row), STEP)
        np.testing.assert_array_equal(batch.mask, np.zeros(4))
        assert all(np.isfinite(each).all() for each in tf.nest.flatten(batch))
        memory.add(goal_rows(row, "."))
    batch = memory.sample(random.key(2), STEP)
    np.testing.assert_array_equal(batch.mask, np.ones(4))
    np.testing.assert_array_equal(batch.next_observation["achieved_goal"], np.ones([4, 1]))


def test_eager_and_compiled_draws_agree_and_a_restored_memory_goes_on_exactly() -> None:
    memory, restored = full_memory(), make_memory(3, replay_capacity=120, batch_size=1000)
    for name, variable in restored.variables.items():
        variable.assign(memory.variables[name])
    for each in (memory, restored):
        each.add(goal_rows(140, "..Tr", "....", "Cr.."))
        each.check_valid()
    for name, variable in restored.variables.items():
        np.testing.assert_array_equal(variable, memory.variables[name], err_msg=name)
    sample = tf.function(lambda seed: memory.sample(seed, STEP), jit_compile=True, autograph=False)
    for i in range(3):
        expected = restored.sample(random.key(i), STEP)
        tf.nest.map_structure(np.testing.assert_array_equal, sample(random.key(i)), expected)


def test_a_broken_episode_number_is_found() -> None:
    memory = full_memory()
    place = tf.constant([17])
    number = tf.gather(memory.variables["episode"], place)
    memory.variables["episode"].scatter_update(tf.IndexedSlices(number + 1, place))
    with pytest.raises(ValueError, match="row 4, environment 2: the next row's episode"):
        memory.check_valid()


def test_hparams_that_it_reads_are_asked_for() -> None:
    spec = MemorySpec(SPACE, spaces.Discrete(100), 1, 1, goal_reward=reached)
    with pytest.raises(UsageError, match="memory hindsight needs the hparams hindsight_goals"):
        get_memory("hindsight")(spec, make_hparams())
