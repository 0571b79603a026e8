"""The search: Optuna proposes values, processes train with them, and their evaluations decide which go on."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import optuna
from optuna.trial import FrozenTrial, Trial, TrialState

from rl.errors import AGAIN, UsageError, nearest
from rl.hparams.hparams import HParams
from rl.hparams.overrides import value_text
from rl.hparams.spaces import Choice, Range, Space
from rl.plot.methods import number as told
from rl.report.progress import say
from rl.report.runs import evaluations
from rl.signals import StopRequest
from rl.tune.database import kept, not_opened, storage_of
from rl.tune.runs import (
    PATIENCE,
    POLL,
    TRIES,
    Command,
    Outcome,
    Process,
    again,
    difference,
    evaluations_per_run,
    finish,
    outcome,
    points,
)

FIRST = 3  # if the first trials fail, a search gives up after this many
SEARCH, FOLDER = "search", "folder"  # user attributes of a study: its plan, and the folder of its trials
OWN = "own"  # user attribute of a trial: hyperparameters that keep the set's value, which the space lacks
_DIGITS = 4  # of a number that is tried

Start = Callable[[Command, list[int]], Process]


class Plan(NamedTuple):
    """The settings of a search; a continued study must have the same."""

    hparams: HParams  # the set with what the user has fixed, frozen
    space: Space
    seeds: range  # of the runs of a trial
    objective: str  # "last": return of the last evaluation; "curve": mean of all
    command: Callable[[int, Mapping[str, str]], Command]  # of a trial: its number, values as overrides
    refused: Callable[[Mapping[str, str]], str]  # why values do not fit together; empty: they do
    eval_episodes: int = 20  # of each evaluation
    num_workers: int = 0  # of each run

    def described(self) -> dict[str, Any]:
        """Returns it as a study keeps it."""
        return {
            "hparams": self.hparams.to_dict(),
            "space": {name: each.text() for name, each in self.space.items()},
            "seeds": list(self.seeds),
            "objective": self.objective,
            "eval_episodes": self.eval_episodes,
            "num_workers": self.num_workers,
        }


def make_sampler(name: str, seed: int) -> optuna.samplers.BaseSampler:
    """Returns a new sampler of that name. Raises UsageError for an unknown one."""
    makers: dict[str, Callable[[], optuna.samplers.BaseSampler]] = {
        "tpe": lambda: optuna.samplers.TPESampler(seed=seed, multivariate=True),
        "random": lambda: optuna.samplers.RandomSampler(seed=seed),
        "grid": lambda: optuna.samplers.BruteForceSampler(seed=seed),
    }
    if name not in makers:
        raise UsageError(f"unknown --sampler {name!r}: {nearest(name, makers)}")
    with warnings.catch_warnings():  # of what is experimental in Optuna
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return makers[name]()


def make_pruner(name: str, evaluations: int) -> optuna.pruners.BasePruner:
    """Returns a pruner of that name. Raises UsageError for an unknown one.

    evaluations: of a trial that is not ended early.
    """
    makers: dict[str, Callable[[], optuna.pruners.BasePruner]] = {
        "median": lambda: optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=evaluations // 4),
        "hyperband": lambda: optuna.pruners.HyperbandPruner(1, max(evaluations, 2), 3),
        "none": optuna.pruners.NopPruner,
    }
    if name not in makers:
        raise UsageError(f"unknown --pruner {name!r}: {nearest(name, makers)}")
    return makers[name]()


def open_study(
    address: str | Path | None,
    folder: Path,
    plan: Plan,
    pruner: optuna.pruners.BasePruner,
    sampler: str = "tpe",
) -> optuna.Study:
    """Returns the study of a search, new or to be continued.

    address: of its database, or the path of SQLite's file; None: in memory.
    folder: of its trials; its name is the study's name.
    sampler: the sampler's name; with a grid, the set's own values are not tried first if the grid lacks them.

    Raises:
        UsageError: it cannot be opened, or it is of another search.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        study = optuna.create_study(
            storage=storage_of(address),
            study_name=folder.name,
            direction="maximize",
            load_if_exists=True,
            pruner=pruner,
        )
        there = study.user_attrs.get(SEARCH)
    except Exception as error:  # whatever its database raises
        raise not_opened(address, error) from error
    here, place = plan.described(), str(folder.absolute())
    if there is None:
        first, own = _as_it_is(plan)
        with kept(address):
            if not (own and sampler == "grid"):  # once, though this may be killed before the attributes are
                study.enqueue_trial(first, user_attrs={OWN: own}, skip_if_exists=True)
            study.set_user_attr(FOLDER, place)
            study.set_user_attr(SEARCH, here)
        return study
    other = study.user_attrs.get(FOLDER, place)  # older studies do not say
    if other != place and Path(other).exists():
        raise UsageError(
            f"--study {address}: its {folder.name} is the search of {other}: repeat its --output_dir, or "
            "choose one with another name"
        )
    changed = difference(there, here)
    if changed is not None:
        raise UsageError(
            f"--study {address} holds another search ({changed} differs): choose another --study and "
            "--output_dir, or repeat that search's own settings to go on with it"
        )
    return study


def values_of(trial: FrozenTrial | Trial, space: Space) -> dict[str, str]:
    """Returns a trial's values, dotted name -> text for overrides; the first trial may leave some at the
    set's values."""
    own = trial.user_attrs.get(OWN, ())
    return {name: _text(trial.params[name], space[name]) for name in space if name not in own}


class _Place:
    """Cores, and the trial that uses them at present."""

    def __init__(self, cores: list[int]):
        self.cores = cores
        self.trial: Trial | None = None  # None: it is free
        self.command: Command | None = None
        self.process: Process | None = None
        self.begun = 0.0
        self.lost = 0
        self.pruned = False


class Search:
    """Trains trials until there are as many as wanted, some side by side.

    Args:
        study: with the trials so far; unfinished ones are continued.
        trials: how many there should be in total.
        places: cores of each of the processes that run side by side.
        start: starts a process.
        say: prints a line.
    """

    def __init__(
        self,
        study: optuna.Study,
        plan: Plan,
        trials: int,
        sampler: str,
        seed: int,
        places: list[list[int]],
        start: Start,
        say: Callable[[str], None] = say,
    ):
        self.study, self.plan, self.trials = study, plan, trials
        self._sampler, self._seed, self._start, self._say = sampler, seed, start, say
        self._places = [_Place(cores) for cores in places]
        self._left = _in_state(study, TrialState.RUNNING)
        per_run = evaluations_per_run(plan.hparams.train_steps, plan.hparams.eval_period)
        self._last = len(plan.seeds) * per_run - 1  # number of a trial's last evaluation

    def run(self, stop: StopRequest) -> None:
        """Trains until all trials have ended, or, once `stop` is requested, the running ones have saved.

        Raises:
            UsageError: the first trials all failed.
        """
        try:
            while not stop.requested:
                for place in self._places:
                    if place.trial is None:
                        self._fill(place)
                busy = [place for place in self._places if place.trial is not None]
                if not busy:
                    return
                time.sleep(POLL)
                for place in busy:
                    self._look(place)
        finally:
            self._end()

    def _fill(self, place: _Place) -> None:
        """Starts a trial in a place, or continues an interrupted one, if any is left to do."""
        while place.trial is None:
            going_on = bool(self._left)
            trial = self._again(self._left.pop(0)) if going_on else self._ask()
            if trial is None:
                return
            values = values_of(trial, self.plan.space)
            refused = self.plan.refused(values)
            if refused:
                self._tell(trial, None, TrialState.PRUNED, f"not trained: {refused}")
                continue
            if going_on:
                self._say(f"trial {trial.number}: goes on from its checkpoint")
            place.trial, place.command = trial, self.plan.command(trial.number, values)
            place.begun, place.lost, place.pruned = time.monotonic(), 0, False
            place.process = self._start(place.command, place.cores)

    def _ask(self) -> Trial | None:
        done = len(self.study.trials) - len(_in_state(self.study, TrialState.WAITING))
        if done >= self.trials:
            return None
        # A new sampler for each trial, so that a continued search makes the same proposals.
        self.study.sampler = self._sampler_of(done)
        return self._filled(self.study.ask())

    def _again(self, left: FrozenTrial) -> Trial:
        """Returns an interrupted trial; adds values that it lacks because its process was killed while they
        were written."""
        self.study.sampler = self._sampler_of(left.number)
        return self._filled(Trial(self.study, left._trial_id))

    def _filled(self, trial: Trial) -> Trial:
        """Gives a trial a value for each hyperparameter of the space; existing values stay."""
        for name, each in self.plan.space.items():
            if isinstance(each, Choice):
                trial.suggest_categorical(name, each.options)
            elif each.whole:
                trial.suggest_int(name, int(each.low), int(each.high), log=each.log)
            else:
                trial.suggest_float(name, each.low, each.high, log=each.log)
        return trial

    def _sampler_of(self, number: int) -> optuna.samplers.BaseSampler:
        """Returns the sampler of a trial, which shares no proposal with those of other seeds."""
        seed = np.random.SeedSequence((self._seed, number)).generate_state(1)[0]
        return make_sampler(self._sampler, int(seed))

    def _look(self, place: _Place) -> None:
        """Reports the evaluations since the last look; ends the trial if the pruner decides so or its process
        ended."""
        assert place.trial is not None and place.process is not None and place.command is not None
        code = place.process.poll()  # first: if it has ended, all its evaluations are written
        if not place.pruned and self._report(place):
            place.pruned = True
            if code is None:
                place.process.stop()
        if code is None:
            return
        ended = outcome(code, place.pruned, place.command.folder)
        if place.pruned and ended.kind in ("done", "again"):  # it had more to say before it could be stopped
            ended = Outcome("stopped")
        if ended.kind == "again" and place.lost + 1 < TRIES:
            place.lost += 1
            self._say(f"trial {place.trial.number}: its process was lost, going on from its last checkpoint")
            place.process = self._start(place.command, place.cores)
            return
        if code == AGAIN:  # the trial is not over: the same command goes on with it
            raise again(f"trial {place.trial.number}", ended)
        trial, place.trial = place.trial, None
        self._conclude(trial, place, ended)

    def _conclude(self, trial: Trial, place: _Place, ended: Outcome) -> None:
        assert place.command is not None
        seconds = f"after {time.monotonic() - place.begun:.0f} s"
        found = self._points(place.command.folder)
        if ended.kind == "stopped":
            known = self._known(trial)
            self._tell(trial, None, TrialState.PRUNED, f"ended early {seconds}, at {told(known[max(known)])}")
        elif ended.kind == "nan":
            self._tell(trial, None, TrialState.PRUNED, f"came to NaN {seconds}")
        elif ended.kind == "done" and found and found[-1][0] < self._last:
            self._tell(trial, None, TrialState.PRUNED, f"came to a return that is not finite {seconds}")
        elif ended.kind == "done" and found:
            value = found[-1][1] if self.plan.objective == "last" else self._curve(place.command.folder)
            self._tell(trial, value, TrialState.COMPLETE, f"{told(value)} {seconds}")
        else:
            why = ended.said or "no evaluation"
            self._tell(trial, None, TrialState.FAIL, f"failed {seconds}: {why}")
            states = [each.state for each in self.study.trials if each.state.is_finished()]
            if len(states) >= min(FIRST, self.trials) and set(states) == {TrialState.FAIL}:
                raise UsageError(f"all trials failed: {why} (see {place.command.folder})")

    def _tell(self, trial: Trial, value: float | None, state: TrialState, said: str) -> None:
        self.study.sampler = make_sampler("random", 0)  # a grid that is at its end asks for a loop to stop
        self.study.tell(trial, value, state)
        ended = [each for each in self.study.trials if each.state.is_finished()]
        whole = _in_state(self.study, TrialState.COMPLETE)
        best = max(whole, key=_value) if whole else None
        so_far = "" if best is None else f"best {told(_value(best))}, trial {best.number}; "
        tried = ",".join(f"{name}={text}" for name, text in values_of(trial, self.plan.space).items())
        self._say(f"trial {trial.number}: {said}  ({so_far}{len(ended)} of {self.trials})  {tried}")

    def _report(self, place: _Place) -> bool:
        """Tells the pruner, one by one, of evaluations that it has not been told of, in this process or an
        earlier one; returns whether it ends the trial at one of them. It does not hear of those behind it, so
        that proposals do not depend on how often this looks. The last evaluation ends no trial early."""
        assert place.trial is not None and place.command is not None
        known = set(self._known(place.trial))
        ends = bool(known) and max(known) < self._last and place.trial.should_prune()
        for number, value in self._points(place.command.folder):
            if number not in known and not ends:
                place.trial.report(value, number)
                known.add(number)
                ends = number < self._last and place.trial.should_prune()
        return ends

    def _known(self, trial: Trial) -> dict[int, float]:
        """Returns the evaluations of a trial that the pruner knows."""
        return self.study._storage.get_trial(trial._trial_id).intermediate_values

    def _points(self, folder: Path) -> list[tuple[int, float]]:
        hparams = self.plan.hparams
        return points(folder, len(self.plan.seeds), hparams.train_steps, hparams.eval_period)

    def _curve(self, folder: Path) -> float:
        """Returns the mean of all evaluations of all runs of a trial."""
        runs = (evaluations(folder / f"run_{copy}") for copy in range(len(self.plan.seeds)))
        return float(np.mean([value for found in runs for _, value in found]))

    def _end(self) -> None:
        """Has all processes save and end."""
        running = [place.process for place in self._places if place.trial is not None and place.process]
        for process in running:
            process.stop()
        for process in running:
            finish(process, PATIENCE)


def winner(study: optuna.Study) -> FrozenTrial:
    """Returns the best trial, the first one of equals. Raises UsageError where no trial finished."""
    whole = _in_state(study, TrialState.COMPLETE)
    if not whole:
        raise UsageError("no trial came to its end: look at the trials' folders, or ask for more --trials")
    return max(whole, key=_value)


def _value(trial: FrozenTrial) -> float:
    assert trial.value is not None  # of a trial that came to its end
    return trial.value


def _in_state(study: optuna.Study, state: TrialState) -> list[FrozenTrial]:
    return study.get_trials(deepcopy=False, states=(state,))


def _text(value: Any, each: Range | Choice) -> str:
    if isinstance(each, Choice):
        return str(value)
    if each.whole:
        return str(int(value))
    rounded = float(f"{value:.{_DIGITS}g}")
    return repr(min(max(rounded, each.low), each.high))


def _as_it_is(plan: Plan) -> tuple[dict[str, Any], list[str]]:
    """Returns the set's own values, which the first trial tries, and the names of those that are not in the
    space: for these the sampler is told the nearest number, or, if there is none, a value that it draws."""
    flat, found, own = plan.hparams.flat(), dict[str, Any](), list[str]()
    for name, each in plan.space.items():
        value = flat[name]
        if isinstance(each, Choice):
            if value_text(value) in each.options:
                found[name] = value_text(value)
        elif isinstance(value, int | float):
            found[name] = min(max(value, each.low), each.high)
        if name not in found or (isinstance(each, Range) and float(_text(found[name], each)) != value):
            own.append(name)
    return found, own
