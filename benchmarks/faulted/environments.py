"""Environments that raise, hang, end the process, or return what they may not."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Collection
from typing import Any

from faulted.cases import Case, Failed, Missed, Outcome, kind, last_line

AT = 1500  # steps of the environments of a run, those of evaluations among them
TOLD = re.compile(r"Tortured-v0: (environment \d of \d, )?(step [\d,]+|reset): ")
LOST = 128 + signal.SIGSEGV


def misbehaved(case: Case, what: str, codes: Collection[int] = (0, 3), **changed: Any) -> Outcome:
    """A run in an environment that does it at a step, once or from then on; then one that does not."""
    words = [*case.words("host", env_restarts=2, **changed), "--env", "Tortured-v0"]
    times = case.rng.choice([1, 10**9])
    plan = {"what": what, "at": case.rng.randint(100, AT), "times": times}
    plan["struck"] = str(case.folder / "struck")
    run = case.start(words, env={"RL_TORTURE_ENV": json.dumps(plan)})
    run.wait()
    if not case.struck:
        if run.poll() != 0:
            raise Failed(f"code {run.poll()} before the fault: {last_line(run.text)}")
        raise Missed
    code = case.ended(run, codes)
    if code in (0, 3) and not TOLD.search(run.text):
        raise Failed("no line names environment and step")
    return case.goes_on("host", words, code)


@kind(5)
def env_raises(case: Case) -> Outcome:
    """The environment raises, or calls sys.exit; once or from then on"""
    return misbehaved(case, case.rng.choice(["raises", "exits"]))


@kind(4)
def env_hangs(case: Case) -> Outcome:
    """The environment hangs (env_timeout=3), also where it hears no signal"""
    what = case.rng.choice(["hangs", "hangs deaf"])
    return misbehaved(case, what, {75} if what == "hangs deaf" else (0, 3), env_timeout=3)


@kind(3)
def env_dies(case: Case) -> Outcome:
    """The environment ends the process by SIGSEGV"""
    return misbehaved(case, "dies", {LOST})


@kind(6)
def env_not_finite(case: Case) -> Outcome:
    """The environment returns NaN or infinity, once or from then on"""
    return misbehaved(
        case, f"{case.rng.choice(['nan', 'infinite'])} {case.rng.choice(['observation', 'reward'])}"
    )


@kind(6)
def env_wrong(case: Case) -> Outcome:
    """The environment returns observations of a wrong shape, none, text, no reward"""
    what = case.rng.choice(["large shape", "small shape", "no observation", "text", "no reward"])
    return misbehaved(case, what, {0, 2, 3})  # 2: from the first step of an evaluation's environments on
