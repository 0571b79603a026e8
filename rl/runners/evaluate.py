"""Evaluation: whole episodes on the environment as everyone else plays it, by the hparam `eval_policy`."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import optree

from rl.agents.agent import Agent
from rl.data.recorder import Recorder
from rl.envs.agents import OwnRewards
from rl.envs.faults import played, watched
from rl.envs.graph.versus import Versus
from rl.envs.graph_host import GraphHost
from rl.envs.host import HostEnv
from rl.envs.make import eval_envs_of
from rl.envs.measures import SUCCESS, measures_of, number_of
from rl.errors import Stopped, UsageError, nearest
from rl.heartbeat import doing
from rl.runners.actor import Actor
from rl.runners.from_data import check_same_spaces
from rl.spaces import space_spec

log = logging.getLogger("rl")

MAX_PARALLEL = 32  # episodes played side by side
BLOCK = 64  # steps that random numbers are drawn for at a time


class Evaluation(NamedTuple):
    """The undiscounted return and the length of each episode, in the order in which they were seeded, and
    what the environment itself said of it at its end."""

    returns: np.ndarray  # [episodes]
    lengths: np.ndarray  # [episodes]
    # By name, [episodes] each, NaN for episodes of which it was not said: `success_rate`, 1 where an episode
    # succeeded, the hparam `info_keys` (`rl.envs.measures`), and with many agents `return_AGENT`, its own.
    measures: Mapping[str, np.ndarray] = {}

    @property
    def success_rate(self) -> float | None:
        """Returns the share of episodes that succeeded; None where the environment does not say."""
        return self.means().get(SUCCESS)

    def means(self) -> dict[str, float]:
        """Returns the mean of each measure over the episodes that had it."""
        return {name: float(np.nanmean(each)) for name, each in self.measures.items()}

    def metrics(self) -> dict[str, float]:
        """Returns what is logged, by tag (`eval/...`): means, and the returns' spread over episodes."""
        return {f"eval/{name}": mean for name, mean in self.means().items()} | {
            "eval/return_mean": float(self.returns.mean()),
            "eval/return_std": float(self.returns.std()),
            "eval/return_min": float(self.returns.min()),
            "eval/return_max": float(self.returns.max()),
            "eval/length_mean": float(self.lengths.mean()),
        }

    def unlike(self, other: Evaluation) -> bool:
        """Says whether the mean returns differ by more than twice the standard error of their difference."""
        pairs = [(each.returns.mean(), each.returns.var() / len(each.returns)) for each in (self, other)]
        (mine, my_variance), (its, its_variance) = pairs
        return bool(abs(mine - its) > 2.0 * np.sqrt(my_variance + its_variance))


class Evaluator:
    """Plays `episodes` episodes at each call of `run`, the same ones for the same seed, by the policy that
    the agent's hparam `eval_policy` says.

    Args:
        agent: whose policy is evaluated, with the weights it has at the call.
        episodes: how many; up to 32 are played side by side.
        env_kwargs: options of the environment; None takes those of the agent's hparams.

    Raises:
        UsageError: the environment cannot be made, or looks otherwise than where the agent was trained.
    """

    def __init__(self, agent: Agent[Any], episodes: int, env_kwargs: dict[str, Any] | None = None):
        hparams = agent.hparams
        self.episodes = episodes
        self._num_envs = min(episodes, MAX_PARALLEL)
        self._env_id = hparams.env
        self._envs = watched(lambda: eval_envs_of(hparams, self._num_envs, env_kwargs), hparams, redo=True)
        _check_spaces(agent, self._envs)
        self.agent, self._sampled = agent, hparams.eval_policy == "sample"
        self._actors = {self._sampled: self._actor(self._sampled)}
        self._warned: set[str] = set()  # keys of infos of which it was said that they are missing

    def _actor(self, sampled: bool) -> Actor:
        """Returns the agent's policy, which draws its actions or takes the best ones."""
        return Actor(self.agent, self._envs.num_envs, False, 0, self.agent.hparams.act_backend, sampled)

    def scores(self, evaluation: Evaluation) -> dict[str, float]:
        """Returns the mean score (win 1, draw 0.5, loss 0) of games against an opponent: "score" over all
        games, and separately for those in which the learner moved first or second. Empty without an
        opponent."""
        envs = self._envs
        if not isinstance(envs, GraphHost) or not isinstance(envs.env, Versus):
            return {}
        score = 0.5 + 0.5 * np.sign(evaluation.returns)  # environments take turns, and so do sides
        parts = {"score": score, "score_first": score[::2], "score_second": score[1::2]}
        return {name: float(each.mean()) for name, each in parts.items() if len(each)}

    @property
    def backend(self) -> str:
        """Says which of `rl.envs.make.BACKENDS` the episodes are played on."""
        return str(self._envs.backend)

    def run(
        self, seed: int, stopped: Callable[[], bool] | None = None, recorder: Recorder | None = None
    ) -> Evaluation:
        """Plays the episodes of that seed (`rl.envs.host.purpose_seed`).

        recorder: is told of them.

        Raises:
            Stopped: `stopped`, asked at each step, said so.
        """
        return played(lambda now: self._play(self._actors[self._sampled], now, stopped, recorder), seed)

    def other(self, seed: int, stopped: Callable[[], bool] | None = None) -> tuple[str, Evaluation] | None:
        """Plays the same episodes with the other of the two values of `eval_policy`; returns its name,
        "sampled" or "greedy", and the episodes. None for policies that are not stochastic. Raises Stopped as
        `run`."""
        if not self.agent.stochastic:
            return None
        other = not self._sampled
        if other not in self._actors:
            doing("a policy's conversion, for an evaluation")
            self._actors[other] = self._actor(other)
        return "sampled" if other else "greedy", played(
            lambda now: self._play(self._actors[other], now, stopped), seed
        )

    def _play(
        self,
        actor: Actor,
        seed: int,
        stopped: Callable[[], bool] | None,
        recorder: Recorder | None = None,
    ) -> Evaluation:
        """Plays the episodes of a seed by `actor`.

        Each environment plays a number of episodes fixed beforehand: counting the episodes that end first
        would favour short ones."""
        actor.sync()
        if recorder is not None:
            recorder.start_over()  # it may have been told of episodes in which an environment failed
        envs, keys = self._envs, self.agent.hparams.info_keys
        own = OwnRewards(envs.observation_space, envs.agents)
        tally = _Tally(self.episodes, self._num_envs, keys, own.names)
        envs.tell_ends(tally.tell)
        doing("the environment's reset, of an evaluation")
        observation = envs.reset(seed)
        actor.restart(seed)
        gone, cut = np.zeros(envs.num_envs, bool), False
        for t in itertools.count():
            if stopped is not None and stopped():
                raise Stopped
            if t % BLOCK == 0:
                actor.begin(t, BLOCK)
            action, extras = actor(observation, t % BLOCK, 0)
            doing("the environment's step, of an evaluation")
            before = observation
            observation, reward, terminated, truncated = envs.step(action)
            if recorder is not None:
                agents = len(gone) // self._num_envs
                wants = np.repeat(tally.wants, agents) & ~gone  # only agents that have not left
                numbers = _row(reward), _row(terminated), _row(truncated), _row(wants)
                log_prob = _row(extras[0]) if extras else None  # of a policy that draws its actions
                columns = _row(before, observation), _row(action)
                recorder.add(t * self._num_envs, *columns, *numbers, log_prob=log_prob, agents=agents)
            actor.forget(gone)
            paid = own.of_step(before, reward, gone, observation)
            gone = terminated | truncated  # [rows]
            tally.add(reward, gone, envs.team_share, paid)
            if truncated.any():
                cut |= bool((tally.by_env(truncated).any(1) & (tally.length >= envs.step_limit)).any())
            if tally.complete:
                break
        if cut:
            what = (
                "evaluation episodes were cut after %d steps: %s has no limit (max_episode_steps gives one)"
            )
            log.warning(what, envs.step_limit, self._env_id)
        found = tally.evaluation()
        self._warn_of_missing([key for key in keys if key not in found.measures], tally.last_info)
        return found

    def _warn_of_missing(self, keys: Sequence[str], info: Any) -> None:
        """Says, once, which keys no episode's last info had as a number. info: one of these."""
        told = info.items() if isinstance(info, Mapping) else ()
        known = [str(key) for key, each in told if number_of(each) is not None]
        what = "eval/%s is left out: the info of an episode's last step has no number of that name (%s)"
        for key in keys:
            if key not in self._warned:
                log.warning(what, key, nearest(key, known))
        self._warned.update(keys)

    def close(self) -> None:
        self._envs.close()


class _Tally:
    """The episodes of B environments, of which each plays a number that is fixed beforehand.

    Args:
        episodes: how many all of them play together.
        count: B.
        keys: of the infos of last steps (`rl.envs.measures`).
        agents: names of A agents, whose own returns are measures; empty: there is one.

    Attributes:
        length: [B] steps of the running episodes.
        last_info: of the newest episode that ended; None where infos are not told.
    """

    def __init__(self, episodes: int, count: int, keys: Sequence[str], agents: Sequence[str] = ()):
        self._agents, self._own = agents, np.zeros((count, len(agents)))  # _own: sums of running episodes
        self._keys, self._infos = keys, dict[int, Any]()  # _infos: of the step under way, by environment
        self.last_info: Any = None
        self._wanted = np.array([len(range(i, episodes, count)) for i in range(count)])
        # Of each environment, (return, length, measures) of its episodes.
        self._played: list[list[tuple[float, float, dict[str, float]]]] = [[] for _ in range(count)]
        self._total, self.length, self._ended = np.zeros(count), np.zeros(count), np.zeros(count, bool)
        self._any_ended = False

    def by_env(self, rows: np.ndarray) -> np.ndarray:
        """Returns rows, each an agent's, as [B, agents]."""
        return rows.reshape(len(self._played), -1)

    @property
    def wants(self) -> np.ndarray:
        """Where the next step is one of an episode that counts, [B] bool."""
        return ~self._ended & (np.array([len(each) for each in self._played]) < self._wanted)

    @property
    def complete(self) -> bool:
        """Whether all episodes have been played."""
        return all(len(each) >= n for each, n in zip(self._played, self._wanted, strict=True))

    def tell(self, env: int, info: Any) -> None:
        """Is told of the info of the step which ends the episode of environment number `env`, before `add` is
        told of that step."""
        self._infos[env] = self.last_info = info

    def add(self, reward: np.ndarray, gone: np.ndarray, share: float, own: np.ndarray) -> None:
        """Adds a step. reward, gone: of each row, the reward and whether its episode is over; share: the
        factor that turns the sum of the agents' rewards into the team's reward; own: rewards [B, A]."""
        self.length += 1.0
        if self._any_ended:  # this step is a reset, and belongs to no episode
            self._total[self._ended] = self.length[self._ended] = 0.0
            self._own[self._ended] = 0.0
        if self._agents:
            self._own += own
        self._total += self.by_env(reward).sum(1) * share
        self._any_ended = bool(gone.any())
        if not self._any_ended:  # nearly every step
            self._ended[:] = False
            return
        self._ended = np.all(self.by_env(gone), 1)
        for i in np.flatnonzero(self._ended):
            measures = measures_of(self._infos.pop(int(i), None), self._keys)
            returns = zip(self._agents, self._own[i].tolist(), strict=True)
            measures |= {f"return_{name}": each for name, each in returns}
            self._played[i].append((float(self._total[i]), float(self.length[i]), measures))

    def evaluation(self) -> Evaluation:
        """Returns the episodes that were wanted, in the order in which they were seeded."""
        pairs = zip(self._played, self._wanted, strict=True)
        chosen = [each[:n] for each, n in pairs]
        order = [each[j] for j in range(max(map(len, chosen))) for each in chosen if j < len(each)]
        returns, lengths, told = zip(*order, strict=True)
        names = dict.fromkeys(name for each in told for name in each)
        measures = {name: np.array([each.get(name, np.nan) for each in told]) for name in names}
        return Evaluation(np.array(returns), np.array(lengths), measures)


def _row(*nests: Any) -> Any:
    """Returns one nest of arrays [steps, B, ...]."""
    return optree.tree_map(lambda *leaves: np.stack(leaves), *nests)


def _check_spaces(agent: Agent[Any], envs: HostEnv) -> None:
    """Raises UsageError where this id has other spaces in the training backend than in Gymnasium."""
    pairs = ((agent.observation_space, envs.observation_space), (agent.action_space, envs.action_space))
    hparams = agent.hparams
    if hparams.offline:
        check_same_spaces(hparams, *zip(*pairs, strict=True))
    for trained, evaluated in pairs:
        if space_spec(trained) != space_spec(evaluated):
            raise UsageError(
                f"{hparams.env} has other spaces where it is trained ({trained}) than where it is "
                f"evaluated ({evaluated}): take env_backend={envs.backend}"
            )
