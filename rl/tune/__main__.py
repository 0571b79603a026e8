"""Searches for better hyperparameters: `python -m rl.tune --help`."""

from __future__ import annotations

import argparse
import importlib.util
import math
import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rl import cli
from rl.cli import answered, checked, parse
from rl.errors import UsageError, nearest
from rl.flags import Parser, flags_of, integer
from rl.hparams.hparams import HParams
from rl.registry import import_user_modules
from rl.report.progress import say
from rl.tune.asked import TAKEN, Asked
from rl.tune.runs import Command, check_local, evaluations_per_run
from rl.workers.plan import check_address, check_ray

if TYPE_CHECKING:
    from rl.hparams.spaces import Space
    from rl.tune.judge import Judged
    from rl.tune.machines import Machines
    from rl.tune.search import Plan

EXAMPLES = """examples:
  python -m rl.tune ppo_cartpole --trials 50 --parallel 2
  python -m rl.tune ppo --env Acrobot-v1 --train_steps 200000 --trials 30 --space "lr=log:1e-4:1e-2"
  python -m rl.tune dqn_cartpole --only --space "lr=log:1e-4:1e-2,n_step=[1,3,10]" --sampler random
  python -m rl.tune ppo_cartpole --trials 50 --study sqlite:///studies.db --output_dir runs/tune_cartpole
  python -m rl.tune ppo_cartpole --population 8 --generations 10 --parallel 2
  python -m rl.tune ppo_cartpole --trials 200 --parallel 32 --ray_address 10.0.0.7:6379
"""
SAMPLERS, PRUNERS = ("tpe", "random", "grid"), ("median", "hyperband", "none")
OBJECTIVES = ("last", "curve")
OF_TRIALS = ("trials", "study", "sampler", "pruner", "objective", "seeds", "judge_seeds")
EVALUATIONS = 10  # of a run whose set asks for none
WINNER, JUDGED, STUDY, POPULATION = (
    "winner.toml",
    "judged.md",
    "study.db",
    "population.md",
)  # files in the output folder
_SEEDS = re.compile(r"(\d+)(?:-(\d+))?")


def seeds(text: str) -> range:
    """Reads `100-104`, or one number: an argparse type."""
    match = _SEEDS.fullmatch(text)
    first = int(match[1]) if match else 0
    last = int(match[2] or match[1]) if match else -1
    if last < first or last >= 2**31:
        raise argparse.ArgumentTypeError(f"needs FIRST-LAST, such as 0-2, not {text!r}")
    return range(first, last + 1)


def build_parser() -> argparse.ArgumentParser:
    """Builds the parser of the flags that train.py does not have, or that mean something else there."""
    parser = Parser(
        prog="python -m rl.tune",
        description="Searches for hyperparameters better than a set's. Trials are runs of train.py; the best "
        "one is kept as a file that --hparams takes, and trained again beside the set, on seeds that chose "
        "nothing. The same command goes on with a search that was interrupted. Further flags, train.py's: "
        f"{', '.join(f'--{name}' for name in TAKEN)}. Without --num_workers, --ray_address is of the cluster "
        "that trains.",
        epilog=EXAMPLES,
    )
    add = parser.add_argument
    add("set", metavar="SET|FILE", help="what the search begins from, as --hparams takes it")
    add("--trials", type=integer(1), default=50, metavar="N", help="in all (default 50)")
    add("--parallel", type=integer(1), default=1, metavar="N", help="trials side by side (default 1)")
    where = "folder of the search (default runs/tune_SET, and in its name what else is asked for)"
    add("--output_dir", metavar="DIR", help=where)
    add("--study", metavar="URL", help=f"Optuna's database (default {STUDY} in that folder)")
    ranges = "replaces or adds to what the algorithm declares: lr=log:1e-5:1e-2,epochs=1:9,gamma=[0.9,0.99]"
    add("--space", default="", metavar="NAME=RANGE,...", help=ranges)
    add("--only", action="store_true", help="search nothing but --space")
    add("--sampler", default="tpe", metavar="|".join(SAMPLERS), help="what proposes (default tpe)")
    add("--pruner", default="median", metavar="|".join(PRUNERS), help="what ends trials (default median)")
    objective = (
        "of a trial: its last evaluation, or the mean of all, which is for learning fast (default last)"
    )
    add("--objective", default="last", metavar="|".join(OBJECTIVES), help=objective)
    text = "of each trial, whose returns are averaged (default 0-2)"
    add("--seeds", type=seeds, default=range(3), metavar="FIRST-LAST", help=text)
    text = "on which the best trial is judged (default 100-104)"
    add("--judge_seeds", type=seeds, default=range(100, 105), metavar="FIRST-LAST", help=text)
    text = "episodes of each evaluation (default 20)"
    add("--eval_episodes", type=integer(1), default=20, metavar="N", help=text)
    add("--sampler_seed", type=integer(0), default=0, metavar="N", help="of what is proposed (default 0)")
    text = "population-based training of so many runs: the worst fifth go on as copies of the best"
    add("--population", type=integer(2), metavar="N", help=text)
    text = "parts of such a training, after each of which that happens (default 10)"
    add("--generations", type=integer(2), default=10, metavar="N", help=text)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code (2 for a mistake in what was typed)."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    return answered(lambda: _run(_asked(sys.argv[1:] if argv is None else argv)))


def _asked(argv: Sequence[str]) -> Asked:
    """Parses and checks everything that can be checked before anything is written."""
    parser = build_parser()
    own, rest = parser.parse_known_args(argv)
    if own.population is None and importlib.util.find_spec("optuna") is None:
        raise UsageError("python -m rl.tune needs Optuna, which is not installed: ./setup.sh --extra tune")
    train, bare = parse(["--hparams", own.set, *rest], flags_of(parser)), cli.build_parser().parse_args([])
    for name, value in vars(train).items():
        if name not in (*TAKEN, "hparams") and value != getattr(bare, name):
            raise UsageError(f"--{name} is none of a search's: its trials have their own (--help)")
    for name, known in (("sampler", SAMPLERS), ("pruner", PRUNERS), ("objective", OBJECTIVES)):
        if getattr(own, name) not in known:
            raise UsageError(f"unknown --{name} {getattr(own, name)!r}: {nearest(getattr(own, name), known)}")
    if own.population is not None:
        _check_population(own, train, parser)
    elif own.generations != parser.get_default("generations"):
        raise UsageError(f"--generations {own.generations} are of a population: give --population N with it")
    if set(own.seeds) & set(own.judge_seeds):
        raise UsageError("--seeds and --judge_seeds overlap: a seed that chose cannot judge")
    if own.only and not own.space:
        raise UsageError("--only: say by --space what is searched")
    import_user_modules(train.user_modules)
    own.cluster = None  # of processes of the search; where these have workers, the address is of theirs
    if train.ray_address is not None and not train.num_workers:
        own.cluster, train.ray_address = train.ray_address, None
        check_ray()
        check_address(own.cluster)
    generations = None if own.population is None else own.generations
    hparams = _with_evaluations(checked(train), generations)
    return Asked(own, train, hparams, _folder(own, train), _space(own, train, hparams))


def _check_population(
    own: argparse.Namespace, train: argparse.Namespace, parser: argparse.ArgumentParser
) -> None:
    """Raises UsageError for flags that do not apply to a population."""
    for name in OF_TRIALS:
        if getattr(own, name) != parser.get_default(name):
            raise UsageError(f"--{name} is of trials: leave it out with --population")
    if train.num_workers:
        raise UsageError("--population: its members have no workers: leave --num_workers out")


def _with_evaluations(hparams: HParams, generations: int | None) -> HParams:
    """Returns the hparams with evaluations along the way, of a population one in each generation. Raises
    UsageError where nothing can be played."""
    from rl.envs.checks import check_environment
    from rl.envs.of_data import with_environment

    hparams = with_environment(hparams)
    check_environment(hparams, training=True)
    if not hparams.env:
        raise UsageError("there is no environment to evaluate in: give --env ID")
    if hparams.stop_at_return is not None:
        raise UsageError("stop_at_return: runs of a search make all their steps: add stop_at_return=none")
    hparams = hparams.thawed()
    if generations is not None or not hparams.eval_period:
        hparams.eval_period = max(hparams.train_steps // (generations or EVALUATIONS), 1)
    hparams.log_period = min(hparams.log_period, hparams.eval_period)  # evaluations stand at its rows
    return hparams.freeze()


def _folder(own: argparse.Namespace, train: argparse.Namespace) -> Path:
    from rl.storage.address import default_output

    asked = ",".join(filter(None, [train.env_wrappers, train.hparam_override, own.space]))
    folder = own.output_dir
    if folder is None:
        place, name = os.path.split(default_output(own.set, train.env, asked, 0, train.num_workers))
        folder = os.path.join(place, f"tune_{name}")
    check_local(folder)
    return Path(folder)


def _space(own: argparse.Namespace, train: argparse.Namespace, hparams: HParams) -> Space:
    """Returns what is searched; with --only no more than is asked for."""
    from rl.hparams.overrides import parse_overrides
    from rl.hparams.spaces import Range, space_of

    space = space_of(hparams, own.space, parse_overrides(train.hparam_override))
    _check_parts(space)
    if own.only:
        space = {name: space[name] for name in parse_overrides(own.space)}
    if own.population is not None:
        from rl.tune.population import numbers

        return numbers(space, parse_overrides(own.space))
    endless = [name for name, each in space.items() if isinstance(each, Range) and not each.whole]
    if own.sampler == "grid" and endless:
        raise UsageError(f"--sampler grid: {endless[0]} has no end of values, give a list of some by --space")
    return space


def _check_parts(space: Space) -> None:
    """Raises UsageError where a part is to be tried that is in no registry: each such trial would fail."""
    from rl.agents.algos.act_select.registry import registry as act_selects
    from rl.agents.algos.grad_comp.registry import registry as grad_comps
    from rl.memory.registry import registry as memories
    from rl.models.registry import registry as models

    parts = {"act_select": act_selects, "grad_comp": grad_comps, "memory": memories, "model.name": models}
    for name in parts.keys() & space.keys():
        for option in getattr(space[name], "options", ()):
            if option not in parts[name]:
                parts[name].get(option)


def _run(asked: Asked) -> int:
    from rl.signals import StopRequest
    from rl.storage.files import ensure_writable_dir, held_alone
    from rl.tune.machines import machines

    folder, own, gpus = asked.folder, asked.own, int(asked.train.sys == "gpu")
    new = not folder.exists()
    ensure_writable_dir(folder)
    try:
        alone = held_alone(folder, f"{folder} is searched by another process", 0.0)
        with alone, StopRequest() as stop, machines(own.parallel, own.cluster, gpus) as found:
            breed = own.population is not None
            return _breed(asked, found, stop) if breed else _search(asked, _plan(asked), found, stop)
    finally:
        if new and not any(folder.iterdir()):
            folder.rmdir()


def _plan(asked: Asked) -> Plan:
    from rl.hparams.merge import resolve
    from rl.hparams.overrides import override_text, parse_overrides
    from rl.tune.search import Plan

    name, given = asked.base

    def overrides(values: Mapping[str, str]) -> str:
        tried = parse_overrides(",".join(f"{key}={text}" for key, text in values.items()))
        return override_text({**given, **asked.periods, **tried})

    def command(number: int, values: Mapping[str, str]) -> Command:
        seeds = ("--seed", str(asked.own.seeds[0]), "--copies", str(len(asked.own.seeds)))
        words = (*asked.words(name, overrides(values)), *seeds)
        return Command(words, asked.folder / f"trial_{number:03d}")

    def refused(values: Mapping[str, str]) -> str:
        try:
            resolve(name, overrides(values), **asked.flags)
        except UsageError as error:
            return str(error)
        return ""

    own = asked.own
    rest = own.eval_episodes, asked.train.num_workers
    return Plan(asked.hparams, asked.space, own.seeds, own.objective, command, refused, *rest)


def _breed(asked: Asked, machines: Machines, stop: Any) -> int:
    """Trains a population, and reports the result."""
    import functools

    from rl.hparams.overrides import override_text, parse_overrides
    from rl.storage.files import write_text_atomic
    from rl.tune.population import RUN, Plan, Population, first_seed
    from rl.tune.runs import GENERATION

    own, (name, given) = asked.own, asked.base
    first = first_seed(own.sampler_seed, own.population)

    def command(member: int, values: Mapping[str, str]) -> Command:
        changed = parse_overrides(",".join(f"{key}={text}" for key, text in values.items()))
        seed = ("--seed", str(first + member))
        words = (*asked.words(name, override_text({**given, **asked.periods, **changed})), *seed)
        return Command(words, asked.folder / f"member_{member:02d}")

    for key, each in asked.space.items():
        say(f"{key}={each.text()}")
    plan = Plan(asked.hparams, asked.space, own.population, own.sampler_seed, command, own.eval_episodes)
    start = functools.partial(machines.start, program=GENERATION)
    population = Population(plan, asked.folder, machines.places, start)
    population.run(stop)
    if stop.requested:
        say(f"stopped: the same command goes on ({shlex.quote(str(asked.folder))})")
        return int(stop.exit_code)
    lines = population.lines()
    write_text_atomic(asked.folder / POPULATION, "\n".join(lines) + "\n")
    say("\n".join(lines))
    say(asked.member_command(command(population.best(), {}).folder / RUN))
    return 0


def _search(asked: Asked, plan: Plan, machines: Machines, stop: Any) -> int:
    from rl.hparams.spaces import Choice
    from rl.tune.database import kept
    from rl.tune.search import Search, make_pruner, open_study, values_of, winner

    own, hparams = asked.own, asked.hparams
    evaluations = len(own.seeds) * evaluations_per_run(hparams.train_steps, hparams.eval_period)
    address = own.study or asked.folder.absolute() / STUDY
    study = open_study(address, asked.folder, plan, make_pruner(own.pruner, evaluations), own.sampler)
    trials = own.trials
    if own.sampler == "grid":
        sizes = (
            len(each.options) if isinstance(each, Choice) else int(each.high - each.low) + 1
            for each in asked.space.values()
        )
        trials = min(trials, math.prod(sizes))
    for name, each in asked.space.items():
        say(f"{name}={each.text()}")
    with kept(address):
        Search(study, plan, trials, own.sampler, own.sampler_seed, *machines).run(stop)
    if stop.requested:
        say(f"stopped: the same command goes on ({shlex.quote(str(asked.folder))})")
        return stop.exit_code
    with kept(address):
        best = winner(study)
    return _judge(asked, values_of(best, asked.space), best.number, machines, stop)


def _judge(asked: Asked, values: Mapping[str, str], number: int, machines: Machines, stop: Any) -> int:
    """Keeps the winner as a file, and trains it again beside the set that the search began from."""
    from rl.hparams.files import write_set
    from rl.hparams.merge import resolve
    from rl.hparams.overrides import override_text, parse_overrides
    from rl.tune.judge import Side, commands, judge

    name, given = asked.base
    found = {**given, **parse_overrides(",".join(f"{key}={text}" for key, text in values.items()))}
    kept = {**found, **asked.flags}
    file = asked.folder / WINNER
    write_set(file, name, kept, [f"Trial {number} of python -m rl.tune {asked.own.set}"])
    say(f"trial {number} is the best, kept in {file}")
    if resolve(name, kept).to_dict() == resolve(name, given, **asked.flags).to_dict():
        say(f"it is {asked.own.set} as it is: there is nothing to judge")
        return 0
    steps, sides = asked.hparams.train_steps, []
    for side, place, overrides in (
        (Path(asked.own.set).stem, "set", given),
        (f"trial {number}", f"trial_{number:03d}", found),
    ):
        words = asked.words(name, override_text({**overrides, **asked.periods}))
        folder = asked.folder / "judged" / place
        sides.append(Side(side, commands(words, asked.own.judge_seeds, folder), steps))
    judged = judge(sides, *machines, stop)
    if judged is None:
        say("stopped: the same command goes on")
        return stop.exit_code
    _tell(asked, judged, file)
    return 0


def _tell(asked: Asked, judged: Judged, file: Path) -> None:
    from rl.storage.files import write_text_atomic

    lines = judged.lines(asked.own.judge_seeds)
    write_text_atomic(asked.folder / JUDGED, "\n".join(lines) + "\n")
    say("\n".join(lines))
    say(asked.winner_command(file))


if __name__ == "__main__":
    sys.exit(main())
