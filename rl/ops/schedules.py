"""Values that change over training: of environment steps here, of gradient updates for learning rates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf

from rl.types import Tensor

if TYPE_CHECKING:
    from rl.hparams.hparams import HParams


def linear(step: Tensor, start: float, end: float, steps: int) -> Tensor:
    """From `start` at step 0 to `end` at `steps`, then constant. float32 scalar."""
    progress = tf.minimum(tf.cast(step, tf.float32) / float(max(steps, 1)), 1.0)
    return start + progress * (end - start)


def learning_rate(hparams: HParams, updates: int, lr: float | None = None) -> Any:
    """Keras's own schedule named by `hparams.lr_schedule`, over `updates` gradient updates in total.

    It starts at `lr`, default `hparams.lr`.
    """
    import keras

    schedules = keras.optimizers.schedules
    steps = max(updates, 1)
    start = hparams.lr if lr is None else lr
    end = hparams.lr_end if lr is None else hparams.lr_end * lr / hparams.lr
    match hparams.lr_schedule:
        case "constant":
            return start
        case "linear":
            return schedules.PolynomialDecay(start, steps, end, power=1.0)
        case "polynomial":
            return schedules.PolynomialDecay(start, steps, end, power=hparams.lr_power)
        case "exponential":
            return schedules.ExponentialDecay(start, steps, hparams.lr_decay_rate)
        case "cosine":
            return schedules.CosineDecay(start, steps, alpha=hparams.lr_end / hparams.lr)
    raise ValueError(f"unknown lr_schedule {hparams.lr_schedule!r}")
