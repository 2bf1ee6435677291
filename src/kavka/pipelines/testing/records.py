"""Records that tests feed and find, and slices of topics as files. Pure.

A slice is a file of JSON lines, a record each, as `kavka pipelines record` writes it:

    {"topic": "t", "partition": 0, "offset": 7, "timestamp": 1764115200000, "key": "ann", "value": "{}", "headers": []}

Key, value and headers' values are text; bytes that are no UTF-8 stand under `key_base64`, `value_base64`.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

_FIELDS = {"topic", "partition", "offset", "timestamp", "key", "value", "headers"}
_BASE64 = "_base64"


class SliceError(ValueError):
    """A file is no slice of a topic; the message names the line."""


@dataclass(frozen=True, slots=True)
class Record:
    """A record of a topic. What is fed needs a value only; what is found has all of it, with bytes.

    Key and value may be bytes, text, None, or anything else, which is written as JSON.
    """

    value: Any = None
    key: Any = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: datetime | int | None = None
    """Milliseconds since 1970, or a time with its zone."""
    partition: int | None = None
    offset: int | None = None
    topic: str = ""

    @property
    def text(self) -> str | None:
        """Return the value as text, None for a tombstone."""
        return None if self.value is None else to_bytes(self.value, "value").decode("utf-8")  # type: ignore[union-attr]

    @property
    def json(self) -> Any:
        """Return the value, which is JSON; None for a tombstone."""
        text = self.text
        return None if text is None else json.loads(text)

    @property
    def key_text(self) -> str | None:
        """Return the key as text."""
        return None if self.key is None else to_bytes(self.key, "key").decode("utf-8")  # type: ignore[union-attr]

    @property
    def timestamp_ms(self) -> int | None:
        """Return the timestamp in milliseconds. Raise ValueError for a time without a zone."""
        moment = self.timestamp
        if not isinstance(moment, datetime):
            return moment
        if moment.tzinfo is None:
            raise ValueError(f"the timestamp {moment} has no time zone: add tzinfo=UTC")
        return round(moment.timestamp() * 1000)


def to_bytes(value: Any, name: str) -> bytes | None:
    """Return a key or value as it is sent. Raise TypeError for what is no JSON."""
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode("utf-8")
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    except (TypeError, ValueError) as error:
        raise TypeError(f"a {name} is bytes, text, None, or JSON: {error}") from error


def to_record(row: Any, key: str | None) -> Record:
    """Return a row as a record; `key` names the field of the row that is the record's key, too.

    Raise ValueError for a row without that field.
    """
    if isinstance(row, Record):
        return row
    if key is None:
        return Record(row)
    if not isinstance(row, Mapping) or key not in row:
        raise ValueError(f"the row {row!r} has no field {key!r}, which is to be its key")
    value = row[key]
    return Record(row, value if value is None or isinstance(value, (str, bytes)) else str(value))


# Slices


def to_line(record: Record) -> str:
    """Return a record as a line of a slice."""
    line: dict[str, Any] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
    }
    line |= _shown("key", to_bytes(record.key, "key"))
    line |= _shown("value", to_bytes(record.value, "value"))
    headers = [{"key": name, **_shown("value", value)} for name, value in record.headers]
    return json.dumps({**line, "headers": headers}, ensure_ascii=False)


def _shown(name: str, content: bytes | None) -> dict[str, str | None]:
    if content is None:
        return {name: None}
    try:
        return {name: content.decode("utf-8")}
    except UnicodeDecodeError:
        return {name + _BASE64: base64.b64encode(content).decode("ascii")}


def from_line(line: str) -> Record:
    """Read a line of a slice. Raise SliceError."""
    try:
        fields = json.loads(line)
    except ValueError as error:
        raise SliceError(f"no JSON: {error}") from None
    if not isinstance(fields, dict):
        raise SliceError("no JSON object")
    unknown = {name.removesuffix(_BASE64) for name in fields} - _FIELDS
    if unknown or not {"value", "value" + _BASE64} & set(fields):
        raise SliceError(
            "no record of `kavka pipelines record`: it has "
            + (f"the fields {', '.join(sorted(unknown))}" if unknown else "no value")
            + "; rows alone are given to feed()"
        )
    headers = tuple((one["key"], _content(one, "value")) for one in fields.get("headers") or ())
    return Record(
        _content(fields, "value"),
        _content(fields, "key"),
        headers,
        _number(fields, "timestamp"),
        _number(fields, "partition"),
        _number(fields, "offset"),
        fields.get("topic") or "",
    )


def _content(fields: Mapping[str, Any], name: str) -> bytes | None:
    encoded = fields.get(name + _BASE64)
    if encoded is not None:
        try:
            return base64.b64decode(encoded, validate=True)
        except (binascii.Error, TypeError, ValueError):
            raise SliceError(f"{name}{_BASE64} is no base64") from None
    return to_bytes(fields.get(name), name)


def _number(fields: Mapping[str, Any], name: str) -> int | None:
    value = fields.get(name)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
        raise SliceError(f"{name} is no whole number: {value!r}")
    return value


def read_slice(path: Path, topic: str | None = None) -> Iterator[Record]:
    """Yield the records of a file, all into `topic` if that is given. Raise SliceError, OSError."""
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                record = from_line(line)
                name = topic or record.topic
                if not name:
                    raise SliceError("no topic: name one")
            except SliceError as error:
                raise SliceError(f"{path}:{number}: {error}") from None
            yield replace(record, topic=name)
