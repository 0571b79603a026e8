"""Sets in TOML files: what they say, what is refused, and that the rest of a file is never run."""

from __future__ import annotations

import pytest

from rl.errors import UsageError
from rl.hparams.files import write_set
from rl.hparams.merge import as_typed, explicit, named, resolve
from rl.storage.address import default_output

TEXT = """
base = "default-ppo_cartpole"
lr = 3e-4
train_steps = 2e4
max_grad_norm = "none"
env = "Acrobot-v1"
env_kwargs = {a = [1, "x"], b = "none"}
[model]
hidden = [32, 16]
"""


@pytest.fixture
def file(tmp_path):
    """Writes a file and returns its path as one types it."""

    def write(text):
        path = tmp_path / "mine.toml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return str(path)

    return write


def test_a_file_changes_a_set_and_overrides_change_the_file(file):
    hparams = resolve(file(TEXT), "lr=0.5,model.hidden=[8]", env="CartPole-v1")
    assert (hparams.lr, hparams.env, hparams.model.hidden) == (0.5, "CartPole-v1", (8,))
    assert (hparams.train_steps, hparams.max_grad_norm, hparams.epochs) == (20_000, None, 5)
    assert hparams.env_kwargs == {"a": [1, "x"], "b": None}


def test_a_file_says_the_same_as_names_and_overrides(file):
    """So that a Pod needs none."""
    names, overrides = as_typed(file(TEXT), "lr=0.5")
    assert names == "default-ppo_cartpole" and "lr=0.5" in overrides
    assert resolve(names, overrides).to_dict() == resolve(file(TEXT), "lr=0.5").to_dict()
    assert as_typed("ppo_cartpole", "lr=1") == ("ppo_cartpole", "lr=1")


def test_what_is_written_is_read_again(tmp_path):
    values = {
        "lr": 1e-5,
        "max_grad_norm": None,
        "normalize_reward": True,
        "model.hidden": [8],
        "data": 'a "b",c',
    }
    values |= {"env_kwargs": {"x y": [1.5, "none of them"]}, "epochs": 3}
    write_set(tmp_path / "best.toml", "ppo_cartpole", values, ["Found by a search.", ""])
    assert values.items() <= {**explicit(named(str(tmp_path / "best.toml"))), "model.hidden": [8]}.items()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('base = "ppo_cartpol"', "mine.toml: unknown hparams name 'ppo_cartpol': did you mean ppo_cart"),
        ('base = "ppo"\nlearning_rate = 1', "mine.toml: unknown hparam 'learning_rate': did you mean lr"),
        ('base = "ppo"\nlr = "fast"', "hparam lr='fast': needs a number > 0"),
        ('base = "ppo"\nlr = nan', "hparam lr=nan: needs"),
        ('base = "ppo"\nlr = 2026-01-01', "2026-01-01 is a date or a time"),
        ('base = "ppo"\nmodel = 3', "hparam model=3: needs hparams of its own"),
        ("lr = 1", 'needs base = "SET"'),
        ("base = 3", 'needs base = "SET"'),
        ('base = "other.toml"', "is a file: name a set"),
        ("base = ", "as TOML: Invalid value"),
        (b"base = \xff", "as TOML: 'utf-8' codec"),
        ("base = " + "[" * 20_000, "nests too deeply"),
    ],
)
def test_what_is_wrong_in_a_file_is_one_line(file, text, said):
    with pytest.raises(UsageError) as error:
        named(file(text))
    assert said in str(error.value) and "mine.toml" in str(error.value)


def test_a_file_that_is_not_there_gets_the_nearest_and_python_its_flag(file, tmp_path):
    file(TEXT)
    with pytest.raises(UsageError, match=r"did you mean mine\.toml"):
        named(str(tmp_path / "mien.toml"))
    with pytest.raises(UsageError, match="no file"):
        named(str(tmp_path / "nowhere" / "mine.toml"))
    with pytest.raises(UsageError, match="cannot read"):
        (tmp_path / "folder.toml").mkdir()
        named(str(tmp_path / "folder.toml"))
    with pytest.raises(UsageError, match=r"--user_modules sets\.py"):
        named("sets.py")


def test_runs_of_files_are_called_after_them():
    assert default_output("./sets/fast.toml") == "runs/sets_fast"
    assert default_output("fast.toml", "CartPole-v1", "lr=1") == "runs/fast-CartPole-v1-lr=1"
