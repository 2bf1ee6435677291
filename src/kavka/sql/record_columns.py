"""The columns that every topic has as a table, from records as the client decodes them. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from kavka.client.schemas.json_columns import BadValue
from kavka.wire.records.arrow import constant, to_arrow
from kavka.wire.records.columns import Columns

if TYPE_CHECKING:
    import pyarrow as pa

_NO_TIMESTAMP: Final = -1
_MAX_MS: Final = (2**63 - 1) // 1000
"""The last millisecond that microseconds of 64 bits reach."""


def record_fields(key_is_text: bool, value_is_text: bool) -> list[pa.Field]:
    """Return the fields of the record columns, in their order."""
    import pyarrow as pa

    header = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
    return [
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp("us", tz="UTC")),
        pa.field("key", pa.string() if key_is_text else pa.binary()),
        pa.field("value", pa.string() if value_is_text else pa.binary()),
        pa.field("headers", pa.list_(header)),
    ]


def record_arrays(
    columns: Columns, topic: str, partition: int, names: Iterable[str]
) -> dict[str, pa.Array]:
    """Return columns by name: key and value as bytes, timestamps in microseconds.

    The timestamp of a record without one is null, and so is one after the year 294246.
    """
    selected = set(names)
    batch = to_arrow(columns, topic, partition, headers="headers" in selected)
    arrays = {name: batch.column(name) for name in selected if name != "timestamp"}
    if "timestamp" in selected:
        arrays["timestamp"] = _microseconds(batch.column("timestamp"))
    if "headers" in selected:
        arrays["headers"] = _with_item_name(arrays["headers"])
    return arrays


def _with_item_name(lists: pa.Array) -> pa.Array:
    """Return lists of the declared type: the bytes are shared, only the name of the items may differ."""
    import pyarrow as pa

    return pa.ListArray.from_arrays(
        lists.offsets, lists.values, type=record_fields(True, True)[-1].type
    )


def _microseconds(timestamps: pa.Array) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    millis = timestamps.view(pa.int64())
    kind = pa.int64()
    last = constant(_MAX_MS, kind)
    none = pc.or_(pc.equal(millis, constant(_NO_TIMESTAMP, kind)), pc.greater(pc.abs(millis), last))
    if pc.any(none).as_py():
        millis = pc.if_else(none, pa.nulls(len(millis), kind), millis)
    return pc.multiply(millis, constant(1000, kind)).view(pa.timestamp("us", tz="UTC"))


def text_of(array: pa.Array) -> tuple[pa.Array, list[BadValue]]:
    """Return bytes as text; what is no UTF-8 becomes null, and is reported."""
    import pyarrow as pa

    try:
        return array.cast(pa.string()), []
    except pa.ArrowInvalid:
        pass
    texts: list[str | None] = []
    bad: list[BadValue] = []
    for row, value in enumerate(array.to_pylist()):
        try:
            texts.append(None if value is None else value.decode())
        except UnicodeDecodeError as error:
            texts.append(None)
            bad.append(BadValue(row, f"it is not UTF-8 at byte {error.start}"))
    return pa.array(texts, pa.string()), bad
