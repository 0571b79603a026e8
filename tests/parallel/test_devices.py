"""Several devices learn together as one would. Each case is a process: TensorFlow takes its devices once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from marked import slow

from rl.agents.algos.registry import registry as algos
from rl.errors import UsageError
from rl.hparams.merge import resolve
from rl.memory.ring import TERMINATED, TRANSITION, TRUNCATED
from rl.ops import schedules
from rl.parallel import replicas
from rl.parallel.devices import Devices

SCRIPT = Path(__file__).parents[1] / "device_equality.py"
DECAY = {"optimizer": "adamw", "weight_decay": 0.5, "lr": 0.01, "log_std_init": 1.0}
DECAYED = f"ppo:Box:{json.dumps(DECAY)}"
# One that learns from rollouts, one that replays and draws numbers within its loss.
FEW = ["ddpg:Discrete", DECAYED]
SETS = {name: algos.get(name).hparams_type() for name in algos.names()}
PLAYING = [name for name, each in SETS.items() if not (each.offline or each.demonstrated or each.taught)]
CASES = [f"{name}:{kind.__name__}" for name in PLAYING for kind in algos.get(name).action_spaces]
# Slates are of an environment of their own; posteriors have no gradients; rollouts here are not searched for.
APART = ("slateq", "linucb", "linear_thompson", "alphazero")
CASES = [each for each in CASES if not each.startswith(APART)]
PARTS = json.dumps({"grad_comp": "accumulate", "microbatches": 2})  # of each device's part of the batch
IN_PARTS = ["td3:Box", "sac:Box", "sac_discrete:Discrete", "ddpg:Discrete", "iqn:Discrete"]


def script(*arguments):
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONPATH": str(SCRIPT.parents[1])}
    command = [sys.executable, str(SCRIPT), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def found_by(folder, counts, cases, rewritten):
    """What `updates` of the script finds, of whose cases the first ones' graphs are rewritten."""
    script("updates", str(folder / "found.npz"), ",".join(map(str, (1, *counts))), str(rewritten), *cases)
    return dict(np.load(folder / "found.npz"))


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    """Of one process that has all cases of `make test`, on one device and on two."""
    return found_by(tmp_path_factory.mktemp("few"), (2,), FEW, 1)


@pytest.mark.parametrize(
    ("cases", "counts"),
    [
        (FEW, (2,)),
        *[pytest.param(CASES[i::8], (2, 4), marks=pytest.mark.slow) for i in range(8)],
        pytest.param([f"{case}:{PARTS}" for case in IN_PARTS], (2, 4), marks=pytest.mark.slow),
    ],
    ids=[FEW[0], *CASES[:8], "microbatches"],
)
def test_any_number_of_devices_makes_the_same_update_of_every_algorithm_and_action_space(
    request, tmp_path, cases, counts
):
    found = request.getfixturevalue("few") if cases is FEW else found_by(tmp_path, counts, cases, len(cases))
    for case in cases:
        one = {name.split("|")[2]: each for name, each in found.items() if name.startswith(f"{case}|1|")}
        kernels = [name for name in one if name.startswith("network/") and name.endswith("kernel")]
        assert kernels
        assert all(np.abs(one[name] - found[f"{case}|0|{name}"]).max() > 5e-6 for name in kernels)
        for count in counts:
            for name, value in one.items():
                where = f"{case}, {count} devices: {name}"
                other = found[f"{case}|{count}|{name}"]
                atol = (
                    5e-6 if case == DECAYED else 5e-7
                )  # by its learning rate, which is ten times the others'
                np.testing.assert_allclose(other, value, rtol=1e-4, atol=atol, err_msg=where)


def test_a_restart_cuts_what_runs_on_each_device_and_nothing_else(few):
    running, ended = TRANSITION | TRUNCATED, TRANSITION | TERMINATED
    np.testing.assert_array_equal(few["cut"], [[running, ended], [ended, 0]])


@pytest.mark.parametrize("counts", [(2,), pytest.param((2, 4), marks=pytest.mark.slow)])
def test_weights_decay_alike_on_any_number_of_devices(request, tmp_path, counts):
    found = request.getfixturevalue("few") if counts == (2,) else found_by(tmp_path, counts, [DECAYED], 1)
    found = {key.removeprefix(f"{DECAYED}|"): each for key, each in found.items() if key.startswith(DECAYED)}
    for name in [key.removeprefix("1|") for key in found if key.startswith("1|")]:
        for count in counts:
            np.testing.assert_allclose(found[f"{count}|{name}"], found[f"1|{name}"], 1e-4, 5e-6, err_msg=name)
    # Four steps (two updates of two epochs), which together take 2% of the weights off; Adam hardly moves
    # these, whose gradients are small.
    name = "network/torso/dense_0/kernel"
    np.testing.assert_allclose(found[f"2|{name}"], 0.995**4 * found[f"0|{name}"], rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize(
    ("name", "overrides"),
    [
        slow(
            "dqn_cartpole",
            compile="graph",  # the parts of devices that XLA compiles are in the other cases
            prioritized=True,
            min_replay_size=64,
            updates_per_iteration=2,
            normalize_reward=True,
        ),
        slow("ppo_cartpole", normalize_observation=True, normalize_reward=True, target_kl=0.002),
        slow("es_cartpole", rollout_length=20),
        slow("ppo_cartpole", env_backend="gym", rollout_length=16, epochs=2),
    ],
    ids=["memory", "rollout", "parameters", "host"],
)
def test_a_run_on_two_devices_goes_on_from_its_checkpoint(name, overrides):
    found = json.loads(script("run", name, json.dumps(overrides)).splitlines()[-1])
    hparams = resolve(name, overrides)
    last = 7 * hparams.num_envs * hparams.rollout_length  # the steps before the eighth iteration
    rate = schedules.learning_rate(hparams, last).numpy()
    assert hparams.lr_schedule == "constant" or rate < hparams.lr
    assert found["rates"] == pytest.approx([rate, rate], rel=1e-5)
    assert found["step"] == 8 * hparams.num_envs * hparams.rollout_length
    # Of all devices together; autoreset steps are none.
    assert 0.8 < found["transitions"] / (2 * hparams.num_envs * hparams.rollout_length) <= 1.0


@pytest.mark.slow
def test_the_command_trains_logs_tests_and_resumes_on_two_devices(tmp_path):
    script("train", str(tmp_path))
    log = (tmp_path / "run_0" / "train.log").read_text()
    assert "resumed at step 2,048" in log and "4,096/4,096 steps" in log
    rows = (tmp_path / "run_0" / "metrics.csv").read_text().splitlines()
    assert rows[-1].split(",")[0] == "4096" and "eval/return_mean" in rows[0]


@pytest.mark.slow
def test_a_run_on_two_devices_begins_with_another_run_s_weights_on_both(tmp_path):
    assert int(script("begin", str(tmp_path)).split()[-1]) >= 4


class Three:
    """A strategy as far as `part` looks."""

    num_replicas_in_sync = 3


@pytest.mark.parametrize(
    ("name", "overrides", "experience", "what"),
    [
        ("ppo_cartpole", {"num_envs": 8}, "rollout", "3 devices cannot share num_envs=8"),
        ("es_cartpole", {"num_envs": 64}, "parameters", "3 devices cannot share num_envs=64"),
        ("dqn_cartpole", {"num_envs": 3, "batch_size": 32}, "transition", "cannot share batch_size=32"),
    ],
)
def test_what_devices_cannot_share_is_one_clear_line(name, overrides, experience, what):
    with pytest.raises(UsageError, match=what):
        Devices(Three()).part(resolve(name, overrides), experience)


def test_alone_nothing_is_exchanged():
    x = tf.constant([[1.0, 2.0]])
    found = [each(x) for each in (replicas.total, replicas.mean, replicas.gathered, replicas.own_rows)]
    assert all(each is x for each in found)
    assert replicas.rank() == 0 and replicas.count() == 1
    assert float(replicas.smallest(tf.constant(3.0))) == 3.0
