"""Compaction: many small files of a partition become few of the target size, with the same rows.

Safe beside a running load: files are replaced by a commit that is refused when another came first; then it is looked
whether the files are still there, and the commit is made for the newer table. The load does the same with its own. Each
group of files is a commit of its own, so that little work is lost.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyiceberg.exceptions import CommitFailedException, ValidationException
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.update.snapshot import _OverwriteFiles

from kavka.lake.catalogs import Identifier
from kavka.lake.errors import LakeError, lake_errors
from kavka.lake.file_reader import read_file
from kavka.lake.table_writer import TableWriter, WriteTarget, WrittenFile, remove_files
from kavka.lake.tables import attempts, display, load_table, without_own_retries

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import FileScanTask, Table, Transaction

log = logging.getLogger(__name__)

MIN_FILES = 5
"""Number of small files that are worth a rewrite, as in Iceberg's own."""
_SMALL = 0.75
"""A file below this part of the target is small."""
_PREFIX = "compacted"


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A file of a table, as far as the choice needs it."""

    path: str
    size: int
    partition: tuple[Any, ...]
    """The id of the partitioning and the partition's values."""
    has_deletes: bool = False


@dataclass(frozen=True, slots=True)
class Compacted:
    """The result of a compaction."""

    files_before: int = 0
    files_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    given_up: int = 0
    """Groups whose files another writer has replaced meanwhile."""

    def plus(self, other: Compacted) -> Compacted:
        """Add both."""
        return Compacted(
            self.files_before + other.files_before,
            self.files_after + other.files_after,
            self.bytes_before + other.bytes_before,
            self.bytes_after + other.bytes_after,
            self.given_up + other.given_up,
        )


def choose(
    files: Iterable[LiveFile], target_bytes: int, min_files: int = MIN_FILES
) -> list[list[LiveFile]]:
    """Return groups of small files, each of one partition and at most the target, that are worth a rewrite. Pure.

    Files with rows that were deleted by other engines are left to those.
    """
    partitions: dict[tuple[Any, ...], list[LiveFile]] = {}
    for file in files:
        if file.size < _SMALL * target_bytes and not file.has_deletes:
            partitions.setdefault(file.partition, []).append(file)
    groups = []
    for small in partitions.values():
        for group in _packed(small, target_bytes):
            full = sum(file.size for file in group) >= _SMALL * target_bytes
            if len(group) >= min_files or (full and len(group) > 1):
                groups.append(group)
    return groups


def _packed(files: Sequence[LiveFile], target_bytes: int) -> Iterable[list[LiveFile]]:
    group: list[LiveFile] = []
    size = 0
    for file in files:
        if group and size + file.size > target_bytes:
            yield group
            group, size = [], 0
        group.append(file)
        size += file.size
    if group:
        yield group


def compact(
    catalog: Catalog, identifier: Identifier, min_files: int = MIN_FILES, dry_run: bool = False
) -> Compacted:
    """Compact a table. With `dry_run` only count what would be rewritten. Raise LakeError, OSError."""
    with lake_errors():
        table = load_table(catalog, identifier)
        target = WriteTarget.of(table).target_bytes
        groups = choose(map(_live, table.scan().plan_files()), target, min_files)
        done = Compacted()
        for group in groups:
            paths = {file.path for file in group}
            size = sum(file.size for file in group)
            if dry_run:
                done = done.plus(Compacted(len(paths), 0, size, 0))
                continue
            done = done.plus(_rewritten(catalog, identifier, paths))
        return done


def _live(task: FileScanTask) -> LiveFile:
    file = task.file
    key = (file.spec_id, *(file.partition[number] for number in range(len(file.partition))))
    return LiveFile(file.file_path, file.file_size_in_bytes, key, bool(task.delete_files))


def _rewritten(catalog: Catalog, identifier: Identifier, paths: set[str]) -> Compacted:
    """Write the rows of files again, and commit that."""
    table = load_table(catalog, identifier)
    tasks = _tasks(table, paths)
    if tasks is None:
        return Compacted(given_up=1)
    size = sum(task.file.file_size_in_bytes for task in tasks)
    # All rows of a group are sorted at once: they are at most as many as a file of the target has.
    writer = TableWriter(WriteTarget.of(table), _PREFIX, sort_bytes=1 << 62)
    try:
        for task in tasks:
            for rows in read_file(table, task):
                writer.write(rows)
        files = writer.close()
        _check_count(identifier, tasks, files)
        is_done = _swapped(catalog, identifier, paths, files)
    except BaseException:
        writer.discard()
        raise
    if not is_done:
        remove_files(table.io, [one.path for one in files])
        return Compacted(given_up=1)
    return Compacted(len(paths), len(files), size, sum(one.size for one in files))


def _tasks(table: Table, paths: set[str]) -> list[FileScanTask] | None:
    """Return the files as the table has them now; None when it has not all of them, or rows of them are deleted."""
    tasks = [task for task in table.scan().plan_files() if task.file.file_path in paths]
    if len(tasks) < len(paths) or any(task.delete_files for task in tasks):
        return None
    return tasks


def _check_count(
    identifier: Identifier, tasks: Iterable[FileScanTask], files: Iterable[WrittenFile]
) -> None:
    before = sum(task.file.record_count for task in tasks)
    after = sum(one.rows for one in files)
    if before != after:
        raise LakeError(
            f"Files of {display(identifier)} say that they have {before} rows, and {after} were read: nothing was "
            "changed."
        )


def _swapped(
    catalog: Catalog, identifier: Identifier, paths: set[str], files: Sequence[WrittenFile]
) -> bool:
    """Replace files in one commit; return whether they were all there to be replaced."""
    for _ in attempts(f"Files of {display(identifier)} were not compacted"):
        table = load_table(catalog, identifier)
        tasks = _tasks(table, paths)
        if tasks is None or any(file.spec_id != table.spec().spec_id for file in files):
            return False
        try:
            with (
                without_own_retries(table).transaction() as transaction,
                _Replacement(transaction, table) as snapshot,
            ):
                for task in tasks:
                    snapshot.delete_data_file(task.file)
                for file in files:
                    snapshot.append_data_file(file.data_file())
        except (CommitFailedException, ValidationException) as error:
            log.info("compaction met a commit table=%s reason=%s", display(identifier), error)
            continue
        return True
    raise AssertionError("attempts() raises at their end")


class _Replacement(_OverwriteFiles):  # type: ignore[misc]
    """A snapshot that changes files and no rows: readers of changes pass over the operation `replace`.

    pyiceberg 0.12 makes none itself; its counts are those of an overwrite.
    """

    def __init__(self, transaction: Transaction, table: Table) -> None:
        super().__init__(
            operation=Operation.OVERWRITE,
            transaction=transaction,
            io=table.io,
            snapshot_properties={"kavka.maintenance": "compaction"},
        )

    def _summary(self, *arguments: Any, **keywords: Any) -> Summary:
        counted = super()._summary(*arguments, **keywords)
        return Summary(Operation.REPLACE, **counted.additional_properties)
