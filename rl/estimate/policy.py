"""A trained policy's probabilities and actions at the observations of a data set."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from rl.agents.agent import Agent
from rl.data.dataset import Dataset
from rl.errors import UsageError
from rl.ops import random
from rl.runners.from_data import alike
from rl.spaces import space_spec
from rl.types import Nest, PolicyOutput, Tensor

BLOCK = 1024  # observations that are looked at together
SAMPLES = 8  # actions drawn at each observation, of policies over continuous ones


class DataPolicy:
    """The policy of an agent, as its hparam `eval_policy` says, at the observations of a data set.

    Args:
        agent: whose policy it is, with the weights that it has at each call.
        data: episodes as agents see them.
        folder: the data's name.

    Raises:
        UsageError: the data have other spaces; the policy depends on more than an observation, or samples its
            actions in a way whose probabilities are unknown.
    """

    def __init__(self, agent: Agent[Any], data: Dataset, folder: str):
        self.agent, self._data = agent, data
        self.sampled = agent.hparams.eval_policy == "sample"
        self.discrete = isinstance(agent.action_space, spaces.Discrete)
        _check_spaces(agent, data, folder)
        if tf.nest.flatten(agent.initial_state(1)):
            raise UsageError(
                f"{agent.hparams.algo} with model {agent.hparams.model.name} remembers what was before, and "
                "is not estimated: take a policy that keeps no state"
            )
        self._before = data.places
        fields = type(agent.hparams).model_fields
        has_epsilon = "evaluation_epsilon" in fields and not self.sampled
        self._epsilon = float(agent.hparams.flat()["evaluation_epsilon"]) if has_epsilon else 0.0
        if not self.sampled and not self._epsilon:
            self._check_deterministic()

    @property
    def has_density(self) -> bool:
        """Whether the policy assigns probabilities to the data's actions: not if it is deterministic in a
        Box."""
        return self.sampled or not isinstance(self.agent.action_space, spaces.Box)

    def log_prob(self) -> np.ndarray:
        """Returns the policy's log-probabilities (of a Box, log densities) of the data's actions, [N] float32
        or float64; -inf where the policy never takes one."""
        action = self._data.action
        if self.discrete:
            chances = self.probabilities()[self._before]  # [N, A]
            with np.errstate(divide="ignore"):
                log_chances: np.ndarray = np.log(chances[np.arange(len(chances)), action])
            return log_chances
        if self.sampled:
            return self._of_rows(lambda output, done, _: output.distribution.log_prob(done))
        mode = self._of_rows(lambda output, done, own: own)
        same = (mode == action).reshape(len(mode), -1).all(-1)
        return np.where(same, 0.0, -np.inf)

    def probabilities(self) -> np.ndarray:
        """Returns the policy's probabilities of all actions of a Discrete space at all observations of the
        data, [N + E, A] float64."""
        count = int(self.agent.action_space.n)

        def chances(output: PolicyOutput, _: Any, own: Tensor) -> Tensor:
            rows = own.shape[0]
            if self.sampled:
                each = [output.distribution.log_prob(tf.fill([rows], a)) for a in range(count)]
                return tf.exp(tf.stack(each, -1))
            if not self._epsilon:
                return tf.one_hot(own, count)
            best = tf.one_hot(tf.argmax(output.q_values, -1), count)
            legal = tf.ones([rows, count]) if output.action_mask is None else output.action_mask
            legal = tf.cast(legal, tf.float32)
            anything = legal / tf.reduce_sum(legal, -1, keepdims=True)
            return (1.0 - self._epsilon) * best + self._epsilon * anything

        found = self._said(chances, self._data.observation, ()).astype(np.float64)
        return found / found.sum(-1, keepdims=True)

    def actions(self) -> np.ndarray:
        """Returns the policy's actions at all observations of the data, [N + E, M, ...]: the one of a
        deterministic policy (M = 1), or M samples, clipped to the bounds of the action space."""
        seeds = range(SAMPLES if self.sampled else 1)
        drawn = self._drawn(lambda *row: row[2], self._data.observation, (), seeds, self.sampled)
        return np.stack(drawn, 1)

    def _of_rows(self, function: Callable[..., Tensor]) -> np.ndarray:
        """Applies `function` (see `_said`) to the observations and actions of the steps."""
        observation = tf.nest.map_structure(lambda x: x[self._before], self._data.observation)
        return self._said(function, observation, self._data.action)

    def _said(self, function: Callable[..., Tensor], observation: Nest, action: Nest) -> np.ndarray:
        """Applies `function(policy's output, recorded action, policy's own action)` to rows, in blocks."""
        (found,) = self._drawn(function, observation, action, (0,))
        return found

    def _drawn(
        self,
        function: Callable[..., Tensor],
        observation: Nest,
        action: Nest,
        seeds: Iterable[int],
        sampled: bool = False,
    ) -> list[np.ndarray]:
        """As `_said`, once for each seed of the sampled actions."""
        agent = self.agent

        @tf.function(autograph=False)
        def block(observed: Nest, done: Nest, key: Tensor) -> Tensor:
            output = agent.policy(observed, (), key, False)
            output = output._replace(action_mask=agent.encoder.action_mask(observed))
            own = agent.act(observed, (), key, tf.constant(0, tf.int64), False, sampled)[0]
            if isinstance(agent.action_space, spaces.Box):
                own = tf.clip_by_value(own, agent.action_space.low, agent.action_space.high)
            return function(output, done, own)

        done = space_spec(agent.action_space) if np.size(action) else ()
        kinds = space_spec(agent.observation_space), done

        def of_seed(seed: int) -> np.ndarray:
            key = random.key(seed)
            found: np.ndarray = in_blocks(
                lambda i, *rows: block(*rows, random.fold_in(key, i)), kinds, observation, action
            )
            return found

        return [of_seed(seed) for seed in seeds]

    def _check_deterministic(self) -> None:
        """Raises UsageError where its greedy actions depend on random numbers."""
        few = tf.nest.map_structure(lambda x: x[:BLOCK], self._data.observation)
        first, second = self._drawn(lambda *row: row[2], few, (), range(2))
        if not np.array_equal(first, second):
            raise UsageError(
                f"{self.agent.hparams.algo} with act_select {self.agent.hparams.act_select_name} draws its "
                "actions, and does not say how likely each one is: there is nothing to estimate by"
            )


def in_blocks(function: Callable[..., Nest], kinds: tuple[Nest, ...], *rows: Nest) -> Any:
    """Applies `function(number of the block, block of each nest ...)` to rows [R, ...] in blocks of `BLOCK`,
    and joins its results (arrays, or tuples of them). The last block is padded with its first row.

    kinds: for each nest of rows, the `tf.TensorSpec`s of one row.
    """
    count, parts = len(tf.nest.flatten(rows[0])[0]), []
    for i, begin in enumerate(range(0, count, BLOCK)):
        place = np.arange(begin, begin + BLOCK)
        place[place >= count] = begin
        blocks = [
            tf.nest.map_structure(
                lambda spec, x, p=place: tf.constant(np.asarray(x)[p], spec.dtype), kind, nest
            )
            for kind, nest in zip(kinds, rows, strict=True)
        ]
        parts.append(tf.nest.map_structure(np.asarray, function(i, *blocks)))
    return tf.nest.map_structure(lambda *each: np.concatenate(each)[:count], *parts)


def _check_spaces(agent: Agent[Any], data: Dataset, folder: str) -> None:
    pairs = (
        ("observations", agent.observation_space, data.observation_space),
        ("actions", agent.action_space, data.action_space),
    )
    for name, its, theirs in pairs:
        if not alike(its, theirs, name == "actions"):
            of = f", of {data.env_id}" if data.env_id else ""
            raise UsageError(
                f"the policy was trained on {agent.hparams.env or agent.hparams.data} with {name} {its}, the "
                f"data in {folder}{of} have {theirs}: name data of the same environment"
            )
