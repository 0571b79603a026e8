"""Learning from data: what a run counts, resumes, evaluates and refuses."""

from __future__ import annotations

import csv
import dataclasses
from pathlib import Path
from types import SimpleNamespace

import gymnasium
import numpy as np
import own_data
import pytest
from gymnasium import spaces
from small_runs import train

import rl
from rl.cli import main
from rl.data.dataset import Dataset, read, write
from rl.data.summary import summary
from rl.envs.of_data import data_hint, with_environment
from rl.envs.rewards import get_reward_augmentation
from rl.envs.wrappers import with_previous
from rl.errors import UsageError
from rl.hparams.merge import resolve
from rl.runners.from_data import alike, augmented_data, checked_data, fingerprint
from rl.runners.offline import agent_for, build_offline, observe_data, running_returns

OFFLINE = {"memory": "dataset", "batch_size": 32, "model.hidden": (16,), "updates_per_iteration": 5}
RUN = OFFLINE | {"train_steps": 200, "log_period": 50, "eval_period": 100, "compile": "graph"}


@pytest.fixture(scope="module")
def cartpole(tmp_path_factory):
    """A folder with twenty episodes of random actions."""
    folder = tmp_path_factory.mktemp("cartpole") / "data"
    own_data.play(folder, "CartPole-v1")
    return str(folder)


def nested(overrides):
    """Overrides as `rl.train` takes them."""
    found = {key: value for key, value in overrides.items() if "." not in key}
    model = {key.removeprefix("model."): value for key, value in overrides.items() if "." in key}
    return found | {"model": model}


def rows(folder):
    with (folder / "run_0" / "metrics.csv").open() as file:
        return list(csv.DictReader(file))


def test_steps_are_updates_by_which_everything_goes(cartpole, tmp_path, capsys):
    overrides = nested(RUN | {"model.precision": "auto"}) | {"lr_end": 1e-5}
    run = rl.train("dqn_cartpole", output_dir=tmp_path, data=cartpole, eval_episodes=2, **overrides)
    found = rows(tmp_path)
    assert [int(row["step"]) for row in found] == [50, 100, 150, 200] and run.step == 200
    assert [bool(row["eval/return_mean"]) for row in found] == [False, True, False, True]
    assert not any(key.startswith("episode/") for key in found[0])
    assert float(found[-1]["train/learning_rate"]) == pytest.approx(1e-5)  # linear, over train_steps
    log = (tmp_path / "run_0" / "train.log").read_text()
    where = f"CartPole-v1: trained from the data in {cartpole}, evaluated on Gymnasium"
    assert f"{where}; nothing is played: steps are gradient updates, hidden layers in float32\n" in log
    assert "200/200 updates" in log
    assert rl.load(tmp_path, "last")(np.zeros(4)) in (0, 1)


RESUMED = RUN | {"prioritized": True, "normalize_observation": True, "normalize_reward": True, "n_step": 3}
RESUMED |= {"train_steps": 40, "log_period": 10, "eval_period": 20, "act_backend": "compiled"}


def test_a_run_that_goes_on_is_the_one_that_was_never_stopped(cartpole, tmp_path, assert_same_bits):
    hparams = resolve("dqn_cartpole", RESUMED | {"data": cartpole})
    step, straight = train(hparams, tmp_path / "straight")
    assert step == 40
    assert not any(name.startswith("memory/observation") for name in straight), "data are read again"
    for looks in (1, 9):
        assert train(hparams, tmp_path / "parts", looks)[0] < 40
    step, resumed = train(hparams, tmp_path / "parts")
    assert step == 40
    assert_same_bits(resumed, straight)
    metrics = (tmp_path / "straight/metrics.csv").read_bytes()
    assert metrics.count(b"\n") == 5
    assert (tmp_path / "parts/metrics.csv").read_bytes() == metrics


def test_other_data_are_refused_and_the_same_elsewhere_are_not(cartpole, tmp_path):
    settings = nested(RUN) | {"output_dir": tmp_path / "run", "eval_episodes": 1}
    rl.train("dqn_cartpole", data=cartpole, **settings | {"train_steps": 100})
    own_data.play(tmp_path / "other", "CartPole-v1", episodes=3, seed=1)
    with pytest.raises(UsageError, match=r"learned from other data than those that are in .*other now"):
        rl.train("dqn_cartpole", data=str(tmp_path / "other"), **settings)
    own_data.play(tmp_path / "same", "CartPole-v1")
    assert rl.train("dqn_cartpole", data=str(tmp_path / "same"), **settings).step == 200


def test_statistics_are_those_of_the_data(cartpole, build):
    data = read(cartpole)
    wanted = {"normalize_observation": True, "normalize_reward": True, "gamma": 0.9}
    runner = build("dqn_cartpole", data=cartpole, **RUN, **wanted)
    np.testing.assert_allclose(runner.agent.encoder.mean.numpy(), data.observation.mean(0), atol=1e-5)
    np.testing.assert_allclose(runner.agent.encoder.variance.numpy(), data.observation.var(0), rtol=1e-4)
    # Of an episode of k steps with a reward of 1 each: (1 - 0.9^k) / 0.1.
    returns = np.concatenate([(1.0 - 0.9 ** np.arange(1, each + 1)) / 0.1 for each in data.lengths])
    np.testing.assert_allclose(running_returns(data.reward, data.lengths, 0.9), returns, rtol=1e-5)
    moments = runner.iteration.reward_scale.moments
    np.testing.assert_allclose(moments.variance.numpy(), [returns.var()], rtol=1e-4)


def test_statistics_of_many_rows_are_as_good_as_those_of_few():
    """A float32 sum of all rows loses digits: this variance came out 1.7."""
    count, flags = 300_000, np.zeros(299_999, bool)
    seen = np.random.default_rng(0).normal(1000.0, 1.0, (count, 4)).astype(np.float32)
    spaces_ = spaces.Box(-np.inf, np.inf, (4,), np.float32), spaces.Discrete(2)
    columns = seen, flags.astype(np.int32), np.zeros(count - 1, np.float32), flags, flags
    data = Dataset(*columns, np.array([count - 1]), *spaces_)
    own = {"memory": "dataset", "data": "here", "normalize_observation": True, "model.hidden": (4,)}
    agent = agent_for(resolve("dqn", own), data, 0)
    observe_data(SimpleNamespace(agent=agent, reward_scale=None), data)
    np.testing.assert_allclose(agent.encoder.mean.numpy(), seen.mean(0, np.float64), atol=0.01)
    np.testing.assert_allclose(agent.encoder.variance.numpy(), seen.var(0, np.float64), rtol=1e-3)
    assert int(agent.encoder.count) == count


def test_data_of_integer_boxes_are_refused_as_their_environments_are():
    actions = spaces.Box(0, 5, (2,), np.int64)
    flags, action = np.array([False, True]), np.array([[1, 2], [5, 0]], np.int32)
    columns = np.zeros((3, 1), np.float32), action, np.ones(2, np.float32), flags, ~flags & flags
    data = Dataset(*columns, np.array([2]), spaces.Box(-1.0, 1.0, (1,)), actions)
    for name in ("bc", "td3_bc", "iql"):
        with pytest.raises(UsageError, match=r"the data in here: actions .* are integers: make them a Multi"):
            agent_for(resolve(name, {"data": "here"}), data, 0)


def test_rewards_are_scaled_so_that_returns_span_what_is_asked(cartpole):
    raw, scaled = (
        read(cartpole),
        checked_data(resolve("dqn", RUN | {"data": cartpole, "env": "x", "return_span": 10.0})),
    )
    assert scaled.returns.max() - scaled.returns.min() == pytest.approx(10.0, rel=1e-5)
    np.testing.assert_allclose(scaled.reward, 10.0 / (raw.returns.max() - raw.returns.min()), rtol=1e-6)


def test_data_beside_what_is_played_have_rewards_of_the_same_augmentation(cartpole, build):
    own = {"memory": "uniform", "data": cartpole, "reward_augmentation": "scale:0.25", "n_step": 1}
    runner = build("dqn_cartpole", **own)
    np.testing.assert_array_equal(runner.iteration.memory.data._columns.reward, 0.25 * read(cartpole).reward)
    assert int(runner.fingerprint.variable.numpy()) == fingerprint(read(cartpole))
    # Two episodes, of which the first terminates: what is there has no potential.
    spaces_ = spaces.Box(-9.0, 9.0, (2,), np.float32), spaces.Discrete(3)
    seen = np.float32([[0, 0], [0.1, 0], [0.2, 0], [0, 0], [-0.5, 0.1]])
    ends, reward = np.array([False, True, True]), np.float32([-1, -2, -4])
    columns = seen, np.zeros(3, np.int32), reward, ends & [True, True, False], ends & [False, False, True]
    data = Dataset(*columns, np.array([2, 1]), *spaces_)
    phi = 10.0 * (abs(seen[:, 0] + np.pi / 6) + 10.0 * abs(seen[:, 1]))
    wanted = [-1 + 0.9 * phi[1] - phi[0], -2 - phi[1], -4 + 0.9 * phi[4] - phi[3]]
    found = augmented_data(data, get_reward_augmentation("mountain_car_default"), 0.9)
    np.testing.assert_allclose(found.reward, wanted, rtol=1e-5)
    assert found.reward.dtype == np.float32 and augmented_data(data, None, 0.9) is data


def test_observations_tell_the_step_before_where_that_is_asked_for(tmp_path):
    """Two episodes, of actions 0, 1, 1 and 1: told as 1, 2, 2 and 2, and 0 where there is none."""
    spaces_ = spaces.Box(-9.0, 9.0, (1,), np.float32), spaces.Discrete(2)
    ends = np.array([0, 0, 1, 1], bool)
    seen, reward = np.arange(6, dtype=np.float32)[:, None], np.array([1, 2, 4, 8], np.float32)
    data = Dataset(seen, np.array([0, 1, 1, 1]), reward, ends, ~ends & ends, np.array([3, 1]), *spaces_)
    write(tmp_path / "data", data)
    asked = {"data": str(tmp_path / "data"), "env": "x", "previous_action_reward": True, "return_span": 1.0}
    found = checked_data(resolve("dqn", RUN | asked))
    assert found.observation_space == with_previous(*spaces_)
    assert sorted(found.observation) == ["observation", "previous_action", "previous_reward"]
    np.testing.assert_array_equal(found.observation["observation"], seen)
    assert found.observation["previous_action"].tolist() == [0, 1, 2, 2, 0, 2]
    assert found.observation["previous_reward"].tolist() == [[0], [1], [2], [4], [0], [8]]  # as it was paid
    write(tmp_path / "told", found)
    again = checked_data(resolve("dqn", RUN | asked | {"data": str(tmp_path / "told")}))
    assert again.observation_space == found.observation_space


def test_the_environment_is_the_one_of_the_data_where_none_is_named(cartpole, tmp_path):
    run = rl.train("dqn", output_dir=tmp_path, data=cartpole, eval_episodes=1, **nested(RUN))
    assert run.best_return >= 8.0
    assert rl.load(tmp_path).agent.hparams.env == "CartPole-v1"


@pytest.mark.parametrize("env_id", ["somebodys_module:Env-v0", "NoSuch-v0", None])
def test_an_environment_that_data_name_is_not_imported(tmp_path, env_id):
    data = own_data.play(tmp_path / "first", "CartPole-v1", episodes=1)
    own = {} if env_id is None else {"env_id": env_id}
    write(tmp_path / "data", dataclasses.replace(data, metadata=own))
    hparams = resolve("dqn", RUN | {"data": str(tmp_path / "data")})
    assert with_environment(hparams).env == ""


def test_wrappers_that_data_name_are_asked_for_and_other_options_are_told(tmp_path, caplog):
    data = own_data.play(tmp_path / "first", "Pendulum-v1", episodes=1)
    about = {"env_id": "Pendulum-v1", "env_wrappers": ["odd:Scaled"], "env_kwargs": {"g": 1.0}}
    write(tmp_path / "data", dataclasses.replace(data, metadata=about))
    hparams = resolve("td3_bc", {"data": str(tmp_path / "data")})
    with pytest.raises(UsageError, match="give --env_wrappers odd:Scaled, or name the environment by --env"):
        with_environment(hparams)
    named = resolve("td3_bc", {"data": str(tmp_path / "data"), "env": "Pendulum-v1"})
    assert with_environment(named) is named
    told = data_hint(named)
    assert "recorded on Pendulum-v1 with {'env_kwargs': {'g': 1.0}, 'env_wrappers': ['odd:Scaled']}" in told
    assert "here it has {'env_kwargs': {}}" in told
    assert data_hint(resolve("td3_bc", {"data": str(tmp_path / "first"), "env": "Pendulum-v1"})) is None


def test_options_that_minaris_metadata_say_are_those_of_the_evaluation(tmp_path):
    data = own_data.play(tmp_path / "first", "CartPole-v1", episodes=1)
    made = gymnasium.make("FrozenLake-v1", is_slippery=False, render_mode="rgb_array")
    write(tmp_path / "data", dataclasses.replace(data, metadata={"env_spec": made.spec.to_json()}))
    hparams = with_environment(resolve("dqn", RUN | {"data": str(tmp_path / "data")}))
    assert (hparams.env, hparams.env_kwargs) == ("FrozenLake-v1", {"is_slippery": False})
    assert data_hint(hparams) is None
    told = data_hint(resolve("dqn", RUN | {"data": str(tmp_path / "data"), "env": "FrozenLake-v1"}))
    assert "recorded on FrozenLake-v1 with {'env_kwargs': {'is_slippery': False}}" in told
    assert "FrozenLake-v1 {" + '"is_slippery": false}' in summary(tmp_path / "data")[0]


def test_actions_of_other_limits_are_no_data_of_an_environment():
    box, half, none = (spaces.Box(-x, x, (2,)) for x in (1.0, 0.5, np.inf))
    assert [alike(box, other, acts=True) for other in (box, half, none)] == [True, False, True]
    assert alike(box, half)  # as observations


def test_discrete_numbers_of_other_values_are_of_no_data_of_an_environment():
    one, two, parts = spaces.Discrete, spaces.MultiDiscrete, spaces.Dict
    assert not alike(two([2, 4]), two([4, 2]), acts=True)  # six logits, for other values
    assert alike(two([2, 4], start=[1, 0]), two([2, 4]), acts=True)  # agents count from 0
    assert not alike(one(3, start=1), one(3))  # observations are as the environment counts them
    assert not alike(parts(a=one(3)), parts(a=one(5))) and alike(parts(a=one(3)), parts(a=one(3)))
    assert not alike(spaces.Tuple([two([2, 3])]), spaces.Tuple([two([3, 2])]))


def test_without_an_environment_nothing_is_evaluated(tmp_path, capsys, caplog, monkeypatch):
    """As a stranger's data may be: only who trains knows what they are good for."""
    data = own_data.play(tmp_path / "first", "CartPole-v1", episodes=3)
    write(tmp_path / "data", dataclasses.replace(data, metadata={}))
    words = ["--hparams", "dqn", "--train_steps", "100", "--output_dir", "out", "--hparam_override"]
    monkeypatch.chdir(tmp_path)
    assert main([*words, "memory=dataset,compile=graph,data=data"]) == 0
    shown = capsys.readouterr()
    said = shown.err + caplog.text
    assert "no environment is named (--env): what is learned from the data is not evaluated" in said
    assert "trained from the data in data, not evaluated" in shown.out
    assert "return" not in shown.out and "updates/s" in shown.out
    policy = rl.load("out")
    assert policy(np.zeros(4)) in (0, 1)
    with pytest.raises(UsageError, match="there is no environment to evaluate in"):
        policy.evaluate(1)
    for flags in (["--record_video"], ["--record_data", "again"], []):  # a test has nothing to play
        assert main(["--output_dir", "out", "--training", "False", *flags]) == 2
        assert "there is no environment to play in" in capsys.readouterr().err
    assert not Path("again").exists()
    with pytest.raises(UsageError, match=r"record_video: .* there is no environment to play in"):
        rl.train("dqn", memory="dataset", data="data", record_video=True, output_dir="filmed")
    assert not Path("filmed").exists()


def refused(**settings):
    with pytest.raises(UsageError) as caught:
        rl.train("dqn_cartpole", **settings)
    return str(caught.value)


def test_what_does_not_fit_is_one_line_and_writes_nothing(cartpole, tmp_path):
    settings = nested(RUN) | {"output_dir": tmp_path / "run", "eval_episodes": 1}
    line = refused(**settings)
    assert "dqn with memory=dataset learns from a data set, and none is named" in line
    assert "python train.py --hparams dqn_cartpole --record_data DIR" in line
    line = refused(**settings, data=str(tmp_path / "nowhere"))
    assert f"there is no data set {tmp_path}/nowhere" in line
    assert f"python train.py --hparams dqn_cartpole --record_data {tmp_path}/nowhere records one" in line
    (tmp_path / "mixed.hdf5").touch()
    line = refused(**settings, data=str(tmp_path / "mixed.hdf5"))
    assert "mixed.hdf5 is a file: make a data set of it by python -m rl.data convert" in line
    line = refused(**settings, data=cartpole, env="Acrobot-v1")
    assert "Acrobot-v1 has" in line and "python -m rl.data" in line
    online = settings | {"memory": "uniform"}
    assert "data are of" in refused(**online, data=cartpole, env="Acrobot-v1").replace(f"in {cartpole} ", "")
    assert "return_span scales rewards of data alone" in refused(**online, data=cartpole, return_span=1.0)
    assert "workers bring no data" in refused(**online, data=cartpole, num_workers=1)
    with pytest.raises(UsageError, match="ppo learns from what it plays itself"):
        resolve("ppo_cartpole", {"data": cartpole})
    line = refused(**settings, data=cartpole, reward_augmentation="clip_sign")
    assert "reward_augmentation changes what is played" in line
    line = refused(**settings, data=cartpole, num_workers=1)
    assert "leave num_workers out" in line
    with pytest.raises(UsageError, match=r"sac acts in Box action spaces, the data in .* are of Discrete"):
        build_offline(resolve("sac", {"memory": "dataset", "data": cartpole, "env": "Pendulum-v1"}), 0)
    with pytest.raises(UsageError, match="memory dataset is for transition experience, ppo learns"):
        build_offline(resolve("ppo", {"memory": "dataset", "data": cartpole, "env": "CartPole-v1"}), 0)
    data = read(cartpole)
    data.reward[3] = np.nan
    write(tmp_path / "nan", data)
    assert "hold a reward that is NaN or infinite" in refused(**settings, data=str(tmp_path / "nan"))
    data.reward[3], data.action[3] = 1.0, 2
    write(tmp_path / "third", data)
    assert "an action that is none of Discrete(2)" in refused(**settings, data=str(tmp_path / "third"))
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["graph", "gym"])
def test_what_is_played_is_mixed_with_data_and_goes_on_from_a_checkpoint(
    cartpole, tmp_path, assert_same_bits, backend
):
    """Half of each batch is from the data; in-graph the rest of it resumes to the bit."""
    own = {"num_envs": 2, "rollout_length": 8, "log_period": 64, "train_steps": 192, "min_replay_size": 32}
    settings = RUN | own | {"memory": "uniform", "data": cartpole, "env_backend": backend}
    hparams = resolve("dqn_cartpole", settings)
    step, straight = train(hparams, tmp_path / "straight")
    assert step == 192
    header = (tmp_path / "straight/metrics.csv").read_text().splitlines()[0]
    assert "episode/return_mean" in header and "train/td_error" in header
    assert train(hparams, tmp_path / "parts", 5)[0] < 192
    step, resumed = train(hparams, tmp_path / "parts")
    assert step == 192
    if backend == "graph":
        assert_same_bits(resumed, straight)
    own_data.play(tmp_path / "other", "CartPole-v1", episodes=3, seed=1)
    with pytest.raises(UsageError, match="learned from other data"):
        train(resolve("dqn_cartpole", settings | {"data": str(tmp_path / "other")}), tmp_path / "parts")


def test_the_fingerprint_is_of_what_the_data_are_and_not_of_where_they_lie(cartpole):
    data = read(cartpole)
    assert fingerprint(data) == fingerprint(read(cartpole))
    for change in (
        {"reward": data.reward + 1.0},
        {"observation": data.observation * 2.0},
        {"terminated": ~data.terminated},
        {"lengths": data.lengths[::-1]},
    ):
        assert fingerprint(dataclasses.replace(data, **change)) != fingerprint(data)


def test_r2d2_learns_from_sequences_of_data_by_their_priorities(cartpole):
    overrides = {"memory": "dataset", "data": cartpole, "compile": "eager", "updates_per_iteration": 4}
    overrides |= {"batch_size": 8, "burn_in": 2, "unroll_length": 4, "priority_exponent": 1.0}
    small = {"model.hidden": (8,), "model.recurrent_units": 8}
    runner = build_offline(resolve("r2d2_cartpole", overrides | small), seed=0)
    sums = runner.run(1)
    assert sums["updates"] == 4.0 and np.isfinite(list(sums.values())).all()
    leaves = runner.iteration.memory.tree.leaves()
    assert len(leaves) == sum(-(-length // 4) for length in read(cartpole).lengths)
    assert 8 <= np.count_nonzero(leaves != 1.0) <= 32, "what was learned from has a priority of its own"
    runner.iteration.memory.check_valid()
