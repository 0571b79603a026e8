"""Videos play, hold every frame, and appear only when they are complete."""

from __future__ import annotations

import os

import imageio.v3 as iio
import imageio_ffmpeg
import numpy as np
import pytest

from rl.errors import UsageError
from rl.report.video import VideoWriter, has_display, headless_setup


def _frames(count, height, width):
    """A bright square that moves over a grey picture."""
    frames = np.full((count, height, width, 3), 90, np.uint8)
    for i in range(count):
        frames[i, 4:20, 2 * i : 2 * i + 16] = (250, 30, 30)
    return frames


@pytest.mark.parametrize(("height", "width"), [(64, 96), (63, 95), (400, 600)])
def test_a_video_reads_back(tmp_path, height, width):
    path = tmp_path / "videos" / "episode.mp4"
    frames = _frames(25, height, width)
    with VideoWriter(path, fps=30) as video:
        for frame in frames:
            video.add(frame)
            assert not path.exists()
    assert video.frames == 25
    assert os.listdir(path.parent) == ["episode.mp4"]
    read = iio.imread(path)
    assert read.shape == (25, height + height % 2, width + width % 2, 3)
    error = np.abs(read[:, :height, :width].astype(int) - frames)
    assert error.mean() < 6 and read[:, :height, :width].mean() > 60
    assert np.abs(read[0].astype(int) - read[-1]).max() > 100, "the square moved"


def test_browsers_can_play_it(tmp_path):
    path = tmp_path / "a.mp4"
    with VideoWriter(path, fps=50) as video:
        for frame in _frames(10, 65, 65):
            video.add(frame)
    meta = next(imageio_ffmpeg.read_frames(str(path)))
    assert meta["codec"] == "h264" and meta["pix_fmt"].startswith("yuv420p")
    assert meta["fps"] == 50 and meta["duration"] == pytest.approx(0.2)
    content = path.read_bytes()
    assert content.index(b"moov") < content.index(b"mdat"), "the index comes first: it starts while it loads"


def test_one_frame_and_a_picture_turned_by_slicing(tmp_path):
    with VideoWriter(tmp_path / "a.mp4", fps=0.5) as video:
        video.add(_frames(1, 32, 48)[0][:, ::-1])
    assert iio.imread(tmp_path / "a.mp4").shape == (1, 32, 48, 3)


def test_nothing_is_left_after_an_exception_or_without_frames(tmp_path):
    with pytest.raises(RuntimeError, match="env"), VideoWriter(tmp_path / "a.mp4") as video:
        video.add(_frames(1, 32, 32)[0])
        raise RuntimeError("env")
    with VideoWriter(tmp_path / "b.mp4"):
        pass
    assert os.listdir(tmp_path) == []


def test_an_earlier_video_is_replaced_only_by_a_whole_one(tmp_path):
    path = tmp_path / "a.mp4"
    path.write_bytes(b"earlier")
    with pytest.raises(RuntimeError), VideoWriter(path) as video:
        video.add(_frames(1, 32, 32)[0])
        raise RuntimeError
    assert path.read_bytes() == b"earlier"
    with VideoWriter(path) as video:
        video.add(_frames(1, 32, 32)[0])
    assert path.read_bytes() != b"earlier"


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (None, "render_mode='rgb_array'"),
        (np.zeros((8, 8, 3), np.float32), "float32"),
        (np.zeros((8, 8), np.uint8), r"\[8, 8\]"),
        (np.zeros((8, 8, 4), np.uint8), r"\[8, 8, 4\]"),
        (np.zeros((0, 8, 3), np.uint8), r"\[0, 8, 3\]"),
        (np.zeros((34, 32, 3), np.uint8), r"frame 1 is \[34, 32, 3\], the ones before it \[32, 32, 3\]"),
    ],
)
def test_frames_are_checked(tmp_path, frame, message):
    with pytest.raises(UsageError, match=message), VideoWriter(tmp_path / "a.mp4") as video:
        video.add(_frames(1, 32, 32)[0])
        video.add(frame)
    assert os.listdir(tmp_path) == []


def test_impossible_videos_are_usage_errors(tmp_path):
    with pytest.raises(UsageError, match=r"\.mp4"):
        VideoWriter(tmp_path / "a.avi")
    with pytest.raises(UsageError, match="per second"):
        VideoWriter(tmp_path / "a.mp4", fps=0)
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot write video"), VideoWriter(tmp_path / "file" / "a.mp4"):
        pass


def test_a_full_disk_is_one_clear_error(small_disk):
    (small_disk / "ballast").write_bytes(b"x" * ((1 << 20) - 20_000))
    noise = np.random.default_rng(0).integers(0, 256, (30, 128, 128, 3), np.uint8)
    refused = pytest.raises(UsageError, match=r"cannot write video .*a\.mp4")
    with refused as caught, VideoWriter(small_disk / "a.mp4") as video:
        for frame in noise:
            video.add(frame)
    assert "\n" not in str(caught.value)
    assert os.listdir(small_disk) == ["ballast"]


def test_headless_setup(monkeypatch):
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER", "SDL_AUDIODRIVER", "MUJOCO_GL"):
        monkeypatch.setenv(name, "")  # so that monkeypatch takes back what is set below
        monkeypatch.delenv(name)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("MUJOCO_GL", "osmesa")
    assert not has_display() and headless_setup()
    assert os.environ["SDL_VIDEODRIVER"] == "dummy" and os.environ["MUJOCO_GL"] == "osmesa"
    monkeypatch.delenv("MUJOCO_GL")
    headless_setup()
    assert os.environ["MUJOCO_GL"] == "egl"
    monkeypatch.delenv("SDL_VIDEODRIVER")
    monkeypatch.setenv("DISPLAY", ":0")
    assert has_display() and not headless_setup()
    assert "SDL_VIDEODRIVER" not in os.environ
