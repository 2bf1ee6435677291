"""Rows in each form, read back by software of others."""

from __future__ import annotations

import csv
import io
import json
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kavka.sql.output import FORMATS, output_to, printable

if TYPE_CHECKING:
    from pathlib import Path

    from kavka.sql.session import Session
    from support.sql_place import Open

SELECT = (
    "select 1 as n, 'a,\"b\"\n' as t, null as nothing, {'x': [1, 2]} as s, '\\xFF'::blob as b, "
    "timestamptz '2026-01-02 03:04:05.5+00' as at, 1.50::decimal(5, 2) as d, '' as empty"
)


def written(session: Session, statement: str, kind: str, *, is_terminal: bool = False) -> bytes:
    sink = io.BytesIO()
    output = output_to(sink, kind, is_terminal=is_terminal)
    found = session.execute(statement)
    assert found is not None
    output.write(found)
    output.close()
    return sink.getvalue()


def test_csv_is_read_by_pythons_reader(open_session: Open) -> None:
    text = written(open_session(), SELECT, "csv").decode()
    (row,) = list(csv.DictReader(io.StringIO(text, newline="")))
    assert row == {
        "n": "1", "t": 'a,"b"\n', "nothing": "", "s": '{"x":[1,2]}', "b": "\\xFF",
        "at": "2026-01-02 03:04:05.5+00", "d": "1.50", "empty": "",
    }  # fmt: skip
    assert text.rstrip().endswith(',"1.50",""'), "an empty text is no null"


def test_json_has_an_object_on_each_line(open_session: Open) -> None:
    session = open_session()
    (line,) = written(session, SELECT, "json").splitlines()
    row = json.loads(line)
    assert (row["n"], row["t"], row["nothing"], row["s"]) == (1, 'a,"b"\n', None, {"x": [1, 2]})
    assert len(written(session, "select * from range(5000)", "json").splitlines()) == 5000
    assert written(session, "select 1 where false", "json") == b""
    assert written(session, "select 7 as r, 8 as RR", "json") == b'{"r":7,"RR":8}\n'


def test_parquet_is_read_by_duckdb_and_arrow(open_session: Open, tmp_path: Path) -> None:
    session = open_session()
    query = "select range as n, {'x': range::varchar} as s from range(300000)"
    file = tmp_path / "rows.parquet"
    file.write_bytes(written(session, query, "parquet"))
    assert duckdb.sql(f"select count(*), max(s.x) from '{file}'").fetchall() == [(300_000, "99999")]
    assert pq.ParquetFile(file).num_row_groups == 3
    nothing = pq.read_table(io.BytesIO(written(session, "select 1 as n where false", "parquet")))
    assert (nothing.num_rows, nothing.column_names) == (0, ["n"])


def test_arrow_is_a_stream(open_session: Open) -> None:
    data = written(open_session(), SELECT, "arrow")
    table = pa.ipc.open_stream(data).read_all()
    assert table.column("s").to_pylist() == [{"x": [1, 2]}]
    assert table.column("b").to_pylist() == [b"\xff"]


def test_a_table_is_aligned_and_says_how_many_rows_it_has(open_session: Open) -> None:
    session = open_session()
    text = written(
        session, "select * from (values (1, 'a'), (100, null), (7, '日本')) v(n, name)", "table"
    )
    assert text.decode().splitlines() == [
        "  n | name",
        "----+-----",
        "  1 | a",
        "100 | NULL",
        "  7 | 日本",
        "(3 rows)",
    ]
    assert written(session, "select 1 as n where false", "table").decode() == "n\n-\n(0 rows)\n"
    assert written(session, "select 1 as n", "table").decode().endswith("(1 row)\n")


def test_records_cannot_steer_a_terminal(open_session: Open) -> None:
    text = written(
        open_session(), "select 'a' || chr(27) || '[31m' || chr(10) as t", "table"
    ).decode()
    assert "\x1b" not in text
    assert "a\\x1b[31m\\n" in text
    assert printable("\u202eabc") == "\\u202eabc"


def test_long_cells_are_cut_on_a_terminal_only(open_session: Open) -> None:
    session = open_session()
    query = "select repeat('x', 500) as t"
    assert b"x" * 500 in written(session, query, "table")
    cut = written(session, query, "table", is_terminal=True).decode()
    assert "x" * 119 + "…" in cut


@pytest.mark.parametrize("kind", FORMATS)
def test_a_full_disk_is_an_oserror_and_ends_the_statement(open_session: Open, kind: str) -> None:
    session = open_session()
    with open("/dev/full", "wb", buffering=0) as full:
        output: Any = output_to(full, kind)
        found = session.execute("select * from range(1000000)")
        assert found is not None

        def write() -> None:
            output.write(found)
            output.close()

        with pytest.raises(OSError, match="No space left on device"):
            write()
    assert written(session, "select 1 as n", "json") == b'{"n":1}\n'


@pytest.mark.slow
@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", ["table", "json", "csv", "arrow"])
def test_rows_are_written_before_all_are_read(open_session: Open, kind: str) -> None:
    class Sink(io.BytesIO):
        def __init__(self) -> None:
            super().__init__()
            self.has_row = threading.Event()

        def flush(self) -> None:
            if b"first" in self.getvalue():
                self.has_row.set()

    sink = Sink()
    schema = pa.schema([("t", pa.string())])

    seen_before_the_end = []

    def batches() -> Iterator[pa.RecordBatch]:
        for text in ("first", *["later"] * 200):
            yield pa.RecordBatch.from_pylist([{"t": text}] * 5000, schema=schema)
        seen_before_the_end.append(sink.has_row.is_set())

    output = output_to(sink, kind)
    output.write(open_session().rows_of(pa.RecordBatchReader.from_batches(schema, batches())))
    output.close()
    assert seen_before_the_end == [True]
    assert output.row_count == 201 * 5000
