"""Learning from data larger than memory: one chunk is in memory while the next one is read.

Chunks consist of whole episodes, chosen at random by the run's seed. Each pass over the data has a new random
order of chunks. A chunk stays for as many updates as sample each of its transitions once, on average; the
compiled function does not know of chunks. An iteration's number determines its chunk, so a run resumes bit
for bit.
"""

from __future__ import annotations

import hashlib
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from rl.data.dataset import Dataset, check_values
from rl.data.pieces import Pieces
from rl.envs.of_data import telling
from rl.errors import UsageError
from rl.hparams.hparams import HParams
from rl.memory.dataset import Columns, DatasetChunk
from rl.ops import random
from rl.runners.base import GoOn
from rl.runners.from_data import Fingerprint, fingerprint, scaled
from rl.runners.iteration import Iteration
from rl.runners.offline import OfflineRunner, agent_for, check_offline, observe_data
from rl.runners.parts import memory_spec, start_mode

GROUPS, ORDER = 1, 2  # what random numbers are for, beside those of iterations


class Chunks:
    """Reads the chunks of a run's data.

    Args:
        hparams: of the run.
        seed: of which episodes are together, and of the order of the chunks.

    Raises:
        UsageError: there are no data, or they hold numbers that are none.
    """

    def __init__(self, hparams: HParams, seed: int):
        self.hparams, self.pieces = hparams, Pieces(hparams.data)
        self._key = random.fold_in(random.key(seed), -1)
        together = random.permutation(random.fold_in(self._key, GROUPS), len(self.pieces.lengths))
        self.pieces.group(np.array(together), hparams.data_chunk)
        self.steps = self.pieces.steps  # of each chunk
        self._returns: tuple[float, float] = (0.0, 0.0)
        if hparams.return_span is not None:
            returns = [self.pieces.read(i).returns for i in range(len(self.steps))]
            self._returns = float(min(map(np.min, returns))), float(max(map(np.max, returns)))

    def read(self, i: int) -> Dataset:
        """Returns a chunk, its observations and rewards as the hparams say."""
        return scaled(self.hparams, telling(self.hparams, self.pieces.read(i)), *self._returns)

    def order(self, number: int) -> np.ndarray:
        """Returns the chunks in the order in which a pass has them, [G]; from 0."""
        seed = random.fold_in(random.fold_in(self._key, ORDER), number)
        return np.array(random.permutation(seed, len(self.steps)))


class ChunkedRunner(OfflineRunner):
    """Learns from chunks of a data set.

    Args:
        iteration: agent, and a memory that holds a chunk at a time.
        jit_compile: whether XLA compiles the loop.
        chunks: what is read.
    """

    memory: DatasetChunk

    def __init__(self, iteration: Iteration, jit_compile: bool, chunks: Chunks):
        super().__init__(iteration, jit_compile)
        self._chunks = chunks
        sampled = iteration.steps_per_iteration * self.memory.batch_size  # transitions of an iteration
        self._lasts = -(-chunks.steps // sampled)  # iterations that each chunk lasts
        self._held, self._next = -1, -1  # chunks: in memory, and being read
        self._reading: Future[tuple[Columns, int]] | None = None
        self._thread = ThreadPoolExecutor(1, "data")

    def advance(self, iterations: int, go_on: GoOn | None = None) -> int:
        made, stopped = 0, False

        def ask(count: int) -> bool:
            nonlocal stopped
            stopped = go_on is not None and not go_on(made + count)
            return not stopped

        while made < iterations and not stopped:
            count = min(self._prepare(), iterations - made)
            made += super().advance(count, None if go_on is None else ask)
        return made

    def place(self, number: int) -> tuple[int, int, int]:
        """Returns (chunk, iterations that it is good for from here, the chunk after it) of an iteration."""
        number_of_pass, within = divmod(number, int(self._lasts.sum()))
        order = self._chunks.order(number_of_pass)
        ends = np.cumsum(self._lasts[order])
        at = int(np.searchsorted(ends, within, side="right"))
        following = order[at + 1] if at + 1 < len(order) else self._chunks.order(number_of_pass + 1)[0]
        return int(order[at]), int(ends[at]) - within, int(following)

    def _prepare(self) -> int:
        """Puts the chunk of the next iteration into memory, and begins to read the one after it; returns how
        many iterations it is good for."""
        chunk, left, following = self.place(self.made)
        if chunk != self._held:
            if self._reading is None or self._next != chunk:
                self._read(chunk)
            assert self._reading is not None
            self.memory.fill(*self._reading.result())
            self._held, self._reading = chunk, None
        if following != self._held and self._reading is None:
            self._read(following)
        return left

    def _read(self, chunk: int) -> None:
        def columns() -> tuple[Columns, int]:
            data = self._chunks.read(chunk)
            return self.memory.columns(data), len(data.reward)

        self._next, self._reading = chunk, self._thread.submit(columns)

    def close(self) -> None:
        """Frees what the runner holds outside TensorFlow."""
        self._thread.shutdown(cancel_futures=True)
        self._chunks.pieces.close()
        super().close()


def build_chunked(hparams: HParams, seed: int, workers: Any = None, strategy: Any = None) -> ChunkedRunner:
    """Builds agent, memory and runner for data that are read in chunks. They are read through once, to check
    them and for what is normalised by them.

    Raises:
        UsageError: there are no data, they do not fit the algorithm, or something is asked for that plays, or
            needs them as a whole.
    """
    check_offline(hparams, workers, strategy)
    if hparams.estimate:
        raise UsageError("hparam estimate=true needs all data at once: leave data_chunk out")
    chunks = Chunks(hparams, seed)
    first = chunks.read(0)
    agent = agent_for(hparams, first, seed)
    if agent.experience != "transition":
        raise UsageError(
            f"hparam data_chunk={hparams.data_chunk}: {hparams.algo} learns from {agent.experience}s here, "
            "which need the data as a whole: leave it out"
        )
    spec = memory_spec(agent, 1, 1, 1)._replace(data=first)
    room = int(chunks.steps.max()), int(chunks.pieces.observations.max())
    iteration = Iteration(agent, DatasetChunk(spec, hparams, *room), seed, in_graph=True)
    digest = hashlib.sha256()
    for i in range(len(chunks.steps)):
        data = chunks.read(i)
        check_values(data, hparams.data)
        observe_data(iteration, data)
        digest.update(fingerprint(data).to_bytes(8, "little", signed=True))
    runner = ChunkedRunner(iteration, start_mode(agent, in_graph=False) == "xla", chunks)
    number = int.from_bytes(digest.digest()[:8], "little", signed=True)
    runner.fingerprint = Fingerprint(number, hparams.data)
    return runner
