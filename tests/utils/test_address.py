"""What an address is, and what was meant as one."""

from __future__ import annotations

from pathlib import Path

import pytest

import rl
from rl.utils import address as addresses


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
