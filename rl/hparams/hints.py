"""What is allowed but hardly meant: hparams with which a run learns nothing, or not from what it sees.

Each hint is one line, to be said once, before training begins. A value that must not be is refused instead,
by `check`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from rl.hparams.effects import without_effect
from rl.hparams.merge import explicit
from rl.spaces import channels_first

# Wrappers of Gymnasium, and the hyperparameters that do the same.
NORMALISERS = {"NormalizeObservation": "normalize_observation", "NormalizeReward": "normalize_reward"}
NATURE_LEAST = 36  # pixels of a side that the convolutions of nature_cnn need
ROUNDED = 0.02  # of train_steps: what more the last iteration may make without a word
PICTURE_LEAST = 10  # of MinAtar's boards; what is smaller is rather a table than a picture


def hints(hparams: Any) -> list[str]:
    """Returns what there is to say of hparams alone, which are an algorithm's own class."""
    looks = (
        _rounded_up,
        _seldom_evaluated,
        _nothing_learned,
        _all_random,
        _target_stays,
        _no_phase,
        _advantages_vanish,
        _support,
        _hardly_stopped,
        _normalises_apart,
    )
    found = (look(hparams) for look in looks)
    return [*(hint for hint in found if hint is not None), *without_effect(hparams)]


def _hardly_stopped(hparams: Any) -> str | None:
    """Says that nothing can end the training early where evaluations are at its end alone."""
    if hparams.stop_at_return is None or 0 < hparams.eval_period < hparams.train_steps:
        return None
    return f"stop_at_return={hparams.stop_at_return:g} is asked at the end alone: take an eval_period"


def _normalises_apart(hparams: Any) -> str | None:
    """Says that Gymnasium's normalising wrappers begin anew in every evaluation, and are in no checkpoint."""
    for name in hparams.env_wrappers:
        own = NORMALISERS.get(name.rpartition(":")[2]) if name.startswith("gymnasium.") else None
        if own is not None:
            return (
                f"env_wrappers: {name} keeps statistics in every environment, which evaluations and "
                f"checkpoints do not have, so that returns are wrong there: take {own}=true in its place"
            )
    return None


def picture_hint(hparams: Any, observation_space: spaces.Space) -> str | None:
    """Says that pictures go through dense layers alone, where that is hardly meant.

    Pictures are bytes [H, W, C], also as parts of an observation: large ones, or small ones where neither a
    set nor the user chose the model. (MinAtar's boards are no bytes.) Large ones may be of other numbers, or
    bytes [H, W].
    """
    if hparams.model.name != "mlp":
        return None
    for height, width, channels in _pictures(observation_space):
        side = min(height, width)
        if side >= NATURE_LEAST:
            fitting = "nature_cnn or impala_cnn"
        elif side >= PICTURE_LEAST and "model.name" not in explicit(hparams):
            fitting = "impala_cnn or minatar_cnn"
        else:
            continue
        lacking = "" if channels else ", behind a wrapper (env_wrappers) that adds an axis of channels"
        return (
            f"{hparams.env} shows pictures of {height} x {width}, which model mlp takes for lists of "
            f"numbers: take model.name={fitting}{lacking}"
        )
    return None


def action_hint(hparams: Any, action_space: spaces.Space) -> str | None:
    """Says that a policy which begins with actions around 0, of deviation 1 or so, hardly meets the bounds of
    a Box."""
    has_deviation = "log_std_init" in type(hparams).model_fields and not hparams.adapts
    if not (has_deviation and isinstance(action_space, spaces.Box)):
        return None
    low, high = (each.astype(np.float64) for each in (action_space.low, action_space.high))
    deviation = float(np.exp(hparams.flat()["log_std_init"]))
    # Beside all bounds, or so wide that 1 part in 20 is tried, or so narrow that both bounds are played.
    far = (low >= deviation) | (high <= -deviation) | (high - low > 40 * deviation) & np.isfinite(high - low)
    narrow = (high > low) & (high - low < deviation / 10)
    if not (far | narrow).any():
        return None
    return (
        f"{hparams.algo} begins with actions around 0, of deviation {deviation:g}, where {hparams.env} takes "
        f"{action_space}: bring them to [-1, 1] by a wrapper (gymnasium.wrappers.RescaleAction), or take sac"
    )


def updates_of_run(hparams: Any) -> int:
    """Returns the gradient updates that `train_steps` come to with a replay memory, or with epochs over
    rollouts.

    (With workers, whose rollouts have a row more, learning may begin an iteration earlier.)
    """
    if hparams.offline:
        return -(-hparams.train_steps // _updates_per_iteration(hparams)) * _updates_per_iteration(hparams)
    iterations = -(-hparams.train_steps // (hparams.num_envs * hparams.rollout_length))
    return max(iterations - _idle_iterations(hparams), 0) * _updates_per_iteration(hparams)


def _idle_iterations(hparams: Any) -> int:
    """Returns iterations without updates at the start, until what can be sampled is `min_replay_size`."""
    if not hasattr(hparams, "min_replay_size"):
        return 0
    length, least = hparams.rollout_length, max(hparams.min_replay_size, 1)
    transitions = hparams.memory_name in ("uniform", "prioritized", "hindsight")
    if hasattr(hparams, "burn_in") and not transitions:
        # Sequences: rollouts count, once whole sequences begin with them.
        span = -(-(hparams.burn_in + hparams.unroll_length + 1) // length)
        return -(-least // (length * hparams.num_envs)) + span - 2
    rows = -(-least // hparams.num_envs) + hparams.n_step  # the newest cannot be sampled yet
    return -(-rows // length) - 1


def text_hint(env: str, parts: Sequence[str]) -> str | None:
    """Says which parts of the observations the agent does not see; None where there are none."""
    if not parts:
        return None
    return f"{env}: {', '.join(parts)} of its observations is text and left out (env_wrappers may encode it)"


def task_hint(hparams: Any, has_tasks: bool) -> str | None:
    """Says that an algorithm that adapts to tasks is to play an environment that is but one."""
    if not hparams.adapts or has_tasks:
        return None
    return (
        f"{hparams.env} is always the same task, which leaves {hparams.algo} nothing to adapt to: take an "
        "environment whose tasks are drawn (docs/environments.md), or another algorithm"
    )


def _updates_per_iteration(hparams: Any) -> int:
    """Returns what the algorithms' method of that name does, which takes TensorFlow to ask."""
    if hasattr(hparams, "updates_per_iteration"):
        return hparams.updates_per_iteration
    return getattr(hparams, "epochs", 1) * getattr(hparams, "minibatches", 1)


def _rounded_up(hparams: Any) -> str | None:
    if hparams.offline:
        return None
    # Workers that make each rollout together divide the environments; several learners have as many each.
    learners = 1 if hparams.sync_workers else hparams.num_learners
    steps = learners * hparams.num_envs * hparams.rollout_length
    made = -(-hparams.train_steps // steps) * steps
    if made <= (1 + ROUNDED) * hparams.train_steps:
        return None
    return (
        f"train_steps={hparams.train_steps} will be {made}: iterations are made whole, and one is "
        f"{'num_learners * ' if learners > 1 else ''}num_envs * rollout_length = {steps} steps"
    )


def _seldom_evaluated(hparams: Any) -> str | None:
    period, rows = hparams.eval_period, min(hparams.log_period, hparams.train_steps)
    if not 0 < period < rows:
        return None
    return (
        f"eval_period={period} will be {rows}: evaluations are made where a row of metrics is written, every "
        f"log_period={hparams.log_period} steps: lower that, too"
    )


def _nothing_learned(hparams: Any) -> str | None:
    if updates_of_run(hparams) > 0:
        return None
    return (
        f"nothing will be learned: min_replay_size={hparams.min_replay_size} is not reached within "
        f"train_steps={hparams.train_steps}: lower it, or train longer"
    )


def _all_random(hparams: Any) -> str | None:
    if hparams.offline or getattr(hparams, "random_steps", 0) < hparams.train_steps:
        return None
    return (
        f"every action of training will be random: random_steps={hparams.random_steps} is not below "
        f"train_steps={hparams.train_steps}: lower it, or train longer"
    )


def _target_stays(hparams: Any) -> str | None:
    updates = updates_of_run(hparams)
    if not 0 < updates < getattr(hparams, "target_update_period", 0):
        return None
    return (
        f"the target network will keep its first weights: target_update_period={hparams.target_update_period}"
        f", and train_steps={hparams.train_steps} make {updates} updates: lower it, or train longer"
    )


def _no_phase(hparams: Any) -> str | None:
    """Says that training ends before the first auxiliary phase of phasic policy gradient."""
    needed = getattr(hparams, "policy_iterations", 0)
    made = -(-hparams.train_steps // (hparams.num_envs * hparams.rollout_length))
    if made >= needed:
        return None
    return (
        f"no auxiliary phase will come: policy_iterations={needed}, and train_steps={hparams.train_steps} "
        f"make {made} rollouts: lower it, or train longer"
    )


def _advantages_vanish(hparams: Any) -> str | None:
    """Says that the advantage of a single step is 0 once the mean has been taken off."""
    if not getattr(hparams, "normalize_advantage", False):
        return None
    parts = 1
    if hasattr(hparams, "clip_range"):  # PPO and related algorithms, which do so in each part of a rollout
        parts = hparams.minibatches * (hparams.microbatches if hparams.grad_comp == "accumulate" else 1)
    if hparams.num_envs * hparams.rollout_length > parts:
        return None
    return (
        f"the policy will not learn: normalize_advantage=true takes the mean off the advantages of "
        f"{'a minibatch' if parts > 1 else 'a rollout'}, which has a single step: make it larger, or take "
        "normalize_advantage=false"
    )


def _support(hparams: Any) -> str | None:
    """Says what returns are told apart, where nobody chose it. The papers did for rewards of -1, 0 and 1, and
    scaled rewards make returns of that size."""
    names = ("value_min", "value_max")
    fits = hparams.normalize_reward or hparams.reward_augmentation == "clip_sign"
    if fits or not all(hasattr(hparams, name) for name in names):
        return None
    if not explicit(hparams).keys().isdisjoint(names):
        return None
    return (
        f"{hparams.algo} distributes returns over [{hparams.value_min:g}, {hparams.value_max:g}], the "
        f"default: give value_min and value_max for {hparams.env}"
    )


def _pictures(space: spaces.Space) -> Iterator[tuple[int, ...]]:
    """Returns shapes [H, W, C] of what may be pictures in an observation; C is 0 where that axis lacks."""
    if isinstance(space, spaces.Dict):
        for each in space.spaces.values():
            yield from _pictures(each)
    elif isinstance(space, spaces.Tuple):
        for each in space.spaces:
            yield from _pictures(each)
    elif isinstance(space, spaces.Box) and len(space.shape) in (2, 3):
        shape = space.shape if len(space.shape) == 3 else (*space.shape, 0)
        if len(space.shape) == 3 and channels_first(shape):
            shape = (*shape[1:], shape[0])
        large, of_bytes = min(shape[:2]) >= NATURE_LEAST, space.dtype == np.uint8
        if (large or of_bytes) if shape[2] else (large and of_bytes):
            yield shape
