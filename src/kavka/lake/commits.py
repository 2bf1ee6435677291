"""Commits of a table: a batch of a sink exactly once, rows in place of others, files in place of smaller ones.

One commit is one snapshot. Iceberg's catalogues compare and swap: a commit names the snapshot that it was made for, and
is refused when another was committed meanwhile. Then the table is read again and everything is decided again:

    read the table ─► is the batch there? ─► make the snapshot ─► swap ─► done
          ▲                                                       │
          └──────────── refused, or no response ────────────────────┘

So of two drivers that commit the same batch one writes it and the other finds it. A commit without a response is safe
to try again for the same reason, whether it arrives late or never.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    ValidationException,
)

from kavka.ids import TopicPartition
from kavka.lake.catalogs import Identifier
from kavka.lake.errors import LakeError, lake_errors
from kavka.lake.offset_ranges import OffsetRange, Ranges, check_inside, ends_of, ranges_to_json
from kavka.lake.replaced_rows import kept_rows
from kavka.lake.sink_state import (
    BatchId,
    SinkState,
    Verdict,
    encode,
    judge,
    property_of,
    state_of,
)
from kavka.lake.table_writer import WrittenFile, remove_files
from kavka.lake.tables import attempts, display, load_table, without_own_retries

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

log = logging.getLogger(__name__)

Replaced = Mapping[TopicPartition, tuple[int, int]]
"""Offsets from the first up to and without the second, whose rows give way."""


@dataclass(frozen=True, slots=True)
class BatchCommit:
    """A batch for one table, when all its tasks have written."""

    batch: BatchId
    files: tuple[WrittenFile, ...]
    ranges: Ranges
    sink: str | None = None
    """None for a write that is never recognised."""
    is_stream: bool = False
    accepts_other_writes: bool = True
    was_skipped: bool = False
    """True if a task has found the batch in the table and written nothing."""


class TableCommitter:
    """Commits batches to one table."""

    def __init__(self, catalog: Catalog, identifier: Identifier) -> None:
        """Open nothing yet."""
        self._catalog = catalog
        self._identifier = identifier

    def commit(self, batch_commit: BatchCommit) -> Verdict:
        """Commit a batch, or find that it is there; nothing is committed for one without rows. Raise LakeError."""
        with lake_errors():
            return self._committed(batch_commit)

    def _committed(self, batch_commit: BatchCommit) -> Verdict:
        is_first = True
        for _ in attempts(f"{batch_commit.batch} was not committed to {display(self._identifier)}"):
            table = self._loaded()
            state, verdict = self._verdict(table, batch_commit)
            if verdict is Verdict.ALREADY_THERE:
                if is_first:  # no commit of these files was tried
                    remove_files(table.io, [one.path for one in batch_commit.files])
                return verdict
            if batch_commit.was_skipped:
                raise LakeError(
                    f"{batch_commit.batch} was in the table {display(self._identifier)} when its tasks began, and is "
                    "not any more: the table was rolled back. Start the query again."
                )
            if self._is_empty(batch_commit):
                return verdict
            _check_specs(table, batch_commit.files)
            is_first = False
            if self._tried(table, batch_commit, state):
                return verdict
        raise AssertionError("attempts() raises at their end")

    # Steps: a crash between any two of them must leave what the next run of the batch finds

    def _is_empty(self, batch_commit: BatchCommit) -> bool:
        return not batch_commit.files

    def _loaded(self) -> Table:
        return load_table(self._catalog, self._identifier)

    def _verdict(self, table: Table, batch_commit: BatchCommit) -> tuple[SinkState | None, Verdict]:
        if batch_commit.sink is None:
            return None, Verdict.WRITE
        state = state_of(table.properties, batch_commit.sink)
        verdict = judge(
            state, batch_commit.batch, batch_commit.accepts_other_writes, batch_commit.is_stream
        )
        return state, verdict

    def _tried(self, table: Table, batch_commit: BatchCommit, state: SinkState | None) -> bool:
        """Return whether the commit was accepted; where that is not known, the table is asked again."""
        try:
            self._swap(table, batch_commit, state)
        except (CommitFailedException, ValidationException) as error:
            log.info("commit met another table=%s reason=%s", display(self._identifier), error)
            return False
        except CommitStateUnknownException as error:
            if batch_commit.sink is None:
                raise LakeError(
                    f"It is not known whether {batch_commit.batch} was committed to {display(self._identifier)} "
                    f"({error}); with sinkId and writeId a repeat would find out."
                ) from error
            log.warning("commit without an answer table=%s", display(self._identifier))
            return False
        return True

    def _swap(self, table: Table, batch_commit: BatchCommit, state: SinkState | None) -> None:
        """Make the snapshot and the state of the sink, and commit both at once: the moment of the batch."""
        summary = summary_of(batch_commit)
        added = [file.data_file() for file in batch_commit.files]
        with without_own_retries(table).transaction() as transaction:
            update = transaction.update_snapshot(snapshot_properties=summary)
            merges = table.properties.get("commit.manifest-merge.enabled") == "true"
            with update.merge_append() if merges else update.fast_append() as snapshot:
                for file in added:
                    snapshot.append_data_file(file)
            if batch_commit.sink is not None:
                after = _after(state, batch_commit)
                transaction.set_properties({property_of(batch_commit.sink): encode(after)})


class RangeReplacer(TableCommitter):
    """Commits rows in place of those that have the same range of offsets. To do it again does no harm."""

    def __init__(self, catalog: Catalog, identifier: Identifier, replaced: Replaced) -> None:
        """Open nothing yet."""
        super().__init__(catalog, identifier)
        self._replaced = replaced

    def _swap(self, table: Table, batch_commit: BatchCommit, state: SinkState | None) -> None:
        kept = kept_rows(table, self._replaced)
        added = [*batch_commit.files, *kept.files]
        if not added and not kept.gone:
            return
        summary = summary_of(batch_commit) | {
            "kavka.replaced-offsets": _replaced_json(self._replaced)
        }
        try:
            with without_own_retries(table).transaction() as transaction:
                update = transaction.update_snapshot(snapshot_properties=summary)
                with update.overwrite() as snapshot:
                    for old in kept.gone:
                        snapshot.delete_data_file(old)
                    for new in added:
                        snapshot.append_data_file(new.data_file())
        except (CommitFailedException, ValidationException):
            remove_files(table.io, [one.path for one in kept.files])
            raise

    def commit(self, batch_commit: BatchCommit) -> Verdict:
        """Commit rows of the range. Raise LakeError for rows outside of it."""
        check_inside(batch_commit.ranges, self._replaced)
        return super().commit(batch_commit)

    def _is_empty(self, batch_commit: BatchCommit) -> bool:
        return False  # rows that are there give way even to none


def summary_of(batch_commit: BatchCommit) -> dict[str, str]:
    """Return what a batch's snapshot says of it."""
    summary = {
        "kavka.write-id": batch_commit.batch.write,
        "kavka.batch-id": str(batch_commit.batch.number),
    }
    if batch_commit.sink is not None:
        summary["kavka.sink-id"] = batch_commit.sink
    if batch_commit.ranges:
        summary["kavka.offsets"] = ranges_to_json(batch_commit.ranges)
    return summary


def _after(state: SinkState | None, batch_commit: BatchCommit) -> SinkState:
    ends = ends_of(batch_commit.ranges)
    return (
        SinkState(batch_commit.batch, ends)
        if state is None
        else state.after(batch_commit.batch, ends)
    )


def _replaced_json(replaced: Replaced) -> str:
    ranges = {at: OffsetRange(start, end, end - start) for at, (start, end) in replaced.items()}
    return ranges_to_json(ranges)


def _check_specs(table: Table, files: Sequence[WrittenFile]) -> None:
    """Raise LakeError when the partitioning has changed since the files were written."""
    own = table.spec().spec_id
    if any(one.spec_id != own for one in files):
        raise LakeError(
            f"The partitioning of {display(table.name())} was changed while the batch was written; start the query "
            "again."
        )
