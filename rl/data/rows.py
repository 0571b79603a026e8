"""Steps as they are played, row by row in B environments, and the whole episodes among them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rl.data.hdf5 import Episode

Columns = list[np.ndarray]  # of the parts of a space, in the order of `rl.data.spaces.parts`


class Rows(NamedTuple):
    """S steps of B environments. A row with mask 0 is no step: an autoreset, or not to be recorded."""

    step: int  # environment steps before them
    observation: Columns  # [S + 1, B, ...]
    action: Columns  # [S, B, ...]
    reward: np.ndarray  # [S, B] float32
    terminated: np.ndarray  # [S, B] bool
    truncated: np.ndarray  # [S, B] bool
    mask: np.ndarray  # [S, B] bool
    fresh: bool = False  # whether they begin with fresh episodes, those before cut off without an end
    agents: int = 1  # rows that are one environment

    @property
    def after(self) -> int:
        """Environment steps after them."""
        return self.step + self.mask.size // self.agents

    @property
    def ends(self) -> np.ndarray:
        """[S, B] bool: where an episode ends."""
        ends: np.ndarray = (self.terminated | self.truncated) & self.mask
        return ends


def join(parts: list[Rows]) -> Rows:
    """Returns rows that follow one another as one; none but the first begins with fresh episodes."""
    if len(parts) == 1:
        return parts[0]
    last = len(parts) - 1
    seen = [[x if i == last else x[:-1] for x in each.observation] for i, each in enumerate(parts)]
    return Rows(
        parts[0].step,
        [np.concatenate(leaves) for leaves in zip(*seen, strict=True)],
        [np.concatenate(leaves) for leaves in zip(*(each.action for each in parts), strict=True)],
        np.concatenate([each.reward for each in parts]),
        np.concatenate([each.terminated for each in parts]),
        np.concatenate([each.truncated for each in parts]),
        np.concatenate([each.mask for each in parts]),
        parts[0].fresh,
        parts[0].agents,
    )


class Piece(NamedTuple):
    """L steps of a running episode in one environment."""

    observation: Columns  # [L, ...]
    action: Columns  # [L, ...]
    reward: np.ndarray  # [L]


class Whole(NamedTuple):
    """An episode that is over, by columns."""

    episode: Episode  # whose observation and action are `Columns`
    step: int  # environment steps when it was over


class Assembler:
    """Assembles episodes from consecutive rows.

    Attributes:
        step: environment steps so far; None before the first rows.
        running: for each environment the pieces of its running episode; None if its beginning is missing.
    """

    def __init__(self) -> None:
        self.step: int | None = None
        self.running: list[list[Piece] | None] = []

    def add(self, rows: Rows) -> list[Whole]:
        """Returns the episodes that end in the rows, in the order in which they ended.

        If rows are missing before these, the running episodes are dropped, since they are incomplete.
        """
        count = rows.mask.shape[1]
        if self.step != rows.step or len(self.running) != count or rows.fresh:
            known = rows.fresh or rows.step == 0
            self.running = [[] if known else None for _ in range(count)]
        self.step = rows.after
        found = [each for b in range(count) for each in self._of_env(rows, b)]
        return [whole for _, _, whole in sorted(found, key=lambda each: each[:2])]

    def _of_env(self, rows: Rows, b: int) -> list[tuple[int, int, Whole]]:
        """Returns (row, environment, episode) of those that end."""
        mask, start = rows.mask[:, b], 0
        count = rows.mask.shape[1] // rows.agents
        found = []
        for t in np.flatnonzero(rows.ends[:, b] | ~mask).tolist():
            running = self.running[b]
            if mask[t] and running is not None:
                pieces = [*running, _piece(rows, b, start, t + 1)]
                last = [x[t + 1, b] for x in rows.observation]
                episode = _whole(pieces, last, bool(rows.terminated[t, b]), bool(rows.truncated[t, b]))
                found.append((t, b, Whole(episode, rows.step + (t + 1) * count)))
            self.running[b] = []
            start = t + 1
        running = self.running[b]
        if running is not None and start < len(mask):
            running.append(_piece(rows, b, start, len(mask)))
        return found


def _piece(rows: Rows, b: int, start: int, stop: int) -> Piece:
    """Returns a copy of a piece, so that it does not keep the whole rollout in memory."""
    here = slice(start, stop)
    observation, action = ([x[here, b].copy() for x in each] for each in (rows.observation, rows.action))
    return Piece(observation, action, rows.reward[here, b].copy())


def _whole(pieces: list[Piece], last: list[Any], terminated: bool, truncated: bool) -> Episode:
    observation = [
        np.concatenate([*leaves, np.asarray(final)[None]])
        for *leaves, final in zip(*(each.observation for each in pieces), last, strict=True)
    ]
    action = [np.concatenate(leaves) for leaves in zip(*(each.action for each in pieces), strict=True)]
    reward = np.concatenate([each.reward for each in pieces])
    ends = np.arange(len(reward)) == len(reward) - 1
    return Episode(observation, action, reward, ends & terminated, ends & truncated)
