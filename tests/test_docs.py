"""The pages of the algorithms: complete, up to date, and their files short. `make lint` checks the same."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def generate():
    """docs/algos/generate.py as a module."""
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "algos" / "generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_differing_lines_are_those_outside_the_longest_common_subsequence(generate):
    assert generate.difference(list("abcd"), list("abcd")) == 0
    assert generate.difference(list("abcd"), list("axcd")) == 2  # one removed, one added
    assert generate.difference(list("abcdef"), list("xaceg")) == 5  # a, c, e are common
    assert generate.difference([], list("ab")) == 2


def test_the_pages_are_up_to_date(generate):
    """`python docs/algos/generate.py` writes them anew."""
    assert generate.mistakes() == []


def test_what_is_wrong_with_an_algorithm_is_said_in_one_line(generate, monkeypatch):
    monkeypatch.setattr(generate, "LONGEST", 10)
    monkeypatch.setattr(generate, "METRICS", {key: {"loss": "x"} for key in generate.METRICS if key != "ppo"})
    found = generate.mistakes()
    assert "docs/algos/metrics.toml: says nothing of ppo" in found
    assert any(line.startswith("rl/agents/algos/dqn.py: ") and line.endswith(" 10 at most") for line in found)
    assert "docs/algos/dqn.md is out of date: python docs/algos/generate.py" in found
