"""What callbacks are told, and how they and `stop_at_return` end a run."""

from __future__ import annotations

import csv
import re

import pytest
from small_runs import TINY

import rl
from rl.report.callbacks import Calls
from rl.runners.trainer import Trainer
from rl.saved_run import best_return

SEEN = [1.0, 0.0, 0.0, 0.0]  # an observation of Identity-v0


class Kept(rl.Callbacks):
    """Keeps what it is told, and asks for the end at a step."""

    def __init__(self, until=None, error=None):
        self.starts, self.rows, self.evaluations, self.checkpoints = [], [], [], []
        self.until, self.error = until, error

    def on_start(self, step, policy):
        self.starts.append(step)
        self.policy, self.before = policy, policy.scores(SEEN)

    def on_evaluation(self, step, evaluation):
        self.evaluations.append((step, evaluation.returns.mean()))

    def on_row(self, step, row):
        if step == self.error:
            raise RuntimeError("of the caller's own")
        row["custom/score"] = self.policy.scores(SEEN)[0]
        self.rows.append((step, row))
        return step == self.until

    def on_checkpoint(self, step, folder):
        self.checkpoints.append((step, folder.name, (folder / "manifest.json").is_file()))


def trained(folder, callbacks=None, **overrides):
    settings = {**TINY, "eval_period": 32, "train_steps": 64} | overrides
    return rl.train("ppo_identity", output_dir=folder, eval_episodes=2, callbacks=callbacks, **settings)


def test_rows_evaluations_and_checkpoints_are_told_as_they_are_written(tmp_path, monkeypatch):
    kept, other = Kept(), Kept()
    run = trained(tmp_path, [kept, other])
    with open(run.run_dir / "metrics.csv", newline="") as file:
        written = list(csv.DictReader(file))
    assert [step for step, _ in kept.rows] == [int(each["step"]) for each in written] == [16, 32, 48, 64]
    for (_, row), line in zip(kept.rows, written, strict=True):
        assert float(line["train/loss"]) == pytest.approx(row["train/loss"], rel=1e-6)
    assert [step for step, _ in kept.evaluations] == [32, 64]
    frame = run.metrics()
    assert frame.index.tolist() == [16, 32, 48, 64]
    assert frame["train/loss"].tolist() == pytest.approx(
        [row["train/loss"] for _, row in kept.rows], rel=1e-6
    )
    assert frame["eval/return_mean"].isna().tolist() == [True, False, True, False]
    lines = run.plot("train/loss").subfigs[0].axes[0].lines
    assert [line.get_xdata().tolist() for line in lines] == [[16, 32, 48, 64]]
    with pytest.raises(rl.UsageError, match="did you mean train/loss"):
        run.plot("train/los")
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    columns = run.metrics()
    assert columns["step"].tolist() == [16.0, 32.0, 48.0, 64.0] and list(columns)[1:] == list(frame)
    assert [mean for _, mean in kept.evaluations] == [row["eval/return_mean"] for _, row in kept.rows[1::2]]
    assert kept.checkpoints == [(64, "step_000000000064", True)]
    assert (kept.starts, other.rows, other.checkpoints) == ([0], kept.rows, kept.checkpoints)


def test_the_policy_that_callbacks_see_is_the_one_that_learns_and_what_they_add_to_a_row_is_written(tmp_path):
    class Acts(Kept):
        def on_row(self, step, row):
            action = int(self.policy(SEEN))
            assert action == self.policy.scores(SEEN).argmax()
            return super().on_row(step, row)

    kept = Acts()
    run = trained(tmp_path, kept, lr=0.05)
    scores = run.metrics()["custom/score"].tolist()
    assert len({kept.before[0].item(), *scores}) == 5  # before, and after each of four windows
    assert scores[-1] == pytest.approx(run.policy("last").scores(SEEN)[0], rel=1e-6)


@pytest.mark.slow
def test_a_run_ends_when_a_callback_asks_and_goes_on_as_if_it_had_not(tmp_path, assert_same_bits):
    asked = trained(tmp_path / "asked", Kept(until=32))
    assert asked.step == 32 and asked.result.exit_code == 0
    whole, rest = trained(tmp_path / "whole"), trained(tmp_path / "asked")
    weights = [
        {name: each.numpy() for name, each in run.policy("last").agent.policy_variables.items()}
        for run in (whole, rest)
    ]
    assert rest.step == 64
    assert_same_bits(*weights)


def test_an_error_of_a_callback_ends_the_run_after_a_checkpoint(tmp_path):
    with pytest.raises(RuntimeError, match="of the caller's own"):
        trained(tmp_path, Kept(error=32))
    assert (tmp_path / "run_0/checkpoints/step_000000000032/manifest.json").is_file()
    assert "\n32," in (tmp_path / "run_0/metrics.csv").read_text()  # with the row of that step


@pytest.mark.parametrize("value", ["good", None, [1.0, 2.0]])
def test_what_is_put_into_a_row_and_is_no_number_is_named(value):
    class Notes(rl.Callbacks):
        def on_row(self, step, row):
            row["custom/note"] = value

    with pytest.raises(TypeError, match=re.escape(f"a callback put {value!r} into a row as 'custom/note'")):
        Calls([Notes()]).row(16, {"train/loss": 1.0})


@pytest.mark.slow
def test_a_return_that_is_good_enough_ends_the_run(tmp_path):
    run = trained(tmp_path, stop_at_return=0.0)  # Identity-v0 pays no less
    assert run.step == 32 and run.best_return >= 0.0
    assert run.metrics()["eval/return_mean_sampled"].notna().tolist() == [False, True]  # of the last
    assert trained(tmp_path, stop_at_return=0.0).step == 32
    assert trained(tmp_path, stop_at_return=21.0).step == 64  # 20 at best


def test_a_run_killed_after_the_evaluation_that_was_good_enough_makes_its_row_all_the_same(
    tmp_path, monkeypatch
):
    def killed(trainer, *_):
        if trainer.best_return is not None:  # the best policy is written, the row is not
            raise KeyboardInterrupt

    goal = {"stop_at_return": 0.0, "checkpoint_period": 0.0}
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Trainer, "_film", killed)
        trained(tmp_path, **goal)
    assert best_return(tmp_path / "run_0") >= 0.0
    for _ in range(2):  # it goes on, and is over then
        run = trained(tmp_path, **goal)
        assert run.step == 32 and run.metrics()["eval/return_mean"].notna().tolist() == [False, True]


@pytest.mark.slow
def test_hparams_are_made_to_be_changed_and_trained(tmp_path):
    hparams = rl.make_hparams("ppo_identity", lr=1e-3, **TINY)
    hparams.train_steps = 16
    run = rl.train(hparams, output_dir=tmp_path, eval_episodes=2)
    assert (hparams.lr, run.step) == (1e-3, 16)


@pytest.mark.parametrize(
    ("name", "method", "said"),
    [
        ("_on_step", lambda self: True, r"Own\._on_step would never be called: did you mean on_st"),
        ("on_evaluate", lambda self, *_: None, r"on_evaluate would never .*: did you mean on_evaluation"),
        ("on_row", lambda self: None, r"Own\.on_row is called with \(self, step, row\)"),
    ],
)
def test_a_method_that_could_never_be_called_is_refused_before_the_run_begins(tmp_path, name, method, said):
    own = type("Own", (rl.Callbacks,), {name: method})()
    with pytest.raises(rl.UsageError, match=said):
        trained(tmp_path / "out", own)
    assert not (tmp_path / "out").exists()
