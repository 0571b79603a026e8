"""Evaluations, tests, films and loaded policies that draw their actions, or take the best ones."""

from __future__ import annotations

import csv
import shutil

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from small_runs import TINY
from stop_after import StopAfter
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import rl
from rl import experiment
from rl.agents.algos.registry import get_algo
from rl.errors import UsageError
from rl.hparams.merge import resolve
from rl.request import Request
from rl.runners.actor import Actor
from rl.runners.evaluate import Evaluation, Evaluator
from rl.runners.kept import Kept
from rl.runners.player import Player
from rl.storage.storage import Storage

EPISODES = 20
TINY = TINY | {
    "env": "BothDoors-v0",
    "lr": 1e-9,  # the policy stays as it began: nearly even
    "train_steps": 32,
    "compile": "eager",  # a few iterations: compiling takes longer
    "model": {"hidden": (4,)},
}


class BothDoors(gymnasium.Env):
    """Ten steps that all look alike; whoever has taken both actions gets 1 at the end. The best action of a
    policy, which is always the same one, gets nothing."""

    observation_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, render_mode=None):
        self.taken = []

    def reset(self, *, seed=None, options=None):
        self.taken = []
        return np.ones(1, np.float32), {}

    def step(self, action):
        self.taken.append(int(action))
        done = len(self.taken) == 10
        return np.ones(1, np.float32), float(done and len(set(self.taken)) == 2), done, False, {}


@pytest.fixture(scope="module", autouse=True)
def both_doors():
    gymnasium.register("BothDoors-v0", entry_point=BothDoors, max_episode_steps=20)
    yield
    del gymnasium.registry["BothDoors-v0"]


@pytest.fixture(scope="module")
def trained(both_doors, tmp_path_factory):
    """A run for each policy of evaluations."""
    folder = tmp_path_factory.mktemp("trained")
    options = {"seed": 3, "eval_episodes": EPISODES, **TINY}
    return {
        policy: rl.train("ppo", output_dir=folder / policy, eval_policy=policy, **options)
        for policy in ("greedy", "sample")
    }


def rows(run):
    with open(run.run_dir / "metrics.csv", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_the_policy_asked_for_is_evaluated_and_at_the_end_the_other_one_too(trained):
    expected = {"greedy": (0.0, "eval/return_mean_sampled"), "sample": (1.0, "eval/return_mean_greedy")}
    for policy, (mean, other) in expected.items():
        run, table = trained[policy], rows(trained[policy])
        assert [float(row["eval/return_mean"]) for row in table] == pytest.approx([mean, mean], abs=0.2)
        assert table[0][other] == "" and float(table[1][other]) == pytest.approx(1.0 - mean, abs=0.2)
        assert run.best_return == pytest.approx(mean, abs=0.2)
        events = EventAccumulator(str(run.run_dir)).Reload()
        assert [each.step for each in events.Scalars(other)] == [32]
    # The same training: only evaluations differ.
    losses = [[row["train/loss"] for row in rows(run)] for run in trained.values()]
    assert losses[0] == losses[1]


def test_a_loaded_policy_acts_and_is_evaluated_as_its_run_was_or_as_is_asked(trained):
    greedy, sample = (trained[policy].policy() for policy in ("greedy", "sample"))
    assert greedy.evaluate(EPISODES).returns.mean() == 0.0
    assert sample.evaluate(EPISODES).returns.mean() >= 0.8
    sampled = rl.load(trained["greedy"].run_dir, eval_policy="sample")
    found = [sampled.evaluate(EPISODES, seed).returns for seed in (1, 1)]
    np.testing.assert_array_equal(*found)
    assert found[0].mean() >= 0.8
    assert len({int(greedy([1.0])) for _ in range(20)}) == 1
    calls = [
        [int(each([1.0])) for _ in range(20)]
        for each in (sampled, trained["greedy"].policy("best", "sample"))
    ]
    assert set(calls[0]) == {0, 1} and calls[0] == calls[1], "the same calls draw the same actions"
    with pytest.raises(UsageError, match="eval_policy='sampled': needs one of greedy, sample"):
        rl.load(trained["greedy"].run_dir, eval_policy="sampled")


def outcome_of(run_dir, policy):
    """What the command line's test of a run finds."""
    request = Request(resolve("ppo", TINY), test_episodes=EPISODES, eval_policy=policy)
    return experiment.play_tests(request, run_dir, StopAfter(), str(run_dir), Kept())


@pytest.mark.parametrize(("biases", "plays"), [((1.0, 1.0), 1), ((1.0, 2.0), 2)])
def test_the_same_weights_are_tested_once_and_others_each(trained, monkeypatch, biases, plays):
    played, run, weights = [], Evaluator.run, iter(biases)
    monkeypatch.setattr(Evaluator, "run", lambda *words: (played.append(1), run(*words))[1])

    def read(agent, *_):
        agent.network.policy.bias.assign([next(weights), 0.0])
        return 0

    monkeypatch.setattr("rl.runners.test_episodes.read_weights", read)
    tests = outcome_of(trained["greedy"].run_dir, None)
    assert len(played) == plays and (tests["best"] is tests["last"]) == (plays == 1)


def test_the_test_and_its_summary_show_both_where_they_differ(trained):
    run_dir = trained["greedy"].run_dir
    for policy, titles in ((None, "sampled"), ("sample", "greedy")):
        tests = outcome_of(run_dir, policy)
        row = experiment._summary(Request(None), Storage(run_dir), None, tests)
        means = {title: float(text.split()[0]) for title, text in row.items() if title.startswith("return")}
        first, second = (0.0, 1.0) if policy is None else (1.0, 0.0)
        assert means == {
            "return, best checkpoint": pytest.approx(first, abs=0.2),
            "return, last checkpoint": pytest.approx(first, abs=0.2),
            f"return, last checkpoint, {titles}": pytest.approx(second, abs=0.2),
        }


def test_a_test_that_asks_for_no_policy_plays_the_runs_own(trained):
    tests = outcome_of(trained["sample"].run_dir, None)
    assert tests["last"].returns.mean() >= 0.8 and tests["greedy"].returns.mean() == 0.0


# A mean over 8 episodes with standard deviation 1 has the standard error 0.354, the difference of two 0.5.
@pytest.mark.parametrize(("shift", "shown"), [(0.9, False), (-0.9, False), (1.1, True), (-1.1, True)])
def test_a_difference_within_the_noise_is_not_shown(shift, shown):
    returns = np.array([-1.0, 1.0] * 4)
    tests = {"last": Evaluation(returns, np.ones(8)), "sampled": Evaluation(returns + shift, np.ones(8))}
    row = experiment._summary(Request(None), Storage("runs/x/run_0"), None, tests)
    assert ("return, last checkpoint, sampled" in row) == shown


def test_a_film_shows_the_policy_that_is_evaluated(trained):
    for policy, result in (("greedy", {0.0}), ("sample", {1.0})):
        player = Player(trained[policy].policy().agent, "human")  # which draws nothing here
        returns = [player.play(seed).episode_return for seed in (1, 2, 1)]
        player.close()
        assert set(returns) == result


def test_a_run_may_go_on_with_another_policy_of_evaluations(trained, tmp_path):
    shutil.copytree(trained["greedy"].run_dir, tmp_path / "run_0")
    options = {"output_dir": tmp_path, "seed": 3, "eval_episodes": EPISODES, "eval_policy": "sample"}
    run = rl.train("ppo", **options, **TINY | {"train_steps": 48})
    assert [float(row["eval/return_mean"]) > 0.5 for row in rows(run)] == [False, False, True]


MASKED = spaces.Dict(
    {"observation": spaces.Box(-1, 1, (3,), np.float32), "action_mask": spaces.MultiBinary(3)}
)
BOX, REAL = spaces.Box(-1, 1, (3,), np.float32), spaces.Box(-2.0, 2.0, (2,), np.float32)


@pytest.mark.parametrize(
    ("name", "observation_space", "action_space", "model"),
    [
        ("ppo", MASKED, spaces.Discrete(3), {"name": "lstm", "hidden": (4,), "recurrent_units": 4}),
        ("ppo", BOX, REAL, {"hidden": (4,)}),
        ("sac", BOX, REAL, {"hidden": (4,)}),
    ],
)
def test_both_ways_of_acting_draw_the_same_legal_actions(name, observation_space, action_space, model):
    hparams = resolve(name, {"env": "Test-v0", "model": model})
    agent = get_algo(name)(hparams, observation_space, action_space, 0)
    draw = np.random.default_rng(0)
    observations = draw.uniform(-1, 1, (5, 16, 3)).astype(np.float32)
    if observation_space is MASKED:
        mask = np.tile(np.int8([1, 0, 1]), (16, 1))
        observations = [{"observation": each, "action_mask": mask} for each in observations]
    actors = {
        key: Actor(agent, 16, False, 7, key[0], sampled=key[1])
        for key in (("litert", True), ("compiled", True), ("litert", False))
    }
    actions = {}
    for key, actor in actors.items():
        assert actor.backend == key[0]
        actor.begin(0, 5)
        actions[key] = np.array([actor(each, t, 0)[0] for t, each in enumerate(observations)])
    drawn = actions["litert", True]
    np.testing.assert_allclose(drawn, actions["compiled", True], atol=1e-4)
    assert (drawn != actions["litert", False]).mean() > 0.2
    if observation_space is MASKED:
        assert set(drawn.reshape(-1).tolist()) == {0, 2}


@pytest.mark.parametrize(
    ("name", "action_space", "message"),
    [
        (
            "dqn",
            spaces.Discrete(3),
            r"dqn with act_select epsilon_greedy learns no .* \(evaluation_epsilon=0.05",
        ),
        ("td3", REAL, "td3 with act_select gaussian_noise learns no distribution .*, take greedy$"),
        ("es", spaces.MultiDiscrete([2, 2]), "es with act_select greedy learns no distribution"),
    ],
)
def test_a_policy_without_a_distribution_is_not_asked_for_samples(name, action_space, message):
    hparams = resolve(name, {"env": "Test-v0", "eval_policy": "sample", "model": {"hidden": (4,)}})
    with pytest.raises(UsageError, match=message):
        get_algo(name)(hparams, BOX, action_space, 0)
