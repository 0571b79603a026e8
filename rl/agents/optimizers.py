"""The optimizers that hparams may name."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from rl.types import Tensor

# Named, or Keras would number them, and a run that was the second in its process could not be resumed.
OPTIMIZERS: dict[str, Any] = {
    "adam": lambda rate, hparams: _local(keras.optimizers.Adam)(
        rate, epsilon=hparams.adam_epsilon, name="adam"
    ),
    "adamw": lambda rate, hparams: _local(keras.optimizers.AdamW)(
        rate, weight_decay=hparams.weight_decay, epsilon=hparams.adam_epsilon, name="adamw"
    ),
    "rmsprop": lambda rate, hparams: _local(keras.optimizers.RMSprop)(
        rate, rho=0.99, epsilon=hparams.adam_epsilon, name="rmsprop"
    ),
    "sgd": lambda rate, hparams: _local(keras.optimizers.SGD)(rate, name="sgd"),
}
# What weight decay is for, by the variables' names: not biases, scales, noise, log_std, log_temperature.
KERNELS = ("kernel", "recurrent_kernel")


def _local(optimizer: type) -> type:
    """Keras sums gradients over devices and waits for all of them, which no loop allows: here each device
    takes the step by itself, with gradients that are the same on all (`rl.parallel.replicas`). Likewise the
    weight decay, which Keras's would make on all devices, once for each."""

    def update(self: Any, gradients: list[Tensor], variables: list[Any], learning_rate: Tensor) -> None:
        for gradient, variable in zip(gradients, variables, strict=True):
            self.update_step(gradient, variable, learning_rate)

    def decay(self: Any, variables: list[Any]) -> None:
        if not self.weight_decay:
            return
        rate = tf.convert_to_tensor(self.learning_rate)
        for variable in variables:
            if self._use_weight_decay(variable):
                variable.assign_sub(rate * self.weight_decay * tf.convert_to_tensor(variable))

    methods = {"_backend_update_step": update, "_apply_weight_decay": decay}
    return type(optimizer.__name__, (optimizer,), methods)
