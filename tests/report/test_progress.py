"""What a person sees, on a terminal and off it."""

from __future__ import annotations

import io
import logging
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from rl.errors import UsageError
from rl.report.progress import Progress, summary_table
from rl.report.tables import terminal_table

STAMP = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d ")


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "120")
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    return Terminal()


def _plain(text):
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


def _lines(text):
    lines = text.splitlines()
    assert all(STAMP.match(line) for line in lines), lines
    return [STAMP.sub("", line) for line in lines]


def test_lines_are_limited_in_rate_and_the_last_state_is_written(tmp_path):
    clock, stream = Clock(), io.StringIO()
    with Progress(100_000, tmp_path / "train.log", stream, interval=10, clock=clock) as progress:
        for i in range(1, 26):  # an update a second, 1000 steps each
            clock.now += 1
            progress.update(i * 1000, 20.0 + i if i > 5 else None, 90.0 if i == 20 else None)
    lines = _lines(stream.getvalue())
    assert lines == [
        "1,000/100,000 steps",
        "11,000/100,000 steps  1,000 steps/s  train return 31.0  ETA 1:29",
        "21,000/100,000 steps  1,000 steps/s  train return 41.0  eval return 90.0  ETA 1:19",
        "25,000/100,000 steps  1,000 steps/s  train return 45.0  eval return 90.0  ETA 1:15",
    ]
    assert (tmp_path / "train.log").read_text() == stream.getvalue()


def test_other_means_are_shown_behind_the_returns_until_there_are_newer_ones():
    clock, stream = Clock(), io.StringIO()
    with Progress(100, stream=stream, interval=0, clock=clock) as progress:
        progress.update(10, 1.0, 2.0, {"eval success_rate": 0.4, "eval height": -12.34})
        progress.update(20, 3.0)
        progress.update(30, None, 4.0, {"eval success_rate": 0.0})
    returns = [re.sub(r"^\S+ steps  (train|eval)", r"\1", line) for line in _lines(stream.getvalue())]
    assert returns[:3] == [
        "train return 1.000  eval return 2.000  eval success_rate 0.400  eval height -12.3",
        "train return 3.000  eval return 2.000  eval success_rate 0.400  eval height -12.3",
        "train return 3.000  eval return 4.000  eval success_rate 0.000  eval height -12.3",
    ]


def test_the_rate_is_a_recent_one_and_leaves_compilation_out():
    clock = Clock()
    with Progress(10_000_000, stream=io.StringIO(), clock=clock) as progress:
        clock.now += 50  # compilation
        progress.update(1_000_000)  # a resumed run does not start at 0
        assert progress.steps_per_second is None
        for i in range(1, 101):
            clock.now += 1
            progress.update(1_000_000 + i * 10)
        assert progress.steps_per_second == pytest.approx(10)
        for i in range(1, 101):
            clock.now += 1
            progress.update(1_001_000 + i * 200)
        assert progress.steps_per_second == pytest.approx(200)


def test_a_clock_that_stands_still_gives_no_rate():
    with Progress(10, stream=io.StringIO(), clock=Clock()) as progress:
        progress.update(1)
        progress.update(2, eval_return=0.25)
        assert progress.steps_per_second is None
        assert progress.line() == "2/10 steps  eval return 0.250"


def test_the_log_is_added_to_and_warnings_go_into_it(tmp_path, caplog):
    log = tmp_path / "train.log"
    log.write_text("2026-01-01 00:00:00 earlier\n")
    stream = io.StringIO()
    logger = logging.getLogger("rl")
    level = logger.level
    with Progress(10, log, stream):
        logging.getLogger("rl.checkpoint").warning("step %d is damaged", 3)
        assert not caplog.records  # handlers that libraries have set up do not repeat it
        logging.getLogger("rl.runner").info("compiling")
    logging.getLogger("rl.runner").info("nobody hears this")
    assert _lines(log.read_text()) == ["earlier", "warning: step 3 is damaged", "compiling"]
    assert _lines(stream.getvalue()) == ["warning: step 3 is damaged", "compiling"]
    assert logger.handlers == [] and logger.level == level


def test_a_terminal_gets_one_live_line_and_the_log_plain_lines(tmp_path, terminal):
    clock = Clock()
    with Progress(4000, tmp_path / "train.log", terminal, clock=clock) as progress:
        for i in range(1, 5):
            clock.now += 1
            progress.update(i * 1000, -123.4)
        progress.message("new best [return] 12")
    assert "\x1b[" in terminal.getvalue()
    shown = _plain(terminal.getvalue())
    assert "4,000/4,000 steps  1,000 steps/s  train return -123.4  ETA 0:00" in shown
    assert "new best [return] 12\n" in shown
    log = (tmp_path / "train.log").read_text()
    assert _lines(log) == [
        "1,000/4,000 steps  train return -123.4",
        "new best [return] 12",
        "4,000/4,000 steps  1,000 steps/s  train return -123.4  ETA 0:00",
    ]


def test_a_live_line_that_the_terminal_is_too_narrow_for_goes_on_below(terminal, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    clock = Clock()
    with Progress(50_000, stream=terminal, clock=clock) as progress:
        progress.update(0)
        clock.now += 10
        progress.update(45_056, 500.0, 487.3)
    shown = " ".join(_plain(terminal.getvalue()).split())
    assert "train return 500.0 eval return 487.3 ETA 0:01" in shown and "…" not in shown


def test_a_run_that_goes_on_is_shown_where_it_is(terminal):
    with Progress(4000, stream=terminal, step=4000) as progress:
        progress.message("resumed at step 4,000")
    shown = _plain(terminal.getvalue())
    assert "4,000/4,000 steps" in shown and "0/4,000" not in shown.replace("4,000/4,000", "")


def test_an_unwritable_log_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError, match=r"train\.log"), Progress(1, tmp_path / "none" / "train.log"):
        pass


def test_an_ascii_stream_does_not_stop_a_run(tmp_path):
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    with Progress(1, tmp_path / "train.log", stream) as progress:
        progress.message("café")
    stream.flush()
    assert b"caf\\xe9" in stream.buffer.getvalue()
    assert "café" in (tmp_path / "train.log").read_text(encoding="utf-8")


def test_a_single_summary_is_printed_downwards():
    stream = io.StringIO()
    summary_table([{"return": 487.25, "steps": 100_000, "best": None, "where": "out/run_0"}], "dqn", stream)
    assert stream.getvalue() == "dqn\nreturn  487.25\nsteps   100,000\nbest    -\nwhere   out/run_0\n"


def test_several_summaries_are_rows():
    stream = io.StringIO()
    summary_table([{"run": "run_0", "return": 1.0}, {"run": "run_1", "steps": 7}], stream=stream)
    assert stream.getvalue() == "run    return  steps\nrun_0  1.00    -\nrun_1  -       7\n"


def test_a_terminal_gets_a_table_with_nothing_cut_off(terminal):
    path = "/a/very/long/path/" + "x" * 150
    summary_table([{"run": "run_0", "where": path}, {"run": "[bold]", "where": "b"}], "two", terminal)
    shown = _plain(terminal.getvalue())
    assert shown.count("x") == 150 and "[bold]" in shown and "two" in shown


def test_long_names_leave_room_for_what_they_mean_on_a_narrow_terminal(terminal, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    terminal_table([("n" * 33, "value", "meaning")], ("name", "default", "what it is"), None, terminal)
    shown = _plain(terminal.getvalue())
    assert shown.count("n") >= 33 and "value" in shown and "meaning" in shown


def test_no_rows_print_nothing():
    stream = io.StringIO()
    summary_table([], stream=stream)
    assert stream.getvalue() == ""


def test_a_reader_that_is_gone_ends_nothing(tmp_path):
    program = """
        import sys
        from rl.report.progress import Progress, summary_table
        with Progress(100, sys.argv[1]) as progress:
            sys.stdin.readline()  # until the pipe is closed
            progress.message("still here")
            progress.update(100, 1.0)
        summary_table([{"run": "here"}])
        open(sys.argv[2], "w").write("done")
    """
    log, done = tmp_path / "train.log", tmp_path / "done"
    command = [sys.executable, "-c", textwrap.dedent(program), str(log), str(done)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=Path(__file__).resolve().parents[2], **pipes) as process:
        process.stdout.close()
        process.stdin.write("go on\n")
        process.stdin.flush()
        assert process.wait(60) == 0, process.stderr.read()
    assert done.exists() and "still here" in log.read_text()
