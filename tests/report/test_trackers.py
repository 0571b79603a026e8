"""Trackers: what they are told, that a resumed run goes on there, that a broken one costs a warning."""

from __future__ import annotations

import csv
import importlib.util
import json
import threading

import numpy as np
import pytest
from small_runs import TINY
from stand_ins import stand_in

import rl
from rl.cli import main
from rl.report import tracking
from rl.report.logger import Logger

WANDB = '''
"""A stand-in: keeps what it is told in the file that WANDB_CALLS names."""
import json, os

def told(*call):
    with open(os.environ["WANDB_CALLS"], "a") as file:
        file.write(json.dumps(call) + "\\n")

def Settings(**options):
    return options

class Config:
    def update(self, values, **_):
        told("hparams", values)

class Run:
    config = Config()

    def __init__(self, run_id):
        self.id = run_id or "new-id"

    def log(self, values, step):
        if os.environ.get("WANDB_BROKEN"):
            raise ConnectionError("no\\nnetwork")
        told("row", step, values)

    def finish(self):
        told("finish")

def init(project, name, dir, id, resume, settings):
    told("init", project, name, id, resume)
    return Run(id)
'''


@pytest.fixture
def calls(tmp_path, monkeypatch):
    """Puts the stand-in in wandb's place; called, it gives what that was told since the last time."""
    monkeypatch.setenv("WANDB_CALLS", str(tmp_path / "calls"))
    monkeypatch.setenv("WANDB_PROJECT", "mine")

    def since():
        lines = (tmp_path / "calls").read_text().splitlines()
        (tmp_path / "calls").write_text("")
        return [json.loads(line) for line in lines]

    with stand_in(monkeypatch, tmp_path, "wandb", WANDB):
        yield since


@pytest.mark.slow
def test_a_tracker_gets_the_rows_and_a_resumed_run_goes_on_there(tmp_path, calls):
    options = {**TINY, "eval_episodes": 1, "output_dir": tmp_path / "out", "track": "wandb"}
    run = rl.train("ppo_identity", train_steps=32, **options)
    first, hparams, *rows, last = calls()
    assert first == ["init", "mine", str(tmp_path / "out/run_0"), None, None] and last == ["finish"]
    assert hparams[0] == "hparams" and hparams[1]["env"] == "Identity-v0" and hparams[1]["seed"] == 0
    with (run.run_dir / "metrics.csv").open(newline="") as file:
        written = {int(row.pop("step")): row for row in csv.DictReader(file)}
    assert [step for _, step, _ in rows] == list(written) == [16, 32]
    for _, step, values in rows:
        cells = {name: np.float32(cell) for name, cell in written[step].items() if cell}
        assert cells.items() <= {name: np.float32(value) for name, value in values.items()}.items()
        assert "perf/steps_per_second" in values
    rl.train("ppo_identity", train_steps=48, **options)
    first, *rows, last = calls()
    assert first[3:] == ["new-id", "allow"] and last == ["finish"]
    assert [call[:2] for call in rows] == [["row", 48]], "nothing is told twice"


def test_rows_that_a_killed_run_has_sent_are_not_sent_again(tmp_path, calls):
    with Logger(tmp_path / "run_0", track="wandb") as logger:
        for step in (1, 2, 3):
            logger.log(step, {"x": step})
    with Logger(tmp_path / "run_0", resume_step=1, track="wandb") as logger:
        for step in (2, 3, 4):
            logger.log(step, {"x": step})
    assert [call[1] for call in calls() if call[0] == "row"] == [1, 2, 3, 4]
    (tmp_path / "run_0" / tracking.FILE).write_text("[1]")
    with Logger(tmp_path / "run_0", resume_step=4, track="wandb") as logger:
        logger.log(5, {"x": 5})
    assert [call[3] for call in calls() if call[0] == "init"] == [None]


def test_a_tracker_that_comes_to_a_resumed_run_gets_its_hparams_once(tmp_path, calls):
    with Logger(tmp_path / "run_0") as logger:
        logger.log_hparams({"lr": 0.5})
        logger.log(1, {"x": 1})
    for step in (2, 3):
        with Logger(tmp_path / "run_0", resume_step=step - 1, track="wandb") as logger:
            logger.log_hparams({"lr": 0.5})
            logger.log(step, {"x": step})
    assert [call[:2] for call in calls()[1:]] == [
        ["hparams", {"lr": 0.5}],
        ["row", 2],
        ["finish"],
        ["init", "mine"],
        ["row", 3],
        ["finish"],
    ]


def test_a_tracker_that_cannot_begin_at_once_is_tried_again(tmp_path, calls, monkeypatch, caplog):
    begin, tried = tracking.TRACKERS["wandb"], []

    def second_time(*arguments):
        tried.append(arguments)
        if len(tried) == 1:
            raise OSError("table experiments already exists")
        return begin(*arguments)

    monkeypatch.setitem(tracking.TRACKERS, "wandb", second_time)
    monkeypatch.setattr(tracking, "PAUSES", (0.0,))
    with Logger(tmp_path / "run_0", track="wandb") as logger:
        logger.log(1, {"x": 1})
    assert len(tried) == 2 and not caplog.messages
    assert [call[0] for call in calls()] == ["init", "row", "finish"]


def test_a_tracker_that_fails_costs_one_warning(tmp_path, calls, monkeypatch, caplog):
    monkeypatch.setenv("WANDB_BROKEN", "1")
    with Logger(tmp_path / "run_0", track="wandb") as logger:
        logger.log(1, {"x": 1})
        logger.log(2, {"x": 2})
    assert (tmp_path / "run_0/metrics.csv").read_text() == "step,x\n1,1\n2,2\n"
    (said,) = caplog.messages
    assert said == "--track wandb: ConnectionError: no network: nothing more is sent there; the run goes on"


def test_a_tracker_that_hangs_is_not_waited_for(tmp_path, monkeypatch, caplog):
    let_go = threading.Event()
    monkeypatch.setitem(tracking.TRACKERS, "wandb", lambda *_: let_go.wait(60))
    monkeypatch.setattr(tracking, "PATIENCE", 0.1)
    with Logger(tmp_path / "run_0", track="wandb") as logger:
        logger.log(1, {"x": 1})
    let_go.set()
    assert "it did not take everything within" in caplog.messages[0]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("wandv", "--track wandv: did you mean wandb?"),
        ("mlflow", "is not installed: ./setup.sh uv pip install mlflow"),
    ],
)
def test_a_tracker_that_is_not_there_is_one_line_and_writes_nothing(
    name, said, tmp_path, monkeypatch, capsys
):
    find = importlib.util.find_spec  # which registries, too, look by
    found = lambda wanted, *rest: None if wanted in tracking.TRACKERS else find(wanted, *rest)  # noqa: E731
    monkeypatch.setattr("rl.report.trackers.importlib.util.find_spec", found)
    assert main(["--hparams", "ppo_identity", "--track", name, "--output_dir", str(tmp_path / "x")]) == 2
    err = capsys.readouterr().err
    assert said in err and err.startswith("error: ") and err.count("\n") == 1
    assert main(["--track", name, "--training", "False", "--output_dir", str(tmp_path / "x")]) == 2
    assert "leave it out of a test" in capsys.readouterr().err
    with pytest.raises(rl.UsageError, match="track"):
        rl.train("ppo_identity", track=name, output_dir=tmp_path / "x")
    assert not list(tmp_path.iterdir())


def two_runs(folder, name, monkeypatch):
    """A run that begins, and goes on after it was killed."""
    monkeypatch.setattr(tracking, "PATIENCE", 300.0)
    for resume_step, steps in ((None, (1, 2)), (2, (3,))):
        with Logger(folder / "run_0", resume_step=resume_step, track=name) as logger:
            if resume_step is None:
                logger.log_hparams({"lr": 0.5, "model": {"hidden": [3, 4]}})
            for step in steps:
                logger.log(step, {"train/loss": step, "eval/return_mean": float("nan")})
    return json.loads((folder / "run_0" / tracking.FILE).read_text())[name]


@pytest.mark.skipif(importlib.util.find_spec("mlflow") is None, reason="mlflow is not installed")
def test_mlflow_has_the_run(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/store.db")
    kept = two_runs(tmp_path, "mlflow", monkeypatch)
    assert "--track" not in caplog.text and kept["step"] == 3
    from mlflow import MlflowClient

    client = MlflowClient()
    run = client.get_run(kept["id"])
    assert run.info.status == "FINISHED" and run.data.params == {"lr": "0.5", "model.hidden": "[3, 4]"}
    history = client.get_metric_history(kept["id"], "train/loss")
    assert [(each.step, each.value) for each in history] == [(1, 1.0), (2, 2.0), (3, 3.0)]


@pytest.mark.skipif(importlib.util.find_spec("wandb") is None, reason="wandb is not installed")
def test_wandb_has_the_run(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("WANDB_MODE", "offline")
    kept = two_runs(tmp_path, "wandb", monkeypatch)
    assert "--track" not in caplog.text and kept["step"] == 3
    files = list((tmp_path / "run_0/wandb").glob(f"offline-run-*/run-{kept['id']}.wandb"))
    assert len(files) == 2, "of each time that it ran, of one run"


@pytest.mark.skipif(importlib.util.find_spec("trackio") is None, reason="trackio is not installed")
def test_trackio_has_the_run(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "store"))
    kept = two_runs(tmp_path, "trackio", monkeypatch)
    assert "--track" not in caplog.text and kept["step"] == 3
