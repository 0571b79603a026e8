"""The report of `scaling.py`: scaling.md and scaling.png, from the rows of scaling.csv."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import Any

import shared

Row = dict[str, Any]
ALIKE = ("awake", "nice", "warmup_s", "measure_s")  # rows that differ in one of these are not pooled
LINEAR_BAR, PEER_BAR = 0.9, 1.5
NAMES = {
    ("ours", "impala"): "IMPALA",
    ("ours", "apex"): "Ape-X",
    ("ours", "appo"): "APPO",
    ("rllib", "impala"): "RLlib IMPALA",
    ("rllib", "appo"): "RLlib APPO",
}
Rates = dict[tuple[str, str], dict[int, list[float]]]  # (library, algo) -> workers -> steps/s of each round


def groups(rows: Iterable[Row], task: str) -> dict[tuple[str, ...], list[Row]]:
    """The rows of a task, by how they were measured: `ALIKE`."""
    found: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        if row["task"] == task:
            found.setdefault(tuple(row[name] for name in ALIKE), []).append(row)
    return found


def words(alike: tuple[str, ...]) -> str:
    """How rows were measured."""
    awake, nice, warmup, measured = alike
    seconds = f", {measured} s measured after {warmup} s" if measured else ""
    return f"Cores {'kept awake' if awake == 'True' else 'as they are'}, niceness {nice}{seconds}"


def rates(rows: Iterable[Row]) -> Rates:
    """Environment steps per second, by who and with how many workers."""
    found: Rates = {}
    for row in rows:
        if row["task"] == "rate":
            counts = found.setdefault((row["library"], row["algo"]), {})
            counts.setdefault(int(row["workers"]), []).append(float(row["env_steps_per_s"]))
    return found


def fractions(counts: dict[int, list[float]]) -> dict[int, float]:
    """Workers -> steps/s as a share of that many times the steps/s of one worker; of medians."""
    one = median(counts[1])
    return {count: median(values) / (count * one) for count, values in counts.items()}


def beside_peer(rows: Iterable[Row], algo: str, count: int) -> tuple[float, str] | None:
    """Our steps/s over those of RLlib's faster algorithm with so many workers, and which that is.

    The median over the rounds that have both: speeds of one machine at different times are not compared.
    """
    rounds: dict[str, dict[tuple[str, str], float]] = {}
    for row in rows:
        if row["task"] == "rate" and int(row["workers"]) == count:
            who = row["library"], row["algo"]
            rounds.setdefault(row["round"], {})[who] = float(row["env_steps_per_s"])
    found = []
    for speeds in rounds.values():
        peers = {who: speed for who, speed in speeds.items() if who[0] == "rllib"}
        if peers and ("ours", algo) in speeds:
            fastest = max(peers, key=lambda who: peers[who])
            found.append((speeds["ours", algo] / peers[fastest], fastest[1]))
    return (median(ratio for ratio, _ in found), found[0][1]) if found else None


def table(header: list[str], rows: list[list[str]]) -> list[str]:
    """Lines of Markdown."""
    return ["| " + " | ".join(row) + " |" for row in [header, ["---"] * len(header), *rows]]


def _span(values: list[float]) -> str:
    return f"{median(values):,.0f}" + (f" ({min(values):,.0f} to {max(values):,.0f})" if values[1:] else "")


def rate_lines(rows: list[Row], alike: tuple[str, ...]) -> list[str]:
    """The curves as a table, of rows that were measured alike."""
    found = rates(rows)
    alone = found.get(("environment", "environment"), {}).get(1)
    lines = [f"### {words(alike)}", ""]
    if alone:
        lines += [f"The environment alone, in one process: {_span(alone)} steps/s.", ""]
    cells = []
    for who, name in NAMES.items():
        counts = found.get(who, {})
        shares = fractions(counts) if 1 in counts else {}
        for count in sorted(counts):
            each = median(counts[count])
            peer = beside_peer(rows, who[1], count) if who[0] == "ours" else None
            cells.append(
                [
                    name,
                    str(count),
                    _span(counts[count]),
                    f"{shares[count]:.2f}" if count in shares else "-",
                    f"{each / (count * median(alone)):.2f}" if alone else "-",
                    f"{peer[0]:.2f} ({peer[1].upper()})" if peer else "-",
                    str(len(counts[count])),
                ]
            )
    header = [
        "",
        "workers",
        "steps/s",
        "of linear",
        "of the environments alone",
        "of RLlib's faster",
        "rounds",
    ]
    return [*lines, *table(header, cells), ""]


def learn_lines(rows: list[Row]) -> list[str]:
    """Time to solve CartPole."""
    found: dict[tuple[str, ...], list[Row]] = {}
    for alike, mine in groups(rows, "learn").items():
        for row in mine:
            key = (row["env"], row["algo"], row["workers"], row["envs"], row["library"], words(alike))
            found.setdefault(key, []).append(row)
    if not found:
        return []
    cells = []
    for (env, algo, workers, envs, library, how), each in sorted(found.items()):
        good = [row for row in each if row["reached"] == "True"]

        def spread(field: str, chosen: list[Row] = good) -> str:
            return ", ".join(f"{float(row[field]):.1f}" for row in chosen) or "-"

        steps = ", ".join(f"{int(row['total_env_steps']):,}" for row in good) or "-"
        name = NAMES[library, algo]
        reached = f"{len(good)} of {len(each)}"
        cells.append(
            [
                *(env, name, f"{workers} x {envs}", reached),
                *(spread("seconds_from_launch"), spread("seconds_from_first_update"), steps, how),
            ]
        )
    header = ["environment", "", "workers x environments", "reached"]
    header += ["s from launch", "s from the first update", "steps", "how"]
    return ["## Time to 450 on CartPole", "", *table(header, cells), ""]


def notes(rows: list[Row]) -> list[str]:
    """How it was measured."""
    versions = sorted({f"{row['library']}: {row['version']}" for row in rows if row["library"] != "ours"})
    noisy = sum(row["idle"] != "True" for row in rows)
    nice = sorted({int(row["nice"] or 0) for row in rows})
    kept = sum(row.get("awake") == "True" for row in rows)
    return [
        "## How",
        "",
        "Medians over rounds that were measured alike; RLlib is compared within a round. In brackets the "
        f"least and the most. {noisy} of {len(rows)} runs began while others used more than 0.3 of a core; "
        f"niceness of all runs: {', '.join(map(str, nice))}. {kept} had the cores kept awake (`--awake`): on "
        f"an idle virtual machine they are slow to come back to workers that sleep. Bars: {LINEAR_BAR:g} of "
        f"linear, {PEER_BAR:g} times RLlib's faster one of IMPALA and APPO.",
        "",
        "SleepingCartPole-v1 is CartPole whose step sleeps 5 ms first; one for each worker. of linear: "
        "steps/s by N times the steps/s of one worker. Steps are counted where the learner gets them; "
        "start-up, compilation and some seconds of warm-up are left out. Both libraries have networks of "
        "64-64 and rollouts of 100 steps. Our IMPALA makes two passes over each rollout, RLlib's one over "
        "500 steps, its default. Ape-X makes an update of 128 transitions for 100 steps, 1.3 for every step, "
        "where its paper has 0.8; its shipped set has 64, which is more than one core can at this rate.",
        "",
        "To 450: the mean return of the last 100 training episodes, from the launch of the process, imports, "
        "compilation and start of the workers included. Our shipped sets as they are; RLlib's own examples "
        "for CartPole, whose target is 450 too, with as many workers as ours. One number for each seed.",
        "",
        f"Versions: {'; '.join(versions)}. The commands are in scaling.csv.",
        "",
    ]


def write(rows: list[Row], folder: Path) -> str:
    """Writes scaling.md and, where there are curves, scaling.png; the text of the former."""
    cores = len(os.sched_getaffinity(0))
    lines = ["# Scaling with workers", "", f"{cores} cores, no GPU. Written by "]
    lines[-1] += "`python benchmarks/scaling.py`; see ../README.md."
    curves = groups(rows, "rate")
    tables = [line for alike, mine in sorted(curves.items()) for line in rate_lines(mine, alike)]
    lines += ["", "## Steps per second", "", *tables, *learn_lines(rows), *notes(rows)]
    text = "\n".join(lines)
    shared.write(folder / "scaling.md", text)
    found = rates(max(curves.values(), key=len, default=[]))
    if any(library == "ours" for library, _ in found):
        _draw(found, folder / "scaling.png")
    return text


def _draw(found: Rates, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6.4, 4.2), layout="constrained")
    alone = found.get(("environment", "environment"), {}).get(1)
    most = max(count for who, counts in found.items() if who in NAMES for count in counts)
    if alone:
        ends = [1, most]
        each = median(alone)
        axes.plot(ends, [each * n for n in ends], "k--", lw=1, label="environments alone, times N")
    for who, name in NAMES.items():
        counts = found.get(who)
        if counts:
            at = sorted(counts)
            style = "o-" if who[0] == "ours" else "s:"
            axes.plot(at, [median(counts[n]) for n in at], style, label=name)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    ticks = [2**i for i in range(most.bit_length())]
    axes.set_xticks(ticks, [str(each) for each in ticks])
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.set_xlabel("workers")
    axes.set_ylabel("environment steps per second")
    axes.set_title("An environment that sleeps 5 ms a step, one for each worker")
    axes.grid(True, alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
