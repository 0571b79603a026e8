"""From Python: `rl.train` and `rl.load`. From the shell: `train.py` as a user types it."""

from __future__ import annotations

import csv
import json
import shutil
import signal
import time

import gymnasium
import imageio.v3 as imageio
import numpy as np
import pytest

import rl
from rl.cli import main
from rl.errors import UsageError
from rl.hparams.hparams import HParams
from rl.hparams.merge import resolve
from rl.storage.checkpoint import CheckpointManager, read_manifest

QUICK = {"compile": "graph", "train_steps": 2_048, "eval_period": 1_024, "eval_episodes": 3}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A short run of PPO on Identity-v0."""
    folder = tmp_path_factory.mktemp("trained")
    return folder, rl.train("ppo_identity", output_dir=folder, seed=4, **QUICK)


def snapshot(folder):
    """Path, bytes and time of every file below `folder`."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


def rows(run_dir):
    with open(run_dir / "metrics.csv", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_a_run_leaves_everything_that_tells_what_it_was(trained):
    folder, run = trained
    assert run.run_dir == folder / "run_0" and run.step == 2_048
    saved = json.loads((run.run_dir / "hparams.json").read_text())
    assert (saved["name"], saved["seed"], saved["hparams"]["env"]) == ("ppo_identity", 4, "Identity-v0")
    assert saved["backends"] == {"training": "graph", "evaluation": "gym"}
    log = (run.run_dir / "train.log").read_text()
    assert "Identity-v0: trained in-graph, evaluated on Gymnasium\n" in log
    changed = saved["difference_from_default"]  # from PPO's own defaults
    assert changed["gamma"] == [0.99, 0.0] and "clip_range" not in changed
    command = f"rl.train('ppo_identity', output_dir='{folder}', seed=4, eval_episodes=3, compile='graph', "
    assert (
        (run.run_dir / "command.txt")
        .read_text()
        .startswith(command + "train_steps=2048, eval_period=1024)  #")
    )
    assert {"python", "tensorflow", "keras"} <= set(json.loads((run.run_dir / "versions.json").read_text()))
    assert len(list(run.run_dir.glob("events.out.tfevents.*"))) == 1
    table = rows(run.run_dir)
    assert [row["step"] for row in table] == ["1024", "2048"]
    assert all(float(row["eval/return_mean"]) and float(row["episode/return_mean"]) for row in table)
    assert run.best_return == max(float(row["eval/return_mean"]) for row in table)
    best = read_manifest(run.run_dir / "checkpoints/best")
    assert best.meta["return_mean"] == run.best_return
    assert all(name.startswith("network/") for name in best.variables)
    last = read_manifest(run.run_dir / "checkpoints/step_000000002048")
    assert set(best.variables) < set(last.variables)


def test_a_run_goes_on_with_other_versions_and_damaged_tables(trained, tmp_path, caplog):
    run_dir = shutil.copytree(trained[0] / "run_0", tmp_path / "run_0")
    versions = json.loads((run_dir / "versions.json").read_text())
    (run_dir / "versions.json").write_text(json.dumps(versions | {"tensorflow": "2.20.0"}))
    (run_dir / "metrics.csv").write_bytes(b"\xff\xff\n")
    (run_dir / "command.txt").unlink()
    (run_dir / "command.txt").mkdir()
    run = rl.train("ppo_identity", output_dir=tmp_path, seed=4, **QUICK | {"train_steps": 3_072})
    assert run.step == 3_072 and [row["step"] for row in rows(run_dir)] == ["3072"]
    assert {"metrics.csv.old", "command.txt.old"} <= {path.name for path in run_dir.iterdir()}
    assert json.loads((run_dir / "versions.json").read_text()) == versions
    assert json.loads((run_dir / "versions_to_step_2048.json").read_text())["tensorflow"] == "2.20.0"
    said = f"from step 2,048 with other versions (tensorflow was 2.20.0, is {versions['tensorflow']})"
    assert [said in line for line in caplog.messages].count(True) == 1 and len(caplog.messages) == 3


def test_a_policy_acts_on_one_observation_and_on_many(trained):
    _, run = trained
    policy = run.policy()
    assert [policy(row) for row in np.eye(4)] == [0, 1, 2, 3]  # float64, which environments often give
    assert policy([0.0, 0.0, 1.0, 0.0]) == 2
    order = np.array([3, 1, 1, 0, 2])
    np.testing.assert_array_equal(policy(np.eye(4, dtype=np.float32)[order], batched=True), order)
    env = gymnasium.make("Identity-v0")
    assert env.action_space.contains(policy(env.reset(seed=0)[0]))


@pytest.mark.parametrize(("shape", "batched"), [((3,), False), ((1, 4), False), ((4,), True), ((2, 3), True)])
def test_an_observation_of_another_shape_is_refused_in_words(trained, shape, batched):
    with pytest.raises(ValueError, match=r"an observation of shape \[.*4\] is needed, not"):
        trained[1].policy()(np.zeros(shape), batched=batched)


@pytest.mark.parametrize("which", ["best", "last"])
def test_a_policy_is_loaded_from_the_run_or_from_the_folder_above(trained, which):
    folder, run = trained
    returns = [rl.load(path, which).evaluate(4, seed=1).returns for path in (folder, run.run_dir)]
    np.testing.assert_array_equal(*returns)
    assert returns[0].mean() >= 15.0


def test_training_again_only_goes_on_where_steps_are_missing(trained, tmp_path):
    run_dir = shutil.copytree(trained[0] / "run_0", tmp_path / "run_0")
    before = rows(run_dir)
    for output_dir in (tmp_path, run_dir):
        again = rl.train("ppo_identity", output_dir=output_dir, seed=4, **QUICK)
        assert again.step == 2_048 and rows(run_dir) == before
        assert again.run_dir == run_dir and again.best_return == trained[1].best_return


def test_other_settings_in_the_same_folder_are_refused_and_change_nothing(trained):
    folder, _ = trained
    before = snapshot(folder)
    for overrides in ({"seed": 5}, {"seed": 4, "lr": 0.5}, {"seed": 4, "model": {"hidden": (32,)}}):
        with pytest.raises(rl.UsageError, match="holds another run"):
            rl.train("ppo_identity", output_dir=folder, **QUICK, **overrides)
    with pytest.raises(rl.UsageError, match="algo is ppo there, dqn here"):
        rl.train("dqn_identity", output_dir=folder, **QUICK)
    assert snapshot(folder) == before


def test_a_run_goes_on_with_the_workers_and_modules_that_it_had(trained, tmp_path):
    folder = tmp_path / "with_workers"
    shutil.copytree(trained[0], folder)
    path = folder / "run_0" / "hparams.json"
    saved = json.loads(path.read_text())
    assert saved["workers"] is False
    path.write_text(json.dumps(saved | {"workers": True}))
    with pytest.raises(rl.UsageError, match="was trained with num_workers: give it again"):
        rl.train("ppo_identity", output_dir=folder, seed=4, **QUICK)
    path.write_text(json.dumps(saved | {"user_modules": ["parts/strangers.py"]}))
    with pytest.raises(rl.UsageError, match="was trained with --user_modules parts"):
        rl.train("ppo_identity", output_dir=folder, seed=4, **QUICK)
    del saved["workers"], saved["user_modules"]  # an older run
    path.write_text(json.dumps(saved))
    assert rl.train("ppo_identity", output_dir=folder, seed=4, **QUICK).step == 2_048


def test_what_is_refused_while_it_is_compiled_leaves_nothing(tmp_path):
    (tmp_path / "mine").mkdir()
    for folder in ("new", "mine"):
        with pytest.raises(rl.UsageError, match="act_select ou_noise needs"):
            rl.train("ppo_identity", output_dir=tmp_path / folder, act_select="ou_noise", **QUICK)
    assert [path.name for path in tmp_path.rglob("*")] == ["mine"]


def test_a_run_from_before_a_hyperparameter_existed_goes_on_with_its_default(trained, tmp_path):
    folder = tmp_path / "older"
    shutil.copytree(trained[0], folder)
    path = folder / "run_0" / "hparams.json"
    saved = json.loads(path.read_text())
    del saved["hparams"]["model"]["filters"], saved["hparams"]["microbatches"]
    path.write_text(json.dumps(saved))
    assert rl.train("ppo_identity", output_dir=folder, seed=4, **QUICK).step == 2_048
    with pytest.raises(rl.UsageError, match="microbatches is 1 there, 2 here"):
        rl.train("ppo_identity", output_dir=folder, seed=4, grad_comp="accumulate", microbatches=2, **QUICK)


def test_hparams_objects_are_taken_and_left_as_they_are(tmp_path):
    few = {"compile": "eager", "train_steps": 64, "num_envs": 4, "updates_per_iteration": 1}
    hparams = resolve("dqn_identity", few)  # frozen
    before = hparams.to_dict()
    for i, lr in enumerate((1e-3, 1e-4)):
        run = rl.train(hparams, output_dir=tmp_path / str(i), eval_episodes=1, lr=lr, model={"hidden": (8,)})
        saved = json.loads((run.run_dir / "hparams.json").read_text())["hparams"]
        assert (saved["lr"], saved["model"]["hidden"], run.step) == (lr, [8], 64)
    assert hparams.to_dict() == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"hparams": "ppo_identiti"}, "unknown hparams name 'ppo_identiti': did you mean"),
        ({"hparams": "ppo_identity", "learning_rate": 1.0}, "unknown hparam 'learning_rate'"),
        ({"hparams": "ppo_identity", "lr": -1.0}, "hparam lr=-1.0: needs a number > 0"),
        ({"hparams": "ppo_identity", "env": "CartPol-v1"}, "unknown environment 'CartPol-v1': did you mean"),
        ({"hparams": "ppo_identity", "sys": "cloud"}, "no system is called 'cloud'"),
        ({"hparams": "dqn", "env": "Pendulum-v1"}, "dqn acts in Discrete action spaces, Pendulum-v1 has"),
        ({"hparams": "ppo_identity", "minibatches": 7}, "minibatches=7 does not divide"),
        ({"hparams": "ppo_identity", "seed": 1.5}, "seed=1.5: needs a whole number, at least 0"),
        ({"hparams": "a2c_cartpole", "eval_episodes": 0}, "eval_episodes=0: needs a whole number"),
        ({"hparams": "ppo_identity", "ray_address": "auto"}, "ray_address=auto: give num_workers with it"),
        ({"hparams": "ppo_identity", "callbacks": rl.Callbacks}, "needs an object of a class derived from"),
        ({"hparams": "ppo", "callback": ()}, "'callback': did you mean callbacks?"),
        ({"hparams": "ppo", "copies": 3}, "that is a flag of train.py; from Python call rl.train once"),
        ({"hparams": {"algo": "ppo"}}, "needs the name of a set, or what rl.make_hparams returns"),
    ],
)
def test_mistakes_are_one_line_and_write_nothing(tmp_path, arguments, message):
    with pytest.raises(rl.UsageError) as error:
        rl.train(**arguments, output_dir=tmp_path / "out")
    assert message in str(error.value) and "\n" not in str(error.value)
    assert not (tmp_path / "out").exists()


def test_loading_what_is_not_there_is_refused(trained, tmp_path):
    (tmp_path / "my best" / "hparams.json").mkdir(parents=True)
    with pytest.raises(rl.UsageError, match=r"there is no trained agent in .* but in my best: train"):
        rl.load(tmp_path)
    with pytest.raises(rl.UsageError, match="'best' and its 'last' policy"):
        rl.load(trained[0], "worst")
    with pytest.raises(UsageError, match="load: 3 is no run: give its folder or address"):
        rl.load(3)


# -- learning


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "steps", "good"),
    [
        ("ppo_cartpole", 150_000, 400.0),
        ("dqn_catch", 20_000, 0.9),
        ("ppo_catch", 40_000, 0.9),
    ],
)
def test_it_learns_in_graph(tmp_path, name, steps, good):
    run = rl.train(name, output_dir=tmp_path, seed=1, train_steps=steps)
    assert run.step >= steps
    assert run.policy("last").evaluate(20).returns.mean() >= good


# -- the command line


def test_a_user_trains_goes_on_and_watches(command, tmp_path, capsys):
    """Trains in a process of its own; goes on, and watches, in this one."""
    words = ["--sys", "local", "--hparams", "dqn_catch", "--output_dir", tmp_path, "--test_episodes", 2]
    words += ["--hparam_override", "compile=graph,log_period=256", "--eval_episodes", 2]
    run_dir = tmp_path / "run_0"

    first = command(*words, "--train_steps", 1_024)
    assert first.returncode == 0, first.stderr
    assert [row["step"] for row in rows(run_dir)] == ["256", "512", "768", "1024"]
    for line in ("return, best checkpoint", "return, last checkpoint", "steps/s", "tensorboard --logdir"):
        assert line in first.stdout
    assert "WARNING" not in first.stderr and "Traceback" not in first.stderr

    words = [str(word) for word in words]
    assert main([*words, "--train_steps", "2048"]) == 0, capsys.readouterr().err
    assert "resumed at step 1,024" in (run_dir / "train.log").read_text()
    assert [int(row["step"]) for row in rows(run_dir)] == list(range(256, 2_049, 256))
    assert len((run_dir / "command.txt").read_text().splitlines()) == 2

    kept = {path: content for path, content in snapshot(run_dir).items() if path.parent.name != "videos"}
    capsys.readouterr()
    assert main([*words, "--training", "False", "--record_video"]) == 0
    shown = capsys.readouterr()
    assert "best checkpoint" in shown.out and "WARNING" not in shown.err
    assert {path: snapshot(run_dir)[path] for path in kept} == kept
    videos = sorted((run_dir / "videos").glob("best_step_*_episode_?_return_*.mp4"))
    assert len(videos) == 2
    assert len(imageio.imread(videos[0], plugin="FFMPEG")) == 10  # nine steps and the end


COPIES = ["--hparams", "dqn_identity", "--hparam_override", "compile=graph", "--train_steps", "1024"]
COPIES += ["--test_episodes", "1", "--eval_episodes", "1", "--output_dir"]


@pytest.fixture(scope="module")
def two_copies(tmp_path_factory):
    """A folder of two copies of a run, by the command."""
    folder = tmp_path_factory.mktemp("copies") / "all"
    assert main([*COPIES, str(folder), "--copies", "2", "--seed", "7"]) == 0
    return folder


def test_copies_have_seeds_of_their_own_and_can_be_resumed_one_by_one(two_copies, tmp_path, capsys):
    folders = [two_copies / f"run_{i}" for i in range(2)]
    assert [json.loads((each / "hparams.json").read_text())["seed"] for each in folders] == [7, 8]
    assert rows(folders[0]) != rows(folders[1])
    held = [read_manifest(each / "checkpoints/step_000000001024").variables for each in folders]
    assert held[0] == held[1]
    # The second copy as a run of its own.
    shutil.copytree(folders[1], tmp_path / "run_0")
    words = [*COPIES, str(tmp_path), "--seed", "8", "--train_steps", "2048"]
    assert main(words) == 0, capsys.readouterr().err
    assert rows(tmp_path / "run_0")[-1]["step"] == "2048"


def test_one_copy_alone_is_the_one_that_it_is_among_all(two_copies, tmp_path, monkeypatch):
    """As the Pods of an Indexed Job train them."""
    monkeypatch.setenv("JOB_COMPLETION_INDEX", "1")
    assert main([*COPIES, str(tmp_path / "alone"), "--copies", "2", "--seed", "7"]) == 0
    assert [path.name for path in (tmp_path / "alone").iterdir()] == ["run_1"]
    runs = [two_copies / "run_1", tmp_path / "alone/run_1"]
    assert json.loads((runs[1] / "hparams.json").read_text())["seed"] == 8
    assert len({(run / "metrics.csv").read_bytes() for run in runs}) == 1
    manifests = [read_manifest(run / "checkpoints/step_000000001024") for run in runs]
    contents = [
        {name[-5:]: checksum for name, checksum in manifest.files.items() if ".data-" in name}
        for manifest in manifests
    ]
    assert contents[0] == contents[1] and contents[0]


def test_sigterm_saves_and_exits_with_143(command, tmp_path):
    tiny = "compile=eager,num_envs=2,rollout_length=8,minibatches=1,epochs=1,log_period=16"
    words = ["--hparams", "ppo_identity", "--hparam_override", tiny, "--output_dir", tmp_path]
    process = command(*words, "--train_steps", 10**9, wait=False)
    run_dir = tmp_path / "run_0"
    deadline = time.monotonic() + 300
    while not ((run_dir / "metrics.csv").exists() and len(rows(run_dir)) > 2):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 143
    assert "SIGTERM: saving a checkpoint, then stopping" in err and "Traceback" not in err
    step = CheckpointManager(run_dir / "checkpoints").latest_step()
    assert step >= int(rows(run_dir)[-1]["step"])


def one_line_error(capsys):
    err = capsys.readouterr().err
    assert err.startswith("error: ") and err.count("\n") == 1
    return err


def test_incompatible_hparams_for_a_trained_folder_exit_2_and_change_nothing(trained, capsys):
    folder, _ = trained
    before = snapshot(folder)
    words = ["--hparams", "ppo_identity", "--output_dir", str(folder), "--seed", "4"]
    assert main([*words, "--hparam_override", "model.hidden=[32,32]"]) == 2
    assert "model.hidden is [64, 64] there, [32, 32] here" in one_line_error(capsys)
    assert main(["--hparams", "dqn_cartpole", *words[2:], "--training", "False"]) == 2
    assert "holds ppo on Identity-v0, not dqn on CartPole-v1" in one_line_error(capsys)
    assert snapshot(folder) == before


@pytest.mark.parametrize(
    ("words", "where"),
    [
        (["--training", "False"], "."),  # the run says what it is
        (["--test_only"], "run_0"),
        (["--test_only", "--hparams", "ppo_identity"], "run_0"),
        (["--hparams", "ppo_identity", "--seed", "4", "--train_steps", "2048"], "run_0"),  # goes on: it ended
    ],
)
def test_a_run_is_found_by_its_folder_and_by_its_own_path(trained, words, where, tmp_path, capsys):
    folder = shutil.copytree(trained[0], tmp_path / "copy")
    files = set(snapshot(folder))
    words = [*words, "--output_dir", str(folder / where), "--test_episodes", "1", "--eval_episodes", "1"]
    assert main(words) == 0
    shown = capsys.readouterr().out
    assert f" {folder / 'run_0'}\n" in shown and "return, best checkpoint" in shown
    assert f"tensorboard --logdir {folder}\n" in shown
    assert {path for path in snapshot(folder) if ".tfevents." not in path.name} <= files


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "--output_dir is missing: name the run to test, or its set by --hparams"),
        (["--env", "Catch-v0"], "--output_dir is missing"),
        (["--output_dir", "x", "--env", "Catch-v0"], "--env without --hparams: the run in x says what it is"),
        (["--output_dir", "x", "--hparam_override", "lr=1"], "--hparam_override without --hparams"),
        (["--output_dir", "x", "--sys", "cloud"], "unknown --sys 'cloud'"),
        (["--output_dir", "x"], "there is no trained agent in x/run_0"),
        (["--output_dir", "x", "--hparams", "ppo_identity"], "there is no trained agent in x/run_0"),
    ],
)
def test_a_test_that_names_no_run_is_one_line(words, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["--training", "False", *words]) == 2
    assert message in one_line_error(capsys)
    assert not list(tmp_path.iterdir())


class OwnHParams(HParams):
    """A caller's own class."""

    algo: str = "ppo"


def test_runs_and_their_workers_know_the_module_of_the_callers_own_hparams(tmp_path, monkeypatch):
    found = []

    def train_one(request, storage, stop):
        found.append((request.workers.user_modules, request.user_modules))
        raise UsageError("enough")

    monkeypatch.setattr("rl.api.train_one", train_one)
    for hparams in (OwnHParams(env="Identity-v0"), "ppo_identity"):
        with pytest.raises(UsageError, match="enough"):
            rl.train(hparams, output_dir=tmp_path, num_workers=1)
    assert found == [((__name__,), (__name__,)), ((), ())]
