"""What networks share beside their layers: names and weights of what Keras makes by itself."""

from __future__ import annotations

import keras
import numpy as np
import pytest

from rl.hparams.merge import resolve
from rl.models.layers import Initializers
from rl.models.registry import registry
from rl.runners.build import build_runner


class Unnamed(keras.Model):
    """Layers without names and initialisers, as a user writes them."""

    def __init__(self, model, inputs, initializers, name):
        super().__init__(name=name)
        self.size = model.hidden[0]
        self.first, self.second = keras.layers.Dense(5), keras.layers.Dense(self.size)
        self.first.build((None, *inputs))
        self.second.build((None, 5))
        self.built = True

    def call(self, x):
        return self.second(self.first(x))


@pytest.fixture
def unnamed():
    """The name of that model, registered for a test: a class is called as its file."""
    registry.register(Unnamed)
    yield "test_layers"
    registry._entries().pop("test_layers")


def test_layers_without_a_name_are_called_the_same_in_each_agent_of_a_process(unnamed):
    found = []
    for _ in range(2):
        runner = build_runner(resolve("ppo_identity", {"model.name": unnamed, "compile": "graph"}), 0)
        found.append({name: each.numpy() for name, each in runner.agent.policy_variables.items()})
        runner.close()
    assert {"network/dense/kernel", "network/dense_1/kernel"} <= found[0].keys()
    assert list(found[0]) == list(found[1])
    assert all(np.array_equal(found[0][name], found[1][name]) for name in found[0])


def test_numbers_outside_go_on_as_if_nothing_had_been_built():
    before = keras.layers.Dense(1).name
    with Initializers(0).within():
        assert [keras.layers.Dense(1).name for _ in range(2)] == ["dense", "dense_1"]
    number = int(before.rpartition("_")[2]) if "_" in before else 0
    assert keras.layers.Dense(1).name == f"dense_{number + 1}"
