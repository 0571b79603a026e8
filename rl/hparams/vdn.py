"""Hyperparameters and named sets of VDN (`rl/agents/algos/vdn.py`)."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from rl.errors import UsageError
from rl.hparams.dqn import TWO_STEP, DQNHParams
from rl.hparams.hparams import Count, Fraction, PositiveInt
from rl.hparams.registry import register
from rl.hparams.sequences import KEEP_STATE, check_every_step_is_replayed
from rl.hparams.tasks import REPLAY


class VDNHParams(DQNHParams):
    """VDN: DQN's, for a team, and those of sequences, from which agents that keep state learn."""

    algo: str = "vdn"
    view: ClassVar[str] = "joint"
    batch_size: PositiveInt = 128  # transitions, with lstm and gru sequences, of an update
    loss: Literal["huber", "mse"] = "mse"
    burn_in: Count = 8  # lstm, gru: steps of a sequence that only bring the state up to date
    unroll_length: PositiveInt = 16  # lstm, gru: steps of a sequence that are learned from
    # lstm, gru with prioritized: weight of a sequence's largest error beside its mean one
    priority_eta: Fraction = 0.9

    @property
    def memory_name(self) -> str:
        """Returns `sequence` where agents keep state, and no other memory was asked for; `prioritized` is
        then a switch of that memory. Else as DQN."""
        sequences = self.memory == "uniform" and self.model.name in KEEP_STATE
        return "sequence" if sequences else super().memory_name

    def check(self) -> None:
        """Raises UsageError where the model, the memory and rollouts do not fit together."""
        super().check()
        if self.memory_name == "sequence":
            check_every_step_is_replayed(self)
        transitions = {"uniform", "prioritized", "hindsight"}
        given = self.memory if "memory" in self.model_fields_set else ""
        if self.model.name in KEEP_STATE and given in transitions:
            raise UsageError(
                f"hparams memory={given} and model.name={self.model.name} contradict each other: agents that "
                "keep state learn from memory=sequence, change one of them"
            )


TEAM: dict[str, Any] = dict(  # of any environment of a team
    double=True,
    num_envs=8,
    rollout_length=8,
    # Few updates of many transitions, as in the papers, where each is of 32 episodes: by 16 of 128 VDN earned
    # a third as much in simple_tag, and QMIX half.
    updates_per_iteration=4,
    batch_size=512,
    lr=5e-4,
    max_grad_norm=10.0,
    replay_capacity=100_000,
    target_update_period=200,
    exploration_steps=50_000,
    model=dict(hidden=(128, 128), activation="relu", init="lecun_uniform"),
)
SPREAD: dict[str, Any] = dict(REPLAY["SimpleSpread-v0"], updates_per_iteration=16, batch_size=128)
RECURRENT: dict[str, Any] = dict(  # after TEAM: what the papers' agents have
    previous_action_reward=True,
    updates_per_iteration=16,
    batch_size=32,
    model=dict(hidden=(64,), recurrent_units=64),
)


@register
def vdn() -> VDNHParams:
    """VDN with double learning on any environment of agents with discrete actions: give --env ID."""
    return VDNHParams.of(TEAM)


@register
def vdn_lstm() -> VDNHParams:
    """VDN, double, dueling, with an LSTM, on any environment of agents: give --env ID (discrete actions)."""
    return vdn(RECURRENT, dueling=True, model=dict(name="lstm"))


@register
def vdn_two_step() -> VDNHParams:
    """VDN with double learning on TwoStepGame-v0, where a sum of values misses the best return of 8.

    As in the paper on QMIX it takes the safe 7: 7.0 with each of the seeds 100 to 102, last checkpoint.
    """
    return VDNHParams.of(TWO_STEP)


@register
def vdn_spread() -> VDNHParams:
    """VDN, double, on SimpleSpread-v0, three agents; judged at 60,000 steps beside BenchMARL's."""
    return vdn(SPREAD)
