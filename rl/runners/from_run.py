"""The trained run with whose weights a new run begins (hparam `start_from`): found, checked and read.

Taken are all networks, target networks too, what is learned beside them (`LearnsBeside`), and the statistics
by which observations and rewards are normalised: values are in units of the scaled rewards. Optimizers,
memory, counters and random numbers are the new run's own. A run that goes on does not come here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tensorflow as tf

from rl.agents.agent import Agent
from rl.agents.contracts import LearnsBeside
from rl.errors import UsageError
from rl.hparams.hparams import HParams
from rl.runners.base import Runner
from rl.runners.from_data import alike
from rl.saved_run import held_by, read_saved, read_variables, reading, saved_hparams, spaces_of
from rl.storage.address import check_run, check_whole
from rl.storage.manifest import Signature, differences, has_optimizers, shown

TARGET = "target_"  # what the name of a target network has before that of the network which it follows
_SHOWN = 2  # differing variables that an error message names


def check_start(hparams: HParams) -> None:
    """Raises UsageError where a new run is to begin with the weights of a run that is not there."""
    if hparams.start_from:
        check_whole(hparams.start_from, "start_from")
        check_run(hparams.start_from, "start_from=RUN")


def take_weights(runner: Runner) -> str:
    """Gives an agent what another run has learned, which its hparam `start_from` names; returns a line that
    says so, "" where it names none.

    runner: of the agent; it has made nothing yet.

    Raises:
        UsageError: there is no such run, or what it has learned does not fit; nothing is assigned then.
    """
    agent: Agent[Any] = runner.agent
    address, which = agent.hparams.start_from, agent.hparams.start_which
    if not address:
        return ""
    with reading(address) as storage:
        algo = _checked_algo(agent, storage.folder)
        held = held_by(storage.folder, which)
        wanted = _learned(agent)
        follows = _targets(wanted, held)  # the target networks that it does not hold
        asked = {name: each for name, each in wanted.items() if name not in follows}
        _check_fits(agent, asked, held, algo)
        more = _learned_beside(runner)
        asked |= {name: more[name] for name, kind in _signature(more).items() if held.get(name) == kind}
        step = read_variables(asked, storage.folder, which, partial=True)
    for name, source in follows.items():
        pairs = zip(*(runner.devices.values(wanted[each]) for each in (name, source)), strict=True)
        for target, followed in pairs:
            target.assign(followed)
    runner.started_from_another()
    return f"begins with the weights of {address}, {which} checkpoint, step {step:,}"


def _checked_algo(agent: Agent[Any], run_dir: Path) -> str:
    """Returns the algorithm of the run in a folder. Raises UsageError where it has other observations or
    actions than the agent."""
    here = agent.hparams
    env = (read_saved(run_dir) or {"hparams": {}})["hparams"].get("env")
    # This run's user named the same environment: the other run's file need not be trusted with it.
    there, _ = saved_hparams(run_dir, env=env if env and env == here.env else None)
    if not there.env:  # of data alone, which need not be there any more: the shapes of weights say enough
        return there.algo
    pairs = zip(spaces_of(there), (agent.observation_space, agent.action_space), strict=True)
    for (its, ours), what in zip(pairs, ("observations", "actions"), strict=True):
        if not alike(its, ours, acts=what == "actions"):
            raise UsageError(
                f"start_from={here.start_from} has {what} {its} ({there.env}), here they are {ours} "
                f"({here.env}): name a run whose {what} are the same, or leave start_from out"
            )
    return there.algo


def _learned(agent: Agent[Any]) -> dict[str, Any]:
    """Returns the variables of all networks and of the statistics of observations, by name."""
    return {name: each for name, each in agent.variables.items() if _is_learned(name, agent)}


def _is_learned(name: str, agent: Agent[Any]) -> bool:
    return _network_of(name) in {*agent.networks, "encoder"}


def _network_of(name: str) -> str:
    return name.partition("/")[0]


def _learned_beside(runner: Runner) -> dict[str, Any]:
    """Returns the variables that are taken only where the other run learned them too, by name."""
    agent, scale = runner.agent, runner.iteration.reward_scale
    found = dict(agent.learned_beside) if isinstance(agent, LearnsBeside) else {}
    if scale is not None:
        found |= {f"reward_scale/{name}": each for name, each in scale.moments._asdict().items()}
    return found


def _targets(wanted: dict[str, Any], held: Signature) -> dict[str, str]:
    """Returns the variables of target networks that a checkpoint does not hold (that of a policy, or of an
    algorithm without), each with the name of the one that it follows, which it begins as a copy of."""
    pairs = {name: name.removeprefix(TARGET) for name in wanted if name.startswith(TARGET)}
    return {name: source for name, source in pairs.items() if name not in held and source in wanted}


def _signature(variables: dict[str, Any]) -> Signature:
    return {name: (tuple(each.shape), tf.as_dtype(each.dtype).name) for name, each in variables.items()}


def _check_fits(agent: Agent[Any], asked: dict[str, Any], held: Signature, algo: str) -> None:
    """Raises UsageError where the networks in a checkpoint, of the algorithm `algo`, are not those of the
    agent that are asked for."""
    learned = {name: kind for name, kind in held.items() if _is_learned(name, agent)}
    found = differences(_signature(asked), learned)
    if not found:
        return
    hparams = agent.hparams
    address, which = hparams.start_from, hparams.start_which
    lacking = sorted({_network_of(name) for name in asked} - {_network_of(name) for name in learned})
    if algo == hparams.algo and not has_optimizers(held) and lacking not in ([], ["encoder"]):
        instead = "take start_which=last" if which == "best" else "name the run that it was published from"
        raise UsageError(
            f"start_from={address}: its {which} checkpoint is a policy alone, without the "
            f"{' and the '.join(lacking)} that {algo} learns with: {instead}"
        )
    if all(name.startswith("encoder/") for name in found):
        there = str(not hparams.normalize_observation).lower()
        raise UsageError(
            f"start_from={address} was trained with normalize_observation={there}, and its network would see "
            f"other numbers here: take normalize_observation={there}"
        )
    raise UsageError(
        f"start_from={address}: the networks of its {algo} are not those of {hparams.algo} here "
        f"({shown(found, _SHOWN)}): take the algorithm and the model that its hparams.json says, or leave "
        "start_from out"
    )
