"""Lake tables without Spark: rows like a topic's, loaded batch by batch."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kavka.ids import TopicPartition
from kavka.lake.catalogs import Identifier, open_catalog
from kavka.lake.commits import BatchCommit, RangeReplacer, TableCommitter
from kavka.lake.file_names import file_prefix
from kavka.lake.layout import parse_partitioning, parse_sorting
from kavka.lake.offset_ranges import ranges_of
from kavka.lake.sink_state import BatchId, Verdict, state_of
from kavka.lake.table_writer import TableWriter, WriteTarget, WrittenFile
from kavka.lake.tables import TableOptions, prepare_table

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

NAME: Identifier = ("lake", "clicks")
FIRST = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
QUERY = "query-1"


def rows(
    offsets: Sequence[int], topic: str = "clicks", minutes: int = 1, **more: Any
) -> pa.RecordBatch:
    """Return rows of one topic partition; the event of an offset is `minutes` after that of the one before."""
    count = len(offsets)
    times = [FIRST + datetime.timedelta(minutes=minutes * offset) for offset in offsets]
    columns = {
        "value": pa.array([b"value-%d" % offset for offset in offsets], pa.binary()),
        "topic": pa.array([topic] * count, pa.string()),
        "partition": pa.array([0] * count, pa.int32()),
        "offset": pa.array(offsets, pa.int64()),
        "event_time": pa.array(times, pa.timestamp("us", "UTC")),
    }
    return pa.record_batch(columns | more)


@dataclass
class Lake:
    """A warehouse with one table."""

    directory: Path
    options: TableOptions = field(
        default_factory=lambda: TableOptions(parse_partitioning("hour(event_time)"))
    )
    sink: str | None = "load"
    properties: Mapping[str, str] = field(default_factory=dict)
    """Of the catalogue; the embedded one without."""

    def __post_init__(self) -> None:
        given = self.properties or {"warehouse": str(self.directory)}
        self.catalog: Catalog = open_catalog(given)

    def with_options(self, partition_by: str = "", sort_by: str = "", **more: Any) -> Lake:
        """Return the lake with another layout."""
        options = TableOptions(
            parse_partitioning(partition_by) if partition_by else (),
            parse_sorting(sort_by) if sort_by else (),
            **more,
        )
        return replace(self, options=options)

    @property
    def table(self) -> Table:
        return self.catalog.load_table(NAME)

    def write(self, batch: BatchId, *pieces: pa.RecordBatch, task: int = 0) -> list[WrittenFile]:
        """Write rows as a task does, and commit nothing."""
        table = prepare_table(self.catalog, NAME, pieces[0].schema, self.options)
        writer = TableWriter(WriteTarget.of(table), file_prefix(self.sink, batch, task))
        for piece in pieces:
            writer.write(piece)
        return writer.close()

    def commit(
        self, number: int, *pieces: pa.RecordBatch, write: str = QUERY, **more: Any
    ) -> Verdict:
        """Load rows as the batch `number`, as often as this is called: the sink decides."""
        batch = BatchId(write, number)
        files = self.write(batch, *pieces)
        return self.commit_files(batch, files, pieces, **more)

    def commit_files(
        self,
        batch: BatchId,
        files: Sequence[WrittenFile],
        pieces: Sequence[pa.RecordBatch],
        committer: TableCommitter | None = None,
        **more: Any,
    ) -> Verdict:
        """Commit files that are written."""
        chosen = committer or TableCommitter(self.catalog, NAME)
        ranges = ranges_of(pa.Table.from_batches(pieces))
        wanted = BatchCommit(
            batch, tuple(files), ranges, self.sink, **{"is_stream": True, "accepts_other_writes": False, **more}
        )  # fmt: skip
        return chosen.commit(wanted)

    def replace(
        self, ranges: Mapping[TopicPartition, tuple[int, int]], *pieces: pa.RecordBatch
    ) -> None:
        """Load rows in place of those of ranges."""
        batch = BatchId("reload", 0)
        files = self.write(batch, *pieces) if pieces else []
        given = pa.Table.from_batches(pieces) if pieces else None
        wanted = BatchCommit(batch, tuple(files), {} if given is None else ranges_of(given))
        RangeReplacer(self.catalog, NAME, ranges).commit(wanted)

    def offsets(self) -> Counter[int]:
        """Return how often each offset is in the table."""
        return Counter(self.table.scan().to_arrow()["offset"].to_pylist())

    def files(self) -> set[str]:
        """Return the data files on the disk."""
        return {str(path) for path in self.directory.rglob("data/**/*.parquet")}

    def state_ends(self) -> Mapping[TopicPartition, int]:
        """Return how far the load is."""
        state = state_of(self.table.properties, self.sink or "")
        assert state is not None
        return state.ends
