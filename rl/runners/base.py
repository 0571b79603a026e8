"""What every runner offers the trainer, and the shapes that they share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from rl.memory.samples import Samples
from rl.ops import loops, random
from rl.parallel.devices import Devices
from rl.runners.learner import Learner
from rl.types import Tensor, Trajectory

# Asked now and then with the iterations made so far by a call of `Runner.advance`: False ends that call.
GoOn = Callable[[int], bool]


class Runner:
    """Runs iterations: a rollout of `rollout_length` steps in `num_envs` environments, then learning.

    All its state is in `variables`, and that of the window under way in `unfinished`; with in-graph
    environments, restoring them continues the run bit for bit. `step` counts environment steps, autoreset
    steps included, so that it is known in advance.
    """

    backend = ""  # of the environments: "graph", "envpool" or "gym"
    starting = "compiling ..."  # what a person is told before the first iteration, which takes longer
    pack: loops.MetricPack  # names the metrics

    def __init__(self, learner: Learner, seed: int, devices: Devices | None = None):
        self.learner, self.devices = learner, Devices() if devices is None else devices
        self.seed, self.root_seed = seed, random.key(seed)
        self.iteration = tf.Variable(0, dtype=tf.int64, trainable=False, name="iteration")
        self.steps_per_iteration = learner.agent.steps_per_iteration
        self._totals = [np.zeros(loops.MAX_METRICS, np.float32)]  # sums of the window under way, by device
        self._names: tuple[str, ...] = ()  # of its metrics, where it was begun before a restart

    @property
    def variables(self) -> dict[str, Any]:
        """All state by name, for checkpoints."""
        return self.devices.named({"iteration": self.iteration, **self.learner.variables})

    def appended(self) -> dict[str, int]:
        """Variables that change nowhere but where rows are appended, by name, with the rows ever appended."""
        return self.devices.appended(self.learner.appended())

    @property
    def step(self) -> int:
        return int(self.iteration.numpy()) * self.steps_per_iteration

    def step_tensor(self) -> Tensor:
        """Environment steps before this iteration, int64 scalar."""
        return self.iteration * self.steps_per_iteration

    def advance(self, iterations: int, go_on: GoOn | None = None) -> int:
        """Makes `iterations` iterations, fewer where `go_on` says so; returns how many.

        However they are split over calls, in-graph runs are the same to the bit, and so are their sums.
        """
        raise NotImplementedError

    def sums(self) -> dict[str, float]:
        """Sums over the iterations since the window began (see `window_metrics`)."""
        names = self.pack.names or self._names
        total = joined_sums(self._totals, names)
        return {name: float(total[i]) for i, name in enumerate(names)}

    def begin_window(self) -> None:
        """Sets the sums to 0."""
        self._totals = [np.zeros_like(each) for each in self._totals]

    def run(self, iterations: int) -> dict[str, float]:
        """A window of its own: makes `iterations` iterations and returns their sums."""
        self.begin_window()
        self.advance(iterations)
        return self.sums()

    def unfinished(self) -> dict[str, Any]:
        """The sums of the window under way, for JSON: float32 values are kept to the bit."""
        names = self.pack.names or self._names
        return {"names": names, "sums": [each[: len(names)].tolist() for each in self._totals]}

    def resume_window(self, found: dict[str, Any]) -> None:
        """Goes on with what `unfinished` gave. With another number of devices they are lost."""
        if len(found["sums"]) == len(self._totals):
            self._names = tuple(found["names"])
            for total, values in zip(self._totals, found["sums"], strict=True):
                total[: len(values)] = values

    def learn(
        self, trajectory: Trajectory, metrics: dict[str, Tensor], worker: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Learning from a rollout that the host made (`worker`: which of several); adds to `metrics`."""
        noise_seed, learn_seed = self._seeds()
        metrics = metrics | self.learner.learn(trajectory, learn_seed, self.step_tensor(), worker)
        return self._next(metrics, noise_seed)

    def learn_sampled(self, samples: Samples) -> dict[str, Tensor]:
        """Learning from batches that were sampled in other processes."""
        noise_seed, learn_seed = self._seeds()
        metrics = self.learner.learn_sampled(samples, learn_seed, self.step_tensor())
        return self._next(metrics, noise_seed)

    def _seeds(self) -> tuple[Tensor, Tensor]:
        """Of the next iteration's noise, and of this one's learning."""
        noise_seed, learn_seed = random.split(random.fold_in(self.root_seed, self.iteration + 1), 2)
        return noise_seed, learn_seed  # the same for all learners, but for what each samples of its memory

    def _next(self, metrics: dict[str, Tensor], noise_seed: Tensor) -> dict[str, Tensor]:
        self.learner.agent.resample_noise(noise_seed)  # of the next rollout
        self.iteration.assign_add(1)
        return metrics

    def scalars(self) -> dict[str, float]:
        """What else is logged with every row, since the last one."""
        return {}

    def save(self, address: str) -> None:
        """Called after `variables` went into a checkpoint of the run at that address (mostly a folder): what
        is kept elsewhere follows."""

    def restored(self, address: str) -> None:
        """Called after a checkpoint of the run at that address has been read into `variables`."""

    def close(self) -> None:
        """Frees what the runner holds outside TensorFlow."""
        self.devices.close()


EPISODE_SUMS = ("episodes", "episode_return", "episode_length", "transitions")


def running_sums(
    reward: Tensor, alive: Tensor, start_return: Tensor, start_length: Tensor, counted: Tensor
) -> tuple[Tensor, Tensor]:
    """Return and length of the running episode after each step of a rollout, both [T, B] float32.

    reward, alive, counted [T, B]; start_return, start_length [B]: where the previous rollout ended. A step
    that is not alive starts both anew; a step counts `counted`.
    """
    length = reward.shape[0]
    array = tf.TensorArray(tf.float32, length, element_shape=reward.shape[1:])

    def body(t: Tensor, total: Tensor, count: Tensor, totals: Any, counts: Any) -> tuple:
        goes_on = tf.gather(alive, t)  # [B]
        total = total * goes_on + tf.gather(reward, t)
        count = count * goes_on + tf.gather(counted, t)
        return t + 1, total, count, totals.write(t, total), counts.write(t, count)

    start = (tf.constant(0), start_return, start_length, array, array)
    result = tf.while_loop(lambda t, *_: t < length, body, start, maximum_iterations=length)
    return result[3].stack(), result[4].stack()


def episode_sums(episode_return: Tensor, length: Tensor, ended: Tensor, mask: Tensor) -> dict[str, Tensor]:
    """Sums over a rollout's finished episodes. All [T, B]: return and length so far, ended, mask."""
    ended = tf.cast(ended, tf.float32)
    return {
        "episodes": tf.reduce_sum(ended),
        "episode_return": tf.reduce_sum(episode_return * ended),
        "episode_length": tf.reduce_sum(length * ended),
        "transitions": tf.reduce_sum(mask),
    }


def joined_sums(parts: list[np.ndarray], names: tuple[str, ...]) -> np.ndarray:
    """The packed sums of several devices, [N] each, as one: of episodes added, of updates, which all make
    together, averaged."""
    if len(parts) == 1:
        return parts[0]
    total = np.sum(parts, 0)
    of_updates = np.ones(len(total), bool)
    of_updates[[names.index(name) for name in EPISODE_SUMS]] = False
    return np.where(of_updates, total / len(parts), total)


def window_metrics(sums: dict[str, float]) -> dict[str, float]:
    """The row that is logged from the sums of a window of iterations; what has no data is left out."""
    rest = dict(sums)
    episodes, updates = rest.pop("episodes"), rest.pop("updates")
    total_return, total_length = rest.pop("episode_return"), rest.pop("episode_length")
    rest.pop("transitions")
    row: dict[str, float] = {"episode/count": episodes}
    if episodes:
        row |= {
            "episode/return_mean": total_return / episodes,
            "episode/length_mean": total_length / episodes,
        }
    if updates:
        row |= {f"train/{name}": total / updates for name, total in sorted(rest.items())}
    return row
