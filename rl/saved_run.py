"""A run as it lies in its folder: what it was trained with, its agent, its weights."""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rl.agents.agent import Agent
from rl.agents.algos.registry import get_algo
from rl.envs.make import eval_envs_of
from rl.envs.own import check_imported_modules, check_trusted
from rl.errors import Unavailable, UsageError
from rl.hparams.hparams import HParams
from rl.report.runs import read_saved
from rl.storage.address import runs_inside
from rl.storage.checkpoint import CheckpointManager, Variables, read_manifest, read_single
from rl.storage.manifest import BEST, Signature, check_data, load_manifest, single
from rl.storage.storage import Storage, storage_at, storage_of

log = logging.getLogger("rl")


def saved_hparams(
    run_dir: Path,
    asked: HParams | None = None,
    eval_policy: str | None = None,
    env: str | None = None,
    precision: str | None = None,
) -> tuple[HParams, int]:
    """Reads the frozen hparams and the seed that `run_dir` was trained with.

    eval_policy, env, precision: in place of the run's own (`model.precision`); None keeps that.

    Raises:
        UsageError: there is no run, or not the one that is asked for; where none is, one that would import
            what was not imported before: it may be a stranger's.
    """
    saved = read_saved(run_dir)
    if saved is None:
        raise UsageError(
            f"there is no trained agent in {run_dir}{runs_inside(run_dir)}: train one there first, "
            "or name another folder"
        )
    hparams = HParams.from_dict(saved["hparams"])
    given = {"eval_policy": eval_policy, "env": env, "model.precision": precision}
    hparams.assign({key: value for key, value in given.items() if value is not None})
    hparams.freeze()
    if asked is not None and (asked.algo, asked.env) != (hparams.algo, hparams.env):
        raise UsageError(
            f"{run_dir} holds {hparams.algo} on {hparams.env}, not {asked.algo} on {asked.env}: "
            f"ask for --hparams {saved['name']}, or choose another --output_dir"
        )
    if asked is not None and asked.env_wrappers and asked.env_wrappers != hparams.env_wrappers:
        there = ", ".join(hparams.env_wrappers) or "none"
        raise UsageError(f"{run_dir} was trained with env_wrappers {there}: leave --env_wrappers out")
    check_imported_modules(run_dir, saved.get("user_modules", ()))  # older runs do not say
    typed = () if asked is None else asked.env_wrappers
    strange = [name for name in hparams.env_wrappers if name not in typed]
    check_trusted(run_dir, hparams.env if asked is None and env is None else None, strange)
    return hparams, saved["seed"]


def saved_agent(
    run_dir: Path,
    asked: HParams | None = None,
    eval_policy: str | None = None,
    env: str | None = None,
    precision: str | None = None,
) -> Agent[Any]:
    """Builds the agent as it was trained in `run_dir`, weights not read yet. As `saved_hparams`."""
    hparams, seed = saved_hparams(run_dir, asked, eval_policy, env, precision)
    views = spaces_of(hparams)
    agent: Agent[Any] = get_algo(hparams.algo)(hparams, *views, seed)
    return agent


def spaces_of(hparams: HParams) -> tuple[Any, Any]:
    """Returns the observation and the action space that a run of these hparams has: of its environment, or of
    its data where it has none. Raises UsageError where neither is there."""
    if hparams.env:
        envs = eval_envs_of(hparams, 1)
        envs.close()
        return envs.observation_space, envs.action_space
    from rl.data.dataset import read  # only where no environment says it
    from rl.envs.of_data import telling

    data = telling(hparams, read(hparams.data))
    return data.observation_space, data.action_space


@contextlib.contextmanager
def reading(address: str | Path) -> Iterator[Storage]:
    """Gives the run at an address, or `run_0` where that is the folder that runs are in; `folder` of what it
    gives holds its files while this lasts."""
    storage, below = storage_at(address), storage_of(address, 0)
    if not storage.has("hparams.json") and below.has("hparams.json"):
        storage = below
    with storage.to_read():
        yield storage


def best_return(run_dir: Path) -> float | None:
    """Reads the mean evaluation return of the best policy kept in a run; returns None where there is none.
    Raises UsageError where it is damaged."""
    found = single(run_dir / "checkpoints" / BEST, load_manifest)
    if found is None:
        return None
    mean = found.meta.get("return_mean")
    if not isinstance(mean, int | float):
        raise UsageError(f"the best policy in {run_dir} does not say its return: use another checkpoint")
    return mean


def best_so_far(run_dir: Path) -> float | None:
    """Reads `best_return` of a run that goes on: damage to what is kept costs a line, and that policy."""
    try:
        found = best_return(run_dir)
        if found is not None:
            check_data(run_dir / "checkpoints" / BEST)
    except Unavailable:
        raise
    except UsageError as error:
        log.warning("%s", error)
        return None
    return found if found is not None and math.isfinite(found) else None


def read_weights(agent: Agent[Any], run_dir: Path, which: str) -> int:
    """Reads the policy "best" or "last"; returns the step that it is of. Raises as `read_variables`."""
    return read_variables(agent.policy_variables, run_dir, which)


def read_variables(variables: Variables, run_dir: Path, which: str, partial: bool = False) -> int:
    """Reads variables, by the names that they have in checkpoints, of the policy "best", or of the "last"
    checkpoint, which has more than a policy; returns the step that they are of.

    partial: the best policy may have more, too.

    Raises:
        UsageError: there is no checkpoint, all are damaged, or they do not fit; nothing is read then.
    """
    _check_which(which)
    found = read_single(run_dir / "checkpoints" / BEST, variables, partial) if which == "best" else None
    if found is not None:
        return found.step
    manager = CheckpointManager(run_dir / "checkpoints")
    if manager.restore(variables, partial=True) is None:
        raise _nothing_in(run_dir)
    return manager.restored_step or 0


def held_by(run_dir: Path, which: str) -> Signature:
    """Returns the names, shapes and dtypes that `read_variables` finds. Raises UsageError as that does."""
    _check_which(which)
    found = single(run_dir / "checkpoints" / BEST, load_manifest) if which == "best" else None
    if found is None:
        step = CheckpointManager(run_dir / "checkpoints").latest_step()
        if step is None:
            raise _nothing_in(run_dir)
        found = read_manifest(run_dir / "checkpoints" / f"step_{step:012d}")
    return found.variables


def _check_which(which: str) -> None:
    if which not in ("best", "last"):
        raise UsageError(f"which={which!r}: a run keeps its 'best' and its 'last' policy")


def _nothing_in(run_dir: Path) -> UsageError:
    return UsageError(f"there is no checkpoint in {run_dir}: train first, or name another run")
