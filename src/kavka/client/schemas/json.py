"""JSON values with a JSON Schema, checked with jsonschema."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kavka.client.schemas.errors import MissingExtra, PayloadError, SchemaParseError
from kavka.client.schemas.json_columns import DecodedColumns, decode_json
from kavka.client.schemas.json_rows import JsonRows
from kavka.client.schemas.json_schema import schema_of_json_schema
from kavka.client.schemas.row_columns import EncodedColumn, encode_rows

if TYPE_CHECKING:
    import pyarrow as pa


class JsonCodec:
    """One JSON Schema. Columns are typed by it and not checked against it otherwise."""

    def __init__(
        self, text: str, references: Mapping[str, str] | None = None, *, validate: bool = True
    ) -> None:
        """Parse a schema and those that it refers to by their names. Raise SchemaParseError, MissingExtra.

        Without `validate`, values are only written and read: checking them takes most of the time.
        """
        try:
            import jsonschema
            import referencing
            import referencing.jsonschema
        except ImportError:
            raise MissingExtra("jsonschema") from None
        self._text = text
        self._validate = validate
        try:
            parsed = json.loads(text)
            kind = jsonschema.validators.validator_for(parsed, jsonschema.Draft7Validator)
            kind.check_schema(parsed)
            resources = [
                (
                    name,
                    referencing.Resource.from_contents(
                        json.loads(one), referencing.jsonschema.DRAFT7
                    ),
                )
                for name, one in (references or {}).items()
            ]
        except (ValueError, jsonschema.SchemaError) as error:
            raise SchemaParseError(
                f"the JSON schema cannot be parsed: {_first_line(error)}"
            ) from error
        self._rows = JsonRows(parsed)
        self._validator: Any = kind(
            parsed, registry=referencing.Registry().with_resources(resources)
        )
        self._failures = (jsonschema.ValidationError, referencing.exceptions.Unresolvable)

    def encode(self, value: Any) -> bytes:
        """Return the payload of a value. Raise PayloadError when it does not fit the schema."""
        self._check(value, "the value does not fit")
        try:
            return json.dumps(value, allow_nan=False).encode()
        except (TypeError, ValueError) as error:
            raise PayloadError(f"the value cannot be written as JSON: {error}") from error

    def decode(self, payload: bytes) -> Any:
        """Return the value of a payload. Raise PayloadError."""
        try:
            value = json.loads(payload.decode("utf-8"))
        except (ValueError, RecursionError) as error:
            raise PayloadError(f"it is no JSON: {error}") from error
        self._check(value, "it does not fit")
        return value

    def _check(self, value: Any, what: str) -> None:
        if not self._validate:
            return
        try:
            self._validator.validate(value)
        except self._failures as error:
            raise PayloadError(f"{what} the JSON schema: {_first_line(error)}") from error

    def arrow_schema(self) -> pa.Schema:
        """Return the properties of an object."""
        return schema_of_json_schema(self._text)

    def decode_columns(self, payloads: pa.Array, schema: pa.Schema) -> DecodedColumns:
        """Decode a column of payloads."""
        return decode_json(payloads, schema)

    def encode_column(self, rows: pa.StructArray) -> EncodedColumn:
        """Encode a column of rows."""
        return encode_rows(rows, lambda row: self.encode(self._rows.object_of(row)))


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
