"""The optimizers that hparams may name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from rl.agents.guard import current, unless_closed
from rl.types import Tensor

# Names are given: Keras would number them, and a run that was the second in its process could not be resumed.
OPTIMIZERS: dict[str, Any] = {
    "adam": lambda rate, hparams: _local(keras.optimizers.Adam, _adam_step)(
        rate, epsilon=hparams.adam_epsilon, name="adam"
    ),
    "adamw": lambda rate, hparams: _local(keras.optimizers.AdamW, _adam_step)(
        rate, weight_decay=hparams.weight_decay, epsilon=hparams.adam_epsilon, name="adamw"
    ),
    "rmsprop": lambda rate, hparams: _local(keras.optimizers.RMSprop)(
        rate, rho=0.99, epsilon=hparams.adam_epsilon, name="rmsprop"
    ),
    "sgd": lambda rate, hparams: _local(keras.optimizers.SGD)(rate, name="sgd"),
}
# Names of the variables that weight decay applies to: not biases, scales, noise, log_std, log_temperature.
KERNELS = ("kernel", "recurrent_kernel")


def _step(optimizer: Any, gradients: list[Tensor], variables: list[Any], learning_rate: Tensor) -> None:
    for gradient, variable in zip(gradients, variables, strict=True):
        optimizer.update_step(gradient, variable, learning_rate)


def _adam_step(optimizer: Any, gradients: list[Tensor], variables: list[Any], learning_rate: Tensor) -> None:
    """Makes the same step as Keras's Adam, to the bit (Kingma & Ba 2015, section 2), with half the
    operations: terms that do not depend on the variable are computed once."""
    count = tf.cast(optimizer.iterations + 1, tf.float32)
    rest_1, rest_2 = (1.0 - tf.pow(tf.constant(beta), count) for beta in (optimizer.beta_1, optimizer.beta_2))
    rate = tf.convert_to_tensor(learning_rate) * tf.sqrt(rest_2) / rest_1
    # Where the step is not to be made, these are 0 and so is all that is added.
    factors = tf.stack([rate, tf.constant(1 - optimizer.beta_1), tf.constant(1 - optimizer.beta_2)])
    guard, zero = current(), tf.constant(0.0)
    closed = None if guard is None else guard.closed
    rate, first, second = tf.unstack(factors if closed is None else tf.where(closed, zero, factors))
    epsilon = tf.constant(optimizer.epsilon)
    for gradient, variable in zip(gradients, variables, strict=True):
        gradient = gradient if closed is None else tf.where(closed, zero, gradient)
        place = optimizer._get_variable_index(variable)
        # TensorFlow's variables, not Keras's around them: a third of the operations.
        mean, square = optimizer._momentums[place].value, optimizer._velocities[place].value
        mean.assign_add((gradient - mean) * first)
        square.assign_add((tf.square(gradient) - square) * second)
        variable.value.assign_sub(mean * rate / (tf.sqrt(square) + epsilon))


def _local(optimizer: type, step: Callable[..., None] = _step) -> type:
    """Returns an optimizer class whose devices each apply the step by themselves.

    Keras sums gradients over devices and waits for all of them, which does not work inside a loop. Here the
    gradients are the same on all devices already (`rl.parallel.replicas`). So is the weight decay, which
    Keras would apply once for each device. The `Guard` of the current update checks the gradients, and may
    prevent the step."""

    def decay(self: Any, variables: list[Any]) -> None:
        if not self.weight_decay:
            return
        rate = tf.convert_to_tensor(self.learning_rate)
        for variable in variables:
            if self._use_weight_decay(variable):
                change = rate * self.weight_decay * tf.convert_to_tensor(variable)
                variable.assign_sub(unless_closed(change, 0.0))

    def assign(self: Any, variable: Any, value: Tensor) -> None:
        variable.assign(unless_closed(tf.cast(value, variable.dtype), variable))

    def assign_add(self: Any, variable: Any, value: Tensor) -> None:
        variable.assign_add(unless_closed(tf.cast(value, variable.dtype), 0))

    def assign_sub(self: Any, variable: Any, value: Tensor) -> None:
        variable.assign_sub(unless_closed(tf.cast(value, variable.dtype), 0))

    def apply(self: Any, grads: Any, trainable_variables: Any = None, norm: Any = None) -> None:
        """As Keras's. norm: of the gradients, before they were clipped, where it is known."""
        guard = current()
        if guard is not None:
            guard.note_gradient(self.part, grads, norm)
        optimizer.apply(self, grads, trainable_variables)  # type: ignore[attr-defined]
        if guard is not None:  # Keras counts all steps
            self.iterations.assign_sub(tf.cast(guard.closed, self.iterations.dtype))

    def note_loss(self: Any, metrics: Any, flags: Tensor) -> None:
        """Says which metrics of a loss are NaN or infinite, whose gradients come next."""
        guard = current()
        if guard is not None:
            guard.note_loss(self.part, metrics, flags)

    methods: dict[str, Any] = {"_backend_update_step": step, "_apply_weight_decay": decay, "apply": apply}
    methods |= {"assign": assign, "assign_add": assign_add, "assign_sub": assign_sub}
    methods |= {"note_loss": note_loss, "part": ""}  # part: what the guard calls this one
    return type(optimizer.__name__, (optimizer,), methods)
