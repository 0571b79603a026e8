"""A process with several logical processors as devices, for `tests/parallel/test_devices.py`.

    python tests/device_equality.py updates PATH COUNTS REWRITTEN CASE...
                                                           parameters before and after updates from one batch
    python tests/device_equality.py run SET OVERRIDES      a run on two devices, saved, continued and restored
    python tests/device_equality.py train FOLDER           the command on two devices, run again to go on
    python tests/device_equality.py begin FOLDER           a run that begins with the weights of another one

A case is ALGO:KIND or ALGO:KIND:OVERRIDES, KIND the action space's; COUNTS of devices are a comma list.
TensorFlow rewrites the graphs of the first REWRITTEN cases, as users' are; others run as they were traced.
It takes the number of logical devices once in a process.
"""

# ruff: noqa: E402  TensorFlow is imported as the command line does, in two thirds of the time

from __future__ import annotations

import json
import sys
import tempfile

from rl.imports import import_tensorflow

import_tensorflow()

import numpy as np
import plain_graphs
import tensorflow as tf
import tiny_parts
import tiny_team

import rl
from rl.agents.algos.registry import get_algo
from rl.cli import main
from rl.envs.make import make_env
from rl.envs.registry import register
from rl.hparams.merge import resolve
from rl.hparams.registry import registry as hparams_sets
from rl.memory.ring import TERMINATED, TRANSITION
from rl.ops import random
from rl.ops.trajectories import take
from rl.parallel.devices import OWN, Devices
from rl.runners.build import build_runner
from rl.runners.from_run import take_weights
from rl.runners.parts import make_memory
from rl.storage.checkpoint import CheckpointManager
from rl.systems import system as system_module
from rl.systems.system import System

MOST = 4  # devices
KINDS = {  # kind of action space: an environment that has it
    "Box": {"env": "Pendulum-v1"},
    "Discrete": {"env": "CartPole-v1"},
    # A rate at which small rewards move the first layers by more than rounding.
    "MultiDiscrete": {"env": tiny_parts.ENV_ID, "env_kwargs": {"actions": "digits"}, "lr": 1e-2},
    "MultiBinary": {"env": tiny_parts.ENV_ID, "env_kwargs": {"actions": "signs"}, "lr": 1e-2},
}
ENVS, LENGTH, UPDATES = 8, 8, 2
TINY = {
    "num_envs": ENVS,
    "rollout_length": LENGTH,
    "model.hidden": (8,),
    "train_steps": 4_096,
    "lr": 1e-3,
    # Elements whose gradient is zero but for rounding would move by the sign of that rounding.
    "adam_epsilon": 1e-3,
    "compile": "graph",
}
OPTIONAL = {
    "batch_size": 16,
    "min_replay_size": 8,
    "replay_capacity": 4_096,
    "minibatches": 1,
    "epochs": 2,
    "updates_per_iteration": 1,
    "value_coef": 0.1,  # or clipping to max_grad_norm leaves the policy next to nothing
    "burn_in": 2,
    "unroll_length": 10,
    "unroll_steps": 2,
    "task_episodes": 2,
    "inner_steps": 1,
    "dream_period": 1,
    "dream_length": 8,
    "value_epochs": 2,
    "policy_iterations": 2,
    "aux_minibatches": 1,
}


OF_ALGOS = {"muzero": {"lr": 2e-2}}  # its last layers begin with zeros: nothing else moves before they do


def strategy(count):
    return tf.distribute.MirroredStrategy([f"/cpu:{i}" for i in range(count)]) if count > 1 else None


def settings(algo, kind, overrides="{}"):
    fields = type(hparams_sets.get(algo)()).model_fields
    optional = {name: value for name, value in OPTIONAL.items() if name in fields}
    made = TINY | optional | KINDS[kind] | OF_ALGOS.get(algo, {}) | json.loads(overrides)
    if get_algo(algo).hparams_type.view != "rows":
        options = {"actions": "box"} if kind == "Box" else {}
        made |= {"env": tiny_team.ENV_ID, "env_kwargs": options}
    if made["env"] == "CartPole-v1" and get_algo(algo).experience == "parameters":
        made["env"] = "Identity-v0"  # in so few steps of CartPole all members score alike
    return resolve(algo, made)


def global_batch(hparams):
    """What one update learns from, of one device with all environments; numpy."""
    runner = build_runner(hparams, 0)
    trajectory = runner._rollout(random.key(5), tf.constant(0, tf.int64))[0]
    agent = runner.agent
    if agent.experience in ("rollout", "parameters"):
        batch = trajectory
    else:
        memory = make_memory(agent, hparams.num_envs, hparams.rollout_length, 1)
        for i in range(3):
            memory.add(runner._rollout(random.key(i), tf.constant(0, tf.int64))[0])
        batch = memory.sample(random.key(7), tf.constant(0, tf.int64))
    runner.close()
    batch = tf.nest.map_structure(lambda x: np.array(x), batch)
    if agent.experience in ("transition", "sequence"):
        batch.mask[:3] = 0.0  # the first device has fewer examples that count
    return batch


def updated(hparams, batch, count):
    """The agent's variables before and after updates by `count` devices, each from its part of the batch."""
    make_agent = get_algo(hparams.algo)
    devices = Devices(strategy(count))
    own = devices.part(hparams, make_agent.experience)
    env = make_env(hparams.env, "graph", 1, hparams.env_kwargs, view=hparams.view)
    with devices.scope():
        agent = make_agent(own, env.observation_space, env.action_space, 3)
        agent.resample_noise(random.key(5))
    size = ENVS if agent.experience in ("rollout", "parameters") else hparams.batch_size
    parts = [
        tf.nest.flatten(take(batch, tf.range(place * size // count, (place + 1) * size // count)))
        for place in range(count)
    ]

    def update(seed, *leaves):
        agent.learn(tf.nest.pack_sequence_as(batch, leaves), seed)
        return tf.constant(0.0)

    signature = [tf.TensorSpec([2], tf.int32), *[tf.TensorSpec(x.shape, x.dtype) for x in parts[0]]]
    call = devices.compile(update, signature, jit_compile=False)
    alike = {name: each for name, each in agent.variables.items() if not name.startswith(OWN)}
    before = {name: np.array(devices.values(each)[0].numpy()) for name, each in alike.items()}
    for i in range(UPDATES):
        call([[random.key(i), *part] for part in parts])
    found = {name: devices.values(each)[0].numpy() for name, each in alike.items()}
    for name, each in alike.items():
        for other in devices.values(each)[1:]:  # all devices must have come to the same
            np.testing.assert_allclose(other.numpy(), found[name], rtol=1e-6, atol=1e-7, err_msg=name)
    # What one device alone finds wrong, none learns from.
    place = next(i for i, x in enumerate(tf.nest.flatten(batch)) if x is rewards(batch))
    parts[-1][place] = parts[-1][place] * np.float32(np.nan)
    call([[random.key(0), *part] for part in parts])
    for name, each in alike.items():
        np.testing.assert_array_equal(devices.values(each)[0].numpy(), found[name], err_msg=name)
    assert agent.guard.first() == "the reward" and agent.guard.made == UPDATES
    devices.close()
    return before, found


def rewards(batch):
    return getattr(batch, "trajectory", batch).reward


def updates(path, counts, rewritten, *cases):
    plain_graphs.note_no_stacks()
    found, counts = {}, [int(count) for count in counts.split(",")]
    for i, case in enumerate(cases):
        plain_graphs.rewrite(i < int(rewritten))
        hparams = settings(*case.split(":", 2))
        batch = global_batch(hparams)
        for count in counts:
            for made, variables in zip((0, count), updated(hparams, batch, count), strict=True):
                found |= {f"{case}|{made}|{name}": value for name, value in variables.items()}
    np.savez(path, cut=cut(), **found)


def cut():
    """The flags of the newest row on each of two devices, [2, 2], after a restart has cut what was running:
    the first environment of the first device alone."""
    devices, hparams = Devices(strategy(2)), settings("dqn", "Discrete")
    env = make_env(hparams.env, "graph", 1)
    with devices.scope():
        agent = get_algo("dqn")(hparams, env.observation_space, env.action_space, 3)
        memory = make_memory(agent, 2, LENGTH, 1)
        memory.ring._written.assign(1)
    newest = [TRANSITION, TRANSITION | TERMINATED], [TRANSITION | TERMINATED, 0]
    flags = devices.values(memory.ring._flags)
    for own, row in zip(flags, newest, strict=True):
        own.assign(np.array([*row, *[0] * (own.shape[0] - 2)], np.uint8))
    memory.cut()
    devices.close()
    return [own.numpy()[:2] for own in flags]


def run(name, overrides):
    def state(runner):
        return {key: np.array(each.numpy()) for key, each in runner.variables.items()}

    hparams = resolve(name, json.loads(overrides))
    runner = build_runner(hparams, 0, strategy=strategy(2))
    for _ in range(3):
        sums = runner.run(2)
    with tempfile.TemporaryDirectory() as folder:
        manager = CheckpointManager(folder)
        manager.save(runner.variables, runner.step, {}, runner.appended())
        saved, late = state(runner), runner.run(2)
        after = state(runner)
        runner.close()
        again = build_runner(hparams, 0, strategy=strategy(2))
        manager.restore(again.variables)
    np.testing.assert_equal(state(again), saved)
    if hparams.env_backend != "gym":  # of host environments the state is not saved
        assert again.run(2) == late
        np.testing.assert_equal(state(again), after)
    assert any(name.startswith("device_1/") for name in saved)
    assert sums["updates"] > 0 and all(np.isfinite(value) for value in sums.values()), sums
    rate = runner.agent.optimizers["network"].learning_rate
    rates = [float(each.numpy()) for each in runner.devices.values(rate)]
    print(json.dumps({"step": runner.step, "transitions": sums["transitions"], "rates": rates}))
    again.close()


def train(folder):
    """As with `--sys gpu` where there are two."""
    two = System("gpu", ("/cpu:0", "/cpu:1"), strategy(2))
    system_module._SYSTEMS["gpu"] = lambda: two
    words = ["--sys", "gpu", "--hparams", "ppo_cartpole", "--eval_episodes", "2", "--test_episodes", "2"]
    words += ["--hparam_override", "eval_period=2048,histograms=kernel", "--output_dir", folder]
    for steps in ("2048", "4096"):
        assert main([*words, "--train_steps", steps]) == 0


def begin(folder):
    """A run on two devices that begins with the best policy of another one, which has no target network."""
    settings = {"compile": "graph", "train_steps": 512, "eval_period": 256}
    run = rl.train("dqn_identity", output_dir=folder, eval_episodes=2, **settings)
    there = run.policy().agent.policy_variables
    hparams = resolve("dqn_identity", {**settings, "start_from": folder, "start_which": "best"})
    runner = build_runner(hparams, 1, strategy=strategy(2))
    take_weights(runner)
    here = runner.agent.variables
    for name, value in there.items():
        for mine in (name, f"target_{name}"):
            for copy in runner.devices.values(here[mine]):
                np.testing.assert_array_equal(copy, value, err_msg=mine)
    runner.run(2)
    runner.close()
    print(len(there))


if __name__ == "__main__":
    register(tiny_parts.Parts)
    register(tiny_team.TinyTeam)
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * MOST)
    {"updates": updates, "run": run, "train": train, "begin": begin}[sys.argv[1]](*sys.argv[2:])
