"""Metrics files hold what the run said, survive a kill, and do not show that a run was resumed."""

from __future__ import annotations

import contextlib
import itertools
import os

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf
from tensorboard.backend.event_processing.data_provider import MultiplexerDataProvider
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.plugin_event_multiplexer import (
    EventMultiplexer as PluginEventMultiplexer,
)
from tensorboard.context import RequestContext
from tensorboard.plugins.base_plugin import TBContext
from tensorboard.plugins.hparams import api_pb2, get_experiment, list_session_groups
from tensorboard.plugins.hparams.backend_context import Context

from rl.errors import Unavailable, UsageError
from rl.report import events
from rl.report.logger import Logger
from rl.storage import files


def _metrics(step):
    """What a deterministic run says at a step: new metrics come up later, some only now and then."""
    rng = np.random.default_rng(step)
    metrics = {"train/loss": rng.random(dtype=np.float32), "train/updates": np.int64(step * 3)}
    metrics["perf/steps_per_second"] = float(rng.random()) * 1e5
    if step >= 40:
        metrics["episode/return"] = float(rng.normal())
    if step % 30 == 0:
        metrics["eval/return_mean"] = tf.constant(rng.normal(), tf.float32)
        metrics["a/first_in_the_alphabet"] = rng.normal()
    return metrics


def _run(folder, start, stop, resume_step=None, checkpoint=20):
    logger = Logger(folder, resume_step=resume_step)
    for step in range(start, stop, 10):
        logger.log(step, _metrics(step))
        if step % checkpoint == 0:
            logger.flush()
    return logger  # not closed: the process is killed


def _events(folder):
    accumulator = EventAccumulator(str(folder), size_guidance={"scalars": 0, "tensors": 0})
    accumulator.Reload()
    return accumulator


def test_rows_hold_what_was_logged(tmp_path):
    with Logger(tmp_path) as logger:
        logger.log(1, {"train/loss": 0.1, "train/count": 16777217, "train/done": np.bool_(True)})
        logger.log(2, {"train/loss": np.float64(1e-7), "episode/return": None})
        logger.log(2, {"eval/return_mean": tf.constant(475.0), "perf/fps": 12.5})
        logger.log(3, {"perf/fps": 13})
        logger.log(4, {"train/loss": None})
    assert (tmp_path / "metrics.csv").read_text() == (
        "step,train/count,train/done,train/loss,eval/return_mean\n1,16777217,1,0.1,\n2,,,1e-07,\n2,,,,475.0\n"
    )
    assert (tmp_path / "perf.csv").read_text() == "step,perf/fps\n2,12.5\n3,13\n"


def test_a_table_gets_new_columns_whatever_characters_its_names_have(tmp_path):
    names = [f"train/a{end}b" for end in "\x0b\x0c\x85\u2028"]
    with Logger(tmp_path) as logger:
        for step in range(3):
            logger.log(step, dict.fromkeys(names[: step + 2], step))
    text = (tmp_path / "metrics.csv").read_bytes().decode()
    assert text == f"step,{','.join(names)}\n0,0,0,,\n1,1,1,1,\n2,2,2,2,2\n"


def test_floats_read_back_to_the_same_bits(tmp_path):
    bits = np.random.default_rng(0).integers(0, 1 << 32, 2000, np.uint32).view(np.float32)
    values = np.append(bits[np.isfinite(bits)], np.float32([0.0, -0.0, 1e-45, 3.4028235e38]))
    with Logger(tmp_path) as logger:
        for step, value in enumerate(values):
            logger.log(step, {"x": value})
    lines = (tmp_path / "metrics.csv").read_text().splitlines()[1:]
    read = np.float32([line.split(",")[1] for line in lines])
    assert read.tobytes() == values.tobytes()


def test_a_row_is_in_the_file_when_log_returns(tmp_path):
    logger = Logger(tmp_path)
    for step in range(3):
        logger.log(step, {"x": step})
        assert (tmp_path / "metrics.csv").read_text().splitlines()[-1] == f"{step},{step}"


@pytest.mark.parametrize("killed_at", range(10, 120, 10))
def test_a_resumed_run_has_the_bytes_of_an_uninterrupted_one(tmp_path, killed_at):
    _run(tmp_path / "whole", 10, 120).close()
    _run(tmp_path / "killed", 10, killed_at + 10)
    resume_step = killed_at // 20 * 20 or None  # of the last checkpoint
    _run(tmp_path / "killed", (resume_step or 0) + 10, 120, resume_step).close()
    for name in ("metrics.csv", "perf.csv"):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name
    whole, killed = _events(tmp_path / "whole"), _events(tmp_path / "killed")
    assert set(whole.Tags()["scalars"]) == set(killed.Tags()["scalars"]) == set(_metrics(60))
    for tag in whole.Tags()["scalars"]:
        assert [(each.step, each.value) for each in whole.Scalars(tag)] == [
            (each.step, each.value) for each in killed.Scalars(tag)
        ], tag


def test_the_file_at_resume_is_that_of_the_checkpoint(tmp_path):
    _run(tmp_path, 10, 25).close()
    before = (tmp_path / "metrics.csv").read_bytes()
    _run(tmp_path, 30, 70, resume_step=20).close()
    assert (tmp_path / "metrics.csv").read_bytes() != before
    Logger(tmp_path, resume_step=20).close()
    assert (tmp_path / "metrics.csv").read_bytes() == before


@pytest.mark.parametrize("tail", ["5", "50,1.", "50,1.5,2,3\n", "x,1.0,2\n", "\0\0\0"])
def test_a_torn_last_line_is_repaired(tmp_path, caplog, tail):
    _run(tmp_path, 10, 30).close()
    path = tmp_path / "metrics.csv"
    whole = path.read_bytes()
    path.write_bytes(whole + tail.encode())
    Logger(tmp_path, resume_step=100).close()
    assert path.read_bytes() == whole
    assert ["damaged line" in each.getMessage() for each in caplog.records] == [True]


@pytest.mark.parametrize(
    ("before", "after", "kept"),
    [
        (b"step,", b"stop,", []),
        (b"train/loss", b"train/\xff\xfe", []),
        (b"train/loss", b"train/updates", []),  # a name twice
        (b"train/loss", b"train/loss,more", []),
        (b"\n20,", b"\n20\xff,", ["10"]),
        (b"\n20,0.", b"\n20,\xff.", ["10"]),
        (b"\n20,", b"\n\xe2\x80,20,", ["10"]),
        (b"\n", b"\r\n", []),  # saved by another program
        (None, b"", []),
    ],
)
def test_a_damaged_table_goes_on_from_the_rows_before_and_loses_no_byte(
    tmp_path, caplog, before, after, kept
):
    _run(tmp_path, 10, 40).close()
    path = tmp_path / "metrics.csv"
    spoilt = b"" if before is None else path.read_bytes().replace(before, after)
    path.write_bytes(spoilt)
    with Logger(tmp_path, resume_step=30) as logger:
        logger.log(40, _metrics(40))
    assert [line.split(",")[0] for line in path.read_text().splitlines()] == ["step", *kept, "40"]
    assert (tmp_path / "metrics.csv.old").read_bytes() == spoilt
    (line,) = caplog.messages
    assert "metrics.csv is damaged" in line and "kept as metrics.csv.old" in line


@pytest.mark.parametrize("resume_step", [None, 30])
def test_a_folder_in_a_tables_place_is_set_aside(tmp_path, caplog, resume_step):
    (tmp_path / "metrics.csv" / "inside").mkdir(parents=True)
    with Logger(tmp_path, resume_step=resume_step) as logger:
        logger.log(40, {"x": 1})
    assert (tmp_path / "metrics.csv").read_text() == "step,x\n40,1\n"
    assert (tmp_path / "metrics.csv.old" / "inside").is_dir() and len(caplog.messages) == 1


def test_a_torn_event_record_does_not_hide_what_follows(tmp_path):
    _run(tmp_path, 10, 50).close()
    (events,) = tmp_path.glob("events.out.tfevents.*")
    events.write_bytes(events.read_bytes()[:-7])
    _run(tmp_path, 50, 70, resume_step=40).close()
    assert [each.step for each in _events(tmp_path).Scalars("train/loss")] == [10, 20, 30, 50, 60]


def test_a_fresh_start_begins_anew(tmp_path):
    _run(tmp_path, 10, 90).close()
    earlier = (tmp_path / "metrics.csv").read_bytes()
    _run(tmp_path, 10, 30).close()
    assert (tmp_path / "metrics.csv.old").read_bytes() == earlier
    assert len((tmp_path / "metrics.csv").read_text().splitlines()) == 3
    assert [each.step for each in _events(tmp_path).Scalars("train/loss")] == [10, 20]
    assert len(list(tmp_path.glob("events.out.*"))) == 1


def test_event_files_are_read_in_the_order_they_were_written(tmp_path):
    for i in range(4):  # within one second, which is all that TensorBoard's own names tell apart
        _run(tmp_path, i * 10 + 10, i * 10 + 20, resume_step=i * 10 or None).close()
    assert [each.step for each in _events(tmp_path).Scalars("train/loss")] == [10, 20, 30, 40]


def test_events_of_a_run_without_checkpoints_are_kept_where_tensorboard_does_not_read_them(tmp_path, caplog):
    for step in (10, 20, 30):
        _run(tmp_path, step, step + 10).close()
    kept = [tmp_path / "events.old", tmp_path / "events.old2"]
    assert [[each.step for each in tf.compat.v1.train.summary_iterator(str(path))][-1] for path in kept] == [
        10,
        20,
    ]
    assert [each.step for each in _events(tmp_path).Scalars("train/loss")] == [30]
    assert "is kept as events.old2" in caplog.text


@pytest.mark.parametrize("name", ["write", "flush"])
@pytest.mark.parametrize("at", range(1, 8, 2))
def test_events_that_could_not_be_written_go_into_another_file(tmp_path, monkeypatch, name, at):
    _run(tmp_path / "undisturbed", 10, 60).close()
    monkeypatch.setattr(files, "PAUSES", (0.0, 0.0))
    calls = itertools.count(1)

    class Failing(tf.io.TFRecordWriter):
        """Fails once, half-way."""

    def failing(self, *words):
        if next(calls) == at:
            tf.io.TFRecordWriter.close(self)
            raise tf.errors.ResourceExhaustedError(None, None, "no space")
        return getattr(super(Failing, self), name)(*words)

    setattr(Failing, name, failing)
    monkeypatch.setattr(events.tf.io, "TFRecordWriter", Failing)
    _run(tmp_path / "failing", 10, 60).close()
    monkeypatch.undo()
    one, other = _events(tmp_path / "undisturbed"), _events(tmp_path / "failing")
    for tag in one.Tags()["scalars"]:
        assert [each.step for each in one.Scalars(tag)] == [each.step for each in other.Scalars(tag)]


def test_events_for_which_there_is_no_room_at_all_are_written_once_there_is(small_disk, monkeypatch):
    monkeypatch.setattr(files, "PAUSES", (0.0, 0.0))
    monkeypatch.setattr(events, "_FLUSH_SECONDS", 1e9)
    file, ballast = events.EventFile(small_disk), small_disk / "ballast"
    with pytest.raises(OSError, match="No space left"):
        ballast.write_bytes(bytes(1 << 21))
    for step in range(100):
        with contextlib.suppress(Unavailable):  # once what is gathered until then is to be written
            file.scalars(step, {f"number_{i}": 1.0 for i in range(10)})
    for _ in range(2):  # as a run does that ends for it
        with pytest.raises(Unavailable, match="No space left"):
            file.flush()
    ballast.unlink()
    file.scalars(100, {"number_0": 1.0})
    file.close()
    shown = EventAccumulator(str(small_disk), size_guidance={"scalars": 0}).Reload()
    assert [each.step for each in shown.Scalars("number_0")] == list(range(101))


def test_values_that_are_not_finite_are_written_and_warned_of_once(tmp_path, caplog):
    with Logger(tmp_path) as logger:
        for step in range(3):
            logger.log(
                step, {"train/loss": np.nan, "train/norm": -np.inf, "train/big": 1e300, "train/ok": 1.0}
            )
    assert (tmp_path / "metrics.csv").read_text().splitlines()[1] == "0,inf,nan,-inf,1.0"
    messages = [each.getMessage() for each in caplog.records]
    assert len(messages) == 3
    assert any("train/loss is nan at step 0" in each for each in messages)
    assert not any("train/ok" in each for each in messages)


def test_misuse_is_refused(tmp_path):
    with Logger(tmp_path) as logger:
        logger.log(5, {"x": 1})
        with pytest.raises(ValueError, match="step 4 was logged after step 5"):
            logger.log(4, {"x": 1})
        with pytest.raises(ValueError, match="shape"):
            logger.log(6, {"x": np.zeros(2)})
        with pytest.raises(ValueError, match="cannot be named"):
            logger.log(6, {"a,b": 1})
        with pytest.raises(ValueError, match="cannot be named 'step': that is the first column"):
            logger.log(6, {"step": 6})  # a resumed run would take the table for a damaged one
    with pytest.raises(UsageError, match="not a regular expression"):
        Logger(tmp_path / "other", histograms="(")
    assert not (tmp_path / "other").exists()


def test_histograms_of_the_chosen_variables(tmp_path, caplog):
    values = np.linspace(-1, 1, 3000, dtype=np.float32)
    variables = {
        "policy/kernel": tf.Variable(values),
        "policy/zeros": tf.Variable(tf.zeros([2, 5], tf.bfloat16)),
        "policy/broken": tf.Variable([1.0, np.nan, 3.0, np.inf]),
        "replay": tf.Variable([1.0]),
    }
    with Logger(tmp_path, histograms="^policy") as logger:
        logger.log_histograms(7, variables)
        logger.log_histograms(8, variables)
        logger.log_histograms(8, {"numpy": np.ones(3, ml_dtypes.bfloat16)})
    found = _events(tmp_path)
    names = ["policy/kernel", "policy/zeros", "policy/broken"]
    assert sorted(found.Tags()["tensors"]) == sorted(f"variables/{name}" for name in names)
    tensors = {name: found.Tensors(f"variables/{name}") for name in names}
    assert [each.step for each in tensors["policy/kernel"]] == [7, 8]
    buckets = {name: tf.make_ndarray(each[0].tensor_proto) for name, each in tensors.items()}
    np.testing.assert_allclose(buckets["policy/kernel"][:, 2], 100)
    np.testing.assert_allclose(buckets["policy/kernel"][[0, -1], [0, 1]], [-1, 1])
    assert buckets["policy/zeros"][:, 2].tolist() == [0] * 29 + [10]
    assert buckets["policy/broken"][:, 2].sum() == 2 and buckets["policy/broken"][-1, 1] == 3
    messages = [each.getMessage() for each in caplog.records]
    assert len(messages) == 2
    assert "policy/broken has values that are not finite" in messages[0] and "finds none" in messages[1]


def test_without_a_pattern_no_histogram_is_written(tmp_path):
    with Logger(tmp_path, histograms="") as logger:
        logger.log_histograms(1, {"policy": tf.Variable(1.0)})
    assert _events(tmp_path).Tags()["tensors"] == []


def _hparams_tab(folder):
    """What TensorBoard's own HParams plugin answers of a folder: its experiment, its groups of runs."""
    multiplexer = PluginEventMultiplexer()
    multiplexer.AddRunsFromDirectory(str(folder))
    multiplexer.Reload()
    provider = MultiplexerDataProvider(multiplexer, str(folder))
    context = Context(TBContext(data_provider=provider, logdir=str(folder)))
    here = RequestContext()
    request = api_pb2.GetExperimentRequest()
    groups = api_pb2.ListSessionGroupsRequest(slice_size=9, allowed_statuses=api_pb2.Status.values())
    return (
        get_experiment.Handler(here, context, "", request).run(),
        list_session_groups.Handler(here, context, "", groups).run().session_groups,
    )


def test_tensorboard_shows_the_hparams_of_all_runs_of_a_folder(tmp_path):
    runs = {
        "dqn/run_0": {"lr": 3e-4, "double": True, "clip": None, "seed": 0},
        "dqn/run_1": {"lr": 3e-4, "double": True, "clip": None, "seed": 1},
        "ppo/run_0": {"lr": 1e-3, "model": {"hidden": [64, 64], "name": "mlp"}, "clip": 0.5, "seed": 0},
    }
    for i, (name, hparams) in enumerate(runs.items()):
        with Logger(tmp_path / name) as logger:
            logger.log_hparams(hparams)
            logger.log(10, {"eval/return_mean": 475.0 + i})
    experiment, groups = _hparams_tab(tmp_path)
    types = {each.name: api_pb2.DataType.Name(each.type) for each in experiment.hparam_infos}
    assert types == {
        "lr": "DATA_TYPE_FLOAT64",
        "double": "DATA_TYPE_BOOL",
        "clip": "DATA_TYPE_STRING",  # text in one, a number in the other
        "model.hidden": "DATA_TYPE_STRING",
        "model.name": "DATA_TYPE_STRING",
        "seed": "DATA_TYPE_FLOAT64",
    }
    assert [each.name.tag for each in experiment.metric_infos] == ["eval/return_mean"]
    shown = {group.sessions[0].name: group for group in groups}
    assert set(shown) == set(runs)  # copies, which differ by their seeds, are not taken for one
    assert shown["dqn/run_1"].hparams["seed"].number_value == 1
    assert shown["dqn/run_1"].hparams["clip"].string_value == "null"
    assert shown["ppo/run_0"].hparams["model.hidden"].string_value == "[64, 64]"
    assert shown["ppo/run_0"].metric_values[0].value == 477.0


def test_the_graph_of_a_function_is_written(tmp_path):
    variable = tf.Variable(tf.ones([3]))

    @tf.function(jit_compile=True, autograph=False)
    def iteration(x):
        return tf.tanh(tf.while_loop(lambda i, _: i < 3, lambda i, y: (i + 1, y * variable), [0, x])[1])

    with Logger(tmp_path) as logger:
        logger.log_graph(iteration.get_concrete_function(tf.ones([3])))
    assert "Tanh" in {node.op for node in _events(tmp_path).Graph().node}


def test_a_full_disk_is_one_clear_error_and_leaves_whole_rows(small_disk):
    (small_disk / "ballast").write_bytes(b"x" * ((1 << 20) - 100_000))
    logger = Logger(small_disk)
    with pytest.raises(UsageError, match="No space left on device") as caught:
        for step in range(100_000):
            logger.log(step, {"train/loss": step / 7})
    assert "\n" not in str(caught.value)
    assert (small_disk / "metrics.csv").read_text().endswith("\n")
    last = int((small_disk / "metrics.csv").read_text().splitlines()[-1].split(",")[0])
    os.unlink(small_disk / "ballast")
    with Logger(small_disk, resume_step=last // 2) as logger:
        logger.log(last, {"train/loss": 1.0})
    assert (
        (small_disk / "metrics.csv")
        .read_text()
        .endswith(f"\n{last // 2},{np.float32(last // 2 / 7)!s}\n{last},1.0\n")
    )
