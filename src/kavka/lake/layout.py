"""The layout of a table: partitioning and sort order as text, such as `hour(event_time), topic`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kavka.lake.errors import LakeError

if TYPE_CHECKING:
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table.sorting import SortOrder

_BY_TIME = ("year", "month", "day", "hour")
_WITH_NUMBER = {"bucket": "bucket", "truncate": "trunc"}
_FORMS = (
    "a column, or year, month, day, hour of one, or bucket(16, column), truncate(8, column), "
    "with commas between"
)
_CALL = re.compile(r"(\w+)\s*\(\s*(?:(\d+)\s*,\s*)?([\w.]+)\s*(?:,\s*(\d+)\s*)?\)")
_COLUMN = re.compile(r"[\w.]+")
_SORT = re.compile(r"([\w.]+)(?:\s+(asc|desc))?(?:\s+nulls\s+(first|last))?", re.IGNORECASE)
_BETWEEN = re.compile(r",(?![^(]*\))")
_FIRST_FIELD = 1000
"""The id of the first partition field, by Iceberg's specification."""


@dataclass(frozen=True, slots=True)
class PartitionBy:
    """One part of a partitioning."""

    column: str
    transform: str
    """In Iceberg's words: `identity`, `hour`, `bucket[16]`."""

    @property
    def name(self) -> str:
        """Return the name of the partition, as Iceberg's other writers give it."""
        kind = self.transform.partition("[")[0]
        flat = self.column.replace(".", "_")
        return flat if kind == "identity" else f"{flat}_{_WITH_NUMBER.get(kind, kind)}"


@dataclass(frozen=True, slots=True)
class SortBy:
    """One column of a sort order."""

    column: str
    is_descending: bool
    nulls_first: bool


def parse_partitioning(text: str) -> tuple[PartitionBy, ...]:
    """Read the option partitionBy. Raise LakeError."""
    parts = tuple(_partition(one.strip()) for one in _BETWEEN.split(text) if one.strip())
    if not parts:
        raise LakeError(f"The option partitionBy is empty: give {_FORMS}.")
    names = [one.name for one in parts]
    if len(set(names)) < len(names):
        raise LakeError(f"The option partitionBy names a partition twice: {text!r}.")
    return parts


def _partition(text: str) -> PartitionBy:
    if _COLUMN.fullmatch(text):
        return PartitionBy(text, "identity")
    match = _CALL.fullmatch(text)
    if match is None:
        raise LakeError(f"{text!r} in partitionBy is none of: {_FORMS}.")
    kind = match[1].lower()
    number = match[2] or match[4]
    singular = kind.removesuffix("s")
    if singular in _BY_TIME and number is None:
        return PartitionBy(match[3], singular)
    if kind == "identity" and number is None:
        return PartitionBy(match[3], kind)
    if kind in _WITH_NUMBER and number is not None and int(number) > 0:
        return PartitionBy(match[3], f"{kind}[{number}]")
    raise LakeError(f"{text!r} in partitionBy is none of: {_FORMS}.")


def parse_sorting(text: str) -> tuple[SortBy, ...]:
    """Read the option sortBy: `event_time, key desc nulls last`. Raise LakeError."""
    matches = [_SORT.fullmatch(item.strip()) for item in text.split(",")]
    parts = []
    for match in matches:
        if match is None:
            raise LakeError(
                f"The option sortBy must be columns, each with asc or desc and nulls first or last, not {text!r}."
            )
        is_descending = (match[2] or "asc").lower() == "desc"
        nulls = (match[3] or ("last" if is_descending else "first")).lower()
        parts.append(SortBy(match[1], is_descending, nulls == "first"))
    return tuple(parts)


def partition_spec(schema: Schema, parts: Iterable[PartitionBy]) -> PartitionSpec:
    """Return Iceberg's partitioning of a schema. Raise LakeError for a column that is not there or does not fit."""
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.transforms import parse_transform

    fields = []
    for number, part in enumerate(parts):
        source = _source(schema, part.column, "partitionBy")
        transform = parse_transform(part.transform)
        kind = schema.find_field(source).field_type
        if not transform.can_transform(kind):
            raise LakeError(
                f"partitionBy: {part.transform} is not possible with {part.column}, which is {kind}."
            )
        fields.append(PartitionField(source, _FIRST_FIELD + number, transform, part.name))
    return PartitionSpec(*fields)


def sort_order(schema: Schema, parts: Iterable[SortBy]) -> SortOrder:
    """Return Iceberg's sort order of a schema. Raise LakeError for a column that is not there or cannot be sorted."""
    from pyiceberg.table.sorting import NullOrder, SortDirection, SortField, SortOrder
    from pyiceberg.transforms import IdentityTransform

    fields = []
    for part in parts:
        source = _source(schema, part.column, "sortBy")
        if not schema.find_field(source).field_type.is_primitive:
            raise LakeError(f"sortBy: {part.column} is nested, and cannot be sorted by.")
        fields.append(
            SortField(
                source_id=source,
                transform=IdentityTransform(),
                direction=SortDirection.DESC if part.is_descending else SortDirection.ASC,
                null_order=NullOrder.NULLS_FIRST if part.nulls_first else NullOrder.NULLS_LAST,
            )
        )
    return SortOrder(*fields)


def _source(schema: Schema, column: str, option: str) -> int:
    try:
        field_id: int = schema.find_field(column).field_id
    except ValueError:
        names = ", ".join(schema.column_names)
        raise LakeError(f"{option}: there is no column {column} among {names}.") from None
    return field_id
