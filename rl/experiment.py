"""What the command line asks for: copies of a run, trained, continued or only tested."""

from __future__ import annotations

import contextlib
import logging
import os
import shlex
import shutil
from pathlib import Path
from typing import Any

from rl import programs
from rl.envs.hints import tell_hints
from rl.envs.make import check_window
from rl.envs.own import check_imported_modules
from rl.errors import Diverged, EnvironmentFailed, GivenUp, NotSent, Unavailable, UsageError
from rl.hparams.hparams import HParams
from rl.hparams.merge import difference
from rl.hparams.overrides import parse_overrides
from rl.report.progress import summary_table
from rl.report.versions import write_run_files
from rl.report.video import has_display, headless_setup
from rl.request import Request
from rl.runners.evaluate import Evaluation
from rl.runners.from_run import check_start
from rl.runners.kept import Kept
from rl.runners.recording import recorded, training_recorder
from rl.runners.test_episodes import play_tests
from rl.runners.trainer import Result, Trainer
from rl.saved_run import read_saved, saved_hparams
from rl.signals import PATIENCE, StopRequest
from rl.storage.address import join
from rl.storage.checkpoint import CheckpointManager
from rl.storage.files import ensure_writable_dir, patiently
from rl.storage.storage import Storage, storages_of
from rl.systems import use_system

log = logging.getLogger("rl")

# May differ between a run and its continuation. Some still shape what is to come: schedules run to
# `train_steps`, rows and evaluations stand where the periods say, compilation and precision change rounding.
FREE_TO_CHANGE = {
    "estimate",
    "data",  # its place; the runner looks whether it is the same
    "expert",  # its place; checkpoints hold what it was
    "train_steps",
    "log_period",
    "eval_period",
    "eval_policy",
    "info_keys",
    "stop_at_return",
    "video_period",
    "checkpoint_period",
    "keep_checkpoints",
    "histograms",
    "compile",
    "model.precision",
    "check_numerics",
    "nan_patience",
    "nan_lr_factor",
    "nan_max_rollbacks",
    "act_backend",
    "env_timeout",
    "env_restarts",
    "worker_timeout",
    "hang_timeout",
    "save_buffers",
    "compress_rollouts",
}


def run(request: Request) -> int:
    """Trains (or not) and tests each copy, prints a table: the command's work; returns its exit code.

    Raises:
        UsageError: anything wrong in what was asked for.
        GivenUp, Unavailable: a copy came to it; the others were trained all the same. Of several Unavailable.
        NotSent: the last state of a copy could not be sent to its remote output.
    """
    use_system(request.sys)
    headless = headless_setup()
    if request.render and headless and not has_display():
        raise UsageError(
            "--render: there is no display here; --record_video writes the episodes as mp4 instead"
        )
    numbers = range(request.copies) if request.copy is None else [request.copy]
    storages = storages_of(request.output_dir, numbers)
    if _check_storages(request, storages):
        assert request.hparams is not None
        tell_hints(request.hparams)
    with StopRequest(patience=PATIENCE) as stop:
        rows, failed = _all_copies(request, storages, stop)
    if rows:
        summary_table(rows, title="")
    unsent = [storage.unsent for storage in storages.values() if storage.unsent]
    if failed:
        for each in unsent:  # the one line that ends the command says something else
            log.error("%s", each)
        passing = [each for each in failed if isinstance(each, Unavailable)]
        looked_at = not unsent and all(isinstance(each, GivenUp) for each in failed)
        if stop.requested and len(storages) > 1 and looked_at:
            return stop.exit_code  # they are told of; the same command goes on with the others
        raise (passing or failed)[0]  # the same command goes on: this counts more than what fails again
    if unsent:
        raise NotSent("; ".join(unsent))
    return stop.exit_code


def _check_storages(request: Request, storages: dict[int, Storage]) -> bool:
    """Looks at all copies before the first one costs time; returns whether one of them begins.

    Raises:
        UsageError: one holds another run, or cannot be read or written.
    """
    begins = False
    for number, storage in storages.items():
        with storage.glance() as run_dir:
            hparams = request.hparams or saved_hparams(run_dir)[0]
            if not hparams.env:
                check_unplayed(request, run_dir)
            if request.render:  # known now, not after the training
                check_window(hparams)
            if request.training:
                _check_same_run(request.of_copy(number), run_dir)
                begins |= read_saved(run_dir) is None
            else:
                _check_overrides(hparams, run_dir, request.overrides)
        if request.training or request.record_video:
            storage.check_writable()
    return begins


def check_unplayed(request: Request, run_dir: Path) -> None:
    """Raises UsageError where something is asked for that needs an environment, of a run that has none."""
    flags = {"--record_video": request.record_video, "--render": request.render}
    given = [flag for flag, wanted in flags.items() if wanted]
    if given or not request.training:
        what = f"{given[0]}: " if given else ""
        raise UsageError(f"{what}{run_dir} learns from data alone, there is no environment to play in")


def _all_copies(
    request: Request, storages: dict[int, Storage], stop: StopRequest
) -> tuple[list[dict[str, Any]], list[Exception]]:
    """Works on each copy, side by side or one after another; returns their lines of the summary, and why
    others have none."""
    if request.parallel > 1 and len(storages) > 1 and request.training:
        from rl.workers.copies import side_by_side

        return side_by_side(request, list(storages.values()), stop, one_copy)
    rows: list[dict[str, Any]] = []
    failed: list[Exception] = []
    kept = Kept()
    for number, storage in storages.items():
        try:
            rows += one_copy(request, storage, number, stop, kept)
        except (GivenUp, NotSent, Unavailable) as error:  # the others may do better
            failed.append(error)
            if len(storages) > 1:  # else the one line that ends the command says it
                log.error("%s: %s", storage.address, error)
        if stop.requested:
            break
    kept.close()
    return rows, failed


def one_copy(
    request: Request, storage: Storage, copy: int, stop: StopRequest, kept: Kept
) -> list[dict[str, Any]]:
    """Trains (or not) and tests one copy; returns its line of the summary, none where there is nothing to
    say.

    kept: of the copies before it in this process.
    """
    with storage.to_train() if request.training else storage.to_read():
        result = train_one(request.of_copy(copy), storage, stop, kept) if request.training else None
        if not stop.requested:
            tests = play_tests(request, storage.folder, stop, storage.address, kept)
            return [_summary(request, storage, result, tests)]
        return [] if result is None else [_summary(request, storage, result, {})]


def _check_overrides(hparams: HParams, run_dir: Path, overrides: str) -> None:
    """Raises UsageError where the run to be tested was trained with other values than are asked for."""
    saved = read_saved(run_dir)
    there = {} if saved is None else _flatten(HParams.from_dict(saved["hparams"]).to_dict())
    here = _flatten(hparams.to_dict())
    for key in parse_overrides(overrides):
        if key in there and key not in FREE_TO_CHANGE and there[key] != here.get(key):
            raise UsageError(
                f"{run_dir} was trained with {key}={there[key]}, not {here.get(key)}: leave the override out"
            )


def train_one(request: Request, storage: Storage, stop: StopRequest, kept: Kept | None = None) -> Result:
    """Trains where `storage` says, or goes on with the run that is there; call it in `storage.to_train()`.

    request: of one run, which has its seed.
    kept: gives what runs before have compiled, and keeps what this one has.

    Raises:
        UsageError: it holds another run; parts that do not fit together.
        GivenUp, Unavailable: as `Trainer.train`.
    """
    hparams, run_dir = request.hparams, storage.folder
    assert hparams is not None
    _check_same_run(request, run_dir)
    own = (run_dir, run_dir.parent) if type(storage) is Storage else ()
    made = [each for each in own if not patiently(each.exists, f"cannot read {each}")]
    trainer = Trainer(request, storage, kept)
    first_step, began = trainer.first_step, False
    try:
        recorder = training_recorder(request, storage.address, trainer.runner)
        ensure_writable_dir(run_dir)
        ensure_writable_dir(run_dir / "checkpoints")
        storage.begin()
        began = True  # the folder is this process's
        step = trainer.runner.step
        if not trainer.resumed or step < hparams.train_steps:  # else its files say how it was trained
            saved = _said(request, hparams, trainer)
            write_run_files(run_dir, saved, request.command, step if trainer.resumed else None)
        while True:
            try:
                with recorded(trainer.runner, recorder, hparams.train_steps):
                    result = trainer.train(stop)._replace(first_step=first_step)
                if kept is not None:
                    trainer.leave_to(kept)
                return result
            except Diverged as trouble:
                trainer.close()
                kept = None  # the rest may be learned at another rate
                trainer = Trainer.gone_back(request, storage, trouble)
                recorder = training_recorder(request, storage.address, trainer.runner)
    except EnvironmentFailed as error:
        raise EnvironmentFailed(f"{error}; {stop.kept}") from error
    except UsageError as error:
        if began and not isinstance(error, Unavailable):
            _remove_what_began(made)
        raise
    except SystemExit as error:  # a library's or an environment's: never this program's success
        raise RuntimeError(f"something called sys.exit({error.code}) while {run_dir} was trained") from error
    except Exception as error:
        if not programs.failed(error):
            raise
        raise Unavailable(f"a compiled program could not be kept: {programs.advice(error)}") from error
    finally:
        trainer.close()


def _said(request: Request, hparams: HParams, trainer: Trainer) -> dict[str, Any]:
    """Returns what `hparams.json` is to say of the run; its user modules are all that it ever had."""
    before = (read_saved(trainer.run_dir) or {}).get("user_modules", ())
    changed = difference(hparams, type(hparams)())
    return {
        "name": request.name,
        "seed": request.seed,
        "user_modules": list(dict.fromkeys([*before, *request.user_modules])),
        "workers": request.workers is not None,
        "hparams": hparams.to_dict(),
        "backends": {
            "training": trainer.runner.backend,
            "evaluation": trainer.evaluator and trainer.evaluator.backend,
        },
        "difference_from_default": {key: list(pair) for key, pair in changed.items()},
    }


def _remove_what_began(made: list[Path]) -> None:
    """Removes what a run has written that was refused before there was anything to keep.

    made: its folder and those above that were not there before, the innermost first.
    """
    if made and not (made[0] / "metrics.csv").exists() and _is_empty(made[0] / "checkpoints"):
        shutil.rmtree(made[0], ignore_errors=True)
        for each in made[1:]:
            with contextlib.suppress(OSError):  # another run is in it
                each.rmdir()


def _is_empty(folder: Path) -> bool:
    """Returns whether nothing is in a folder, or there is none; false where it cannot be read."""
    try:
        return not os.listdir(folder)
    except OSError as error:
        return isinstance(error, FileNotFoundError)


def _check_same_run(request: Request, run_dir: Path) -> None:
    """Raises UsageError where `run_dir` holds a run that this one would not continue but spoil."""
    saved, hparams, seed = read_saved(run_dir), request.hparams, request.seed
    if hparams is None:
        return
    if saved is None or CheckpointManager(run_dir / "checkpoints").latest_step() is None:
        check_start(hparams)
        return
    check_imported_modules(run_dir, saved.get("user_modules", ()))  # older runs do not say
    workers = request.workers is not None
    if saved.get("workers", workers) != workers:  # older runs do not say
        had, now = ("without", "leave it out") if workers else ("with", "give it again")
        raise UsageError(f"{run_dir} was trained {had} --num_workers: {now}, or choose another --output_dir")
    there, here = HParams.from_dict(saved["hparams"]), hparams  # what is younger than the run has its default
    flat_there, flat_here = _flatten(there.to_dict()), _flatten(here.to_dict())
    keys = [key for key in {**flat_there, **flat_here} if key not in FREE_TO_CHANGE]
    changed = [key for key in keys if flat_there.get(key) != flat_here.get(key)]
    differences = [f"{key} is {flat_there.get(key)} there, {flat_here.get(key)} here" for key in changed[:3]]
    if saved["seed"] != seed:
        differences.insert(0, f"seed is {saved['seed']} there, {seed} here")
    if differences:
        begin = "" if "algo" in changed else f", where start_from={run_dir} begins with its weights"
        raise UsageError(
            f"{run_dir} holds another run ({'; '.join(differences)}): repeat that run's own settings to "
            f"continue it, or choose another --output_dir{begin}"
        )


def _flatten(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, dict) and key not in ("env_kwargs", "train_env_kwargs"):
            flat |= _flatten(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat


def _summary(
    request: Request, storage: Storage, result: Result | None, tests: dict[str, Evaluation]
) -> dict[str, Any]:
    unit = "updates" if request.hparams is not None and request.hparams.offline else "steps"
    row: dict[str, Any] = {"run": storage.address}
    titles = {"best": "best checkpoint", "last": "last checkpoint"}
    for way in ("sampled", "greedy"):  # the policy that `eval_policy` does not say
        if way in tests and tests[way].unlike(tests["last"]):
            titles[way] = f"last checkpoint, {way}"
    for which, title in titles.items():
        if which in tests:
            returns = tests[which].returns
            digits = 1 if abs(returns.mean()) >= 10 else 3  # as the progress line has them
            spread = f"{returns.mean():.{digits}f} +- {returns.std():.{digits}f}"
            row[f"return, {title}"] = f"{spread} ({request.test_episodes} episodes)"
            for name, mean in tests[which].means().items():
                row[f"{name}, {title}"] = f"{mean:.{1 if abs(mean) >= 10 else 3}f}"
    if result is not None:
        row[unit] = result.step
        if result.first_step:
            row[unit] = f"{result.step:,}, {result.step - result.first_step:,} of them now"
        row["time"] = f"{result.seconds:.1f} s"
        if result.steps_per_second:
            rate = f"{result.steps_per_second:,.{0 if result.steps_per_second >= 10 else 2}f} {unit}/s"
            rest = f"{result.seconds - result.train_seconds:.1f} s"
            row["time"] += f": {result.train_seconds:.1f} s training at {rate}"
            row["time"] += f", {rest} compiling (first window), evaluating, saving"
    if request.record_video and tests:
        row["films"] = join(storage.address, "videos")
    row["tensorboard"] = shlex.join(["tensorboard", "--logdir", storage.parent])
    return row
