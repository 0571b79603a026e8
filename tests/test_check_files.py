"""What `make lint` refuses in a file of this repository (tools/check_files.py)."""

from __future__ import annotations

import ast

import pytest

from tools import check_files

SOURCE = '''
def told():
    """The mean."""

async def told_too():
    """Loss of a batch."""

@contextlib.contextmanager
def told_as_well():
    """Inside, all is well."""

def good():
    """Returns the mean."""
    def within():
        """The mean."""

def silent(): ...

def _private():
    """The mean."""

@register
def a_set():
    """PPO on CartPole-v1."""

@memories.register
def a_memory():
    """Transitions."""

class Thing:
    """A thing."""

    def told_of_a_class(self):
        """Always raises TypeError."""

    @property
    def size(self):
        """The size."""

    @size.setter
    def size(self, value):
        """The size."""

    @functools.cached_property
    def length(self):
        """The length."""

if True:
    def told_at_last():
        """See `good`."""
'''


@pytest.mark.parametrize("word", ["Returns", "Is", "Has", "Passes", "Fsyncs", "Moves;", "Trains,", "Steps"])
def test_third_person_is_a_verb(word):
    assert check_files.is_verb(word)


NO_VERBS = ("The", "Return", "returns", "Whether", "This", "As", "Minus", "Always", "Loss", "Rows", "PPO's")
NO_WORDS = ("Log-probabilities", "Gymnasium's", "h(x)", "(metrics,", "-sum_i", "`x`", "[T,")


@pytest.mark.parametrize("word", NO_VERBS + NO_WORDS)
def test_other_first_words_are_none(word):
    assert not check_files.is_verb(word)


def test_public_docstrings_begin_with_a_verb():
    found = list(check_files.without_verb("rl/thing.py", ast.parse(SOURCE)))
    names = ["told", "told_too", "told_as_well", "told_of_a_class", "told_at_last"]
    assert [line.split(": ")[1] for line in found] == names
    assert found[0] == 'rl/thing.py:2: told: begin its docstring with a verb ("Returns"), not with "The"'


def test_only_folders_that_others_read_are_held_to_it(tmp_path, monkeypatch):
    monkeypatch.setattr(check_files, "ROOT", tmp_path)
    found = {}
    for folder in ("rl", "tests"):
        (tmp_path / folder).mkdir()
        path = tmp_path / folder / "thing.py"
        path.write_text('def mean():\n    """The mean."""\n')
        found[folder] = len(list(check_files.wrong(path)))
    assert found == {"rl": 1, "tests": 0}


def test_long_files_and_functions_are_told(tmp_path, monkeypatch):
    monkeypatch.setattr(check_files, "ROOT", tmp_path)
    path = tmp_path / "thing.py"
    path.write_text("def work():\n" + "    pass\n" * (check_files.FILE + 1))
    lines, function = check_files.wrong(path)
    assert lines.startswith("thing.py: 402 lines") and function.startswith("thing.py:1: work has 401 lines")
