"""Networks of single groups of agents, in place of one that all share."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from rl.models.contracts import KeepsState
from rl.models.networks import ActorCriticOutput
from rl.types import Nest, Tensor, Trajectory


class Grouped(keras.Model):
    """Networks of one kind, one for each group of agents: of each row the one of its agent's group speaks.

    All of them compute all rows, of which each gives its own, so that what surrounds a network sees no
    difference, and a row's gradient reaches its group's network alone. A state is a tuple of the members'.

    Args:
        members: the networks.
        group_of: of each agent, the place of its network among them.
        axis: of the rows in what a network gives.
    """

    def __init__(self, members: list[Any], group_of: list[int], axis: int = 0, name: str = "network"):
        super().__init__(name=name)
        self.members, self._group_of, self._axis = members, group_of, axis
        self.built = True

    @property
    def value_variables(self) -> list[Any]:
        """The trainable variables that the values alone depend on."""
        return [variable for each in self.members for variable in each.value_variables]

    def initial_state(self, count: int) -> Nest:
        """Returns states at the start of `count` episodes; () where networks keep none."""
        states = [each.initial_state(count) if isinstance(each, KeepsState) else () for each in self.members]
        return _states(states)

    def call(self, observation: Nest, *rest: Any, **options: Any) -> Any:
        if tf.nest.flatten(self.initial_state(1)) and rest:  # the first is a state: each has its own
            pairs = self._paired(rest[0])
            found = [each(observation, part, *rest[1:], **options) for each, part in pairs]
        else:
            found = [each(observation, *rest, **options) for each in self.members]
        return self._joined(found, observation)

    def step(self, observation: Nest, state: Nest, *rest: Any, **options: Any) -> tuple[Tensor, Nest]:
        """Calls the members' `step`, and gives each row what the network of its agent's group says."""
        found = [each.step(observation, part, *rest, **options) for each, part in self._paired(state)]
        return self._joined([each for each, _ in found], observation), _states([part for _, part in found])

    def unroll(self, observation: Nest, state: Nest, mask: Tensor, **options: Any) -> Any:
        """Calls the members' `unroll`, and gives each row what the network of its agent's group says."""
        found = [each.unroll(observation, part, mask, **options) for each, part in self._paired(state)]
        if isinstance(found[0], ActorCriticOutput):
            return self._joined(found, observation, flat=True)
        return self._joined([each for each, _ in found], observation), _states([part for _, part in found])

    def last_value(self, trajectory: Trajectory) -> Tensor:
        """Calls the members' `last_value`, and gives each row what the network of its agent's group says."""
        pairs = self._paired(trajectory.recurrent_state)
        found = [each.last_value(trajectory._replace(recurrent_state=part)) for each, part in pairs]
        return self._joined(found, {"agent": trajectory.observation["agent"][-1]})

    def _paired(self, state: Nest) -> list[tuple[Any, Nest]]:
        return list(zip(self.members, state or [()] * len(self.members), strict=True))

    def _joined(self, found: list[Any], observation: Nest, flat: bool = False) -> Any:
        """Of each row what its group's network says; rows are flat where observations are [T, B, ...]."""
        agent = tf.argmax(observation["agent"], -1, output_type=tf.int32)
        group = tf.gather(tf.constant(self._group_of), tf.reshape(agent, [-1]) if flat else agent)
        if not isinstance(found[0], ActorCriticOutput):
            return self._chosen(found, group)
        states = _states([each.state for each in found])
        parameters, value = (
            self._chosen(list(each), group) for each in zip(*(each[:3:2] for each in found), strict=True)
        )
        log_std = None
        if found[0].log_std is not None:  # of each row, as all else
            rows = [each.log_std + tf.zeros_like(each.parameters) for each in found]
            log_std = self._chosen(rows, group)
        auxiliary = None
        if found[0].auxiliary_value is not None:
            auxiliary = self._chosen([each.auxiliary_value for each in found], group)
        return ActorCriticOutput(parameters, log_std, value, states, auxiliary)

    def _chosen(self, found: list[Tensor], group: Tensor) -> Tensor:
        before, after = [1] * self._axis, [1] * (found[0].shape.rank - self._axis - group.shape.rank)
        group = tf.reshape(group, [*before, *group.shape, *after])
        chosen = found[0]
        for i, each in enumerate(found[1:], 1):
            chosen = tf.where(group == i, each, chosen)
        return chosen


def _states(states: list[Nest]) -> Nest:
    return tuple(states) if tf.nest.flatten(states) else ()
