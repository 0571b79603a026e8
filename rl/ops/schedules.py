"""Values that change over training, as functions of environment steps (updates may be left out)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from rl.types import Tensor

if TYPE_CHECKING:
    from rl.hparams.hparams import HParams


def linear(step: Tensor, start: float, end: float, steps: int) -> Tensor:
    """Interpolates linearly from `start` at step 0 to `end` at `steps`, constant after that. Returns a
    float32 scalar."""
    progress = tf.minimum(tf.cast(step, tf.float32) / float(max(steps, 1)), 1.0)
    return start + progress * (end - start)


def learning_rate(hparams: HParams, step: Tensor, lr: float | None = None) -> Tensor:
    """Returns the learning rate at `step` environment steps, by `hparams.lr_schedule`: a float32 scalar.

    It starts at `lr`, default `hparams.lr`, and stays as it is after `train_steps`; with another `lr` all of
    it is larger or smaller in proportion. The formulas are those of Keras's schedules at that progress.
    """
    start = hparams.lr if lr is None else lr
    if hparams.lr_schedule == "constant":
        return tf.constant(start, tf.float32)
    end = hparams.lr_end * (start / hparams.lr)
    progress = linear(step, 0.0, 1.0, hparams.train_steps)
    match hparams.lr_schedule:
        case "linear":
            return end + (start - end) * (1.0 - progress)
        case "polynomial":
            return end + (start - end) * (1.0 - progress) ** hparams.lr_power
        case "exponential":
            return start * tf.pow(hparams.lr_decay_rate, progress)
        case "cosine":
            return end + (start - end) * 0.5 * (1.0 + tf.cos(math.pi * progress))
    raise ValueError(f"unknown lr_schedule {hparams.lr_schedule!r}")


def annealed(hparams: HParams, name: str, step: Tensor) -> Any:
    """Returns the hparam `name` at `step` environment steps: a float32 scalar on its straight way to what
    `hparams.anneal` says, where it does; else the hparam itself."""
    start = getattr(hparams, name)
    if name not in hparams.anneal:
        return start
    return linear(step, start, hparams.anneal[name], hparams.train_steps)


class Annealed:
    """Hparams as they are at the present step, for losses, which know of none."""

    def __init__(self, hparams: HParams):
        self.hparams = hparams
        self._now = {name: self._variable(name) for name in hparams.anneal}

    def __call__(self, name: str) -> Any:
        """The hparam `name` at the step of the last `schedule`: a float32 scalar where `hparams.anneal` names
        it, else the hparam itself."""
        now = self._now.get(name)
        return getattr(self.hparams, name) if now is None else tf.convert_to_tensor(now)

    def _variable(self, name: str) -> tf.Variable:
        return tf.Variable(float(getattr(self.hparams, name)), trainable=False, name=name)

    def schedule(self, step: Tensor) -> None:
        """Goes to `step` environment steps, int64 scalar."""
        for name, variable in self._now.items():
            variable.assign(annealed(self.hparams, name, step))

    def scalars(self, step: int) -> dict[str, float]:
        """Returns what is logged of the annealed hparams with every row: `train/NAME` at `step` environment
        steps."""
        return {f"train/{name}": float(annealed(self.hparams, name, step)) for name in self._now}
