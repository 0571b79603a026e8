"""What an address is, and what was meant as one."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from faults import Faults

import rl
from rl.storage import address as addresses


@pytest.mark.parametrize(
    "address, expected",
    [
        ("gs://bucket/x", True),
        ("FILE:///x", True),
        ("s3a+b://x", True),
        ("runs/x", False),
        ("/tmp/gs://x", False),
        ("gs:/bucket", False),
        (Path("gs://bucket"), False),  # a path has lost a slash
    ],
)
def test_an_address_has_a_scheme(address, expected):
    assert addresses.is_remote(address) is expected


@pytest.mark.parametrize(
    "parts, expected",
    [
        (("gs://b", "run_0"), "gs://b/run_0"),
        (("gs://b/x/", "run_0", "a"), "gs://b/x/run_0/a"),
        (("ram://", "a"), "ram://a"),
        (("/tmp/x", "buffers"), "/tmp/x/buffers"),
    ],
)
def test_names_are_joined_by_single_slashes(parts, expected):
    assert addresses.join(*parts) == expected


@pytest.mark.parametrize(
    "path, meant",
    [
        ("gs:/bucket/x", "gs://bucket/x"),
        ("GS:bucket", "GS://bucket"),
        (Path("gs://bucket/x"), "gs://bucket/x"),
        (Path("file:///a/b"), "file:///a/b"),
        ("ram:x", "ram://x"),
    ],
)
def test_a_path_that_was_meant_as_an_address_is_told(path, meant):
    with pytest.raises(rl.UsageError, match=f"did you mean {meant} "):
        addresses.check_whole(path)


@pytest.mark.parametrize("path", ["gs://bucket", "runs/gs:x", "gsx:/a", "c:/runs", Path("runs/x"), "gs"])
def test_others_are_taken_as_they_are(path):
    addresses.check_whole(path)


def test_a_run_without_rights_beside_a_typo_does_not_keep_it_from_being_told(tmp_path, monkeypatch):
    for name in ("mine", "private"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "hparams.json").write_text("{}")
    faults = Faults(monkeypatch, tmp_path / "private")
    faults.error = errno.EACCES
    faults.begin(0, ever_after=True)
    with pytest.raises(rl.UsageError, match=r"there is no run in .* but in .*mine.*: train one there first"):
        addresses.check_run(str(tmp_path), "run")
    with pytest.raises(rl.UsageError, match=r"there is no run in .*mime \(did you mean mine\?\)"):
        addresses.check_run(str(tmp_path / "mime"), "run")


def output(target, force=True):
    return addresses.output_beside("run", str(target), "made", ("policy.json", "notes"), made, force)


def made(folder):
    return (folder / "policy.json").exists()


def test_what_a_command_made_is_replaced_by_force_alone(tmp_path):
    assert output(tmp_path / "new", force=False) == tmp_path / "new"
    (tmp_path / "policy.json").write_text("{}")
    assert output(tmp_path) == tmp_path
    with pytest.raises(rl.UsageError, match="take --force to replace it"):
        output(tmp_path, force=False)


@pytest.mark.parametrize("names", [["policy.json", "thesis.tex"], ["policy.json", ".git"], ["notes"]])
def test_a_folder_with_anything_that_a_command_never_writes_is_not_replaced(tmp_path, names):
    for name in names:
        (tmp_path / name).write_text("mine")
    with pytest.raises(rl.UsageError, match=f"{names[-1] if names[1:] else 'what is there'} was not made by"):
        output(tmp_path)
    assert sorted(each.name for each in tmp_path.iterdir()) == sorted(names)


def test_a_run_that_was_given_no_folder_gets_one_that_tells_it_apart():
    folders = [
        addresses.default_output("ppo"),
        addresses.default_output("ppo", "Acrobot-v1"),
        addresses.default_output("ppo", "ALE/Pong-v5"),
        addresses.default_output("ppo", None, "lr=3e-4,model.hidden=[64,64]"),
        addresses.default_output("ppo", "Acrobot-v1", "lr=3e-4", 3, 2),
    ]
    assert folders == [
        "runs/ppo",
        "runs/ppo-Acrobot-v1",
        "runs/ppo-ALE_Pong-v5",
        "runs/ppo-lr=3e-4,model.hidden=_64,64_",
        "runs/ppo-Acrobot-v1-lr=3e-4-seed_3-workers_2",
    ]
    long = [addresses.default_output("ppo", None, f"reward_augmentation={'x' * 200}{end}") for end in "ab"]
    assert long[0] != long[1] and all(len(each) == len("runs/") + 100 for each in long)
