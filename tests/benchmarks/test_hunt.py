"""simple_tag whose prey plays a given policy: what it does, and that the rest is simple_tag's."""

from __future__ import annotations

import importlib
import itertools
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

from rl.envs.graph.simple_tag import SimpleTag
from rl.envs.registry import registry as envs
from rl.errors import UsageError
from rl.ops import random

pytestmark = pytest.mark.slow  # of scripts that are run by hand


@pytest.fixture
def hunt():
    """The module, whose environment is registered for the test alone: others walk all that are."""
    found = importlib.import_module("hunt")
    if found.ENV_ID not in envs:
        envs.register(found.Hunt)
    yield found
    envs._entries().pop(found.ENV_ID)


def policy(output, weight=0.0):
    """A prey's arrays: its outputs are `output`, and `weight` times its second input, normalised, for 1."""
    arrays = {"in_fn.weight": np.full(14, 3.0), "in_fn.bias": np.full(14, -1.0)}
    arrays |= {"in_fn.running_mean": np.full(14, 2.0), "in_fn.running_var": np.full(14, 4.0)}
    sizes = (14, 8, 8, 5)
    for i, (before, after) in enumerate(itertools.pairwise(sizes), 1):
        arrays |= {f"fc{i}.weight": np.zeros((after, before)), f"fc{i}.bias": np.zeros(after)}
    arrays["fc1.weight"][0, 1] = arrays["fc2.weight"][0, 0] = 1.0
    arrays["fc3.weight"][1, 0], arrays["fc3.bias"] = weight, np.array(output)
    return {name: each.astype(np.float32) for name, each in arrays.items()}


def test_the_prey_takes_the_action_of_the_highest_output(hunt):
    prey = hunt.Prey(policy([0.0, 0.0, 1.0, 0.0, 0.0], weight=1.0))
    # 3 (x - 2) / 2 - 1 > 1 where x > 3.33; below zero the layers let nothing through
    seen = np.zeros((3, 14), np.float32)
    seen[:, 1] = 3.3, 3.4, -9.0
    assert prey.act(tf.constant(seen)).numpy().tolist() == [2, 1, 2]


def test_hunters_play_simple_tag_with_that_prey(hunt, tmp_path, monkeypatch):
    np.savez(tmp_path / "prey.npz", **policy([0.0, 0.0, 1.0, 0.0, 0.0]))
    monkeypatch.setattr(hunt, "PREY", tmp_path / "prey.npz")
    ours, whole = hunt.Hunt(4), SimpleTag(4)
    assert ours.agent_names == ("adversary_0", "adversary_1", "adversary_2")
    physics = ours.initial(random.key(0))
    hunters = tf.constant([[1, 2, 3]] * 4, tf.int32)
    moved, reward, ended = ours.dynamics(physics, hunters, random.key(1))
    expected, paid, _ = whole.dynamics(
        physics, tf.pad(hunters, [[0, 0], [0, 1]], constant_values=2), random.key(1)
    )
    np.testing.assert_array_equal(moved.position, expected.position)
    np.testing.assert_array_equal(moved.velocity, expected.velocity)
    np.testing.assert_array_equal(reward, paid[:, :3])
    np.testing.assert_array_equal(ours.observe(moved), whole.observe(expected)[:, :3])
    assert not ended.numpy().any()


def test_without_the_file_one_line_says_what_makes_it(hunt, tmp_path, monkeypatch):
    monkeypatch.setattr(hunt, "PREY", tmp_path / "prey.npz")
    with pytest.raises(UsageError, match="--tasks tag makes it"):
        hunt.Hunt(1)
