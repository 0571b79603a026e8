"""One page of runs that stands alone: pictures within it, no script, nothing loaded from elsewhere."""

from __future__ import annotations

import base64
import contextlib
import json
import re
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rl.errors import UsageError
from rl.plot.figures import picture
from rl.plot.methods import Method, Methods, markdown, number
from rl.report.runs import RETURN, RunData, faults, films, flat, text_of, versions

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FILM_LIMIT = 8 * 2**20  # bytes of a film that is put into the page
LINES = 20  # of faults that are shown of a run

STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 75rem; margin: 2rem auto; padding: 0 1rem; }
h1, h2 { line-height: 1.2; } h2 { margin-top: 2.5rem; border-bottom: 1px solid #8884; }
figure { margin: 1rem 0; overflow-x: auto; } figure svg { max-width: 100%; height: auto; background: white; }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .8rem .2rem 0; text-align: left; vertical-align: top; }
tr { border-bottom: 1px solid #8883; }
.scroll { overflow-x: auto; } code, pre { font-size: 13px; } pre { overflow-x: auto; }
details { margin: .6rem 0; } summary { cursor: pointer; font-weight: 600; }
.fault { color: #b00020; } video { max-width: 100%; width: 24rem; display: block; margin: .5rem 0; }
@media (prefers-color-scheme: dark) { .fault { color: #ff8a80; } }
"""


def page(methods: Methods, figure: Figure, name: str = RETURN) -> str:
    """Returns the page of all methods and their runs, with their figure."""
    runs = sum(len(method.runs) for found in methods.values() for method in found)
    title = f"{runs} run{'s' * (runs != 1)} on {', '.join(methods)}"
    parts = ['<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">']
    parts.append('<meta name="viewport" content="width=device-width, initial-scale=1">')
    parts.append(f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>")
    parts.append(f"<h1>{escape(title)}</h1>")
    drawn = picture(figure, "svg").decode()
    parts.append(f"<figure>{drawn[drawn.index('<svg') :]}</figure>")
    parts += _tables(markdown(methods, name))
    for env, found in methods.items():
        parts.append(f"<h2>Runs on {escape(env)}</h2>")
        parts += [part for method in found for part in _method(method)]
    return "\n".join([*parts, "</body></html>", ""])


def _tables(text: str) -> Iterator[str]:
    """Yields headings, paragraphs and tables of Markdown as HTML."""
    for block in re.split(r"\n\s*\n", text.strip()):
        lines = block.splitlines()
        if block.startswith("#"):
            level = 1 + len(block) - len(block.lstrip("#"))
            yield f"<h{level}>{escape(block.lstrip('# '))}</h{level}>"
        elif block.startswith("|"):
            rows = [_cells(line) for line in lines]
            yield _table(rows[2:], rows[0])
        else:
            yield f"<p>{escape(block)}</p>"


def _cells(line: str) -> list[str]:
    """Returns the cells of a table's line, in which `\\|` is part of a cell."""
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def _table(rows: Sequence[Sequence[Any]], header: Sequence[str]) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    body = "".join(f"<tr>{''.join(f'<td>{escape(str(cell))}</td>' for cell in row)}</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _method(method: Method) -> Iterator[str]:
    first = method.runs[0]
    yield f"<h3>{escape(method.label)}</h3>"
    rows = [(key, *map(_text, pair)) for key, pair in first.difference.items()]
    yield _details(
        f"{len(rows)} hyperparameters differ from the default", _table(rows, ("", "default", "here"))
    )
    every = [(key, _text(value)) for key, value in flat(first.hparams)]
    yield _details("All hyperparameters", _table(every, ("", "value")))
    for run, values in zip(method.runs, method.values, strict=True):
        step, value = values[-1]
        title = f"{run.path}: seed {run.seed}, {number(value)} at {run.unit.removesuffix('s')} {step:,}"
        yield _details(title, "".join(_run(run)))


def _run(run: RunData) -> Iterator[str]:
    found = faults(run.path)
    try:
        command = text_of(run.path / "command.txt").strip()
    except UsageError as error:
        command, found = "", [str(error), *found]
    if command:
        yield f"<pre>{escape(command)}</pre>"
    for line in found[-LINES:]:
        yield f'<p class="fault">{escape(line)}</p>'
    if len(found) > LINES:
        yield f"<p>{len(found) - LINES} more faults are in train.log.</p>"
    if not found:
        yield "<p>No faults were logged.</p>"
    yield _table([(key, value or "-") for key, value in versions(run.path).items()], ("", "version"))
    yield from _films(run.path)


def _films(run_dir: Path) -> Iterator[str]:
    """Yields the newest film that can be read and is not too large, and the names of the others."""
    others = films(run_dir)
    for film in reversed(others):
        with contextlib.suppress(OSError):
            if film.stat().st_size > FILM_LIMIT:
                continue
            data = base64.b64encode(film.read_bytes()).decode()
            yield f'<figure><video controls preload="metadata" src="data:video/mp4;base64,{data}"></video>'
            yield f"<figcaption>{escape(film.name)}</figcaption></figure>"
            others.remove(film)
            break
    if others:
        names = ", ".join(film.name for film in others)
        yield f"<p>In {escape(str(run_dir / 'videos'))}: {escape(names)}</p>"


def _details(title: str, inner: str) -> str:
    return f"<details><summary>{escape(title)}</summary>{inner}</details>"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
