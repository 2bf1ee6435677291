"""Arrow schemas of JSON objects: from a JSON Schema, and from a sample of records. Pure.

Types of JSON that differ among records, and what has no fixed fields, become strings that hold the JSON text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from kavka.client.schemas.errors import SchemaParseError

if TYPE_CHECKING:
    import pyarrow as pa

_MAX_FIELDS: Final = 200
"""Fields of an object; one with more is a map with keys of the data, and stays text."""
_MAX_DEPTH: Final = 16


def schema_of_json_schema(text: str, name: str = "the JSON schema") -> pa.Schema:
    """Return the Arrow schema of a JSON Schema of type object.

    Raise SchemaParseError when it is no JSON, no schema of an object, or one without properties.
    """
    import pyarrow as pa

    try:
        root = json.loads(text)
    except ValueError as error:
        raise SchemaParseError(f"{name} is no JSON: {error}") from error
    if not isinstance(root, dict) or not isinstance(root.get("properties"), dict):
        raise SchemaParseError(f"{name} has no properties: give a JSON Schema of an object")
    try:
        kind = _Types(root).type_of(root, 0)
    except RecursionError as error:
        raise SchemaParseError(f"{name} refers to itself") from error
    if not pa.types.is_struct(kind):
        raise SchemaParseError(f"{name} is not of type object")
    return pa.schema([kind.field(index) for index in range(kind.num_fields)])


class _Types:
    """Arrow types of the parts of one JSON Schema."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root

    def type_of(self, schema: Any, depth: int) -> pa.DataType:
        """Return the type of a part; text for what Arrow has no type for."""
        import pyarrow as pa

        schema = resolved(self._root, schema)
        if not isinstance(schema, dict) or depth > _MAX_DEPTH:
            return pa.string()
        match self._kind(schema):
            case "object" if schema.get("properties"):
                return pa.struct(
                    [
                        (key, self.type_of(one, depth + 1))
                        for key, one in schema["properties"].items()
                    ]
                )
            case "array" if isinstance(schema.get("items"), dict):
                return pa.list_(self.type_of(schema["items"], depth + 1))
            case "integer":
                return pa.int64()
            case "number":
                return pa.float64()
            case "boolean":
                return pa.bool_()
            case "string" if schema.get("format") == "date-time":
                return pa.timestamp("us", tz="UTC")
            case "string" if schema.get("format") == "date":
                return pa.date32()
            case _:
                return pa.string()

    def _kind(self, schema: Mapping[str, Any]) -> str | None:
        """Return the one type besides null, None when there are several."""
        given = schema.get("type")
        if given is None and "properties" in schema:
            return "object"
        kinds = [kind for kind in (given if isinstance(given, list) else [given]) if kind != "null"]
        return kinds[0] if len(kinds) == 1 else None


def resolved(root: Any, schema: Any) -> Any:
    """Follow a reference within a schema, and `oneOf` or `anyOf` of one type and null; None for several types.

    Raise SchemaParseError when there is nothing at a reference.
    """
    for _ in range(_MAX_DEPTH):
        if not isinstance(schema, dict):
            return schema
        reference = schema.get("$ref")
        if isinstance(reference, str) and reference.startswith("#/"):
            schema = _at(root, reference)
            continue
        choices = schema.get("oneOf") or schema.get("anyOf")
        if not isinstance(choices, list):
            return schema
        left = [one for one in choices if not (isinstance(one, dict) and one.get("type") == "null")]
        if len(left) != 1:
            return None
        schema = left[0]
    return None


def _at(root: Any, reference: str) -> Any:
    part: Any = root
    for step in reference[2:].split("/"):
        key = step.replace("~1", "/").replace("~0", "~")
        if not isinstance(part, dict) or key not in part:
            raise SchemaParseError(f"the JSON schema has nothing at {reference}")
        part = part[key]
    return part


# From a sample


def infer_schema(objects: Iterable[Mapping[str, Any]]) -> pa.Schema | None:
    """Return the schema that fits all objects of a sample; None for none, and for too many fields to be columns."""
    import pyarrow as pa

    seen: _Kind | None = None
    for one in objects:
        seen = _merged(seen, {name: _kind_of(value, 1) for name, value in one.items()})
    if not isinstance(seen, dict) or len(seen) > _MAX_FIELDS:
        return None
    return pa.schema([(name, _arrow(kind)) for name, kind in seen.items()])


_Kind = str | dict[str, Any] | list[Any] | None
"""A type: its name, fields of an object, the one type of an array's items, None while only null was seen."""
_TEXT: Final = "text"
_NUMBERS: Final = (("integer", "number"), ("number", "integer"))


def _kind_of(value: Any, depth: int) -> _Kind:
    match value:
        case None:
            return None
        case bool():
            return "boolean"
        case int():
            return "integer" if -(2**63) <= value < 2**63 else _TEXT
        case float():
            return "number"
        case dict() if value and depth < _MAX_DEPTH:
            return {key: _kind_of(one, depth + 1) for key, one in value.items()}
        case list() if depth < _MAX_DEPTH:
            item: _Kind = None
            for one in value:
                item = _merged(item, _kind_of(one, depth + 1))
            return [item]
        case _:
            return _TEXT


def _merged(one: _Kind, other: _Kind) -> _Kind:
    if one is None or other is None or one == other:
        return other if one is None else one
    if isinstance(one, dict) and isinstance(other, dict):
        return {key: _merged(one.get(key), other.get(key)) for key in dict.fromkeys([*one, *other])}
    if isinstance(one, list) and isinstance(other, list):
        return [_merged(one[0], other[0])]
    return "number" if (one, other) in _NUMBERS else _TEXT


def _arrow(kind: _Kind) -> pa.DataType:
    import pyarrow as pa

    if isinstance(kind, dict) and len(kind) <= _MAX_FIELDS:
        return pa.struct([(name, _arrow(one)) for name, one in kind.items()])
    if isinstance(kind, list):
        return pa.list_(_arrow(kind[0]))
    names = {"boolean": pa.bool_(), "integer": pa.int64(), "number": pa.float64()}
    return names.get(kind, pa.string()) if isinstance(kind, str) else pa.string()
