"""The behaviour policy of data without recorded probabilities, estimated by behaviour cloning."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from rl.agents.agent import Agent
from rl.agents.algos.registry import get_algo
from rl.data.dataset import Dataset
from rl.errors import NotFinite
from rl.hparams.hparams import HParams
from rl.hparams.merge import resolve
from rl.models.images import for_images
from rl.runners.offline import on_data

UPDATES = 10_000  # of the cloning


def recorded(data: Dataset) -> np.ndarray | None:
    """Returns the recorded log-probabilities [N] of the data's actions; None if any episode lacks them."""
    found = data.log_prob
    return None if found is None or np.isnan(found).any() else np.asarray(found, np.float64)


def no_ratios(data: Dataset) -> str:
    """Says why the data allow no importance ratios; empty if they do.

    Box actions on the bounds were clipped: a policy has a density over its actions, but a probability mass on
    the bounds.
    """
    space = data.action_space
    if not isinstance(space, spaces.Box):
        return ""
    cut = ((data.action <= space.low) | (data.action >= space.high)).reshape(len(data.action), -1).any(1)
    if not cut.any():
        return ""
    return (
        f"{cut.mean():.1%} of the data's actions lie on a bound of their range, where they were cut off and "
        "no density says how likely they were, which leaves no importance ratios"
    )


def clone(data: Dataset, folder: str, hparams: HParams, seed: int) -> Agent[Any]:
    """Fits a policy to the data's actions (`rl.agents.algos.bc`). Importance ratios to the fitted policy have
    less variance than ratios to the policy that acted (Hanna et al. 2019, https://arxiv.org/abs/1806.01347).

    hparams: of the policy that is estimated; its model is used if it is one for images.
    seed: of the weights and of the sampled batches.
    """
    own = {"data": folder, "env": hparams.env, "eval_policy": "sample", "normalize_observation": True}
    plan = {"train_steps": UPDATES, "lr_schedule": "linear", "compile": hparams.compile}
    agent: Agent[Any] = get_algo("bc")(
        resolve("bc", own | plan | model_of(hparams)), data.observation_space, data.action_space, seed
    )
    fit(agent, data, seed)
    return agent


def model_of(hparams: HParams) -> dict[str, Any]:
    """Returns the model with which values or actions are fitted: the policy's if observations are images,
    else dense layers."""
    if for_images(hparams.model.name):
        return {"model": {key: getattr(hparams.model, key) for key in type(hparams.model).model_fields}}
    return {"model": {"name": "mlp", "hidden": (64, 64), "activation": "relu", "init": "torch"}}


def fit(agent: Agent[Any], data: Dataset, seed: int) -> dict[str, float]:
    """Makes the updates that the agent's hparams ask for, in one compiled loop; returns the last window's
    metrics.

    Raises:
        NotFinite: the updates were NaN or infinite.
    """
    runner = on_data(agent, data, seed)
    iterations = max(1, agent.hparams.train_steps // runner.steps_per_iteration)
    last = max(1, iterations // 10)
    if iterations > last:
        runner.run(iterations - last)
    runner.begin_window()
    runner.advance(last)
    row = runner.row()
    runner.close()
    if agent.guard.skipped or not all(np.isfinite(list(row.values()))):
        raise NotFinite(f"{agent.hparams.algo} came to NaN or infinity: take a smaller lr")
    return row
