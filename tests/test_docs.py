"""The pages of the algorithms: complete, up to date, and their files short."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from rl.agents.algos.registry import registry

ROOT = Path(__file__).resolve().parents[1]
LONGEST = 350  # lines of an algorithm's file


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


def test_the_page_of_all_algorithms_is_up_to_date(generate):
    """`python docs/algos/generate.py` writes it anew."""
    assert generate.PAGE.read_text(encoding="utf-8") == generate.page()
    assert generate.HPARAMS.read_text(encoding="utf-8") == generate.hparams_page()


@pytest.mark.parametrize("name", registry.names())
def test_every_algorithm_has_a_page_that_the_table_links_to(generate, name):
    text = (ROOT / "docs" / "algos" / f"{name}.md").read_text(encoding="utf-8")
    assert "https://" in text  # the paper
    assert text.count("`train/") >= 2  # what is logged
    assert f"[{name}]({name}.md)" in generate.page()


@pytest.mark.parametrize("name", registry.names())
def test_every_algorithm_is_a_short_file(name):
    assert len(Path(registry.entry(name).path).read_text(encoding="utf-8").splitlines()) <= LONGEST
