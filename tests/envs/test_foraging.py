"""Level-based foraging: its rules worked by hand, and one step at a time against the package lbforaging where
that is installed (`--no-deps` and its sources: it asks for another Gymnasium)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from rl.envs.graph.foraging import Foraging, ForagingPhysics
from rl.errors import UsageError
from rl.ops import random

NUM_ENVS = 16
OPTIONS: list[dict[str, Any]] = [{}, {"size": 6, "players": 4, "food": 2, "coop": True}]


def _original(options: dict[str, Any]) -> Any:
    original = pytest.importorskip("lbforaging.foraging.environment")
    size, food = options.get("size", 8), options.get("food", 3)
    return original.ForagingEnv(
        players=options.get("players", 2),
        min_player_level=1,
        max_player_level=2,
        min_food_level=1,
        max_food_level=None,
        field_size=(size, size),
        max_num_food=food,
        sight=size,
        max_episode_steps=50,
        force_coop=options.get("coop", False),
    )


def _physics(originals: list[Any], food: int) -> ForagingPhysics:
    """The originals' state, as ours has it, their food in the order of the cells from last to first."""
    foods = []
    for original in originals:
        pieces = [[y, x, original.field[y, x]] for y, x in zip(*np.nonzero(original.field), strict=True)]
        foods.append((pieces + [[1, 1, 0]] * (food - len(pieces)))[::-1])
    place = [[each.position for each in original.players] for original in originals]
    level = [[each.level for each in original.players] for original in originals]
    whole = [original._food_spawned for original in originals]
    values = place, level, np.array(foods)[..., :2], np.array(foods)[..., 2], whole
    return ForagingPhysics(*(tf.constant(np.array(each), tf.int32) for each in values))


def _willing(original: Any, rng: np.random.Generator) -> list[int]:
    """Actions of players who load where they can, else mostly go to the first piece, and may do anything."""
    goal, actions = np.argwhere(original.field)[:1], []
    for player in original.players:
        legal = [each.value for each in original._valid_actions[player]]
        action = int(rng.choice(legal))
        if 5 in legal:
            action = 5
        elif len(goal) and rng.random() < 0.7:
            down, right = goal[0] - player.position
            action = (2 if down > 0 else 1) if abs(down) > abs(right) else (4 if right > 0 else 3)
        actions.append(int(rng.integers(6)) if rng.random() < 0.1 else action)
    return actions


def _shown(original: Any) -> tuple[list[list[bool]], np.ndarray]:
    """Which actions the original takes, and its field."""
    legal = [[each.value for each in original._valid_actions[player]] for player in original.players]
    return [[action in each for action in range(6)] for each in legal], original.field


@pytest.mark.parametrize("options", OPTIONS, ids=["8x8-2p-3f", "6x6-4p-2f-coop"])
def test_every_step_equals_lbforaging(options: dict[str, Any]) -> None:
    originals, rng = [_original(options) for _ in range(NUM_ENVS)], np.random.default_rng(0)
    env = Foraging(NUM_ENVS, **options)
    assert env.max_episode_steps == 50
    assert env.observation_space["observation"] == originals[0].observation_space[0]
    step = tf.function(lambda physics, action: env.dynamics(physics, action, random.key(0)), autograph=False)
    observe = tf.function(lambda physics: (env.observe(physics), env.state(physics)), autograph=False)
    for i, original in enumerate(originals):
        original.reset(seed=i)
    physics, going = _physics(originals, env.food), np.ones(NUM_ENVS, bool)
    eaten = 0
    for t in range(50):
        actions = np.array([_willing(original, rng) for original in originals])
        physics, reward, terminated = step(physics, tf.constant(actions))
        seen, state = observe(physics)
        steps = [original.step(action) for original, action in zip(originals, actions, strict=True)]
        observation, rewards, done = (np.array(each)[going] for each in list(zip(*steps, strict=True))[:3])
        masks, fields = (np.array(each)[going] for each in zip(*map(_shown, originals), strict=True))
        np.testing.assert_array_equal(seen["observation"][going], observation)
        np.testing.assert_array_equal(seen["action_mask"][going], masks)
        np.testing.assert_allclose(reward[going], rewards, 1e-6)
        food = state.numpy().reshape(NUM_ENVS, -1, env.size, env.size)[going, -1]
        np.testing.assert_array_equal(food, fields)
        cleared = fields.sum((1, 2)) == 0
        np.testing.assert_array_equal(terminated[going], np.repeat(cleared[:, None], env.players, 1))
        np.testing.assert_array_equal(done, cleared | (t == 49))  # the limit, which a view keeps
        eaten += int((rewards.sum(1) > 0).sum())
        going[going] = ~done
    assert eaten > 15
    assert not going.any()
    assert (physics.food_level.numpy() == 0).all(1).sum() > 3  # more than the limit's ends


@pytest.mark.parametrize("options", OPTIONS, ids=["8x8-2p-3f", "6x6-4p-2f-coop"])
def test_starts_are_distributed_as_lbforagings(options: dict[str, Any]) -> None:
    count, original = 3000, _original(options)
    env = Foraging(count, **options)
    ours = env.observe(env.initial(random.key(5)))["observation"].numpy()[:, 0]  # [count, n]
    theirs = []
    for seed in range(count // 3):
        for player in original.players:
            player.position = None  # as in a new environment
        theirs.append(original.reset(seed=seed)[0][0])
    for column, values in enumerate(np.array(theirs).T):
        kinds = np.arange(-1, env.size)
        shares = [(each[:, None] == kinds).mean(0) for each in (ours[:, column], values)]
        np.testing.assert_allclose(*shares, atol=0.06, err_msg=str(column))


def _placed(place: list[list[int]], level: list[int], food: list[list[int]]) -> ForagingPhysics:
    """One field: players' places and levels; food as row, column, level."""
    values = place, level, np.array(food)[:, :2], np.array(food)[:, 2], sum(each[2] for each in food)
    return ForagingPhysics(*(tf.constant(np.array(each)[None], tf.int32) for each in values))


def test_food_is_shared_by_the_levels_of_those_who_load_it() -> None:
    env = Foraging(1, players=3, food=2)
    before = _placed([[2, 1], [2, 3], [0, 0]], [1, 2, 2], [[2, 2, 3], [5, 5, 1]])
    after, reward, terminated = env.dynamics(before, tf.constant([[5, 5, 5]]), random.key(0))
    np.testing.assert_allclose(reward, [[1 * 3 / (3 * 4), 2 * 3 / (3 * 4), 0.0]])  # all levels are 4 in sum
    np.testing.assert_array_equal(after.food_level, [[0, 1]])
    assert not terminated.numpy().any()
    alone, reward, _ = env.dynamics(before, tf.constant([[0, 5, 0]]), random.key(0))  # 2 are too weak for 3
    np.testing.assert_array_equal(alone.food_level, [[3, 1]])
    assert not reward.numpy().any()


def test_players_who_want_to_the_same_cell_stay() -> None:
    env = Foraging(1, players=3, food=1)
    before = _placed([[0, 0], [0, 2], [4, 4]], [1, 1, 1], [[6, 6, 1]])
    after, *_ = env.dynamics(before, tf.constant([[4, 3, 1]]), random.key(0))  # east, west, north
    np.testing.assert_array_equal(after.place, [[[0, 0], [0, 2], [3, 4]]])
    mask = env.observe(before)["action_mask"].numpy()[0, 0]
    np.testing.assert_array_equal(mask, [1, 0, 1, 0, 1, 0])  # in the corner: stay, south, east


def test_masks_can_be_left_out() -> None:
    env = Foraging(2, action_masks=False)
    assert env.observe(env.initial(random.key(0))).shape == (2, 2, 15)
    assert env.observation_space.shape == (15,)


def test_impossible_numbers_are_refused() -> None:
    for options in ({"size": 4}, {"players": 0}, {"food": 0}, {"players": 20, "size": 6}):
        with pytest.raises(UsageError, match=next(iter(options))):
            Foraging(1, **options)
