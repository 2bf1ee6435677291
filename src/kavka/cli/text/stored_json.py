"""Declared messages as the JSON that Kafka's tools print: names in camelCase, fields of one version, no spaces."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

from kavka.ids import uuid_text
from kavka.wire.schema import Kind, fields_of

_ESCAPE = re.compile(r"\\(?:u([0-9a-f]{4})|.)")


def json_of(message: Any, version: int) -> dict[str, Any]:
    """Return the fields of a declared message in a version, in their order.

    Fields that the version lacks are left out, tagged ones also at their default; bytes are base64.
    """
    found: dict[str, Any] = {}
    declared: Any = type(message)
    for field in fields_of(declared):
        value = getattr(message, field.name)
        if version not in field.versions:
            continue
        if field.tag is not None and value == field.new_default():
            continue
        is_uuid = isinstance(field.type, Kind) and field.type.name == "uuid"
        found[camel_case(field.name)] = uuid_text(value) if is_uuid else _plain(value, version)
    return found


def compact(value: Any) -> str:
    """Return JSON in one line as Jackson writes it."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if "\\u" not in text:
        return text
    return _ESCAPE.sub(lambda match: f"\\u{match[1].upper()}" if match[1] else match[0], text)


def camel_case(name: str) -> str:
    """Return Kafka's name of a field: `group_instance_id` is `groupInstanceId`."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _plain(value: Any, version: int) -> Any:
    if isinstance(value, list):
        return [_plain(item, version) for item in value]
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    if value is None or isinstance(value, str | int | float):
        return value
    return json_of(value, version)
