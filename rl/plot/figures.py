"""Figures by matplotlib, which the extra `plot` brings: learning curves and performance profiles."""

from __future__ import annotations

import importlib.util
import io
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rl.errors import UsageError
from rl.plot.methods import Method, Methods, scaled, units
from rl.report.runs import RETURN
from rl.report.statistics import Estimate, Scores, estimated, performance_profile

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, HEIGHT = 4.8, 3.8  # inches of a panel
LETTER = 0.085  # inches of a letter of the legend, its lines and margins included
THRESHOLDS = 101  # at which a profile is drawn
DPI = 120


def check_matplotlib() -> None:
    """Raises UsageError where matplotlib is not installed."""
    if importlib.util.find_spec("matplotlib") is None:
        raise UsageError("pictures need matplotlib, which is not installed: ./setup.sh --extra plot")


def draw_curve(axes: Axes, x: Any, found: Estimate, label: str | None = None, alpha: float = 0.2) -> None:
    """Draws a line, and around it the interval, so opaque as `alpha` says."""
    (line,) = axes.plot(x, found.value, label=label, linewidth=1.5)
    axes.fill_between(x, found.lower, found.upper, alpha=alpha, linewidth=0, color=line.get_color())


def figure_of(methods: Methods, name: str = RETURN) -> Figure:
    """Returns the panels of all environments, a row each: by steps, by wall time, and where several methods
    are compared the share of runs above each value; behind them that share over all environments."""
    from matplotlib.figure import Figure

    over_all = scaled(methods) if len(methods) > 1 else {}
    rows = len(methods) + (len(over_all) > 1)
    panels = {env: _panels(found) for env, found in methods.items()}
    columns = max(map(len, panels.values()))
    figure = Figure(figsize=(WIDTH * columns, HEIGHT * rows), layout="constrained")
    places = figure.subfigures(rows, 1, squeeze=False)[:, 0]
    for place, (env, found) in zip(places, methods.items(), strict=False):
        row = _row(place, env, columns)
        for axes, panel in zip(row, panels[env], strict=False):
            _DRAW[panel](axes, found, name)
        _finish(place, row[: len(panels[env])], row[len(panels[env]) :])
    if len(over_all) > 1:
        row = _row(places[-1], f"over {len(methods)} environments", columns)
        _profiles(row[0], over_all.items(), np.linspace(-0.02, 1.0, THRESHOLDS))
        row[0].set(xlabel="scaled score", ylabel="share of runs above it")
        _finish(places[-1], row[:1], row[1:])
    return figure


def _row(place: Any, title: str, columns: int) -> Any:
    """Returns the axes of a row, [columns]."""
    place.suptitle(_drawn(title), x=0.01, ha="left", fontweight="bold")
    return place.subplots(1, columns, squeeze=False)[0]


def _finish(place: Any, used: Sequence[Axes], unused: Sequence[Axes]) -> None:
    """Has a row say which line is whose, below its panels."""
    for axes in used:
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    for axes in unused:
        axes.set_axis_off()
    lines, labels = used[0].get_legend_handles_labels()
    room = WIDTH * (len(used) + len(unused)) / LETTER
    beside = 2 if 2 * max(map(len, labels), default=0) <= room else 1  # what does not fit would be cut off
    place.legend(lines, labels, loc="outside lower left", ncols=beside, fontsize="small", frameon=False)


def picture(figure: Figure, kind: str, salt: str = "rl") -> bytes:
    """Returns a figure as "png" or "svg", the same bytes for the same figure.

    salt: makes the names within an SVG different from those of others on the same page.
    """
    import matplotlib

    buffer = io.BytesIO()
    nothing: dict[str, Any] = {} if kind == "png" else dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": salt}):
        figure.savefig(buffer, format=kind, dpi=DPI, metadata=nothing)
    return buffer.getvalue()


def _panels(methods: Sequence[Method]) -> list[str]:
    timed = all(method.curve is None or method.curve.seconds is not None for method in methods)
    return ["steps", *["seconds"] * timed, *["profile"] * (len(methods) > 1)]


def _by_steps(axes: Axes, methods: Sequence[Method], name: str) -> None:
    for method in methods:
        curve = method.curve
        if curve is None:
            axes.plot([], [], label=_drawn(_entry(method)))
        else:
            draw_curve(axes, curve.steps, curve.estimate, _drawn(_entry(method)))
    steps = units(methods).replace("steps", "environment steps")
    axes.set(xlabel=steps, ylabel=_shown(name))
    axes.xaxis.set_major_formatter(_thousands)


def _entry(method: Method) -> str:
    """Returns a method's line of the legend, which says so where its curve is not that of all it has."""
    runs, ends = len(method.runs), [each[-1][0] for each in method.values]
    entry = f"{method.label}, {runs} run{'s' * (runs > 1)}"
    if method.curve is None:
        return f"{entry}: no curve, they have no step in common"
    last = method.curve.steps[-1]
    if last == max(ends):
        return entry
    why = "where the shortest ends" if last == min(ends) else "the last that all have"
    return f"{entry}, up to {method.runs[0].unit.removesuffix('s')} {last:,}, {why}"


def _by_seconds(axes: Axes, methods: Sequence[Method], name: str) -> None:
    for method in methods:
        curve = method.curve
        if curve is None or curve.seconds is None:
            axes.plot([], [])  # of its colour there is none here, as beside
        else:
            draw_curve(axes, curve.seconds, curve.estimate)
    axes.set(xlabel="wall time, s", ylabel=_shown(name))
    axes.set_xlim(left=0.0)


def _profile(axes: Axes, methods: Sequence[Method], name: str) -> None:
    every = np.concatenate([method.final for method in methods])
    low, high = every.min(), every.max()
    thresholds = np.linspace(low - 0.02 * (high - low), high, THRESHOLDS)  # all runs are above the first
    _profiles(axes, [(method.label, [method.final]) for method in methods], thresholds)
    axes.set(xlabel=f"last {_shown(name)} of a run", ylabel="share of runs above it")


def _profiles(axes: Axes, scores: Iterable[tuple[str, Scores]], thresholds: np.ndarray) -> None:
    for label, each in scores:
        found = estimated(lambda drawn: performance_profile(drawn, thresholds), each, resamples=2_000)
        draw_curve(axes, thresholds, found, _drawn(label), alpha=0.12)  # they overlap
    axes.set_ylim(-0.02, 1.02)


def _shown(name: str) -> str:
    return "evaluation return" if name == RETURN else _drawn(name)


def _drawn(text: str) -> str:
    """Returns a text of which matplotlib draws just that: `$` would begin a formula, and a legend leaves out
    what begins with `_`."""
    return (" " * text.startswith("_") + text).replace("$", r"\$")


def _thousands(value: float, _: Any) -> str:
    """Returns a number of steps in few characters: 100k, 2.5M."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


_DRAW = {"steps": _by_steps, "seconds": _by_seconds, "profile": _profile}
