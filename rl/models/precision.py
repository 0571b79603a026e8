"""What hidden layers compute in: the hparam `model.precision`, which `auto` leaves to the device."""

from __future__ import annotations

from pathlib import Path

import tensorflow as tf

from rl.hparams.hparams import ModelHParams
from rl.models.images import for_images

CPUINFO = Path("/proc/cpuinfo")
AMPERE = (8, 0)  # NVIDIA's first compute capability whose tensor cores multiply bfloat16


def precision_of(model: ModelHParams) -> str:
    """Returns "float32" or "bfloat16". `auto` is bfloat16 for models of pictures where that is faster, so
    that a run may compute in one and its workers, or who loads it elsewhere, in the other: weights are
    float32 in both."""
    if model.precision != "auto":
        return model.precision
    return "bfloat16" if for_images(model.name) and multiplies_bfloat16() else "float32"


def picture_precision(model: ModelHParams) -> str:
    """Returns what pictures are handed to the model in: others than those of pictures get float32."""
    return precision_of(model) if for_images(model.name) else "float32"


def multiplies_bfloat16() -> bool:
    """Returns whether what this process computes on has instructions for products of bfloat16 matrices: a
    TPU, an NVIDIA GPU since Ampere, or a processor with AMX. Others compute them by way of float32, more
    slowly."""
    if tf.config.list_logical_devices("TPU"):
        return True
    gpus = tf.config.get_visible_devices("GPU")
    if gpus:
        details = (tf.config.experimental.get_device_details(gpu) for gpu in gpus)
        return all(each.get("compute_capability", (0, 0)) >= AMPERE for each in details)
    try:
        lines = CPUINFO.read_text(encoding="utf-8").splitlines()
    except OSError:  # not Linux
        return False
    return any("amx_bf16" in line.split() for line in lines if line.startswith("flags"))


def computes_in(model: ModelHParams) -> str:
    """Returns words for what `auto` came to; empty where the hparams say it themselves."""
    return f", hidden layers in {precision_of(model)}" if model.precision == "auto" else ""
