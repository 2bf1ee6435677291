"""Rows of Python values as JSON objects of a JSON Schema. Pure.

What Arrow has and JSON has not becomes text: times in ISO 8601, binary values as UTF-8. A null field is left out unless
its object requires it. A text stands for the JSON in it where the schema takes no string.
"""

from __future__ import annotations

import datetime
import decimal
import json
from collections.abc import Mapping
from typing import Any, Final

from kavka.client.schemas.errors import PayloadError
from kavka.client.schemas.json_schema import resolved

_MOMENTS: Final = (datetime.date, datetime.time)  # datetime.datetime is a date


class JsonRows:
    """Makes the objects of one JSON Schema."""

    def __init__(self, root: Any) -> None:
        """Take the parsed schema."""
        self._root = root

    def object_of(self, row: Mapping[str, Any]) -> Any:
        """Return what `json` writes for a row. Raise PayloadError."""
        return self._value(row, self._root, "the value")

    def _value(self, value: Any, schema: Any, name: str) -> Any:
        schema = resolved(self._root, schema)
        known: Mapping[str, Any] = schema if isinstance(schema, dict) else {}
        match value:
            case Mapping():
                return self._object(value, known)
            case list():
                items = known.get("items")
                return [self._value(one, items, name) for one in value]
            case str() if known and not _takes_text(known):
                try:
                    return json.loads(value)
                except ValueError:
                    return value  # which the check of the schema refuses, or the reader
            case bytes():
                try:
                    return value.decode("utf-8")
                except UnicodeDecodeError as error:
                    raise PayloadError(
                        f"field {name} is not UTF-8 at byte {error.start}, and JSON has no bytes"
                    ) from error
            case decimal.Decimal():
                return int(value) if value == value.to_integral_value() else float(value)
            case datetime.datetime() if value.tzinfo is not None:
                return value.astimezone(datetime.UTC).isoformat().replace("+00:00", "Z")
            case _ if isinstance(value, _MOMENTS):
                return value.isoformat()
            case _:
                return value

    def _object(self, value: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
        properties, required = schema.get("properties") or {}, schema.get("required") or ()
        others = schema.get("additionalProperties")
        return {
            str(name): self._value(one, properties.get(name, others), str(name))
            for name, one in value.items()
            if one is not None or name in required
        }


def _takes_text(schema: Mapping[str, Any]) -> bool:
    """Return whether a string may stand there."""
    if "enum" in schema or "const" in schema:
        return True
    kinds = schema.get("type")
    if kinds is None:
        return "properties" not in schema and "items" not in schema
    return "string" in (kinds if isinstance(kinds, list) else [kinds])
