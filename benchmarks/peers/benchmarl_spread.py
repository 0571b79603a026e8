"""BenchMARL's MAPPO on PettingZoo's simple_spread with discrete actions: its defaults, episodes of 25 steps.

10 environments one after another in this process, 6,000 steps a rollout, 45 epochs of minibatches of 400.
Evaluations are off, since ours makes none here.
"""

from __future__ import annotations

import importlib.metadata
import tempfile

import arguments
from benchmarl.algorithms import MappoConfig
from benchmarl.environments import PettingZooTask
from benchmarl.experiment import Callback, Experiment, ExperimentConfig
from benchmarl.models.mlp import MlpConfig
from meter import Meter

WARMUP = 5_000  # environment steps: all but the first rollout and what is learned from it count


class Marks(Callback):
    """Marks the meter when a rollout was learned from."""

    def __init__(self, meter: Meter):
        super().__init__()
        self.meter, self.steps, self.updates, self.returns = meter, 0, 0, []

    def on_batch_collected(self, batch) -> None:
        self.steps += batch.numel()
        done = batch.get(("next", "agent", "episode_reward"))[batch.get(("next", "done")).squeeze(-1)]
        self.returns = done.sum(-2).flatten().tolist()  # the team's

    def on_train_step(self, batch, group):
        self.updates += 1

    def on_train_end(self, training_td, group: str) -> None:
        self.meter.mark(self.steps, self.updates)


def main() -> None:
    args = arguments.parse(__doc__, 18_000)
    meter = Meter("benchmarl", importlib.metadata.version("benchmarl"), "mappo_spread", WARMUP)
    config = ExperimentConfig.get_from_yaml()
    config.max_n_frames, config.loggers, config.create_json = args.steps, [], False
    config.evaluation, config.prefer_continuous_actions = False, False
    folder = tempfile.TemporaryDirectory()
    config.save_folder = folder.name
    task = PettingZooTask.SIMPLE_SPREAD.get_from_yaml()
    task.config["max_cycles"] = 25
    model, marks = MlpConfig.get_from_yaml(), Marks(meter)
    experiment = Experiment(
        task=task,
        algorithm_config=MappoConfig.get_from_yaml(),
        model_config=model,
        critic_model_config=model,
        seed=args.seed,
        config=config,
        callbacks=[marks],
    )
    meter.start()
    experiment.run()
    meter.report(sum(marks.returns) / len(marks.returns) if marks.returns else None)


main()
