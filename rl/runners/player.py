"""Single episodes to look at: in a window, or as a film."""

from __future__ import annotations

import contextlib
import itertools
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from rl.agents.agent import Agent
from rl.envs.faults import played, watched
from rl.envs.make import eval_envs_of
from rl.errors import EnvironmentFailed, Stopped, UsageError, one_line
from rl.heartbeat import doing
from rl.report.video import Preview, VideoWriter, checked_frame
from rl.runners.actor import Actor
from rl.runners.evaluate import BLOCK

log = logging.getLogger("rl")


class Film(NamedTuple):
    """An episode that was played."""

    episode_return: float
    length: int
    path: Path | None  # of the mp4, None where it was not filmed
    preview: Preview | None  # a few of its frames, small


class Player:
    """Plays episodes one after another by `eval_policy`, on the environment of evaluations.

    Args:
        agent: whose policy plays, with the weights it has at the call.
        mode: "human" opens a window, "rgb_array" draws for films.

    Raises:
        UsageError: the environment cannot be made or drawn.
    """

    def __init__(self, agent: Agent[Any], mode: Literal["human", "rgb_array"]):
        hparams = agent.hparams
        self.env = watched(lambda: eval_envs_of(hparams, 1, render_mode=mode), hparams, redo=True)
        self._env_id = hparams.env
        if mode == "rgb_array":
            self._try_to_draw()
        sampled = hparams.eval_policy == "sample"
        self._actor = Actor(agent, self.env.num_envs, False, 0, hparams.act_backend, sampled)

    def _try_to_draw(self) -> None:
        """Finds out now, not at the first film, whether there will be pictures."""
        try:
            self.env.reset(0)
            self._drawn()
        except Exception as error:
            self.env.close()
            raise self._undrawn(error) from error

    def _drawn(self) -> np.ndarray:
        """Returns what the environment shows. Raises UsageError where that fails, in whatever draws."""
        try:
            return checked_frame(self.env.render())
        except (Exception, SystemExit) as error:
            raise self._undrawn(error) from error

    def _undrawn(self, error: BaseException) -> UsageError:
        if isinstance(error, UsageError):
            return error
        return UsageError(f"environment {self._env_id} cannot be drawn here: {one_line(error)}")

    def play(self, seed: int, stopped: Callable[[], bool] | None = None) -> Film:
        """Plays one episode, not filmed. Raises Stopped where `stopped`, asked at each step, says so."""
        return played(lambda now: self._play(now, None, stopped), seed)

    def film(self, seed: int, folder: Path, label: str, stopped: Callable[[], bool] | None = None) -> Film:
        """Films one episode as `folder/LABEL_return_RETURN.mp4`, drawn by the environment itself.

        Raises:
            UsageError: the film cannot be written; Unavailable where that may pass.
            Stopped: `stopped`, asked at each step, said so; there is no film then.
        """
        return played(lambda now: self._play(now, folder / f"{label}.mp4", stopped), seed)

    def film_all(
        self, seeds: Sequence[int], folder: Path, label: str, stopped: Callable[[], bool] | None = None
    ) -> None:
        """Films an episode for each seed, `LABEL_episode_NUMBER`. If one fails, a warning is logged and the
        rest are left out, so that the caller keeps its earlier results. Raises Stopped as `film`."""
        for number, seed in enumerate(seeds):
            try:
                self.film(seed, folder, f"{label}_episode_{number}", stopped)
            except (UsageError, EnvironmentFailed) as error:
                log.warning("%s; %d of %d films are left out", error, len(seeds) - number, len(seeds))
                return

    def show_all(self, seeds: Sequence[int], stopped: Callable[[], bool] | None = None) -> None:
        """Plays an episode for each seed. If one fails, a warning is logged and the rest are left out. Raises
        Stopped as `play`."""
        for number, seed in enumerate(seeds):
            try:
                self.play(seed, stopped)
            except EnvironmentFailed as error:
                log.warning("%s; %d of %d episodes are not shown", error, len(seeds) - number, len(seeds))
                return

    def close(self) -> None:
        """Frees the environment, closes its window."""
        self.env.close()

    def _play(self, seed: int, path: Path | None, stopped: Callable[[], bool] | None) -> Film:
        env, actor = self.env, self._actor
        actor.sync()
        doing("the environment's reset, of a film")
        observation = env.reset(seed)
        actor.restart(seed)
        total, preview = 0.0, None if path is None else Preview(env.fps)
        with contextlib.nullcontext() if path is None else VideoWriter(path, env.fps) as video:

            def draw() -> None:
                if video is not None and preview is not None:
                    frame = self._drawn()
                    video.add(frame)
                    preview.add(frame)

            for t in itertools.count():
                doing("the environment's step, of a film")
                if stopped is not None and stopped():
                    raise Stopped
                draw()
                if t % BLOCK == 0:
                    actor.begin(t, BLOCK)
                action, _ = actor(observation, t % BLOCK, 0)
                observation, reward, terminated, truncated = env.step(action)
                total += float(reward.sum()) * env.team_share  # of one environment, whose rows are its agents
                if (terminated | truncated).all():
                    break
            draw()
            if video is not None:
                told = f"{total:.0f}" if abs(total) >= 10.0 else f"{total:.3g}"  # 0.857 is not 1
                video.path = path = video.path.with_name(f"{video.path.stem}_return_{told}.mp4")
        return Film(total, t + 1, path, preview)
