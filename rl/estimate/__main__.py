"""Estimates a trained policy's return from episodes of other policies: `python -m rl.estimate --help`."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from typing import Any

from rl.cli import answered
from rl.data.dataset import Dataset, check_values, data_folder, read
from rl.errors import UsageError
from rl.flags import Parser, integer, one_of, policy_flags
from rl.hparams.overrides import parse_overrides
from rl.imports import import_tensorflow
from rl.registry import import_user_modules
from rl.report.tables import plain_table
from rl.storage.address import check_run

EXAMPLES = """examples:
  python -m rl.estimate --run runs/ppo_cartpole --data data/cartpole
  python -m rl.estimate --run runs/ppo_cartpole --data data/cartpole --eval_policy sample --estimators wis,wdr
  python -m rl.estimate --run runs/dqn_cartpole --data data/cartpole --estimators dm --json
"""

FEW = 50.0  # effective sample size (episodes) below which there is a caution, unless it is half of all
NO_DENSITY = (
    "a policy of one action in a continuous space never takes the data's actions, which leaves no importance "
    "ratios"
)


def build_parser() -> argparse.ArgumentParser:
    """Builds the parser of all flags."""
    parser = Parser(
        prog="python -m rl.estimate",
        description="Estimates the discounted return of a trained policy by data that others played.",
        epilog=EXAMPLES,
    )
    add = parser.add_argument
    policy_flags(parser, "--run")
    add("--data", required=True, metavar="DIR", help="a data set of the same environment")
    policies = "the policy's best actions, or ones drawn from its distribution (default: the run's)"
    add("--eval_policy", type=one_of("greedy", "sample"), metavar="greedy|sample", help=policies)
    add("--estimators", metavar="NAME,...", help="of is, wis, pdis, wpdis, dm, dr, wdr (default: all)")
    add("--gamma", type=_discount, metavar="X", help="discount of a step (default: the run's)")
    add("--seed", type=integer(0), default=0, metavar="N", help="of resamples and fits (default 0)")
    text = "bootstrap resamples of the episodes (default 1000)"
    add("--resamples", type=integer(1), default=1000, metavar="N", help=text)
    text = "hyperparameters of fitted Q evaluation, such as train_steps=50000,model.hidden=[256,256]"
    add("--hparam_override", default="", metavar="NAME=VALUE,...", help=text)
    add("--json", action="store_true", help="print JSON")
    return parser


def _discount(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0.0 <= value <= 1.0:
        raise argparse.ArgumentTypeError(f"needs a number from 0 to 1, not {text!r}")
    return value


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code (2 for a mistake in what was typed)."""

    def work() -> int:
        args = build_parser().parse_args(argv)
        import_user_modules(args.user_modules)
        data = _checked(args)
        import_tensorflow()
        found = _estimated(args, data)
        if args.json:
            print(json.dumps(_plain(found), indent=2))
        else:
            _print(found)
        return 0

    return answered(work)


def _checked(args: argparse.Namespace) -> Dataset:
    """Reads the data; raises UsageError for what can be known to be wrong before TensorFlow is there."""
    check_run(args.run, "--run")
    parse_overrides(args.hparam_override)
    data_folder(args.data)
    data = read(args.data)
    check_values(data, args.data)
    return data


def _estimated(args: argparse.Namespace, data: Dataset) -> dict[str, Any]:
    """Returns what is printed, by name."""
    from rl.api import load
    from rl.envs.of_data import telling
    from rl.estimate.behaviour import clone, no_ratios, recorded
    from rl.estimate.estimators import BY_RATIOS, BY_VALUES, RATIO, TITLES, chosen, estimates
    from rl.estimate.fqe import FQE, default_hparams, fitted
    from rl.estimate.policy import DataPolicy

    names = chosen(args.estimators)
    agent = load(args.run, args.which, args.eval_policy, args.env).agent
    data = telling(agent.hparams, data)
    gamma = agent.hparams.gamma if args.gamma is None else args.gamma
    policy = DataPolicy(agent, data, args.data)
    fqe = default_hparams(agent.hparams, args.data, gamma, parse_overrides(args.hparam_override))
    notes, left = [], names
    why = no_ratios(data) if policy.has_density else NO_DENSITY
    if why:
        note = f"{why}: take fitted Q evaluation (--estimators dm)"
        left = [name for name in names if name not in BY_RATIOS]
        if not left or (args.estimators and left != names):
            raise UsageError(note)
        notes.append(note)
    if not isinstance(data.action_space, FQE.action_spaces):
        note = f"fitted Q evaluation is for Discrete and Box actions, and the data have {data.action_space}"
        if args.estimators and set(left) & set(BY_VALUES):
            raise UsageError(f"{note}: take --estimators is,wis,pdis,wpdis")
        notes.append(note)
        left = [name for name in left if name not in BY_VALUES]
    log_ratio = values = behaviour = None
    if set(left) & set(BY_RATIOS):
        played, behaviour = recorded(data), "recorded with the data"
        if played is None:
            behaviour = "cloned from the data, which do not say how likely their actions were"
            cloned = DataPolicy(clone(data, args.data, agent.hparams, args.seed), data, args.data)
            played = cloned.log_prob()
        log_ratio = policy.log_prob() - played
    if set(left) & set(BY_VALUES):
        values, error = fitted(policy, data, fqe, args.seed)
        notes.append(f"fitted Q evaluation: mean temporal difference error {error:.3g}")
    rows = estimates(left, data, gamma, log_ratio, values, args.resamples, args.seed)
    notes += cautions(rows, len(data.lengths), rows.pop(RATIO, None))
    cut = int((~data.terminated[data.starts + data.lengths - 1]).sum())
    if cut and set(left) & set(BY_VALUES) and gamma ** int(data.lengths.max()) > 1e-3:
        notes.append(
            f"{cut:,} episodes were cut: dm, dr and wdr count the value of what would follow, others do not"
        )
    return {
        "run": args.run,
        "which": args.which,
        "eval_policy": agent.hparams.eval_policy,
        "data": args.data,
        "episodes": len(data.lengths),
        "steps": len(data.reward),
        "gamma": gamma,
        "behaviour": behaviour,
        "notes": notes,
        "estimates": {name: row._asdict() for name, row in rows.items()},
        "titles": {"data": "average of the data", **{name: TITLES[name] for name in left}},
    }


def cautions(rows: dict[str, Any], episodes: int, ratio: Any = None) -> list[str]:
    """Returns cautions about estimates that are unreliable.

    rows: the estimates by name.
    episodes: number of episodes of the data.
    ratio: the mean importance ratio of an episode, with its interval; None if there are no ratios.
    """
    found = []
    if episodes == 1:
        found.append("one episode does not tell how far returns spread: there are no intervals")
    sizes = [row.effective_sample_size for name, row in rows.items() if name not in ("data", "dm")]
    if sizes and min(sizes) < min(FEW, 0.5 * episodes):
        found.append(
            f"importance ratios rest on {min(sizes):.1f} episodes: the policy acts unlike those that played, "
            "intervals are too narrow, and even its fitted values are guesses there (own data of it would "
            "tell: --record_data)"
        )
    unbiased = [name for name in ("is", "pdis", "dr") if name in rows]
    if unbiased and ratio is not None and episodes > 1 and not ratio.low <= 1.0 <= ratio.high:
        found.append(
            f"the importance ratios of episodes average {_number(ratio.estimate)} ({_number(ratio.low)} to "
            f"{_number(ratio.high)}), where they should 1: the data lack episodes that the policy would "
            f"play, and {', '.join(unbiased)} are wrong by more than their intervals (wis and wpdis less)"
        )
    if any(name in rows for name in ("dm", "dr", "wdr")):
        found.append("the intervals of dm, dr and wdr do not hold what fitted Q evaluation gets wrong")
    return found


def _plain(found: Any) -> Any:
    """Returns JSON's own values: null for what is no finite number."""
    if isinstance(found, dict):
        return {key: _plain(value) for key, value in found.items() if key != "titles"}
    return None if isinstance(found, float) and not math.isfinite(found) else found


def _print(found: dict[str, Any]) -> None:
    print(f"policy     {found['run']}, {found['which']}, {found['eval_policy']}")
    print(f"data       {found['data']}: {found['episodes']:,} episodes, {found['steps']:,} steps")
    if found["behaviour"]:
        print(f"behaviour  {found['behaviour']}")
    print(f"returns    discounted by {found['gamma']:g} a step\n")
    rows = [["", "estimator", "return", "95 % interval", "effective sample size"]]
    for name, row in found["estimates"].items():
        interval = f"{_number(row['low'])} to {_number(row['high'])}" if found["episodes"] > 1 else "-"
        size = f"{row['effective_sample_size']:,.1f}"
        rows.append([name, found["titles"][name], _number(row["estimate"]), interval, size])
    plain_table(rows, sys.stdout)
    if found["notes"]:
        print("\n" + "\n".join(found["notes"]))


def _number(value: float) -> str:
    if not math.isfinite(value):
        return "-"
    return f"{value:,.1f}" if abs(value) >= 100 else f"{value:.3g}"


if __name__ == "__main__":
    sys.exit(main())
