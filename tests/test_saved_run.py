"""A run on disk may be a stranger's: what it names is neither imported nor called."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pytest
import tensorflow as tf

import rl
from rl.cli import main
from rl.errors import UsageError
from rl.hparams.merge import resolve
from rl.saved_run import best_return, held_by, read_variables
from rl.storage.checkpoint import CheckpointManager, write_single


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"env": "strangers_env:Env-v0"}, "import strangers_env first (--user_modules)"),
        ({"hparams_class": "strangers_env:HParams"}, "name its module with --user_modules"),
    ],
)
def test_a_strangers_run_that_is_tested_imports_nothing(change, message, tmp_path, monkeypatch, capsys):
    (tmp_path / "strangers_env.py").write_text("raise SystemExit('it was run')")
    monkeypatch.syspath_prepend(tmp_path)
    saved = {"name": "x", "seed": 0, "hparams": resolve("ppo_identity", "").to_dict() | change}
    (tmp_path / "hparams.json").write_text(json.dumps(saved))
    assert main(["--output_dir", str(tmp_path), "--training", "False"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: ") and err.count("\n") == 1 and message in err
    assert "strangers_env" not in sys.modules


def test_a_strangers_run_imports_no_module_of_its_environment(tmp_path, monkeypatch):
    (tmp_path / "strangers_env.py").write_text("raise SystemExit('it was run')")
    monkeypatch.syspath_prepend(tmp_path)
    hparams = resolve("ppo_identity", "").to_dict() | {"env": "strangers_env:Env-v0"}
    saved = {"name": "ppo_identity", "seed": 0, "hparams": hparams}
    (tmp_path / "run_0").mkdir()
    (tmp_path / "run_0/hparams.json").write_text(json.dumps(saved))
    with pytest.raises(UsageError, match=r"import strangers_env first .* if you trust that run"):
        rl.load(tmp_path)
    assert "strangers_env" not in sys.modules


def test_the_best_policy_is_found_while_it_is_replaced(tmp_path):
    """Between two renames, or after a process that was killed there, it has another name."""
    weights = {"weights": tf.Variable(0.0)}
    folder = tmp_path / "checkpoints"
    CheckpointManager(folder).save({"weights": tf.Variable(20.0)}, 20)
    best = write_single(folder / "best", {"weights": tf.Variable(10.0)}, {"return_mean": 1.0}, 10)
    best.rename(folder / ".ckpt-old-best")
    assert best_return(tmp_path) == 1.0 and held_by(tmp_path, "best") == {"weights": ((), "float32")}
    assert read_variables(weights, tmp_path, "best") == weights["weights"].numpy() == 10
    assert read_variables(weights, tmp_path, "last") == weights["weights"].numpy() == 20


def test_a_best_policy_that_does_not_say_its_return_is_refused(tmp_path):
    write_single(tmp_path / "checkpoints/best", {"weights": tf.Variable(1.0)}, {})
    with pytest.raises(UsageError, match="does not say its return"):
        best_return(tmp_path)


def test_a_run_with_user_modules_is_read_where_they_are_imported(tmp_path, capsys):
    """An id that they registered may be another environment without them."""
    hparams = resolve("ppo_identity", "").to_dict()
    for modules, message in (
        (["strangers.parts"], "--user_modules strangers.parts"),
        (["x/argparse.py"], "--user_modules x/argparse.py"),
        (["json/__init__.py"], "there is no checkpoint"),
        (["argparse.py"], "there is no checkpoint"),
    ):
        saved = {"name": "ppo_identity", "seed": 0, "user_modules": modules, "hparams": hparams}
        (tmp_path / "hparams.json").write_text(json.dumps(saved))
        assert main(["--output_dir", str(tmp_path), "--training", "False"]) == 2
        err = capsys.readouterr().err
        assert err.startswith("error: ") and err.count("\n") == 1 and message in err


@pytest.mark.parametrize("command", ["export", "publish", "estimate"])
def test_commands_about_a_run_import_the_modules_that_it_needs(command, tmp_path, capsys):
    """And take the function that makes its environments."""
    words = {
        "export": [str(tmp_path)],
        "publish": [str(tmp_path)],
        "estimate": ["--run", str(tmp_path), "--data", "x"],
    }
    main_of = importlib.import_module(f"rl.{command}.__main__").main
    assert main_of([*words[command], "--env", "no_such:maze", "--user_modules", "no_such"]) == 2
    assert capsys.readouterr().err.startswith("error: cannot import user module 'no_such': ModuleNotFound")


@pytest.mark.parametrize("text", ["{}", "[]", "null", '{"name": "x", "seed": 0, "hpasams": {}}'])
def test_a_run_whose_hparams_are_of_something_else_is_refused_in_one_line(text, tmp_path, capsys):
    (tmp_path / "run_0").mkdir()
    (tmp_path / "run_0/hparams.json").write_text(text)
    for words in (["--training", "False"], ["--hparams", "ppo_identity"]):
        assert main([*words, "--output_dir", str(tmp_path)]) == 2
        err = capsys.readouterr().err
        assert err.startswith("error: ") and err.count("\n") == 1 and "was it edited?" in err


def test_a_test_refuses_what_the_run_was_not_trained_with(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = ["--output_dir", "run", "--test_episodes", "1"]
    graph = ["--hparam_override", "compile=graph"]
    assert main(["--hparams", "ppo_identity", "--train_steps", "64", *graph, *words]) == 0
    Path("short.toml").write_text('base = "ppo_identity"\nmax_episode_steps = 5\n')
    Path("same.toml").write_text('base = "ppo_identity"\n')
    wrapper = "gymnasium.wrappers:TimeAwareObservation"
    for flags, said in (
        (["--hparams", "short.toml"], "trained with max_episode_steps=None, not 5"),
        (["--hparams", "ppo_identity", "--env_wrappers", wrapper], "trained with env_wrappers none"),
        (["--hparams", "same.toml"], ""),
    ):
        capsys.readouterr()
        code = main([*flags, *words, "--training", "False"])
        assert (code, said in capsys.readouterr().err) == (2 if said else 0, True)
