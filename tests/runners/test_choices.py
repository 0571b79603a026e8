"""What `compile=auto` and `act_backend=auto` choose, by what the networks are made of."""

from __future__ import annotations

import pytest
from gymnasium import spaces

from rl.agents.algos.registry import get_algo
from rl.hparams.merge import resolve
from rl.runners.actor import Actor
from rl.runners.parts import compile_mode

PICTURE = spaces.Box(0, 255, (36, 36, 1), "uint8")


def make(space, **model):
    hparams = resolve("ppo", {"env": "Test-v0", "model": {"hidden": (4,), **model}})
    return get_algo("ppo")(hparams, space, spaces.Discrete(2), 0)


@pytest.mark.parametrize(
    ("model", "in_graph", "mode", "backend"),
    [
        ({"name": "mlp"}, False, "xla", "litert"),
        ({"name": "nature_cnn"}, False, "graph", "compiled"),
        ({"name": "impala_cnn", "filters": (2,)}, False, "graph", "compiled"),
        ({"name": "lstm"}, False, "graph", "compiled"),  # sees pictures through model.image
        ({"name": "minatar_cnn"}, False, "xla", "litert"),  # its convolutions are matrix products
        ({"name": "nature_cnn"}, True, "xla", None),
    ],
)
def test_convolutions_are_left_to_tensorflows_own_kernels(model, in_graph, mode, backend):
    agent = make(PICTURE, **model)
    assert compile_mode(agent, in_graph) == mode
    if backend is not None:
        assert Actor(agent, 2, training=True, seed=0).backend == backend


def test_what_is_asked_for_is_taken():
    agent = make(PICTURE, name="nature_cnn")
    assert Actor(agent, 2, training=True, seed=0, backend="litert").backend == "litert"
    hparams = resolve("ppo", {"env": "Test-v0", "compile": "xla", "model": {"name": "nature_cnn"}})
    assert compile_mode(get_algo("ppo")(hparams, PICTURE, spaces.Discrete(2), 0), False) == "xla"
