"""Tables of `kavka consumer-groups`, column for column as Kafka's tool prints them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Column(NamedTuple):
    """A heading and the least width; 0 leaves the cells as long as they are (a last column)."""

    title: str
    width: int
    grows: bool = True
    """True if a longer cell makes the whole column wider."""


def table(columns: Sequence[Column], rows: Iterable[Sequence[object]]) -> str:
    """Return a heading and the rows, each cell padded and parted by a space from the next."""
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [
        max([column.width, *(len(row[i]) for row in cells)] if column.grows else [column.width])
        for i, column in enumerate(columns)
    ]
    lines = [[column.title for column in columns], *cells]
    return "".join(
        " ".join(
            cell if column.width == 0 else cell.ljust(width)
            for cell, width, column in zip(line, widths, columns, strict=True)
        )
        + "\n"
        for line in lines
    )


def show(text: str) -> None:
    """Print a table at once, so that it keeps its place among the notes on standard error."""
    sys.stdout.write(text)
    sys.stdout.flush()


def print_error(text: str) -> None:
    """Print a failure as Kafka's tool does: on standard output, after an empty line."""
    show(f"\nError: {text}\n")


def print_note(text: str) -> None:
    """Print a fact on standard error, after an empty line."""
    sys.stdout.flush()
    print(f"\n{text}", file=sys.stderr, flush=True)
