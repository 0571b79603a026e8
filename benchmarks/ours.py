"""Runs one benchmark workload of this project and prints one line `JSON {...}`, like the drivers in peers/.

    python benchmarks/ours.py ppo --envs 64 --steps 1000000 --clip-value
    python benchmarks/ours.py ppo --backend envpool
    python benchmarks/ours.py dqn --envs 10
    python benchmarks/ours.py dqn --backend gym --overlap

Named sets with overrides that equal the peers' settings, through the same `build_runner` that train.py uses.
Steps are real transitions: autoreset steps, which the peers' environments do not have, are not counted.
In-graph, compilation is left out and everything else counts, as it does for PureJaxRL; with environments
on the host the rate begins at the step where it begins for the peers.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from peers.meter import Meter

STEPS = {"ppo": 200_000, "dqn": 50_000}
HOST_WARMUP = {"ppo": 16_384, "dqn": 11_000}  # environment steps, as for Stable-Baselines3 and CleanRL


def ppo_overrides(clip_value: bool) -> dict[str, Any]:
    """The peers' PPO: 128 steps, 4 epochs of 4 minibatches, separate 64-64 tanh networks, no annealing."""
    return {
        "rollout_length": 128,
        "epochs": 4,
        "minibatches": 4,
        "gamma": 0.99,
        "gae_lambda": 0.95,
        "lr": 1e-3,
        "lr_schedule": "constant",
        "adam_epsilon": 1e-5,
        "max_grad_norm": 0.5,
        "clip_range": 0.2,
        "clip_value_range": 0.2 if clip_value else None,
        "entropy_coef": 0.01,
        "value_coef": 0.5,
        "normalize_advantage": True,
        "normalize_observation": False,
        "normalize_reward": False,
        "target_kl": None,
        "model.name": "mlp",
        "model.hidden": (64, 64),
        "model.activation": "tanh",
        "model.shared": False,
        "model.init": "orthogonal",
    }


def dqn_overrides(num_envs: int, steps: int) -> dict[str, Any]:
    """The peers' DQN: one update of 128 per 10 environment steps, the target copied every 500 of them.

    `rollout_length` makes an iteration 10 environment steps. The memory gets a little more than the peers'
    10,000 places, because the newest row cannot be sampled and learning is to start after step 10,000: so it
    makes exactly as many updates, (steps - 10,000) / 10.
    """
    if 10 % num_envs:
        raise SystemExit(f"--envs {num_envs}: an update every 10 steps needs a divisor of 10")
    return {
        "rollout_length": 10 // num_envs,
        "updates_per_iteration": 1,
        "batch_size": 128,
        "replay_capacity": 10_000 + 10 + num_envs,
        "min_replay_size": 10_000,
        "target_update_period": 50,  # updates
        "tau": 1.0,
        "double": False,
        "dueling": False,
        "noisy": False,
        "prioritized": False,
        "n_step": 1,
        "loss": "mse",
        "gamma": 0.99,
        "lr": 2.5e-4,
        "lr_schedule": "constant",
        "adam_epsilon": 1e-8,
        "max_grad_norm": None,
        "exploration_epsilon_start": 1.0,
        "exploration_epsilon_end": 0.05,
        "exploration_steps": steps // 2,
        "model.name": "mlp",
        "model.hidden": (120, 84),
        "model.activation": "relu",
    }


def resolve_hparams(args: argparse.Namespace) -> Any:
    """The workload's frozen hparams."""
    from rl.hparams.merge import resolve

    workload = ppo_overrides(args.clip_value) if args.algo == "ppo" else dqn_overrides(args.envs, args.steps)
    if args.backend != "graph":
        workload["log_period"] = 1_000  # so that the measurement can begin near the peers' step
    common = {
        "env_backend": args.backend,
        "num_envs": args.envs,
        "overlap": args.overlap,
        "train_steps": args.steps,
    }
    return resolve(f"{args.algo}_cartpole", workload | common)


def train(runner: Any, meter: Meter, steps: int, window: int, first: int) -> float | None:
    """Runs `steps` steps, `first` iterations and then windows of `window`.

    Returns the mean return of the last episodes, a hundred or a few more; None where none ended.
    """
    transitions = updates = 0.0
    history: list[tuple[float, float]] = []  # (episodes, sum of their returns) of each window
    iterations = first
    while True:
        sums = runner.run(iterations)
        transitions, updates = transitions + sums["transitions"], updates + sums["updates"]
        meter.mark(transitions, updates)
        history.append((sums["episodes"], sums["episode_return"]))
        left = -(-(steps - runner.step) // runner.steps_per_iteration)
        if left <= 0:
            break
        iterations = min(window, left)
    episodes = total = 0.0
    for count, episode_return in reversed(history):
        if episodes >= 100:
            break
        episodes, total = episodes + count, total + episode_return
    return total / episodes if episodes else None


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("algo", choices=("ppo", "dqn"))
    parser.add_argument("--backend", choices=("graph", "envpool", "gym"), default="graph")
    parser.add_argument("--envs", type=int, help="default 8 for ppo, 1 for dqn")
    parser.add_argument("--steps", type=int, help="default 200,000 for ppo, 50,000 for dqn")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--overlap", action="store_true", help="hparam overlap, environments on the host")
    parser.add_argument("--clip-value", action="store_true", help="clip PPO's value loss, as PureJaxRL does")
    args = parser.parse_args()
    args.envs = args.envs or {"ppo": 8, "dqn": 1}[args.algo]
    args.steps = args.steps or STEPS[args.algo]
    return args


def main() -> None:
    args = parse()
    import tensorflow as tf

    from rl.runners.trainer import build_runner

    in_graph = args.backend == "graph"
    warmup = 0 if in_graph else HOST_WARMUP[args.algo]
    meter = Meter("rl", f"tensorflow {tf.__version__}", f"{args.algo}_cartpole", warmup)
    hparams = resolve_hparams(args)
    runner = build_runner(hparams, args.seed)
    meter.start()
    window = -(-hparams.log_period // runner.steps_per_iteration)
    begun = time.perf_counter()
    # In-graph, no iteration at all compiles everything: their number is an input of the compiled function.
    mean = train(runner, meter, args.steps, window, first=0 if in_graph else 1)
    runner.close()
    meter.report(
        mean,
        compile_s=round(meter.first.time - begun, 2),
        envs=args.envs,
        backend=args.backend,
        overlap=args.overlap,
        act=getattr(getattr(runner, "actor", None), "backend", None),
    )


if __name__ == "__main__":
    main()
