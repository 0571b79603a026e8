"""Population-based training (Jaderberg et al. 2017, https://arxiv.org/abs/1711.09846).

Runs of one set train side by side, each with its own hyperparameter values. A generation ends with an
evaluation. Then the worst fifth become copies of runs of the best fifth ("truncation selection", section
4.1), with all their state, and with their values, each times 0.8 or 1.2 ("perturb"). The result is a run
whose values changed on the way, not a set.

A member is an ordinary run in a folder of its own. `population.json` records what has happened: the same
command continues where it was interrupted, bit for bit if the runs do. Random choices depend on seed and
generation.
"""

from __future__ import annotations

import json
import math
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rl.errors import AGAIN, UsageError
from rl.hparams.hparams import HParams
from rl.hparams.overrides import parse_overrides, value_text
from rl.hparams.spaces import Choice, Range, Space
from rl.plot.methods import number as told
from rl.report.progress import say
from rl.report.runs import evaluations, read_saved
from rl.signals import StopRequest
from rl.storage.checkpoint import CheckpointManager
from rl.storage.files import load_json, patiently, write_text_atomic
from rl.tune.runs import PATIENCE, POLL, TRIES, Command, Process, again, copied, difference, finish, outcome

STATE = "population.json"
RUN = "run_0"  # of a member's folder
SHARE = 0.2  # of the population, that is replaced after a generation
FACTORS = (0.8, 1.2)
FAILED = -math.inf  # score of a member that came to NaN

Start = Callable[[Command, list[int]], Process]
Values = dict[str, str]  # dotted name -> text as overrides take it


class Plan(NamedTuple):
    """The settings of a population; a continued one must have the same."""

    hparams: HParams  # the set with what the user has fixed, frozen; evaluates once a generation
    space: Space
    size: int
    seed: int  # of the random choices here, and of the members (`first_seed`)
    command: Callable[[int, Mapping[str, str]], Command]  # of a member: its number, values as overrides
    eval_episodes: int = 20  # of each evaluation

    def described(self) -> dict[str, Any]:
        """Returns it as `population.json` has it."""
        return {
            "hparams": self.hparams.to_dict(),
            "space": {name: each.text() for name, each in self.space.items()},
            "size": self.size,
            "seed": self.seed,
            "eval_episodes": self.eval_episodes,
        }


def first_seed(seed: int, size: int) -> int:
    """Returns the seed of member 0; populations of the same size with other seeds share no member's seed."""
    return seed * size


class Move(NamedTuple):
    """A member that goes on as a copy of another one."""

    member: int
    parent: int
    values: Values


def numbers(space: Space, asked: Mapping[str, Any]) -> Space:
    """Returns the hyperparameters of a space that may change during a run: real numbers, which determine no
    shapes.

    Raises:
        UsageError: `asked` has any other hyperparameter, or there are none.
    """
    found = {name: each for name, each in space.items() if _is_number(each) and "." not in name}
    other = next((name for name in asked if name not in found), None)
    if other is not None:
        raise UsageError(
            f"--space {other}: a population changes numbers of runs that go on, such as lr, not whole ones, "
            "words or parts of the model: leave it out"
        )
    if not found:
        raise UsageError(
            "nothing is left that a population could change: give --space, such as lr=log:1e-5:1e-2"
        )
    return found


def _is_number(each: Range | Choice) -> bool:
    if isinstance(each, Range):
        return not each.whole
    return all(isinstance(parse_overrides(f"x={text}")["x"], float) for text in each.options)


class Population:
    """Trains the members until all have made their steps.

    Args:
        plan: of them.
        folder: has their folders, and the state.
        places: cores of each of the processes that run side by side.
        start: starts a process.
        say: prints a line.

    Raises:
        UsageError: the folder has another population.
    """

    def __init__(
        self,
        plan: Plan,
        folder: Path,
        places: list[list[int]],
        start: Start,
        say: Callable[[str], None] = say,
    ):
        self.plan, self._path, self._places, self._start, self._say = plan, folder / STATE, places, start, say
        self.values: list[Values]  # of each member, now
        self.history: list[dict[str, Any]]  # of each generation: scores, values and parents of all
        self._moves: list[Move] | None  # that are to be made before the next one begins
        state = self._read()
        if state is None:
            self.values = [first_values(plan, i) for i in range(plan.size)]
            self.history, self._moves = [], None
            self._save()
        else:
            self.values, self.history = state["values"], state["history"]
            self._moves = state["moves"]

    def run(self, stop: StopRequest) -> None:
        """Trains until all members have ended, or, once `stop` is requested, the running ones have saved.

        Raises:
            UsageError: all failed.
        """
        if self._moves is not None:
            self._move()
        while not self.complete:
            scores = self._generation(stop)
            if scores is None:
                return
            self._close_generation(scores)

    @property
    def complete(self) -> bool:
        """Whether all steps are made."""
        if not self.history:
            return False
        step, _ = self._evaluations(self.best())[len(self.history) - 1]
        return step >= self.plan.hparams.train_steps

    def best(self) -> int:
        """Returns the member with the best score in the last generation."""
        return int(np.argmax(self.history[-1]["scores"]))

    def lines(self) -> list[str]:
        """Returns a table in Markdown: of each generation the scores, and the best member's way."""
        names = list(self.plan.space)
        head = ["generation", "steps", "best", "median", "ancestor of the best", *names]
        rows, member = [], self.best()
        steps = [step for step, _ in self._evaluations(member)]
        for number in reversed(range(len(self.history))):
            each = self.history[number]
            known = [score for score in each["scores"] if score > FAILED]
            way = [str(member), *(each["values"][member][name] for name in names)]
            rows.append(
                [str(number), f"{steps[number]:,}", told(max(known)), told(float(np.median(known))), *way]
            )
            if number:
                member = self.history[number - 1]["parents"][member]
        text = [head, ["---"] * len(head), *reversed(rows)]
        return [f"| {' | '.join(row)} |" for row in text]

    # -- a generation ---------------------------------------------------------------------------------

    def _generation(self, stop: StopRequest) -> list[float] | None:
        """Trains all members to their next evaluation; returns their scores, None where `stop` was asked for.

        Raises:
            UsageError: all failed.
        """
        number = len(self.history)
        scores: dict[int, float] = {}
        left = [i for i in range(self.plan.size) if not self._has_ended(i, number)]
        free, busy = list(self._places), list[_Busy]()
        why = "their returns are not finite"
        try:
            while (left or busy) and not stop.requested:
                while left and free:
                    busy.append(self._begin(left.pop(0), free.pop(0)))
                time.sleep(POLL)
                for each in list(busy):
                    code = each.process.poll()
                    if code is None:
                        continue
                    busy.remove(each)
                    free.append(each.cores)
                    ended = outcome(code, False, each.command.folder)
                    if ended.kind == "again" and self._has_ended(each.member, number):
                        continue  # lost behind its evaluation: it would make another generation's steps
                    if ended.kind == "again" and each.tries < TRIES:
                        free.remove(each.cores)
                        busy.append(self._begin(each.member, each.cores, each.tries + 1))
                    elif code == AGAIN:
                        raise again(f"generation {number}, member {each.member}", ended)
                    elif ended.kind != "done":
                        scores[each.member], why = FAILED, ended.said
                        self._say(f"generation {number}, member {each.member}: failed: {ended.said}")
        finally:
            for each in busy:
                each.process.stop()
            for each in busy:
                finish(each.process, PATIENCE)
        if stop.requested:
            return None
        for i in range(self.plan.size):
            if i not in scores:
                found = self._evaluations(i)  # which have finite returns alone
                scores[i] = found[number][1] if len(found) > number else FAILED
        if max(scores.values()) == FAILED:
            raise UsageError(f"all members failed: {why}")
        return [scores[i] for i in range(self.plan.size)]

    def _begin(self, member: int, cores: list[int], tries: int = 1) -> _Busy:
        command = self.plan.command(member, self.values[member])
        return _Busy(member, cores, command, self._start(command, cores), tries)

    def _close_generation(self, scores: list[float]) -> None:
        """Records a generation's scores, and replaces the worst members unless it was the last generation."""
        number = len(self.history)
        self.history.append({"scores": scores, "values": self.values, "parents": list(range(self.plan.size))})
        last = self.complete
        moves = [] if last else chosen_moves(self.plan, scores, self.values, number)
        for move in moves:
            self.history[-1]["parents"][move.member] = move.parent
        known = [score for score in scores if score > FAILED]
        text = f"generation {number}: best {told(max(known))} (member {int(np.argmax(scores))})"
        self._say(f"{text}, median {told(float(np.median(known)))}")
        for move in moves:
            values = ",".join(f"{name}={text}" for name, text in move.values.items())
            self._say(
                f"generation {number}: member {move.member} goes on as member {move.parent}, with {values}"
            )
        self._moves = moves
        self._save()
        self._move()

    def _move(self) -> None:
        """Makes the recorded moves; after an interruption all are made again, since no parent has changed."""
        for move in self._moves or []:
            self._copy(move)
            self.values = [move.values if i == move.member else each for i, each in enumerate(self.values)]
        self._moves = None
        self._save()

    def _copy(self, move: Move) -> None:
        """Replaces a member's run by a copy of its parent's, with the new values in its hyperparameters."""
        target = self._folder(move.member) / RUN
        fresh = target.with_name(f".new-{RUN}")
        parent = self._folder(move.parent) / RUN
        patiently(lambda: copied(parent, fresh), f"cannot copy {parent}")
        saved = read_saved(fresh)
        if saved is None:
            raise UsageError(f"{fresh} has no hparams.json: was it changed?")
        hparams = HParams.from_dict(saved["hparams"])
        hparams.assign(parse_overrides(",".join(f"{name}={text}" for name, text in move.values.items())))
        saved |= {
            "hparams": hparams.to_dict(),
            "seed": first_seed(self.plan.seed, self.plan.size) + move.member,
        }
        write_text_atomic(fresh / "hparams.json", json.dumps(saved, indent=2) + "\n")
        shutil.rmtree(target, ignore_errors=True)
        fresh.rename(target)

    # -- what is on disk ------------------------------------------------------------------------------

    def _folder(self, member: int) -> Path:
        return self.plan.command(member, self.values[member]).folder

    def _evaluations(self, member: int) -> list[tuple[int, float]]:
        """Returns (step, return) of the evaluations that a member's checkpoint knows of."""
        run_dir = self._folder(member) / RUN
        saved = CheckpointManager(run_dir / "checkpoints").latest_step() if run_dir.exists() else None
        return [] if saved is None else [each for each in evaluations(run_dir) if each[0] <= saved]

    def _has_ended(self, member: int, generation: int) -> bool:
        return len(self._evaluations(member)) > generation

    def _read(self) -> dict[str, Any] | None:
        try:
            state: dict[str, Any] = load_json(self._path.read_text(encoding="utf-8"))
            there, moves = state["plan"], state["moves"]
            state["moves"] = moves and [Move(*each) for each in moves]
            if not all(isinstance(each, dict) for each in [there, *state["values"], *state["history"]]):
                raise TypeError
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UsageError(
                f"{self._path} cannot be read ({type(error).__name__}): was it changed?"
            ) from error
        changed = difference(there, self.plan.described())
        if changed is not None:
            raise UsageError(
                f"{self._path} is of another population ({changed} differs): choose another --output_dir, or "
                "repeat that one's own settings to go on with it"
            )
        return state

    def _save(self) -> None:
        state = {
            "plan": self.plan.described(),
            "values": self.values,
            "history": self.history,
            "moves": self._moves,
        }
        write_text_atomic(self._path, json.dumps(state, indent=1) + "\n")


class _Busy(NamedTuple):
    """A member that is being trained."""

    member: int
    cores: list[int]
    command: Command
    process: Process
    tries: int


def first_values(plan: Plan, member: int) -> Values:
    """Returns a member's first values: the set's own for member 0, random ones of the space for others."""
    flat, generator = plan.hparams.flat(), np.random.default_rng((plan.seed, 0, member))
    if member == 0:
        return {name: value_text(flat[name]) for name in plan.space}
    return {name: _drawn(each, generator) for name, each in plan.space.items()}


def chosen_moves(plan: Plan, scores: list[float], values: list[Values], generation: int) -> list[Move]:
    """Returns which members are replaced by copies of which others: all that failed, and the worst fifth (at
    least one) of the members, as far as they are worse than the best one."""
    generator = np.random.default_rng((plan.seed, 1, generation))
    count = max(1, int(SHARE * plan.size))
    order = sorted(range(plan.size), key=lambda i: -scores[i])  # the best first
    best = [i for i in order[:count] if scores[i] > FAILED]
    worst = [i for i in order[-count:] if scores[i] < scores[order[0]]]
    failed = [i for i in order[:-count] if scores[i] == FAILED]
    moves = []
    for member in failed + worst:
        parent = best[int(generator.integers(len(best)))]
        perturbed = {
            name: _perturbed(values[parent][name], each, generator) for name, each in plan.space.items()
        }
        moves.append(Move(member, parent, perturbed))
    return moves


def _drawn(each: Range | Choice, generator: np.random.Generator) -> str:
    if isinstance(each, Choice):
        return each.options[int(generator.integers(len(each.options)))]
    if each.log:
        return _text(math.exp(generator.uniform(math.log(each.low), math.log(each.high))), each)
    return _text(generator.uniform(each.low, each.high), each)


def _perturbed(text: str, each: Range | Choice, generator: np.random.Generator) -> str:
    """Returns a number times 0.8 or 1.2, within its range. A number of a list of choices becomes a
    neighbouring one, or stays if there is none on that side. The set's own "none" becomes a drawn number."""
    if text == "none":
        return _drawn(each, generator)
    up = bool(generator.integers(2))
    if isinstance(each, Choice):
        options = sorted(each.options, key=float)
        place = int(np.argmin([abs(float(option) - float(text)) for option in options]))
        return options[min(max(place + (1 if up else -1), 0), len(options) - 1)]
    return _text(float(text) * FACTORS[up], each)


def _text(value: float, each: Range) -> str:
    return repr(min(max(float(f"{value:.4g}"), each.low), each.high))
