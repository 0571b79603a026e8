"""BenchMARL's default of an algorithm on PettingZoo's simple_spread, to set beside our named sets.

    PEER_PYTHON benchmarks/peers/benchmarl_teams.py --algo qmix --seed 100 --steps 60000

Nothing is chosen but the algorithm and episodes of 25 steps. Actions are discrete where the algorithm has
them. After training the policy plays `--episodes` episodes without exploration; prints one line of JSON with
the mean of the team's return.
"""

from __future__ import annotations

import json
import tempfile
import time
from typing import Any

import arguments
import torch
from benchmarl.algorithms import algorithm_config_registry
from benchmarl.environments import PettingZooTask
from benchmarl.experiment import Experiment, ExperimentConfig
from benchmarl.models.mlp import MlpConfig
from torchrl.envs.utils import ExplorationType, set_exploration_type


class Played(Experiment):
    """An experiment that plays its last policy before it closes its environments."""

    episodes, trained_at, returns = 0, 0.0, ()

    def close(self) -> None:
        self.trained_at = time.perf_counter()
        if self.total_frames:  # not where building it failed
            self.returns = [self.played() for _ in range(self.episodes)]
        super().close()

    def played(self) -> float:
        """The team's return of an episode."""
        with torch.no_grad(), set_exploration_type(ExplorationType.DETERMINISTIC):
            episode = self.test_env.rollout(max_steps=self.max_steps, policy=self.policy)
        return float(episode.get(("next", "agent", "reward")).sum())


def experiment_of(algo: str, seed: int, steps: int, folder: str) -> Any:
    """The library's experiment with all its defaults."""
    config = ExperimentConfig.get_from_yaml()
    config.max_n_frames, config.loggers, config.create_json = steps, [], False
    config.evaluation, config.prefer_continuous_actions, config.save_folder = False, False, folder
    task = PettingZooTask.SIMPLE_SPREAD.get_from_yaml()
    task.config["max_cycles"] = 25
    model = MlpConfig.get_from_yaml()
    return Played(
        task=task,
        algorithm_config=algorithm_config_registry[algo].get_from_yaml(),
        model_config=model,
        critic_model_config=model,
        seed=seed,
        config=config,
    )


def main() -> None:
    args = arguments.parse(__doc__, 60_000, algo="mappo", episodes=100)
    torch.set_num_threads(1)
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        experiment = experiment_of(args.algo, args.seed, args.steps, folder)
        experiment.episodes = args.episodes
        experiment.run()
    found = {"mean_return": round(sum(experiment.returns) / args.episodes, 2)}
    print(json.dumps(found | {"seconds": round(experiment.trained_at - begun, 1)}))


main()
