"""Tables: made where they are missing, evolved where the rows have more columns, and retried where others commit."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER

from kavka.lake.catalogs import Identifier
from kavka.lake.errors import LakeError, lake_errors
from kavka.lake.layout import PartitionBy, SortBy, partition_spec, sort_order
from kavka.lake.schemas import difference, iceberg_schema

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

TARGET_BYTES = 128 << 20
"""Size of a file unless the table says otherwise."""
_ATTEMPTS = 30
"""Number of commits that may meet another's: a load commits every second at most, a compaction is then tried again."""
_MAX_WAIT_S = 2.0
_DEFAULTS = {
    "write.target-file-size-bytes": str(TARGET_BYTES),
    "write.parquet.compression-codec": "zstd",
    # Every batch writes metadata and a manifest; without these a table of a stream gets slower with each.
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "100",
    "commit.manifest-merge.enabled": "true",
    "commit.manifest.min-count-to-merge": "50",
}
"""Properties of a table that is made here."""


@dataclass(frozen=True, slots=True)
class TableOptions:
    """The options of a load for its table."""

    partition_by: tuple[PartitionBy, ...] = ()
    sort_by: tuple[SortBy, ...] = ()
    may_create: bool = True
    may_evolve: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)
    """Of a table that is made."""


def display(identifier: Identifier) -> str:
    """Return a table's name as users write it."""
    return ".".join(identifier)


def load_table(catalog: Catalog, identifier: Identifier) -> Table:
    """Return a table. Raise LakeError when it is not there."""
    with lake_errors():
        try:
            return catalog.load_table(identifier)
        except NoSuchTableError:
            raise LakeError(f"There is no table {display(identifier)} in the catalogue.") from None


def attempts(action: str) -> Iterator[int]:
    """Yield the numbers of attempts at a commit, with pauses that grow. Raise LakeError when there were too many."""
    for number in range(_ATTEMPTS):
        if number:
            time.sleep(min(0.05 * 2**number, _MAX_WAIT_S) * (0.5 + random.random() / 2))
        yield number
    raise LakeError(f"{action}: other writers have committed before, {_ATTEMPTS} times in a row.")


def without_own_retries(table: Table) -> Table:
    """Make pyiceberg report a conflict instead of retrying: the change depends on the other commit.

    Only this copy of the properties is changed; catalogues apply updates to their own.
    """
    table.metadata.properties["commit.retry.num-retries"] = "0"
    return table


def prepare_table(
    catalog: Catalog, identifier: Identifier, columns: pa.Schema, options: TableOptions
) -> Table:
    """Return a table that has a place for rows with these columns. Raise LakeError."""
    rows = iceberg_schema(columns)
    with lake_errors():
        try:
            table = catalog.load_table(identifier)
        except NoSuchTableError:
            if not options.may_create:
                raise LakeError(
                    f"There is no table {display(identifier)}: create it, or set createTable to true."
                ) from None
            table = _made(catalog, identifier, rows, options)
        _check_layout(table, options)
        return _evolved(table, identifier, rows, options)


def _made(catalog: Catalog, identifier: Identifier, rows: Schema, options: TableOptions) -> Table:
    spec = partition_spec(rows, options.partition_by) if options.partition_by else PartitionSpec()
    order = sort_order(rows, options.sort_by) if options.sort_by else UNSORTED_SORT_ORDER
    for depth in range(1, len(identifier)):
        _make_namespace(catalog, identifier[:depth])
    try:
        return catalog.create_table(
            identifier,
            rows,
            partition_spec=spec,
            sort_order=order,
            properties=_DEFAULTS | dict(options.properties),
        )
    except TableAlreadyExistsError:  # another task or query was first
        return catalog.load_table(identifier)


def _make_namespace(catalog: Catalog, namespace: Identifier) -> None:
    try:
        catalog.create_namespace_if_not_exists(namespace)
    except NamespaceAlreadyExistsError:
        return


def _check_layout(table: Table, options: TableOptions) -> None:
    """Raise LakeError when the partitioning that is asked for is not the table's: rows would not lie as expected."""
    if not options.partition_by:
        return
    schema = table.schema()
    expected = partition_spec(schema, options.partition_by)
    if [(one.source_id, str(one.transform)) for one in expected.fields] != [
        (one.source_id, str(one.transform)) for one in table.spec().fields
    ]:
        own = ", ".join(
            f"{one.transform}({schema.find_column_name(one.source_id)})"
            for one in table.spec().fields
        )
        raise LakeError(
            f"The table {display(table.name())} is partitioned by {own or 'nothing'}: leave partitionBy out, or change "
            "the table's partitioning first (pyiceberg: table.update_spec())."
        )


def _evolved(table: Table, identifier: Identifier, rows: Schema, options: TableOptions) -> Table:
    """Return the table with the columns of the rows."""
    for _ in attempts(f"The schema of {display(identifier)} was not changed"):
        changes = difference(table.schema(), rows)
        if changes.problems:
            raise LakeError(
                f"The rows do not fit the table {display(identifier)}: {'; '.join(changes.problems)}. Cast the columns."
            )
        if not changes.needs_evolution:
            return table
        if not options.may_evolve:
            raise LakeError(_refusal(identifier, changes.new, changes.widened))
        try:
            with table.update_schema() as update:
                update.union_by_name(rows)
        except CommitFailedException:
            table = table.refresh()
            continue
        table = table.refresh()
    raise AssertionError("attempts() raises at their end")


def _refusal(identifier: Identifier, new: tuple[str, ...], widened: tuple[str, ...]) -> str:
    parts = []
    if new:
        parts.append(f"it has no column {', '.join(new)}")
    if widened:
        parts.append(f"its type is too narrow for {', '.join(widened)}")
    return (
        f"The rows do not fit the table {display(identifier)}: {' and '.join(parts)}. Set mergeSchema to true to have "
        "the table changed, or select other columns."
    )
