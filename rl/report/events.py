"""TensorBoard event files, written record by record without TensorFlow's summary ops.

A `tf.summary.scalar` is an eager operation of a few hundred microseconds per metric. Writing the same
protocol buffer to a TFRecord file directly takes ten.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import socket
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import tensorflow as tf
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.histogram import metadata as histogram_metadata
from tensorboard.plugins.hparams import api as hparams_api
from tensorboard.util import tensor_util

from rl.errors import Unavailable
from rl.storage.files import fsync_path, patiently, reason, remove_quietly, set_aside

_NAME = re.compile(r"events\.out\.tfevents\.(\d+)\..*")
_FLUSH_SECONDS = 5.0  # a TensorBoard that looks on is at most this far behind
_BUCKETS = 30
_log = logging.getLogger("rl.logger")


class EventFile:
    """An event file in a run's folder; continues in a further file after a temporary write failure.

    Without `resume_step`, earlier event files (of a run whose checkpoints are gone, or that never wrote one)
    are renamed to `events.old`, which TensorBoard does not read. With it, TensorBoard is told to drop their
    events of later steps. Raises OSError or Unavailable where it cannot be written.
    """

    def __init__(self, directory: str | os.PathLike[str], resume_step: int | None = None):
        self._directory = Path(directory)
        self._forget = None if resume_step is None else resume_step + 1  # TensorBoard: what is from there on
        self._newest: list[Event] = []  # those of the last step, and all that may not be written yet
        if resume_step is None:
            patiently(self._set_aside)
        patiently(self._begin)

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Writes scalars under their names."""
        summary = Summary(
            value=[Summary.Value(tag=name, simple_value=value) for name, value in values.items()]
        )
        self._add(Event(summary=summary, step=step))

    def histogram(self, step: int, name: str, values: np.ndarray) -> None:
        """Writes the distribution of the finite ones among `values`, of any shape."""
        values = np.asarray(values, np.float64).ravel()
        values = values[np.isfinite(values)]
        low, high = (values.min(), values.max()) if values.size else (0.0, 0.0)
        counts, edges = np.histogram(values, bins=_BUCKETS, range=(low, high) if high > low else None)
        if high <= low:  # all equal: the histogram plugin wants buckets of no width, the last one filled
            counts = np.array([0] * (_BUCKETS - 1) + [values.size])
            edges = np.full(_BUCKETS + 1, low)
        tensor = tensor_util.make_tensor_proto(np.stack([edges[:-1], edges[1:], counts], axis=1), np.float64)
        metadata = histogram_metadata.create_summary_metadata(display_name=None, description=None)
        self._add(
            Event(
                summary=Summary(value=[Summary.Value(tag=name, metadata=metadata, tensor=tensor)]), step=step
            )
        )

    def animation(self, step: int, name: str, gif: bytes, height: int, width: int) -> None:
        """Writes a picture that moves: a GIF, among the images."""
        image = Summary.Image(height=height, width=width, colorspace=3, encoded_image_string=gif)
        self._add(Event(summary=Summary(value=[Summary.Value(tag=name, image=image)]), step=step))

    def hparams(self, values: Mapping[str, bool | int | float | str]) -> None:
        """Fills the HParams plugin with flat names and their values."""
        # No experiment record: TensorBoard would take one run's record for all runs of a folder, and show
        # only its names. Without a record it collects names, types and metrics from all runs.
        summary = hparams_api.hparams_pb(dict(values))
        self._add(Event(summary=Summary.FromString(summary.SerializeToString())))

    def graph(self, graph_def: bytes) -> None:
        """Writes the graph that TensorBoard draws: a serialised `GraphDef`."""
        self._add(Event(graph_def=graph_def))

    def flush(self) -> None:
        """Makes everything written so far durable."""
        self._sync()
        patiently(lambda: fsync_path(self.path))

    def close(self) -> None:
        """Flushes and closes."""
        self.flush()
        with contextlib.suppress(OSError, tf.errors.OpError):  # all is on the disk
            self._writer.close()

    def _earlier(self) -> list[re.Match[str]]:
        return [match for match in map(_NAME.fullmatch, sorted(os.listdir(self._directory))) if match]

    def _set_aside(self) -> None:
        for match in self._earlier():
            set_aside(self._directory / match[0], name="events")

    def _begin(self) -> None:
        """Begins a file that sorts after all others, and writes the events that these may lack."""
        self._is_there = False
        # TensorBoard reads files in the order of their names: ours must come last, whatever the clock says.
        number = max([int(time.time()), *(int(match[1]) + 1 for match in self._earlier())])
        name = f"events.out.tfevents.{number:010d}.{socket.gethostname()}.{os.getpid()}"
        self.path = self._directory / name
        events = [Event(file_version="brain.Event:2", wall_time=time.time())]
        if self._forget is not None:
            start = SessionLog(status=SessionLog.START)
            events.append(Event(session_log=start, step=self._forget, wall_time=time.time()))
        try:
            self._writer = tf.io.TFRecordWriter(str(self.path))
            for event in [*events, *self._newest]:
                self._writer.write(event.SerializeToString())
            self._writer.flush()
        except (OSError, tf.errors.OpError) as error:
            remove_quietly(self.path)
            raise self._failure(error) from error
        self._flushed, self._is_there = time.monotonic(), True

    def _begin_again(self, error: Exception) -> None:
        """Begins another file, since after a failure the content of this one is unknown. All events since the
        last flush go into the new one, and TensorBoard is told to drop those that it may have read."""
        _log.warning("%s: trying again", self._failure(error))
        with contextlib.suppress(OSError, tf.errors.OpError):
            self._writer.close()
        if self._newest:
            self._forget = self._newest[0].step
        patiently(self._begin)

    def _add(self, event: Event) -> None:
        event.wall_time = time.time()
        self._newest.append(event)
        if not self._is_there:  # none could be begun the last time
            patiently(self._begin)
            return
        try:
            self._writer.write(event.SerializeToString())
        except (OSError, tf.errors.OpError) as error:
            self._begin_again(error)
        if time.monotonic() - self._flushed > _FLUSH_SECONDS:
            self._sync()

    def _sync(self) -> None:
        try:
            if self._is_there:
                self._writer.flush()
            else:
                patiently(self._begin)
        except (OSError, tf.errors.OpError) as error:
            self._begin_again(error)
        self._flushed = time.monotonic()
        self._newest = [event for event in self._newest if event.step == self._newest[-1].step]

    def _failure(self, error: Exception) -> Unavailable:
        return Unavailable(f"cannot write {self.path}: {reason(error)}")
