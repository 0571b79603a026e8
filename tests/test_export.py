"""Exported policies act as the trained ones, also where this package is not there."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from marked import few
from pages import ROOT
from small_runs import TINY

import rl
from rl.agents.algos.registry import get_algo
from rl.envs.host import Purpose, purpose_seed
from rl.envs.make import eval_envs_of
from rl.envs.wrappers import with_previous
from rl.errors import UsageError
from rl.export.__main__ import DESCRIPTION, WRITES, _described, main
from rl.export.formats import FORMATS
from rl.export.parity import TOLERANCE, Sample, parity, play
from rl.export.program import Port, Program
from rl.hparams.merge import resolve
from rl.ops.search import _is
from rl.policy import Policy

SMALL = {"compile": "graph", "model.hidden": (16,)}
CASES = {  # set and overrides; batch
    "dqn, actions that are values": ("dqn_cartpole", {}, 2),
    "sac, a Box action": ("sac_pendulum", {}, 1),
    "ppo with a memory": ("ppo_cartpole_no_velocity", {"normalize_observation": True}, 2),
    "ppo of pictures": ("ppo_breakout_minatar", {"model.name": "minatar_cnn"}, 1),
    "ppo of Dict observations": ("ppo", {"env": "CartPole-v1", "previous_action_reward": True}, 1),
    "ppo of many agents": ("ppo", {"env": "TwoStepGame-v0"}, 2),
    "ppo that draws its actions": ("ppo", {"env": "CartPole-v1", "eval_policy": "sample"}, 2),
    "dt, whose memory is a window": (
        "dt",
        {"env": "Pendulum-v1", "target_return": -100.0, "return_scale": 100.0, "context_length": 4},
        2,
    ),
    "dt of discrete actions, of which there is none before the first": (
        "dt",
        {"env": "CartPole-v1", "target_return": 50.0, "context_length": 4},
        2,
    ),
    "bcq, which draws its candidates": ("bcq", {"env": "Pendulum-v1", "data": "none"}, 2),
    "dreamer, which draws its latents": ("dreamer", {"env": "CartPole-v1", "deter": 16, "units": 16}, 2),
    "muzero, which searches": (
        "muzero",
        {
            "env": "TicTacToe-v0",
            "env_kwargs": {"opponent": "random"},
            "simulations": 4,
            "state_size": 8,
            "bins": 11,
        },
        2,
    ),
}


def _agent(name, overrides):
    """An agent whose policy is far from uniform."""
    hparams = resolve(name, SMALL | overrides)
    env = eval_envs_of(hparams, 1)
    agent = get_algo(hparams.algo)(hparams, env.observation_space, env.action_space, 3)
    rows, encode = env.agents, env.encode
    env.close()
    generator = np.random.Generator(np.random.Philox(0))
    for each in agent.networks["network"].trainable_variables:
        each.assign(each + generator.normal(0.0, 0.3, each.shape))
    return agent, encode, rows


@pytest.mark.parametrize("case", few(CASES, list(CASES)[:3]))
def test_every_format_acts_as_the_agent(case, tmp_path):
    name, overrides, batch = CASES[case]
    agent, encode, rows = _agent(name, overrides)
    program = Program(agent, batch, encode)
    env = eval_envs_of(agent.hparams, batch // rows)
    sample = play(program, env, 40, agent.observation_space)
    env.close()
    actions = np.concatenate([each["action"] for each in sample.outputs])
    assert len(np.unique(actions)) > 1 or case == "ppo of many agents", "a test that could not fail"
    for kind, (file, write, run) in FORMATS.items():
        write(program, tmp_path / file)
        found = parity(sample, run(tmp_path / file))
        assert found.holds, (kind, found)
        assert found.observations >= 40


@pytest.mark.slow
def test_the_program_is_the_policy_that_load_gives(tmp_path):
    """Action by action, over an episode: clipped, counted as the environment counts, with its own memory."""
    options = {**TINY, "train_steps": 32, "model": {"hidden": (16,)}}
    policy = rl.train("ppo_cartpole_no_velocity", output_dir=tmp_path, eval_episodes=1, **options).policy(
        "last"
    )
    program = Program(policy.agent, 1, policy.encode)
    env = policy.environments(1)
    observation, memory = env.reset(purpose_seed(Purpose.USER)), program.initial_state
    for _ in range(8):
        asked = {"observation": observation, **memory}
        found = program.function({name: tf.constant(each) for name, each in asked.items()})
        action = policy(observation, batched=True)
        np.testing.assert_array_equal(found["action"], action)
        memory = {name: found[f"next_{name}"].numpy() for name in memory}
        assert memory and any(np.any(each) for each in memory.values())
        observation, *_ = env.step(found["action"].numpy())
    env.close()


def test_names_are_those_that_every_format_can_have(tmp_path):
    parts = {"my key": spaces.Box(-1.0, 1.0, (2,)), "my_key": spaces.Discrete(3), "é": spaces.Discrete(2)}
    # Two that TensorFlow takes for one, words of Python's, and what other inputs and outputs are called.
    others = ("Pos", "pos", "a-b", "a/b", "self", "lambda", "action", "scores", "state_0", "next_state_0")
    parts |= {name: spaces.Box(-1.0, 1.0, (3,)) for name in others}
    hparams = resolve("ppo", SMALL | {"env": "Test-v0", "model.name": "gru", "model.recurrent_units": 4})
    agent = get_algo("ppo")(hparams, spaces.Dict(parts), spaces.Discrete(2), 0)
    program = Program(agent, 1, lambda action: action)
    taken = [
        "action_",
        "lambda_",
        "my_key",
        "my_key_",
        "next_state_0_",
        "pos_",
        "scores_",
        "self_",
        "state_0_",
    ]
    names = [each.name for each in program.inputs]
    assert {*taken, "Pos", "a-b", "a/b_", "observation__", "state_0", "state_1"} == set(names)
    assert names[0] == "Pos" and len(names) == len(parts) + 2
    inputs = {each.name: np.ones(each.shape, each.dtype) for each in program.inputs}
    for file, write, run in FORMATS.values():
        write(program, tmp_path / file)
        scores = run(tmp_path / file)(inputs)["scores"]
        np.testing.assert_allclose(scores, program.function(inputs)["scores"], rtol=1e-5)


def test_onnx_has_what_a_search_computes_and_loses_no_digits_of_it(tmp_path):
    x = np.float32([0.0, 1e-8, -1e-8, 1e-3, -0.3, 0.4999, 0.5001, 7.0, -20.0])

    class Exponential:
        inputs = (Port("x", "observation", x.shape, "float32", ""),)

        @staticmethod
        def function(inputs):
            row = tf.math.expm1(inputs["x"])
            # A search's loops: which node and move of a tree, and a path's steps back from its end.
            total = tf.while_loop(
                lambda i, _: i < 3,
                lambda i, total: (i + 1, total + tf.cast(_is(i, 9), tf.float32) * tf.gather(row, i)),
                (tf.constant(0), tf.zeros([9])),
            )[1]
            return {"y": tf.where(_is(tf.constant([3]), 9)[0], row, row), "total": total}

    write, run = FORMATS["onnx"][1:]
    write(Exponential(), tmp_path / "x.onnx")
    found = run(tmp_path / "x.onnx")({"x": x})
    np.testing.assert_allclose(found["y"], np.expm1(np.float64(x)), rtol=4e-7)
    np.testing.assert_allclose(found["total"], np.expm1(np.float64(x)) * (np.arange(9) < 3), rtol=4e-7)


@pytest.mark.parametrize(
    ("name", "overrides", "drawn"),
    [
        ("dqn", {"env": "CartPole-v1", "act_select": "uniform_random"}, ("randint_0", (64,))),
        ("bcq", {"env": "Pendulum-v1", "sampled_actions": 3}, ("normal_0", (64, 6))),  # latents of 2 numbers
    ],
)
def test_policies_that_always_draw_are_given_what_to_draw(name, overrides, drawn):
    """With a seed of its own the file would draw the same at every step."""
    agent, encode, _ = _agent(name, overrides)
    program = Program(agent, 64, encode)
    (port,) = program.inputs[1:]
    assert (port.name, port.shape) == drawn
    generator = np.random.default_rng(0)
    observation = np.zeros(program.inputs[0].shape, np.float32)
    draws = tf.constant(generator.integers(0, 2, port.shape), port.dtype)
    asked = {"observation": observation, port.name: draws}
    assert len(np.unique(program.function(asked)["action"])) > 1


def test_what_a_converter_cannot_write_is_one_line(tmp_path):
    space = spaces.Box(0, 9, (2,), np.uint64)  # which LiteRT casts to no other type
    agent = get_algo("ppo")(resolve("ppo", {**SMALL, "env": "CartPole-v1"}), space, spaces.Discrete(2), 0)
    said = r"^--format litert: its converter cannot write this policy: 'tf.Cast' op is neither [^\n]*$"
    with pytest.raises(UsageError, match=said):
        FORMATS["litert"][1](Program(agent, 1, lambda x: x), tmp_path / "policy.tflite")


def test_what_tells_of_the_step_before_says_how_it_is_told():
    hparams = resolve("ppo", {**SMALL, "env": "CartPole-v1", "previous_action_reward": True})
    actions = spaces.Discrete(2)
    agent = get_algo("ppo")(hparams, with_previous(spaces.Box(-1.0, 1.0, (4,)), actions), actions, 0)
    meanings = {each.name: each.meaning for each in Program(agent, 1, lambda x: x + 3).inputs}
    assert meanings["previous_action"] == "the action before, less 2; 0 where an episode begins"
    assert meanings["previous_reward"] == "the reward before; 0 where an episode begins"
    assert meanings["observation"] == "as the environment gives it"


def test_parity_sees_what_differs_and_lets_ties_be():
    inputs = [{"x": np.zeros(1)}]
    outputs = [{"action": np.array([0, 1]), "scores": np.array([[1.0, 0.0], [2.0, 2.0 + 1e-6]], np.float32)}]
    sample = Sample(inputs, outputs)
    same = parity(sample, lambda _: outputs[0])
    assert same == (2, 0.0, 0, 0) and same.holds
    tie = parity(sample, lambda _: {**outputs[0], "action": np.array([0, 0])})
    assert (tie.other_actions, tie.ties, tie.holds) == (0, 1, True)
    other = parity(sample, lambda _: {**outputs[0], "action": np.array([1, 1])})
    assert (other.other_actions, other.holds) == (1, False)
    far = parity(sample, lambda _: {**outputs[0], "scores": outputs[0]["scores"] + 3 * TOLERANCE})
    assert not far.holds
    nothing = parity(sample, lambda _: {**outputs[0], "scores": outputs[0]["scores"] * np.nan})
    assert nothing.difference == np.inf and not nothing.holds


def test_a_score_near_zero_is_judged_by_the_size_of_the_scores():
    """Rounding is by the size of a network's sums: with scores up to 90, TensorFlow's -0.6 is 9e-6 off."""
    scores = np.array([[90.0, 80.0, -1e9], [-0.6116147, -0.5387897, -1e9]], np.float32)  # one is illegal
    sample = Sample([{"x": np.zeros(1)}], [{"action": np.array([0, 1]), "scores": scores}])
    off = np.array([[0, 0, 0], [9.9e-6, 1.17e-5, 0]], np.float32)
    assert parity(sample, lambda _: {"action": np.array([0, 1]), "scores": scores + off}).holds
    assert not parity(sample, lambda _: {"action": np.array([0, 1]), "scores": scores + 200 * off}).holds
    assert parity(sample, lambda _: {"action": np.array([0, 0]), "scores": scores}).other_actions == 1


WITHOUT = """
import sys
sys.modules["rl"] = None
"""
ELSEWHERE = """
import json, numpy as np, pathlib
folder = pathlib.Path(sys.argv[1])
port = json.loads((folder / "policy.json").read_text())["inputs"][0]
x = np.linspace(-0.1, 0.1, 4, dtype=np.float32).reshape(port["shape"])
import onnxruntime
print(onnxruntime.InferenceSession(folder / "policy.onnx").run(["action"], {port["name"]: x})[0].tolist())
from ai_edge_litert.interpreter import Interpreter
runner = Interpreter(str(folder / "policy.tflite")).get_signature_runner()
print(runner(**{port["name"]: x})["action"].tolist())
import tensorflow as tf
call = tf.saved_model.load(str(folder / "savedmodel")).signatures["serving_default"]
print(call(**{port["name"]: tf.constant(x)})["action"].numpy().tolist())
import keras
print(keras.layers.TFSMLayer(folder / "savedmodel", "function")({port["name"]: x})["action"].numpy().tolist())
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder of a run in bfloat16, of which LiteRT knows nothing: files compute in float32."""
    options = {"compile": "graph", "train_steps": 64, "log_period": 64, "model.precision": "bfloat16"}
    return rl.train(
        "dqn_cartpole", output_dir=tmp_path_factory.mktemp("out"), eval_episodes=1, **options
    ).run_dir


def test_the_command_writes_what_runs_without_this_package(run, tmp_path, capsys, monkeypatch):
    formats = ["--format", "savedmodel,litert,onnx", "--observations", "50"]
    assert main([str(run.parent), *formats]) == 0
    out = capsys.readouterr().out
    assert [f"{name} " in out for name in FORMATS] == [True] * 3
    assert "observation  float32 [1, 4]" in out
    folder = run / "exported"
    told = json.loads((folder / "policy.json").read_text())
    assert told["env"] == "CartPole-v1" and len(told["compared"]) == 3
    assert (told["env_kwargs"], told["env_wrappers"], told["max_episode_steps"]) == ({}, [], None)
    command = [sys.executable, "-c", WITHOUT + ELSEWHERE, str(folder)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    x = np.linspace(-0.1, 0.1, 4, dtype=np.float32)
    assert done.stdout.split() == [f"[{rl.load(run)(x)}]"] * 4
    returns = []
    for name in ("serve_onnx", "serve_litert"):
        example = WITHOUT + (ROOT / f"examples/{name}.py").read_text()
        played = subprocess.run([sys.executable, "-c", example, str(folder)], capture_output=True, text=True)
        assert played.returncode == 0, played.stderr[-2000:]
        returns.append(re.findall(r"episode \d: return (\d+)", played.stdout))
    assert returns[0] == returns[1] and len(returns[0]) == 5
    assert main([str(run.parent), *formats]) == 2 and "take --force" in capsys.readouterr().err
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("all of it")
    (tmp_path / "file").write_text("too")
    kept = sorted(path for path in tmp_path.rglob("*") if path.is_file())
    for to, words in {
        run.parent: "the run",
        run: "the run",
        run / "checkpoints": "was not made by this command",
        tmp_path / "mine": "was not made by this command",
        tmp_path / "file": "that is a file; name a folder",
    }.items():
        assert main([str(run.parent), *formats, "--to", str(to), "--force"]) == 2
        assert words in capsys.readouterr().err
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == kept
    monkeypatch.chdir(folder)
    assert main([str(run.parent), "--format", "litert", "--observations", "5", "--to", ".", "--force"]) == 0
    assert len(json.loads((folder / "policy.json").read_text())["compared"]) == 1


def test_who_serves_a_policy_is_told_of_the_wrappers_that_it_was_trained_within(tmp_path):
    wrapper = "gymnasium.wrappers:NormalizeObservation"
    hparams = resolve(
        "ppo_cartpole", {"env_wrappers": [wrapper], "env_kwargs": {"sutton_barto_reward": True}}
    )
    agent = get_algo("ppo")(hparams, spaces.Box(-1.0, 1.0, (4,)), spaces.Discrete(2), 0)
    policy = Policy(agent)
    told = _described(policy, Program(agent, 1, policy.encode), [])
    assert told["env_wrappers"] == [wrapper] and told["env_kwargs"] == {"sutton_barto_reward": True}
    assert told["inputs"][0]["meaning"] == f"as the environment gives it within its wrappers {wrapper}"
    (tmp_path / "policy.json").write_text(json.dumps(told))
    (tmp_path / "policy.onnx").touch()
    example = ROOT / "examples/serve_onnx.py"
    played = subprocess.run([sys.executable, example, tmp_path], capture_output=True, text=True)
    assert played.returncode == 1
    assert played.stderr == f"error: put CartPole-v1 into its wrappers first: {wrapper}\n"


def test_who_serves_a_policy_gives_observations_in_its_own_numbers(tmp_path):
    """Those of FrozenLake are whole numbers, which no interpreter takes as floats."""
    hparams = resolve("ppo", SMALL | {"env": "FrozenLake-v1", "env_kwargs": {"is_slippery": False}})
    agent = get_algo("ppo")(hparams, spaces.Discrete(16), spaces.Discrete(4), 0)
    policy = Policy(agent)
    program = Program(agent, 1, policy.encode)
    (tmp_path / "policy.json").write_text(json.dumps(_described(policy, program, [])))
    for name in ("onnx", "litert"):
        file, write, _ = FORMATS[name]
        write(program, tmp_path / file)
        command = [sys.executable, ROOT / f"examples/serve_{name}.py", tmp_path]
        played = subprocess.run(command, capture_output=True, text=True)
        assert played.stdout.count("return 0") == 5, played.stderr[-2000:]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--format", "keras"], "keras.layers.TFSMLayer"),
        (["--format", "onx"], "did you mean onnx"),
        (["--format", ","], "name some of savedmodel"),
        (["--which", "bst"], "did you mean best"),
        (["--eval_policy", "drawn"], "greedy"),
        ([], "there is no run in"),
    ],
)
def test_mistakes_are_one_line_and_write_nothing(tmp_path, capsys, flags, words):
    target = tmp_path / "there"
    assert main([str(tmp_path / "run"), "--to", str(target), *flags]) == 2
    text = capsys.readouterr().err
    assert text.startswith("error: ") and text.count("\n") == 1 and words in text
    assert not target.exists() and not list(tmp_path.iterdir())


def test_a_folder_with_every_format_counts_as_an_earlier_output():
    assert set(WRITES) == {DESCRIPTION, *(file for file, _, _ in FORMATS.values())}


def test_a_file_that_acts_otherwise_is_not_written(run, tmp_path, capsys, monkeypatch):
    file, write, asked = FORMATS["litert"]

    def wrong(path):
        call = asked(path)
        return lambda inputs: {name: each + 1 for name, each in call(inputs).items()}

    monkeypatch.setitem(FORMATS, "litert", (file, write, wrong))
    flags = ["--format", "litert", "--to", str(tmp_path / "out"), "--observations", "5"]
    assert main([str(run), *flags]) == 1
    assert "nothing written" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
