"""Trains for hours, with evaluations, films and checkpoints: are memory, open files and threads flat?

    python benchmarks/flat.py --minutes 120 --hparams dqn_cartpole
    python benchmarks/flat.py --report               # judges the samples of flat.csv again, trains nothing

What is never closed raises the least count that is seen, and the median: these are compared. The greatest
count is that of a moment in which a film or a checkpoint is written, and chance whether a sample meets it.

The run is `train.py` as it is typed, with an evaluation and a film every `--eval_period` steps and a
checkpoint every 20 s; it is asked to stop at the end. Writes samples and a report, flat.csv and flat.md, to
benchmarks/results.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import processes
import shared
from shared import RESULTS, ROOT, UsageError

SAMPLE_S = 10.0
WARM_UP = 0.25  # of the time is left out of the straight line: what is compiled and filled only once
# Flat: by the straight line, own memory grows by no more than the larger of these in an hour.
FLAT_MIB, FLAT_SHARE = 16.0, 0.03
FIELDS = ("seconds", "own_mib", "files", "threads")


def sample(begun: float, pid: int) -> dict[str, float] | None:
    """Returns what the process holds; None where it has ended."""
    process = processes.read(pid)
    if process is None:
        return None
    own = (process.resident - process.shared) / 2**20
    files, threads = (len(os.listdir(f"/proc/{pid}/{name}")) for name in ("fd", "task"))
    return dict(zip(FIELDS, (round(time.time() - begun, 1), round(own, 1), files, threads), strict=True))


def watch(command: list[str], seconds: float) -> tuple[int, list[dict[str, float]]]:
    """Runs a command for so long; returns its exit code, after SIGTERM, and the samples."""
    begun, samples = time.time(), []
    running = subprocess.Popen(command, cwd=ROOT)
    while time.time() - begun < seconds and running.poll() is None:
        found = sample(begun, running.pid)
        if found is not None:
            samples.append(found)
        time.sleep(SAMPLE_S)
    running.send_signal(signal.SIGTERM)
    return running.wait(), samples


def verdicts(samples: list[dict[str, float]]) -> list[str]:
    """Returns a line for memory, files and threads each, which begins with pass or FAIL."""
    counted = samples[int(WARM_UP * len(samples)) :]
    hours = np.array([each["seconds"] for each in counted]) / 3600.0
    own = np.array([each["own_mib"] for each in counted])
    slope, limit = float(np.polyfit(hours, own, 1)[0]), max(FLAT_MIB, FLAT_SHARE * float(own.mean()))
    words = [f"own memory {own.mean():.0f} MiB, {slope:+.1f} MiB/hour (at most {limit:.0f})"]
    passed = [slope <= limit]
    for name in ("files", "threads"):
        values = np.array([each[name] for each in counted])
        third = len(values) // 3
        thirds = [
            [f(part) for f in (np.min, np.median, np.max)] for part in (values[:third], values[-third:])
        ]
        first, last = (" / ".join(f"{each:g}" for each in part) for part in thirds)
        words.append(f"{name}, least / median / greatest: {first} in the first third, {last} in the last")
        passed.append(bool(thirds[1][0] <= thirds[0][0] and thirds[1][1] <= thirds[0][1]))
    return [f"* {'pass' if well else 'FAIL'}: {line}" for well, line in zip(passed, words, strict=True)]


def done(run_dir: Path) -> str:
    """Returns what the run had made by its end, in words."""
    rows = shared.read_table(run_dir / "metrics.csv")
    evaluations = sum(1 for row in rows if row.get("eval/return_mean"))
    films = len(list((run_dir / "videos").glob("*.mp4")))
    return f"{int(rows[-1]['step']):,} steps, {len(rows)} rows, {evaluations} evaluations, {films} films"


def judged_again(results: Path) -> str:
    """Returns the page with the verdicts of the samples that are there; what stands before them stays."""
    rows = shared.read_table(results / "flat.csv")
    if not rows or not (results / "flat.md").exists():
        raise UsageError(f"there is no flat.csv with its flat.md in {results}: leave out --report")
    samples = [{name: float(text) for name, text in row.items()} for row in rows]
    before = (results / "flat.md").read_text().splitlines()
    first = next(i for i, line in enumerate(before) if "own memory" in line)
    return "\n".join([*before[:first], *verdicts(samples), ""])


def main() -> int:
    """Runs the command; returns 0 where all is flat."""
    parser = shared.parser(__doc__)
    parser.add_argument("--minutes", type=shared.number(1.0), default=120.0)
    parser.add_argument("--hparams", type=shared.set_name, default="dqn_cartpole")
    parser.add_argument("--eval_period", type=shared.integer(1), default=50_000, help="steps")
    parser.add_argument("--output_dir", type=Path, default=ROOT / "build" / "flat")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--report", action="store_true", help="judges again, trains nothing")
    args = parser.parse_args()
    if args.report:
        return told(judged_again(args.results), args.results)
    if args.output_dir.exists():
        parser.error(f"--output_dir {args.output_dir} is there already: delete it, or name another")
    overrides = f"eval_period={args.eval_period},checkpoint_period=20"
    flags = ["--hparams", args.hparams, "--train_steps", str(10**9), "--hparam_override", overrides]
    command = [
        "train.py",
        *flags,
        "--record_video",
        "True",
        "--output_dir",
        os.path.relpath(args.output_dir, ROOT),
    ]
    code, samples = watch([sys.executable, *command], 60.0 * args.minutes)
    if not samples or not shared.read_table(args.output_dir / "run_0" / "metrics.csv"):
        raise UsageError(f"the run ended with exit code {code} before it had trained: nothing is written")
    lines = [f"* {'pass' if code == 128 + signal.SIGTERM else 'FAIL'}: exit code {code} after SIGTERM"]
    lines += [f"* {done(args.output_dir / 'run_0')}", *verdicts(samples)]
    shared.write_table(args.results / "flat.csv", FIELDS, samples)
    words = shlex.join(["python", "benchmarks/flat.py", *sys.argv[1:]])
    machine = f"on a machine of {len(os.sched_getaffinity(0))} cores"
    head = f"# {args.minutes:g} minutes of training\n\nWritten by `benchmarks/flat.py`, {machine}.\n"
    return told(
        "\n".join([head, f"    {words}\n    {shlex.join(['python', *command])}", "", *lines, ""]),
        args.results,
    )


def told(text: str, results: Path) -> int:
    """Writes and prints the page; returns 0 where all is flat."""
    shared.write(results / "flat.md", text)
    print(text)
    return 1 if "* FAIL" in text else 0


if __name__ == "__main__":
    shared.answer(main)
