"""Trained runs that tests ask what is right: of behaviour cloning, from data that tests have played."""

from __future__ import annotations

import functools
from pathlib import Path

import own_data

import rl


def clone(folder, env_id, data, updates=500, **overrides):
    """Trains a run in `folder` to do what the data in another folder do."""
    rl.train(
        "bc_identity",
        env=env_id,
        data=str(data),
        output_dir=folder,
        train_steps=updates,
        log_period=updates,
        eval_episodes=1,
        compile="graph",
        **overrides,
    )
    return str(folder)


@functools.cache
def tiny(env_id, **env_kwargs):
    """The folder of a run that does the right thing in one of the smallest environments (`own_data.tiny`)."""
    words = (f"{key}_{value}" for key, value in sorted(env_kwargs.items()))
    folder = Path(own_data.TEMPORARY.name) / "_".join(["expert", env_id, *words])
    return clone(folder, env_id, own_data.tiny(env_id, **env_kwargs), env_kwargs=env_kwargs)
