"""The facts of a table that a person asks for first: rows, files, snapshots, and how far each load is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kavka.lake.errors import lake_errors
from kavka.lake.sink_state import SinkState, sinks_of

if TYPE_CHECKING:
    from pyiceberg.table import Table


@dataclass(frozen=True, slots=True)
class TableFacts:
    """The facts of a table as its current snapshot has them."""

    location: str
    metadata_location: str
    partitioned_by: tuple[str, ...]
    """Such as `hour(event_time)`."""
    rows: int
    files: int
    size: int
    """Bytes of the files."""
    snapshots: int
    sinks: Mapping[str, SinkState]
    """The loads that have written into it, by the id of each."""

    @property
    def mean_size(self) -> float:
        """Return the bytes of a file in the mean, 0 without files."""
        return self.size / self.files if self.files else 0.0


def facts_of(table: Table) -> TableFacts:
    """Read the facts of a table. Raise LakeError, OSError."""
    with lake_errors():
        files = [task.file for task in table.scan().plan_files()]
    return TableFacts(
        table.location(),
        table.metadata_location,
        tuple(
            f"{one.transform}({table.schema().find_column_name(one.source_id)})"
            for one in table.spec().fields
        ),
        sum(file.record_count for file in files),
        len(files),
        sum(file.file_size_in_bytes for file in files),
        len(table.snapshots()),
        sinks_of(table.properties),
    )
