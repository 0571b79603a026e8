"""Who the agents of an environment are, and groups of them with a network each: the hparam `policies`."""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any

import keras
from gymnasium import spaces

from rl.envs.agents import OfAgents
from rl.errors import UsageError, nearest
from rl.hparams.hparams import HParams
from rl.models.grouped import Grouped


def agents_of(space: spaces.Space, hparams: HParams, part: str) -> OfAgents:
    """Returns the part of an observation space that says who the agents are.

    Raises:
        UsageError: the environment is not of many agents, or all there is are data.
    """
    found = space.spaces.get(part) if isinstance(space, spaces.Dict) else None
    if not isinstance(found, OfAgents):
        if hparams.offline:
            raise UsageError(f"{hparams.algo} learns while it plays: data do not say who the agents are")
        raise UsageError(
            f"{hparams.algo} is for environments of many agents, and {hparams.env} has one: take dqn or ppo"
        )
    return found


def grouped(agent: Any, make: Callable[[str], Any], name: str, axis: int = 0) -> Any:
    """Returns the network that `make(name)` makes, or one such network for each group of agents.

    agent: its hparams and observation space define the groups.
    axis: of the rows in the network's output.

    Raises:
        UsageError: the environment has no such agents.
    """
    if not agent.hparams.policies:
        return make(name)
    groups = groups_of(agent.hparams, agent.observation_space)
    names = list(dict.fromkeys(groups))
    members = []
    for each in names:
        with keras.name_scope(f"group_{each}"):  # under which its variables are saved
            members.append(make(name))
    return Grouped(members, [names.index(each) for each in groups], axis, name)


def groups_of(hparams: HParams, space: spaces.Space) -> list[str]:
    """Returns the group of each agent, in the order of agents.

    `policies` is "independent" (each agent is a group) or a comma list of PATTERN:GROUP, with patterns like
    those of file names; the first pattern that matches an agent's name gives its group.

    Raises:
        UsageError: there is one agent, or all there is are data; an item that is none; a pattern that fits no
            agent; an agent that fits no pattern.
    """
    wrong = f"hparam policies={hparams.policies!r}"
    agents = space.spaces.get("agent") if isinstance(space, spaces.Dict) else None
    if not isinstance(agents, OfAgents):
        if hparams.offline:
            raise UsageError(f"{wrong}: data do not say who the agents are: leave it out")
        what = (
            "is played by one agent" if hparams.view != "joint" else f"has one network under {hparams.algo}"
        )
        raise UsageError(f"{wrong}: {hparams.env} {what}: leave it out")
    if hparams.policies == "independent":
        return list(agents.names)
    rules = [each.strip().rpartition(":")[::2] for each in hparams.policies.split(",")]
    for pattern, group in rules:
        if not pattern or not group.isidentifier():
            raise UsageError(
                f"{wrong}: needs independent, or PATTERN:GROUP,..., such as adversary_*:a,agent_*:b"
            )
        if not any(fnmatchcase(each, pattern) for each in agents.names):
            hint = nearest(pattern, agents.names)
            raise UsageError(f"{wrong}: no agent of {hparams.env} is called {pattern}: {hint}")
    found = [next((g for p, g in rules if fnmatchcase(each, p)), None) for each in agents.names]
    rest = [each for each, group in zip(agents.names, found, strict=True) if group is None]
    if rest:
        raise UsageError(f"{wrong}: has no group for {', '.join(rest)} of {hparams.env}: add *:GROUP")
    return [group for group in found if group is not None]


def check_groups(hparams: HParams, networks: dict[str, keras.Model]) -> None:
    """Raises UsageError where groups are asked for and the algorithm has no networks of groups."""
    if hparams.policies and not any(isinstance(each, Grouped) for each in networks.values()):
        raise UsageError(
            f"hparam policies={hparams.policies!r}: {hparams.algo} has one network for all: leave it out"
        )
