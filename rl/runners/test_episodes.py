"""The test episodes that every run ends with, of its best and of its last policy."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from rl.agents.agent import Agent
from rl.data.recorder import Recorder
from rl.envs.host import Purpose, purpose_seed
from rl.errors import Stopped
from rl.request import Request
from rl.runners.actor import flat_weights
from rl.runners.evaluate import Evaluation
from rl.runners.kept import Kept
from rl.runners.player import Player
from rl.runners.recording import policy_recorder
from rl.saved_run import read_saved, read_weights, saved_agent, saved_hparams
from rl.signals import StopRequest
from rl.storage.files import ensure_writable_dir


def play_tests(
    request: Request, run_dir: Path, stop: StopRequest, address: str, kept: Kept
) -> dict[str, Evaluation]:
    """Plays test episodes of the best and of the last policy, the same for all runs, and none of those that
    chose the best; further ones of the best policy may be shown or filmed. Returns what they came to: where
    `stop` is requested, of those that were over by then."""
    tests: dict[str, Evaluation] = {}
    seed = purpose_seed(Purpose.TEST)

    def stopped() -> bool:
        return stop.requested

    if not saved_hparams(run_dir, request.hparams)[0].env:
        return tests
    if request.record_video:
        ensure_writable_dir(run_dir / "videos")  # before the episodes are played for nothing
    with contextlib.suppress(Stopped), contextlib.ExitStack() as players:
        agent, episodes = kept.agent_of(request.hparams), request.test_episodes
        if agent is None or request.eval_policy not in (None, agent.hparams.eval_policy):
            agent = saved_agent(run_dir, request.hparams, request.eval_policy)
        player = shown = None
        if request.record_video:  # what cannot be drawn is refused before all is played
            player = players.enter_context(contextlib.closing(Player(agent, "rgb_array")))
        if request.render:
            shown = players.enter_context(contextlib.closing(Player(agent, "human")))
        with kept.evaluator_of(agent, episodes) as evaluator:
            for which in ("last", "best"):  # the best one stays in the agent
                before = flat_weights(agent, training=False).numpy()
                step = read_weights(agent, run_dir, which)
                same = np.array_equal(flat_weights(agent, training=False).numpy(), before)
                if which == "best" and same and request.record_data is None:
                    tests["best"] = tests["last"]  # the same weights would play the same episodes
                    break
                played = {"which": which, "step": step, "address": address, "seed": seed}
                with _recording(request if which == "best" else None, run_dir, agent, played) as recorder:
                    tests[which] = evaluator.run(seed, stopped, recorder)
                other = evaluator.other(seed, stopped) if which == "last" else None
                if other is not None:
                    tests[other[0]] = other[1]
        filmed = [purpose_seed(Purpose.FILM, number=episode) for episode in range(episodes)]
        if player is not None:
            player.film_all(filmed, run_dir / "videos", f"best_step_{step:09d}", stopped)
        if shown is not None:
            shown.show_all(filmed, stopped)
    return tests


@contextlib.contextmanager
def _recording(
    request: Request | None, run_dir: Path, agent: Agent[Any], played: dict[str, Any]
) -> Iterator[Recorder | None]:
    """Gives what records the test of a run that is not trained; None where that is not asked for."""
    if request is None or request.record_data is None or request.training:
        yield None
        return
    name = (read_saved(run_dir) or {}).get("name")
    with policy_recorder(request.record_data, agent, name, **played) as recorder:
        recorder.begin()
        yield recorder
