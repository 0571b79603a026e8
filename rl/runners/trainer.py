"""One training run: builds the parts, restores, runs windows of iterations, logs, evaluates, saves.

A window is `log_period` environment steps: one call of the runner, one row of metrics. Evaluations and
checkpoints happen between windows, at steps that depend on hparams alone (evaluations) or not at all on
what is computed (checkpoints), so that a resumed run repeats what an uninterrupted one would have done.
"""

from __future__ import annotations

import math
import resource
import shutil
import time
from pathlib import Path
from typing import Any, NamedTuple

import tensorflow as tf

from rl import systems
from rl.envs.host import Purpose, purpose_seed
from rl.errors import NotFinite, UsageError
from rl.hparams.hparams import HParams
from rl.runners.base import window_metrics
from rl.runners.build import build_runner
from rl.runners.evaluate import Evaluation, Evaluator
from rl.runners.finite import FiniteCheck
from rl.runners.player import Player
from rl.spaces import space_spec
from rl.utils.checkpoint import CheckpointError, CheckpointManager, read_manifest, write_single
from rl.utils.logger import Logger
from rl.utils.progress import Progress
from rl.utils.signals import StopRequest
from rl.utils.storage import Storage
from rl.workers.plan import Workers


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
        self.best_return: float | None = None
        if meta is not None:
            best = best_return(run_dir)
            self.best_return = best if best is not None and math.isfinite(best) else None
            self.runner.restored(self.storage.address)

    def train(self, stop: StopRequest, log_hparams: dict[str, Any]) -> Result:
        """Trains to `train_steps` or until `stop` is requested; always leaves a checkpoint of where it is.

        Raises:
            NotFinite: a loss, a gradient or a weight became NaN or infinite; nothing of that window is kept
                but its row of metrics.
        """
        total, start = self.hparams.train_steps, time.perf_counter()
        runner = self.runner
        iterations_per_window = -(-self.hparams.log_period // runner.steps_per_iteration)
        last: Evaluation | None = None
        timed_steps, timed_seconds, saved = 0, 0.0, time.monotonic()
        saved_step = runner.step if self.resumed else -1
        if not self.resumed:  # one killed before its first checkpoint may have left its best policy
            shutil.rmtree(self.run_dir / "checkpoints" / "best", ignore_errors=True)
        logger = Logger(self.run_dir, self.hparams.histograms, runner.step if self.resumed else None)
        with logger, Progress(total, self.run_dir / "train.log") as progress:
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
                self._check_finite(row, logger, saved_step)
                last = self._evaluate(before, total, row, progress)
                logger.log(runner.step, row)
                logger.log_histograms(runner.step, self.agent.variables)
                self._film(before, total, logger, progress)
                progress.update(runner.step, row.get("eval/return_mean", row.get("episode/return_mean")))
                first = False
                if time.monotonic() - saved >= self.hparams.checkpoint_period:
                    saved_step = self._save(logger, progress, saved_step)
                    saved = time.monotonic()
            if saved_step != runner.step:
                logger.flush()
                self._write_checkpoint()
        rate = timed_steps / timed_seconds if timed_seconds else None
        elapsed = time.perf_counter() - start
        return Result(
            self.run_dir, runner.step, elapsed, timed_seconds, rate, self.best_return, last, stop.exit_code
        )

    def _check_finite(self, row: dict[str, float], logger: Logger, saved_step: int) -> None:
        """Raises NotFinite, the row logged, unless all numbers of a window are finite."""
        trouble = self.finite.trouble(row)
        if not trouble:
            return
        step = self.runner.step
        logger.log(step, row)
        logger.flush()
        kept = (
            f"the checkpoint of step {saved_step:,} is kept" if saved_step >= 0 else "there is no checkpoint"
        )
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
        row["perf/eval_seconds"] = time.perf_counter() - begun
        if math.isfinite(mean) and (self.best_return is None or mean > self.best_return):
            self.best_return = mean
            best = self.run_dir / "checkpoints" / "best"
            try:
                write_single(best, self.agent.policy_variables, {"return_mean": mean}, step)
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

    def _save(self, logger: Logger, progress: Progress, saved_step: int) -> int:
        """A periodic checkpoint; one that fails costs a warning, not the run."""
        logger.flush()
        try:
            self._write_checkpoint()
        except CheckpointError as error:
            progress.message(f"warning: {error}; going on with the checkpoint of step {max(saved_step, 0):,}")
            return saved_step
        return self.runner.step

    def _write_checkpoint(self) -> None:
        runner, meta = self.runner, {"seed": self.seed, "best_return": self.best_return}
        self.checkpoints.save(runner.variables, runner.step, meta, runner.appended())
        runner.save(self.storage.address)
        self.storage.saved()

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


def best_return(run_dir: Path) -> float | None:
    """The mean evaluation return of the best policy kept in a run, None where there is none."""
    path = run_dir / "checkpoints" / "best"
    return read_manifest(path).meta["return_mean"] if path.is_dir() else None


def _perf(steps: int, updates: float, seconds: float) -> dict[str, float]:
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "perf/steps_per_second": steps / seconds,
        "perf/updates_per_second": updates / seconds,
        "perf/peak_memory_mib": memory,
    }
