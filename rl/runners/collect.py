"""Rollouts in host environments: who plays them, and the arrays that they are written to. No TensorFlow."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import optree
from gymnasium import spaces

from rl.envs.agents import SUM, OwnRewards
from rl.heartbeat import doing
from rl.runners.acting import Acting
from rl.spaces import space_leaves, space_structure
from rl.types import Nest

# Rows of a block's one array of numbers, [T, B] each; the agent's extras follow.
NUMBERS = ("reward", "terminated", "truncated", "mask", "life_lost")


def host_seed(*purpose: int) -> int:
    """Returns a seed in [0, 2^31) of what is random outside of TensorFlow, in addition to
    `rl.runners.iteration`.

    purpose: of environments that are started (seed of the run, iteration); of an iteration's fresh episodes
        (seed, 1, iteration); of a worker (seed, its number, iteration, how many had its place before); of a
        buffer (seed, its number, how many had its place before).
    """
    return int(np.random.SeedSequence(purpose).generate_state(1)[0]) % 2**31


class Collector:
    """Plays rollouts in a HostEnv, one after another.

    Attributes:
        observation: `[B, ...]`, what the next rollout begins with; None before `reset`.
        ended: `[B]` bool, whether the next step is an ignored one, of an autoreset.

    Args:
        env: a HostEnv of B environments (rl.envs.host).
        actor: acts in them.
        length: T, steps of a rollout.
        fresh: whether every rollout begins with fresh episodes, for agents that compare parameters.
        seed: of these episodes.
    """

    def __init__(self, env: Any, actor: Acting, length: int, fresh: bool, seed: int):
        self.env, self.actor, self.length, self.seed = env, actor, length, seed
        self._begins_fresh = fresh
        self.observation: Nest = None
        self._fresh: Nest | None = (
            None  # what a restarted environment shows, while `observation` stands for it
        )

    def reset(self, seed: int, reached: Nest | None = None) -> None:
        """Starts the environments.

        reached: `[B, ...]` observations of episodes that were cut: they stand as those of an autoreset step,
        so that transitions before them keep their true successors.
        """
        doing("the environment's reset")
        self.observation = self.env.reset(seed)
        self.ended = np.zeros(self.env.num_envs, bool)
        if reached is not None:
            self._fresh, self.observation = self.observation, reached
            self.ended = np.ones(self.env.num_envs, bool)

    def block(self) -> Block:
        """Returns arrays for one rollout."""
        return Block(self.env, self.length, self.actor.extras)

    def collect(self, block: Block, iteration: int, step: int) -> None:
        """Plays one rollout into `block`. `step`: environment steps before it, for exploration schedules."""
        actor, steps = self.actor, self.env.num_envs // self.env.agents  # of all environments together
        observation, ended = self.observation, self.ended
        actor.begin(iteration, self.length)
        if self._begins_fresh:
            observation, ended = self._fresh_episodes(iteration)
        block.write_state(actor.network_state)
        for t in range(self.length):
            doing("the policy's actions")
            action, extras = actor(observation, t, step + t * steps)
            block.write(t, observation, action, ended, extras)
            observation, reward, terminated, truncated = self._step(action)
            actor.forget(ended)
            gone, ended = ended, terminated | truncated
            if self.env.agents > 1:  # agents that are gone say so until their environment resets
                terminated = terminated & ~gone
            block.write_result(t, reward, terminated, truncated)
            if self.env.life_lost is not None:
                block.life_lost[t] = self.env.life_lost
        block.write_observation(self.length, observation)
        self.observation, self.ended = observation, ended

    def _fresh_episodes(self, iteration: int) -> tuple[Nest, np.ndarray]:
        """Starts all environments anew."""
        self.actor.forget()
        self._fresh = None
        doing("the environment's reset")
        return self.env.reset(host_seed(self.seed, 1, iteration)), np.zeros(self.env.num_envs, bool)

    def _step(self, action: Nest) -> tuple[Nest, np.ndarray, np.ndarray, np.ndarray]:
        if self._fresh is None:
            doing("the environment's step")
            found: tuple[Nest, np.ndarray, np.ndarray, np.ndarray] = self.env.step(action)
            return found
        fresh, self._fresh = self._fresh, None
        never = np.zeros(self.env.num_envs, bool)
        return fresh, np.zeros(self.env.num_envs, np.float32), never, never


class Block:
    """The arrays of one rollout on the host, written row by row."""

    def __init__(self, env: Any, length: int, extras: tuple[str, ...]):
        lead = (length, env.num_envs)

        def empty(space: Any, lead: tuple[int, int]) -> list[np.ndarray]:
            return [np.zeros((*lead, *shape), dtype) for shape, dtype in space_leaves(space)]

        self.observation = empty(env.observation_space, (lead[0] + 1, lead[1]))
        self.action = empty(env.action_space, lead)
        self.state: list[np.ndarray] = []  # of the network, before the first step
        self.numbers = np.zeros((len(NUMBERS) + len(extras), *lead), np.float32)
        rows = list(self.numbers)  # [T, B] each: an index of one number is faster than one of two
        self._reward, self._terminated, self._truncated, self._mask, self.life_lost = rows[: len(NUMBERS)]
        self._kept, self._extras = extras, rows[len(NUMBERS) :]
        self._structures = space_structure(env.observation_space), space_structure(env.action_space)
        self._nested_observation = isinstance(env.observation_space, (spaces.Dict, spaces.Tuple))
        self._nested_action = isinstance(env.action_space, (spaces.Dict, spaces.Tuple))

    def write(self, t: int, observation: Nest, action: Nest, ended: np.ndarray, extras: list[Any]) -> None:
        """Writes what was known before the step."""
        self.write_observation(t, observation)
        if self._nested_action:
            self._write_leaves(self.action, t, action)
        else:
            self.action[0][t] = action
        self._mask[t] = ~ended
        for array, value in zip(self._extras, extras, strict=True):
            array[t] = value

    def write_result(self, t: int, reward: np.ndarray, terminated: np.ndarray, truncated: np.ndarray) -> None:
        """Writes what the step returned."""
        self._reward[t], self._terminated[t], self._truncated[t] = reward, terminated, truncated

    def write_state(self, leaves: list[np.ndarray]) -> None:
        self.state = leaves

    def write_observation(self, t: int, observation: Nest) -> None:
        if self._nested_observation:
            self._write_leaves(self.observation, t, observation)
        else:
            self.observation[0][t] = observation

    def arrays(self) -> list[np.ndarray]:
        return [*self.observation, *self.action, *self.state, self.numbers]

    def rows(self) -> tuple[Nest, Nest, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Returns observation [T + 1, B, ...], action [T, B, ...], reward, terminated, truncated and mask
        [T, B], which the next rollout will overwrite."""
        observation, action = (
            optree.tree_unflatten(optree.tree_structure(structure), arrays)
            for structure, arrays in zip(self._structures, (self.observation, self.action), strict=True)
        )
        return observation, action, self._reward, self._terminated, self._truncated, self._mask

    def extra(self, name: str) -> np.ndarray | None:
        """Returns what the algorithm keeps beside the transition, [T, B], as `rows`; None where it does
        not."""
        return self._extras[self._kept.index(name)] if name in self._kept else None

    @staticmethod
    def _write_leaves(arrays: list[np.ndarray], t: int, value: Nest) -> None:
        for array, leaf in zip(arrays, optree.tree_leaves(value), strict=True):
            array[t] = leaf


class Window:
    """The newest `count` blocks as one, for memories of sequences that are longer than a rollout."""

    def __init__(self, count: int):
        self._blocks: deque[tuple[list[np.ndarray], ...]] = deque(maxlen=count)

    def add(self, block: Block) -> bool:
        """Takes a block in; says whether there are `count` now."""
        parts = block.observation, block.action, block.state, [block.numbers]
        self._blocks.append(tuple([each.copy() for each in part] for part in parts))
        return len(self._blocks) == self._blocks.maxlen

    def arrays(self) -> list[np.ndarray]:
        """Returns `Block.arrays` of all their steps; the state is that before the first of them."""
        observation, action, state, numbers = zip(*self._blocks, strict=True)
        steps = [[each[:-1] for each in leaves] for leaves in observation[:-1]] + [observation[-1]]
        return [*_along(0, steps), *_along(0, action), *state[0], *_along(1, numbers)]


def _along(axis: int, blocks: Any) -> list[np.ndarray]:
    """Each array of several blocks, one after another in time."""
    return [np.concatenate(leaves, axis) for leaves in zip(*blocks, strict=True)]


class EpisodeSums:
    """What `rl.ops.episodes.sums` works out, from arrays: returns and lengths of the running episodes of B
    environments, summed where they end. So are the returns of each of A agents, where there are many.

    Args:
        env: a HostEnv of B environments.
        fresh: whether every rollout begins with fresh episodes.
    """

    def __init__(self, env: Any, fresh: bool):
        count = env.num_envs // env.agents
        self._fresh, self._agents, self._share = fresh, env.agents, env.team_share
        self._own = OwnRewards(env.observation_space, env.agents)
        self._return, self._length = np.zeros(count), np.zeros(count)
        self._returns = np.zeros((count, len(self._own.names)))  # of each agent
        self._life_lost = np.zeros(count, bool)

    def sums(self, numbers: np.ndarray, observation: Nest = None) -> dict[str, float]:
        """Returns the sums over the episodes that end in a rollout; the least and the greatest return only
        where one does.

        numbers: rows of `NUMBERS`; observation: [T + 1, ...], needed where there are many agents.
        """
        reward, terminated, truncated, mask, life_lost = numbers[: len(NUMBERS)]  # [T, B * agents] each
        paid = self._own.of_rollout(observation, reward, mask, np) if self._own.names else None
        over = np.logical_or(terminated + truncated > 0.0, mask == 0.0)  # [T, B * agents]
        gone: np.ndarray = np.all(self._apart(over), -1)  # [T, B]
        counted, reward = self._apart(mask).max(-1), self._apart(reward).sum(-1) * self._share  # [T, B]
        life_lost = self._apart(life_lost).max(-1) > 0.0
        if self._fresh:
            self._return[:] = self._length[:] = self._returns[:] = 0.0
        returns: list[float] = []
        length, own = 0.0, np.zeros(self._returns.shape[1])
        for t in range(len(reward)):
            goes_on = np.maximum(counted[t], self._life_lost)  # a lost life is no new episode
            self._return = self._return * goes_on + reward[t]
            self._length = self._length * goes_on + counted[t]
            if paid is not None:
                self._returns = self._returns * goes_on[:, None] + paid[t]
            self._life_lost = life_lost[t]
            ended = gone[t] & (counted[t] > 0.0) & ~self._life_lost
            if ended.any():
                returns += self._return[ended].tolist()
                length += float(self._length[ended].sum())
                own += self._returns[ended].sum(0)
        count, total = float(len(returns)), float(sum(returns))
        sums = {"episodes": count, "episode_return": total, "episode_length": length}
        sums |= {f"{SUM}{name}": float(x) for name, x in zip(self._own.names, own, strict=True)}
        if returns:
            sums |= {"episode_return_min": min(returns), "episode_return_max": max(returns)}
        return sums | {"transitions": float(mask.sum())}

    def _apart(self, rows: np.ndarray) -> np.ndarray:
        """Returns rows [T, B * agents] as [T, B, agents]."""
        return rows.reshape(len(rows), -1, self._agents)


def joined_sums(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    """Returns the sums of two rollouts, or of several, as those of one."""
    joined, choose = dict(before), {"episode_return_min": min, "episode_return_max": max}
    for name, value in after.items():
        if name in joined:
            joined[name] = choose[name](joined[name], value) if name in choose else joined[name] + value
        else:
            joined[name] = value
    return joined
