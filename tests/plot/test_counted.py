"""Which runs count in statistics, and what is said of the others."""

from __future__ import annotations

import builtins
import errno
import io
import json
import os
import shutil

import pytest

from rl.errors import Unavailable, UsageError
from rl.plot import methods
from rl.plot.__main__ import main
from rl.report.runs import find_runs, table
from rl.storage.manifest import body_checksum


@pytest.fixture
def failing(monkeypatch):
    """Has files and folders fail: `failing("a/run_0/metrics.csv", errno.EACCES)`."""
    codes, opened, scanned = {}, io.open, os.scandir

    def check(path):
        for ending, code in codes.items():
            if str(path).endswith(ending):
                raise OSError(code, os.strerror(code), str(path))

    def open_(path, *args, **options):
        check(path)
        return opened(path, *args, **options)

    def scandir(path="."):
        check(path)
        return scanned(path)

    monkeypatch.setattr(io, "open", open_)
    monkeypatch.setattr(builtins, "open", open_)
    monkeypatch.setattr(os, "scandir", scandir)
    monkeypatch.setattr("rl.storage.files.PAUSES", (0.0,))
    return codes.__setitem__


@pytest.fixture
def runs(run_folder, tmp_path, monkeypatch):
    """Two runs of one method, `a/run_0` and `a/run_1`, in the current folder; returns their folder."""
    monkeypatch.chdir(tmp_path)
    for seed, value in ((0, 10.0), (1, 20.0)):
        run_folder(f"a/run_{seed}", "ppo_cartpole", seed, [1.0, value])
    return tmp_path / "a"


def plotted(capsys, *words):
    """Returns what `rl.plot` says, the tables and the other lines; it must end well."""
    assert main(list(words or ("a",))) == 0
    return capsys.readouterr()


def checkpoint(run, **meta):
    """Writes a checkpoint's manifest."""
    folder = run / "checkpoints/step_000000002000"
    folder.mkdir(parents=True)
    body = {"format": 2, "step": 2000, "meta": meta, "variables": {}, "prefix": "data", "files": {}}
    (folder / "manifest.json").write_text(json.dumps(body | {"checksum": body_checksum(body)}))


@pytest.mark.parametrize("content", [None, "", "\0\0\0", "step,eval/return_mean\n1000,nan\n"])
def test_a_run_without_the_metric_is_left_out_and_that_is_said(runs, run_folder, capsys, content):
    metrics = run_folder("a/run_2", "ppo_cartpole", 2, [3.0]) / "metrics.csv"
    metrics.unlink()
    if content is not None:
        metrics.write_text(content)
    said = plotted(capsys)
    line = "left out, without eval/return_mean: a/run_2\n"
    assert said.err == line and "| ppo_cartpole | 2 |" in said.out
    assert said.out.index("| ppo_cartpole | 2 |") < said.out.index(line)


def test_one_line_names_all_runs_of_an_environment_that_have_logged_nothing(runs, run_folder, capsys):
    for seed in range(30):
        run_folder(f"b/run_{seed}", "ppo_acrobot", seed, [])
    said = plotted(capsys, "a", "b")
    (line,) = said.err.splitlines()
    assert line.startswith("left out, without eval/return_mean: b/run_0, b/run_1, ")
    assert line.endswith(", b/run_19, and 10 more")
    assert line in said.out and "## Acrobot" not in said.out


def test_the_page_says_which_runs_it_is_without(runs, run_folder, capsys):
    run_folder("a/run_2", "ppo_cartpole", 2, [])
    plotted(capsys, "a", "--html", "x.html")
    assert "<p>left out, without eval/return_mean: a/run_2</p>" in (runs.parent / "x.html").read_text()


@pytest.mark.parametrize("text", ["{", "{}", "[1]"])
def test_a_run_of_damaged_hparams_does_not_stop_the_others(runs, run_folder, capsys, text):
    (run_folder("a/run_2", "ppo_cartpole", 2, [3.0]) / "hparams.json").write_text(text)
    said = plotted(capsys)
    assert said.err.startswith("left out, unreadable: ") and said.err.count("\n") == 1
    assert "a/run_2/hparams.json" in said.err and "was it edited?" in said.err
    assert "--output_dir" not in said.err
    assert said.err in said.out and "| ppo_cartpole | 2 |" in said.out


@pytest.mark.parametrize("place", ["a/run_2", "a/run_2/hparams.json", "a/run_2/metrics.csv"])
def test_a_run_that_may_not_be_read_is_left_out_and_that_is_said(runs, run_folder, capsys, failing, place):
    run_folder("a/run_2", "ppo_cartpole", 2, [3.0])
    failing(place, errno.EACCES)
    said = plotted(capsys)
    assert said.err.startswith(f"left out, unreadable: cannot read {place}") and said.err.count("\n") == 1
    assert "Permission denied" in said.err
    assert said.err in said.out and "| ppo_cartpole | 2 |" in said.out


@pytest.mark.parametrize("place", ["a", "a/run_1", "a/run_1/hparams.json", "a/run_1/metrics.csv", "perf.csv"])
def test_a_failure_that_may_pass_ends_with_the_code_to_try_again(runs, capsys, failing, place):
    failing(place, errno.EIO)
    assert main(["a"]) == 75
    said = capsys.readouterr()
    assert said.err.startswith("error: cannot read a") and said.err.count("\n") == 1 and not said.out


@pytest.mark.parametrize("place", ["a", "a/run_0", "a/run_0/hparams.json", "a/run_0/metrics.csv"])
def test_where_no_run_can_be_read_one_line_says_why(runs, capsys, failing, place):
    shutil.rmtree(runs / "run_1")
    failing(place, errno.EACCES)
    assert main(["a"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: ") and err.count("\n") == 1
    assert f"cannot read {place}" in err and "Permission denied" in err


def test_without_its_wall_times_a_run_counts_and_that_is_said(runs, capsys, failing):
    failing("a/run_1/perf.csv", errno.EACCES)
    said = plotted(capsys)
    assert said.err == "without wall time: cannot read a/run_1/perf.csv: Permission denied\n"
    assert "| ppo_cartpole | 2 | 2,000 | mean | 15.0 [10.0, 20.0] | 10.0 | 20.0 | - |" in said.out


@pytest.mark.parametrize(("code", "kind"), [(errno.EACCES, UsageError), (errno.EIO, Unavailable)])
def test_a_table_that_cannot_be_read_is_one_line(runs, failing, code, kind):
    failing("metrics.csv", code)
    with pytest.raises(UsageError, match=r"^cannot read .*metrics\.csv: [^\n]*$") as caught:
        table(runs / "run_0/metrics.csv")
    assert type(caught.value) is kind


def test_a_folder_in_the_place_of_a_table_is_one_line(runs):
    (runs / "run_0/metrics.csv").unlink()
    (runs / "run_0/metrics.csv").mkdir()
    with pytest.raises(UsageError, match=r"metrics\.csv: Is a directory"):
        table(runs / "run_0/metrics.csv")


@pytest.mark.parametrize("rows", [1, 2])
def test_a_backup_of_a_run_does_not_count_even_if_the_run_went_on(runs, capsys, rows):
    copied = shutil.copytree(runs, runs.parent / "a_backup") / "run_0/metrics.csv"
    copied.write_text("".join(copied.read_text().splitlines(keepends=True)[: 1 + rows]))
    said = plotted(capsys, "a_backup", "a")
    line = said.err.rstrip("\n")
    assert line.startswith("left out, a copy of another run: ") and "\n" not in line and line in said.out
    assert ("a_backup/run_0 (of a/run_0)" if rows == 1 else "a/run_0 (of a_backup/run_0)") in line
    assert "| ppo_cartpole | 2 | 2,000 | mean | 15.0 [10.0, 20.0] |" in said.out


def test_runs_of_one_seed_that_learned_differently_both_count(runs, run_folder, capsys):
    run_folder("b/run_0", "ppo_cartpole", 0, [2.0, 10.0])
    said = plotted(capsys, "a", "b")
    assert "| ppo_cartpole | 3 |" in said.out and not said.err


def test_a_published_policy_does_not_count_unless_it_is_what_is_named(runs, capsys):
    shared = shutil.copytree(runs / "run_0", runs / "shared")
    checkpoint(runs / "run_0", seed=0, best_return=10.0)
    checkpoint(shared, return_mean=12.0)
    said = plotted(capsys)
    assert said.err == "left out, a policy published from a run: a/shared\n"
    assert said.err in said.out and "| ppo_cartpole | 2 |" in said.out
    assert "| ppo_cartpole | 1 |" in plotted(capsys, "a/shared").out
    for run in (runs / "run_0", runs / "run_1"):
        shutil.rmtree(run)
    assert main(["a"]) == 2
    assert (
        "there is no run in a: left out, a policy published from a run: a/shared" in capsys.readouterr().err
    )


def test_the_order_of_saved_hyperparameters_makes_no_other_method(runs):
    path = runs / "run_1/hparams.json"
    saved = json.loads(path.read_text())
    path.write_text(json.dumps(saved | {"hparams": dict(reversed(saved["hparams"].items()))}))
    ((_, found),) = methods.methods_of(find_runs(runs)).items()
    assert [len(each.runs) for each in found] == [2]


def test_what_a_page_reads_of_a_run_stays_as_it_is(runs, capsys):
    for name in ("train.log", "command.txt", "versions.json"):
        (runs / f"run_0/{name}").write_bytes(b"2026-01-01 10:00:00 warning: \xff\n")
    before = sorted(path.name for path in (runs / "run_0").iterdir())
    plotted(capsys, "a", "--html", "x.html")
    assert sorted(path.name for path in (runs / "run_0").iterdir()) == before


def test_a_page_says_that_a_log_cannot_be_read(runs, capsys, failing):
    (runs / "run_0/train.log").write_text("")
    failing("run_0/train.log", errno.EACCES)
    failing("run_0/command.txt", errno.EACCES)
    plotted(capsys, "a", "--html", "x.html")
    page = (runs.parent / "x.html").read_text()
    for name in ("train.log", "command.txt"):
        assert f'<p class="fault">cannot read a/run_0/{name}: Permission denied</p>' in page
