"""`import rl`, as in a notebook: which names it has, and how quiet it is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import rl

ROOT = Path(__file__).parents[1]
USE = """
import sys, rl
assert "tensorflow" not in sys.modules
rl.train
assert "tensorflow" in sys.modules
import tensorflow as tf
tf.function(lambda: tf.constant(1.0) * 2.0, jit_compile=True)()
"""


def test_the_public_names_are_shown_and_there():
    shown = [name for name in dir(rl) if not name.startswith("_")]
    names = ["Callbacks", "Policy", "Run", "UsageError", "load", "make_hparams", "train"]
    assert shown == names == sorted(rl.__all__)
    assert all(hasattr(rl, name) for name in dir(rl))
    with pytest.raises(AttributeError, match="no attribute 'tarin'"):
        _ = rl.tarin


def test_tensorflow_says_nothing_in_a_notebook():
    environment = {key: value for key, value in os.environ.items() if key != "TF_CPP_MIN_LOG_LEVEL"}
    command = [sys.executable, "-c", USE]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, env=environment, check=True, timeout=120
    )
    assert done.stderr == ""
