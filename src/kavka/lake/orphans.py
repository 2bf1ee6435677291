"""Orphans: files below a table that no snapshot needs, left by attempts that failed.

Safe beside a running load: first the files are listed, then the table is read. What the table needs then stays. What it
does not need goes only if it can never be needed: because its name says that it is of a batch about which was decided
(`file_names`), or because it is so old that no attempt is still running.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyarrow.fs import FileSelector, FileSystem, FileType
from pyiceberg.io.pyarrow import PyArrowFileIO

from kavka.lake.catalogs import Identifier
from kavka.lake.errors import LakeError, lake_errors
from kavka.lake.file_names import is_settled
from kavka.lake.reachable import files_of, metadata_files_of, normal
from kavka.lake.sink_state import SinkState, sinks_of
from kavka.lake.tables import display, load_table

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

_KEPT_NAMES = ("version-hint.text",)
_PATHS = ("write.data.path", "write.metadata.path", "write.object-storage.path")


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file below a table."""

    path: str
    """Without a scheme."""
    size: int
    changed_ms: int

    @property
    def name(self) -> str:
        """Return the last part of its path."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class Removed:
    """Files that were removed, or would be."""

    files: int
    size: int
    younger: int
    """Files that no snapshot needs, and that may still be committed."""


def choose(
    files: Iterable[ListedFile],
    needed: Collection[str],
    sinks: Mapping[str, SinkState],
    older_than_ms: int,
) -> tuple[list[ListedFile], int]:
    """Return the files that go, and the number of those that are not needed and too young. Pure."""
    gone, younger = [], 0
    for file in files:
        if file.path in needed or file.name in _KEPT_NAMES:
            continue
        settled = any(is_settled(file.name, sink, state) for sink, state in sinks.items())
        if settled or file.changed_ms < older_than_ms:
            gone.append(file)
        else:
            younger += 1
    return gone, younger


def remove_orphans(
    catalog: Catalog, identifier: Identifier, older_than_ms: int, dry_run: bool = False
) -> Removed:
    """Remove the orphans of a table. Raise LakeError, OSError."""
    with lake_errors():
        table = load_table(catalog, identifier)
        files = _listed(table)
        table = load_table(
            catalog, identifier
        )  # after the list, so that what was committed meanwhile stays
        needed = files_of(table.snapshots(), table.io) | metadata_files_of(table)
        gone, younger = choose(
            files, {normal(path) for path in needed}, sinks_of(table.properties), older_than_ms
        )
        if not dry_run:
            filesystem = _filesystem(table, table.location())
            for file in gone:
                filesystem.delete_file(file.path)
        return Removed(len(gone), sum(file.size for file in gone), younger)


def _listed(table: Table) -> list[ListedFile]:
    locations = {table.location().rstrip("/")}
    locations |= {table.properties[name].rstrip("/") for name in _PATHS if name in table.properties}
    files = []
    for location in sorted(locations):
        selector = FileSelector(normal(location), recursive=True, allow_not_found=True)
        for info in _filesystem(table, location).get_file_info(selector):
            if info.type is FileType.File:
                changed_ms = 0 if info.mtime_ns is None else info.mtime_ns // 1_000_000
                files.append(ListedFile(info.path, info.size or 0, changed_ms))
    return files


def _filesystem(table: Table, location: str) -> FileSystem:
    io = table.io
    if not isinstance(io, PyArrowFileIO):
        raise LakeError(
            f"The files of {display(table.name())} cannot be listed with {type(io).__name__}: set catalog.py-io-impl "
            "to pyiceberg.io.pyarrow.PyArrowFileIO."
        )
    scheme, netloc, _ = io.parse_location(location, io.properties)
    return io.fs_by_scheme(scheme, netloc)
