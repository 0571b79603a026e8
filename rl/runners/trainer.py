"""One training run: builds the parts, restores, runs windows of iterations, logs, evaluates, saves.

A window is `log_period` environment steps: one call of the runner, one row of metrics. Evaluations and
checkpoints happen between windows, at steps that depend on hparams alone (evaluations) or not at all on
what is computed (checkpoints), so that a resumed run repeats what an uninterrupted one would have done.
"""

from __future__ import annotations

import contextlib
import logging
import math
import resource
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import tensorflow as tf

from rl import systems
from rl.envs.host import Purpose, purpose_seed
from rl.errors import MachineLost, NotFinite, Unavailable, UsageError
from rl.hparams.hparams import HParams
from rl.runners.base import window_metrics
from rl.runners.build import build_runner
from rl.runners.evaluate import Evaluation, Evaluator
from rl.runners.finite import FiniteCheck
from rl.runners.player import Player
from rl.spaces import space_spec
from rl.utils.checkpoint import CheckpointError, CheckpointManager, read_manifest, write_single
from rl.utils.files import patiently, set_aside
from rl.utils.logger import Logger
from rl.utils.progress import Progress
from rl.utils.signals import StopRequest
from rl.utils.storage import Storage
from rl.workers.plan import Workers

_log = logging.getLogger("rl")


class Result(NamedTuple):
    """What a training run came to."""

    run_dir: Path
    step: int
    seconds: float  # of training in this process, evaluations and checkpoints included
    train_seconds: float  # of the runner alone, without its first window (compilation)
    steps_per_second: float | None  # over `train_seconds`
    best_return: float | None
    last: Evaluation | None
    exit_code: int  # 0, or 128 + signal when asked to stop


class Trainer:
    """Trains in `run_dir`, from its newest checkpoint where there is one.

    Building it restores and may raise UsageError; nothing has been written by then.
    """

    def __init__(
        self,
        hparams: HParams,
        run_dir: Path,
        seed: int,
        eval_episodes: int,
        record_video: bool = False,
        workers: Workers | None = None,
        storage: Storage | None = None,
    ):
        self.hparams, self.run_dir, self.seed = hparams, run_dir, seed
        self.storage = storage or Storage(run_dir)  # what keeps a remote output like `run_dir`
        self.runner = build_runner(hparams, seed, workers, systems.strategy())
        self.agent = self.runner.learner.agent
        self.evaluator = Evaluator(self.agent, eval_episodes)
        self.level_evaluator = None  # of the levels trained on, where the evaluation is on others
        if hparams.train_env_kwargs.get("num_levels"):
            options = hparams.env_kwargs | hparams.train_env_kwargs
            self.level_evaluator = Evaluator(self.agent, eval_episodes, options)
        self.player = Player(self.agent, "rgb_array") if record_video else None
        self.checkpoints = CheckpointManager(run_dir / "checkpoints", hparams.keep_checkpoints)
        self.finite = FiniteCheck(self.runner.variables)
        meta = self.checkpoints.restore(self.runner.variables)
        self.resumed = meta is not None
        self._saved_step = self.runner.step if self.resumed else -1  # of the newest checkpoint; -1: none
        self._saved_at = 0.0  # time.monotonic() of the last attempt at one
        self.best_return: float | None = None
        if meta is not None:
            self.best_return = _best_so_far(run_dir)
            self.runner.restored(self.storage.address)

    def train(self, stop: StopRequest, log_hparams: dict[str, Any]) -> Result:
        """Trains to `train_steps` or until `stop` is requested; always leaves a checkpoint of where it is.

        Raises:
            NotFinite: a loss, a gradient or a weight became NaN or infinite; nothing of that window is kept
                but its row of metrics.
            Unavailable: rows or checkpoints could not be written.
        """
        total, start = self.hparams.train_steps, time.perf_counter()
        runner = self.runner
        iterations_per_window = -(-self.hparams.log_period // runner.steps_per_iteration)
        last: Evaluation | None = None
        timed_steps, timed_seconds, self._saved_at = 0, 0.0, time.monotonic()
        best = self.run_dir / "checkpoints" / "best"
        # Damaged, or of a run whose checkpoints are gone.
        if self.best_return is None and patiently(best.exists):
            set_aside(best)
        logger = Logger(self.run_dir, self.hparams.histograms, runner.step if self.resumed else None)
        with logger, Progress(total, self.run_dir / "train.log") as progress:
            progress.message(self._environment())
            if not self.resumed:
                logger.log_hparams(log_hparams)
                logger.log_graph(self._policy_graph())
            else:
                progress.message(f"resumed at step {runner.step:,}")
            first = True
            while runner.step < total and not stop.requested:
                left = -(-(total - runner.step) // runner.steps_per_iteration)
                before, begun = runner.step, time.perf_counter()
                if first:
                    progress.message(runner.starting)
                sums = runner.run(min(iterations_per_window, left))
                seconds = time.perf_counter() - begun
                if not first:
                    timed_steps, timed_seconds = timed_steps + runner.step - before, timed_seconds + seconds
                row = window_metrics(sums) | self.agent.scalars(runner.step)
                row |= _perf(runner.step - before, sums["updates"], seconds) | runner.scalars()
                with self._saving_what_was_learned():
                    last = self._after_window(before, row, logger, progress)
                first = False
            if self._saved_step != runner.step:
                logger.flush()
                patiently(self._write_checkpoint)
        rate = timed_steps / timed_seconds if timed_seconds else None
        elapsed = time.perf_counter() - start
        return Result(
            self.run_dir, runner.step, elapsed, timed_seconds, rate, self.best_return, last, stop.exit_code
        )

    def _after_window(
        self, before: int, row: dict[str, float], logger: Logger, progress: Progress
    ) -> Evaluation | None:
        """Evaluates, logs, films and saves, each where it is due; what an evaluation found."""
        step, total = self.runner.step, self.hparams.train_steps
        self._check_finite(row, logger)
        evaluation = self._evaluate(before, total, row, progress)
        logger.log(step, row)
        logger.log_histograms(step, self.agent.variables)
        self._film(before, total, logger, progress)
        progress.update(step, row.get("eval/return_mean", row.get("episode/return_mean")))
        if time.monotonic() - self._saved_at >= self.hparams.checkpoint_period:
            self._save(logger, progress)
            self._saved_at = time.monotonic()
        return evaluation

    @contextlib.contextmanager
    def _saving_what_was_learned(self) -> Iterator[None]:
        """What fails in it, but for numbers that are none, ends the run after a checkpoint, if one can be
        written. (A row that could not be is missing then.)"""
        try:
            yield
        except Exception as error:
            if not isinstance(error, NotFinite | MachineLost) and self._saved_step != self.runner.step:
                with contextlib.suppress(UsageError, OSError):
                    self._write_checkpoint()
            raise

    def _check_finite(self, row: dict[str, float], logger: Logger) -> None:
        """Raises NotFinite, the row logged, unless all numbers of a window are finite."""
        trouble = self.finite.trouble(row)
        if not trouble:
            return
        step = self.runner.step
        logger.log(step, row)
        logger.flush()
        kept = "there is no checkpoint"
        if self._saved_step >= 0:
            kept = f"the checkpoint of step {self._saved_step:,} is kept"
        raise NotFinite(
            f"step {step:,}: {trouble}. Training stopped, {kept}. Look at the environment's rewards and "
            "observations, or take a smaller lr or max_grad_norm, normalize_reward or normalize_observation"
        )

    def close(self) -> None:
        self.runner.close()
        self.evaluator.close()
        for each in (self.level_evaluator, self.player):
            if each is not None:
                each.close()

    def _evaluate(
        self, before: int, total: int, row: dict[str, float], progress: Progress
    ) -> Evaluation | None:
        """Evaluates where a multiple of `eval_period` was passed, and at the end; keeps the best policy."""
        step = self.runner.step
        if not _is_due(before, step, self.hparams.eval_period, total):
            return None
        begun = time.perf_counter()
        seed = purpose_seed(Purpose.EVALUATION, self.seed, step)
        evaluation = self.evaluator.run(seed)
        row |= evaluation.metrics()
        mean = row["eval/return_mean"]
        if self.level_evaluator is not None:
            familiar = float(self.level_evaluator.run(seed).returns.mean())
            row |= {"eval/train_levels_return_mean": familiar, "eval/generalization_gap": familiar - mean}
        other = self.evaluator.other(seed) if step >= total else None
        if other is not None:
            row[f"eval/return_mean_{other[0]}"] = float(other[1].returns.mean())
        row["perf/eval_seconds"] = time.perf_counter() - begun
        if math.isfinite(mean) and (self.best_return is None or mean > self.best_return):
            best = self.run_dir / "checkpoints" / "best"
            policy, meta = self.agent.policy_variables, {"return_mean": mean}
            try:
                patiently(lambda: write_single(best, policy, meta, step))
                self.best_return = mean  # now that it is there
                self.storage.saved()
            except CheckpointError as error:
                progress.message(f"warning: {error}; the best policy so far is not kept")
        return evaluation

    def _film(self, before: int, total: int, logger: Logger, progress: Progress) -> None:
        """Films an episode where a multiple of `video_period` was passed, and at the end."""
        period = self.hparams.video_period or self.hparams.eval_period
        step = self.runner.step
        if self.player is not None and _is_due(before, step, period, total):
            seed = purpose_seed(Purpose.EVALUATION, self.seed, step)  # the first one evaluated
            label = f"step_{step:09d}"
            try:
                film = self.player.film(seed, self.run_dir / "videos", label)
            except UsageError as error:
                progress.message(f"warning: {error}; training goes on without films")
                self.player.close()
                self.player = None
                return
            assert film.preview is not None
            logger.log_video(step, "eval/episode", film.preview)

    def _save(self, logger: Logger, progress: Progress) -> None:
        """A periodic checkpoint; one that fails costs a warning, not the run."""
        logger.flush()
        try:
            self._write_checkpoint()
        except CheckpointError as error:
            kept = max(self._saved_step, 0)
            progress.message(f"warning: {error}; going on with the checkpoint of step {kept:,}")

    def _write_checkpoint(self) -> None:
        runner, meta = self.runner, {"seed": self.seed, "best_return": self.best_return}
        self.checkpoints.save(runner.variables, runner.step, meta, runner.appended())
        self._saved_step = runner.step
        runner.save(self.storage.address)
        self.storage.saved()

    def _environment(self) -> str:
        """Which environment is played where, in words."""
        names = {"graph": "in-graph", "envpool": "on EnvPool", "gym": "on Gymnasium"}
        training, evaluation = names[self.runner.backend], names[self.evaluator.backend]
        lacking = "" if self.evaluator.backend == "gym" else ", since Gymnasium has none of that id"
        return f"{self.hparams.env}: trained {training}, evaluated {evaluation}{lacking}"

    def _policy_graph(self) -> Any:
        """The policy as a plain function, whose graph TensorBoard shows."""
        agent = self.agent
        spec = space_spec(agent.observation_space, (self.hparams.num_envs,))

        def policy(observation: Any) -> Any:
            zero = tf.constant(0, tf.int64)
            state = agent.initial_state(self.hparams.num_envs)
            return agent.act(observation, state, tf.constant([0, 0]), zero, False)[0]

        return tf.function(policy, autograph=False).get_concrete_function(spec)


def _is_due(before: int, step: int, period: int, total: int) -> bool:
    """Whether a multiple of `period` was passed since `before`, or the end reached; 0: at the end alone."""
    return step >= total or (period > 0 and before // period != step // period)


def _best_so_far(run_dir: Path) -> float | None:
    """`best_return` of a run that goes on: damage to what is kept costs a line, and that policy."""
    try:
        found = best_return(run_dir)
    except Unavailable:
        raise
    except UsageError as error:
        _log.warning("%s", error)
        return None
    return found if found is not None and math.isfinite(found) else None


def best_return(run_dir: Path) -> float | None:
    """The mean evaluation return of the best policy kept in a run, None where there is none."""
    path = run_dir / "checkpoints" / "best"
    return read_manifest(path).meta["return_mean"] if patiently(path.is_dir) else None


def _perf(steps: int, updates: float, seconds: float) -> dict[str, float]:
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "perf/steps_per_second": steps / seconds,
        "perf/updates_per_second": updates / seconds,
        "perf/peak_memory_mib": memory,
    }
