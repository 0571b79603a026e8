"""What is compiled serves the runs of other seeds, which are what they would be alone."""

from __future__ import annotations

import contextlib

import pytest
from walked import assert_same, state

from rl.hparams.merge import resolve
from rl.runners.build import build_runner
from rl.runners.kept import Kept


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("ppo_identity", marks=pytest.mark.slow),
        pytest.param("rainbow_identity", marks=pytest.mark.slow),
        "es_identity",
        pytest.param("ppo_tictactoe_selfplay", marks=pytest.mark.slow),
    ],
)
def test_a_runner_that_begins_anew_makes_the_run_of_its_new_seed(name: str) -> None:
    hparams = resolve(name, {"compile": "graph"})
    kept = Kept()
    first = kept.compiled(hparams, build_runner(hparams, 0))
    first.run(3)
    first.agent.guard.resume({"skipped": 1, "in_a_row": 1, "first": "x", "rollbacks": 3, "lr_scale": 0.125})
    kept.keep(hparams, first, None)
    again = kept.compiled(hparams, build_runner(hparams, 7))
    alone = build_runner(hparams, 7)
    assert again is first
    assert_same(state(again), state(alone))
    assert again.run(3) == alone.run(3)
    assert_same(state(again), state(alone))


def test_other_hyperparameters_are_built_anew() -> None:
    kept, hparams = Kept(), resolve("ppo_identity", {})
    first = build_runner(hparams, 0)
    kept.keep(hparams, first, None)
    assert kept.agent_of(hparams) is first.agent
    other = resolve("ppo_identity", {"lr": 0.5})
    assert kept.agent_of(other) is None
    built = build_runner(other, 0)
    assert kept.compiled(other, built) is built


def test_an_evaluator_is_lent_as_long_as_agent_and_episodes_are_the_same() -> None:
    kept, hparams = Kept(), resolve("ppo_identity", {})
    runner = build_runner(hparams, 0)
    mine = kept.take_evaluator(runner.agent, 2)
    kept.keep(hparams, runner, mine)
    with contextlib.closing(kept):
        with kept.evaluator_of(runner.agent, 2) as found:
            assert found is mine
        with kept.evaluator_of(runner.agent, 3) as found:
            assert found is not mine
