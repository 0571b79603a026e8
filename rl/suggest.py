"""Which sets fit an environment: what `--suggest` prints."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any, NamedTuple

from rl.agents.algos.registry import action_spaces_of
from rl.envs.agents import VIEWS, OfAgents
from rl.envs.make import chosen_backend, eval_envs_of
from rl.errors import UsageError
from rl.hparams.es import ESHParams
from rl.hparams.hints import picture_hint
from rl.hparams.hparams import HParams
from rl.hparams.merge import named
from rl.hparams.vdn import VDNHParams
from rl.listing import print_tables, registry_of
from rl.plot.methods import number
from rl.report.video import headless_setup
from rl.spaces import ACTION_MASK, check_action_space

MEASURED = Path(__file__).parent / "hparams" / "measured.csv"  # written by benchmarks/report.py
HEADER = ("name", "mean return", "seeds", "steps", "what it is")


class Measured(NamedTuple):
    """What a set came to, as benchmarks/results has it."""

    mean_return: float  # over seeds, of the last checkpoint's 100 episodes
    seeds: int
    steps: int
    judged: bool  # by seeds that chose nothing, and as the set is now
    workers: int = 0  # that it was measured with


def suggest(env_id: str) -> int:
    """Prints the sets for an environment, the best measured first; where there are none, the sets of all
    algorithms that can act in it. Returns 0.

    Raises:
        UsageError: there is no such environment, or it cannot be made.
    """
    sets = [(name, named(name)) for name in registry_of("hparams").names()]
    mine = [(name, hparams) for name, hparams in sets if hparams.env == env_id]
    if mine:
        known = measured()
        mine.sort(key=lambda pair: _order(pair[1], known.get(pair[0])))
        rows = [_row(name, hparams, known.get(name)) for name, hparams in mine]
        print_tables({f"sets for {env_id}": rows}, HEADER, titled=False)
        print(f"python train.py --hparams {mine[0][0]}")
        return 0
    chosen_backend(env_id, "auto")
    generic = [(name, hparams) for name, hparams in sets if not hparams.env and hparams.algo]
    fitting, hint = _fitting(env_id, generic)
    if not fitting:
        raise UsageError(f"{env_id} has no set, and no algorithm can act in it as it is")
    fitting.sort(key=lambda pair: _needs(pair[1]) != "")  # by name otherwise
    rows = [_row(name, hparams, None) for name, hparams in fitting]
    title = f"no set is for {env_id}; these are of algorithms that can act in it"
    print_tables({title: [(row[0], row[-1]) for row in rows]}, (HEADER[0], HEADER[-1]), titled=True)
    print(f"python train.py --hparams {_first(fitting)} --env {env_id}")
    if hint:
        print(hint)
    return 0


def measured() -> dict[str, Measured]:
    """Returns set -> what it came to; empty where the package came without that table."""
    if not MEASURED.exists():
        return {}
    with MEASURED.open(newline="", encoding="utf-8") as file:
        return {
            row["hparams"]: Measured(
                float(row["mean_return"]),
                int(row["seeds"]),
                int(row["steps"]),
                row["judged"] == "yes",
                int(row.get("workers") or 0),
            )
            for row in csv.DictReader(file)
        }


def _order(hparams: HParams, found: Measured | None) -> tuple[Any, ...]:
    """Returns what sets are sorted by: what plays alone and was judged first, then return, then steps."""
    if found is None:
        return _needs(hparams) != "", 2
    return _needs(hparams) != "", 0 if found.judged else 1, -found.mean_return, found.steps


def _row(name: str, hparams: HParams, found: Measured | None) -> tuple[str, ...]:
    what = registry_of("hparams").entry(name).description + _needs(hparams)
    if found is None:
        return name, "not measured", "", f"{hparams.train_steps:,}", what
    seeds = f"{found.seeds}" if found.judged else f"{found.seeds}, not judged"
    seeds += f", {found.workers} workers" if found.workers else ""
    return name, number(found.mean_return), seeds, f"{found.steps:,}", what


def _needs(hparams: HParams) -> str:
    """Returns what a set asks for beside an environment, as an addition to a sentence."""
    if hparams.taught:
        return " Needs data and a trained run."
    return " Needs data." if hparams.offline or hparams.demonstrated else ""


def _fitting(env_id: str, generic: list[tuple[str, HParams]]) -> tuple[list[tuple[str, HParams]], str | None]:
    """Returns the sets whose algorithms act in the environment, and what is to be said of its pictures."""
    headless_setup()
    spaces: dict[str, Any] = {}  # view -> (observation space, action space)
    team: OfAgents | None = None
    refusal: UsageError | None = None
    for view in VIEWS:
        hparams = next(each for _, each in generic if each.view == view).thawed()
        hparams.env = env_id
        try:
            env = eval_envs_of(hparams, 1)
        except UsageError as error:  # not seen that way
            refusal = refusal or error
            continue
        env.close()
        parts = getattr(env.observation_space, "spaces", None) or {}
        team = next((each for each in parts.values() if isinstance(each, OfAgents)), None)
        if view != VIEWS[0] and team is None:  # for algorithms of many
            continue
        spaces[view] = env.observation_space, env.action_space
    if not spaces and refusal is not None:
        raise refusal
    found, hint = [], None
    in_graph = chosen_backend(env_id, "auto") == "graph"
    for name, hparams in generic:
        if (hparams.searches or hparams.adapts) and not in_graph:
            continue
        if hparams.view not in spaces or (team is not None and _refuses(hparams, team)):
            continue
        try:
            check_action_space(hparams, action_spaces_of(hparams.algo), spaces[hparams.view][1])
        except UsageError:
            continue
        if not hparams.masks and ACTION_MASK in (getattr(spaces[hparams.view][0], "spaces", None) or ()):
            continue
        found.append((name, hparams))
        hparams.env = env_id
        hint = hint or picture_hint(hparams, spaces[hparams.view][0])
    return found, hint


def _refuses(hparams: HParams, team: OfAgents) -> bool:
    """Says whether an algorithm refuses agents: it compares parameters, or they have no value as a team."""
    return isinstance(hparams, ESHParams) or (isinstance(hparams, VDNHParams) and not team.cooperative)


def _first(fitting: list[tuple[str, HParams]]) -> str:
    """Returns the set to begin with: PPO's where it fits, which acts in most environments."""
    names = [name for name, _ in fitting]
    return "ppo" if "ppo" in names else names[0]
