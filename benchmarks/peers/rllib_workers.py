"""RLlib's IMPALA or APPO with workers, on the workloads of ours_workers.py; prints one line `JSON {...}`.

    VENV/bin/python benchmarks/peers/rllib_workers.py impala --workers 8
    VENV/bin/python benchmarks/peers/rllib_workers.py appo --task learn --env CartPole-v1 --envs 16

`rate` has our networks and our length of rollouts, and RLlib's defaults for the rest: batches of 500 steps,
made of several rollouts, and a learner in a process of its own. `learn` is RLlib's example for CartPole
(rllib/examples/algorithms/impala/cartpole_impala.py, appo/cartpole_appo.py, whose target is 450 too) but for
the number of workers, which fit this machine.
"""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ["PYTHONPATH"] = os.pathsep.join(sys.path[:2])  # of the processes that Ray starts

import gymnasium
import ray
from ray import tune
from ray.rllib.algorithms.appo import APPOConfig
from ray.rllib.algorithms.impala import IMPALAConfig
from ray.rllib.connectors.env_to_module.mean_std_filter import MeanStdFilter
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from watch import EPISODES, Watch, parser

CONFIGS = {"impala": IMPALAConfig, "appo": APPOConfig}


def make_env(config: dict[str, Any]) -> gymnasium.Env:
    """The environment of that id; ours, which sleeps, is registered where it is missing."""
    import sleeping_env

    sleeping_env.register_sleeping()
    return gymnasium.make(config["id"])


def rate_config(args: Any) -> Any:
    """Our networks and rollouts; everything else as RLlib has it."""
    return (
        CONFIGS[args.algo]()
        .training(train_batch_size_per_learner=args.batch)
        .env_runners(rollout_fragment_length=100)
        .rl_module(
            model_config=DefaultModelConfig(
                fcnet_hiddens=[64, 64], fcnet_activation="tanh", vf_share_layers=False
            )
        )
    )


def learn_config(args: Any) -> Any:
    """RLlib's examples for CartPole."""
    config = (
        CONFIGS[args.algo]()
        .training(vf_loss_coeff=0.05, entropy_coeff=0.0)
        .rl_module(model_config=DefaultModelConfig(vf_share_layers=True))
    )
    if args.algo == "appo":
        return config.training(circular_buffer_iterations_per_batch=2)
    return config.training(
        train_batch_size_per_learner=500, grad_clip=40.0, grad_clip_by="global_norm", lr=0.0005
    ).env_runners(env_to_module_connector=lambda env, spaces, device: MeanStdFilter())


def build(args: Any) -> Any:
    """The algorithm, its workers started."""
    config = rate_config(args) if args.task == "rate" else learn_config(args)
    return (
        config.environment("workload", env_config={"id": args.env})
        .env_runners(
            num_env_runners=args.workers,
            num_envs_per_env_runner=args.envs,
            max_requests_in_flight_per_env_runner=args.in_flight,
        )
        .learners(num_learners=args.learners)
        .reporting(min_time_s_per_iteration=0.5, metrics_num_episodes_for_smoothing=EPISODES)
        .debugging(seed=args.seed, log_level="ERROR")
        .build_algo()
    )


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--batch", type=int, default=500, help="steps of an update, rate")
    options.add_argument("--learners", type=int, default=1, help="learner processes; 0: in the driver's")
    options.add_argument("--in_flight", type=int, default=1, help="rollouts on order, of each worker")
    args = options.parse_args()
    watch = Watch("rllib", f"ray {ray.__version__}", args)
    logging.disable(logging.WARNING)
    ray.init(
        address="local",  # not a cluster that somebody else runs here
        num_cpus=args.workers + args.learners + 2,
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.ERROR,
    )
    tune.register_env("workload", make_env)
    algorithm = build(args)
    watch.start()
    while True:
        result = algorithm.train()
        runners, learner = result["env_runners"], result.get("learners", {}).get("__all_modules__", {})
        steps = float(runners.get("num_env_steps_sampled_lifetime", 0))
        trained = float(learner.get("num_env_steps_trained_lifetime", 0))
        episodes = runners.get("num_episodes_lifetime", 0)
        mean = float(runners["episode_return_mean"]) if episodes >= EPISODES else None
        if watch.mark(steps, trained / args.batch, args.workers, mean):
            break
    shown = None if mean is None else round(mean, 1)
    watch.report(return_mean=shown, trained_steps=round(trained), learners=args.learners)
    algorithm.stop()
    ray.shutdown()


if __name__ == "__main__":
    main()
