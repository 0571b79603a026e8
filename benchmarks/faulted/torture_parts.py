"""An environment that misbehaves at a step, once or from then on: a user module of the fault campaign.

What it does is JSON in the variable RL_TORTURE_ENV; without it, it is CartPole.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.classic_control import CartPoleEnv

PLAN: dict[str, Any] = json.loads(os.environ.get("RL_TORTURE_ENV", "null")) or {}
_steps = 0  # of all environments of this process


class Tortured(CartPoleEnv):
    """CartPole, but for some steps."""

    def step(self, action):
        global _steps
        _steps += 1
        found = super().step(action)
        if PLAN and PLAN["at"] <= _steps < PLAN["at"] + PLAN["times"]:
            open(PLAN["struck"], "w").close()
            return WRONG[PLAN["what"]](*found)
        return found


def _raises(*_):
    raise RuntimeError("the simulator has lost its mind")


def _hangs(*found):
    time.sleep(PLAN.get("seconds", 10_000.0))
    return found


def _changed(place, value):
    def change(*found):
        return (*found[:place], value(found[place]), *found[place + 1 :])

    return change


def _exits(*_):
    sys.exit(0)


def _dies(*_):
    os.kill(os.getpid(), signal.SIGSEGV)


WRONG = {
    "raises": _raises,
    "hangs": _hangs,
    "exits": _exits,
    "dies": _dies,
    "nan observation": _changed(0, lambda each: np.full_like(each, np.nan)),
    "infinite observation": _changed(0, lambda each: np.full_like(each, np.inf)),
    "nan reward": _changed(1, lambda _: float("nan")),
    "infinite reward": _changed(1, lambda _: float("inf")),
    "no reward": _changed(1, lambda _: None),
    "large shape": _changed(0, lambda each: np.concatenate([each, each])),
    "small shape": _changed(0, lambda each: each[:2]),
    "no observation": _changed(0, lambda _: None),
    "text": _changed(0, lambda _: "lost"),
}

gymnasium.register("Tortured-v0", entry_point=Tortured, max_episode_steps=30)
