"""Which hyperparameters do nothing, and what would give them an effect.

Only what the parts of this package read is known: a user's own memory, act_select or model may read any.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from rl.hparams.merge import explicit

MEMORIES = {"dataset", "hindsight", "prioritized", "rollout", "sequence", "uniform"}
ACT_SELECTS = {
    "epsilon_greedy",
    "gaussian_noise",
    "greedy",
    "ou_noise",
    "per_worker_epsilon",
    "sample",
    "uniform_random",
}
MODELS = {"board_cnn", "gru", "impala_cnn", "lstm", "minatar_cnn", "mlp", "nature_cnn"}


class Effect(NamedTuple):
    """What some hparams do something under."""

    names: tuple[str, ...]  # dotted, as explicit
    holds: Callable[[Any], bool]  # whether they do, given all hparams
    needs: str  # that in a few words


def _memory(*names: str) -> Callable[[Any], bool]:
    return lambda hparams: hparams.memory_name not in MEMORIES - set(names)


def _act_select(*names: str) -> Callable[[Any], bool]:
    return lambda hparams: hparams.act_select_name not in ACT_SELECTS - set(names)


def _model(*names: str) -> Callable[[Any], bool]:
    return lambda hparams: hparams.model.name not in MODELS - set(names)


def _takes_epsilon(hparams: Any) -> bool:
    """Also where noisy layers or epsilons by environment took the place of what the family's sets say."""
    return hparams.act_select not in ACT_SELECTS - {"epsilon_greedy", "per_worker_epsilon"}


def _prioritizes(hparams: Any) -> bool:
    return hparams.prioritized or _memory("prioritized")(hparams)


def _values_apart(hparams: Any) -> bool:
    learns_both = any(
        hasattr(hparams, name) for name in ("critic_lr", "value_lr", "gae_lambda", "value_coef")
    )
    return learns_both and not hparams.model.shared


_PRIORITIES = (
    "priority_exponent",
    "priority_epsilon",
    "importance_sampling_exponent",
    "importance_sampling_exponent_end",
    "priority_eta",
)
_SEQUENCES = ("burn_in", "unroll_length", "priority_eta")
_EPSILON = tuple(f"exploration_{name}" for name in ("epsilon_start", "epsilon_end", "steps"))
_PER_WORKER = ("exploration_epsilon_base", "exploration_epsilon_exponent")
_CURIOSITY = tuple(f"curiosity_{name}" for name in ("coef", "lr", "features", "minibatches"))
_DECAYS_TO = ("linear", "polynomial", "cosine")

EFFECTS = (
    Effect(("hindsight_goals", "goal_tolerance"), _memory("hindsight"), "memory=hindsight"),
    Effect(_SEQUENCES, _memory("sequence", "dataset"), "model.name=lstm or gru"),
    Effect(_PRIORITIES, _prioritizes, "prioritized=true"),
    Effect(("data_chunk",), _memory("dataset"), "memory=dataset"),
    Effect(
        ("previous_action_reward",),
        lambda hparams: hparams.algo != "maddpg",  # whose networks read what agents observe, nothing else
        "another algorithm, such as qmix or ppo",
    ),
    Effect(("start_which",), lambda hparams: bool(hparams.start_from), "start_from=RUN"),
    Effect(_EPSILON, _takes_epsilon, "act_select=epsilon_greedy"),
    Effect(_PER_WORKER, _act_select("per_worker_epsilon"), "act_select=per_worker_epsilon"),
    Effect(("ou_theta",), _act_select("ou_noise"), "act_select=ou_noise"),
    Effect(
        ("anneal",),
        lambda hparams: not hparams.offline or set(hparams.anneal) != {"exploration_noise"},
        "exploration, and memory=dataset plays nothing",
    ),
    Effect(("noisy_sigma",), lambda hparams: hparams.noisy, "noisy=true"),
    Effect(_CURIOSITY, lambda hparams: hparams.curiosity is not None, "curiosity=icm or rnd"),
    Effect(
        ("lr_end",),
        lambda hparams: hparams.lr_schedule in _DECAYS_TO,
        "lr_schedule=linear, polynomial or cosine",
    ),
    Effect(
        ("lr_decay_rate",), lambda hparams: hparams.lr_schedule == "exponential", "lr_schedule=exponential"
    ),
    Effect(("lr_power",), lambda hparams: hparams.lr_schedule == "polynomial", "lr_schedule=polynomial"),
    Effect(("adam_epsilon",), lambda hparams: hparams.optimizer != "sgd", "optimizer=adam, adamw or rmsprop"),
    Effect(
        ("model.value_hidden",),
        _values_apart,
        "a policy, and a value or critic apart from it (model.shared=false)",
    ),
    Effect(("model.recurrent_units", "model.image"), _model("lstm", "gru"), "model.name=lstm or gru"),
)


def without_effect(hparams: Any) -> Iterator[str]:
    """Says of which hparams that differ from their defaults nothing comes, a line for each lack."""
    given = explicit(hparams)
    defaults = type(hparams)().flat()
    for effect in EFFECTS:
        changed = [name for name in effect.names if name in given and given[name] != defaults[name]]
        if changed and not effect.holds(hparams):
            yield f"{', '.join(changed)} will have no effect: that takes {effect.needs}"
