"""What a run of RL^2 earns, pull by pull, on bandits it never had, and what simple strategies earn there.

    python benchmarks/trials.py RUN ...

RUN: the folder of a run on BernoulliBandits-v0 (`rl2_bandit`). Prints the mean reward of the first and of
the last quarter of the pulls and the return of the whole trial, each with a 95 % interval over trials, for
the last checkpoint of each run; and for uniformly random pulls, for the arm with the best mean so far, and
for Thompson sampling (Thompson 1933; an arm's probability is Beta(1, 1) at first), on as many trials.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import shared

from rl.imports import import_tensorflow

import_tensorflow()  # as the command line does, so that XLA computes as in train.py

import tensorflow as tf  # noqa: E402

from rl.envs.make import make_env  # noqa: E402
from rl.ops import random  # noqa: E402
from rl.saved_run import read_weights, saved_agent  # noqa: E402

TRIALS = 4_000

Strategy = Callable[[np.ndarray, np.ndarray, np.random.Generator], np.ndarray]


def of_run(run: Path, trials: int, seed: int) -> np.ndarray:
    """Returns the rewards [pulls, trials] that a run's last policy earns on its held-out bandits."""
    agent = saved_agent(run, eval_policy="sample")
    read_weights(agent, run, "last")
    hparams = agent.hparams
    env: Any = make_env(hparams.env, "graph", trials, hparams.env_kwargs, previous_action_reward=True)

    @tf.function(autograph=False)
    def step(state: Any, observation: Any, memory: Any, t: tf.Tensor) -> Any:
        act_seed, env_seed = random.split(random.fold_in(random.key(seed), t), 2)
        action, _, memory = agent.act(observation, memory, act_seed, tf.constant(0, tf.int64), False, True)
        state, following = env.step(state, action, env_seed)
        return state, following.observation, memory, following.reward

    state, first = env.reset(random.key(seed + 1))
    observation, memory, rewards = first.observation, agent.initial_state(trials), []
    for t in range(env.env.pulls):
        state, observation, memory, reward = step(state, observation, memory, tf.constant(t))
        rewards.append(reward.numpy())
    return np.array(rewards)


def of_strategy(choose: Strategy, options: dict[str, Any], trials: int, seed: int) -> np.ndarray:
    """Returns the rewards [pulls, trials] of a strategy, told wins and pulls of each arm, [trials, K]."""
    env: Any = make_env("BernoulliBandits-v0", "graph", trials, options)
    probability = env.draw(random.key(seed + 1)).numpy()
    generator, rows, rewards = np.random.default_rng(seed), np.arange(trials), []
    wins, pulls = np.zeros_like(probability), np.zeros_like(probability)
    for _ in range(env.pulls):
        arm = choose(wins, pulls, generator)
        reward = generator.random(trials) < probability[rows, arm]
        wins[rows, arm] += reward
        pulls[rows, arm] += 1
        rewards.append(reward.astype(float))
    return np.array(rewards)


STRATEGIES: dict[str, Strategy] = {
    "random": lambda wins, pulls, generator: generator.integers(wins.shape[1], size=len(wins)),
    "greedy": lambda wins, pulls, _: ((wins + 1) / (pulls + 2)).argmax(1),
    "Thompson": lambda wins, pulls, generator: generator.beta(wins + 1, pulls - wins + 1).argmax(1),
}


def line(name: str, rewards: np.ndarray) -> str:
    """Returns one line of the table; rewards [pulls, trials]."""
    quarter = len(rewards) // 4
    cells = []
    for each in (rewards[:quarter].mean(0), rewards[-quarter:].mean(0), rewards.sum(0)):
        cells.append(f"{each.mean():7.3f} +- {1.96 * each.std(ddof=1) / np.sqrt(len(each)):.3f}")
    return f"{name:32} {'  '.join(cells)}"


def main() -> None:
    parser = shared.parser(__doc__)
    parser.add_argument("runs", nargs="+", type=shared.run_folder, metavar="RUN")
    parser.add_argument("--trials", type=shared.integer(2), default=TRIALS)
    parser.add_argument("--seed", type=shared.integer(0), default=7, help="of bandits and draws")
    arguments = parser.parse_args()
    print(f"{'':32} first quarter      last quarter       return of the trial")
    for run in arguments.runs:
        print(line(f"{run.parent.name}/{run.name}", of_run(run, arguments.trials, arguments.seed)))
    options = json.loads((arguments.runs[0] / "hparams.json").read_text())
    options = options.get("hparams", options)["env_kwargs"]
    for name, choose in STRATEGIES.items():
        print(line(name, of_strategy(choose, options, arguments.trials, arguments.seed)))


if __name__ == "__main__":
    shared.answer(main)
