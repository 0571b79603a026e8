"""Videos of episodes, and rendering on machines without a display."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import imageio.v3 as iio
import imageio_ffmpeg
import numpy as np

from rl.errors import Unavailable, UsageError
from rl.storage.files import failure, patiently, reason, remove_quietly


def has_display() -> bool:
    """Says whether a window can be opened: on Linux, whether an X or Wayland display is named."""
    if sys.platform in ("darwin", "win32"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def headless_setup() -> bool:
    """Has SDL and MuJoCo draw in memory where there is no display; returns whether that was needed.

    Call it before pygame or mujoco is imported: they read these variables then. What the person has set
    is left alone.
    """
    if has_display():
        return False
    for name, value in (("SDL_VIDEODRIVER", "dummy"), ("SDL_AUDIODRIVER", "dummy"), ("MUJOCO_GL", "egl")):
        os.environ.setdefault(name, value)
    return True


def checked_frame(frame: Any) -> np.ndarray:
    """Returns what an environment drew. Raises UsageError for what no video can be made of: anything but
    uint8 [H, W, 3]."""
    drawn = np.asarray(frame)
    if drawn.dtype == object and drawn.ndim == 0 and drawn.item() is None:
        raise UsageError("the environment gave no frame: make it with render_mode='rgb_array'")
    if drawn.dtype != np.uint8 or drawn.ndim != 3 or drawn.shape[2] != 3 or 0 in drawn.shape:
        raise UsageError(
            f"the environment drew {drawn.dtype} {list(drawn.shape)}: a frame must be uint8 [H, W, 3]"
        )
    return drawn


_LONGEST = 600_000  # milliseconds: GIF has 16 bits of hundredths of a second for a frame


class Preview:
    """A film's frames, few and small: an animated GIF, which TensorBoard shows.

    It keeps at most `frames` frames of a film of any length: when there are that many, every second one is
    dropped, and from then on half as many are taken.

    Args:
        fps: of the film.
        frames: the most that are kept, even.
        side: pixels of the longer side at most; more are left out, row by row and column by column.
    """

    def __init__(self, fps: float, frames: int = 120, side: int = 200):
        self._fps, self._most, self._side = fps, frames, side
        self._every, self._seen = 1, 0
        self.kept: list[np.ndarray] = []  # uint8 [h, w, 3]

    def add(self, frame: np.ndarray) -> None:
        """Takes the film's next frame, uint8 [H, W, 3]."""
        if self._seen % self._every == 0:
            if len(self.kept) == self._most:
                self.kept, self._every = self.kept[::2], 2 * self._every
            if self._seen % self._every == 0:
                stride = -(-max(frame.shape[:2]) // self._side)
                self.kept.append(np.array(frame[::stride, ::stride]))
        self._seen += 1

    def gif(self) -> bytes:
        """Returns the frames as a GIF that plays as fast as the film, again and again; one of more than ten
        minutes is played in ten."""
        milliseconds = max(round(1000 * self._every / self._fps), 20)  # browsers slow shorter ones down
        milliseconds = min(milliseconds, _LONGEST // len(self.kept))  # equal frames are written as one
        return iio.imwrite("<bytes>", self.kept, extension=".gif", duration=milliseconds, loop=0)


class VideoWriter:
    """Context manager that writes frames to an mp4 that browsers play (H.264, yuv420p).

    The file appears under its name (`path`, which may change until then) when it is complete: not after an
    exception, not without frames. Sides of odd length get a black line, which yuv420p needs. Raises
    UsageError when ffmpeg or the disk fails (Unavailable where that may pass), and for frames that are not
    uint8 [H, W, 3] of one size.
    """

    def __init__(self, path: str | os.PathLike[str], fps: float = 30.0):
        self.path = Path(path)
        if self.path.suffix != ".mp4":
            raise UsageError(f"a video's name must end in .mp4, not {self.path.name}")
        if not fps > 0:
            raise UsageError(f"a video's frames per second must be more than 0, not {fps}")
        self.frames = 0
        self._fps = fps
        # A dot in front keeps galleries from showing it; the same name each time: a crash leaves one at most.
        self._temporary = self.path.with_name(f".tmp-{self.path.name}")
        self._shape: tuple[int, ...] | None = None
        self._ffmpeg: Generator[None, Any, None] | None = None

    def __enter__(self) -> VideoWriter:
        try:
            patiently(lambda: self.path.parent.mkdir(parents=True, exist_ok=True))
        except OSError as error:
            raise self._failure(error) from error
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self._finish(check=kind is None)
            if kind is None and self.frames:
                patiently(lambda: os.replace(self._temporary, self.path))
        except OSError as error:
            if kind is None:
                raise self._failure(error) from error
        finally:
            remove_quietly(self._temporary)

    def add(self, frame: np.ndarray) -> None:
        """Appends one frame, uint8 [H, W, 3], all of one size."""
        frame = checked_frame(frame)
        if self._shape is None:
            self._shape = frame.shape
        if frame.shape != self._shape:
            raise UsageError(
                f"frame {self.frames} is {list(frame.shape)}, the ones before it {list(self._shape)}"
            )
        height, width = frame.shape[:2]
        if height % 2 or width % 2:
            frame = np.pad(frame, ((0, height % 2), (0, width % 2), (0, 0)))
        try:
            if self._ffmpeg is None:
                self._ffmpeg = self._start(frame.shape[1], frame.shape[0])
            self._ffmpeg.send(np.ascontiguousarray(frame))
        except OSError as error:
            raise self._failure(error) from error
        self.frames += 1

    def _start(self, width: int, height: int) -> Generator[None, Any, None]:
        writer: Generator[None, Any, None] = imageio_ffmpeg.write_frames(
            str(self._temporary),
            (width, height),
            fps=self._fps,
            codec="libx264",
            pix_fmt_out="yuv420p",
            macro_block_size=1,  # the sides are even already; more would rescale the picture
            quality=7,
            ffmpeg_log_level="error",
            output_params=["-movflags", "+faststart"],  # a browser can start before it has all
        )
        writer.send(None)
        return writer

    def _finish(self, check: bool) -> None:
        if self._ffmpeg is None:
            return
        ffmpeg, self._ffmpeg = self._ffmpeg, None
        ffmpeg.close()
        if check:
            # ffmpeg's exit status is not available: read the film back, which fails after a full disk.
            try:
                arrived, _ = imageio_ffmpeg.count_frames_and_secs(str(self._temporary))
            except RuntimeError as error:
                raise OSError("ffmpeg did not finish it; is the disk full?") from error
            if arrived != self.frames:
                raise OSError(f"{arrived} of {self.frames} frames arrived; is the disk full?")

    def _failure(self, error: OSError) -> UsageError:
        text = f"cannot write video {self.path}: {reason(error)[:300]}"
        return Unavailable(text) if error.errno is None else failure(text, error)  # None: ffmpeg's own
