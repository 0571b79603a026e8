"""Makes data sets by our own agents: `python benchmarks/make_data.py --tasks cartpole pendulum`.

Four for each task, named as D4RL names them: random (actions drawn), medium (a policy stopped at a part of
its steps, played), medium-replay (all that was played until then), expert (a finished run, played). A fifth,
expert-ten, has ten episodes of the finished run, for imitation. A command that was interrupted goes on; data
sets of played policies that are there stay as they are.
"""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import shared
from children import ENDED, run
from shared import ROOT

QUALITIES = ("random", "medium-replay", "medium", "expert", "expert-ten")


class Task(NamedTuple):
    """How the data of a task are made, by policies that draw their actions, as D4RL's do."""

    hparams: str  # the set that learns it
    medium: int  # environment steps after which its policy is medium
    random: str = ""  # the set that plays at random, where that one has no random_steps


# CartPole's medium-replay has 39,000 steps of 310 episodes. DQN is medium after 8,000, with 130 episodes of
# 221 steps at most: nearly all long ones leave the track at its right end, and none tells how to stay on it.
TASKS = {
    "cartpole": Task("ppo_cartpole", 40_960, "dqn_cartpole"),
    "pendulum": Task("sac_pendulum", 4000),
    "hopper": Task("sac_hopper", 150_000),
    "halfcheetah": Task("sac_halfcheetah", 50_000),
}


def commands(
    task: str, folder: Path, seed: int, random_steps: int, episodes: int, qualities: Sequence[str] = QUALITIES
) -> Iterator[tuple[Path, list[str]]]:
    """Yields (data set, words of the command that makes it), in their order. `medium` takes its policy from
    the run that makes `medium-replay`, which is made with it."""
    hparams, medium, at_random = TASKS[task]
    runs, begun = folder / "runs", ["--seed", str(seed), "--test_episodes", "1"]
    train = ["python", "train.py", "--hparams", hparams, *begun]
    play = ["python", "train.py", "--training", "False", "--eval_policy", "sample"]
    many, ten = (["--test_episodes", str(count)] for count in (episodes, 10))

    def named(quality: str) -> tuple[Path, Path]:
        return folder / f"{task}-{quality}-v0", runs / f"{task}-{quality}"

    data, run = named("random")
    drawn = f"random_steps={random_steps},min_replay_size={random_steps},eval_period=0"
    steps = ["--train_steps", str(random_steps), "--hparam_override", drawn]
    play_at_random = ["python", "train.py", "--hparams", at_random or hparams, *begun]
    if "random" in qualities:
        yield data, [*play_at_random, *steps, "--output_dir", str(run), "--record_data", str(data)]

    (replay, _), (data, run) = named("medium-replay"), named("medium")
    steps = ["--train_steps", str(medium), "--hparam_override", "eval_period=0"]
    if {"medium", "medium-replay"} & set(qualities):
        yield replay, [*train, *steps, "--output_dir", str(run), "--record_data", str(replay)]
    if "medium" in qualities:
        yield data, [*play, *many, "--output_dir", str(run), "--record_data", str(data)]

    data, run = named("expert")
    if {"expert", "expert-ten"} & set(qualities):
        yield run, [*train, "--output_dir", str(run)]
    if "expert" in qualities:
        yield data, [*play, *many, "--output_dir", str(run), "--record_data", str(data)]
    if "expert-ten" in qualities:
        data, _ = named("expert-ten")
        yield data, [*play, *ten, "--output_dir", str(run), "--record_data", str(data)]


def made(task: str, folder: Path) -> bool:
    """Says whether all data sets of a task are there."""
    places = [place for place, words in commands(task, folder, 0, 1, 1) if "--record_data" in words]
    return all((place / "data" / "metadata.json").exists() for place in places)


def provide(tasks: Collection[str], folder: Path, nice: int = 0) -> None:
    """Makes all data sets of the tasks that lack one, in a process of that priority. Exits where it fails."""
    missing = sorted(task for task in tasks if not made(task, folder))
    if not missing:
        return
    folder.mkdir(parents=True, exist_ok=True)
    command = [str(Path(__file__)), "--tasks", *missing, "--output_dir", str(folder)]
    print(f"making data of {', '.join(missing)} in {folder}", flush=True)
    if run(command, folder / "output.txt", nice):
        raise SystemExit(f"no data to learn from, see {folder / 'output.txt'}")


def main() -> None:
    """Runs the command line."""
    parser, count = shared.parser(__doc__), shared.integer(1)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=["cartpole", "pendulum"])
    parser.add_argument("--output_dir", default="data", help="folder of the data sets (default data)")
    parser.add_argument("--qualities", nargs="+", choices=QUALITIES, default=QUALITIES, metavar="QUALITY",
                        help="of " + ", ".join(QUALITIES) + " (default: all)")  # fmt: skip
    parser.add_argument("--seed", type=shared.integer(0), default=0)
    parser.add_argument("--random_steps", type=count, default=10_000, help="steps of the random data sets")
    parser.add_argument("--episodes", type=count, default=100, help="episodes of medium and of expert")
    parser.add_argument("--print", action="store_true", help="print the commands, run none")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(ENDED))  # so that the run under way ends, too
    folder = Path(args.output_dir)
    for task in args.tasks:
        listed = list(commands(task, folder, args.seed, args.random_steps, args.episodes, args.qualities))
        for place, words in listed:
            print(f"$ {shlex.join(words)}", flush=True)
            if "False" in words and (place / "data" / "metadata.json").exists():
                print(f"{place} is there already", flush=True)
            elif not args.print:
                subprocess.run([sys.executable, str(ROOT / words[1]), *words[2:]], check=True)
        if not args.print:
            made = [place for place, words in listed if "--record_data" in words]
            sets = [str(place.resolve()) for place in made]
            subprocess.run([sys.executable, "-m", "rl.data", *sets], cwd=ROOT, check=True)


if __name__ == "__main__":
    shared.answer(main)
