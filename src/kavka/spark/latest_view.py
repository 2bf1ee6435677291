"""The view `latest`: a compacted topic as a table, the last record of each key.

    offsets   0    1    2    3    4    5
    records   a=1  b=1  a=2  b=-  c=1  a=3
    batch up to 5:  a=2  c=1              a deleted key has no row
    stream 3 to 6:  b=-  c=1  a=3         the changes of a micro-batch; a deletion is a row whose value is null

All records of a key are in one partition, so a task that has a whole partition needs no shuffle.
"""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from kavka.spark.errors import ConnectorError
from kavka.spark.offsets import OffsetRange
from kavka.spark.options import SourceOptions
from kavka.spark.range_reader import read_range

log = logging.getLogger(__name__)

_REDUCE_ROWS: Final = 1 << 18
"""Rows that are collected before the first reduction."""
_OUTPUT_ROWS: Final = 1 << 16
_NEXT_OFFSET: Final = b"kavka.next_offset"


class LatestByKey:
    """The last record of each key of one partition. Memory: about twice the rows that it returns, and a fetch."""

    def __init__(self, *, keeps_deletes: bool, rows: pa.Table | None = None) -> None:
        """Start from the rows of an earlier state, which are older than all added ones."""
        self._keeps_deletes = keeps_deletes
        # Invariant: offsets ascend through the rows, then through what is pending.
        self._rows = rows
        self._pending: list[pa.RecordBatch] = []
        self._pending_rows = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Add the next records of the partition. Raise ConnectorError for one without a key."""
        _require_keys(batch)
        self._pending.append(batch)
        self._pending_rows += batch.num_rows
        kept = 0 if self._rows is None else self._rows.num_rows
        if self._pending_rows >= max(_REDUCE_ROWS, kept):
            self._reduce()

    def table(self) -> pa.Table | None:
        """Return the rows in the order of their offsets; None when there was no record."""
        if self._pending:
            self._reduce()
        return self._rows

    def _reduce(self) -> None:
        tables = [] if self._rows is None else [self._rows]
        rows = pa.concat_tables([*tables, pa.Table.from_batches(self._pending)])
        self._pending, self._pending_rows = [], 0
        newest = rows.group_by("key", use_threads=False).aggregate([("offset", "max")])
        rows = rows.filter(pc.is_in(rows["offset"], newest["offset_max"].combine_chunks()))
        self._rows = rows if self._keeps_deletes else rows.filter(pc.is_valid(rows["value"]))


def _require_keys(batch: pa.RecordBatch) -> None:
    keys = batch.column("key")
    if keys.null_count:
        row = batch.slice(pc.index(keys.is_null(), True).as_py(), 1).to_pylist()[0]
        raise ConnectorError(
            f"{row['topic']}-{row['partition']} has a record without a key at offset {row['offset']}: "
            "the view latest needs keys, as a compacted topic does."
        )


def read_changes(options: SourceOptions, offset_range: OffsetRange) -> Iterator[pa.RecordBatch]:
    """Yield the last record of each key in a micro-batch's range, deletions included."""
    latest = LatestByKey(keeps_deletes=True)
    for batch in read_range(options, offset_range):
        latest.add(batch)
    yield from _batches(latest.table())


def read_latest(
    options: SourceOptions, offset_range: OffsetRange, topic_id: str
) -> Iterator[pa.RecordBatch]:
    """Yield the table that a partition is at the end of a range, which begins at its first record.

    With `viewCache` the records before the end of the last such read are not read again. `topic_id` is empty where
    brokers have none; then nothing is kept, because a topic that was created again could not be recognised.
    """
    cache = None
    if options.view_cache is not None and topic_id:
        cache = ViewCache(Path(options.view_cache), options, offset_range, topic_id)
    rows, start = (None, offset_range.start) if cache is None else cache.load()
    latest = LatestByKey(keeps_deletes=False, rows=rows)
    if start < offset_range.end:
        for batch in read_range(options, offset_range._replace(start=start)):
            latest.add(batch)
    table = latest.table()
    if cache is not None and table is not None and start < offset_range.end:
        cache.store(table)
    yield from _batches(table)


def _batches(table: pa.Table | None) -> list[pa.RecordBatch]:
    return [] if table is None else table.to_batches(max_chunksize=_OUTPUT_ROWS)


class ViewCache:
    """The rows of one partition in a file of Arrow, with the offset up to which they are the table.

    A file that is missing, damaged or of another topic costs time only: the partition is read from its beginning.
    """

    def __init__(
        self, directory: Path, options: SourceOptions, offset_range: OffsetRange, topic_id: str
    ) -> None:
        """Store files in `directory`, which is created when needed."""
        isolation = options.client.get("isolation.level", "read_uncommitted")
        columns = "headers" if options.include_headers else "plain"
        # No name of a topic has an @.
        self._mine = f"{offset_range.topic}@{offset_range.partition}@"
        self._path = directory / f"{self._mine}{topic_id}@{isolation}@{columns}.arrow"
        self._topic_id = topic_id
        self._wanted = offset_range

    def load(self) -> tuple[pa.Table | None, int]:
        """Return the rows and the offset from which to read on; None and the beginning when there are none to use."""
        start, end = self._wanted.start, self._wanted.end
        try:
            with pa.memory_map(str(self._path)) as source:
                table = pa.ipc.open_file(source).read_all()
            next_offset = int((table.schema.metadata or {})[_NEXT_OFFSET])
        except FileNotFoundError:
            return None, start
        except (OSError, KeyError, ValueError, pa.ArrowException) as error:
            log.warning("view cache not used file=%s reason=%s", self._path, error)
            return None, start
        if not start <= next_offset <= end:
            return None, start
        # What retention has deleted is no longer in the table, as when it is read from the beginning.
        table = table.filter(pc.greater_equal(table["offset"], start))
        return table.replace_schema_metadata(None), next_offset

    def store(self, table: pa.Table) -> None:
        """Write the rows for the next read. A failure is logged only: the log has everything."""
        table = table.replace_schema_metadata({_NEXT_OFFSET: str(self._wanted.end)})
        directory = self._path.parent
        written = None
        try:
            directory.mkdir(parents=True, exist_ok=True)
            handle, written = tempfile.mkstemp(".part", self._mine, directory)
            with open(handle, "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
                writer.write_table(table)
            os.replace(written, self._path)
            self._remove_former_topics()
        except (OSError, pa.ArrowException) as error:
            log.warning("view cache not written file=%s reason=%s", self._path, error)
            if written is not None:
                with suppress(OSError):
                    os.unlink(written)

    def _remove_former_topics(self) -> None:
        """Remove what was kept of a topic of this name that was deleted."""
        for path in self._path.parent.iterdir():
            is_view = path.name.startswith(self._mine) and path.name.endswith(".arrow")
            if is_view and path.name.removeprefix(self._mine).partition("@")[0] != self._topic_id:
                path.unlink(missing_ok=True)
