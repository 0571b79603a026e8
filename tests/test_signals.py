"""A run that is asked to stop finishes what it does and leaves with the right exit code."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import threading

import pytest

from rl.signals import StopRequest

CHILD = """
    import sys, time
    from rl.signals import StopRequest
    with StopRequest() as stop:
        print("ready", flush=True)
        while not stop.requested:
            time.sleep(0.01)
        print("saving", flush=True)
        for _ in range(3000 if len(sys.argv) > 1 else 0):
            time.sleep(0.01)
        print("saved", flush=True)
    sys.exit(stop.exit_code)
"""


# What is under way when the signal comes: a call that handlers have to wait for, or what must be done.
BUSY = """
    import hashlib, sys, time
    from rl.signals import StopRequest
    with StopRequest(patience=0.5) as stop:
        stop.kept = "the checkpoint of step 7 is kept"
        print("ready", flush=True)
        if sys.argv[1] == "call":
            hashlib.pbkdf2_hmac("sha256", b"", b"", 2 * 10**9)
        with stop.unhurried():
            while stop.signal is None:
                time.sleep(0.01)
            time.sleep(1.2)
        if sys.argv[1] == "both":
            print("saved", flush=True)
            hashlib.pbkdf2_hmac("sha256", b"", b"", 2 * 10**9)
        print("saved", stop.requested, flush=True)
        time.sleep(1.2)
    sys.exit(stop.exit_code)
"""


# Two trainings, one after the other, as a loop over seeds has them.
TWO_TRAININGS = """
    import sys, rl
    class Say(rl.Callbacks):
        def on_row(self, *_):
            print("training", flush=True)
    tiny = {"num_envs": 2, "rollout_length": 8, "minibatches": 1, "epochs": 1, "log_period": 16}
    more = {"train_steps": 10**9, "compile": "eager"}  # the first row comes before a graph were traced
    for seed in (0, 1):
        folder = f"{sys.argv[1]}/{seed}"
        rl.train("ppo_identity", output_dir=folder, seed=seed, callbacks=Say(), **tiny, **more)
"""


# A helper that an environment has forked is ended; nobody asks the run to stop.
FORKS = """
    import multiprocessing, os, signal, sys, time
    from rl.signals import StopRequest
    with StopRequest(patience=0.5) as stop:
        child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
        child.start()
        time.sleep(0.5)
        os.kill(child.pid, signal.SIGINT)  # as a terminal does to all of them
        time.sleep(0.5)
        print(child.is_alive(), end=" ")
        child.terminate()
        child.join(20)
        time.sleep(0.2)
        print(child.exitcode, stop.signal, flush=True)
    sys.exit(stop.exit_code)
"""


@pytest.fixture(autouse=True)
def _pythons_own_handlers():
    """In the background of a shell tests inherit an ignored SIGINT, under nohup SIGHUP; these compare with
    Python's handlers."""
    inherited = {
        signal.SIGINT: signal.signal(signal.SIGINT, signal.default_int_handler),
        signal.SIGHUP: signal.signal(signal.SIGHUP, signal.SIG_DFL),
    }
    yield
    for number, handler in inherited.items():
        signal.signal(number, handler)


def _child(*arguments, program=CHILD):
    command = [sys.executable, "-c", textwrap.dedent(program), *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGHUP, 129), (signal.SIGINT, 130), (signal.SIGTERM, 143)]
)
def test_a_signal_lets_the_run_save_and_exit(number, code):
    with _child() as child:
        assert child.stdout.readline() == "ready\n"
        child.send_signal(number)
        out, err = child.communicate(timeout=60)
    assert out == "saving\nsaved\n" and child.returncode == code
    assert number.name in err and "Traceback" not in err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_call_that_takes_too_long_is_not_waited_for(number):
    with _child("call", program=BUSY) as child:
        assert child.stdout.readline() == "ready\n"
        child.send_signal(number)
        out, err = child.communicate(timeout=60)
    assert (out, child.returncode) == ("", 128 + number)
    assert err.split("\n\n") == [
        f"\n{number.name}: saving a checkpoint, then stopping",
        f"{number.name}: what is under way takes too long to wait for; the checkpoint of step 7 is kept\n",
    ]


def test_a_checkpoint_is_waited_for_and_so_is_whoever_has_seen_the_signal():
    with _child("checkpoint", program=BUSY) as child:
        assert child.stdout.readline() == "ready\n"
        child.send_signal(signal.SIGTERM)
        out, err = child.communicate(timeout=60)
    assert (out, child.returncode) == ("saved True\n", 143)
    assert "too long" not in err


def test_a_call_that_takes_too_long_after_a_checkpoint_is_not_waited_for():
    with _child("both", program=BUSY) as child:
        assert child.stdout.readline() == "ready\n"
        child.send_signal(signal.SIGTERM)
        out, err = child.communicate(timeout=60)
    assert (out, child.returncode) == ("saved\n", 143)
    assert "too long" in err


def test_a_process_that_was_forked_meanwhile_has_the_handlers_of_before():
    with _child(program=FORKS) as child:
        out, err = child.communicate(timeout=60)
    assert (out, err, child.returncode) == ("True -15 None\n", "", 0)


def test_under_nohup_a_terminal_that_hangs_up_is_nothing():
    inherited = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with StopRequest() as stop:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not stop.requested
    finally:
        signal.signal(signal.SIGHUP, inherited)


def test_a_second_interrupt_does_not_wait():
    with _child("slow") as child:
        assert child.stdout.readline() == "ready\n"
        child.send_signal(signal.SIGTERM)
        assert child.stdout.readline() == "saving\n"
        while child.poll() is None:  # signals that come too fast one after the other become one
            child.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(0.1)
        out, err = child.communicate(timeout=60)
    assert "saved" not in out and "KeyboardInterrupt" in err


def test_only_the_second_interrupt_interrupts():
    with StopRequest(announce=False) as stop:
        for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGINT):
            signal.raise_signal(number)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert (stop.signal, stop.exit_code) == (signal.SIGTERM, 143)


def test_handlers_are_restored_and_nesting_works():
    def mine(*_):
        raise AssertionError

    before = signal.signal(signal.SIGTERM, mine)
    try:
        with StopRequest(announce=False) as outer:
            with StopRequest(announce=False) as inner:
                os.kill(os.getpid(), signal.SIGTERM)
            assert (inner.requested, inner.exit_code) == (True, 143)
            assert (outer.requested, outer.exit_code) == (False, 0)
            os.kill(os.getpid(), signal.SIGINT)
            assert (outer.signal, outer.exit_code) == (signal.SIGINT, 130)
        assert signal.getsignal(signal.SIGTERM) is mine
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGTERM, before)


def test_in_another_thread_it_does_nothing():
    found = []

    def work():
        with StopRequest() as stop:
            found.append((stop.requested, signal.getsignal(signal.SIGINT)))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [(False, signal.default_int_handler)]


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGTERM, 143), pytest.param(signal.SIGINT, -signal.SIGINT, marks=pytest.mark.slow)],
)
def test_a_script_that_trains_ends_with_the_training_that_was_asked_to(tmp_path, number, code):
    script = [sys.executable, "-c", textwrap.dedent(TWO_TRAININGS), str(tmp_path)]
    with subprocess.Popen(script, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert any("training" in line for line in child.stdout)
        child.send_signal(number)
        said = child.communicate(timeout=60)[1]
    assert child.returncode == code, said
    assert "saving a checkpoint" in said and list(tmp_path.glob("0/run_0/checkpoints/step_*"))
    assert not (tmp_path / "1").exists()
