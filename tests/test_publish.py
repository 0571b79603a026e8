"""What `python -m rl.publish` writes is the run's policy, and a card that hubs can read."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import yaml
from small_runs import TINY
from stand_ins import stand_in

import rl
from rl.errors import UsageError
from rl.publish.__main__ import main
from rl.publish.card import Facts, card
from rl.report.runs import find_runs, is_policy_alone

HUB = """
class HfApi:
    def create_repo(self, repo, exist_ok):
        if repo == "me/full":
            raise OSError("no\\nroom")

    def upload_folder(self, repo_id, folder_path):
        return f"pushed {folder_path} to {repo_id}"
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run, with two films."""
    options = {**TINY, "train_steps": 32, "eval_episodes": 1, "eval_policy": "sample"}
    run = rl.train("ppo_identity", output_dir=tmp_path_factory.mktemp("out"), **options)
    (run.run_dir / "videos").mkdir()
    for name in ("a", "b"):
        (run.run_dir / f"videos/{name}.mp4").write_bytes(name.encode())
    return run


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A stand-in for huggingface_hub."""
    with stand_in(monkeypatch, tmp_path, "huggingface_hub", HUB):
        yield


def test_the_folder_has_the_policy_and_says_what_it_is(run, tmp_path, hub, capsys):
    target = tmp_path / "published"
    words = [str(run.run_dir.parent), "--to", str(target), "--episodes", "5"]
    assert main([*words, "--repo", "me/identity"]) == 0
    assert f"pushed {target} to me/identity" in capsys.readouterr().out
    assert is_policy_alone(target) and not is_policy_alone(run.run_dir)  # plots tell them apart
    returns = [policy.evaluate(5).returns for policy in (rl.load(target), run.policy())]
    np.testing.assert_array_equal(*returns)
    assert {path.name for path in target.iterdir()} == {
        *("README.md", "hparams.json", "metrics.csv", "checkpoints", "videos")
    }
    assert (target / "videos/b.mp4").read_bytes() == b"b" and not (target / "videos/a.mp4").exists()
    _, header, text = (target / "README.md").read_text().split("---\n", 2)
    (result,) = yaml.safe_load(header)["model-index"][0]["results"]
    assert result["metrics"][0]["value"] == f"{returns[0].mean():.3f} +/- {returns[0].std():.3f}"
    assert result["dataset"]["name"] == "Identity-v0"
    assert f"Mean return **{returns[0].mean():.3f} [" in text and "5 episodes (sample actions)" in text
    assert "seed 0" in text and "| gamma | `0.99` | `0.0` |" in text and "(videos/b.mp4)" in text
    assert 'snapshot_download("me/identity")' in text.replace("'", '"')
    assert main(words) == 2 and "take --force" in capsys.readouterr().err
    for own in (run.run_dir.parent, run.run_dir):
        assert main([str(run.run_dir.parent), "--to", str(own), "--force"]) == 2
        assert "name another folder" in capsys.readouterr().err
    with pytest.raises(UsageError, match="holds a policy alone, as a published one does"):
        options = {**TINY, "train_steps": 64, "eval_episodes": 1, "eval_policy": "sample"}
        rl.train("ppo_identity", output_dir=target, **options)
    assert main([*words, "--force", "--repo", "me/full"]) == 1
    assert "is written, but me/full did not take it: no room" in capsys.readouterr().err
    assert (target / "README.md").exists()


def test_small_returns_are_told_with_three_digits(run):
    """Goals reached in 15 of 16 episodes are a mean of 0.938, not of 0.9."""
    (data,) = find_runs(run.run_dir)
    text = card(Facts(data, 32, np.array([1.0] * 15 + [0.0]), {}, None, None))
    assert 'value: "0.938 +/- 0.242"' in text
    assert "Mean return **0.938 [" in text and "from 0.000 to 1.000." in text


def test_a_policy_without_an_environment_is_loaded_with_one(run):
    """Its spaces are those of the data, which nobody has where it is published."""
    (data,) = find_runs(run.run_dir)
    data = data._replace(hparams={**data.hparams, "env": ""})
    text = card(Facts(data, 32, None, {}, None, "me/clone"))
    assert "rl.load(folder, env=ENVIRONMENT)" in text and "ENVIRONMENT is one that looks as" in text


def test_no_link_out_of_the_run_is_followed(run, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(run.run_dir, other)
    (tmp_path / "secret").write_text("mine")
    (other / "metrics.csv").unlink()
    (other / "metrics.csv").symlink_to(tmp_path / "secret")
    assert main([str(other), "--to", str(tmp_path / "out"), "--episodes", "2"]) == 0
    assert not (tmp_path / "out/metrics.csv").exists() and (tmp_path / "out/hparams.json").exists()


def test_force_does_not_replace_a_project_or_another_run(run, tmp_path, capsys):
    other = tmp_path / "other"
    shutil.copytree(run.run_dir / "checkpoints", other / "checkpoints")
    shutil.copyfile(run.run_dir / "hparams.json", other / "hparams.json")
    for name in ("README.md", "thesis.tex"):
        (other / name).write_text("mine")
        before = sorted(other.rglob("*"))
        assert main([str(run.run_dir), "--to", str(other), "--force"]) == 2
        assert "was not made by this command; name another folder" in capsys.readouterr().err
        assert sorted(other.rglob("*")) == before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere"], "there is no run in nowhere"),
        (["RUN", "--which", "bst"], "argument --which: no 'bst': did you mean best"),
        (["RUN", "--repo", "identity"], "--repo identity: needs USER/NAME"),
        (["RUN", "--repo", "me/x"], "pip install huggingface_hub"),
    ],
)
def test_mistakes_are_one_line_and_write_nothing(run, words, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("rl.publish.__main__.importlib.util.find_spec", lambda _: None)
    before = sorted(run.run_dir.iterdir())
    assert main([str(run.run_dir) if word == "RUN" else word for word in words]) == 2
    err = capsys.readouterr().err
    assert said in err and err.startswith("error: ") and err.count("\n") == 1
    assert sorted(run.run_dir.iterdir()) == before and not list(tmp_path.iterdir())
