"""Columns of framed values: the values of each schema are decoded together, and come back in their order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from kavka.client.schemas.avro import AvroCodec
from kavka.client.schemas.codecs import Codec
from kavka.client.schemas.errors import (
    MissingExtra,
    RegistryError,
    RegistryUnavailable,
    SchemaError,
    SchemaNotFound,
)
from kavka.client.schemas.framing import FRAME_BYTES, unframe
from kavka.client.schemas.json_columns import BadValue, DecodedColumns
from kavka.client.schemas.serializers import SchemaDeserializer

if TYPE_CHECKING:
    import pyarrow as pa

_TO_THE_END: Final = 2**31 - 1
"""Arrow 26 fails without an end."""
RECORD_COLUMNS: Final = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
"""The columns that every topic has as a table, besides the fields of its values."""
DecodeOne = Callable[[int, "pa.Array", "pa.Schema"], DecodedColumns]
"""Decodes payloads of the schema with an id."""


def decode_framed(values: pa.Array, schema: pa.Schema, decode: DecodeOne) -> DecodedColumns:
    """Decode a column of binary values; a schema that is not known, or that is none, makes values bad.

    Raise RegistryUnavailable, RegistryError when the registry refuses to answer, MissingExtra.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    prefixes = pc.binary_slice(values, 0, FRAME_BYTES)
    kinds = pc.unique(prefixes.drop_null())
    if len(kinds) <= 1 and not values.null_count:
        return _decode_kind(kinds[0].as_py() if len(kinds) else b"", values, schema, decode)
    pieces: list[pa.RecordBatch] = []
    places: list[pa.Array] = []
    bad: list[BadValue] = []
    for kind in (*kinds, None):
        mask = prefixes.is_null() if kind is None else pc.equal(prefixes, kind).fill_null(False)
        rows = pc.indices_nonzero(mask)
        if not len(rows):
            continue
        if kind is None:
            decoded = _nulls(len(rows), schema)
        else:
            decoded = _decode_kind(kind.as_py(), values.take(rows), schema, decode)
        numbers = rows.to_pylist() if decoded.bad else []
        bad += [BadValue(numbers[one.row], one.reason) for one in decoded.bad]
        pieces.append(decoded.columns)
        places.append(rows)
    order = pc.sort_indices(pa.concat_arrays(places))
    whole = pa.Table.from_batches(pieces, schema).combine_chunks().take(order)
    return DecodedColumns(whole.combine_chunks().to_batches()[0], sorted(bad))


def _decode_kind(
    prefix: bytes, values: pa.Array, schema: pa.Schema, decode: DecodeOne
) -> DecodedColumns:
    """Decode values that all begin with one frame."""
    import pyarrow.compute as pc

    try:
        schema_id = unframe(prefix).schema_id
        return decode(schema_id, pc.binary_slice(values, FRAME_BYTES, _TO_THE_END), schema)
    except SchemaError as error:
        if not _is_of_the_value(error):
            raise
        nothing = _nulls(len(values), schema).columns
        return DecodedColumns(nothing, [BadValue(row, str(error)) for row in range(len(values))])


def _is_of_the_value(error: SchemaError) -> bool:
    """Return whether values are to blame for an error, and not the registry, or what is installed here."""
    if isinstance(error, RegistryUnavailable | MissingExtra):
        return False
    return isinstance(error, SchemaNotFound) or not isinstance(error, RegistryError)


def _nulls(count: int, schema: pa.Schema) -> DecodedColumns:
    import pyarrow as pa

    arrays = [pa.nulls(count, field.type) for field in schema]
    return DecodedColumns(pa.RecordBatch.from_arrays(arrays, schema=schema), [])


class ColumnDecoder:
    """Reads columns of framed values into the columns of one schema, whatever versions they were written with.

    Avro values are resolved by Avro's rules, values of JSON and Protobuf by the names of their fields.
    """

    def __init__(
        self, deserializer: SchemaDeserializer, target: Codec, schema: pa.Schema | None = None
    ) -> None:
        """Take the schema of the columns. Raise SchemaParseError when it has no fields.

        With `schema` the columns have its types, which can hold those of the target.
        """
        self._deserializer = deserializer
        self._target = target
        self.schema = target.arrow_schema() if schema is None else schema

    def decode(self, values: pa.Array, fields: Sequence[str]) -> DecodedColumns:
        """Decode some fields; null values, and those that cannot be decoded, give nulls. Raise as `decode_framed`."""
        import pyarrow as pa

        chosen = pa.schema([self.schema.field(name) for name in fields])
        return decode_framed(values, chosen, self._decode_one)

    def _decode_one(self, schema_id: int, payloads: pa.Array, schema: pa.Schema) -> DecodedColumns:
        codec = self._deserializer.codec(schema_id)
        if isinstance(codec, AvroCodec) and isinstance(self._target, AvroCodec):
            return codec.decode_columns(payloads, schema, self._target)
        return codec.decode_columns(payloads, schema)


def column_names(fields: Sequence[str], *others: str) -> dict[str, str]:
    """Return the fields of values by the names of their columns.

    Names are compared without regard to case, as SQL does. A field with the name of a record column is `value_` and
    its name; one with the name of another field, or of `others`, has a number behind it.
    """
    taken = {*RECORD_COLUMNS, *others}
    found: dict[str, str] = {}
    for field in fields:
        name = f"value_{field}" if field.lower() in RECORD_COLUMNS else field
        number = 1
        while name.lower() in taken:
            name = f"{field}_{number}"
            number += 1
        taken.add(name.lower())
        found[name] = field
    return found
