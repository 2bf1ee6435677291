"""Rows as a table, CSV, JSON lines, Parquet or an Arrow stream, written as they come."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

    from kavka.sql.session import Rows

FORMATS: Final = ("table", "csv", "json", "parquet", "arrow")
BINARY_FORMATS: Final = ("parquet", "arrow")
_PAGE_ROWS: Final = 1000
_PAGE_S: Final = 0.3
"""The widths of a table's columns are those of its first rows: so many, or those of so many seconds."""
_MAX_CELL: Final = 120
"""Characters of a cell on a terminal."""
_ROW_GROUP_ROWS: Final = 122_880
_ROW_GROUP_BYTES: Final = 64 << 20
_NUMBERS: Final = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER",
                   "UBIGINT", "UHUGEINT", "FLOAT", "DOUBLE", "DECIMAL")  # fmt: skip


class Output(Protocol):
    """Takes the rows of one statement, in one piece or in several."""

    row_count: int

    def write(self, rows: Rows) -> None:
        """Write rows, all with the same columns. Raise OSError, and what reading the rows raises."""
        ...

    def close(self) -> None:
        """Write what stands at the end."""
        ...


def output_to(sink: BinaryIO, kind: str, *, is_terminal: bool = False) -> Output:
    """Return what writes one of `FORMATS`."""
    match kind:
        case "table":
            return TableOutput(sink, is_terminal=is_terminal)
        case "csv":
            return CsvOutput(sink)
        case "json":
            return JsonOutput(sink)
        case "parquet":
            return ParquetOutput(sink)
        case _:
            return ArrowOutput(sink)


class JsonOutput:
    """A JSON object on a line for each row."""

    def __init__(self, sink: BinaryIO) -> None:
        """Write nothing yet."""
        self._sink = sink
        self.row_count = 0

    def write(self, rows: Rows) -> None:
        """Write rows."""
        for batch in rows.json_lines():
            lines = batch.column(0).to_pylist()
            self._sink.write(("\n".join(lines) + "\n").encode())
            self._sink.flush()
            self.row_count += len(lines)

    def close(self) -> None:
        """Write nothing: without rows there are no lines."""


class CsvOutput:
    """Names of the columns, then rows; null is empty, and an empty text is in quotes."""

    def __init__(self, sink: BinaryIO) -> None:
        """Write nothing yet."""
        self._sink = sink
        self._is_begun = False
        self.row_count = 0

    def write(self, rows: Rows) -> None:
        """Write rows, after their names at the first call."""
        import pyarrow as pa
        from pyarrow import csv

        if not self._is_begun:
            self._is_begun = True
            self._sink.write((",".join(map(_csv_name, rows.names)) + "\n").encode())
            self._sink.flush()
        options = csv.WriteOptions(include_header=False)
        for batch in rows.texts():
            buffer = pa.BufferOutputStream()
            csv.write_csv(batch, buffer, options)
            self._sink.write(buffer.getvalue())
            self._sink.flush()
            self.row_count += batch.num_rows

    def close(self) -> None:
        """Do nothing."""


def _csv_name(name: str) -> str:
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


class ArrowOutput:
    """An Arrow IPC stream."""

    def __init__(self, sink: BinaryIO) -> None:
        """Write nothing yet."""
        self._sink = sink
        self._writer: Any = None
        self.row_count = 0

    def write(self, rows: Rows) -> None:
        """Write rows, after the schema at the first call."""
        import pyarrow as pa

        schema, batches = rows.arrow()
        if self._writer is None:
            self._writer = pa.ipc.new_stream(self._sink, schema)
        for batch in batches:
            self._writer.write_batch(batch)
            self._sink.flush()
            self.row_count += batch.num_rows

    def close(self) -> None:
        """Write the end of the stream."""
        if self._writer is not None:
            self._writer.close()


class ParquetOutput:
    """A Parquet file, compressed with zstd; rows are collected into row groups."""

    def __init__(self, sink: BinaryIO) -> None:
        """Write nothing yet."""
        self._sink = sink
        self._writer: Any = None
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0
        self._waiting_bytes = 0
        self.row_count = 0

    def write(self, rows: Rows) -> None:
        """Collect rows, and write the row groups that are full."""
        from pyarrow import parquet

        schema, batches = rows.arrow()
        if self._writer is None:
            self._writer = parquet.ParquetWriter(self._sink, schema, compression="zstd")
        for batch in batches:
            self._waiting.append(batch)
            self._waiting_rows += batch.num_rows
            self._waiting_bytes += batch.nbytes
            self.row_count += batch.num_rows
            if self._waiting_rows >= _ROW_GROUP_ROWS or self._waiting_bytes >= _ROW_GROUP_BYTES:
                self._write_group()

    def _write_group(self) -> None:
        import pyarrow as pa

        self._writer.write_table(pa.Table.from_batches(self._waiting))
        self._waiting = []
        self._waiting_rows = self._waiting_bytes = 0

    def close(self) -> None:
        """Write the last row group and the footer."""
        if self._writer is None:
            return
        if self._waiting:
            self._write_group()
        self._writer.close()


class TableOutput:
    """Aligned columns with a line of names; on a terminal long cells are cut."""

    def __init__(self, sink: BinaryIO, *, is_terminal: bool) -> None:
        """Write nothing yet."""
        self._sink = sink
        self._max_cell = _MAX_CELL if is_terminal else None
        self._widths: list[int] | None = None
        self._is_number: list[bool] = []
        self._names: list[str] = []
        self._page: list[list[str]] = []
        """Rows that are not written yet."""
        self._since = 0.0
        self.row_count = 0

    def write(self, rows: Rows) -> None:
        """Write rows, after their names at the first call."""
        self._is_number = [kind.startswith(_NUMBERS) and "[" not in kind for kind in rows.types]
        self._names = [printable(name) for name in rows.names]
        self._since = time.monotonic()
        rows.while_waiting = self._write_if_due
        for batch in rows.texts():
            self._page += self._cells(batch)
            self._write_if_due()
        self._write_page()

    def _write_if_due(self) -> None:
        """Write rows that came, unless the table has not begun and more may come soon."""
        is_due = time.monotonic() - self._since >= _PAGE_S
        if self._page and (self._widths is not None or is_due or len(self._page) >= _PAGE_ROWS):
            self._write_page()

    def _write_page(self) -> None:
        page, self._page = self._page, []
        if self._widths is None:
            self._begin(page)
        if page:
            self._write_lines(self._line(row) for row in page)
        self.row_count += len(page)

    def _cells(self, batch: pa.RecordBatch) -> list[list[str]]:
        columns = [[self._cell(value) for value in column.to_pylist()] for column in batch.columns]
        return [list(row) for row in zip(*columns, strict=True)]

    def _cell(self, value: str | None) -> str:
        if value is None:
            return "NULL"
        shown = value if value.isprintable() else printable(value)
        if self._max_cell is not None and len(shown) > self._max_cell:
            return f"{shown[: self._max_cell - 1]}…"
        return shown

    def _begin(self, page: list[list[str]]) -> None:
        self._widths = [
            max([_width(name), *(_width(row[index]) for row in page)])
            for index, name in enumerate(self._names)
        ]
        rule = "-+-".join("-" * width for width in self._widths)
        self._write_lines(iter([self._line(self._names), rule]))

    def _line(self, cells: list[str]) -> str:
        assert self._widths is not None, "the table has begun"
        padded = [
            " " * (width - _width(cell)) + cell
            if is_number
            else cell + " " * (width - _width(cell))
            for cell, width, is_number in zip(cells, self._widths, self._is_number, strict=True)
        ]
        return " | ".join(padded).rstrip()

    def _write_lines(self, lines: Iterator[str]) -> None:
        self._sink.write(("\n".join(lines) + "\n").encode())
        self._sink.flush()

    def close(self) -> None:
        """Write the number of rows."""
        if self._widths is not None:
            self._write_lines(
                iter([f"({self.row_count:,} row{'' if self.row_count == 1 else 's'})"])
            )


def _width(text: str) -> int:
    """Return the columns that a text takes on a terminal."""
    if text.isascii():
        return len(text)
    from wcwidth import wcswidth

    width: int = wcswidth(text)
    return len(text) if width < 0 else width


def printable(text: str) -> str:
    """Return a text whose control characters are escaped: records must not steer a terminal."""
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode() for one in text
    )


def printable_lines(text: str) -> str:
    """Return `printable` of each line; tabs, which align columns, stay."""
    return "\n".join("\t".join(map(printable, line.split("\t"))) for line in text.split("\n"))
