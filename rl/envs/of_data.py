"""What a run that learns from others must know before it begins: whether there is a data set (hparam `data`)
or a trained run (hparam `expert`), and which environment it is of; and data as an agent of the hparams sees
them. No TensorFlow."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
from gymnasium import spaces

from rl.data.dataset import Dataset, data_folder, data_sets_near
from rl.data.metadata import env_id_of, env_kwargs_of, options_of, read_metadata
from rl.data.spaces import map_parts
from rl.envs.gym_ids import gym_has
from rl.envs.wrappers import PREVIOUS_ACTION, PREVIOUS_REWARD, joined, previous_action, with_previous
from rl.errors import UsageError
from rl.hparams.hparams import HParams
from rl.storage.address import check_run, check_whole

# A set that learns the environment by playing it, whose steps may be recorded.
PLAYS = {
    "CartPole-v1": "dqn_cartpole",
    "Pendulum-v1": "sac_pendulum",
    "HalfCheetah-v5": "sac_halfcheetah",
    "Hopper-v5": "sac_hopper",
}


def check_data(hparams: HParams) -> None:
    """Raises UsageError, with the command that makes one, where a run needs a data set and has none."""
    if not hparams.data:
        command, alone = recording(hparams), " with memory=dataset" if hparams.offline else ""
        raise UsageError(
            f"{hparams.algo}{alone} learns from a data set, and none is named: give "
            f"--hparam_override data=DIR ({command} records one)"
        )
    _folder(hparams)


def _folder(hparams: HParams) -> Path:
    """Returns the folder of the data's files. Raises UsageError, with the command that makes them, where
    there is none."""
    path = Path(hparams.data)
    if not path.is_dir() and not path.is_file():
        command = recording(hparams, hparams.data)
        raise UsageError(f"there is no data set {path}{data_sets_near(path)}: {command} records one")
    return data_folder(path)


def recording(hparams: HParams, folder: str = "DIR") -> str:
    """Returns the command that records a data set of the environment; two, where it is to be of an expert."""
    if hparams.demonstrated:
        played = f"python train.py --output_dir RUN --training False --record_data {folder}"
        return f"{schooling(hparams.env)}, then {played},"
    return f"{_training(hparams.env)} --record_data {folder}"


def check_expert(hparams: HParams) -> None:
    """Raises UsageError, with the command that trains one, where a run needs an expert and has none."""
    address = str(hparams.flat()["expert"])
    if not address:
        raise UsageError(
            f"{hparams.algo} asks a trained run what is right, and none is named: give "
            f"--hparam_override expert=RUN ({schooling(hparams.env)} trains one)"
        )
    check_whole(address, "expert")
    check_run(address, f"expert=RUN ({schooling(hparams.env)} trains one)")


def schooling(env: str) -> str:
    """Returns the command that trains a run on an environment."""
    return f"{_training(env)} --output_dir RUN"


def _training(env: str) -> str:
    chosen = PLAYS.get(env) or f"ppo --env {env or 'ID'}"  # which can play anything
    return f"python train.py --hparams {chosen}"


def data_hint(hparams: HParams) -> str | None:
    """Says that data are of the environment that is named, but with other options."""
    metadata = read_metadata(_folder(hparams)) if hparams.data else {}
    if env_id_of(metadata) != hparams.env:
        return None
    there = options_of({**metadata, "train_env_kwargs": {}})
    here = options_of({"env_kwargs": hparams.env_kwargs, "env_wrappers": hparams.env_wrappers})
    if there == here:
        return None
    return f"the data in {hparams.data} were recorded on {hparams.env} with {there}, here it has {here}"


def with_environment(hparams: HParams) -> HParams:
    """Returns frozen hparams with the environment that their data were recorded in, where they name data and
    no environment. It must be Gymnasium's here: what a file names is not imported.

    Raises:
        UsageError: they were recorded with wrappers, and none is given.
    """
    if hparams.env or not hparams.data:
        return hparams
    metadata = read_metadata(_folder(hparams))
    env = env_id_of(metadata)
    if not env or ":" in env or not gym_has(env):
        return hparams
    wrappers = list(metadata.get("env_wrappers") or [])
    if wrappers and not hparams.env_wrappers:
        raise UsageError(
            f"the data in {hparams.data} were recorded with env_wrappers, which are not imported because a "
            f"file says so: give --env_wrappers {','.join(wrappers)}, or name the environment by --env"
        )
    own = hparams.thawed()
    limit = metadata.get("max_episode_steps")
    own.assign({"env": env, "env_kwargs": env_kwargs_of(metadata), "max_episode_steps": limit})
    return own.freeze()


def telling(hparams: HParams, data: Dataset) -> Dataset:
    """Returns data whose observations tell the action and the reward before them, where the hparams ask for
    that (`previous_action_reward`) and those who recorded the data did not."""
    space = data.observation_space
    told = isinstance(space, spaces.Dict) and PREVIOUS_ACTION in space.spaces
    if told or not hparams.previous_action_reward:
        return data
    episode = np.repeat(np.arange(len(data.lengths)), data.lengths + 1)  # of each observation
    begins = np.zeros(len(episode), bool)
    begins[data.starts + np.arange(len(data.lengths))] = True
    before = np.maximum(np.arange(len(episode)) - episode - 1, 0)  # the step that led to each observation
    action = map_parts(lambda _, x: x[before], data.action_space, data.action)
    parts = {
        PREVIOUS_ACTION: previous_action(data.action_space, action, begins),
        PREVIOUS_REWARD: np.where(begins, 0.0, data.reward[before]).astype(np.float32)[:, None],
    }
    return dataclasses.replace(
        data,
        observation=joined(data.observation, parts),
        observation_space=with_previous(space, data.action_space),
    )
