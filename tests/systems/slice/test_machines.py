"""Machines of a TPU slice as real processes on this one, with processors in place of TPU cores."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from rl.errors import AGAIN

SCRIPT = Path(__file__).parents[2] / "tpu_slice.py"
SECONDS = 60.0  # in which all processes must be gone once a machine is lost: two, where nothing else runs


@pytest.fixture
def slice_of(tmp_path):
    """Starts machines: `slice_of(2, "forever")` returns their processes, `only=[0]` starts some."""
    started, mark = [], uuid.uuid4().hex
    with socket.socket() as found:
        found.bind(("", 0))
        control = found.getsockname()[1]

    def start(count, *words, only=None, **variables):
        place = {
            "TPU_WORKER_HOSTNAMES": ",".join(["127.0.0.1"] * count),
            "RL_TPU_PORTS": f"0,{control}",
            "TPU_SLICE_OF_TEST": mark,
            "TF_CPP_MIN_LOG_LEVEL": "3",
            "PYTHONPATH": str(SCRIPT.parents[1]),
        }
        for index in range(count) if only is None else only:
            environment = os.environ | place | {"TPU_WORKER_ID": str(index)} | variables
            command = [sys.executable, str(SCRIPT), *map(str, words)]
            pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
            started.append(subprocess.Popen(command, env=environment, **pipes))
        return started

    def left():
        """Processes that any of the machines has started and that live."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (folder / "environ").read_text(errors="replace"):
                    found.append(int(folder.name))
            except OSError:
                continue
        return found

    start.left = left
    yield start
    for pid in left():
        os.kill(pid, signal.SIGKILL)
    for process in started:
        process.communicate()


def ended(process, seconds=180):
    out, err = process.communicate(timeout=seconds)
    return process.returncode, out, err


def lines_until(line, process):
    """What the process has printed before that line."""
    lines = []
    for read in process.stdout:
        if read.strip() == line:
            return lines
        lines.append(read.strip())
    raise AssertionError(f"{line!r} never came; exit code {process.wait()}\n{process.stderr.read()[-2000:]}")


def assert_computed(lines, count):
    """Checks what the program says of a slice of `count` machines."""
    here, *there, added = lines
    local = "/job:localhost/replica:0/task:0/device:CPU:0"
    assert here == f"here {local} {local}", "what names no device stays in the program's process"
    assert there == [f"there /job:worker/replica:0/task:{i}/device:CPU:0 42.0" for i in range(count)]
    assert added == "added [21.0, 21.0]"


def none_left(slice_of):
    deadline = time.monotonic() + SECONDS
    while slice_of.left() and time.monotonic() < deadline:
        time.sleep(0.1)
    return slice_of.left() == []


@pytest.mark.slow
@pytest.mark.parametrize("code", [0, 2])
def test_the_exit_code_of_the_program_is_all_machines(slice_of, code):
    first, *others = slice_of(3 if code else 2, "functions", code)
    returned, out, err = ended(first)
    assert returned == code, err
    assert_computed(out.splitlines(), len(others) + 1)
    assert [ended(other)[:2] for other in others] == [(code, "")] * len(others)
    assert none_left(slice_of)


@pytest.mark.slow
def test_servers_ask_the_program_by_its_name_but_not_for_what_spans_the_cores(slice_of):
    first, other = slice_of(2, "unreachable")
    code, out, err = ended(first)
    assert code == 0, err
    assert out.splitlines() == [
        "whole [1.0, 2.0] /job:worker/replica:0/task:1/device:CPU:0",
        "from here True",
    ]
    assert ended(other)[0] == 0


@pytest.mark.slow
def test_others_end_and_leave_nothing_when_the_first_machine_is_killed(slice_of):
    first, other = slice_of(2, "forever")
    lines_until("begun", first)
    assert len(slice_of.left()) == 5  # a keeper and a server each, and the program
    first.kill()
    code, _, err = ended(other, SECONDS)
    assert code == AGAIN and err.splitlines()[-1] == "error: machine 0 (127.0.0.1) of the TPU slice is lost"
    assert none_left(slice_of)


@pytest.mark.slow
@pytest.mark.parametrize("what", ["machine", "server"])
def test_the_program_and_all_machines_end_when_another_is_lost(slice_of, what):
    first, other, lost = slice_of(3, "forever")
    lines_until("begun", first)
    if what == "machine":
        lost.kill()
    else:
        (server,) = (
            int(pid) for pid in Path(f"/proc/{lost.pid}/task/{lost.pid}/children").read_text().split()
        )
        os.kill(server, signal.SIGKILL)
        assert ended(lost, SECONDS)[0] == AGAIN
    code, out, err = ended(first, SECONDS)
    assert code == AGAIN and "saved" not in out
    assert err.splitlines()[-1] == "error: machine 2 (127.0.0.1) of the TPU slice is lost"
    assert ended(other, SECONDS)[0] == AGAIN
    assert none_left(slice_of)


@pytest.mark.slow
@pytest.mark.parametrize(
    "count, asked",
    [(2, 1), (3, 0), (3, 1)],
)
def test_the_program_computes_on_every_machine_and_saves_where_any_is_asked_to_stop(slice_of, count, asked):
    first, *others = slice_of(count, "forever")
    assert_computed(lines_until("begun", first), count)
    [first, *others][asked].send_signal(signal.SIGTERM)
    code, out, err = ended(first)
    assert (code, out) == (143, "saved\n"), err
    for other in others:
        code, out, err = ended(other)
        assert (code, out) == (143, "") and "its TPU cores serve machine 0 (127.0.0.1)" in err
    assert none_left(slice_of)


@pytest.mark.slow
@pytest.mark.parametrize("index, missing", [(0, 1), (1, 0)])
def test_a_machine_that_never_comes_is_one_clear_line_after_the_time_limit(slice_of, index, missing):
    (alone,) = slice_of(2, "forever", only=[index], WAIT="2")
    code, out, err = ended(alone)
    assert (code, out) == (AGAIN, "")
    assert (
        err.startswith(f"error: not there after 2 s: machine {missing} (127.0.0.1)") and err.count("\n") == 1
    )
    assert none_left(slice_of)


@pytest.mark.slow
def test_the_command_trains_on_another_machine_as_on_this_one(slice_of, command, tmp_path):
    def flags(name, steps, seed=3):
        settings = "compile=graph,eval_period=2048,checkpoint_period=0"
        words = ["--hparams", "ppo_cartpole", "--hparam_override", settings, "--train_steps", steps]
        words += ["--eval_episodes", 2, "--test_episodes", 2, "--seed", seed]
        return [*words, "--output_dir", tmp_path / name]

    for steps in (2048, 4096):
        first, other = slice_of(2, "train", "--sys", "tpu", *flags("far", steps))[-2:]
        code, _, err = ended(first)
        assert code == 0, err
        assert ended(other)[0] == 0
        assert command(*flags("near", steps)).returncode == 0
    tables = [(tmp_path / name / "run_0" / "metrics.csv").read_bytes() for name in ("far", "near")]
    assert tables[0] == tables[1] and len(tables[0].splitlines()) > 2
    assert "resumed at step 2,048" in (tmp_path / "far" / "run_0" / "train.log").read_text()
    first, other = slice_of(2, "train", "--sys", "tpu", *flags("far", 4096, seed=4))[-2:]
    code, out, err = ended(first)
    assert (code, out) == (2, "") and "seed is 3 there, 4 here" in err and "Traceback" not in err
    assert ended(other)[0] == 2
