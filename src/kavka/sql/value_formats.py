"""Columns of a topic's values: by a schema that is given, or inferred from a sample of its records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from kavka.client.schemas.json_columns import parse_object
from kavka.client.schemas.json_schema import infer_schema
from kavka.client.schemas.registry import SchemaRegistry
from kavka.ids import TopicPartition
from kavka.sql.brokers import Brokers, OffsetRange, refused
from kavka.sql.topic_table import JsonValues, ValueFormat
from kavka.values import frozen

if TYPE_CHECKING:
    import pyarrow as pa

AUTO: Final = "auto"
FORMATS: Final = (AUTO, "json", "text", "bytes")
"""Formats of values; a key has the same without `json`."""
_SAMPLE_BYTES: Final = 4 << 20
_MAX_SAMPLED_PARTITIONS: Final = 16


@frozen
class FormatOptions:
    """Declared formats of topics, and the settings for inferring others."""

    value_format: str = AUTO
    key_format: str = AUTO
    schema_files: Mapping[str, str] = {}
    """By topic; that of the empty name is for every other topic. A message of Protobuf stands behind a `#`."""
    registry: Mapping[str, str] = {}
    """Settings of the schema registry; none without one."""
    sample_records: int = 1000


class TopicFormats(NamedTuple):
    """The formats of one topic."""

    values: ValueFormat
    key_is_text: bool
    value_is_text: bool
    note: str
    """A sentence about where the fields come from."""


def formats_of(topic: str, brokers: Brokers, options: FormatOptions) -> TopicFormats:
    """Return the formats of a topic, from a sample where it is not said. Raise SqlError, SchemaError, OSError."""
    file = options.schema_files.get(topic) or options.schema_files.get("")
    is_plain = file is None and options.value_format in ("text", "bytes")
    sample: list[_Sampled] = []
    if not is_plain or options.key_format == AUTO:
        sample = list(_sample(topic, brokers, options.sample_records))
    values = [one.value for one in sample if one.value is not None]
    key_is_text = _is_text(options.key_format, [one.key for one in sample])
    value_is_text = _is_text(options.value_format, values)
    if is_plain:
        return TopicFormats(
            JsonValues(_no_fields()), key_is_text, value_is_text, "values are not decoded"
        )
    if file is not None:
        from kavka.sql.declared_formats import from_file

        from_schema_file = from_file(file, values)
        return _declared(
            from_schema_file, key_is_text, value_is_text, options, f"fields: from {file}"
        )
    if options.registry:
        from kavka.sql.declared_formats import from_registry

        registered = from_registry(SchemaRegistry(options.registry), topic, values)
        if registered is not None:
            return _declared(registered[0], key_is_text, value_is_text, options, registered[1])
    return _inferred(values, options, key_is_text, value_is_text)


def _declared(
    values: ValueFormat, key_is_text: bool, value_is_text: bool, options: FormatOptions, note: str
) -> TopicFormats:
    """Return the formats of a topic with a schema; what is no JSON text is shown as bytes unless asked for."""
    is_text = value_is_text and (isinstance(values, JsonValues) or options.value_format != AUTO)
    return TopicFormats(values, key_is_text, is_text, note)


def _no_fields() -> pa.Schema:
    import pyarrow as pa

    return pa.schema([])


def _inferred(
    values: list[bytes], options: FormatOptions, key_is_text: bool, value_is_text: bool
) -> TopicFormats:
    """Infer fields from the JSON objects of a sample, where most of its values are such."""
    objects = []
    for value in values:
        try:
            objects.append(parse_object(value))
        except ValueError:
            continue
    is_json = options.value_format == "json" or 2 * len(objects) > len(values)
    schema = infer_schema(objects) if objects and is_json else None
    if schema is not None:
        note = f"fields: inferred from {len(objects)} of its records"
    elif not values:
        note = "no fields: it has no records to infer them from"
    else:
        note = "no fields: its values are no JSON objects"
    return TopicFormats(
        JsonValues(_no_fields() if schema is None else schema), key_is_text, value_is_text, note
    )


def _is_text(given: str, sampled: Sequence[bytes | None]) -> bool:
    """Return whether bytes are shown as text: as is said, else where all of a sample are UTF-8."""
    if given != AUTO:
        return given != "bytes"
    try:
        for sample in sampled:
            if sample is not None:
                sample.decode()
    except UnicodeDecodeError:
        return False
    return True


class _Sampled(NamedTuple):
    key: bytes | None
    value: bytes | None


def _sample(topic: str, brokers: Brokers, count: int) -> Iterator[_Sampled]:
    """Yield keys and values from the ends and the beginnings of partitions, `count` and some megabytes at most."""
    partitions = brokers.partitions(topic)
    if partitions is None:
        raise refused(topic)
    size = 0
    seen = 0
    reader = brokers.read(_sampled_ranges(sorted(partitions), brokers, count), lambda _: None)
    try:
        while seen < count and size < _SAMPLE_BYTES and (next_columns := reader.next_columns()):
            _, columns = next_columns
            for row in range(min(columns.count, count - seen)):
                sample = _Sampled(columns.key.row(row), columns.value.row(row))
                size += len(sample.key or b"") + len(sample.value or b"")
                seen += 1
                yield sample
                if size >= _SAMPLE_BYTES:
                    return
    finally:
        reader.cancel()


def _sampled_ranges(
    partitions: list[TopicPartition], brokers: Brokers, count: int
) -> list[OffsetRange]:
    """Return the newest records of each partition, then the oldest."""
    step = max(1, len(partitions) // _MAX_SAMPLED_PARTITIONS)
    bounds = [one for one in brokers.bounds(partitions) if one.start < one.end]
    bounds = bounds[::step]
    each = max(1, count // max(1, 2 * len(bounds)))
    newest = [one._replace(start=max(one.start, one.end - each)) for one in bounds]
    oldest = [
        one._replace(end=min(one.start + each, last.start))
        for one, last in zip(bounds, newest, strict=True)
    ]
    return [one for one in (*newest, *oldest) if one.start < one.end]
