"""What the sets' docstrings say was measured is what the table of results says."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

import docstrings

ROW = {"last": "-80.4", "steps": "100096", "seconds": "10.0", "first_window_s": "3.0", "cores": "2"}
ROW |= {"noisy": "False", "command": "python train.py --hparams a_set --seed 0 --output_dir DIR"}
ROWS = [ROW, ROW | {"last": "-82.0", "seconds": "20.0"}, ROW | {"last": "-84.0", "seconds": "90.0"}]
SAID = "`python train.py --hparams a_set`: -82 after 100,000 steps, in 23 s (3 seeds, 2 cores)."


def test_mean_of_the_last_checkpoints_and_median_of_the_seconds():
    assert docstrings.measured("a_set", ROWS) == SAID


def test_a_run_shorter_than_the_set_says_so():
    rows = [row | {"command": f"{row['command']} --train_steps 100000"} for row in ROWS]
    assert docstrings.measured("a_set", rows) == SAID.replace("a_set", "a_set --train_steps 100000")


def test_a_machine_that_was_shared_is_told():
    rows = [*ROWS[:2], ROWS[2] | {"noisy": "True"}]
    assert docstrings.measured("a_set", rows) == SAID.replace("2 cores", "2 cores, busy")


def test_one_core_is_not_called_cores():
    rows = [each | {"cores": "1"} for each in ROWS]
    assert docstrings.measured("a_set", rows) == SAID.replace("2 cores", "1 core")


@pytest.mark.parametrize(
    "old",
    ["", "\n\n    `python train.py --hparams a_set`: 7 after\n    9 steps.\n    "],
    ids=["none", "another"],
)
def test_one_paragraph_is_written_or_replaced_and_the_rest_stays(old):
    rest = '    return 1\n\n\ndef other():\n    """Other."""\n'
    after = docstrings.updated(f'def a_set():\n    """A set.{old}"""\n{rest}', {"a_set": ROWS})
    assert after == f'def a_set():\n    """A set.\n\n    {SAID}\n    """\n{rest}'
    assert docstrings.updated(after, {"a_set": ROWS}) == after


def test_other_paragraphs_are_kept():
    source = 'def a_set():\n    """A set.\n\n    From a paper.\n    """\n'
    assert docstrings.updated(source, {"a_set": ROWS}) == source.replace("From", f"{SAID}\n\n    From")


@pytest.mark.parametrize("path", sorted(docstrings.SETS.glob("*.py")), ids=lambda path: path.stem)
def test_docstrings_say_what_the_table_says(path):
    source = path.read_text()
    assert docstrings.updated(source, docstrings.rows_by_set()) == source, "run benchmarks/docstrings.py"
