"""The worked examples of CONTRIBUTING.md are true: pasted into a folder of one's own, each trains."""

from __future__ import annotations

import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from pages import ROOT, forget_parts, steps

from rl.cli import checked, parse
from rl.errors import UsageError
from rl.registry import import_user_modules
from rl.runners.build import build_runner
from rl.runners.evaluate import Evaluator

EXAMPLES = {step.name: step.text for step in steps("CONTRIBUTING.md") if step.kind == "file"}
COMMANDS = [step.words[2:] for step in steps("CONTRIBUTING.md") if "--user_modules" in step.words]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder outside the repository, with all examples; what they register is forgotten after."""
    for name, text in EXAMPLES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    ids = set(gymnasium.registry)
    yield tmp_path
    forget_parts(tmp_path)
    for name in set(gymnasium.registry) - ids:
        del gymnasium.registry[name]
    for name in EXAMPLES:
        sys.modules.pop(name.removesuffix(".py"), None)


def test_every_kind_of_part_has_an_example_of_few_lines_and_a_command():
    assert len(EXAMPLES) == len(COMMANDS) == 7
    for name, text in EXAMPLES.items():
        assert any(name.removesuffix(".py") in words for words in COMMANDS), name
        code = [line for line in text.splitlines() if line.strip() and "import " not in line]
        assert len(code) <= (45 if name == "my_reinforce.py" else 25), name


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[1])
def test_an_example_learns_from_a_folder_outside_the_repository(folder, words):
    import_user_modules([words[words.index("--user_modules") + 1]])
    hparams = checked(parse(words)).thawed()
    hparams.compile, hparams.act_backend, hparams.num_envs = "graph", "compiled", 4
    if "min_replay_size" in type(hparams).model_fields:
        hparams.min_replay_size, hparams.updates_per_iteration = 64, 2
    runner = build_runner(hparams.freeze(), 0)
    sums = runner.run(4)
    agent = runner.agent
    assert sums["updates"] > 0 and all(np.isfinite(value) for value in sums.values()), sums
    named = {hparams.algo, hparams.act_select, hparams.memory, hparams.model.name, hparams.env}
    named |= {hparams.grad_comp}
    assert named & {words[1], "boltzmann", "Counting-v0"}
    evaluator = Evaluator(agent, 1)
    found = evaluator.run(0)
    assert len(found.returns) == 1 and (hparams.env != "Counting-v0" or found.lengths == [20])
    evaluator.close()
    runner.close()


def test_user_modules_may_be_a_path_and_all_examples_live_side_by_side(folder, monkeypatch):
    monkeypatch.chdir(folder.parent)
    import_user_modules([f"{folder.name}/{name}" for name in EXAMPLES])
    words = ["--hparams", "dqn_cartpole-my_advantage-with_boltzmann", "--hparam_override", "memory=my_recent"]
    with pytest.raises(UsageError, match="which are for different algorithms"):  # each has a class of its own
        checked(parse(words))
    words[1] = "dqn_cartpole-my_advantage"
    assert checked(parse(words)).memory_name == "my_recent"


def test_a_path_that_has_the_name_of_a_library_is_refused(tmp_path):
    (tmp_path / "json.py").write_text("")
    with pytest.raises(UsageError, match="json is another module's name, rename it"):
        import_user_modules([str(tmp_path / "json.py")])


@pytest.mark.slow
def test_the_registry_walk_takes_an_algorithm_of_a_users_own(folder):
    walk = [sys.executable, "-m", "pytest", "-q", "tests/test_all_algos.py", "-k", "my_reinforce"]
    walk += ["--user_modules", str(folder / "my_reinforce.py")]
    done = subprocess.run(walk, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:]
    assert "passed" in done.stdout, done.stdout[-3000:]
