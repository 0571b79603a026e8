"""Stable-Baselines3's SAC, evaluated along the way; resumes where it was stopped.

    VENV/bin/python sb3_sac_learning.py --seed 0 --folder DIR [--env HalfCheetah-v5] [--steps 200000]

Writes DIR/seed_N.csv (step, mean return of 10 deterministic episodes, seconds of training so far; no
header), and keeps model and replay buffer in DIR/seed_N for the next start. The settings are those of the SAC
paper and of the set that is compared with it.
"""

from __future__ import annotations

import argparse
import csv
import time
from pathlib import Path

import gymnasium
import torch
from stable_baselines3 import SAC
from stable_baselines3.common.evaluation import evaluate_policy

SETTINGS = {
    "learning_rate": 3e-4,
    "buffer_size": 1_000_000,
    "learning_starts": 10_000,
    "batch_size": 256,
    "gamma": 0.99,
    "tau": 0.005,
    "train_freq": 1,
    "gradient_steps": 1,
    "policy_kwargs": {"net_arch": [256, 256]},
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--seed", type=int, required=True)
    add("--folder", type=Path, required=True)
    add("--env", default="HalfCheetah-v5")
    add("--steps", type=int, default=200_000)
    add("--eval_period", type=int, default=10_000)
    add("--save_period", type=int, default=20_000)
    add("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    args.folder.mkdir(parents=True, exist_ok=True)
    table, kept = args.folder / f"seed_{args.seed}.csv", args.folder / f"seed_{args.seed}"
    env = gymnasium.make(args.env)
    done, seconds = 0, 0.0
    if (kept / "step.txt").exists():
        done, seconds = (float(word) for word in (kept / "step.txt").read_text().split())
        model = SAC.load(kept / f"model_{int(done)}", env=env, device="cpu")
        model.load_replay_buffer(kept / f"replay_{int(done)}")
        with table.open(newline="") as file:
            rows = [row for row in csv.reader(file) if int(row[0]) <= done]
    else:
        model = SAC("MlpPolicy", env, seed=args.seed, device="cpu", **SETTINGS)
        rows = []
    kept.mkdir(exist_ok=True)
    test = gymnasium.make(args.env)
    while model.num_timesteps < args.steps:
        start = time.perf_counter()
        model.learn(args.eval_period, reset_num_timesteps=False)
        seconds += time.perf_counter() - start
        test.reset(seed=10_000 + args.seed)  # the same episodes at every evaluation
        mean, _ = evaluate_policy(model, test, n_eval_episodes=10, deterministic=True, warn=False)
        rows.append([model.num_timesteps, round(float(mean), 1), round(seconds, 1)])
        with table.open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(rows)
        print(*rows[-1], flush=True)
        if model.num_timesteps % args.save_period == 0:
            step = model.num_timesteps
            model.save(kept / f"model_{step}")
            model.save_replay_buffer(kept / f"replay_{step}")
            (kept / "step.txt").write_text(f"{step} {seconds}")
            for old in kept.glob("*_*.*"):
                if not old.stem.endswith(f"_{step}"):
                    old.unlink()


if __name__ == "__main__":
    main()
