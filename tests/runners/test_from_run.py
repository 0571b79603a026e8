"""A new run that begins with another run's weights: what it takes, what it does not, and what is refused."""

from __future__ import annotations

import contextlib
import json
import re
import shutil

import numpy as np
import pytest
import tensorflow as tf
from marked import rest
from small_runs import TINY, train, trainer_of
from stop_after import StopAfter

import rl
from rl.cli import main
from rl.errors import UsageError
from rl.hparams.merge import resolve
from rl.publish.__main__ import main as publish
from rl.runners.build import build_runner
from rl.runners.evaluate import Evaluation, Evaluator
from rl.runners.from_run import take_weights
from rl.runners.kept import Kept
from rl.saved_run import read_variables
from rl.storage.checkpoint import CheckpointManager
from rl.workers.plan import Workers

SHORT = {"compile": "eager", "act_backend": "compiled", "model.hidden": (16,), "eval_period": 0}
SHORT |= {"num_envs": 2, "rollout_length": 4, "log_period": 8, "train_steps": 16}  # two iterations
REPLAY = SHORT | {"batch_size": 4, "min_replay_size": 4, "updates_per_iteration": 1, "replay_capacity": 64}
NORMAL = {"normalize_observation": True, "normalize_reward": True}
LEARNING = {"compile": "graph", "act_backend": "compiled", "model.hidden": (16,), "train_steps": 2_048}
SETS = {  # of runs that begin with another one's weights
    "ppo_identity": TINY | SHORT | NORMAL,
    "dqn_identity": REPLAY | {"noisy": True, "act_select": "greedy"},
    "sac_discrete_identity": REPLAY,
}
SCALE = tuple(f"reward_scale/{name}" for name in ("mean", "variance", "count", "mean_rest", "variance_rest"))
LEARNED = {
    "ppo_identity": ("network/", "encoder/", *SCALE),
    "dqn_identity": ("network/", "target_network/"),
    "sac_discrete_identity": ("network/", "critic/", "target_critic/", "log_temperature"),
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run of PPO that has learned what there is to learn."""
    folder = tmp_path_factory.mktemp("trained")
    return rl.train("ppo_identity", output_dir=folder, eval_episodes=2, seed=3, **LEARNING | NORMAL)


def written(name, run_dir):
    """Writes a run of a set whose last checkpoint, best policy and first weights all differ."""
    hparams, random = resolve(name, SETS[name]), np.random.default_rng(0)
    run_dir.mkdir()
    saved = {"name": name, "seed": 3, "hparams": hparams.to_dict()}
    (run_dir / "hparams.json").write_text(json.dumps(saved))
    manager = CheckpointManager(run_dir / "checkpoints")
    with contextlib.closing(build_runner(hparams, 3)) as runner:
        for which in ("best", "last"):
            for each in runner.agent.variables.values():
                if tf.as_dtype(each.dtype).is_floating:
                    each.assign(each + random.normal(size=each.shape).astype(np.float32))
            if which == "best":
                manager.save_best(runner.agent.policy_variables, {"return_mean": 1.0}, 8)
        manager.save(runner.variables, 16)
    return run_dir


@pytest.fixture(scope="module")
def source(trained, tmp_path_factory):
    """`source("dqn_identity")`: the folder of a run of a set."""
    made = {"ppo_identity": trained.run_dir}

    def run(name):
        if name not in made:
            made[name] = written(name, tmp_path_factory.mktemp(name) / "run_0")
        return made[name]

    return run


@pytest.fixture
def begin(tmp_path, state_of):
    """The trainer of a new run of seed 5, not trained yet, and its variables as arrays."""
    with contextlib.ExitStack() as stack:

        def make(name, folder="new", **overrides):
            hparams = resolve(name, SETS[name] | overrides)
            trainer = trainer_of(hparams, tmp_path / folder, 5)
            stack.callback(trainer.close)
            return trainer, state_of(trainer.runner)

        yield make


def of_checkpoint(run_dir, like, which="last"):
    """The values in a run's checkpoint of variables that are called and shaped as these arrays."""
    found = {name: tf.Variable(value) for name, value in like.items()}
    read_variables(found, run_dir, which, partial=True)
    return {name: each.numpy() for name, each in found.items()}


@pytest.mark.parametrize("name", ["ppo_identity", *rest("dqn_identity"), "sac_discrete_identity"])
def test_what_was_learned_is_the_other_run_s_and_all_else_is_of_a_new_one(
    source, begin, assert_same_bits, name
):
    run = source(name)
    _, fresh = begin(name, "fresh")
    trainer, found = begin(name, start_from=str(run.parent))
    asked = [each for each in found if each in trainer.agent.variables or each in SCALE]
    there = of_checkpoint(run, {each: found[each] for each in asked})
    assert list(found) == list(fresh) and trainer.runner.step == 0
    expected = {each: (there if each.startswith(LEARNED[name]) else fresh)[each] for each in found}
    assert_same_bits(found, expected)
    for start in {start.partition("/")[0] for start in LEARNED[name]}:
        assert any(each.startswith(start) and there[each].any() for each in asked), f"nothing in {start}"
    changed = {each.partition("/")[0] for each in found if found[each].tobytes() != fresh[each].tobytes()}
    assert changed >= {start.partition("/")[0] for start in LEARNED[name]}
    moments = [each for each in found if each.startswith("optimizer/network/") and "momentum" in each]
    assert moments and all(there[each].any() and not found[each].any() for each in moments)


def test_the_run_says_what_it_began_with(source, tmp_path):
    path, settings = source("ppo_identity"), SETS["ppo_identity"]
    run = rl.train("ppo_identity", output_dir=tmp_path, eval_episodes=1, start_from=path, **settings)
    log = (run.run_dir / "train.log").read_text()
    assert f"begins with the weights of {path}, last checkpoint, step 2,048\n" in log
    assert f"start_from='{path}'" in (run.run_dir / "command.txt").read_text()
    with pytest.raises(UsageError, match=rf"lr is .* another output_dir, where start_from={run.run_dir}"):
        rl.train("ppo_identity", output_dir=tmp_path, start_from=path, lr=0.5, **settings)


def test_a_run_that_was_stopped_goes_on_without_the_other_one_and_ends_with_the_same_bits(
    source, tmp_path, assert_same_bits, monkeypatch
):
    monkeypatch.setattr(Evaluator, "run", lambda *_: Evaluation(np.ones(2), np.ones(2)))
    monkeypatch.setattr(Evaluator, "other", lambda *_: None)
    run = shutil.copytree(source("ppo_identity"), tmp_path / "source")
    hparams = resolve("ppo_identity", SETS["ppo_identity"] | {"train_steps": 24, "start_from": str(run)})
    step, straight = train(hparams, tmp_path / "straight")
    stopped, _ = train(hparams, tmp_path / "parts", looks=2)
    assert 0 < stopped < step == 24
    shutil.rmtree(run)
    step, resumed = train(hparams, tmp_path / "parts")
    assert step == 24
    assert_same_bits(resumed, straight)
    with pytest.raises(UsageError, match="there is no trained agent in"):
        trainer_of(hparams, tmp_path / "another")


def test_the_best_policy_is_taken_and_target_networks_begin_as_its_copies(source, begin, assert_same_bits):
    run = source("dqn_identity")
    _, found = begin("dqn_identity", start_from=str(run), start_which="best")
    network = {each: value for each, value in found.items() if each.startswith("network/")}
    assert_same_bits(network, of_checkpoint(run, network, "best"))
    assert_same_bits({each: found[f"target_{each}"] for each in network}, network)


def test_a_published_policy_is_begun_with(source, begin, tmp_path, assert_same_bits):
    run, to = source("ppo_identity"), tmp_path / "published"
    assert publish([str(run), "--to", str(to), "--episodes", "2"]) == 0
    _, found = begin("ppo_identity", start_from=str(to))
    network = {each: value for each, value in found.items() if each.startswith(("network/", "encoder/"))}
    assert_same_bits(network, of_checkpoint(run, network, "best"))


def test_environments_of_the_host_are_played_by_the_weights_that_were_taken(source, begin):
    host = {"env_backend": "gym"}
    _, fresh = begin("dqn_identity", "fresh", **host)
    trainer, found = begin("dqn_identity", start_from=str(source("dqn_identity")), **host)
    acting = np.concatenate([each.reshape(-1) for each in trainer.runner.actor._weights])
    weights = [each.numpy() for each in trainer.agent.policy_variables.values()]
    learned = [(each.T if each.ndim == 2 else each).reshape(-1) for each in weights]  # as LiteRT takes them
    np.testing.assert_array_equal(acting, np.concatenate(learned))
    kernel, noise = "network/q_values/kernel", "network/q_values/noise_in"
    assert not np.array_equal(found[kernel], fresh[kernel])
    np.testing.assert_array_equal(found[noise], fresh[noise])


def test_a_copy_begins_as_it_would_alone(source, begin, tmp_path, state_of, assert_same_bits):
    run, kept = source("ppo_identity"), Kept()
    first, alone = begin("ppo_identity", start_from=str(run))
    first.train(StopAfter())
    first.leave_to(kept)
    built = trainer_of(first.hparams, tmp_path / "built", 5)
    again = kept.compiled(first.hparams, built.runner)
    assert again is first.runner
    take_weights(again)
    assert_same_bits(state_of(again), alone)
    built.close()


def test_a_temperature_that_is_not_learned_is_the_one_that_was_asked_for(source, begin):
    run = str(source("sac_discrete_identity"))
    _, found = begin("sac_discrete_identity", start_from=run, learn_temperature=False, temperature=0.25)
    np.testing.assert_allclose(found["log_temperature"], np.log(0.25), rtol=1e-6)


def test_the_first_member_of_a_league_is_who_the_run_begins_with(build):
    runner = build("ppo_tictactoe_selfplay", compile="eager", num_envs=2, rollout_length=2, minibatches=1)
    live = runner.agent.policy_variables["network/policy/bias"]
    live.assign(tf.range(live.shape[0], dtype=tf.float32))
    runner.started_from_another()
    for member in runner.league.weights["network/policy/bias"].numpy():
        np.testing.assert_array_equal(member, live.numpy())


OTHERS = [  # set, of whose run it is to begin, what is given, what is said
    ("ppo_identity", "ppo_identity", {"env": "Acrobot-v1"}, r"has observations Box.*\(Identity-v0\), here"),
    ("ppo_identity", "ppo_identity", {"env": "CartPole-v1"}, r"has actions Discrete\(4\) \(Identity"),
    (
        "ppo_identity",
        "ppo_identity",
        {"normalize_observation": False},
        "was trained with normalize_observation=true, .* take normalize_observation=true",
    ),
    (
        "ppo_identity",
        "ppo_identity",
        {"model.hidden": (8,)},
        r"the networks of its ppo are not those of ppo here .*network/\S+: .*more\): take the algorithm",
    ),
    (
        "ppo_identity",
        "dqn_identity",
        {"normalize_observation": False},
        r"the networks of its dqn are not those of ppo here \(network/\S+: not in the checkpoint",
    ),
    (
        "sac_discrete_identity",
        "sac_discrete_identity",
        {"start_which": "best"},
        "its best checkpoint is a policy alone, without the critic that .* learns with: take start_which=l",
    ),
]


@pytest.mark.parametrize(("name", "other", "given", "said"), OTHERS)
def test_what_does_not_fit_is_one_line_and_nothing_is_written(source, tmp_path, name, other, given, said):
    run = source(other)
    with pytest.raises(UsageError, match=f"^start_from={re.escape(str(run))}:? {said}") as refusal:
        rl.train(name, output_dir=tmp_path / "new", start_from=run, **SETS[name] | given)
    assert "\n" not in str(refusal.value) and not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("folder", "said"),
    [
        ("runs/ppo_cartpol", "there is no run in runs/ppo_cartpol (did you mean ppo_cartpole?): train one"),
        ("gs:/bucket/run", "start_from gs:/bucket/run: did you mean gs://bucket/run"),
    ],
)
def test_a_run_that_is_not_there_ends_the_command_at_once(tmp_path, monkeypatch, capsys, folder, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs/ppo_cartpole/run_0").mkdir(parents=True)
    (tmp_path / "runs/ppo_cartpole/run_0/hparams.json").write_text("{}")
    words = ["--hparams", "ppo_identity", "--output_dir", "new", "--hparam_override", f"start_from={folder}"]
    assert main(words) == 2
    assert said in capsys.readouterr().err and not (tmp_path / "new").exists()


def test_a_trained_policy_returns_from_the_start_what_it_had_learned(trained, begin):
    learned = trained.result.last.returns.mean()
    assert learned >= 18.0  # 20 at best, 5 at random
    returns = []
    for folder, more in (("fresh", {}), ("new", {"start_from": trained.run_dir})):
        trainer, _ = begin("ppo_identity", folder, **more)
        returns.append(trainer.evaluator.run(0).returns.mean())
    assert returns[0] < 15.0 and returns[1] == learned


@pytest.mark.slow
@pytest.mark.usefixtures("ray_here")
def test_a_run_of_workers_begins_with_the_weights_and_learns(source, tmp_path):
    hparams = resolve("ppo_identity", SETS["ppo_identity"] | {"start_from": str(source("ppo_identity"))})
    with contextlib.closing(trainer_of(hparams, tmp_path, 5, workers=Workers(1))) as trainer:
        network = {name: each.numpy() for name, each in trainer.agent.policy_variables.items()}
        for name, value in of_checkpoint(source("ppo_identity"), network).items():
            np.testing.assert_array_equal(network[name], value)
        assert trainer.train(StopAfter()).step == 16


@pytest.mark.slow
def test_groups_of_agents_begin_with_the_networks_of_their_groups(tmp_path, state_of, assert_same_bits):
    settings = TINY | {"env": "MultiCartPole-v0", "policies": "independent", "train_steps": 32}
    run = rl.train("ppo", output_dir=tmp_path / "source", eval_episodes=1, **settings)
    hparams = resolve("ppo", settings | {"start_from": str(run.run_dir)})
    with contextlib.closing(trainer_of(hparams, tmp_path / "new", 5)) as trainer:
        found = {name: each.numpy() for name, each in trainer.agent.policy_variables.items()}
    assert any("group_" in name for name in found)
    assert_same_bits(found, of_checkpoint(run.run_dir, found))
