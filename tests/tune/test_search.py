"""The search, with processes that only write down what a run would have come to."""

from __future__ import annotations

import types
from pathlib import Path

import optuna
import pytest
from optuna.trial import TrialState
from stop_after import StopAfter

from rl.errors import GivenUp, Unavailable, UsageError
from rl.hparams.ppo import ppo_cartpole
from rl.hparams.spaces import space_of
from rl.tune import __main__ as tune
from rl.tune import judge, search
from rl.tune.runs import Command, difference

SPACE = "lr=log:1e-4:1e-2,epochs=1:8"
STEPS = 100_000  # of ppo_cartpole
PERIOD = STEPS // 4


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    for module in (search, judge):
        monkeypatch.setattr(module, "POLL", 0.0)


def goodness(words):
    """What a run of these values comes to: the best is at lr=1e-3, epochs=5."""
    values = dict(word.split("=") for word in words)
    lr, epochs = (
        float(values.get("lr", 1e-3)),
        int(values.get("epochs", 5)),
    )  # of the set where it has its own
    return 500.0 - abs(lr - 1e-3) * 1e5 - 10.0 * abs(epochs - 5)


class Fake:
    """A run of four evaluations, one at each look."""

    started: list[Command]
    ends = 0  # exit code of those that come to their end

    def __init__(self, command, cores):
        self.command, self.copy, self.asked = command, 0, False
        self.started.append(command)
        self.value = goodness(command.words)

    def poll(self):
        if self.asked:
            return 143
        folder = self.command.folder / f"run_{self.copy}"
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / "metrics.csv"
        lines = file.read_text().splitlines() if file.exists() else ["step,eval/return_mean"]
        if len(lines) > 4:
            return self.ends
        lines.append(f"{len(lines) * PERIOD},{self.value}")
        file.write_text("\n".join(lines) + "\n")
        return None

    def stop(self):
        self.asked = True


@pytest.fixture
def fake(monkeypatch):
    kind = type("Kind", (Fake,), {"started": []})
    return kind


@pytest.fixture
def plan(tmp_path):
    def command(number, values):
        return Command(tuple(f"{key}={text}" for key, text in values.items()), tmp_path / f"trial_{number}")

    hparams = ppo_cartpole(eval_period=PERIOD).freeze()
    space = {name: each for name, each in space_of(hparams, SPACE).items() if name in ("lr", "epochs")}
    return search.Plan(hparams, space, range(1), "last", command, lambda values: "")


def study_of(plan, pruner="none", address=None, folder="test", sampler="tpe"):
    return search.open_study(address, Path(folder), plan, search.make_pruner(pruner, 4), sampler)


def made(study, plan, fake, said, trials=12, places=1):
    return search.Search(study, plan, trials, "tpe", 0, [[]] * places, fake, said.append)


def test_a_search_finds_what_is_better_and_begins_with_the_set_as_it_is(plan, fake):
    study, said = study_of(plan), []
    made(study, plan, fake, said).run(StopAfter())
    best = search.winner(study)
    assert fake.started[0].words == ("lr=0.001", "epochs=5") and best.number == 0 and best.value == 500.0
    assert len(fake.started) == len(study.trials) == 12
    assert "(best 500.0, trial 0; 12 of 12)" in said[-1]
    lr = search.values_of(best, plan.space)["lr"]
    assert lr == "0.001" and all(len(each.words[0]) <= len("lr=0.0001234") for each in fake.started)


def test_a_search_that_was_stopped_goes_on_and_proposes_what_it_would_have(plan, fake, tmp_path):
    whole, said = study_of(plan), []
    made(whole, plan, fake, []).run(StopAfter())
    expected = [each.words for each in fake.started]
    fake.started.clear()
    command = plan.command

    def elsewhere(number, values):
        return command(number, values)._replace(folder=tmp_path / f"again_{number}")

    plan = plan._replace(command=elsewhere)
    left = study_of(plan)
    made(left, plan, fake, said).run(StopAfter(33))
    assert [each.number for each in left.trials if each.state is TrialState.RUNNING] == [6]
    made(left, plan, fake, said).run(StopAfter())
    assert "trial 6: goes on from its checkpoint" in said
    del fake.started[7]  # trial 6 a second time
    assert [each.words for each in fake.started] == expected
    assert [each.value for each in left.trials] == [each.value for each in whole.trials]


def test_a_trial_that_was_killed_while_it_was_proposed_goes_on(plan, fake):
    study = study_of(plan)
    study.ask().suggest_float("lr", 1e-4, 1e-2, log=True)  # epochs were not written any more
    made(study, plan, fake, [], trials=2).run(StopAfter())
    assert fake.started[0].words == ("lr=0.001", "epochs=5")
    assert [each.state for each in study.trials] == [TrialState.COMPLETE] * 2


def test_what_the_space_has_not_stays_the_sets_own_in_the_first_trial(plan, fake):
    space = space_of(plan.hparams, "lr=log:2e-3:1e-2,epochs=[1,2]")
    plan = plan._replace(space={name: space[name] for name in ("lr", "epochs")})
    study, said = study_of(plan), []
    made(study, plan, fake, said, trials=4).run(StopAfter())
    assert [len(each.words) for each in fake.started] == [0, 2, 2, 2]
    assert search.winner(study).number == 0 and search.values_of(search.winner(study), plan.space) == {}
    assert study.trials[0].params["lr"] == 2e-3  # the nearest, as the sampler is told
    assert study_of(plan, sampler="grid").trials == []  # of a grid every point is tried, and no other


def test_the_curve_is_the_mean_of_all_evaluations_of_all_runs(plan, fake, tmp_path):
    plan = plan._replace(seeds=range(2), objective="curve")
    for copy, values in enumerate(((0.0, 0.0, 100.0), (4.0, 0.0, 0.0))):
        (tmp_path / f"run_{copy}").mkdir()
        rows = [f"{(i + 1) * PERIOD},{value}" for i, value in enumerate(values)]
        (tmp_path / f"run_{copy}/metrics.csv").write_text("\n".join(["step,eval/return_mean", *rows]) + "\n")
    assert made(study_of(plan), plan, fake, [])._curve(tmp_path) == pytest.approx(104.0 / 6.0)


def test_searches_of_other_seeds_propose_otherwise(plan, fake):
    def proposed(seed):
        fake.started.clear()
        searched = search.Search(study_of(plan), plan, 6, "random", seed, [[]], fake, lambda line: None)
        searched.run(StopAfter())
        return {each.words for each in fake.started[1:]}

    assert not proposed(0) & proposed(1)


def test_trials_that_are_worse_than_the_median_end_early(plan, fake):
    study, said = study_of(plan, "median"), []
    made(study, plan, fake, said, trials=20, places=2).run(StopAfter())
    pruned = [each for each in study.trials if each.state is TrialState.PRUNED]
    assert pruned and all(len(each.intermediate_values) < 4 for each in pruned)
    assert sum("ended early" in line for line in said) == len(pruned)


@pytest.mark.parametrize("written", [2, 5])
def test_what_is_proposed_does_not_depend_on_how_often_a_trial_is_looked_at(plan, fake, written):
    class Fast(fake):
        def poll(self):
            return [super(Fast, self).poll() for _ in range(written)][-1]

    def search_of(kind):
        fake.started.clear()
        study = study_of(plan, "median")
        made(study, plan._replace(command=lambda *of: new(kind, *of)), kind, [], trials=25).run(StopAfter())
        return [(each.state, each.intermediate_values, each.params) for each in study.trials]

    def new(kind, number, values):
        command = plan.command(number, values)
        return command._replace(folder=command.folder.with_name(f"{kind.__name__}_{number}"))

    assert search_of(Fast) == search_of(fake)


def test_a_trial_of_an_older_study_is_told_the_numbers_that_it_lacks(plan, fake, tmp_path):
    """Older versions counted the evaluations that there were, whatever their steps."""
    study = study_of(plan)
    searched = made(study, plan, fake, [])
    searched._fill(searched._places[0])
    searched._places[0].trial.report(75_000.0, 0)
    (tmp_path / "trial_0" / "run_0").mkdir(parents=True)
    rows = "".join(f"{step},{step}.0\n" for step in (75_000, 76_000, 100_000))
    (tmp_path / "trial_0" / "run_0" / "metrics.csv").write_text(f"step,eval/return_mean\n{rows}")
    searched._report(searched._places[0])
    searched._report(searched._places[0])
    assert study.trials[0].intermediate_values == {0: 75_000.0, 2: 75_000.0, 3: 100_000.0}


@pytest.mark.parametrize(("code", "tries", "state"), [(-9, 3, "FAIL"), (1, 1, "FAIL"), (3, 1, "PRUNED")])
def test_processes_that_are_lost_are_started_again_and_others_are_not(plan, fake, code, tries, state):
    study = study_of(plan)
    good = fake.ends
    fake.ends = code
    searched = made(study, plan, fake, [], trials=2)
    searched._fill(searched._places[0])
    while searched._places[0].trial is not None:
        searched._look(searched._places[0])
    assert len(fake.started) == tries and study.trials[0].state is TrialState[state]
    fake.ends = good
    searched.run(StopAfter())
    assert study.trials[1].state is TrialState.COMPLETE


def test_a_disk_that_is_full_ends_a_search_with_75_and_no_trial(plan, fake):
    study, good = study_of(plan), fake.ends
    fake.ends = 75
    with pytest.raises(Unavailable, match=r"trial 0: .*; the same command goes on with it"):
        made(study, plan, fake, [], trials=2).run(StopAfter())
    assert len(fake.started) == 3 and study.trials[0].state is TrialState.RUNNING
    fake.ends = good
    made(study, plan, fake, [], trials=2).run(StopAfter())
    assert [each.state for each in study.trials] == [TrialState.COMPLETE] * 2


@pytest.mark.parametrize(("code", "error"), [(75, Unavailable), (3, GivenUp), (1, UsageError)])
def test_a_judgement_ends_as_its_runs_do(plan, fake, tmp_path, code, error):
    fake.ends = code
    sides = [judge.Side(name, [Command((), tmp_path / name)], STEPS) for name in ("set", "found")]
    with pytest.raises(UsageError if error is Unavailable else error) as caught:
        judge.judge(sides, [[]], fake, types.SimpleNamespace(requested=False), lambda line: None)
    assert type(caught.value) is error


def test_evaluations_come_as_often_as_they_are_asked_for(tmp_path, monkeypatch):
    """They stand at the rows of metrics, which come at each of them then."""
    monkeypatch.chdir(tmp_path)
    words = ["ppo_cartpole", "--population", "2", "--generations", "8", "--train_steps", "16384"]
    asked = tune._asked(words)
    assert asked.hparams.eval_period == asked.hparams.log_period == 2_048
    assert tune._asked(["ppo_cartpole"]).hparams.log_period == ppo_cartpole().log_period


def test_a_trial_whose_last_return_is_not_finite_counts_as_bad_and_not_by_the_one_before(plan, fake):
    class Infinite(fake):
        def poll(self):
            code, file = super().poll(), self.command.folder / "run_0" / "metrics.csv"
            lines = file.read_text().splitlines()
            if len(lines) == 5 and "trial_1" in str(file):
                file.write_text("\n".join([*lines[:4], f"{STEPS},inf"]) + "\n")
            return code

    study = study_of(plan)
    made(study, plan, Infinite, [], 3).run(StopAfter())
    states = [each.state for each in study.trials]
    assert states == [TrialState.COMPLETE, TrialState.PRUNED, TrialState.COMPLETE]


def test_a_search_of_which_all_trials_fail_is_given_up(plan, fake):
    fake.ends = 2
    with pytest.raises(UsageError, match="all trials failed"):
        made(study_of(plan), plan, fake, []).run(StopAfter())
    assert len(fake.started) == 3


def test_a_grid_is_tried_once_and_no_more(plan, fake):
    space = {name: each for name, each in space_of(plan.hparams, "lr=[1e-3,1e-2],epochs=4:5").items()}
    plan = plan._replace(space={name: space[name] for name in ("lr", "epochs")})
    searched = search.Search(study_of(plan), plan, 4, "grid", 0, [[]] * 2, fake, lambda line: None)
    searched.run(StopAfter())
    assert len({each.words for each in fake.started}) == len(fake.started) == 4


def test_values_that_do_not_fit_together_are_not_trained(plan, fake):
    plan = plan._replace(refused=lambda values: "does not fit" if values["epochs"] != "5" else "")
    study, said = study_of(plan), []
    made(study, plan, fake, said, trials=6).run(StopAfter())
    assert all("epochs=5" in each.words for each in fake.started) and len(study.trials) == 6
    assert any("not trained: does not fit" in line for line in said)


def test_another_search_is_refused_in_the_same_study(plan, tmp_path):
    address = f"sqlite:///{tmp_path / 'study.db'}"
    study_of(plan, address=address)
    for changed in ({"seeds": range(2)}, {"eval_episodes": 30}, {"num_workers": 2}):
        with pytest.raises(UsageError, match=rf"another search \({next(iter(changed))} differs\)"):
            study_of(plan._replace(**changed), address=address)


def test_searches_of_other_folders_do_not_take_each_others_trials(plan, tmp_path):
    address = f"sqlite:///{tmp_path / 'study.db'}"
    mine, moved, others = (tmp_path / each / "tune" for each in ("mine", "moved", "others"))
    mine.mkdir(parents=True)
    study_of(plan, address=address, folder=mine)
    study_of(plan, address=address, folder=mine)
    with pytest.raises(UsageError, match=rf"its tune is the search of {mine}: repeat its --output_dir"):
        study_of(plan, address=address, folder=others)
    mine.rmdir()
    study_of(plan, address=address, folder=moved)


def test_other_seeds_are_judged_in_other_folders(tmp_path):
    one, other = (judge.commands(("--lr", "1"), seeds, tmp_path) for seeds in (range(5, 7), range(6, 8)))
    assert one[0] == Command(("--lr", "1", "--seed", "5"), tmp_path / "seed_5") and one[1] == other[0]


def test_both_sides_are_judged_once(plan, fake, tmp_path):
    def side(name, lr):
        words = (f"lr={lr}", "epochs=5")
        return judge.Side(name, [Command(words, tmp_path / name)] * 1, STEPS)

    sides, said, stop = [side("set", 1e-4), side("found", 1e-3)], [], types.SimpleNamespace(requested=False)
    judged = judge.judge(sides, [[], []], fake, stop, said.append)
    assert judged.returns == {"set": [410.0], "found": [500.0]} and judged.improvement.value == 1.0
    assert "| `found` | 500.0 [500.0, 500.0] | 500.0 |" in judged.lines(range(100, 101))
    assert judge.judge(sides, [[]], fake, stop, said.append) == judged and len(fake.started) == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["ppo_cartpol"], "unknown hparams name 'ppo_cartpol': did you mean"),
        (["ppo_cartpole", "--sampler", "tpee"], "unknown --sampler 'tpee': did you mean tpe"),
        (["ppo_cartpole", "--pruner", "hyper"], "unknown --pruner 'hyper': did you mean hyperband"),
        (
            ["dqn_cartpole", "--space", "act_select=[greddy]"],
            "unknown act_select name 'greddy': did you mean greedy",
        ),
        (["ppo_cartpole", "--seed", "1"], "--seed is none of a search's"),
        (["ppo_cartpole", "--seeds", "100"], "a seed that chose cannot judge"),
        (["ppo_cartpole", "--only"], "say by --space"),
        (["ppo_cartpole", "--hparam_override", "stop_at_return=9"], "make all their steps: add stop_at_ret"),
        (["ppo_cartpole", "--sampler", "grid"], "has no end of values"),
        (["ppo_cartpole", "--generations", "5"], "--generations 5 are of a population"),
        (["ppo_cartpole", "--trials", "0"], "needs an integer >= 1"),
        (["ppo_cartpole", "--trails", "3"], "unknown flag --trails: did you mean --trials"),
        (["ppo_cartpole", "--output_dir", "gs://b/x"], "a folder of this machine"),
        (["ppo_cartpole", "--study", "nosuch://x"], "--study nosuch://x: cannot open it"),
        (
            ["ppo_cartpole", "--space", "env=[CartPole-v1,Acrobot-v1]"],
            "--space env: it changes what is measured",
        ),
        (["ppo_cartpole", "--space", "seed=0:2"], "unknown hparam 'seed'"),
    ],
)
def test_what_is_wrong_is_one_line_and_nothing_is_written(words, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert tune.main(words) == 2
    err = capsys.readouterr().err
    assert said in err and err.startswith("error: ") and err.count("\n") == 1
    assert not [each for each in tmp_path.rglob("*") if each.is_file()]


def test_without_optuna_the_extra_is_named(monkeypatch, capsys):
    monkeypatch.setattr(tune.importlib.util, "find_spec", lambda name: None)
    assert tune.main(["ppo_cartpole"]) == 2
    assert "./setup.sh --extra tune" in capsys.readouterr().err


def test_every_sampler_and_pruner_is_optunas():
    assert all(
        isinstance(search.make_sampler(name, 0), optuna.samplers.BaseSampler) for name in tune.SAMPLERS
    )
    assert all(isinstance(search.make_pruner(name, 9), optuna.pruners.BasePruner) for name in tune.PRUNERS)


def test_hparams_that_are_younger_than_a_search_had_their_defaults_in_it():
    here = {"hparams": ppo_cartpole().to_dict(), "seeds": (0, 1)}
    older = {name: value for name, value in here["hparams"].items() if name != "anneal"}
    assert difference({"hparams": older, "seeds": [0, 1]}, here) is None
    assert difference({"hparams": older | {"lr": 1.0}, "seeds": [0, 1]}, here) == "hparams"
    assert difference({"hparams": older, "seeds": [0]}, here) == "seeds"


def test_returns_below_10_are_told_with_enough_digits_to_tell_them_apart(plan, fake):
    judged = judge.compared({"set": [0.94, 0.93], "found": [0.956, 0.96]})
    lines = judged.lines(range(100, 102))
    assert lines[2] == "| `set` | 0.935 [0.930, 0.940] | 0.940, 0.930 |"
    assert lines[3] == "| `found` | 0.958 [0.956, 0.960] | 0.956, 0.960 |"
    said = []
    kind = type("Small", (fake,), {"poll": _small})
    made(study_of(plan), plan, kind, said, trials=1).run(StopAfter())
    assert "trial 0: 0.957 after" in said[-1] and "best 0.957, trial 0" in said[-1]


def _small(run):
    run.value = 0.957
    return Fake.poll(run)
