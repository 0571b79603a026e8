"""The base of all named sets."""

from __future__ import annotations

from rl.hparams.hparams import HParams
from rl.hparams.registry import register


@register
def default() -> HParams:
    """What every set starts from: names no algorithm and no environment, so it only merges with others."""
    return HParams()
