"""What a torso is: the layers between an observation's features and a network's heads."""

from __future__ import annotations

import logging
from typing import Any, Protocol, runtime_checkable

import keras
import tensorflow as tf

from rl.errors import UsageError, where_raised
from rl.registry import lacking
from rl.types import Nest, Tensor

_log = logging.getLogger("rl")


@runtime_checkable
class KeepsState(Protocol):
    """A torso, or a network, that carries a state from step to step."""

    def initial_state(self, count: int) -> Nest:
        """Returns the state at the start of `count` episodes: zeros `[count, ...]`; a network's may be ()."""


class TorsoLayer(Protocol):
    """A Keras layer that makes features of an observation."""

    size: int  # width of its output

    def call(self, x: Tensor) -> Tensor:
        """Computes features `[N, size]` of `[N, *inputs]`."""


class RecurrentTorsoLayer(KeepsState, Protocol):
    """A Keras layer that makes features of an observation and of what it has seen before."""

    size: int  # width of its output

    def call(self, x: Tensor, state: Nest) -> tuple[Tensor, Nest]:
        """Computes one step: of `[N, *inputs]` and the state before, `[N, size]` and the state after."""

    def unroll(self, x: Tensor, state: Nest, mask: Tensor) -> tuple[Tensor, Nest]:
        """Computes features along time, `[T, B, size]`, and the state after it all, from `[T, B, *inputs]`
        and the state before.

        mask `[T, B]`: after a step where it is 0, the ignored step of an autoreset, the state starts anew.
        """


def checked_torso(made: Any, name: str, inputs: tuple[int, ...]) -> Any:
    """Returns the torso that the model `name` made for inputs of that shape, built.

    Raises:
        UsageError: it is no Keras layer (whose weights would not be found), lacks what a torso has, or does
            not make features of its `size`.
    """
    if not isinstance(made, keras.layers.Layer):
        raise UsageError(f"model {name} made a {type(made).__name__}, not a Keras layer")
    missing = lacking(made, RecurrentTorsoLayer if isinstance(made, KeepsState) else TorsoLayer)
    if missing:
        raise UsageError(
            f"model {name}: its {type(made).__name__} lacks {', '.join(missing)}: see rl/models/contracts.py"
        )
    if not type(made).__module__.startswith("rl.") and not isinstance(made, KeepsState):
        _try_out(made, name, inputs)
    return made


def _try_out(made: Any, name: str, inputs: tuple[int, ...]) -> None:
    """Calls a torso once, which builds the layers that are not yet: within a compiled function they could
    not be, nor would an optimizer know of their weights."""
    what = f"model {name}: its {type(made).__name__}"
    try:
        found = made(tf.zeros([1, *inputs]))
    except Exception as error:  # whatever a user's layer raises
        raise UsageError(f"{what} fails for inputs of shape {[1, *inputs]}: {where_raised(error)}") from error
    if not tf.is_tensor(found) or found.shape != [1, made.size]:
        shape = found.shape.as_list() if tf.is_tensor(found) else type(found).__name__
        raise UsageError(f"{what} makes {shape} of inputs {[1, *inputs]}, not [1, size] = [1, {made.size}]")
    if made.losses:
        _log.warning(
            "%s has losses of its own (regularizers), which no algorithm adds: take weight_decay", what
        )


def named_variables(owner: str, variables: list[Any]) -> dict[str, Any]:
    """Names Keras variables "owner/layer/weight"; the encoder's are shared by networks and named once."""
    found: dict[str, Any] = {}
    for variable in variables:
        path = "/".join(part for part in variable.path.split("/") if part != owner)
        name = f"{owner}/{path}"
        if path.startswith("encoder/") and owner != "encoder":
            continue
        if name in found:
            raise ValueError(f"two variables are called {name}: give their layers names of their own")
        found[name] = variable
    return found
