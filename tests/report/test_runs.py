"""What a run's folder says, read from Python."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from rl.api import Run
from rl.errors import UsageError
from rl.report.runs import films, read_saved, versions


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A run that was trained in the folder that was the current one then, and is not any more."""
    folder = tmp_path / "out/run_0"
    folder.mkdir(parents=True)
    (folder / "hparams.json").write_text(json.dumps({"name": "ppo_identity", "seed": 0, "hparams": {}}))
    (folder / "metrics.csv").write_text("step,train/loss\n16,0.5\n32,0.25\n")
    monkeypatch.chdir(folder.parent)
    made = Run(SimpleNamespace(step=32, best_return=None), Path("run_0"))
    monkeypatch.chdir("/")
    return made


def test_metrics_are_read_wherever_the_program_goes(run, tmp_path):
    assert run.run_dir == tmp_path / "out/run_0"
    assert run.metrics()["train/loss"].tolist() == [0.5, 0.25]


def test_metrics_that_cannot_be_read_are_one_line(run):
    (run.run_dir / "metrics.csv").unlink()
    (run.run_dir / "metrics.csv").mkdir()
    with pytest.raises(UsageError, match=r"^cannot read .*out/run_0/metrics\.csv: Is a directory$"):
        run.metrics()


def test_metrics_of_a_run_that_was_moved_are_one_line_and_not_empty(run, tmp_path):
    run.run_dir.rename(tmp_path / "moved")
    with pytest.raises(UsageError, match=r"^there is no run in .*out/run_0 any more: was it moved\?$"):
        run.metrics()


@pytest.mark.parametrize(
    "change",
    [
        {"user_modules": 5},
        {"user_modules": [5]},
        {"difference_from_default": {"lr": 1}},
        {"difference_from_default": [1]},
        {"hparams": {"algo": ["a"]}},
        {"hparams": 3},
        {"seed": "0"},
    ],
)
def test_a_run_of_other_contents_is_none(tmp_path, change):
    sound = {"name": "x", "seed": 0, "hparams": {"algo": "ppo"}, "difference_from_default": {"lr": [1, 2]}}
    (tmp_path / "hparams.json").write_text(json.dumps(sound))
    assert read_saved(tmp_path) == sound
    (tmp_path / "hparams.json").write_text(json.dumps(sound | change))
    with pytest.raises(UsageError, match="is none of a run's: was it edited"):
        read_saved(tmp_path)


def test_json_that_is_nested_too_deep_is_one_line(tmp_path):
    (tmp_path / "hparams.json").write_text("[" * 200_000)
    with pytest.raises(UsageError, match="nested too deep"):
        read_saved(tmp_path)
    (tmp_path / "versions.json").write_text("[" * 200_000)
    assert versions(tmp_path) == {}


def test_films_are_the_whole_ones_of_the_run_itself(tmp_path):
    videos = tmp_path / "run/videos"
    videos.mkdir(parents=True)
    for time, name in enumerate(("b.mp4", "a.mp4", ".tmp-step_9.mp4")):
        (videos / name).write_bytes(b"film")
        os.utime(videos / name, (time, time))
    (tmp_path / "secret").write_text("mine")
    (videos / "z.mp4").symlink_to(tmp_path / "secret")
    (videos / "gone.mp4").symlink_to(tmp_path / "nowhere")
    assert films(tmp_path / "run") == [videos / "b.mp4", videos / "a.mp4"]
    assert films(tmp_path) == []
