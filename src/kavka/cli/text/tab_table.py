"""Tables of `kavka transactions`, as Kafka's newer tools print them: padded cells, each followed by a tab."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def tab_table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a heading and the rows; every column is as wide as its longest cell."""
    lines = [tuple(headers), *(tuple(map(str, row)) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "".join(
        "".join(f"{cell:<{width}}\t" for cell, width in zip(line, widths, strict=True)) + "\n"
        for line in lines
    )
