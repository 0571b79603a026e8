"""Films of every backend, opened again by another decoder, named by step and return, shown in TensorBoard."""

from __future__ import annotations

import importlib.util
import io
import itertools
import re
from types import SimpleNamespace

import imageio.v3 as iio
import numpy as np
import pytest
from PIL import Image
from small_runs import TINY
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import rl
from rl.agents.algos.registry import get_algo
from rl.cli import main
from rl.envs.host import fps_of
from rl.envs.make import make_eval_envs
from rl.hparams.merge import resolve
from rl.report.video import Preview, headless_setup
from rl.runners.player import Player

needs_mujoco = pytest.mark.skipif(
    importlib.util.find_spec("mujoco") is None, reason="the extra mujoco is missing"
)
STEPS = 20
SHORT = TINY | {"train_steps": 64, "eval_period": 32, "compile": "eager"}  # compiling takes longer
CASES = [  # environment, frame [H, W, 3], frames a second
    pytest.param("CartPole-v1", (400, 600, 3), 50.0, id="gym"),
    pytest.param("MinAtar/Breakout-v1", (320, 320, 3), 15.0, id="minatar"),
    pytest.param("Pong-v5", (210, 160, 3), 15.0, id="atari"),
    pytest.param("coinrun", (512, 512, 3), 15.0, id="procgen", marks=pytest.mark.slow),
    pytest.param("HalfCheetah-v5", (480, 480, 3), 20.0, id="mujoco", marks=needs_mujoco),
]


def agent_for(env_id, limit=None):
    if limit is None:  # Procgen takes none
        limit = {} if env_id == "coinrun" else {"max_episode_steps": STEPS}
    hparams = resolve("ppo", {"env": env_id, "env_kwargs": limit, "model": {"hidden": (4,)}})
    env = make_eval_envs(env_id, 1, limit)
    agent = get_algo("ppo")(hparams, env.observation_space, env.action_space, 0)
    env.close()
    return agent


@pytest.mark.parametrize(("env_id", "shape", "fps"), CASES)
def test_a_film_holds_every_frame_as_the_environment_draws_it(tmp_path, env_id, shape, fps):
    headless_setup()
    player = Player(agent_for(env_id), "rgb_array")
    film = player.film(3, tmp_path / "videos", "step_000000100")
    told = format(film.episode_return, ".3g" if abs(film.episode_return) < 10.0 else ".0f")
    assert film.path.name == f"step_000000100_return_{told}.mp4" and film.path.exists()
    frames = list(iio.imiter(film.path, plugin="FFMPEG"))
    assert len(frames) == film.length + 1 and {frame.shape for frame in frames} == {shape}
    assert all(frame.mean() > 5 and frame.std() > 5 for frame in frames), "not black, not blank"
    assert np.abs(frames[0].astype(int) - frames[-1]).max() > 40, "something moved"
    assert iio.immeta(film.path, plugin="FFMPEG")["fps"] == fps
    assert player.play(3)[:2] == film[:2]
    player.close()


def test_a_film_of_many_agents_is_of_one_environment_until_all_have_left(tmp_path):
    player = Player(agent_for("MultiCartPole-v0", {"agents": 3}), "rgb_array")
    film = player.film(3, tmp_path, "step_000000100")
    frames = list(iio.imiter(film.path, plugin="FFMPEG"))
    assert len(frames) == film.length + 1 and frames[0].shape == (192, 240, 3)
    assert film.length < film.episode_return <= 3 * film.length  # 1 for each step of each agent
    player.close()


def test_training_films_an_episode_at_each_evaluation_and_tensorboard_shows_it(tmp_path):
    run = rl.train("ppo_identity", output_dir=tmp_path, eval_episodes=2, record_video=True, **SHORT)
    names = sorted(path.name for path in (run.run_dir / "videos").iterdir())
    assert [re.sub(r"return_\d+", "return_N", name) for name in names] == [
        "step_000000032_return_N.mp4",
        "step_000000064_return_N.mp4",
    ]
    events = EventAccumulator(str(run.run_dir), size_guidance={"images": 0, "tensors": 0}).Reload()
    shown = events.Images("eval/episode")
    assert [each.step for each in shown] == [32, 64]
    with Image.open(io.BytesIO(shown[0].encoded_image_string)) as gif:
        assert (
            gif.format == "GIF" and 5 < gif.n_frames <= 21 and gif.size == (shown[0].width, shown[0].height)
        )


@pytest.mark.slow
def test_a_film_that_cannot_be_written_costs_a_warning_and_not_the_run(tmp_path, monkeypatch):
    def fails(*_):
        raise rl.UsageError("cannot write video: No space left on device")

    monkeypatch.setattr(Player, "film", fails)
    films = {"eval_episodes": 1, "record_video": True, "video_period": 16}
    run = rl.train("ppo_identity", output_dir=tmp_path, **films, **SHORT)
    text = (run.run_dir / "train.log").read_text()
    assert run.step == 64 and text.count("No space left on device; training goes on without films") == 1


def _fails(_):
    raise RuntimeError("no GL here")


@pytest.mark.parametrize(
    ("render", "words"),
    [
        (_fails, "Identity-v0 cannot be drawn here: no GL here"),
        (
            lambda _: np.zeros((8, 8, 4), np.uint8),
            r"drew uint8 \[8, 8, 4\]: a frame must be uint8 \[H, W, 3\]",
        ),
        (lambda _: np.asarray(None), "gave no frame"),
    ],
)
def test_what_cannot_be_drawn_is_said_before_training(tmp_path, monkeypatch, render, words):
    """At the first film, the results of a test that is over would be lost with it."""
    monkeypatch.setattr("rl.envs.gym_host.GymHost.render", render)
    with pytest.raises(rl.UsageError, match=words):
        rl.train("ppo_identity", output_dir=tmp_path, record_video=True, train_steps=256)
    assert not any(tmp_path.iterdir())


def test_what_cannot_be_drawn_later_is_one_line(tmp_path, monkeypatch):
    """Training then goes on without films."""
    drawn = itertools.count()

    def render(_):
        if next(drawn) > 2:  # the first one is drawn before the training
            raise RuntimeError("the window\nis gone")
        return np.zeros((8, 8, 3), np.uint8)

    monkeypatch.setattr("rl.envs.gym_host.GymHost.render", render)
    player = Player(agent_for("CartPole-v1"), "rgb_array")
    with pytest.raises(rl.UsageError, match="CartPole-v1 cannot be drawn here: the window is gone"):
        player.film(3, tmp_path, "step_000000100")
    player.close()
    assert not any(tmp_path.iterdir())


def test_a_film_that_fails_leaves_the_results_of_the_test(tmp_path, monkeypatch, capsys, caplog):
    rl.train("ppo_identity", output_dir=tmp_path, eval_episodes=1, **SHORT)
    filmed = []

    def fails(self, seed, folder, label, stopped):
        filmed.append(label)
        raise rl.UsageError("frame 6 is [34, 32, 3], the ones before it [32, 32, 3]")

    monkeypatch.setattr(Player, "film", fails)
    words = ["--training", "False", "--record_video", "True", "--test_episodes", "3"]
    assert main([*words, "--output_dir", str(tmp_path)]) == 0
    assert "return, best checkpoint" in capsys.readouterr().out and len(filmed) == 1
    assert caplog.text.count("before it [32, 32, 3]; 3 of 3 films are left out") == 1


def test_films_come_as_often_as_is_asked_for(tmp_path):
    films = {"eval_episodes": 1, "record_video": True, "video_period": 16, "eval_period": 64}
    run = rl.train("ppo_identity", output_dir=tmp_path, **SHORT | films)
    steps = sorted(int(path.name.split("_")[1]) for path in (run.run_dir / "videos").iterdir())
    assert steps == [16, 32, 48, 64]


@pytest.mark.parametrize(
    ("count", "kept"), [(3, [0, 1, 2]), (4, [0, 1, 2, 3]), (5, [0, 2, 4]), (18, [0, 8, 16])]
)
def test_a_preview_keeps_few_frames_evenly_apart(count, kept):
    preview = Preview(fps=10.0, frames=4, side=5)
    for i in range(count):
        preview.add(np.full((6, 9, 3), i, np.uint8))
    assert [int(frame[0, 0, 0]) for frame in preview.kept] == kept
    assert preview.kept[0].shape == (3, 5, 3)
    with Image.open(io.BytesIO(preview.gif())) as gif:
        assert gif.n_frames == len(kept) and gif.info["duration"] == 100 * (kept[1] - kept[0])


def test_the_preview_of_an_hour_in_which_nothing_moves_is_written():
    """GIF knows equal frames as one, which it shows for 655 s at most."""
    preview = Preview(fps=4.0, frames=4, side=5)
    for _ in range(4 * 3600):
        preview.add(np.zeros((6, 9, 3), np.uint8))
    with Image.open(io.BytesIO(preview.gif())) as gif:
        assert gif.n_frames == 1 and gif.info["duration"] <= 600_000


@pytest.mark.parametrize("said", [{"render_fps": "fast"}, {"render_fps": None}, {"render_fps": -4}, {}, None])
def test_an_environment_that_says_no_frames_a_second_has_thirty(said):
    assert fps_of(SimpleNamespace(metadata=said)) == 30.0
