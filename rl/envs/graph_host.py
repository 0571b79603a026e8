"""In-graph environments made by id, and stepped from the host where there is no other form of them."""

from __future__ import annotations

import inspect
from typing import Any, get_type_hints

import numpy as np
import optree
import tensorflow as tf
from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError

from rl.envs import graph_gym
from rl.envs.graph.base import GraphEnv, check_graph_env
from rl.envs.graph.multi_agent import (
    AgentsView,
    MultiAgentEnv,
    TurnGame,
    agents_view,
    check_multi_agent_env,
)
from rl.envs.graph.opponents import versus
from rl.envs.graph.versus import Versus
from rl.envs.gym_host import UNLIMITED
from rl.envs.host import HostEnv, HostStep, Told
from rl.envs.registry import get_env
from rl.errors import UsageError, nearest, where_raised
from rl.hparams.league import SELF
from rl.ops import random
from rl.types import Nest

_ARGUMENTS = ("num_envs", "max_episode_steps")


def make_graph(
    env_id: str, num_envs: int, env_kwargs: dict[str, Any], max_episode_steps: int | None, view: str = "rows"
) -> GraphEnv:
    """Returns the in-graph environment of that id; one of many agents in that view
    (`rl.envs.agents.VIEWS`), a game for two against the option `opponent` (`rl.envs.graph.versus`); where
    that is `self`, both sides are the learner's, as if there were none.

    Raises:
        UsageError: it has not these options, or lacks what environments must have.
    """
    env_class = get_env(env_id)
    env_kwargs = dict(env_kwargs)
    opponent, opening = "", 0
    if issubclass(env_class, TurnGame) and "opponent" in env_kwargs:
        opponent = str(env_kwargs.pop("opponent"))
        opening = 0 if opponent == SELF else env_kwargs.pop("opening", 0)
    _check_options(env_id, env_class, env_kwargs)
    try:
        env = env_class(num_envs, max_episode_steps, **env_kwargs)
    except UsageError:
        raise
    except Exception as error:  # an option of another type, or out of all bounds
        what = where_raised(error)
        raise UsageError(f"in-graph {env_id} cannot be made with {env_kwargs}: {what}") from error
    if opponent not in ("", SELF):
        return versus(env, opponent, opening, view)
    if isinstance(env, MultiAgentEnv):
        check_multi_agent_env(env_id, env)
        return agents_view(env, view)
    check_graph_env(env_id, env)
    graph_env: GraphEnv = env
    return graph_env


def _check_options(env_id: str, env_class: type[GraphEnv], env_kwargs: dict[str, Any]) -> None:
    """Raises UsageError for an option that the class has not, or of another type than it is declared with.

    A wrong type may construct well, and fail only where the environment's functions are traced.
    """
    options = [each for each in inspect.signature(env_class).parameters if each not in _ARGUMENTS]
    try:
        declared = get_type_hints(env_class.__init__)
    except (NameError, AttributeError, TypeError):  # a user's own: types that only a type checker imports
        declared = {}
    for key, value in env_kwargs.items():
        if key not in options:
            hint = nearest(key, options) if options else "it takes none"
            raise UsageError(f"in-graph {env_id} has no option {key!r}: {hint} (or take env_backend gym)")
        try:
            adapter = TypeAdapter(declared.get(key, Any))
        except PydanticUserError:  # a type that only its owner can check
            continue
        try:
            # Strictly, an int is a float and no text is a number; a list stands for any sequence.
            adapter.validate_python(value, strict=not isinstance(value, list))
        except ValidationError as error:
            said = error.errors()[0]["msg"]
            raise UsageError(f"in-graph {env_id}: option {key} cannot be {value!r}: {said}") from error


class GraphHost(HostEnv):
    """A `HostEnv` of an in-graph environment: B copies, stepped by one compiled function.

    For evaluation of environments that Gymnasium has not; what has no limit is cut as Gymnasium's is.
    `reset(seed)` starts all copies from that seed, and the n-th step after it draws from
    `random.fold_in(random.key(seed), n)`.

    Args:
        env: of B rows.
    """

    backend = "graph"

    def __init__(self, env: GraphEnv):
        if env.max_episode_steps is None:
            env.max_episode_steps = self.step_limit = UNLIMITED
        self.env, self.num_envs = env, env.num_envs
        self.observation_space, self.action_space = env.observation_space, env.action_space
        self.agents, self.team_share = env.agents, env.team_share
        self.encode = lambda action: action
        self._start: Any = None
        self._move: Any = None
        self._state: Any = None
        self._moved: Any = None  # the structure of what a compiled step returns
        self._key: Any = None
        self._count = 0
        self._told: Told | None = None

    def reset(self, seed: int) -> Nest:
        """Starts episodes in all B copies from that seed; returns observation [B, ...]."""
        self._key, self._count = random.key(seed), 0
        if self._start is None:
            self._start = tf.function(self.env.reset, jit_compile=graph_gym.BY_XLA, autograph=False)
        self._state, step = self._start(self._key)
        return _arrays(step.observation)

    def step(self, action: Nest) -> HostStep:
        """Steps all B copies once by the compiled function; returns what `HostEnv.step` says. `reset` comes
        first."""
        assert self._start is not None, "reset comes first"
        action = tf.constant(np.asarray(action), self.action_space.dtype)
        inputs = [*tf.nest.flatten(self._state), action, self._key, tf.constant(self._count)]
        if self._move is None:
            self._move = self._compiled(inputs)
        outputs = self._move(*inputs)
        self._count += 1
        self._state, step, info = tf.nest.pack_sequence_as(self._moved, outputs)
        reward, terminated, truncated = (_arrays(each) for each in step[1:])
        if info and self._told is not None:
            numbers = _arrays(info)  # [B] each
            for i in np.flatnonzero(terminated | truncated):
                self._told(int(i), {name: each[i] for name, each in numbers.items()})
        return _arrays(step.observation), reward, terminated, truncated

    def tell_ends(self, told: Told) -> None:
        """Calls `told` from now on where an episode ends, with the number of its copy and what
        `GraphEnv.info` says of its last step, numbers by name; never where that says nothing."""
        self._told = told

    def _compiled(self, inputs: list[Any]) -> Any:
        """Returns a step as a function of tensors, not of nests, in which TensorFlow would look for changes
        at every call; that takes longer than the step."""

        def move(*flat: Any) -> list[Any]:
            *leaves, action, key, count = flat
            state = tf.nest.pack_sequence_as(self._state, leaves)
            state, step = self.env.step(state, action, random.fold_in(key, count))
            moved = state, step, self.env.info(state)
            self._moved = tf.nest.map_structure(lambda _: 0, moved)
            return tf.nest.flatten(moved)

        specs = [tf.TensorSpec(each.shape, each.dtype) for each in inputs]
        by_xla = graph_gym.BY_XLA
        return tf.function(move, specs, jit_compile=by_xla, autograph=False).get_concrete_function()

    def render(self) -> np.ndarray:
        """Returns the picture of the first copy, uint8 [H, W, 3]. Raises UsageError where the environment
        draws none."""
        if not isinstance(self.env, AgentsView | Versus):
            raise UsageError(f"{type(self.env).__name__} draws no pictures")
        return self.env.draw(self._state)

    def close(self) -> None:
        """Does nothing: there is nothing to free."""


def _arrays(nest: Nest) -> Nest:
    """The same in numpy."""
    return optree.tree_map(lambda each: each.numpy(), nest)
