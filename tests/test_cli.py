"""train.py as a user types it, up to the point where training would start."""

from __future__ import annotations

import dataclasses
import json
import os
import pty
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest

from rl import errors
from rl.cli import FAMILIES, main
from rl.request import Request
from rl.workers.plan import Workers

ROOT = Path(__file__).parents[1]

# A user's module: one component of each kind, a set that names them, and a stand-in for the trainer that
# prints the request.
USER_MODULE = '''
import json, sys, types
from rl.agents.algos.act_select.registry import register as register_act_select
from rl.agents.algos.grad_comp.registry import register as register_grad_comp
from rl.agents.algos.registry import register as register_algo
from rl.hparams.hparams import HParams
from rl.hparams.registry import register as register_hparams
from rl.memory.registry import register as register_memory
from rl.models.registry import register as register_model

@register_algo
def my_algo(hparams, observation_space, action_space, seed):
    """An algorithm of the user's."""

@register_model
def my_model(model, inputs, initializers, name):
    """A model of the user's."""

@register_memory
def my_memory(spec, hparams):
    """A memory of the user's."""

@register_act_select
def my_act_select(hparams):
    """An act_select of the user's."""

@register_grad_comp
def my_grad_comp(hparams):
    """A grad_comp of the user's."""

@register_hparams
def my_set():
    """A set of the user's."""
    hparams = HParams(algo="my_algo", env="CartPole-v1", train_steps=50)
    hparams.model.name = "my_model"
    hparams.memory, hparams.act_select, hparams.grad_comp = "my_memory", "my_act_select", "my_grad_comp"
    return hparams

def run(request):
    print(json.dumps(request.hparams.to_dict() | {"modules": request.user_modules, "name": request.name}))
    return 7

sys.modules["tensorflow"] = types.ModuleType("tensorflow")
sys.modules["rl.experiment"] = types.SimpleNamespace(run=run)
sys.modules["rl.envs.checks"] = types.SimpleNamespace(check_environment=lambda *_: None)
'''


def train_py(*flags: str, cwd: Path, **options) -> subprocess.CompletedProcess:
    command = [sys.executable, str(ROOT / "train.py"), *flags]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120, **options)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "my_module.py").write_text(USER_MODULE)
    return tmp_path


@pytest.fixture
def asked(monkeypatch, tmp_path):
    """Gives the request that flags come to."""
    requests = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("JOB_COMPLETION_INDEX", raising=False)
    monkeypatch.setitem(sys.modules, "rl.experiment", types.SimpleNamespace(run=requests.append))
    checks = types.SimpleNamespace(check_environment=lambda *_: None)
    monkeypatch.setitem(sys.modules, "rl.envs.checks", checks)
    for name in ("import_tensorflow", "supervised", "check_tracker"):
        monkeypatch.setattr(f"rl.cli.{name}", lambda *_: None)

    def ask(*flags):
        requests.clear()
        main(["--hparams", "ppo_identity", *flags])
        (request,) = requests
        return request

    return ask


def test_defaults_train_one_copy_into_a_folder_named_after_the_set(asked):
    request = asked()
    assert request.hparams.frozen and request.hparams.env == "Identity-v0"
    expected = Request(request.hparams, "ppo_identity", os.path.join("runs", "ppo_identity"))
    assert dataclasses.replace(request, command="") == expected
    with pytest.raises(dataclasses.FrozenInstanceError):
        request.seed = 1


def test_every_flag_reaches_the_trainer(asked):
    request = asked(
        *("--sys", "gpu", "--env", "Acrobot-v1", "--output_dir", "here", "--train_steps", "1e3"),
        *("--hparam_override", "lr=0.5,model.hidden=[3,4]", "--seed", "11", "--copies", "3"),
        *("--eval_episodes", "4", "--test_episodes", "5", "--record_video", "--render"),
        *("--num_workers", "3", "--ray_address", "auto", "--eval_policy", "sample", "--track", "mlflow"),
    )
    hparams = request.hparams
    assert (hparams.env, hparams.train_steps, hparams.lr) == ("Acrobot-v1", 1000, 0.5)
    assert (hparams.model.hidden, hparams.eval_policy) == ((3, 4), "sample")
    assert request == Request(
        hparams,
        "ppo_identity",
        "here",
        sys="gpu",
        seed=11,
        copies=3,
        record_video=True,
        track="mlflow",
        render=True,
        eval_episodes=4,
        test_episodes=5,
        eval_policy="sample",
        overrides="lr=0.5,model.hidden=[3,4]",
        command=request.command,
        workers=Workers(3, "auto"),
    )
    assert asked("--copies", "4", "--parallel", "2").parallel == 2
    assert asked("--hparam_override", "eval_policy=sample").eval_policy == "sample"


def test_a_module_of_the_users_brings_a_set_and_one_part_of_each_kind(folder):
    done = train_py("--user_modules", "my_module", "--hparams", "my_set", cwd=folder)
    assert done.returncode == 7, done.stderr
    asked = json.loads(done.stdout)
    assert (asked["algo"], asked["env"], asked["train_steps"]) == ("my_algo", "CartPole-v1", 50)
    assert (asked["modules"], asked["name"]) == (["my_module"], "my_set")
    done = train_py("--list", "--user_modules", "my_module", cwd=folder)
    assert [line[:-1] for line in done.stdout.splitlines() if line.endswith(":")] == list(FAMILIES)
    assert re.search(r"^my_algo +An algorithm of the user's\.$", done.stdout, re.MULTILINE)


@pytest.mark.parametrize(
    "flags, render, training",
    [
        (["--render"], True, True),
        (["--render", "--training", "False"], True, False),
        (["--training=false", "--render=True"], True, False),
        (["--training", "--render", "false"], False, True),
        (["--test_only"], False, False),
        (["--test_only", "False"], False, True),
        (["--test_only", "--training", "True"], False, False),
    ],
)
def test_boolean_flags_are_accepted_bare_and_with_a_value(asked, flags, render, training):
    request = asked(*flags)
    assert (request.render, request.training) == (render, training)


@pytest.mark.parametrize(
    "flags, index, copy",
    [
        (["--copies", "3"], "2", 2),
        (["--copies", "3", "--copy", "0"], "2", 0),
        (["--copies", "3", "--copy", "1"], None, 1),
        (["--copies", "3"], None, None),
        ([], "2", None),  # one copy is not divided
        (["--copies", "1"], "7", None),
    ],
)
def test_an_index_names_the_only_copy(asked, flags, index, copy, monkeypatch):
    if index is not None:
        monkeypatch.setenv("JOB_COMPLETION_INDEX", index)
    assert asked(*flags).copy == copy


@pytest.mark.parametrize(
    "flags, index, message",
    [
        (["--copies", "3"], "3", "JOB_COMPLETION_INDEX=3 and --copies 3: the copies are 0 to 2"),
        (["--copies", "3"], "-1", "JOB_COMPLETION_INDEX=-1: needs a number from 0 to 2"),
        (["--copies", "3"], "", "JOB_COMPLETION_INDEX=: needs a number from 0 to 2"),
        (["--copies", "3", "--copy", "4"], "1", "--copy 4 and --copies 3: the copies are 0 to 2"),
        (["--copy", "1"], None, "--copy 1 and --copies 1: the copies are 0 alone"),
        (["--copies", "3", "--copy", "-1"], None, "--copy: needs an integer >= 0, not -1"),
        (
            ["--copies", "3", "--parallel", "2"],
            "1",
            "--parallel 2 and JOB_COMPLETION_INDEX=1: one copy alone",
        ),
    ],
)
def test_an_index_that_no_copy_has_is_one_line(flags, index, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if index is not None:
        monkeypatch.setenv("JOB_COMPLETION_INDEX", index)
    assert main(["--hparams", "dqn_cartpole", *flags]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("error: ") and err.count("\n") == 1 and message in err
    assert not list(tmp_path.iterdir())


WRONG = [
    ([], "--hparams is missing"),
    (["--hparams"], "argument --hparams: expected one argument"),
    (["--hparams", "dqn_cartpol"], "unknown hparams name 'dqn_cartpol': did you mean dqn_cartpole"),
    (["--hparams", "dqn-ppo"], "cannot merge --hparams 'dqn-ppo'"),
    (["--hparams", "default"], "name no algorithm"),
    (["--hparams", "dqn"], "name no environment: give --env ID"),
    (
        ["--hparams", "dqn_cartpole", "--hparam_override", "seed=3"],
        "seed: that is no hparam but the flag --se",
    ),
    (
        ["--hparams", "dqn", "--env", "A-v1", "--hparam_override", "env=B-v1"],
        "override env=B-v1: take one of",
    ),
    (["--hparams", "dqn_cartpole", "--sys", "gpus"], "unknown --sys 'gpus': did you mean gpu"),
    (["--hparams", "dqn_cartpole", "--hparam", "lr=1"], "unknown flag --hparam: did you mean --hparams"),
    (
        ["--hparams", "dqn_cartpole", "--train_step=5"],
        "unknown flag --train_step: did you mean --train_steps",
    ),
    (
        ["--hparams", "ppo_cartpole", "--lr", "1e-3"],
        "unknown flag --lr: did you mean --hparam_override lr=VALUE?",
    ),
    (["--hparams", "ppo_cartpole", "--n-envs=8"], "did you mean --hparam_override num_envs=VALUE?"),
    (["--hparams", "ppo_cartpole", "--device", "cuda"], "unknown flag --device: did you mean --sys?"),
    (["--hparams", "mine.yaml"], "--hparams mine.yaml: hyperparameters in a file are TOML"),
    (["--hparams", "ppo_cartpole", "--env", ":CartPole-v1"], "needs a module before the colon"),
    (["--hparams", "dqn_cartpole", "CartPole-v1"], "unexpected argument 'CartPole-v1'"),
    (["--hparams", "dqn_cartpole", "--train_steps", "0"], "--train_steps: needs an integer >= 1, not 0"),
    (["--hparams", "dqn_cartpole", "--train_steps", "many"], "--train_steps: needs an integer, not 'many'"),
    (["--hparams", "dqn_cartpole", "--train_steps", "inf"], "--train_steps: needs an integer, not 'inf'"),
    (["--hparams", "dqn_cartpole", "--copies", "-1"], "--copies: needs an integer >= 1, not -1"),
    (["--hparams", "dqn_cartpole", "--test_episodes", "1.5"], "--test_episodes: needs an integer, not '1.5'"),
    (["--hparams", "dqn_cartpole", "--seed", "-1"], "--seed: needs an integer >= 0"),
    (["--hparams", "dqn_cartpole", "--seed", "9" * 30], "--seed: needs an integer <="),
    (["--hparams", "dqn_cartpole", "--training", "maybe"], "--training: needs True or False, not 'maybe'"),
    (
        ["--hparams", "ppo_cartpole", "--eval_policy", "sampled"],
        "hparam eval_policy='sampled': needs one of greedy, sample",
    ),
    (["--hparams", "dqn_cartpole", "--num_workers", "-1"], "--num_workers: needs an integer >= 0, not -1"),
    (
        ["--hparams", "dqn_cartpole", "--ray_address", "auto"],
        "--ray_address is for workers: give --num_workers",
    ),
    (
        ["--hparams", "dqn_cartpole", "--num_workers", "2", "--ray_address", "10.0.0.7"],
        "--ray_address '10.0.0.7': needs HOST:PORT",
    ),
    (
        ["--hparams", "dqn_cartpole", "--num_workers", "2", "--ray_address", "127.0.0.1:1"],
        "--ray_address 127.0.0.1:1: nothing answers there (Connection refused)",
    ),
    (["--hparams", "dqn_cartpole", "--output_dir", ""], "--output_dir is empty"),
    (["--hparams", "dqn_cartpole", "--output_dir", "gs:/b/x"], "gs:/b/x: did you mean gs://b/x "),
    (["--hparams", "dqn_cartpole", "--output_dir", "file:/x"], "file:/x: did you mean file:///x "),
    (["--hparams", "dqn_cartpole", "--hparam_override", "lrr=1"], "unknown hparam 'lrr': did you mean lr"),
    (["--hparams", "dqn_cartpole", "--hparam_override", "lr=fast"], "lr='fast': needs a number > 0"),
    (["--hparams", "dqn_cartpole", "--hparam_override", "gamma=2"], "gamma=2: needs a number >= 0 and <= 1"),
    (["--hparams", "dqn_cartpole", "--hparam_override", "lr"], "needs name=value"),
    (
        ["--hparams", "dqn_cartpole", "--hparam_override", "algo=dqm"],
        "unknown algos name 'dqm': did you mean dqn",
    ),
    (["--hparams", "dqn_cartpole", "--hparam_override", "model.name=mpl"], "unknown models name 'mpl'"),
    (["--hparams", "dqn_cartpole", "--hparam_override", "memory=ring"], "unknown memory name 'ring'"),
    (["--list", "memory", "uniform"], "--list memory uniform: name one registry, or hparams and one set"),
    (["--list", "hparams", "dqn_cartpol"], "unknown hparams name 'dqn_cartpol': did you mean dqn_cartpole"),
    (["--list", "memry"], "unknown registry 'memry': did you mean memory"),
    (["--list", "--user_modules", "no_such_module"], "cannot import user module 'no_such_module'"),
]


@pytest.mark.parametrize("flags, message", WRONG, ids=lambda value: " ".join(value) if value else "")
def test_wrong_input_is_one_line_and_exit_code_2(flags, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(flags) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ") and err.count("\n") == 1
    assert message in err
    assert not list(tmp_path.iterdir()), "nothing may be written"


def test_user_module_with_a_wrong_signature_is_one_line(folder):
    (folder / "bad.py").write_text(
        "from rl.memory.registry import register\n@register\ndef my_memory(size): ...\n"
    )
    done = train_py("--user_modules", "bad", "--hparams", "dqn_cartpole", cwd=folder)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "bad.py" in done.stderr and "(spec, hparams)" in done.stderr


def test_list_on_a_terminal_is_a_table(folder):
    primary, secondary = pty.openpty()
    command = [sys.executable, str(ROOT / "train.py"), "--list", "memory"]
    process = subprocess.Popen(command, cwd=folder, stdout=secondary, env={**os.environ, "COLUMNS": "100"})
    os.close(secondary)
    shown = b""
    try:
        while part := os.read(primary, 4096):
            shown += part
    except OSError:  # the other end of a terminal closed
        pass
    os.close(primary)
    assert process.wait() == 0
    assert "what it is" in shown.decode() and "prioritized" in shown.decode()


def test_list_ends_quietly_when_its_reader_does(folder):
    command = f"{sys.executable} {ROOT / 'train.py'} --list | head -n 1"
    done = subprocess.run(command, shell=True, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.stdout == "hparams:\n" and done.stderr == ""


@pytest.mark.parametrize(
    "flags", [["--help"], ["--list"], ["--list", "hparams"], ["--hparams", "dqn_cartpol"]]
)
def test_answers_that_need_no_tensorflow_do_not_import_it(folder, flags):
    command = [sys.executable, "-X", "importtime", str(ROOT / "train.py"), *flags]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode in (0, 2)
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if "|" in line}
    assert "rl.cli" in imported
    assert not imported & {"tensorflow", "keras", "numpy", "gymnasium", "envpool", "rl.experiment"}


def test_help_names_every_flag(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    for flag in (
        *("--sys", "--hparams", "--env", "--hparam_override", "--output_dir", "--train_steps"),
        *("--test_episodes", "--eval_episodes", "--training", "--test_only", "--copies", "--render"),
        *("--record_video", "--track", "--num_workers", "--seed", "--list", "--user_modules"),
    ):
        assert f"  {flag}" in text


@pytest.mark.parametrize(
    ("called", "name"),
    [("/venv/bin/rl-train", "rl-train"), ("train.py", "python train.py"), ("-c", "python train.py")],
)
def test_it_goes_by_the_name_that_it_was_called_by(called, name, monkeypatch, capsys, asked):
    monkeypatch.setattr(sys, "argv", [called])
    with pytest.raises(SystemExit):
        main(["--help"])
    text = capsys.readouterr().out
    assert text.startswith(f"usage: {name.split()[-1]} [-h]") and f"  {name} --hparams ppo" in text
    assert ("train.py" in text) == ("train.py" in name)
    assert asked("--env", "a b").command == f"{name} --hparams ppo_identity --env 'a b'"


@pytest.mark.parametrize(
    ("raised", "code"),
    [
        (errors.UsageError("no such set"), 2),
        (errors.NotFinite("step 64: train/loss is nan"), 3),
        (errors.Unavailable("no space left in /data"), 75),
        (errors.LearnerLost("another learner is gone"), 75),
        (errors.MachineLost("a machine does not answer"), 75),
        (errors.NotSent("the last state is not at gs://bucket"), 1),
        (KeyboardInterrupt(), 130),
        (0, 0),
        (143, 143),  # what a run ends with that was asked to stop
    ],
)
def test_every_exit_code_is_one_line_and_in_the_table(raised, code, monkeypatch, capsys, tmp_path):
    def run(_):
        if isinstance(raised, int):
            return raised
        raise raised

    monkeypatch.setitem(sys.modules, "rl.experiment", types.SimpleNamespace(run=run))
    monkeypatch.setattr("rl.cli.import_tensorflow", lambda: None)
    assert main(["--hparams", "ppo_identity", "--output_dir", str(tmp_path / "out")]) == code
    assert capsys.readouterr().err.count("\n") == (not isinstance(raised, int))
    table = (ROOT / "docs/architecture.md").read_text().partition("| exit code |")[2].partition("\n\n")[0]
    documented = re.findall(r"^\| ([\d, ]+) \|", table, re.MULTILINE)
    assert ", ".join(documented) == "0, 1, 2, 3, 75, 129, 130, 143"
