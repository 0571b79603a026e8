"""How target networks follow the networks that learn."""

from __future__ import annotations

import keras
import tensorflow as tf

from rl.agents.guard import unless_closed
from rl.types import Tensor


def copy_weights(online: keras.Model, target: keras.Model, tau: float | Tensor) -> None:
    """Moves targets: target <- tau * online + (1 - tau) * target, for all trainable variables."""
    stays = unless_closed(tf.convert_to_tensor(1.0 - tau, tf.float32), 1.0)
    comes = unless_closed(tf.convert_to_tensor(tau, tf.float32), 0.0)
    for source, copy in zip(online.trainable_variables, target.trainable_variables, strict=True):
        copy.assign(stays * copy + comes * source)  # exact at tau = 0 and 1, by rounding too


def update_target(online: keras.Model, target: keras.Model, updates: Tensor, period: int, tau: float) -> None:
    """Moves the target network by `tau` in every `period`-th of `updates`."""
    if period == 1:
        copy_weights(online, target, tau)
        return
    due = tf.cast(updates % period == 0, tf.float32)
    # A blend with weight 0 leaves the target as it is; cheaper for XLA than a conditional.
    copy_weights(online, target, due * tau)
