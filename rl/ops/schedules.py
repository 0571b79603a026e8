"""Values that change over training, as functions of environment steps (updates may be left out)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import tensorflow as tf

from rl.types import Tensor

if TYPE_CHECKING:
    from rl.hparams.hparams import HParams


def linear(step: Tensor, start: float, end: float, steps: int) -> Tensor:
    """From `start` at step 0 to `end` at `steps`, then constant. float32 scalar."""
    progress = tf.minimum(tf.cast(step, tf.float32) / float(max(steps, 1)), 1.0)
    return start + progress * (end - start)


def learning_rate(hparams: HParams, step: Tensor, lr: float | None = None) -> Tensor:
    """The learning rate at `step` environment steps, by `hparams.lr_schedule`. float32 scalar.

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
