"""Variables by which a test sees which checkpoint it has, whole."""

from __future__ import annotations

import numpy as np
import tensorflow as tf


def filled(value, size=1000):
    """Variables that all hold `value`."""
    return {
        "policy/kernel": tf.Variable(np.full([size], value, np.float32)),
        "step": tf.Variable(np.int64(value)),
    }


def value_of(variables):
    """What they hold, which is one checkpoint's."""
    values = set(variables["policy/kernel"].numpy().tolist()) | {float(variables["step"].numpy())}
    assert len(values) == 1, f"a mixture of checkpoints: {values}"
    return values.pop()
