"""PettingZoo's environments (the extra `pettingzoo`): made by name, and how their agents' spaces become one.

`--env pettingzoo:NAME`, where NAME is an id of PettingZoo's registry ("classic/tictactoe_v3"), or a module
with a function `parallel_env` or `env`, as PettingZoo's environments are ("mpe2.simple_spread_v3", one of
your own). Environments of its turn-based interface (AEC) are converted by PettingZoo: those that say that
they are parallelizable as such; in others all but the agent on turn are idle.

Importing this module imports PettingZoo not yet.
"""

from __future__ import annotations

import contextlib
import importlib
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from rl.envs.gym_ids import missing_extra
from rl.envs.host import action_encoder, action_view
from rl.envs.own import PETTINGZOOS_OWN
from rl.envs.registry import PETTINGZOO
from rl.errors import UsageError, nearest, one_line, where_raised
from rl.spaces import ACTION_MASK

# PettingZoo does not say where agents have opposed rewards, so these stand here, by name without the version:
# those of its authors' environments that are played at once (of Atari's all but one), and the one game by
# turns that is not played against each other. An environment may say otherwise by an attribute `cooperative`.
OPPOSED = ("rps", "simple_adversary", "simple_crypto", "simple_push", "simple_tag", "simple_world_comm")
OPPOSED_FAMILY, COOPERATIVE = "atari", ("entombed_cooperative", "hanabi")


def make_parallel(env_id: str, options: dict[str, Any]) -> Any:
    """Returns PettingZoo's environment of that id, by its parallel interface.

    Raises:
        UsageError: PettingZoo or a package that the environment needs is missing, there is no such
            environment, it does not take the options, or it has no fixed list of agents.
    """
    try:
        import pettingzoo
    except ImportError as error:
        raise missing_extra(env_id, "pettingzoo") from error
    kind, make = _maker(env_id, pettingzoo)
    try:
        env = make(**options)
    except ImportError as error:
        raise _needs(env_id, error) from error
    except (TypeError, ValueError, AssertionError) as error:
        raise UsageError(f"PettingZoo cannot make {env_id} with {options}: {one_line(error)}") from error
    if kind == "aec":
        from pettingzoo.utils import conversions

        together = env.metadata.get("is_parallelizable", False)
        env = (conversions.aec_to_parallel if together else conversions.turn_based_aec_to_parallel)(env)
    env = without_waste(env)
    if not getattr(env, "possible_agents", None):
        raise UsageError(
            f"environment {env_id} has no possible_agents: its agents have to be known from the start"
        )
    return env


def without_waste(env: Any) -> Any:
    """Returns PettingZoo's parallel form of an environment that takes actions one after another, without the
    observations that it makes for each of them and nobody reads (in MPE a third of all); others as they are.
    """
    from pettingzoo.utils.conversions import aec_to_parallel_wrapper

    class Together(aec_to_parallel_wrapper):
        def step(self, actions: dict[str, Any]) -> tuple[dict[str, Any], ...]:
            aec = self.aec_env
            rewards: dict[str, Any] = defaultdict(int)
            for name in list(aec.agents):
                if name != aec.agent_selection:
                    raise UsageError(f"the agents of {aec} do not act in turn: they cannot act at once")
                aec.step(actions[name])
                gained = aec.rewards
                for each in aec.agents:
                    rewards[each] += gained[each]
            ends = terminations, truncations = dict(aec.terminations), dict(aec.truncations)
            infos, seen = dict(aec.infos), {each: aec.observe(each) for each in aec.agents}
            if any(terminations.values()) or any(truncations.values()):
                while aec.agents and any(end[aec.agent_selection] for end in ends):
                    aec.step(None)
            self.agents = aec.agents
            return seen, rewards, terminations, truncations, infos

    return Together(env.aec_env) if type(env) is aec_to_parallel_wrapper else env


def is_cooperative(env_id: str, env: Any) -> bool:
    """Says whether the sum of rewards is what all agents of an environment are after. env: of
    `make_parallel`."""
    said = getattr(getattr(env, "unwrapped", env), "cooperative", None)
    if said is not None:
        return bool(said)
    parts = re.split(r"[./]", re.sub(r"[-_]v\d+$", "", env_id.removeprefix(PETTINGZOO)))
    if _is_its_own(env_id):
        if parts[-1] in COOPERATIVE:
            return True
        if parts[-1] in OPPOSED or OPPOSED_FAMILY in parts:
            return False
    return not is_by_turns(env)


def is_by_turns(env: Any) -> bool:
    """Says whether one agent acts at a time, the attribute `aec_env.agent_selection`. env: of
    `make_parallel`."""
    from pettingzoo.utils.conversions import turn_based_aec_to_parallel_wrapper

    return isinstance(env, turn_based_aec_to_parallel_wrapper)


def _maker(env_id: str, pettingzoo: Any) -> tuple[str, Callable[..., Any]]:
    """Returns which interface an environment has, "parallel" or "aec", and what makes one."""
    name = env_id.removeprefix(PETTINGZOO)
    if "/" in name:
        from pettingzoo.env_registry.exceptions import PettingZooRegistryError

        for kind in ("parallel", "aec"):
            with contextlib.suppress(PettingZooRegistryError):
                return kind, pettingzoo.spec(kind, name).make
        known = [PETTINGZOO + each for each in {**pettingzoo.parallel_registry, **pettingzoo.aec_registry}]
        raise UsageError(f"unknown environment {env_id!r}: {nearest(env_id, known)}")
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        if name.partition(".")[0] in PETTINGZOOS_OWN and error.name == name.partition(".")[0]:
            raise missing_extra(env_id, "pettingzoo") from error
        if _is_its_own(env_id) and _package(error) not in (None, *PETTINGZOOS_OWN):
            raise _needs(env_id, error) from error
        instead = f": name the module alone, {PETTINGZOO}{name.partition(':')[0]}" if ":" in name else ""
        raise UsageError(f"environment {env_id}: cannot import {name}: {error}{instead}") from error
    except (Exception, SystemExit) as error:  # whatever a module of the user's raises, or no name of one
        what = f"cannot import {name or 'nothing'}: {where_raised(error)}"
        raise UsageError(f"environment {env_id}: {what}") from error
    for kind, function in (("parallel", "parallel_env"), ("aec", "env")):
        if callable(getattr(module, function, None)):
            return kind, getattr(module, function)
    raise UsageError(f"environment {env_id}: module {name} has neither parallel_env() nor env()")


def _is_its_own(env_id: str) -> bool:
    """Says whether an environment is of PettingZoo's authors, by its id or module."""
    name = env_id.removeprefix(PETTINGZOO)
    return "/" in name or name.partition(".")[0] in PETTINGZOOS_OWN


def _package(error: ImportError) -> str | None:
    """Returns the package that an import did not find."""
    return error.name.partition(".")[0] if isinstance(error, ModuleNotFoundError) and error.name else None


def _needs(env_id: str, error: ImportError) -> UsageError:
    """Returns the error that says which package an environment lacks, and how to install it, where it is
    one of PettingZoo's: what these import has the names under which it is installed."""
    line, package = " ".join(str(error).split()), _package(error) if _is_its_own(env_id) else None
    hint = "" if package is None else f": ./setup.sh uv pip install {package}"
    return UsageError(f"environment {env_id} needs a package that is missing: {line}{hint}")


class Seen:
    """What an agent sees, as one array: a Box as it is, anything else flattened, the action mask apart.

    Args:
        space: the agent's observation space.
    """

    def __init__(self, space: spaces.Space) -> None:
        self.masked = isinstance(space, spaces.Dict) and ACTION_MASK in space.spaces
        self._whole = space
        if self.masked:
            rest = {key: each for key, each in space.spaces.items() if key != ACTION_MASK}
            space = next(iter(rest.values())) if len(rest) == 1 else spaces.Dict(rest)
            self._key = next(iter(rest)) if len(rest) == 1 else None
        self._plain = space if isinstance(space, spaces.Box) else None
        self._rest = space
        self.space = space if self._plain is not None else spaces.flatten_space(space)

    def __call__(self, observation: Any) -> tuple[np.ndarray, np.ndarray | None]:
        """Returns the array and the mask, None where observations hold none."""
        mask = observation[ACTION_MASK] if self.masked else None
        if self.masked:
            rest = {key: each for key, each in observation.items() if key != ACTION_MASK}
            observation = rest if self._key is None else rest[self._key]
        if self._plain is None:
            observation = spaces.flatten(self._rest, observation)
        return np.asarray(observation), mask


def common_observation_space(each: Sequence[spaces.Box]) -> spaces.Box:
    """Returns one space for all agents: theirs where these have one shape, else as wide as the widest,
    flattened; bytes stay bytes, other numbers are float32."""
    pictures = all(space.dtype == np.uint8 for space in each)
    if len({space.shape for space in each}) == 1:
        lows, highs = [space.low for space in each], [space.high for space in each]
    else:
        width = max(int(np.prod(space.shape)) for space in each)
        lows, highs = ([_filled(getattr(space, side), width) for space in each] for side in ("low", "high"))
    dtype = np.uint8 if pictures else np.float32
    return spaces.Box(np.min(lows, 0).astype(dtype), np.max(highs, 0).astype(dtype), dtype=dtype)


def common_action_space(each: Sequence[spaces.Space], env_id: str) -> spaces.Space:
    """Returns one space for all agents: Discrete with as many actions as any has, or Box as wide as any's.

    Raises:
        UsageError: there is none.
    """
    if all(isinstance(space, spaces.Discrete) for space in each):
        return spaces.Discrete(max(int(space.n) for space in each))
    if all(isinstance(space, spaces.Box) and len(space.shape) == 1 for space in each):
        widest = max(each, key=lambda space: space.shape)
        if all(space == spaces.Box(*_bounds(widest, space.shape[0]), dtype=space.dtype) for space in each):
            return action_view(widest)
    kinds = ", ".join(sorted({str(space) for space in each}))
    raise UsageError(
        f"the agents of {env_id} act too differently ({kinds}): all Discrete, or alike Boxes, will do"
    )


def action_encoder_of(space: spaces.Space) -> Callable[[np.ndarray], np.ndarray]:
    """Returns the function from actions of the common space, [B, ...], to those that an agent with `space`
    takes."""
    encode = action_encoder(space)
    if isinstance(space, spaces.Box):
        return lambda action: encode(action[:, : space.shape[0]])
    return encode


def flat(space: spaces.Box) -> spaces.Box:
    """Returns the space of elements of `space` as float32 [n]."""
    return spaces.Box(
        *(side.ravel().astype(np.float32) for side in (space.low, space.high)), dtype=np.float32
    )


def _bounds(space: spaces.Box, width: int) -> tuple[np.ndarray, np.ndarray]:
    return space.low[:width], space.high[:width]


def _filled(values: np.ndarray, width: int) -> np.ndarray:
    """Returns them in one row, filled up with zeros."""
    return np.pad(values.ravel().astype(np.float64), (0, width - values.size))
