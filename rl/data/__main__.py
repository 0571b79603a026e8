"""Describes, splits, merges, converts and repairs data sets: `python -m rl.data --help`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from rl.cli import answered
from rl.data import flat, shards, stored, summary, tools
from rl.data.dataset import Dataset, data_folder, read, write
from rl.data.metadata import METADATA
from rl.errors import UsageError, nearest
from rl.flags import Parser, integer
from rl.storage.files import failure, folder_lock, reason

OF_OTHERS = (".npy", ".csv", ".tsv", ".txt", ".pkl", ".pickle", ".parquet", ".zip", ".gz", ".h5py", ".arrow")
COMMANDS = ("split", "merge", "convert", "repair")
EXAMPLES = """examples:
  python -m rl.data data/cartpole                                       what is in it
  python -m rl.data split data/cartpole --to data/train data/test --share 0.9
  python -m rl.data split data/expert --to data/ten data/rest --episodes 10
  python -m rl.data merge data/random data/expert --to data/mixed
  python -m rl.data convert hopper.hdf5 --to data/hopper --env Hopper-v5
  python -m rl.data convert data/cartpole --to cartpole.npz
  python -m rl.data repair data/cartpole                                after a crash or damage
"""


def build_parser() -> argparse.ArgumentParser:
    """Builds the parser of all commands except the one without a name (the description of data sets)."""
    parser = Parser(
        prog="python -m rl.data",
        description="Tells what is in a data set (python -m rl.data DIR ...), or makes others of it.",
        epilog=EXAMPLES,
    )
    commands = parser.add_subparsers(dest="command", metavar="DIR|" + "|".join(COMMANDS))

    def command(name: str, text: str) -> argparse.ArgumentParser:
        return commands.add_parser(name, help=text, description=text)

    def target(made: argparse.ArgumentParser, count: int | None, text: str) -> None:
        made.add_argument("--to", nargs=count, required=True, metavar="OUT", help=text)
        made.add_argument("--force", action="store_true", help="replace what is there")

    one = command("split", "draws episodes for one data set; the others go to a second one")
    one.add_argument("source", metavar="DIR")
    target(one, 2, "the two folders")
    one.add_argument("--share", type=float, metavar="X", help="share of the episodes for the first one")
    one.add_argument("--episodes", type=integer(1), metavar="N", help="episodes for the first one")
    one.add_argument("--seed", type=integer(0), default=0, metavar="N", help="which ones (default 0)")
    one = command("merge", "puts data sets of one environment together")
    one.add_argument("sources", nargs="+", metavar="DIR")
    target(one, None, "the folder")
    one = command("convert", "copies a data set: folders, D4RL's .hdf5 and .npz, RLlib's .json(l)")
    one.add_argument("source", metavar="FROM")
    target(one, None, "a folder, or a file whose name ends on .hdf5, .npz or .jsonl")
    one.add_argument("--env", metavar="ID", help="environment of a file, which does not say its spaces")
    one = command("repair", "takes in what crashed recordings left, leaves out what is damaged")
    one.add_argument("source", metavar="DIR")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code (2 for a mistake in what was typed)."""
    words = list(sys.argv[1:] if argv is None else argv)
    return answered(lambda: _run(words))


def _run(words: list[str]) -> int:
    parser = build_parser()
    if words and not words[0].startswith("-") and words[0] not in COMMANDS:
        if len(words) > 1 and not Path(words[0]).exists() and get_close_matches(words[0], COMMANDS):
            raise UsageError(f"{words[0]} is neither a folder nor a command; {nearest(words[0], COMMANDS)}")
        flags = [word for word in words if word.startswith("-")]
        if flags:
            raise UsageError(f"unknown flag {flags[0]}: DIR ... are folders (all: --help)")
        for i, folder in enumerate(words):
            lines = summary.summary(folder)
            title = [*([""] if i else []), f"{folder}:"] if len(words) > 1 else []
            print("\n".join([*title, *lines]))
        return 0
    args = parser.parse_args(words)
    if args.command is None:
        raise UsageError(f"name a data set, or one of {', '.join(COMMANDS)} (all: --help)")
    {"split": _split, "merge": _merge, "convert": _convert, "repair": _repair}[args.command](args)
    return 0


def _split(args: argparse.Namespace) -> None:
    if (args.share is None) == (args.episodes is None):
        raise UsageError("split: give either --share X or --episodes N")
    if args.share is not None and not 0.0 < args.share < 1.0:
        raise UsageError(f"--share {args.share}: needs a number between 0 and 1")
    if _same(*args.to):
        raise UsageError(f"--to {args.to[0]} {args.to[1]}: name two folders")
    targets = [_free(each, args.force, args.source) for each in args.to]
    dataset = read(args.source, exact=True)
    count = args.episodes or max(1, round(args.share * len(dataset.lengths)))
    for target, part in zip(targets, tools.split(dataset, count, args.seed), strict=True):
        _write(target, part, args.force)


def _merge(args: argparse.Namespace) -> None:
    target = _free(args.to, args.force, *args.sources)
    datasets = [read(each, exact=True) for each in args.sources]
    _write(target, tools.merge(args.sources, datasets), args.force)


def _convert(args: argparse.Namespace) -> None:
    source, target = Path(args.source), _free(args.to, args.force, args.source)
    if target.suffix in OF_OTHERS:
        raise UsageError(f"--to {target}: name a folder, or a file that ends on .hdf5, .npz or .jsonl")
    if source.is_dir() and ((source / METADATA).is_file() or not list(source.glob("*.json*"))):
        if args.env:
            raise UsageError(f"--env {args.env}: {source} is a data set, which says its environment itself")
        dataset = read(source, exact=True)
    else:
        dataset = _read_file(source, args.env)
    _write(target, dataset, args.force)


def _read_file(source: Path, env: str | None) -> Dataset:
    if not source.exists():
        raise UsageError(
            f"there is no {source}: name a data set's folder, or a file ({', '.join(flat.FORMATS)})"
        )
    if source.is_file() and flat.kind(source) not in flat.FORMATS:
        raise UsageError(f"{source}: the name of a file that is read ends on {', '.join(flat.FORMATS)}")
    if env is None:
        dataset = flat.read_flat(source)
        print(
            f"{source} does not say its spaces: taken for {dataset.observation_space} and "
            f"{dataset.action_space}; --env ID says them",
            file=sys.stderr,
        )
        return dataset
    dataset = flat.read_flat(source, *_spaces(env))
    dataset.metadata["env_id"] = env
    return dataset


def _spaces(env: str) -> tuple[spaces.Space, spaces.Space]:
    from rl.envs.make import make_gym_env

    made = make_gym_env(env)
    made.close()
    return made.observation_space, made.action_space


def _free(target: str, force: bool, *sources: str) -> Path:
    """Returns the folder to write to; raises UsageError where it exists and must stay, or is one of the
    sources."""
    path = Path(target)
    if any(_same(target, each) for each in sources):
        raise UsageError(f"--to {target}: that is what is read; name another")
    if (path / METADATA).is_file():
        raise UsageError(f"--to {target}: that is in the data set {path.parent}; name another")
    there = path / "data" if path.is_dir() else path
    if there.is_dir() and any(there.iterdir()) and not (there / METADATA).is_file():
        raise UsageError(f"--to {target}: what is in {there} is no data set; name another")
    others = stored.other_files(there) if there.is_dir() else []
    if others:
        raise UsageError(f"--to {target}: {others[0]} in {there} is no file of a data set; name another")
    if there.exists() and not force:
        raise UsageError(f"{there} is there already: name another, or replace it by --force")
    if path.is_file() and flat.kind(path) not in flat.FORMATS:
        raise UsageError(f"--to {target}: that is a file; name a folder")
    return path


def _same(one: str, other: str) -> bool:
    """Says whether two names are of one place: a data set may be called after the folder that its files are
    in, too."""
    places = [{Path(each).resolve(), (Path(each) / "data").resolve()} for each in (one, other)]
    return not places[0].isdisjoint(places[1])


def _start(dataset: Dataset) -> Any:
    """Returns what is added to discrete actions to get the environment's own numbers: its `start`, since
    recordings count from 0. 0 where the data have these numbers already (read from a file, or Minari's), and
    where the environment is unknown here. It is not imported, since the data may come from an untrusted
    source."""
    space = dataset.action_space
    if not isinstance(space, spaces.Discrete | spaces.MultiDiscrete) or np.any(space.start):
        return 0
    try:
        own = None if ":" in (dataset.env_id or ":") else _spaces(str(dataset.env_id))[1]
    except UsageError:
        own = None
    if own is None:
        print("actions are written as numbers from 0: the environment is not known here", file=sys.stderr)
    return getattr(own, "start", 0)


def _write(target: Path, dataset: Dataset, force: bool) -> None:
    if flat.kind(target) in flat.FORMATS and not target.is_dir():
        flat.write_flat(target, dataset, _start(dataset))
    else:
        write(target, dataset, force=force)
    print(f"wrote {target}: {len(dataset.lengths):,} episodes, {int(dataset.lengths.sum()):,} steps")


def _repair(args: argparse.Namespace) -> None:
    data = data_folder(args.source)
    try:
        with folder_lock(data, wait=True):
            done = shards.repair(data)
    except OSError as error:
        raise failure(f"cannot repair {args.source}: {reason(error)}", error) from error
    print("\n".join(done) or f"{args.source}: there is nothing to repair")


if __name__ == "__main__":
    sys.exit(main())
