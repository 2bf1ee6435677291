"""Formatters of the console consumer: Kafka's, by their names. Pure."""

from __future__ import annotations

import base64
import logging
from collections.abc import Callable, Mapping

from kavka.cli.arguments.client_properties import is_true
from kavka.cli.console.deserializers import Deserializer, deserializer_of
from kavka.cli.json_lines.lines import json_line
from kavka.cli.json_lines.tool_shapes import RECORD
from kavka.client.consumer.batches import ConsumerRecord

log = logging.getLogger(__name__)

Formatter = Callable[[ConsumerRecord], bytes]
"""Returns what is printed of a record, with its end of line."""

_TIMESTAMP_TYPES = (b"CreateTime:", b"LogAppendTime:")
_SHORT_NAMES = ("Default", "Logging", "NoOp", "Offsets", "GroupMetadata", "TransactionLog")


class UnknownClass(Exception):
    """No formatter or deserializer has this name."""


def formatter_of(name: str, properties: Mapping[str, str]) -> Formatter:
    """Return the formatter of a class, by its full or short Java name. Raise UnknownClass."""
    simple = name.rpartition(".")[2].rpartition("$")[2].removesuffix("MessageFormatter")
    if simple not in _SHORT_NAMES:
        raise UnknownClass(name)
    match simple:
        case "Default":
            return _default(dict(properties))
        case "Logging":
            return _logging(_default(dict(properties)))
        case "NoOp":
            return _nothing
    if simple == "Offsets" and "GroupMetadataManager$" in name:
        return _offset_lines
    kinds = {"Offsets": "offsets", "GroupMetadata": "groups", "TransactionLog": "transactions"}
    return _stored(kinds[simple])


def _default(properties: dict[str, str]) -> Formatter:
    """Return `DefaultMessageFormatter`: the parts that are asked for, between separators."""
    separator = properties.get("key.separator", "\t").encode()
    line_end = properties.get("line.separator", "\n").encode()
    null = properties.get("null.literal", "null").encode()
    value_of = _deserializer(properties, "value.deserializer")
    key_of = _deserializer(properties, "key.deserializer")
    header_value_of = _deserializer(properties, "headers.deserializer")
    parts: list[Formatter] = []
    if is_true(properties, "print.timestamp"):
        parts.append(_timestamp)
    if is_true(properties, "print.partition"):
        parts.append(lambda record: b"Partition:%d" % record.partition)
    if is_true(properties, "print.offset"):
        parts.append(lambda record: b"Offset:%d" % record.offset)
    if is_true(properties, "print.delivery"):
        parts.append(lambda _: b"Delivery:NOT_PRESENT")
    if is_true(properties, "print.epoch"):
        parts.append(lambda _: b"Epoch:NOT_PRESENT")
    if is_true(properties, "print.headers"):
        parts.append(_headers(properties, header_value_of, null))
    if is_true(properties, "print.key"):
        parts.append(lambda record: _content(record.key, key_of, null))
    if is_true(properties, "print.value", "true"):
        if not parts and value_of is None:
            return lambda record: (null if record.value is None else record.value) + line_end
        parts.append(lambda record: _content(record.value, value_of, null))
    if not parts:
        return _nothing
    return lambda record: separator.join([part(record) for part in parts]) + line_end


def json_formatter(properties: Mapping[str, str]) -> Formatter:
    """Return the formatter of `--json`, which takes deserializers only. Raise UnknownClass."""
    names = ("key.deserializer", "value.deserializer", "headers.deserializer")
    key_of, value_of, header_value_of = (_deserializer(dict(properties), name) for name in names)

    def format_record(record: ConsumerRecord) -> bytes:
        row = {
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset,
            "timestamp_ms": record.timestamp,
            "timestamp_type": _TIMESTAMP_TYPES[record.timestamp_type][:-1].decode(),
            "key": _text(record.key, key_of),
            "value": _text(record.value, value_of),
            "headers": [
                {"name": name, "value": _text(value, header_value_of)}
                for name, value in record.headers
            ],
        }
        return json_line(RECORD, row).encode()

    return format_record


def _text(content: bytes | None, deserialize: Deserializer | None) -> str | dict[str, str] | None:
    """Return UTF-8 as a string, other bytes so that they are not lost."""
    if content is None:
        return None
    shown = content if deserialize is None else deserialize(content)
    try:
        return shown.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(shown).decode()}


def _timestamp(record: ConsumerRecord) -> bytes:
    return _TIMESTAMP_TYPES[record.timestamp_type] + b"%d" % record.timestamp


def _headers(properties: dict[str, str], value_of: Deserializer | None, null: bytes) -> Formatter:
    between = properties.get("headers.separator", ",").encode()

    def headers(record: ConsumerRecord) -> bytes:
        if not record.headers:
            return b"NO_HEADERS"
        return between.join(
            [
                name.encode() + b":" + _content(value, value_of, null)
                for name, value in record.headers
            ]
        )

    return headers


def _content(content: bytes | None, deserialize: Deserializer | None, null: bytes) -> bytes:
    if content is None:
        return null
    return content if deserialize is None else deserialize(content)


def _deserializer(properties: dict[str, str], name: str) -> Deserializer | None:
    given = properties.get(name)
    if given is None:
        return None
    found = deserializer_of(given)
    if found is None:
        raise UnknownClass(f"Unable to instantiate a deserializer from {given}")
    return found


def _logging(inner: Formatter) -> Formatter:
    """Return `LoggingMessageFormatter`, which also logs every record."""

    def write(record: ConsumerRecord) -> bytes:
        key = "null " if record.key is None else record.key.decode(errors="replace") + ", "
        value = "null" if record.value is None else record.value.decode(errors="replace")
        log.info("%skey:%svalue:%s", _timestamp(record).decode() + ", ", key, value)
        return inner(record)

    return write


def _nothing(_: ConsumerRecord) -> bytes:
    return b""


def _offset_lines(record: ConsumerRecord) -> bytes:
    from kavka.cli.text.stored_records import offset_line

    return (offset_line(record.key, record.value) or "").encode()


def _stored(wanted: str) -> Formatter:
    """Return a formatter of an internal topic, which puts no ends of lines between its JSON, as Kafka's."""
    from kavka.cli.text.stored_records import stored_record_json

    return lambda record: (stored_record_json(record.key, record.value, wanted) or "").encode()
