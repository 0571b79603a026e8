"""One training run: builds the parts, restores, runs windows of iterations, logs, evaluates, saves.

A window is `log_period` environment steps: one row of metrics. Evaluations happen between windows, at steps
that depend on hparams alone. Checkpoints may be written after any iteration; they hold the sums of the window
under way, so that a resumed run has the rows and evaluations that an uninterrupted one would have had.
"""

from __future__ import annotations

import contextlib
import logging
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import tensorflow as tf

from rl import systems
from rl.envs.gym_ids import where_played
from rl.envs.host import Purpose, purpose_seed
from rl.envs.measures import shown
from rl.errors import Diverged, MachineLost, NotFinite, Stopped, Unavailable, UsageError
from rl.heartbeat import Watch, doing
from rl.models.precision import computes_in
from rl.report.logger import Logger
from rl.report.progress import Progress
from rl.report.video import Preview
from rl.request import Request
from rl.runners.beside import Beside
from rl.runners.build import build_runner
from rl.runners.evaluate import Evaluation
from rl.runners.from_run import take_weights
from rl.runners.health import Health, go_back
from rl.runners.kept import Kept
from rl.runners.player import Player
from rl.runners.window import Window
from rl.saved_run import best_so_far
from rl.signals import StopRequest
from rl.spaces import space_spec
from rl.storage.checkpoint import CheckpointManager
from rl.storage.files import patiently, set_aside
from rl.storage.storage import Storage

_log = logging.getLogger("rl")

SLOW = 2.0  # seconds: a run with longer iterations, which cannot be interrupted, is saved more often
HANG = 1800.0  # seconds without progress after which a run with workers exits; compiling takes less
SHARE = 0.05  # of its time that such a run may spend on that
AGAIN = 60.0  # seconds after which a periodic checkpoint that could not be written is tried again


class Result(NamedTuple):
    """The outcome of a training run."""

    run_dir: Path
    step: int
    seconds: float  # of training in this process, evaluations and checkpoints included
    train_seconds: float  # of the runner alone, without its first window (compilation)
    steps_per_second: float | None  # over `train_seconds`
    best_return: float | None
    last: Evaluation | None
    exit_code: int  # 0, or 128 + signal when asked to stop
    first_step: int  # at which this process began


class Trainer:
    """Trains the run of a request in `storage`, from its newest checkpoint if there is one.

    The constructor restores the run and may raise UsageError, before anything is written. kept: compiled
    parts of earlier copies.
    """

    def __init__(self, request: Request, storage: Storage, kept: Kept | None = None):
        assert request.hparams is not None
        hparams, workers, run_dir = request.hparams, request.workers, storage.folder
        self.request, self.storage = request, storage
        self.hparams, self.run_dir, self.seed = hparams, run_dir, request.seed
        kept, strategy = kept or Kept(), systems.strategy()
        self.runner = kept.compiled(hparams, build_runner(hparams, request.seed, workers, strategy))
        self.agent = self.runner.agent
        # None if the run has only a data set, and no environment to play in.
        self.evaluator = kept.take_evaluator(self.agent, request.eval_episodes) if hparams.env else None
        self.estimator = self._make_estimator()
        self.beside = Beside(self.agent, request.eval_episodes)
        self.player = Player(self.agent, "rgb_array") if request.record_video and hparams.env else None
        self.checkpoints = CheckpointManager(
            run_dir / "checkpoints", hparams.keep_checkpoints, saved=self.storage.saved
        )
        self.health = Health(self.runner, self.checkpoints, hparams)
        self.window = Window(self.runner, hparams)
        meta = self.checkpoints.restore(self.runner.variables, newer=self.runner.newer)
        self.resumed, self.first_step = meta is not None, self.runner.step
        self._start = "" if self.resumed else take_weights(self.runner)
        self._saved_at = self._save_seconds = 0.0  # time.monotonic() of the last attempt, and what it took
        self._save_failed, self._stop = False, StopRequest()
        self._hang_limit = hparams.hang_timeout
        if workers is not None and self._hang_limit is None:
            self._hang_limit = max(HANG, 3.0 * hparams.worker_timeout)
        self.calls = request.calls
        self.best_return: float | None = None
        self._evaluated: float | None = None  # the best mean return whose row is written, or will be
        if meta is not None:
            self.best_return = best_so_far(run_dir)
            self._evaluated = meta.get("evaluated", meta.get("best_return"))  # older ones tell the other
            self.health.resume(meta, self.runner.step)
            self.runner.restored(self.storage.address)
            self.window.resume(meta.get("window"))
        # Of the newest checkpoint: step, -1 where there is none, and iterations of the window under way.
        self._saved = (self.runner.step, self.window.iterations) if self.resumed else (-1, 0)

    @classmethod
    def gone_back(cls, request: Request, storage: Storage, trouble: Diverged) -> Trainer:
        """Builds the trainer of a run that goes back to an earlier checkpoint, and records that in the
        checkpoint. A process that is killed before this finishes goes back again when it is resumed."""
        go_back(storage.folder / "checkpoints", trouble)
        trainer = cls(request, storage)
        trainer.health.gone_back(trouble)
        trainer._write_checkpoint()
        return trainer

    def train(self, stop: StopRequest) -> Result:
        """Trains to `train_steps` or until `stop` is requested; always leaves a checkpoint of where it is.

        Raises:
            Diverged: updates were NaN or infinite; the run goes on with `gone_back`.
            EnvironmentFailed: environments failed too often; the state at that moment was saved.
            NotFinite: updates were NaN or infinite, and the run may not go back again; the window's row was
                logged, but no checkpoint written.
            Unavailable: rows or checkpoints could not be written.
        """
        hparams, total, start = self.hparams, self.hparams.train_steps, time.perf_counter()
        runner, window, self._stop = self.runner, self.window, stop
        if self.resumed:
            stop.kept = f"the checkpoint of step {runner.step:,} is kept"
        last: Evaluation | None = None
        timed_steps, timed_seconds, self._saved_at = 0, 0.0, time.monotonic()
        best = self.run_dir / "checkpoints" / "best"
        # Damaged, or of a run whose checkpoints are gone.
        if self.best_return is None and patiently(best.exists, f"cannot read {best}"):
            patiently(lambda: set_aside(best), f"cannot rename {best}")
        row_step = runner.step - window.steps if self.resumed else None  # of the last row
        logger = Logger(self.run_dir, hparams.histograms, row_step, self.request.track, self.storage.address)
        with (
            logger,
            Progress(total, self.run_dir / "train.log", step=self.first_step, unit=self.unit) as progress,
            Watch(self.run_dir, lambda: progress.step, self._hang_limit),
        ):
            evaluated = None if self.evaluator is None else self.evaluator.backend
            progress.message(where_played(hparams, runner.backend, evaluated) + computes_in(hparams.model))
            logger.log_hparams({"hparams": self.request.name, "seed": self.seed} | hparams.flat())
            if not self.resumed:
                logger.log_graph(self._policy_graph())
                if self._start:
                    progress.message(self._start)
            else:
                ended = ", nothing is left to train" if self._is_complete() else ""
                progress.message(f"resumed at step {runner.step:,}{ended}")
            with self._saving_what_was_learned():
                self.calls.start(runner.step, self.agent)
            while not self._is_complete() and not stop.requested:
                compiled = window.begun
                if not self._fill_window(logger, progress):
                    break
                if compiled:
                    timed_steps, timed_seconds = timed_steps + window.steps, timed_seconds + window.seconds
                with self._saving_what_was_learned():
                    try:
                        last = self._after_window(logger, progress)
                    except Stopped:
                        break
            if not self._is_saved():
                if window.iterations:
                    self._check_health(runner.row(), logger)
                logger.flush()
                patiently(self._write_checkpoint)
        rate = timed_steps / timed_seconds if timed_seconds else None
        times = time.perf_counter() - start, timed_seconds, rate
        came_to = self.best_return, last, stop.exit_code
        return Result(self.run_dir, runner.step, *times, *came_to, self.first_step)

    def _fill_window(self, logger: Logger, progress: Progress) -> bool:
        """Makes the iterations that the window has not had yet; False where the run was asked to stop."""
        stop = self._stop
        while not self.window.run(progress, lambda: stop.requested or self._is_save_due(within=True)):
            if not stop.requested:
                self._check_health(self.runner.row(), logger)
                self._save(logger, progress)
            if stop.requested:
                break
        return not stop.requested

    def _is_complete(self) -> bool:
        """Says whether all steps are made, or the training may end early (`stop_at_return`, a callback)."""
        asked, best = self.hparams.stop_at_return, self._evaluated
        good = asked is not None and best is not None and best >= asked
        made = self.runner.step >= self.hparams.train_steps
        return ((made or good) and not self.window.iterations) or self.calls.enough

    def _is_saved(self) -> bool:
        return self._saved == (self.runner.step, self.window.iterations)

    def _is_save_due(self, within: bool) -> bool:
        """Says whether a periodic checkpoint is due; within: in a window.

        Within a window none is due with `overlap`, where waiting for the learner would change what is
        learned, nor twice for the same state.
        """
        period = self.hparams.checkpoint_period
        if within and (self.hparams.overlap or not period):
            return False
        if self._save_failed:
            period = min(period, AGAIN)
        elif self.window.gap > SLOW:
            period = min(period, self._save_seconds / SHARE)
        return time.monotonic() - self._saved_at >= period and not (within and self._is_saved())

    def _after_window(self, logger: Logger, progress: Progress) -> Evaluation | None:
        """Evaluates, films, logs and saves, each where it is due; what an evaluation found.

        Raises:
            Stopped: asked to stop while it evaluated or filmed; the resumed run does so again.
        """
        runner, window = self.runner, self.window
        doing("a row of metrics")
        step, total = runner.step, self.hparams.train_steps
        before, updates = step - window.steps, runner.sums()["updates"]
        row = runner.row() | self.agent.scalars(step) | window.perf(updates)
        row |= runner.scalars() | self.health.skipped()
        self._check_health(row, logger)
        evaluation = self._evaluate(before, total, row, progress)
        film = self._film(before, total, progress)
        doing("a row of metrics to be written")
        try:
            self.calls.row(step, row)
        finally:  # the checkpoint after an error is not to lack its row
            logger.log(step, row)
        if self.hparams.histograms:
            logger.log_histograms(step, self.agent.variables)
        if film is not None:
            logger.log_video(step, "eval/episode", film)
        window.finish()
        returns = row.get("episode/return_mean"), row.get("eval/return_mean")
        progress.update(step, *returns, shown(row, self.hparams.info_keys))
        if self._is_save_due(within=False):
            self._save(logger, progress)
        return evaluation

    @contextlib.contextmanager
    def _saving_what_was_learned(self) -> Iterator[None]:
        """Tries to write a checkpoint before an exception leaves the block, except NotFinite and MachineLost.
        (A row that could not be written is missing then.)"""
        try:
            yield
        except Exception as error:
            if not isinstance(error, NotFinite | MachineLost) and not self._is_saved():
                with contextlib.suppress(UsageError, OSError):
                    self._write_checkpoint()
            raise

    def _check_health(self, row: dict[str, float], logger: Logger) -> None:
        """Logs the row and raises if the run is in trouble: Diverged if it is to go back, else NotFinite."""
        trouble = self.health.look(row)
        if trouble:
            logger.log(self.runner.step, row)
            logger.flush()
            verdict = self.health.verdict(trouble)
            if isinstance(verdict, Diverged):
                _log.warning("%s", verdict)
            raise verdict

    @property
    def unit(self) -> str:
        """Returns what steps are."""
        return "updates" if self.hparams.offline else "steps"

    def leave_to(self, kept: Kept) -> None:
        """Gives the compiled functions to the copies that follow."""
        kept.keep(self.hparams, self.runner, self.evaluator)
        self.evaluator = None

    def close(self) -> None:
        self.runner.close()
        for each in (self.evaluator, self.beside, self.player):
            if each is not None:
                each.close()

    def _make_estimator(self) -> Any:
        if not self.hparams.estimate:
            return None
        from rl.estimate.metrics import DataEstimator  # reads files of a format that the rest need not know

        return DataEstimator(self.agent, self.seed)

    def _is_asked_to_stop(self) -> bool:
        return self._stop.requested

    def _evaluate(
        self, before: int, total: int, row: dict[str, float], progress: Progress
    ) -> Evaluation | None:
        """Evaluates where a multiple of `eval_period` was passed, and at the end; keeps the best policy."""
        step = self.runner.step
        if not _is_due(before, step, self.hparams.eval_period, total):
            return None
        if self.estimator is not None:
            row |= self.estimator.metrics()
        if self.evaluator is None:
            return None
        begun, asked = time.perf_counter(), self.hparams.stop_at_return
        seed = purpose_seed(Purpose.EVALUATION, self.seed, step)
        evaluation = self.evaluator.run(seed, self._is_asked_to_stop)
        row |= evaluation.metrics()
        mean = row["eval/return_mean"]
        self.calls.evaluation(step, evaluation)
        row |= {f"eval/{name}": score for name, score in self.evaluator.scores(evaluation).items()}
        row |= self.beside.metrics(seed, mean, self._is_asked_to_stop)
        is_last = step >= total or (asked is not None and mean >= asked)  # a population ends by a callback
        other = self.evaluator.other(seed, self._is_asked_to_stop) if is_last else None
        if other is not None:
            row[f"eval/return_mean_{other[0]}"] = float(other[1].returns.mean())
        row["perf/eval_seconds"] = time.perf_counter() - begun
        if math.isfinite(mean):
            self._evaluated = mean if self._evaluated is None else max(self._evaluated, mean)
        if math.isfinite(mean) and (self.best_return is None or mean > self.best_return):
            policy, meta = self.agent.policy_variables, {"return_mean": mean}
            try:
                patiently(lambda: self.checkpoints.save_best(policy, meta, step))
                self.best_return = mean  # now that it is there
            except UsageError as error:  # the next checkpoint says whether that lasts
                progress.message(f"warning: {error}; the best policy so far is not kept")
        return evaluation

    def _film(self, before: int, total: int, progress: Progress) -> Preview | None:
        """Films an episode where a multiple of `video_period` was passed, and at the end."""
        step, period = self.runner.step, self.hparams.video_period or self.hparams.eval_period
        if self.player is None or not _is_due(before, step, period, total):
            return None
        seed = purpose_seed(Purpose.EVALUATION, self.seed, step)  # the first one evaluated
        folder, label = self.run_dir / "videos", f"step_{step:09d}"
        try:
            return self.player.film(seed, folder, label, self._is_asked_to_stop).preview
        except Unavailable as error:
            progress.message(f"warning: {error}; this film is left out")
            return None
        except UsageError as error:
            progress.message(f"warning: {error}; training goes on without films")
            self.player.close()
            self.player = None
            return None

    def _save(self, logger: Logger, progress: Progress) -> None:
        """Writes a periodic checkpoint; one that fails costs a warning, not the run, and is soon tried
        again."""
        begun = time.monotonic()
        logger.flush()
        self._save_failed = False
        try:
            self._write_checkpoint()
        except Unavailable as error:
            self._save_failed = True
            kept = max(self._saved[0], 0)
            progress.message(f"warning: {error}; going on with the checkpoint of step {kept:,}")
        self._saved_at = time.monotonic()
        self._save_seconds = self._saved_at - begun

    def _write_checkpoint(self) -> None:
        doing("a checkpoint to be written")
        runner = self.runner
        meta = {"seed": self.seed, "best_return": self.best_return, "evaluated": self._evaluated}
        meta |= self.health.saved() | {"window": self.window.saved()}
        with self._stop.unhurried():
            if runner.recorder is not None:
                runner.recorder.flush()
            folder = self.checkpoints.save(runner.variables, runner.step, meta, runner.appended())
            self._saved = runner.step, self.window.iterations
            self.health.wrote(runner.step)
            runner.save(self.storage.address)
            if runner.recorder is not None:
                runner.recorder.saved()
        self._stop.kept = f"the checkpoint of step {runner.step:,} is kept"
        self.calls.checkpoint(runner.step, folder)

    def _policy_graph(self) -> Any:
        """Makes the policy a plain function, whose graph TensorBoard shows."""
        agent = self.agent
        spec = space_spec(agent.observation_space, (self.hparams.num_envs,))

        def policy(observation: Any) -> Any:
            zero = tf.constant(0, tf.int64)
            state = agent.initial_state(self.hparams.num_envs)
            return agent.act(observation, state, tf.constant([0, 0]), zero, False)[0]

        return tf.function(policy, autograph=False).get_concrete_function(spec)


def _is_due(before: int, step: int, period: int, total: int) -> bool:
    """Says whether a multiple of `period` was passed since `before`, or the end reached; period 0: only at
    the end."""
    return step >= total or (period > 0 and before // period != step // period)
