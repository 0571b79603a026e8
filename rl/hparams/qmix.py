"""Hyperparameters and named sets of QMIX (`rl/agents/algos/qmix.py`)."""

from __future__ import annotations

from rl.hparams.hparams import PositiveInt
from rl.hparams.registry import register
from rl.hparams.vdn import RECURRENT, SPREAD, TEAM, TWO_STEP, VDNHParams


class QMIXHParams(VDNHParams):
    """QMIX: VDN's, and the mixing network's."""

    algo: str = "qmix"

    mixing_units: PositiveInt = 32  # of the layer that mixes the agents' values, and of its last bias's


@register
def qmix() -> QMIXHParams:
    """QMIX with double learning on any environment of agents with discrete actions: give --env ID."""
    return QMIXHParams.of(TEAM)


@register
def qmix_gru() -> QMIXHParams:
    """QMIX, double, with a GRU, on any environment of agents: give --env ID (discrete actions)."""
    return qmix(RECURRENT, model=dict(name="gru"))


@register
def qmix_two_step() -> QMIXHParams:
    """QMIX with double learning on TwoStepGame-v0, whose best return of 8 needs the team's value whole.

    Bar: 8.0 of the paper; 8.0 with each of the seeds 100 to 102, last checkpoint.
    """
    return QMIXHParams.of(TWO_STEP, mixing_units=8)


@register
def qmix_spread() -> QMIXHParams:
    """QMIX, double, on SimpleSpread-v0, three agents; judged at 60,000 steps beside BenchMARL's."""
    return qmix(SPREAD)
