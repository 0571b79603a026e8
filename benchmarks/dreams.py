"""What World Models' controller, trained in dreams alone, comes to beside one trained outside.

    python train.py --hparams world_models_cartpole --output_dir RUNS --copies 3
    python benchmarks/dreams.py RUNS/run_0 RUNS/run_1 RUNS/run_2

Of each run V and M are kept as they are at its end. Its controller is evaluated; then it is set to zero and
trained by the same evolution (population, deviation, learning rate falling to 0), which rates the members by
whole episodes of the in-graph environment itself, at the same features, and is evaluated again, by the same
episodes. Prints a line for each run, and how many steps outside that took.
"""

from __future__ import annotations

import contextlib
from typing import Any

import shared

from rl.imports import import_tensorflow

import_tensorflow()  # as the command line does, so that XLA computes as in train.py

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

import rl  # noqa: E402
from rl.agents.algos.world_models import WorldModels, features, shaped  # noqa: E402
from rl.agents.population import Members  # noqa: E402
from rl.envs.registry import get_env  # noqa: E402
from rl.ops import evolution, random  # noqa: E402
from rl.runners.evaluate import Evaluator  # noqa: E402


class Outside:
    """Evolution of an agent's controller by what its members play.

    Args:
        agent: whose V and M stay as they are.
        episodes: of each member in a generation, played at the same time.
        length: steps that they are played for.
    """

    def __init__(self, agent: WorldModels, episodes: int, length: int):
        self.agent, self.length = agent, length
        self.shape = [agent.hparams.population, episodes]  # P, E
        hparams = agent.hparams
        self.env = get_env(hparams.env)(int(np.prod(self.shape)), **hparams.env_kwargs)
        signature = [tf.TensorSpec([2], tf.int32)]
        self.generation = tf.function(self._generation, signature, autograph=False, jit_compile=True)

    def _generation(self, seed: tf.Tensor) -> tf.Tensor:
        """Makes one step of evolution; returns the members' scores [P]."""
        agent = self.agent
        directions, play = random.split(seed, 2)
        agent.population.resample(directions)
        score = tf.reduce_mean(tf.reshape(self._played(play), self.shape), 1)
        members = Members(score, tf.convert_to_tensor(agent.population.noise))
        variables = agent.controller.trainable_variables
        agent.evolve(shaped, members, variables, agent.optimizers["controller"])
        return score

    def _played(self, seed: tf.Tensor) -> tf.Tensor:
        """Scores [P E] of the environments, each of which begins anew."""
        agent, count, length = self.agent, self.env.num_envs, self.length
        start, first = self.env.reset(random.fold_in(seed, length))
        types = (tf.float32, tf.bool, tf.float32)
        arrays = tuple(tf.TensorArray(each, length, element_shape=[count]) for each in types)

        def body(t: Any, env: Any, seen: Any, ended: Any, state: Any, arrays: Any) -> tuple[Any, ...]:
            moves, sees = random.split(random.fold_in(seed, t), 2)
            state = agent.policy(seen, state, sees, True).recurrent_state
            parts = tf.reshape(features(state), [*self.shape, -1])
            action = tf.argmax(tf.reshape(agent.population(parts), [count, -1]), -1, output_type=tf.int32)
            alive = 1.0 - tf.cast(ended, tf.float32)
            state = tf.nest.map_structure(lambda x: x * alive[:, None], agent.carried(state, action))
            env, after = self.env.step(env, tf.cast(action, self.env.action_space.dtype), moves)
            over = after.terminated | after.truncated
            rows = (after.reward, over, alive)
            arrays = tuple(array.write(t, x) for array, x in zip(arrays, rows, strict=True))
            return t + 1, env, after.observation, over, state, arrays

        never = tf.zeros([count], tf.bool)
        loop = (tf.constant(0), start, first.observation, never, agent.network.start(count), arrays)
        arrays = tf.while_loop(lambda t, *_: t < length, body, loop, maximum_iterations=length)[-1]
        return evolution.episode_scores(*(array.stack() for array in arrays))


def main() -> int:
    parser, count = shared.parser(__doc__), shared.integer(1)
    parser.add_argument("runs", nargs="+", type=shared.run_folder, metavar="RUN_DIR")
    parser.add_argument("--generations", type=count, default=60)
    parser.add_argument("--member_episodes", type=count, default=2, help="of each member in a generation")
    parser.add_argument("--length", type=count, default=500, help="steps that they are played for")
    parser.add_argument("--episodes", type=count, default=100, help="of each evaluation")
    parser.add_argument("--seed", type=shared.integer(0), default=0, help="of evolution outside")
    args = parser.parse_args()
    for run_dir in args.runs:
        agent = rl.load(run_dir, "last").agent
        if not isinstance(agent, WorldModels):
            raise shared.UsageError(f"{run_dir} holds {agent.hparams.algo}, not world_models")
        dreamt = evaluated(agent, args.episodes)
        for each in agent.controller.trainable_variables:
            each.assign(tf.zeros_like(each))
        outside = Outside(agent, args.member_episodes, args.length)
        optimizer = agent.optimizers["controller"]
        for i in range(args.generations):
            optimizer.learning_rate.assign(agent.hparams.controller_lr * (1.0 - i / args.generations))
            score = outside.generation(random.fold_in(random.key(args.seed), i))
            if (i + 1) % 50 == 0:
                print(f"  generation {i + 1}: {float(tf.reduce_mean(score)):.1f}", flush=True)
        found = evaluated(agent, args.episodes)
        steps = args.generations * outside.env.num_envs * args.length
        print(
            f"{run_dir}: in dreams {dreamt:.1f}, outside {found:.1f} ({steps:,} steps), {dreamt / found:.2f}"
        )
    return 0


def evaluated(agent: WorldModels, episodes: int) -> float:
    """Returns the mean return of the policy over so many episodes on Gymnasium."""
    with contextlib.closing(Evaluator(agent, episodes)) as evaluator:
        return float(evaluator.run(0).returns.mean())


if __name__ == "__main__":
    shared.answer(main)
