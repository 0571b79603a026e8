"""Runs this project with workers and prints one line `JSON {...}`, like peers/rllib_workers.py.

    python benchmarks/ours_workers.py impala --workers 8
    python benchmarks/ours_workers.py apex --workers 8
    python benchmarks/ours_workers.py impala --task learn --env CartPole-v1 --workers 2 --envs 16
    python benchmarks/ours_workers.py environment

Through the same `build_runner` that train.py uses. `environment`: no agent and no workers, the environment
alone with random actions, which is what a worker could reach at most.
"""

from __future__ import annotations

import importlib.metadata
import sys
import time
from collections import deque
from pathlib import Path
from typing import Any

import shared

sys.path.insert(0, str(Path(__file__).resolve().parent / "peers"))

from watch import EPISODES, Watch, parser

SETS = {"impala": "impala_cartpole", "appo": "appo_cartpole", "apex": "apex_dqn_cartpole"}
MODULE = "benchmarks.sleeping_env"

# What a learner on one slow core can keep up with when 16 workers send 3000 steps a second.
LENGTH = 100  # steps of a rollout, as in IMPALA's paper; peers/rllib_workers.py has the same
RATE = {
    # The learning rate is RLlib's: the set's own, 3e-3, is for rollouts of 16 environments. The set's two
    # passes over every rollout stay.
    "impala": {"rollout_length": LENGTH, "lr": 5e-4},
    "appo": {"rollout_length": LENGTH, "minibatches": 1, "lr": 5e-4},
    # An update of the set's own batch of 128 for each rollout: 1.3 transitions learned for each that was
    # played. The paper has 0.8 (19 batches of 512 and 12,500 transitions a second), the set itself 64, which
    # would be 1500 updates a second here. The networks are IMPALA's, half as wide as the set's.
    "apex": {"rollout_length": LENGTH, "updates_per_iteration": 1, "model.hidden": (64, 64)},
}


class Recent:
    """Mean return of the last `EPISODES` episodes, or of a few more: they come in sums of a rollout's."""

    def __init__(self) -> None:
        self._sums: deque[tuple[float, float]] = deque()  # (episodes, sum of their returns)
        self._episodes = self._total = 0.0

    def add(self, episodes: float, total: float) -> float | None:
        """Takes in what a rollout finished; the mean, None before there were enough episodes."""
        if episodes:
            self._sums.append((episodes, total))
            self._episodes, self._total = self._episodes + episodes, self._total + total
        while self._sums and self._episodes - self._sums[0][0] >= EPISODES:
            count, first = self._sums.popleft()
            self._episodes, self._total = self._episodes - count, self._total - first
        return self._total / self._episodes if self._episodes >= EPISODES else None


def resolve_hparams(args: Any) -> Any:
    """The run's frozen hparams: the set's own for `learn`, those of `RATE` besides for `rate`."""
    from rl.hparams.merge import resolve

    overrides: dict[str, Any] = {"env": args.env, "num_envs": args.envs}
    if args.task == "rate":
        overrides |= RATE[args.algo]
        overrides["train_steps"] = 10_000_000  # schedules stay where they begin
    return resolve(SETS[args.algo], overrides)


def environment(args: Any) -> None:
    """Steps per second of one environment alone in this process."""
    import gymnasium
    from sleeping_env import ENV_ID

    watch = Watch("gymnasium", importlib.metadata.version("gymnasium"), args)
    env = gymnasium.make(ENV_ID, disable_env_checker=True)
    env.reset(seed=args.seed)
    watch.start()
    steps = 0
    while True:
        *_, terminated, truncated, _ = env.step(steps % 2)
        steps += 1
        if terminated or truncated:
            env.reset()
        if steps % 50 == 0 and watch.mark(steps, steps, 1, None):
            break
    watch.report()


def main() -> None:
    args = parser(__doc__, shared.CommandParser).parse_args()
    if args.algo == "environment":
        args.workers = 1
        environment(args)
        return
    shared.check_known("algo", [args.algo], [*SETS, "environment"])
    from rl.imports import import_tensorflow

    import_tensorflow()  # as the command line does, so that XLA computes as in train.py
    import tensorflow as tf

    from rl.registry import import_user_modules
    from rl.runners.build import build_runner
    from rl.workers.plan import Workers

    watch = Watch("rl", f"tensorflow {tf.__version__}", args)
    import_user_modules((MODULE,))
    hparams = resolve_hparams(args)
    runner = build_runner(hparams, args.seed, Workers(args.workers, None, (MODULE,)))
    recent, steps, updates, waited, stale = Recent(), 0.0, 0.0, 0.0, []
    watch.start()
    while True:
        begun = time.perf_counter()
        sums = runner.run(1)
        steps, updates = steps + sums["transitions"], updates + sums["updates"]
        mean = recent.add(sums["episodes"], sums["episode_return"])
        found = runner.scalars()
        if watch.warm is not None:
            waited += found["perf/learner_wait_fraction"] * (time.perf_counter() - begun)
            stale.append(found["perf/staleness_mean"])
        over = watch.mark(steps, updates, int(found["perf/workers_playing"]), mean)
        if over or (args.task == "learn" and runner.step >= hparams.train_steps):
            break
    more: dict[str, Any] = {"return_mean": mean if mean is None else round(mean, 1)}
    if args.task == "rate":
        more["learner_waits"] = round(waited / (watch.last.time - watch.warm.time), 3)
        more["staleness"] = round(sum(stale) / len(stale), 1)
    watch.report(rollout_length=hparams.rollout_length, **more)
    runner.close()


if __name__ == "__main__":
    shared.answer(main)
