"""Environments that raise, hang, end the process, or return what they may not."""

from __future__ import annotations

import json
import signal
from collections.abc import Collection

from faulted.cases import Case, Failed, Missed, Outcome, kind, last_line

AT = 1500  # steps of the environments of a run, those of evaluations among them
HANG_S = 5  # hang_timeout
OWN_ERROR = 1  # with the traceback: of the environment's program


def misbehaved(
    case: Case, what: str, codes: Collection[int], once: bool = False, **changed: object
) -> Outcome:
    """A run in an environment that does it at a step, once or from then on; then one that does not."""
    words = [*case.words("host", **changed), "--env", "Tortured-v0"]
    plan = {"what": what, "at": case.rng.randint(100, AT), "times": 1 if once else 10**9}
    plan["struck"] = str(case.folder / "struck")
    run = case.start(words, env={"RL_TORTURE_ENV": json.dumps(plan)})
    run.wait()
    if not case.struck:
        if run.poll() != 0:
            raise Failed(f"code {run.poll()} before the fault: {last_line(run.text)}")
        raise Missed
    code = case.ended(run, codes, traces=run.poll() == OWN_ERROR)
    return case.goes_on("host", words, code)


@kind(5)
def env_raises(case: Case) -> Outcome:
    """The environment raises"""
    return misbehaved(case, "raises", {0, 1, 3}, once=case.rng.random() < 0.5)


@kind(3)
def env_hangs(case: Case) -> Outcome:
    """The environment hangs (hang_timeout=5)"""
    return misbehaved(case, "hangs", {0, 3, 75}, hang_timeout=HANG_S)


@kind(4)
def env_ends(case: Case) -> Outcome:
    """The environment calls sys.exit, or dies of SIGSEGV"""
    what = case.rng.choice(["exits", "dies"])
    return misbehaved(case, what, {128 + signal.SIGSEGV} if what == "dies" else {0, 1, 3})


@kind(6)
def env_not_finite(case: Case) -> Outcome:
    """The environment returns NaN or infinity, once or from then on"""
    what = f"{case.rng.choice(['nan', 'infinite'])} {case.rng.choice(['observation', 'reward'])}"
    return misbehaved(case, what, {0, 3}, once=case.rng.random() < 0.5)


@kind(6)
def env_wrong(case: Case) -> Outcome:
    """The environment returns observations of a wrong shape, none, text, no reward"""
    what = case.rng.choice(["large shape", "small shape", "no observation", "text", "no reward"])
    return misbehaved(case, what, {0, 1, 2, 3}, once=case.rng.random() < 0.5)
