"""Environments that raise, hang or return NaN are made anew; training and evaluation know of it."""

from __future__ import annotations

import re

import numpy as np
import pytest
from faulty import Faulty

from rl.envs.faults import Redo, Watched, played
from rl.envs.gym_host import GymHost
from rl.errors import EnvironmentFailed, UsageError


def host(at, wrong, count=2, restarts=3, timeout=30.0, redo=False):
    Faulty.steps, Faulty.at, Faulty.wrong = 0, at, wrong

    def make():
        return GymHost([Faulty() for _ in range(count)])

    return Watched(make(), make, "Faulty-v0", timeout, restarts, redo)


def play(env, steps):
    """The results of so many steps, without the observations."""
    return [
        tuple(each.tolist() for each in env.step(np.zeros(env.num_envs, np.int64))[1:]) for _ in range(steps)
    ]


WELL = ([1.0, 1.0], [False, False], [False, False])
CUT = ([0.0, 0.0], [False, False], [True, True])
BEGUN = ([0.0, 0.0], [False, False], [False, False])
SAID = {
    "raise": r"environment 1 of 2, step 3: ValueError: the simulator is gone \(faulty.py:\d+\)",
    "exit": r"environment 1 of 2, step 3: SystemExit: 0 \(faulty.py:\d+\)",
    "nan": "environment 1 of 2, step 3: the observation is NaN or infinite",
    "infinite": "environment 1 of 2, step 3: the reward is NaN or infinite",
    "shape": r"environment 1 of 2, step 3: .*of shape \[1\], its observation_space says \[2\]",
    "hang": r"environment 1 of 2, step 3: it hangs for more than 0.2 s \(env_timeout\)",
}


@pytest.mark.parametrize("wrong", SAID)
def test_a_step_that_fails_cuts_the_episodes_and_says_why(wrong):
    env = host({6}, wrong, timeout=0.2 if wrong == "hang" else 30.0)
    first = env.reset(0)
    results = play(env, 2)
    failed = env.step(np.zeros(2, np.int64))
    assert failed[0][:, 0].tolist() == [2.0, 2.0]  # what was seen before
    assert [each.tolist() for each in failed[1:]] == list(CUT)
    fresh = env.step(np.ones(2, np.int64))
    assert fresh[0][:, 0].tolist() == [0.0, 0.0] and (fresh[0] != first).any()  # another episode
    results += [tuple(each.tolist() for each in fresh[1:]), *play(env, 1)]
    assert results == [WELL, WELL, BEGUN, WELL]
    (line,) = env.told
    assert re.search("^Faulty-v0: " + SAID[wrong] + r"; all are made anew \(1 of 3 times\)$", line), line
    env.close()


def test_an_episode_that_had_just_ended_is_not_cut():
    env = host({12}, "raise")  # at the autoreset of both, but Faulty counts no resets
    env.reset(0)
    results = play(env, 6)
    assert results[4] == ([1.0, 1.0], [True, True], [False, False]) and results[5] == BEGUN
    assert play(env, 1) == [CUT]  # of the new episodes
    env.close()


def test_environments_that_were_made_anew_tell_of_ends_as_those_before_did():
    env, told = host({6}, "raise"), []
    env.tell_ends(lambda i, info: told.append(i))
    env.reset(0)
    play(env, 4)  # two steps, the cut, which the environments do not tell, and a fresh episode
    assert told == []
    play(env, 5)
    assert told == [0, 1]
    env.close()


def test_a_step_that_failed_has_paid_nothing_to_any_agent_of_a_team():
    pytest.importorskip("pettingzoo")
    from rl.envs.pettingzoo_host import JointHost, TeamEnvs

    def make():
        return JointHost(TeamEnvs("pettingzoo:leaving_team", 1, {"pays": True}))

    env, action = Watched(make(), make, "leaving_team", 30.0, 3), np.zeros((1, 3), np.int64)
    env.reset(0)
    well = env.step(action)[0]
    assert well["reward"].tolist() == [[1.0, 2.0, 3.0]]
    env.env.team.step = None  # which cannot be called
    failed, reward, _, truncated = env.step(action)
    assert failed["state"].tolist() == well["state"].tolist() and truncated.tolist() == [True]
    assert failed["reward"].tolist() == [[0.0, 0.0, 0.0]] and reward.tolist() == [0.0]
    assert env.told[0].startswith("leaving_team: environment 0 of 1, step 2:")
    env.close()


def test_after_too_many_the_run_ends():
    env = host(set(range(5, 100)), "raise", restarts=2)
    env.reset(0)
    play(env, 4)  # two steps, a cut, a fresh episode
    play(env, 2)
    with pytest.raises(
        EnvironmentFailed, match=r"simulator is gone .*; made anew 2 times before \(env_restarts\)"
    ):
        play(env, 2)
    env.close()


def test_what_never_was_an_environment_is_not_made_anew():
    env = host({2}, "shape")
    env.reset(0)
    with pytest.raises(UsageError, match="returned an observation of shape"):
        play(env, 1)
    assert not env.told
    env.close()


def test_what_fails_in_its_first_step_each_time_is_not_made_anew_again_and_again():
    env = host(set(range(100)), "library", restarts=10)
    env.reset(0)
    said = r"step 1: JSONDecodeError: .* \(faulty.py:\d+\); no step was well yet"  # the user's own line
    with pytest.raises(UsageError, match=said):
        play(env, 9)
    assert len(env.told) == 2
    env.close()


def test_a_first_observation_of_nan_each_time_is_not_made_anew_again_and_again(monkeypatch):
    monkeypatch.setattr(Faulty, "reset", lambda self, **_: (np.full(2, np.nan, np.float32), {}))
    env = host(set(), "", restarts=10)
    with pytest.raises(UsageError, match="reset: the observation is NaN or infinite; no step was well yet"):
        env.reset(0)
    assert len(env.told) == 2
    env.close()


def test_an_evaluation_is_played_again():
    env = host({9}, "raise", restarts=9, redo=True)
    calls = []

    def evaluation(seed):
        calls.append(env.reset(seed).tolist())
        results = play(env, 5)
        return sum(sum(reward) for reward, *_ in results)

    assert played(evaluation, 7) == 10.0
    assert len(calls) == 2 and calls[0] == calls[1]  # the same episodes
    Faulty.at = {Faulty.steps + 3, Faulty.steps + 6, Faulty.steps + 9}  # in the same place each time
    assert played(evaluation, 7) == 10.0
    assert calls[2] == calls[3] == calls[0] and calls[4] != calls[0] and calls[5] != calls[4]
    with pytest.raises(Redo):
        Faulty.at = {Faulty.steps + 1}
        play(env, 2)
    env.close()
