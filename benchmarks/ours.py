"""Runs one benchmark workload of this project and prints one line `JSON {...}`, like the drivers in peers/.

    python benchmarks/ours.py ppo --envs 64 --steps 1000000 --clip-value
    python benchmarks/ours.py ppo --backend envpool
    python benchmarks/ours.py dqn --envs 10
    python benchmarks/ours.py dqn --backend gym --overlap
    python benchmarks/ours.py sac --backend gym --env HalfCheetah-v5
    python benchmarks/ours.py pong
    python benchmarks/ours.py coinrun
    python benchmarks/ours.py minatar --env MinAtar/Breakout-v1 --envs 64
    python benchmarks/ours.py spread --backend pettingzoo

Named sets with overrides that equal the peers' settings, through the same `build_runner` that train.py uses.
Steps are real transitions: autoreset steps, which the peers' environments do not have, are not counted.
In-graph, compilation is left out and everything else counts, as it does for PureJaxRL; with environments
on the host the rate begins at the step where it begins for the peers.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import shared
from peers.meter import Meter

STEPS = {
    "ppo": 200_000,
    "dqn": 50_000,
    "sac": 4_000,
    "pong": 8_192,
    "coinrun": 4_096,
    "minatar": 1_000_000,
    "spread": 24_000,
}
# Environment steps, as for the peers
HOST_WARMUP = {"ppo": 16_384, "dqn": 11_000, "sac": 1_500, "pong": 2_048, "coinrun": 2_048, "spread": 5_000}
ENVS = {"ppo": 8, "dqn": 1, "sac": 1, "pong": 8, "coinrun": 16, "minatar": 64, "spread": 10}
SETS = {
    "ppo": "ppo_cartpole",
    "dqn": "dqn_cartpole",
    "sac": "sac_halfcheetah",
    "pong": "ppo_pong",
    "coinrun": "ppo_coinrun",
    "minatar": "ppo_minatar",
    "spread": "mappo_spread",
}
GAMES = {"sac": "HalfCheetah-v5", "minatar": "MinAtar/Breakout-v1"}  # the default environment
PIXELS = ("pong", "coinrun")  # on EnvPool; both have 16 minibatches of 256 in a rollout


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
        raise shared.UsageError(f"--envs {num_envs}: an update every 10 steps needs a divisor of 10")
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


def sac_overrides(env: str) -> dict[str, Any]:
    """The peers' SAC: 256-256 relu networks, batch 256, an update for every step after the first thousand.

    `rollout_length` puts 50 updates after 50 steps where the peer alternates: as many updates.
    """
    return {
        "env": env,
        "rollout_length": 50,
        "updates_per_iteration": 50,
        "batch_size": 256,
        "replay_capacity": 100_000,
        "min_replay_size": 1_000,
        "random_steps": 1_000,
        "lr": 3e-4,
        "critic_lr": 3e-4,
        "lr_schedule": "constant",
        "gamma": 0.99,
        "tau": 0.005,
        "n_step": 1,
        "prioritized": False,
        "max_grad_norm": None,
        "model.name": "mlp",
        "model.hidden": (256, 256),
        "model.activation": "relu",
    }


def pixel_overrides(algo: str) -> dict[str, Any]:
    """The peers' PPO on pictures: 4 epochs of minibatches of 256, no annealing, the value not clipped."""
    overrides = {"lr_schedule": "constant", "clip_value_range": None, "minibatches": 4, "epochs": 4}
    if algo == "coinrun":
        overrides |= {"rollout_length": 64, "normalize_reward": False}
    return overrides


def minatar_overrides(env: str) -> dict[str, Any]:
    """PureJaxRL's PPO on MinAtar: the board flattened, separate 64-64 relu networks, no annealing.

    Gymnax's games have neither sticky actions nor ramping, which make the original's harder: after a million
    steps Breakout gives 17 with them, 23 without, as PureJaxRL.
    """
    return {
        "env": env,
        "env_kwargs": {"sticky_action_prob": 0.0, "difficulty_ramping": False},
        "lr": 5e-3,
        "lr_schedule": "constant",
        "model.name": "mlp",
        "model.hidden": (64, 64),
        "model.shared": False,
    }


def spread_overrides(backend: str) -> dict[str, Any]:
    """BenchMARL's default MAPPO: 6,000 steps a rollout, 45 epochs of minibatches of 400, 256-256 tanh nets.

    Three agents, discrete actions, episodes of 25 steps. The square's weight is 1, where ours is of its half.
    """
    return {
        "env": "SimpleSpread-v0" if backend == "graph" else "pettingzoo:mpe2.simple_spread_v3",
        "rollout_length": 600,
        "epochs": 45,
        "minibatches": 15,
        "lr": 5e-5,
        "lr_schedule": "constant",
        "adam_epsilon": 1e-6,
        "max_grad_norm": 5.0,
        "gamma": 0.99,
        "gae_lambda": 0.9,
        "clip_range": 0.2,
        "entropy_coef": 0.0,
        "value_coef": 2.0,
        "normalize_reward": False,
        "model.hidden": (256, 256),
        "model.part_hidden": (),
        "model.activation": "tanh",
    }


def resolve_hparams(args: argparse.Namespace) -> Any:
    """The workload's frozen hparams."""
    from rl.hparams.merge import resolve

    if args.algo == "ppo":
        workload = ppo_overrides(args.clip_value)
    elif args.algo == "dqn":
        workload = dqn_overrides(args.envs, args.steps)
    elif args.algo in PIXELS:
        workload = pixel_overrides(args.algo)
    elif args.algo == "minatar":
        workload = minatar_overrides(args.env)
    elif args.algo == "spread":
        workload = spread_overrides(args.backend)
    else:
        workload = sac_overrides(args.env)
    if args.backend != "graph" or args.algo == "sac":
        workload["log_period"] = 500 if args.algo == "sac" else 1_000  # to begin near the peers' step
    common = {
        "env_backend": "auto" if args.backend == "pettingzoo" else args.backend,
        "num_envs": args.envs,
        "overlap": args.overlap,
        "train_steps": args.steps,
        # Said in any case: sets have "auto", which is bfloat16 on processors that are made for it.
        "model.precision": "bfloat16" if args.bfloat16 else "float32",
    }
    return resolve(SETS[args.algo], workload | common)


def train(runner: Any, meter: Meter, steps: int, window: int) -> float | None:
    """Runs `steps` steps, one iteration, which compiles, and then windows of `window`.

    Returns the mean return of the last episodes, a hundred or a few more; None where none ended.
    """
    transitions = updates = 0.0
    history: list[tuple[float, float]] = []  # (episodes, sum of their returns) of each window
    iterations = 1
    while True:
        sums = runner.run(iterations)
        played = sums["transitions"] / runner.agent.rows_of_env  # of environments, whose agents are rows
        transitions, updates = transitions + played, updates + sums["updates"]
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
    parser, count = shared.parser(__doc__), shared.integer(1)
    parser.add_argument("algo", choices=tuple(SETS))
    parser.add_argument("--backend", choices=("graph", "envpool", "gym", "pettingzoo"), default="graph")
    parser.add_argument("--env", help="for sac, default HalfCheetah-v5, and minatar, default its Breakout")
    parser.add_argument("--envs", type=count, help=f"default {ENVS}")
    parser.add_argument("--steps", type=count, help=f"default {STEPS}")
    parser.add_argument("--seed", type=shared.integer(0), default=1)
    parser.add_argument("--bfloat16", action="store_true", help="hparam model.precision=bfloat16")
    parser.add_argument("--overlap", action="store_true", help="hparam overlap, environments on the host")
    parser.add_argument("--clip-value", action="store_true", help="clip PPO's value loss, as PureJaxRL does")
    args = parser.parse_args()
    if args.env and args.algo not in GAMES:
        parser.error("--env is for sac and minatar: the others have one environment")
    if args.backend == "pettingzoo" and args.algo != "spread":
        parser.error("--backend pettingzoo is for spread")
    args.env = args.env or GAMES.get(args.algo)
    if args.algo in PIXELS:
        args.backend = "envpool"
    args.envs = args.envs or ENVS[args.algo]
    args.steps = args.steps or STEPS[args.algo]
    return args


def main() -> None:
    args = parse()
    from rl.imports import import_tensorflow

    import_tensorflow()  # as the command line does
    import tensorflow as tf

    from rl.runners.build import build_runner

    in_graph = args.backend == "graph"
    warmup = 0 if in_graph and args.algo != "sac" else HOST_WARMUP[args.algo]
    hparams = resolve_hparams(args)
    workload = SETS[args.algo] if args.env is None else f"{args.algo}_{args.env}"
    meter = Meter("rl", f"tensorflow {tf.__version__}", workload, warmup)
    runner = build_runner(hparams, args.seed)
    meter.start()
    window = -(-hparams.log_period // runner.steps_per_iteration)
    begun = time.perf_counter()
    mean = train(runner, meter, args.steps, window)
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
    shared.answer(main)
