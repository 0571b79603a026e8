"""The second process, which starts a killed learner again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rl.errors import AGAIN

PROGRAM = """
import os, signal, sys, time
from rl.workers import supervise
supervise.LEAST = float(sys.argv[3])
code = supervise.supervised()
if code is not None:
    sys.exit(code)
with open(sys.argv[1], "a+") as file:
    file.seek(0)
    lives = len(file.readlines())
    print(os.getpid(), file=file)
action = sys.argv[2].split(",")[lives]
if action == "sleep":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    signal.signal(signal.SIGINT, lambda *_: sys.exit(130))
    signal.signal(signal.SIGHUP, lambda *_: sys.exit(129))
    print("asleep", flush=True)
    time.sleep(600)
elif action == "doze":
    print("asleep", flush=True)
    time.sleep(600)
elif action == "unable":  # asked to stop, it could not write its last checkpoint
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))
    print("asleep", flush=True)
    time.sleep(600)
elif action == "orphan":
    if os.fork() == 0:
        time.sleep(600)
    os.kill(os.getpid(), signal.SIGKILL)
elif action.isdigit():
    sys.exit(int(action))
else:
    os.kill(os.getpid(), getattr(signal, action))
"""


@pytest.fixture
def start(tmp_path):
    """Starts a program whose lives follow a script; returns (process, the file with the learners' ids)."""
    started = []

    def begin(script, least=0.0, hang_up=signal.SIG_DFL):
        lives = tmp_path / "lives"
        words = [sys.executable, "-c", PROGRAM, lives, script, str(least)]
        root = Path(__file__).resolve().parents[2]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "cwd": root}
        # As from a terminal: in the background of a script, tests inherit an ignored SIGINT.
        handlers = {signal.SIGINT: signal.SIG_DFL, signal.SIGHUP: hang_up}
        inherited = {each: signal.signal(each, handler) for each, handler in handlers.items()}
        started.append(subprocess.Popen([str(word) for word in words], **pipes))
        for each, handler in inherited.items():
            signal.signal(each, handler)
        return started[-1], lives

    yield begin
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def test_under_nohup_a_hang_up_ends_no_supervision(start):
    process, lives = start("doze,0", hang_up=signal.SIG_IGN)
    assert process.stdout.readline() == "asleep\n"
    process.send_signal(signal.SIGHUP)
    time.sleep(0.2)  # it would be taken by then
    os.kill(int(lives.read_text()), signal.SIGKILL)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0 and len(lives.read_text().split()) == 2
    assert err == "the learner was ended by SIGKILL: going on from its last checkpoint\n"


def test_a_killed_learner_is_started_again_until_it_ends_by_itself(start):
    process, lives = start(f"SIGKILL,SIGSEGV,{AGAIN},0")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0
    assert len(set(lives.read_text().split())) == 4
    assert err.splitlines() == [
        "the learner was ended by SIGKILL: going on from its last checkpoint",
        "the learner was ended by SIGSEGV: going on from its last checkpoint",
        "the learner ended for the reason above: going on from its last checkpoint",
    ]


@pytest.mark.parametrize("code", [0, 2, 3])
def test_the_learner_s_exit_code_is_handed_on(start, code):
    process, lives = start(str(code))
    process.communicate(timeout=60)
    assert process.returncode == code and len(lives.read_text().split()) == 1


def test_a_learner_that_is_killed_again_and_again_is_given_up(start):
    process, lives = start("SIGKILL,SIGKILL,SIGKILL,0", least=600.0)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 137 and len(lives.read_text().split()) == 3
    assert err.splitlines()[-1] == "error: the learner was ended by SIGKILL 3 times in a row"


@pytest.mark.parametrize("number, code", [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)])
def test_a_request_to_stop_reaches_the_learner(start, number, code):
    process, lives = start("sleep")
    assert process.stdout.readline() == "asleep\n"
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == code and len(lives.read_text().split()) == 1


def test_a_learner_that_was_asked_to_stop_is_not_started_again_however_it_ends(start):
    process, lives = start("unable,0")
    assert process.stdout.readline() == "asleep\n"
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == AGAIN and len(lives.read_text().split()) == 1


def test_the_learner_stops_when_its_supervisor_is_killed(start):
    process, lives = start("sleep")
    assert process.stdout.readline() == "asleep\n"
    learner = int(lives.read_text())
    process.kill()
    process.wait()
    assert gone(learner)


def test_nothing_that_a_killed_learner_started_is_left(start):
    process, lives = start("orphan,0")
    process.communicate(timeout=60)
    assert process.returncode == 0
    assert gone(-int(lives.read_text().split()[0]))  # its process group


def gone(number):
    """Whether a process (or a group, if negative) ends within seconds."""
    for _ in range(200):
        try:
            os.kill(number, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False
