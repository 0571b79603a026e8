"""What the comparison with d3rlpy makes of results, and which it makes again."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

import make_data
import offline_peers


def job(**changes):
    made = offline_peers.Job("ours", "iql", "hopper-medium", 100, 1_000, 50, 1, "0a0b0c0d", "0123456789")
    return made._replace(**changes)


def row(library, seed, score, rate, **changes):
    found = job(library=library, seed=seed)._asdict()
    measured = {
        "score": score,
        "return_mean": 0.0,
        "updates_per_s": rate,
        "peak": "9e10",
        "noisy": False,
        "versions": library,
    }
    return found | measured | changes


CHANGES = ({"steps": 2_000}, {"columns": "0"}, {"settings": "9"}, {"cpus": 2}, {"seed": 102}, {"episodes": 9})


def test_results_of_two_jobs_never_have_the_same_file():
    assert len({each.place for each in (job(), *(job(**changed) for changed in CHANGES))}) == 1 + len(CHANGES)


def test_a_peers_settings_are_its_script_and_the_penalties_of_the_data(monkeypatch):
    def told():
        return [offline_peers.settings("d3rlpy", algo, "hopper-medium", 9) for algo in ("rebrac", "iql")]

    rebrac, iql = told()
    monkeypatch.setitem(offline_peers.PENALTIES, "hopper-medium", (0.5, 0.5))
    assert told()[0] != rebrac and told()[1] == iql


def test_rows_of_earlier_settings_are_kept_out_of_the_page(monkeypatch):
    monkeypatch.setattr(offline_peers, "settings", lambda *of: "0123456789")
    rows = [row("ours", 100, 50.0, 900.0), row("ours", 101, 51.0, 900.0, settings="older")]
    assert offline_peers.of_now(rows) == rows[:1]


def test_scores_are_d4rls():
    assert offline_peers.score("hopper", 3234.3) == pytest.approx(100.0)
    assert offline_peers.score("halfcheetah", -280.178953) == pytest.approx(0.0)
    assert offline_peers.score("hopper", 1607.013848) == pytest.approx(50.0)


def test_results_in_the_table_and_in_files_count_for_what_they_depend_on_alone(tmp_path):
    args = argparse.Namespace(work=tmp_path / "work", results=tmp_path)
    args.work.mkdir()
    assert offline_peers.recorded(args) == {}
    (args.work / "iql-hopper-medium-100-ours.json").write_text(json.dumps(row("ours", 100, 50.0, 900.0)))
    offline_peers.write_results(args)
    (args.work / "iql-hopper-medium-100-ours.json").unlink()  # another machine has the table alone
    assert float(offline_peers.recorded(args)[job()]["score"]) == 50.0
    (args.work / "iql-hopper-medium-101-ours.json").write_text(json.dumps(row("ours", 101, 60.0, 900.0)))
    assert set(offline_peers.recorded(args)) == {job(), job(seed=101)}
    for changed in CHANGES:
        assert job(**changed) not in offline_peers.recorded(args)


def test_the_page_compares_intervals_over_seeds_and_medians_of_rates():
    mine = [row("ours", seed, score, 900.0) for seed, score in ((100, 50.0), (101, 52.0), (102, 54.0))]
    theirs = [row("d3rlpy", seed, score, 300.0) for seed, score in ((100, 60.0), (101, 61.0), (102, 62.0))]
    others = [row("ours", 100, 1.0, 9.0, algo="cql"), row("ours", 103, 1.0, 9.0, cpus=2)]
    page = offline_peers.page([*mine, *theirs, *others])
    assert "1 of 1 are worse than d3rlpy's; updates/s are 3.00 to 3.00 times d3rlpy's, where" in page
    line = page.splitlines()[-1]
    assert line.startswith("| iql | hopper-medium | 1,000 | 1 | 50 | 52.0 [")
    # 9e10 operations/s make 171.6 updates/s of 5.24e8, 0.57 of the peer's 300.
    assert line.endswith("**worse** | 900 | 300 | 3.00 | 0.57 |")
    assert offline_peers.verdict([60.0, 61.0], [50.0, 62.0]) == "no worse"
    assert "Nothing has been measured" in offline_peers.page(mine)


def test_qualities_choose_among_the_data_sets(tmp_path):
    listed = make_data.commands("hopper", tmp_path, 0, 10, 5, ("medium-replay", "medium"))
    assert [place.name for place, _ in listed] == ["hopper-medium-replay-v0", "hopper-medium-v0"]
    every = {place.name for place, _ in make_data.commands("hopper", tmp_path, 0, 10, 5)}
    assert {f"hopper-{quality}-v0" for quality in make_data.QUALITIES} <= every
