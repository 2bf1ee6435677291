"""Comparison of what commands print with `--json` with the declared shapes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kavka.cli.json_lines.declaration import Field
from kavka.cli.json_lines.shapes import ERROR


def check(
    row: Mapping[str, Any], fields: Mapping[str, Field], parts: Mapping[str, Mapping[str, Field]]
) -> None:
    """Insist on the keys of an object, in their order, and on the types of their values."""
    assert list(row) == list(fields)
    for name, field in fields.items():
        assert _fits(row[name], field.type, parts), f"{name}: {row[name]!r} is no {field.type}"


_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}


def _fits(value: Any, kind: str, parts: Mapping[str, Mapping[str, Field]]) -> bool:
    if kind.endswith("?"):
        return value is None or _fits(value, kind[:-1], parts)
    if kind.startswith("["):
        return isinstance(value, list) and all(_fits(each, kind[1:-1], parts) for each in value)
    if kind.startswith("{"):
        return isinstance(value, dict) and all(
            _fits(each, kind[1:-1], parts) for each in value.values()
        )
    if kind == "text":
        return isinstance(value, str) or list(value) == ["base64"]
    if kind == "plan":
        return isinstance(value, dict) and list(value) == ["version", "partitions"]
    if kind in parts or kind == "error":
        check(value, ERROR if kind == "error" else parts[kind], parts)
        return True
    is_bool = isinstance(value, bool)
    return isinstance(value, _TYPES[kind]) and is_bool == (kind == "boolean")
