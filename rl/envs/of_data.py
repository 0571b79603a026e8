"""What a run that learns from a data set (hparam `data`) must know before it begins: whether there is one,
and which environment it is of. No TensorFlow."""

from __future__ import annotations

from rl.data.dataset import data_folder
from rl.data.metadata import env_id_of, read_metadata
from rl.envs.gym_ids import gym_has
from rl.errors import UsageError
from rl.hparams.hparams import HParams

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
        command, alone = recording(hparams.env), " with memory=dataset" if hparams.offline else ""
        raise UsageError(
            f"{hparams.algo}{alone} learns from a data set, and none is named: give "
            f"--hparam_override data=DIR ({command} records one)"
        )
    data_folder(hparams.data)


def recording(env: str) -> str:
    """Returns the command that records a data set of an environment."""
    chosen = f"--hparams {PLAYS[env]}" if env in PLAYS else f"--hparams SET{f' --env {env}' if env else ''}"
    return f"python train.py {chosen} --record_data DIR"


def with_environment(hparams: HParams) -> HParams:
    """Returns frozen hparams with the environment that their data were recorded in, where they name data and
    no environment. It must be Gymnasium's here: what a file names is not imported."""
    if hparams.env or not hparams.data:
        return hparams
    metadata = read_metadata(data_folder(hparams.data))
    env = env_id_of(metadata)
    if not env or ":" in env or not gym_has(env):
        return hparams
    own = hparams.thawed()
    limit = metadata.get("max_episode_steps")
    own.assign({"env": env, "env_kwargs": dict(metadata.get("env_kwargs") or {}), "max_episode_steps": limit})
    return own.freeze()
