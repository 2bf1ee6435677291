"""The files that snapshots of a table need: lists of manifests, manifests, and files with rows or deletions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import PyArrowFileIO

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot


def files_of(snapshots: Iterable[Snapshot], io: FileIO) -> set[str]:
    """Return the paths of all files that the snapshots need, as the table spells them."""
    paths: set[str] = set()
    for snapshot in snapshots:
        if snapshot.manifest_list in paths:
            continue
        paths.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(io):
            if manifest.manifest_path in paths:
                continue
            paths.add(manifest.manifest_path)
            for entry in manifest.fetch_manifest_entry(io, discard_deleted=True):
                paths.add(entry.data_file.file_path)
    return paths


def metadata_files_of(table: Table) -> set[str]:
    """Return the paths of a table's own metadata: today's, the earlier ones that it names, and statistics."""
    metadata = table.metadata
    paths = {table.metadata_location, *(one.metadata_file for one in metadata.metadata_log)}
    paths |= {one.statistics_path for one in metadata.statistics}
    paths |= {one.statistics_path for one in metadata.partition_statistics}
    return paths


def normal(path: str) -> str:
    """Return a path without its scheme, so that two spellings of one file are equal."""
    normalized: str = PyArrowFileIO.parse_location(path)[2]
    return normalized
