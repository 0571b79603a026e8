"""What `model.precision=auto` comes to, by stand-ins for what the machine says of itself."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from rl.hparams.hparams import ModelHParams
from rl.models import precision
from rl.models.layers import Initializers, ObservationEncoder
from rl.models.torso import make_torso

PLAIN, AMX = "flags\t\t: fpu sse avx512_bf16", "flags\t\t: fpu sse amx_bf16 amx_tile"


def a_model(name="minatar_cnn", chosen="auto"):
    return ModelHParams(name=name, precision=chosen)


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """Makes this machine look like one with these flags, compute capabilities of GPUs, and TPU cores."""

    def look(flags, gpus=(), cores=0):
        (tmp_path / "cpuinfo").write_text(f"processor\t: 0\nmodel name\t: amx_bf16 it is not\n{flags}\n")
        monkeypatch.setattr(precision, "CPUINFO", tmp_path / "cpuinfo")
        details = [{} if each is None else {"compute_capability": each} for each in gpus]
        experimental = SimpleNamespace(get_device_details=lambda gpu: details[gpu])
        config = SimpleNamespace(
            list_logical_devices=lambda kind: ["core"] * cores if kind == "TPU" else [],
            get_visible_devices=lambda kind: list(range(len(gpus))) if kind == "GPU" else [],
            experimental=experimental,
        )
        monkeypatch.setattr(precision, "tf", SimpleNamespace(config=config))

    return look


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (dict(flags=PLAIN), "float32"),
        (dict(flags=AMX), "bfloat16"),
        (dict(flags=PLAIN, cores=8), "bfloat16"),
        (dict(flags=PLAIN, gpus=[(8, 0), (9, 0)]), "bfloat16"),
        (dict(flags=AMX, gpus=[(7, 5)]), "float32"),
        (dict(flags=AMX, gpus=[(8, 0), (7, 5)]), "float32"),
        (dict(flags=AMX, gpus=[None]), "float32"),
    ],
)
def test_auto_is_bfloat16_for_pictures_where_the_device_multiplies_it(machine, seen, expected):
    machine(**seen)
    assert precision.precision_of(a_model()) == precision.picture_precision(a_model()) == expected
    assert precision.computes_in(a_model()) == f", hidden layers in {expected}"


def test_auto_is_float32_for_all_but_pictures(machine):
    machine(AMX)
    assert [precision.precision_of(a_model(name)) for name in ("mlp", "lstm")] == ["float32"] * 2


def test_what_is_said_is_taken_as_said(machine):
    for flags, said in ((AMX, "float32"), (PLAIN, "bfloat16")):
        machine(flags)
        assert precision.precision_of(a_model("mlp", said)) == said
        assert precision.picture_precision(a_model("mlp", said)) == "float32"
        assert precision.picture_precision(a_model(chosen=said)) == said
        assert precision.computes_in(a_model(chosen=said)) == ""


def test_a_machine_that_says_nothing_of_itself_computes_in_float32(monkeypatch, tmp_path):
    monkeypatch.setattr(precision, "CPUINFO", tmp_path / "none")
    assert precision.precision_of(a_model()) == "float32"


def test_the_torso_computes_in_what_auto_came_to(machine):
    space = spaces.Box(0, 1, (10, 10, 4), np.bool_)
    x = tf.constant(np.random.default_rng(0).normal(size=(4, 400)), tf.float32)

    def output(flags, chosen):
        machine(flags)
        torso = make_torso(a_model(chosen=chosen), ObservationEncoder(space, False), Initializers(0), "torso")
        return torso(x).numpy()

    assert (output(PLAIN, "auto") == output(AMX, "float32")).all()
    assert (output(AMX, "auto") == output(PLAIN, "bfloat16")).all()
    assert (output(AMX, "auto") != output(PLAIN, "auto")).any()
