"""Small tables, on a terminal and off it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO


def plain_table(rows: Sequence[Sequence[str]], stream: TextIO) -> None:
    """Prints rows as columns of text, two spaces between them."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
        print("  ".join(cells).rstrip(), file=stream)


def terminal_table(
    rows: Sequence[Sequence[str]], header: Sequence[str], title: str | None, stream: TextIO
) -> None:
    """Prints rows as a table as wide as the terminal, in which nothing is cut off.

    header: of the columns; empty: they have none.
    """
    from rich import box  # 0.1 s, which a list in a pipe need not wait for
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, show_header=bool(header)
    )
    console = Console(file=stream)
    for place, column in enumerate(header or [""] * len(rows[0])):
        longest = max((len(row[place]) for row in rows), default=0)
        # Names in one piece, where they leave room for the rest.
        whole = column == "name" and 2 * longest <= console.width
        table.add_column(column, no_wrap=whole, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    console.print(table)
