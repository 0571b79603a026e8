"""The page of `make bench`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

import bench
from workloads import ROWS

FOLDER = Path(bench.__file__).parent
FACTS = {"machine": "2 cores", "versions": ["rl 1"], "processors": ["one"]}


@pytest.mark.parametrize("given", [None, "--xla_dump_to=elsewhere"])
def test_what_this_package_says_to_xla_is_not_said_to_peers(given):
    """XLA of another release ends the process over a switch that it does not know."""
    code = "import os, bench; print(os.environ['XLA_FLAGS']); print(bench.environ('').get('XLA_FLAGS'))"
    environ = {name: each for name, each in os.environ.items() if name != "XLA_FLAGS"}
    environ |= {} if given is None else {"XLA_FLAGS": given}
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, cwd=FOLDER, env=environ, capture_output=True, text=True, check=True)
    ours, theirs = done.stdout.splitlines()
    assert ours != theirs and theirs == str(given)


@pytest.mark.parametrize("passed", [True, False, None])
def test_what_limits_a_row_is_told_where_it_misses(passed):
    row = ROWS["whole_purejaxrl"]
    numbers = {"ours_median": 2.0, "peer_median": 1.0, "ratio_of_medians": 2.0, "median_of_ratios": None}
    line = {
        "row": "whole_purejaxrl",
        "title": row.title,
        "at_most": True,
        "peer": "purejaxrl_whole",
        **numbers,
    }
    line |= {"passed": passed, "runs": 2, "noisy_runs": 0, "date": "2026-11-25"}
    text = bench.markdown([line], FACTS)
    assert row.limit and (f"* {row.title}: {row.limit}.\n" in text) == (passed is False)


def run(name, number, value, **changes):
    """A logged run of `ppo_8`."""
    row = {"run": name, "round": number, "env_steps_per_s": value, "noisy": False, "date": "2026-11-25"}
    return row | {"commit": "abc1234"} | changes


def test_only_rounds_that_both_sides_finished_are_compared_and_failures_are_counted():
    rows = [run("ours_ppo_8", 1, 100.0), run("purejaxrl_ppo_8", 1, 50.0)]
    rows += [run("ours_ppo_8", 2, 900.0), run("purejaxrl_ppo_8", 2, 1.0, error="exit code 1")]
    line = bench.compare("ppo_8", rows)
    assert (line["ratio_of_medians"], line["runs"], line["failed_runs"]) == (2.0, 1, 1)
    assert line["ours"] == [100.0] and line["commits"] == ["abc1234"]
    assert "| 1 (0, 1) |" in bench.markdown([line], FACTS)
    assert bench.compare("ppo_8", [rows[0], rows[3]]) is None


def test_rows_without_a_result_are_on_the_page():
    text = bench.markdown([], FACTS)
    assert all(f"| {row.title} | - |" in text for row in ROWS.values())
    assert text.count("| no result |") == len(ROWS)


def test_the_page_tells_which_rows_were_measured_with_another_python():
    known = {"versions": ["rl 1"], "processor": "one"}
    lines = [known | {"date": "2026-11-25", "python": "3.11.7"}, known | {"date": "2026-11-28"}]
    lines += [known | {"date": "2026-11-26", "python": "3.11.7"}]
    facts = bench.facts_of(lines)
    assert facts["processors"] == ["one (rows of 2026-11-25, 2026-11-26, 2026-11-28)"]
    told = ["Python 3.11.7 (rows of 2026-11-25, 2026-11-26)", "Python not noted (rows of 2026-11-28)"]
    assert facts["versions"][:2] == told


@pytest.mark.parametrize(("commit", "made"), [("abc1234", []), ("def5678", ["ours_ppo_8"])])
def test_what_is_logged_counts_for_its_commit_alone(tmp_path, monkeypatch, commit, made):
    done = []
    monkeypatch.setattr(bench, "LOG", tmp_path / "runs.jsonl")
    logged = run("ours_ppo_8", 1, 1.0, command=bench.RUNS["ours_ppo_8"].command)
    (tmp_path / "runs.jsonl").write_text(json.dumps(logged) + "\n")
    monkeypatch.setattr(bench, "one_run", lambda name, *rest: done.append(name) or run(name, 1, 2.0))
    args = bench.command_line().parse_args(["--resume", "--runs", "1"])
    args.commit = commit
    bench.measure_all(["ours_ppo_8"], args)
    assert done == made
