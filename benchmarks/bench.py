"""Speed of this project beside that of other libraries: `make bench ARGS="--purejaxrl PATH --cleanrl PATH"`.

Each round runs everything once, ours and its peer one after the other, so that a drift of the machine falls
on both alike; every process waits until the machine is idle. Prints a table of medians and writes
benchmarks/results/speed.json and speed.md; `--report` writes the latter again, from the former. See
benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import measure
import peer_environments
import shared
import trained
from shared import RESULTS, ROOT, UsageError
from workloads import ROWS, RUNS, Row, runs_of

LOG = ROOT / "build" / "bench" / "runs.jsonl"
CHECKOUTS = {"PUREJAXRL": "--purejaxrl", "CLEANRL": "--cleanrl"}
KEPT = (
    "env_steps_per_s", "updates_per_s", "compile_s", "startup_s", "first_mark_s", "peak_rss_mb",
    "return_mean", "wall_s",
)  # fmt: skip


def command_line() -> argparse.ArgumentParser:
    parser, number = shared.parser(__doc__), shared.number(0.0)
    add = parser.add_argument
    add("--only", nargs="+", metavar="ROW", choices=list(ROWS), help="of " + " ".join(ROWS))
    add("--runs", type=shared.integer(1), default=5, help="rounds (default 5)")
    add("--purejaxrl", metavar="PATH", help="checkout of github.com/luchris429/purejaxrl")
    add("--cleanrl", metavar="PATH", help="checkout of github.com/vwxyzjn/cleanrl")
    add("--venvs", metavar="DIR", default=str(ROOT / "build" / "peers"), help="peers' environments")
    text = "do not repeat what an interrupted or partial call of the same commit finished"
    add("--resume", action="store_true", help=text)
    add("--repeat-noisy", action="store_true", help="with --resume: but do repeat noisy runs")
    text = "longest wait for an idle machine (default 120)"
    add("--wait", type=number, default=120.0, metavar="S", help=text)
    add("--timeout", type=number, default=300.0, metavar="S", help="longest run (default 300)")
    add("--report", action="store_true", help="only write speed.md, from speed.json")
    add("--results", type=Path, metavar="DIR", default=RESULTS, help="where speed.json and speed.md go")
    return parser


def usable(names: list[str], args: argparse.Namespace) -> list[str]:
    """The rows whose peers can run; a line for each of the others says what to pass."""
    given = {"PUREJAXRL": args.purejaxrl, "CLEANRL": args.cleanrl}
    rows = []
    for name in names:
        words = {word for run in ROWS[name].peers for word in RUNS[run].command.split()}
        missing = [flag for word, flag in CHECKOUTS.items() if word in words and not given[word]]
        if missing:
            print(f"{name}: skipped, pass {' and '.join(missing)} (the path of a checkout)")
        else:
            rows.append(name)
    return rows


def environ(run: str) -> dict[str, str]:
    """The process's environment: the machine's, one setting of threads, no accelerator for anyone,
    no programs that were compiled before. Python's own bytecode is kept, as on a user's machine."""
    env = dict(shared.ENVIRON, JAX_PLATFORMS="cpu", CUDA_VISIBLE_DEVICES="-1", TF_CPP_MIN_LOG_LEVEL="2")
    env["RL_PROGRAM_CACHE"] = "off"
    for name in ("OMP_NUM_THREADS", "PYTHONDONTWRITEBYTECODE", "PYTHONPATH", "VIRTUAL_ENV", "PYTHONHOME"):
        env.pop(name, None)
    if run in RUNS and RUNS[run].threads is not None:
        env["OMP_NUM_THREADS"] = str(RUNS[run].threads)
    return env


def one_run(name: str, round_number: int, args: argparse.Namespace) -> dict[str, Any]:
    """Runs `RUNS[name]` once; the row that is logged."""
    run = RUNS[name]
    python = sys.executable
    if run.where != "ours":
        python = str(peer_environments.python_of(Path(args.venvs).resolve(), run.where))
    with tempfile.TemporaryDirectory() as folder:
        known = {"SEED": str(round_number), "FOLDER": folder}
        known |= {"PUREJAXRL": args.purejaxrl or "", "CLEANRL": args.cleanrl or ""}
        command = [python, *(known.get(word, word) for word in run.command.split())]
        found = measure.run(command, str(ROOT), environ(name), args.wait, args.timeout)
    now = datetime.datetime.now().isoformat(timespec="seconds")
    row = {"run": name, "round": round_number, "command": run.command, "commit": args.commit, "date": now}
    if "error" not in found:
        found.pop("output")
    return row | found


def measure_all(names: list[str], args: argparse.Namespace) -> list[dict[str, Any]]:
    """All runs of all rounds; if asked to resume, from the log those of this commit that are there."""
    LOG.parent.mkdir(parents=True, exist_ok=True)
    if not args.resume and LOG.exists():
        LOG.rename(LOG.with_suffix(".previous.jsonl"))
    logged = [json.loads(line) for line in LOG.read_text().splitlines()] if LOG.exists() else []
    mine = [row for row in logged if row.get("commit") == args.commit]
    good = [row for row in mine if "error" not in row and not (args.repeat_noisy and row["noisy"])]
    done = {(row["run"], row["round"], row["command"]): row for row in good}
    rows = []
    for round_number in range(1, args.runs + 1):
        for name in names:
            row = done.get((name, round_number, RUNS[name].command))
            if row is None:
                row = one_run(name, round_number, args)
                with LOG.open("a") as file:
                    file.write(json.dumps(row) + "\n")
                shown = [f"{key} {row[key]:g}" for key in KEPT if isinstance(row.get(key), int | float)]
                noise = f"  NOISY, others used {row['others_cpu']} cores" if row["noisy"] else ""
                print(f"round {round_number}  {name}  {'  '.join(shown)}{noise}", flush=True)
                if "error" in row:
                    print(f"{name} failed, {row['error']}: {row['output']}", flush=True)
            rows.append(row)
    return rows


def compare(name: str, rows: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The line of the table for `ROWS[name]`, over the rounds in which both sides ran well; None where there
    is none."""
    row = ROWS[name]

    def values(run: str, metric: str) -> dict[int, float]:
        good = [each for each in rows if each["run"] == run and isinstance(each.get(metric), int | float)]
        return {each["round"]: float(each[metric]) for each in good if "error" not in each}

    ours = values(row.ours, row.ours_metric or row.metric)
    found = {peer: values(peer, row.metric) for peer in row.peers}
    peers = {peer: {i: x for i, x in each.items() if i in ours} for peer, each in found.items()}
    peers = {peer: each for peer, each in peers.items() if each}
    if not peers:
        return None
    best = min if row.at_most else max
    peer = best(peers, key=lambda each: statistics.median(peers[each].values()))
    ours = {i: ours[i] for i in peers[peer]}
    medians = statistics.median(ours.values()), statistics.median(peers[peer].values())
    pairs = [value / peers[peer][i] for i, value in ours.items()]
    ratio = medians[0] / medians[1]
    passed = None if row.bar is None else (ratio <= row.bar if row.at_most else ratio >= row.bar)
    made = [each for each in rows if each["run"] in (row.ours, peer)]
    used = [each for each in made if "error" not in each and each["round"] in ours]
    versions = sorted({f"{each['library']} {each['version']}" for each in used if "library" in each})
    return {
        "row": name,
        "date": max(each["date"] for each in used)[:10],
        "title": row.title,
        "peer": peer,
        "ours": list(ours.values()),
        "theirs": list(peers[peer].values()),
        "ours_median": medians[0],
        "peer_median": medians[1],
        "ratio_of_medians": round(ratio, 3),
        "median_of_ratios": round(statistics.median(pairs), 3),
        "other_peers": {each: statistics.median(peers[each].values()) for each in peers if each != peer},
        "bar": row.bar,
        "aim": row.aim,
        "at_most": row.at_most,
        "passed": passed,
        "runs": len(pairs),
        "noisy_runs": sum(each["noisy"] for each in used),
        "failed_runs": sum("error" in each for each in made),
        "commits": sorted({each["commit"] for each in used if each.get("commit")}),
        "returns": {
            run: [each.get("return_mean") for each in used if each["run"] == run] for run in (row.ours, peer)
        },
        "versions": versions,
        "processor": processor(),
        "python": platform.python_version(),
    }


def processor() -> str:
    """The name of this machine's processor, and which wide instructions it has."""
    about: dict[str, str] = {}
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition(":")
        about.setdefault(name.strip(), value.strip())
    wide = [each for each in ("avx2", "avx512f", "amx_bf16") if each in about.get("flags", "").split()]
    return ", ".join([about.get("model name", platform.machine()), *wide])


def bar_text(row: Row) -> str:
    if row.bar is None:
        return "-"
    aim = f" (aim {row.aim:g})" if row.aim else ""
    return f"{'<=' if row.at_most else '>='} {row.bar:g}{aim}"


def table(lines: list[dict[str, Any]]) -> list[list[str]]:
    """The header and a row of cells per line."""
    cells = [
        ["workload", "ours", "peer", "of peer", "ratio", "paired", "bar", "result"],
    ]
    cells[0] += ["rounds (noisy, failed)", "date"]
    words = {True: "pass", False: "MISS", None: "-"}
    for line in lines:
        digits = ".1f" if line["at_most"] else ",.0f"
        paired = line["median_of_ratios"]
        cells.append(
            [
                line["title"],
                format(line["ours_median"], digits),
                format(line["peer_median"], digits),
                line["peer"],
                f"{line['ratio_of_medians']:.2f}",
                "-" if paired is None else f"{paired:.2f}",
                bar_text(ROWS[line["row"]]),
                words[line["passed"]],
                f"{line['runs']} ({line['noisy_runs']}, {line.get('failed_runs', '?')})",
                line["date"],
            ]
        )
    return cells


def markdown(lines: list[dict[str, Any]], facts: dict[str, Any]) -> str:
    header, *body = table(lines)
    known = {line["row"]: cells for line, cells in zip(lines, body, strict=True)}
    nothing = [*["-"] * 6, "no result", "-", "-"]
    body = [known.get(name, [row.title, *nothing]) for name, row in ROWS.items()]
    rows = [header, ["---"] * len(header), *body]
    text = [
        "# Speed",
        "",
        f"{facts['machine']}. Written by `make bench`; see ../README.md.",
        "",
    ]
    text += ["| " + " | ".join(row) + " |" for row in rows]
    text += [
        "",
        "Medians over the rounds that both sides finished, in alternation. ratio: ours / peer, of the "
        "medians; paired: the median of the ratios round by round. Steps are transitions, autoreset steps "
        "left out; compilation is left out but where a whole process is timed. noisy: runs, of both sides, "
        "during which others used the machine; failed: runs, of both sides, that ended with an error or came "
        "to no end (?: not noted then; medians of these rows are over all rounds of each side).",
        "",
        *_limits(lines),
        "Versions: " + "; ".join(facts["versions"]) + ".",
        "",
        "Processors: " + "; ".join(facts["processors"]) + ".",
        "",
    ]
    return "\n".join(text)


def _limits(lines: list[dict[str, Any]]) -> list[str]:
    """Where rows miss, what the profile of ours shows."""
    missed = [ROWS[line["row"]] for line in lines if line["passed"] is False]
    said = [f"* {row.title}: {row.limit}." for row in missed if row.limit]
    return ["What limits the rows that miss, by a profile of ours:", "", *said, ""] if said else []


def print_table(lines: list[dict[str, Any]]) -> None:
    cells = table(lines)
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def facts_of(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """Machine and versions, as they go into the results."""
    ours = [f"{name} {importlib.metadata.version(name)}" for name in ("keras", "envpool", "gymnasium")]
    versions = sorted({version for line in lines for version in line["versions"]})
    return {
        "machine": f"{len(os.sched_getaffinity(0))} cores, no GPU",
        "processors": _with_dates(lines, "processor"),
        "versions": [*(f"Python {each}" for each in _with_dates(lines, "python")), *ours, *versions],
    }


def _with_dates(lines: list[dict[str, Any]], fact: str) -> list[str]:
    """What lines note of a fact, each with the days of its rows."""
    dates: dict[str, set[str]] = {}
    for line in lines:
        dates.setdefault(line.get(fact, "not noted"), set()).add(line["date"])
    return [f"{name} (rows of {', '.join(sorted(of))})" for name, of in sorted(dates.items())]


def write_results(lines: list[dict[str, Any]], folder: Path) -> None:
    """speed.json and speed.md, with the lines of rows that were measured earlier."""
    path = folder / "speed.json"
    earlier = json.loads(path.read_text())["rows"] if path.exists() else []
    known = {line["row"]: line for line in [*earlier, *lines]}
    merged = [known[name] for name in ROWS if name in known]
    facts = facts_of(merged)
    shared.write(path, json.dumps(facts | {"rows": merged}, indent=1) + "\n")
    shared.write(folder / "speed.md", markdown(merged, facts))


def report(folder: Path) -> int:
    """Writes speed.md again, with the facts and the lines of speed.json."""
    path = folder / "speed.json"
    if not path.exists():
        raise UsageError(f"there is no {path}: leave out --report")
    facts = json.loads(path.read_text())
    shared.write(folder / "speed.md", markdown(facts["rows"], facts))
    return 0


def main() -> int:
    args = command_line().parse_args()
    if args.report:
        return report(args.results)
    args.commit = trained.version()
    rows = usable(args.only or list(ROWS), args)
    names = runs_of(rows)
    for where in dict.fromkeys(RUNS[name].where for name in names):
        if where != "ours":
            peer_environments.prepare(Path(args.venvs).resolve(), where)
    # Ours too is imported once beforehand: no first run pays for reading files.
    subprocess.run([sys.executable, "-c", "import rl.api"], cwd=ROOT, check=True, capture_output=True)
    measured = measure_all(names, args)
    found = [(row, compare(row, measured)) for row in rows]
    lines = [line for _, line in found if line is not None]
    if not lines:
        print("nothing to compare")
        return 1
    write_results(lines, args.results)
    print()
    print_table(lines)
    for row, line in found:
        if line is None:
            print(f"{row}: no result, its runs failed")
    return 0 if all(line is not None and line["passed"] is not False for _, line in found) else 1


if __name__ == "__main__":
    try:
        shared.answer(main)
    except peer_environments.EnvironmentFailure as failure:
        sys.exit(f"error: {failure}")
