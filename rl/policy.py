"""A trained policy, as `rl.load` returns it: called with observations it gives actions."""

from __future__ import annotations

import contextlib
import functools
import numbers
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import create_empty_array

from rl.agents.agent import Agent, network_state
from rl.envs.host import HostEnv, Purpose, action_encoder, purpose_seed
from rl.envs.make import eval_envs_of
from rl.envs.own import as_given, given_function
from rl.envs.wrappers import PREVIOUS_ACTION, PREVIOUS_REWARD, previous_action
from rl.errors import UsageError
from rl.runners.actor import Actor
from rl.runners.evaluate import Evaluation, Evaluator
from rl.runners.judge import Judge, Judgement
from rl.runners.recording import policy_recorder
from rl.spaces import ACTION_MASK
from rl.types import Nest

ACTORS = 4  # compiled policies that a `Policy` keeps, of the batch sizes it was last called with


class Policy:
    """A trained policy: called with an observation, or a batch of them, it returns actions, as its hparam
    `eval_policy` says: its best ones, or ones drawn from its distribution, the same in the same calls.

    Observations and actions are those of the environment that it was trained for, pictures stacked where it
    was trained on stacks: the last `frame_stack` ones along the last axis, oldest first. A recurrent policy
    remembers what it was called with; `reset` begins a new episode. Several threads may call it: each
    waits for the one before.
    """

    def __init__(self, agent: Agent[Any], origin: dict[str, Any] | None = None):
        self.agent = agent
        self.origin = {"name": None, "address": "", **(origin or {})}  # of `policy_recorder`
        self._actors: dict[int, Actor] = {}
        self._last: dict[int, Nest] = {}  # the agent's actions, by batch size, where observations tell them
        self._judge: Judge | None = None
        self._calls = 0  # each with random numbers of its own
        self._lock = threading.Lock()  # an actor has one place for its inputs, and one memory
        self._env = given_function(agent.hparams.env)  # whose name another function may be given by later

    @functools.cached_property
    def encode(self) -> Callable[[Nest], Nest]:
        """A function from the agent's actions to those that the environment takes."""
        envs = self.environments(1)
        if envs is None:
            return action_encoder(self.agent.action_space)
        with contextlib.closing(envs):
            return envs.encode

    def __call__(
        self, observation: Nest, batched: bool = False, action_mask: Any = None, reward: Any = None
    ) -> Nest:
        """Returns the action for one observation, or `[N, ...]` actions for `[N, ...]` observations if
        `batched`.

        reward: a number, or [N], that the action before was rewarded with; of a policy that was trained with
            `previous_action_reward`, which is told its own last action too. Not where an episode begins.

        action_mask: [A], or [N, A]: 0 for discrete actions that are illegal, as the environment's
            `info["action_mask"]` says where its observations do not; None: all are legal.

        Raises:
            ValueError: the observation has not the parts, the shape or the numbers of the environment's
                (pictures that are scaled already, NaN), or a mask or a reward is given to a policy that was
                trained without.
        """
        import tensorflow as tf

        with self._lock:
            batch, tells = self._batch_of(observation, batched, action_mask, reward)
            count = _count(batch)
            actor = self._actors.pop(count, None)
            if actor is None:
                sampled = self.agent.hparams.eval_policy == "sample"
                actor = Actor(self.agent, count, training=False, seed=0, sampled=sampled)
            self._actors[count] = actor  # the newest last
            if len(self._actors) > ACTORS:
                del self._actors[next(iter(self._actors))]
            actor.begin(self._calls, 1)
            self._calls += 1
            chosen = actor(batch, 0, 0)[0]
            if tells:
                self._last[count] = chosen
        action = self.encode(chosen)
        return action if batched else tf.nest.map_structure(lambda x: x[0], action)

    def scores(
        self, observation: Nest, batched: bool = False, action_mask: Any = None, reward: Any = None
    ) -> np.ndarray:
        """Returns how good each discrete action is, float32 [A], or [N, A] if `batched`: its value where the
        algorithm learns values of actions, else the logarithm of its probability; -inf where it is illegal.

        Takes what a call takes. It is no step: what a recurrent policy remembers stays as it is.

        Raises:
            ValueError: as a call; or the actions are not discrete, or the policy does not rate them.
        """
        scores = self._judged(observation, batched, action_mask, reward).scores
        if scores is None:
            raise ValueError(f"{self._named()} has no scores of actions")
        return scores if batched else scores[0]

    def value(
        self, observation: Nest, batched: bool = False, action_mask: Any = None, reward: Any = None
    ) -> Any:
        """Returns the return that is expected from here on, a float, or float32 [N] if `batched`: the value
        of the state, or of its best legal action, that was learned. It is discounted, and of the rewards that
        the algorithm learns from (`normalize_reward`, `reward_augmentation`).

        Takes what a call takes. It is no step: what a recurrent policy remembers stays as it is.

        Raises:
            ValueError: as a call; or neither was learned, as where critics judge continuous actions.
        """
        value = self._judged(observation, batched, action_mask, reward).value
        if value is None:
            raise ValueError(f"{self._named()} has no values of states")
        return value if batched else float(value[0])

    def refresh(self) -> None:
        """Takes over the agent's weights of now, where it is still trained (`rl.Callbacks.on_start`)."""
        with self._lock:
            for actor in self._actors.values():
                actor.sync()

    def _named(self) -> str:
        return f"{self.agent.hparams.algo}, for actions in {self.agent.action_space},"

    def _judged(self, observation: Nest, batched: bool, action_mask: Any, reward: Any) -> Judgement:
        """Judges observations, by what a recurrent policy remembers of as many."""
        import tensorflow as tf

        with self._lock:
            batch, _ = self._batch_of(observation, batched, action_mask, reward)
            count = _count(batch)
            state = network_state(self.agent.initial_state(count))
            if count in self._actors and tf.nest.flatten(state):
                state = tf.nest.pack_sequence_as(state, self._actors[count].network_state)
            if self._judge is None:
                self._judge = Judge(self.agent)
            return self._judge(batch, state)

    def _batch_of(self, observation: Nest, batched: bool, mask: Any, reward: Any) -> tuple[Nest, bool]:
        """Makes arrays [N, ...] of what a call is given; and says whether the policy is told its last action
        by `Policy`. Raises ValueError as a call."""
        space, parts = self.agent.observation_space, _parts(observation)
        tells = self.agent.hparams.previous_action_reward and PREVIOUS_ACTION not in parts
        if tells:
            observation, rest = parts, (PREVIOUS_ACTION, PREVIOUS_REWARD)
            space = spaces.Dict({name: each for name, each in space.items() if name not in rest})
        elif reward is not None:
            raise ValueError("leave reward out: observations say it, or the policy was trained without")
        batch = _masked_batch(space, observation, batched, mask)
        if len(counts := {len(each) for each in _arrays(batch)}) > 1:
            raise ValueError(f"an observation's parts, and its mask, must be as many: not {sorted(counts)}")
        return (batch | self._before(_count(batch), reward) if tells else batch), tells

    def _before(self, count: int, reward: Any) -> dict[str, Nest]:
        """Returns the parts of `count` observations that tell of the step before."""
        space, begins = self.agent.action_space, count not in self._last
        if begins != (reward is None):
            raise ValueError(
                "this policy observes the reward of its action before: give reward=, but not where an "
                "episode begins (`reset`)"
            )
        last = create_empty_array(space, count) if begins else self._last[count]
        action = previous_action(space, last, np.full(count, begins))
        told = np.zeros(count, np.float32) if begins else np.asarray(reward, np.float32)
        return {PREVIOUS_ACTION: action, PREVIOUS_REWARD: told.reshape(count, 1)}

    def environments(self, count: int) -> HostEnv | None:
        """Returns `count` environments as evaluation plays them; None for a policy that was trained without
        one."""
        with as_given(self.agent.hparams.env, self._env):
            return eval_envs_of(self.agent.hparams, count) if self.agent.hparams.env else None

    def reset(self) -> None:
        """Begins new episodes: forgets what a recurrent policy remembers, and the last action."""
        with self._lock:
            self._last.clear()
            for actor in self._actors.values():
                actor.forget()

    def evaluate(
        self, episodes: int = 10, seed: int = 0, record_data: str | Path | None = None
    ) -> Evaluation:
        """Plays whole episodes on the Gymnasium environment it was trained for.

        record_data: the folder of a data set to which they are added (`rl.data`).
        seed: which episodes: others for each seed, and none that training evaluated or tested.

        Raises:
            UsageError: episodes is no whole number from 1 on, or seed none from 0 on; or it learned from
                data, and of no environment that could be played.
        """
        check_integers(("episodes", episodes, 1), ("seed", seed, 0))
        if not self.agent.hparams.env:
            raise UsageError("there is no environment to evaluate in: load it with env=")
        own = as_given(self.agent.hparams.env, self._env)
        with own, contextlib.closing(Evaluator(self.agent, episodes)) as evaluator:
            if record_data is None:
                return evaluator.run(purpose_seed(Purpose.USER, seed))
            who = {**self.origin, "seed": seed}
            with policy_recorder(str(record_data), self.agent, **who) as recorder:
                recorder.begin()
                return evaluator.run(purpose_seed(Purpose.USER, seed), recorder=recorder)


def _arrays(batch: Nest) -> list[np.ndarray]:
    import tensorflow as tf

    return list(tf.nest.flatten(batch))


def _count(batch: Nest) -> int:
    """Returns the N of arrays [N, ...]."""
    return len(_arrays(batch)[0])


def _parts(observation: Nest) -> Mapping[str, Nest]:
    """Returns an observation by its parts, of which there is one where it is no Dict's."""
    return observation if isinstance(observation, Mapping) else {"observation": observation}


def _masked_batch(space: spaces.Space, observation: Nest, batched: bool, mask: Any) -> Nest:
    """Makes what `_batch` does, with the mask among its parts where the environment says it in its info
    alone: so `rl.envs.wrappers.ActionMask` gave it to the agent in training."""
    of_mask = space.spaces.get(ACTION_MASK) if isinstance(space, spaces.Dict) else None
    told = isinstance(observation, Mapping) and ACTION_MASK in observation
    if of_mask is None or told:
        if mask is not None:
            raise ValueError("leave action_mask out: observations say it, or the policy was trained without")
        return _batch(space, observation, batched)
    parts = _parts(observation)
    own = spaces.Dict({name: each for name, each in space.spaces.items() if name != ACTION_MASK})
    batch = _batch(own, parts, batched)
    if mask is not None:
        return {**batch, ACTION_MASK: _batch(of_mask, mask, batched)}
    first = next(iter(batch.values()))
    return {**batch, ACTION_MASK: np.ones((_count(first), *of_mask.shape), of_mask.dtype)}


def _batch(space: spaces.Space, observation: Nest, batched: bool) -> Nest:
    """Makes arrays [N, ...] from an observation of `space`, or from a batch of them; lists will do as
    well."""
    if isinstance(space, spaces.Dict):
        given = list(observation) if isinstance(observation, Mapping) else []
        if missing := [name for name in space.spaces if name not in given]:
            raise ValueError(f"an observation is needed that has the parts {missing}, not only {given}")
        return {key: _batch(each, observation[key], batched) for key, each in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        several = len(space.spaces)
        if not isinstance(observation, list | tuple) or len(observation) != several:
            raise ValueError(f"an observation is needed that is a tuple of {several} parts")
        pairs = zip(space.spaces, observation, strict=True)
        return tuple(_batch(each, part, batched) for each, part in pairs)
    wanted = (
        f"an observation of shape {list(('N', *space.shape) if batched else space.shape or ())} is needed"
    )
    try:
        raw = np.asarray(observation)
        with np.errstate(invalid="ignore"):  # NaN as an integer, which is refused below
            array = raw.astype(space.dtype, copy=False)
    except (TypeError, ValueError, OverflowError) as error:  # no array of numbers
        raise ValueError(f"{wanted}, not {type(observation).__name__}: {error}") from error
    if array.shape[1 if batched else 0 :] != space.shape or array.ndim != len(space.shape) + batched:
        several = not batched and array.shape[1:] == space.shape
        raise ValueError(f"{wanted}, not {list(array.shape)}{': give batched=True for several' * several}")
    _check_numbers(space, array, raw)
    return array if batched else array[None]


def _check_numbers(space: spaces.Space, array: np.ndarray, given: np.ndarray) -> None:
    """Raises ValueError where the policy would act on other numbers than those given: on fractions cut off,
    on bytes that ran over, on NaN, on a category that there is not."""
    if array.dtype.kind == "f":
        if np.isnan(array).any():
            raise ValueError("an observation of numbers is needed, it has NaN")
        return
    if given.dtype.kind in "iuf" and not np.array_equal(array, given):
        raise ValueError(
            f"an observation of {space.dtype} is needed, not of {given.dtype} from {given.min():g} to "
            f"{given.max():g}: as the environment gives it, not scaled"
        )
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        count = space.n if isinstance(space, spaces.Discrete) else space.nvec
        if ((array < space.start) | (array >= space.start + count)).any():
            raise ValueError(f"an observation in {space} is needed, not {given.tolist()}")


def check_integers(*given: tuple[str, Any, int]) -> None:
    """Raises UsageError for a value that is no whole number, or below its least: (name, value, least)."""
    for name, value, least in given:
        if not isinstance(value, numbers.Integral) or value < least:
            raise UsageError(f"{name}={value!r}: needs a whole number, at least {least}")
