"""examples: Gymnasium's physics, ONNX Runtime's answers, a pole that stays up in a browser; serve_*.py."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
import sys

import browser
import gymnasium
import numpy as np
import onnxruntime
import pytest
from gymnasium import spaces
from pages import ROOT

from rl.agents.algos.registry import get_algo
from rl.envs.make import eval_envs_of
from rl.export.__main__ import _described
from rl.export.formats import write_onnx
from rl.export.program import Program
from rl.hparams.merge import resolve
from rl.policy import Policy

PAGE = ROOT / "examples/browser"
CHECK = """<!DOCTYPE html><script src="cartpole.js"></script><script src="onnx.js"></script><script>
const given = GIVEN;
const trajectories = given.trajectories.map(({ start, actions, pushes }) => {
  const cart = new CartPole(start);
  return actions.map((action, i) => (cart.step(action, pushes[i]), [...cart.state, Number(cart.fallen)]));
});
const answers = given.files.map((file) => {
  const policy = new OnnxPolicy(Uint8Array.from(atob(file), (each) => each.charCodeAt(0)).buffer);
  return given.observations.map((row) => {
    const inputs = { observation: { shape: [1, 4], data: Float32Array.from(row) } };
    return [...policy.run(inputs, "scores").data, policy.run(inputs, "action").data[0]];
  });
});
document.write(`<pre>${JSON.stringify({ trajectories, answers })}</pre>`);
</script>"""
USUAL = {"ppo_cartpole": {"normalize_observation": True}}
OTHERS = {  # whose networks have other operations
    "noisy_dqn_cartpole": {"model.layer_norm": True, "model.activation": "relu"},
    "iqn_cartpole": {"model.activation": "elu"},
    "dqn_cartpole": {"dueling": True},
    "c51_cartpole": {},
    "sac_discrete_cartpole": {},
    "es_cartpole": {},
}


def exported(path, set_name, balances=False, **overrides):
    """Writes an agent's policy: one that pushes towards where the pole leans, or with random weights."""
    hparams = resolve(set_name, {"compile": "graph", "model.hidden": (16,), **overrides})
    env = eval_envs_of(hparams, 1)
    agent = get_algo(hparams.algo)(hparams, env.observation_space, env.action_space, 3)
    encode = env.encode
    env.close()
    generator = np.random.Generator(np.random.Philox(0))
    for name, each in agent.policy_variables.items():
        noise = np.zeros(each.shape) if balances else each + generator.normal(0.0, 0.3, each.shape)
        if each.dtype == "float32":
            each.assign(np.abs(noise) if "variance" in name else noise)  # a normaliser's too
    if balances:
        first, last = (each for each in agent.networks["network"].trainable_variables if len(each.shape) == 2)
        first.assign(0.01 * np.outer([0.05, 0.2, 1.0, 0.35], np.eye(16)[0]))
        last.assign(np.outer(np.eye(16)[0], [-1.0, 1.0]))
    write_onnx(Program(agent, 1, encode), path)
    return path


def played(generator, episodes=8):
    """Trajectories of Gymnasium's environment; of each the states and whether the pole has fallen, [T, 5]."""
    env = gymnasium.make("CartPole-v1").unwrapped
    given, found = [], []

    def play(start, actions, pushes):
        env.reset()
        env.state, states = np.array(start), []
        for action, push in zip(actions, pushes, strict=True):
            env.force_mag = 10.0 + (push if action == 1 else -push)
            *_, fallen, _, _ = env.step(action)
            states.append([*map(float, env.state), float(fallen)])
            if fallen:
                break
        made = len(states)
        given.append({"start": [*map(float, start)], "actions": actions[:made], "pushes": pushes[:made]})
        found.append(states)
        return states

    for episode in range(episodes):
        pushes = generator.choice([0.0, 0.0, 30.0, -30.0], 500).tolist()
        start = generator.uniform(-0.05, 0.05, 4)
        play(start, generator.integers(2, size=500).tolist(), pushes if episode % 2 else [0.0] * 500)
    assert all(states[-1][4] == 1.0 for states in found), "each has fallen"
    state = [0.01, 0.02, 0.03, 0.04]  # and step by step one that has not
    for _ in range(500):
        action = int(np.dot([0.05, 0.2, 1.0, 0.35], state) > 0)
        *state, fallen = play(state, [action], [0.0])[0]
    assert not fallen
    return given, found


@browser.needed
@pytest.mark.parametrize("policies", [USUAL, pytest.param(OTHERS, marks=pytest.mark.slow)])
def test_the_page_has_gymnasiums_physics_and_the_answers_of_onnx_runtime(policies, tmp_path):
    generator = np.random.default_rng(0)
    trajectories, states = played(generator)
    observations = generator.uniform(-3.0, 3.0, [50, 4]).astype(np.float32)
    files = [exported(tmp_path / name, name, **overrides) for name, overrides in policies.items()]
    given = {"trajectories": trajectories, "observations": observations.tolist()}
    given["files"] = [base64.b64encode(file.read_bytes()).decode() for file in files]
    for script in PAGE.glob("*.js"):
        shutil.copy(script, tmp_path)
    (tmp_path / "check.html").write_text(CHECK.replace("GIVEN", json.dumps(given)))
    shown = browser.shown((tmp_path / "check.html").as_uri())
    found = json.loads(re.findall("<pre>(.*)</pre>", shown)[-1])
    for ours, theirs in zip(found["trajectories"], states, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-6)
    for file, answers in zip(files, found["answers"], strict=True):
        session = onnxruntime.InferenceSession(file)
        for row, answer in zip(observations, answers, strict=True):
            scores, action = session.run(["scores", "action"], {"observation": row[None]})
            np.testing.assert_allclose(answer[:2], scores[0], rtol=1e-5, atol=1e-5)
            assert answer[2] == action[0]
        assert len({answer[2] for answer in answers}) == 2, "a test that could not fail"


@browser.needed
def test_the_page_balances_the_pole_and_survives_a_push(tmp_path):
    for file in PAGE.iterdir():
        shutil.copy(file, tmp_path)
    exported(tmp_path / "policy.onnx", "dqn_cartpole", balances=True, **{"model.activation": "tanh"})
    page = tmp_path / "index.html"
    push = "<script>setTimeout(() => document.getElementById('right').click(), 3000)</script>"
    page.write_text(page.read_text().replace("</body>", f"{push}</body>"))
    with browser.served(tmp_path) as address:
        picture = tmp_path / "x.png"
        flags = ["--virtual-time-budget=11000", f"--screenshot={picture}", "--window-size=900,700"]
        shown = browser.shown(f"{address}/index.html?policy=policy.onnx", *flags)
    assert "Balanced all 500 steps." in shown and ">500 steps</output>" in shown
    assert picture.stat().st_size > 10_000


@pytest.mark.slow
def test_the_notebook_runs_from_its_first_cell_to_its_last(tmp_path, monkeypatch):
    import nbclient
    import nbformat

    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # of its kernel
    notebook = nbformat.read(ROOT / "examples" / "notebook.ipynb", as_version=4)
    nbformat.validate(notebook)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert not any(cell.outputs or cell.execution_count for cell in cells)  # none are kept with it
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": tmp_path}}).execute()
    said = ["".join(out.get("text", "") for out in cell.outputs) for cell in cells]
    assert " steps: " in said[1] and "eval/return_mean" in said[2]
    assert any("image/png" in out.get("data", {}) for out in cells[2].outputs)
    assert float(said[3].split()[0]) > 400.0 and int(said[4].split()[0]) > 400
    assert float(cells[5].outputs[-1].data["text/plain"].removeprefix("np.float64(").rstrip(")")) < 200.0


WALK = """
import gymnasium, numpy as np
class Walk(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)
    def __init__(self, reward=1.0):
        self.reward = reward
    def reset(self, seed=None, options=None):
        return np.zeros(2, np.float32), {}
    def step(self, action):
        return np.zeros(2, np.float32), self.reward, False, False, {}
"""


OWN = {"env": "walking:Walk", "env_kwargs": {"reward": 2.0}, "max_episode_steps": 7, "env_wrappers": []}


def _served(folder, described, name="."):
    """What an example prints that is called in a folder."""
    (folder / "policy.json").write_text(json.dumps(described))
    command = [sys.executable, ROOT / "examples/serve_onnx.py", name]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    return done.stdout.splitlines(), done.stderr


def test_an_example_plays_an_environment_of_ones_own(tmp_path):
    hparams = resolve("ppo", {"env": "CartPole-v1", "compile": "graph", "model.hidden": (4,)})
    agent = get_algo("ppo")(hparams, spaces.Box(-1.0, 1.0, (2,)), spaces.Discrete(2), 0)
    policy = Policy(agent)
    program = Program(agent, 1, policy.encode)
    write_onnx(program, tmp_path / "policy.onnx")
    (tmp_path / "walking.py").write_text(WALK)
    lines, error = _served(tmp_path, _described(policy, program, []) | OWN)
    assert (lines, error) == ([f"episode {i}: return 14" for i in range(5)], "")


@pytest.mark.parametrize(
    ("folder", "inputs", "words"),
    [
        ("nowhere", 1, "there is no policy.onnx in nowhere: python -m rl.export"),
        (".", 2, "this example gives one observation, the policy takes observation, observation:"),
        (".", 1, "the policy's environment 'walking:Walk' is not here: No module named 'walking'"),
    ],
)
def test_an_example_says_in_one_line_what_it_is_not_for(tmp_path, folder, inputs, words):
    (tmp_path / "policy.onnx").touch()
    lines, error = _served(tmp_path, {**OWN, "inputs": [{"name": "observation"}] * inputs}, folder)
    assert error.startswith(f"error: {words}") and error.count("\n") == 1 and not lines
