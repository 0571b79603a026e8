"""Processes that are killed, asked to stop, or stopped for a while."""

from __future__ import annotations

import signal
import time
from typing import Any

from faulted.cases import SETS, WINDOWS, Case, Failed, Missed, Outcome, kind

SAVED_S = 120.0  # seconds in which a run that is asked to stop is to have ended, on a busy machine
PLACES: dict[str, dict[str, Any]] = {
    "compile": {"at": "the compiled", "after": 1.0},
    "training": {"at": "the compiled", "after": 0.004, "times": WINDOWS},
    "checkpoint": {"at": "a checkpoint to be written", "after": 0.04, "times": WINDOWS},
    "evaluation": {"at": "of an evaluation", "within": "train", "times": 60, "after": 0.002},
    "test": {"at": "of an evaluation", "within": "_test", "times": 40, "after": 0.002},
}


def moment(case: Case, place: str, **do: Any) -> dict[str, Any]:
    """A plan that does it at a random moment of one of PLACES."""
    plan = dict(PLACES[place])
    plan["after"] = case.rng.random() * plan["after"]
    return plan | {"nth": case.rng.randint(1, plan.pop("times", 1)), "do": do}


def halt(case: Case) -> dict[str, Any]:
    """A plan that stops a run while it holds its folder."""
    return moment(case, case.rng.choice(["training", "checkpoint"]), signal=int(signal.SIGSTOP))


def any_moment(case: Case, **do: Any) -> dict[str, Any]:
    return moment(case, case.rng.choice(list(PLACES)), **do)


def some_set(case: Case) -> str:
    return case.rng.choice(["ppo", "ppo", "dqn", "dqn", "host"])


def killed(case: Case, place: str, number: int = signal.SIGKILL) -> Outcome:
    name = some_set(case)
    words = case.words(name)
    cold = case.rng.random() < 0.1
    code = case.under(words, moment(case, place, signal=number), {128 + number}, cold=cold)
    return case.goes_on(name, words, code)


@kind(4, "SIGKILL while Python starts and imports")
def sigkill_start(case: Case) -> Outcome:
    name = some_set(case)
    words = case.words(name)
    run = case.start(words, cold=True)
    run.wait(case.rng.random() * 10.0)
    if run.poll() is not None:
        raise Missed
    run.send(signal.SIGKILL)
    return case.goes_on(name, words, case.ended(run, {137}))


@kind(7, "SIGKILL while the first iteration is compiled")
def sigkill_compile(case: Case) -> Outcome:
    return killed(case, "compile")


@kind(10, "SIGKILL within compiled iterations")
def sigkill_training(case: Case) -> Outcome:
    return killed(case, "training")


@kind(16, "SIGKILL while a checkpoint is written")
def sigkill_checkpoint(case: Case) -> Outcome:
    return killed(case, "checkpoint")


@kind(8, "SIGKILL within an evaluation")
def sigkill_evaluation(case: Case) -> Outcome:
    return killed(case, "evaluation")


@kind(6, "SIGKILL within the test after training")
def sigkill_test(case: Case) -> Outcome:
    return killed(case, "test")


@kind(4, "SIGKILL three times, each time of the command that goes on")
def sigkill_again(case: Case) -> Outcome:
    name = case.rng.choice(["ppo", "dqn"])
    words, code = case.words(name), None
    for _ in range(3):
        (case.folder / "struck").unlink(missing_ok=True)
        place = case.rng.choice(["compile", "training", "checkpoint"])
        plan = moment(case, place, signal=int(signal.SIGKILL))
        plan["nth"] = min(plan["nth"], 4)
        code = case.under(words, plan, {137})
    return case.goes_on(name, words, code)


@kind(5, "SIGSEGV, SIGABRT, SIGBUS: as of a library's own mistake")
def crash(case: Case) -> Outcome:
    place = case.rng.choice(list(PLACES))
    return killed(case, place, case.rng.choice([signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS]))


def asked(case: Case, number: int, **more: Any) -> Outcome:
    """A run that is asked to stop saves and ends, in time."""
    name = some_set(case)
    words = case.words(name)
    plan = any_moment(case, signal=number, **more)
    run = case.start(words, plan)
    run.until(lambda: case.struck)
    begun = time.monotonic()
    run.wait()
    took = time.monotonic() - begun
    if not case.struck:
        raise Missed
    code = case.ended(run, {128 + number, 0})  # 0: the last thing was under way
    if took > SAVED_S:
        raise Failed(f"{took:.0f} s from the signal to the end")
    return case.goes_on(name, words, code)


@kind(8)
def sigterm(case: Case) -> Outcome:
    """SIGTERM at any moment"""
    return asked(case, signal.SIGTERM)


@kind(6)
def sigint(case: Case) -> Outcome:
    """SIGINT (Ctrl-C) at any moment"""
    return asked(case, signal.SIGINT)


@kind(4)
def sigint_twice(case: Case) -> Outcome:
    """SIGINT twice within a tenth of a second"""
    return asked(case, signal.SIGINT, again=case.rng.random() * 0.1)


@kind(4)
def sighup(case: Case) -> Outcome:
    """SIGHUP (the terminal is closed) at any moment"""
    return asked(case, signal.SIGHUP)


@kind(5)
def sigstop(case: Case) -> Outcome:
    """SIGSTOP, and SIGCONT after a second or two"""
    name = some_set(case)
    words = case.words(name)
    run = case.start(words, any_moment(case, signal=int(signal.SIGSTOP)))
    if not run.until(lambda: run.stopped):
        raise Missed
    time.sleep(case.rng.uniform(0.5, 2.0))
    run.send(signal.SIGCONT)
    return case.goes_on(name, words, case.ended(run, {0}))


@kind(4)
def sigstop_sigterm(case: Case) -> Outcome:
    """SIGTERM to a run that SIGSTOP holds, then SIGCONT"""
    name = some_set(case)
    words = case.words(name)
    run = case.start(words, any_moment(case, signal=int(signal.SIGSTOP)))
    if not run.until(lambda: run.stopped):
        raise Missed
    run.send(signal.SIGTERM)
    time.sleep(case.rng.uniform(0.1, 1.0))
    run.send(signal.SIGCONT)
    return case.goes_on(name, words, case.ended(run, {143, 0}))


@kind(4)
def second_trainer(case: Case) -> Outcome:
    """A second trainer in the folder of one that trains (SIGSTOP holds it meanwhile)"""
    name = some_set(case)
    words = case.words(name)
    first = case.start(words, halt(case))
    if not first.until(lambda: first.stopped):
        raise Missed
    second = case.start(words)
    case.ended(second, {2})
    if "another process trains in" not in second.text:
        raise Failed(f"the second one says: {second.text[-200:]}")
    first.send(signal.SIGCONT)
    return case.goes_on(name, words, case.ended(first, {0}))


@kind(3)
def second_takes_over(case: Case) -> Outcome:
    """A second trainer waits for one that is stopped, and that one is killed meanwhile"""
    name = case.rng.choice(["ppo", "dqn"])
    words = case.words(name)
    first = case.start(words, halt(case))
    if not first.until(lambda: first.stopped):
        raise Missed
    second = case.start(words)
    second.wait(case.rng.uniform(2.0, 5.0))
    first.send(signal.SIGKILL)
    case.ended(first, {137})
    case.ended(second, {0})
    case.came_to(name, case.folder / "runs" / "run_0", rows=SETS[name].exact, exact=SETS[name].exact)
    return Outcome("went on")


@kind(4)
def tested_meanwhile(case: Case) -> Outcome:
    """The run is tested (`--training False`) while it trains"""
    name = case.rng.choice(["ppo", "dqn"])
    words = case.words(name)
    plan = moment(case, "checkpoint", signal=int(signal.SIGSTOP))
    plan["nth"] = max(plan["nth"], 2)
    first = case.start(words, plan)
    if not first.until(lambda: first.stopped):
        raise Missed
    tests = ["--training", "False", "--test_episodes", "2", "--output_dir", str(case.folder / "runs")]
    second = case.start(tests)
    case.ended(second, {0})
    first.send(signal.SIGCONT)
    return case.goes_on(name, words, case.ended(first, {0}))
