"""The command line: reads and checks what the user typed, lists names, then calls `rl.experiment.run`.

Nothing here imports TensorFlow before all input has been checked, so that help, lists and error messages
come at once.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import io
import os
import select
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from rl import other_names
from rl.errors import AGAIN, GivenUp, LearnerLost, MachineLost, NotSent, Unavailable, UsageError, nearest
from rl.flags import Parser, boolean, flags_of, integer, unknown_word
from rl.heartbeat import limit_start
from rl.imports import import_tensorflow, needing_packages
from rl.listing import FAMILIES, list_names, registry_of
from rl.registry import import_user_modules
from rl.report.trackers import TRACKERS, check_tracker
from rl.request import Request
from rl.storage.address import check_recorded, check_whole, default_output
from rl.workers.plan import Workers, check_address, check_ray
from rl.workers.supervise import supervised

if TYPE_CHECKING:
    from rl.hparams.hparams import HParams
    from rl.systems.slice.hosts import Hosts

SYSTEMS = ("local", "gpu", "tpu", "gcp")  # the last one is the ancestor's name for tpu
GIVEN_UP = 3  # exit code of a run that came to NaN, or to environments that fail, too often
INDEX = "JOB_COMPLETION_INDEX"  # what Kubernetes tells each Pod of an Indexed Job

EXAMPLES = """examples:
  python train.py --sys local --hparams dqn_cartpole --output_dir runs/dqn_cartpole
  python train.py --hparams ppo_cartpole --hparam_override "lr=3e-4,model.hidden=[128,128]" --copies 3
  python train.py --hparams ppo --env Acrobot-v1 --train_steps 200000
  python train.py --hparams impala_cartpole --num_workers 2
  python train.py --hparams ppo_cartpole --copies 4 --parallel 2
  python train.py --output_dir runs/dqn_cartpole --training False --render
  python train.py --list hparams
  python train.py --list hparams ppo_cartpole
  python train.py --suggest Pendulum-v1
"""


def program() -> list[str]:
    """Says how this program is called: `rl-train` where it is installed so, else `python train.py`."""
    name = os.path.basename(sys.argv[0])
    return [name] if name == "rl-train" else ["python", "train.py"]


def build_parser() -> argparse.ArgumentParser:
    """Builds the parser of all flags; boolean ones are accepted bare (`--render`) and with a value."""
    parser = Parser(
        prog=program()[-1],
        description="Trains an agent, or continues the run that --output_dir holds, then tests it.",
        epilog=EXAMPLES.replace("python train.py", " ".join(program())),
    )
    add = parser.add_argument

    def switch(flag: str, default: bool, text: str) -> None:
        add(flag, nargs="?", const=True, default=default, type=boolean, metavar="True|False", help=text)

    def number(flag: str, default: int | None, minimum: int, text: str) -> None:
        add(flag, type=integer(minimum), default=default, metavar="N", help=text)

    add("--sys", default="local", metavar="|".join(SYSTEMS[:3]), help="machine to compute on (default local)")
    sets = "named set of hyperparameters, or several as a-b: the later wins; or a TOML file that changes one"
    add("--hparams", metavar="SET|FILE", help=sets)
    add("--env", metavar="ID", help="environment, in place of the set's own")
    wrappers = "Gymnasium wrappers around the environment, the last one outermost"
    add("--env_wrappers", metavar="module:Wrapper,...", help=wrappers)
    add("--hparam_override", default="", metavar="NAME=VALUE,...", help="single hyperparameters")
    where = (
        "where runs are kept and resumed: a folder, one of its runs (DIR/run_0), or an address such as "
        "gs://BUCKET/DIR (default runs/SET, and in its name --env, --env_wrappers, --hparam_override, "
        "--seed and --num_workers where they are given)"
    )
    add("--output_dir", metavar="DIR", help=where)
    number("--train_steps", None, 1, "environment steps to train for (default: the set's)")
    number("--test_episodes", 10, 1, "episodes of the test after training (default 10)")
    number("--eval_episodes", 10, 1, "episodes of each evaluation during training (default 10)")
    policies = "actions of evaluations, tests and films: the best ones (the default of most sets), or drawn"
    add("--eval_policy", metavar="greedy|sample", help=policies)
    switch("--training", True, "False: test what --output_dir holds, which takes no --hparams (default True)")
    switch("--test_only", False, "the same as --training False")
    number("--copies", 1, 1, "train or test N copies, run_0 to run_(N-1), each with its own seed (default 1)")
    number("--copy", None, 0, f"train copy N of --copies alone (default: {INDEX} where it is set)")
    number("--parallel", None, 1, "copies trained side by side, with cores of their own (default 1)")
    switch("--render", False, "show test episodes in a window")
    switch(
        "--record_video",
        False,
        "write mp4s: of an episode at each evaluation, as many after a test as it plays",
    )
    add("--record_data", metavar="DIR", help="data set to which the episodes of training, or of the test, go")
    add("--track", metavar="|".join(TRACKERS), help="tracker that also gets the rows and hyperparameters")
    number("--num_workers", 0, 0, "processes that act while this one learns (default 0: none)")
    add("--ray_address", metavar="HOST:PORT", help="Ray cluster for the workers (default: this machine)")
    number("--seed", 0, 0, "seed of the first copy (default 0)")
    listed = f"list names: {', '.join(FAMILIES)}; or hparams SET: all its values and what they mean"
    add("--list", nargs="*", metavar="REGISTRY", help=listed)
    add("--suggest", metavar="ENV_ID", help="list the sets that fit an environment, best measured first")
    add("--user_modules", default="", metavar="a,b", help="modules that register components of your own")
    return parser


def parse(argv: Sequence[str], others: Sequence[str] = ()) -> argparse.Namespace:
    """Parses the flags; raises UsageError for an unknown one (with the nearest) or a bad value.

    others: flags of a program around this one, which may be meant too.
    """
    parser = build_parser()
    args, rest = parser.parse_known_args(argv)
    if rest:
        flags, flag = [*flags_of(parser), *others], rest[0].partition("=")[0]
        from rl.hparams.merge import hparam_meant  # pydantic takes 0.1 s

        meant = None if flag in other_names.FLAGS else hparam_meant(flag, args.hparams)
        raise unknown_word(flag, flags, meant)
    return args


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code (2: wrong input, 3: a run was given up)."""
    words = sys.argv[1:] if argv is None else argv
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # before modules of the user's import TensorFlow
    limit_start()
    return answered(lambda: _run(words))


def answered(work: Callable[[], int]) -> int:
    """Returns the exit code of some work: what it returns, or that of an error, of which one line is said."""
    with contextlib.suppress(AttributeError, OSError, ValueError):  # a terminal may lack a path's characters
        cast(io.TextIOWrapper, sys.stdout).reconfigure(errors="backslashreplace")
    try:
        with needing_packages():
            code = work()
            sys.stdout.flush()
            return code
    except BrokenPipeError:
        output = select.poll()
        output.register(sys.stdout.fileno(), 0)
        if not output.poll(0):
            raise  # of another pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader (head, less) had enough
        return 1
    except UsageError as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        return AGAIN if isinstance(error, Unavailable) else 2
    except NotSent as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
    except GivenUp as error:
        print(f"error: {error}", file=sys.stderr)
        return GIVEN_UP
    except (LearnerLost, MachineLost) as error:
        print(f"error: {error}", file=sys.stderr)
        return AGAIN
    except OSError as error:
        return _unanswered(error)
    except KeyboardInterrupt:  # before training starts, or asked for twice
        print("interrupted", file=sys.stderr)
        return 130


def _unanswered(error: OSError) -> int:
    """Returns the exit code of an error of files that nobody has put into words, and says one line; raises it
    where a person must see whence it comes."""
    denied = isinstance(error, PermissionError) and error.filename is not None
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    try:
        sys.stdout.flush()
    except OSError as unsaid:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left is not tried again
        full = full or error.errno == unsaid.errno
    if not denied and not full:
        raise error
    where = "" if error.filename is None else f"{os.fspath(error.filename)}: "
    advice = "change its rights, or name another" if denied else "free some, then repeat the command"
    print(f"error: {where}{error.strerror or error}: {advice}", file=sys.stderr)
    return 2 if denied else AGAIN


def _run(argv: Sequence[str]) -> int:
    args = parse(argv)
    machines = _machines(args)  # before modules of the user's, which may import TensorFlow
    modules = import_user_modules(args.user_modules)
    if args.list is not None:
        return list_names(args.list)
    if args.suggest is not None:
        from rl.suggest import suggest  # takes NumPy

        return suggest(args.suggest)
    training, workers, hparams = args.training and not args.test_only, None, None
    if training or args.hparams:
        hparams = checked(args)
    else:  # a run that is only tested says itself what it is
        _check_tested(args)
    code = None
    if machines is not None:
        from rl.systems.slice.machines import together

        code = together(*machines)
    if code is None and args.num_workers and training:
        workers = Workers(args.num_workers, args.ray_address, modules)
        code = supervised()
    if code is not None:
        return code
    from rl.envs.checks import check_environment  # takes NumPy: after the processes have been divided
    from rl.envs.of_data import with_environment

    if hparams is not None:
        hparams = with_environment(hparams)
        check_environment(hparams, training, args.num_workers > 0)
    import_tensorflow()
    from rl.experiment import run

    return run(
        Request(
            hparams,
            args.hparams,
            output_dir=args.output_dir or _default_output(args),
            sys=args.sys,
            seed=args.seed,
            copies=args.copies,
            copy=args.copy,
            parallel=args.parallel or 1,
            training=training,
            render=args.render,
            record_video=args.record_video,
            record_data=args.record_data,
            track=args.track,
            eval_episodes=args.eval_episodes,
            test_episodes=args.test_episodes,
            eval_policy=args.eval_policy or _chosen_policy(hparams),
            overrides=_overrides(args),
            command=shlex.join([*program(), *argv]),
            workers=workers,
            user_modules=modules,
        )
    )


def _chosen_policy(hparams: HParams | None) -> str | None:
    """Says whose actions tests take where hparams say so themselves, not by default."""
    chosen = hparams is not None and "eval_policy" in hparams.model_fields_set
    return hparams.eval_policy if hparams is not None and chosen else None


def _overrides(args: argparse.Namespace) -> str:
    """Returns the single hyperparameters that were asked for, those of a file included."""
    if not args.hparams:
        return str(args.hparam_override)
    from rl.hparams.merge import as_typed

    return as_typed(args.hparams, args.hparam_override)[1]


def _default_output(args: argparse.Namespace) -> str:
    asked = ",".join(filter(None, [args.env_wrappers, args.hparam_override]))
    return default_output(args.hparams, args.env, asked, args.seed, args.num_workers)


def _machines(args: argparse.Namespace) -> tuple[Hosts, dict[str, str]] | None:
    """Returns the machines of this one's TPU slice, and the environment of its server; None where it is
    alone."""
    if args.sys not in ("tpu", "gcp"):
        return None
    from rl.systems.slice.hosts import hosts_here, leave_cores_to_server

    hosts = hosts_here()
    if hosts is None:
        return None
    for flag, value, least in (("--num_workers", args.num_workers, 0), ("--parallel", args.parallel or 1, 1)):
        if value > least:
            raise UsageError(
                f"{flag} {value} and a TPU slice of {len(hosts.names)} machines: take a slice of one"
            )
    return hosts, leave_cores_to_server()


def checked(args: argparse.Namespace, here: bool = True) -> HParams:
    """Returns the frozen hparams, after everything that can be checked without TensorFlow.

    here: False where the run will be on another machine: what this one has is left aside.

    Raises:
        UsageError: a name, a value or a combination is wrong.
    """
    if not args.hparams:
        raise UsageError("--hparams is missing: name a set, such as dqn_cartpole (all: --list hparams)")
    _check_flags(args, here)
    from rl.hparams.merge import resolve  # pydantic takes 0.1 s, which --help need not wait for

    flags = hparam_flags(args)
    _check_given_once(args.hparam_override, flags)
    hparams = resolve(args.hparams, args.hparam_override, **flags)
    check_components(hparams)
    return hparams


def hparam_flags(args: argparse.Namespace) -> dict[str, Any]:
    """Returns the hparams that have flags of their own, None where a flag was not given."""
    flags = {name: getattr(args, name) for name in ("env", "train_steps", "eval_policy", "env_wrappers")}
    if args.env_wrappers is not None:
        names = (name.strip() for name in args.env_wrappers.split(","))
        flags["env_wrappers"] = tuple(name for name in names if name)
    return flags


def _check_given_once(overrides: str, flags: Mapping[str, Any]) -> None:
    """Raises UsageError where an hparam is given both by its flag and as an override, differently, or a flag
    that is no hparam as one."""
    from rl.hparams.overrides import parse_overrides

    given = parse_overrides(overrides)
    for name in given.keys() - flags.keys():
        if f"--{name}" in flags_of(build_parser()):
            raise UsageError(f"--hparam_override {name}: that is no hparam but the flag --{name}")
    for name, value in flags.items():
        if value is not None and name in given and str(given[name]) != str(value):
            raise UsageError(f"--{name} {value} and --hparam_override {name}={given[name]}: take one of them")


def _check_tested(args: argparse.Namespace) -> None:
    """Raises UsageError where no run is named that says what it is, or what it says is typed."""
    if not args.output_dir:
        raise UsageError("--output_dir is missing: name the run to test, or its set by --hparams")
    for name in ("env", "env_wrappers", "hparam_override", "train_steps"):
        if getattr(args, name):
            raise UsageError(f"--{name} without --hparams: the run in {args.output_dir} says what it is")
    _check_flags(args, here=True)


def _check_flags(args: argparse.Namespace, here: bool) -> None:
    """Raises UsageError for flags that are wrong whatever the hparams, and sets `args.copy`."""
    if args.sys not in SYSTEMS:
        raise UsageError(f"unknown --sys {args.sys!r}: {nearest(args.sys, SYSTEMS)}")
    if args.track is not None:
        if args.test_only or not args.training:
            raise UsageError("--track is told of training: leave it out of a test")
        check_tracker(args.track, here)
    if args.record_data is not None:
        check_recorded(args.record_data, args.num_workers)
    if args.num_workers:
        if here:
            check_ray()
        if here and args.ray_address is not None:
            check_address(args.ray_address)
    elif args.ray_address is not None:
        raise UsageError("--ray_address is for workers: give --num_workers N with it")
    args.copy = _copy(args)
    if (args.parallel or 1) > 1 and (args.num_workers or args.render):
        other = "--num_workers" if args.num_workers else "--render"
        raise UsageError(f"--parallel {args.parallel} and {other}: take one of them")
    if args.output_dir == "":
        raise UsageError("--output_dir is empty: name a folder, such as runs/dqn_cartpole")
    if args.output_dir:
        check_whole(args.output_dir)


def _copy(args: argparse.Namespace) -> int | None:
    """Returns the only copy to train: --copy, or with several copies what an Indexed Job says; None: all of
    them."""
    copy, what = args.copy, f"--copy {args.copy}"
    if copy is None and args.copies > 1 and INDEX in os.environ:
        what = f"{INDEX}={os.environ[INDEX]}"
        if not os.environ[INDEX].isdecimal():
            raise UsageError(f"{what}: needs a number from 0 to {args.copies - 1}, or to be unset")
        copy = int(os.environ[INDEX])
    if copy is None:
        return None
    if copy >= args.copies:
        known = f"0 to {args.copies - 1}" if args.copies > 1 else "0 alone"
        raise UsageError(f"{what} and --copies {args.copies}: the copies are {known}")
    if (args.parallel or 1) > 1:
        raise UsageError(f"--parallel {args.parallel} and {what}: one copy alone has none beside it")
    return copy


def check_components(hparams: HParams) -> None:
    """Raises UsageError unless every component that the hparams name is registered; imports none of them."""
    named = {
        "algos": hparams.algo,
        "models": hparams.model.name,
        "memory": hparams.memory_name,
        "act_select": hparams.act_select_name,
        "grad_comp": hparams.grad_comp,
    }
    for family, name in named.items():
        registry_of(family).entry(name)
