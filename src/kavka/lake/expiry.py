"""Expiry of snapshots: old ones go, and the files that only they need."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.exceptions import CommitFailedException

from kavka.lake.catalogs import Identifier
from kavka.lake.errors import lake_errors
from kavka.lake.reachable import files_of
from kavka.lake.table_writer import remove_files
from kavka.lake.tables import attempts, display, load_table

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table


@dataclass(frozen=True, slots=True)
class SnapshotFacts:
    """A snapshot, as far as the choice needs it."""

    id: int
    parent: int | None
    written_ms: int


@dataclass(frozen=True, slots=True)
class Expired:
    """The result of an expiry."""

    snapshots: int
    files: int
    """Files that were removed, or would be."""


def choose(
    snapshots: Iterable[SnapshotFacts],
    heads: Collection[int],
    older_than_ms: int,
    keep_last: int,
) -> list[int]:
    """Return the ids of snapshots that go. Pure.

    Heads of branches and tagged ones stay, and the last `keep_last` before each head, however old they are.
    """
    by_id = {one.id: one for one in snapshots}
    kept = set(heads)
    for head in heads:
        at: int | None = head
        for _ in range(keep_last):
            if at is None or at not in by_id:
                break
            kept.add(at)
            at = by_id[at].parent
    return [
        one.id for one in by_id.values() if one.id not in kept and one.written_ms < older_than_ms
    ]


def expire(
    catalog: Catalog,
    identifier: Identifier,
    older_than_ms: int,
    keep_last: int = 1,
    dry_run: bool = False,
) -> Expired:
    """Expire snapshots of a table, and remove their files. Raise LakeError, OSError."""
    with lake_errors():
        for _ in attempts(f"Snapshots of {display(identifier)} were not expired"):
            table = load_table(catalog, identifier)
            chosen = _chosen(table, older_than_ms, keep_last)
            if not chosen:
                return Expired(0, 0)
            gone = [one for one in table.snapshots() if one.snapshot_id in set(chosen)]
            candidates = files_of(gone, table.io)
            if dry_run:
                stay = [one for one in table.snapshots() if one not in gone]
                return Expired(len(gone), len(candidates - files_of(stay, table.io)))
            try:
                table.maintenance.expire_snapshots().by_ids(chosen).commit()
            except CommitFailedException:
                continue
            # What is committed now decides, not what was read before.
            after = load_table(catalog, identifier)
            unneeded = candidates - files_of(after.snapshots(), after.io)
            remaining = remove_files(after.io, sorted(unneeded))
            return Expired(len(gone), len(unneeded) - len(remaining))
        raise AssertionError("attempts() raises at their end")


def _chosen(table: Table, older_than_ms: int, keep_last: int) -> list[int]:
    facts = [
        SnapshotFacts(one.snapshot_id, one.parent_snapshot_id, one.timestamp_ms)
        for one in table.snapshots()
    ]
    heads = {one.snapshot_id for one in table.refs().values()}
    return choose(facts, heads, older_than_ms, keep_last)
