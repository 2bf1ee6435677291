"""Messages of Protobuf as rows of plain values, and back; and the Arrow types of their fields."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from kavka.client.schemas.errors import PayloadError

if TYPE_CHECKING:
    import pyarrow as pa

_MAX_DEPTH: Final = 16
_TIMESTAMP: Final = "google.protobuf.Timestamp"
_WRAPPERS: Final = frozenset(
    f"google.protobuf.{kind}Value"
    for kind in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND: Final = datetime.timedelta(microseconds=1)
Row = Callable[[Any], Any]


def message_fields(descriptor: Any) -> list[tuple[str, pa.DataType]]:
    """Return the names and types of the fields of a message as columns."""
    return [(one.name, _field_type(one, 0)) for one in descriptor.fields]


def row_of(descriptor: Any) -> Row:
    """Return what makes a dictionary of a message."""
    return _row_of(descriptor, 0)


def _is_repeated(field: Any) -> bool:
    return bool(field.is_repeated)


def _is_map(field: Any) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _field_type(field: Any, depth: int) -> pa.DataType:
    import pyarrow as pa

    if _is_map(field):
        key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        return pa.map_(_one_type(key, depth), _one_type(value, depth))
    kind = _one_type(field, depth)
    return pa.list_(kind) if _is_repeated(field) else kind


def _one_type(field: Any, depth: int) -> pa.DataType:
    import pyarrow as pa

    message = field.message_type
    if message is None:
        return {
            field.CPPTYPE_INT32: pa.int32(), field.CPPTYPE_INT64: pa.int64(),
            field.CPPTYPE_UINT32: pa.uint32(), field.CPPTYPE_UINT64: pa.uint64(),
            field.CPPTYPE_DOUBLE: pa.float64(), field.CPPTYPE_FLOAT: pa.float32(),
            field.CPPTYPE_BOOL: pa.bool_(), field.CPPTYPE_ENUM: pa.string(),
        }.get(field.cpp_type, pa.binary() if field.type == field.TYPE_BYTES else pa.string())  # fmt: skip
    if message.full_name == _TIMESTAMP:
        return pa.timestamp("us", "UTC")
    if message.full_name in _WRAPPERS:
        return _one_type(message.fields_by_name["value"], depth)
    if depth > _MAX_DEPTH or not message.fields or _is_recursive(message):
        return pa.string()
    return pa.struct([(one.name, _field_type(one, depth + 1)) for one in message.fields])


def _is_recursive(message: Any) -> bool:
    """Return whether a message can contain itself: such a field is text."""
    seen: set[str] = set()
    waiting = [message]
    while waiting:
        for field in waiting.pop().fields:
            inner = field.message_type
            if inner is None:
                continue
            if inner.full_name == message.full_name:
                return True
            if inner.full_name not in seen:
                seen.add(inner.full_name)
                waiting.append(inner)
    return False


def _row_of(descriptor: Any, depth: int) -> Row:
    """Return what makes a dictionary of a message."""
    parts = [(one.name, one.has_presence, _value_of(one, depth)) for one in descriptor.fields]

    def row(message: Any) -> dict[str, Any]:
        return {
            name: None
            if has_presence and not message.HasField(name)
            else value(getattr(message, name))
            for name, has_presence, value in parts
        }

    return row


def _value_of(field: Any, depth: int) -> Row:
    if _is_map(field):
        one = _item_of(field.message_type.fields_by_name["value"], depth)
        return lambda found: {key: one(found[key]) for key in found}
    item = _item_of(field, depth)
    if _is_repeated(field):
        return lambda found: [item(value) for value in found]
    return item


def _item_of(field: Any, depth: int) -> Row:
    message = field.message_type
    if message is None:
        if field.enum_type is None:
            return _same
        names = {number: one.name for number, one in field.enum_type.values_by_number.items()}
        return lambda number: names.get(number, str(number))
    if message.full_name == _TIMESTAMP:
        return _moment
    if message.full_name in _WRAPPERS:
        return lambda wrapper: wrapper.value
    if depth > _MAX_DEPTH or not message.fields or _is_recursive(message):
        return _json_text
    return _row_of(message, depth + 1)


def _same(value: Any) -> Any:
    return value


def _moment(stamp: Any) -> datetime.datetime:
    return _EPOCH + datetime.timedelta(seconds=stamp.seconds, microseconds=stamp.nanos // 1000)


def _json_text(message: Any) -> str:
    from google.protobuf import json_format

    return str(json_format.MessageToJson(message, indent=None, preserving_proto_field_name=True))


# From rows to messages


def fill_message(message: Any, row: Mapping[str, Any], depth: int = 0) -> None:
    """Set the fields of a message from a row; None leaves one unset. Raise PayloadError for what does not fit."""
    fields = message.DESCRIPTOR.fields_by_name
    for name, value in row.items():
        field = fields.get(name)
        if field is None:
            raise PayloadError(f"the message {message.DESCRIPTOR.full_name} has no field {name}")
        if value is None:
            continue
        try:
            _set(message, field, value, depth)
        except (TypeError, ValueError, AttributeError, KeyError) as error:
            if isinstance(error, PayloadError):
                raise
            raise PayloadError(f"field {name} is {value!r:.60}: {error}") from error


def _set(message: Any, field: Any, value: Any, depth: int) -> None:
    if _is_map(field):
        _set_map(getattr(message, field.name), field, value, depth)
    elif not _is_repeated(field):
        if field.message_type is None:
            setattr(message, field.name, _scalar(field, value))
        else:
            inner = getattr(message, field.name)
            inner.SetInParent()
            _set_message(inner, value, depth)
    elif field.message_type is None:
        getattr(message, field.name).extend(_scalar(field, one) for one in value)
    else:
        for one in value:
            _set_message(getattr(message, field.name).add(), one, depth)


def _set_map(entries: Any, field: Any, value: Any, depth: int) -> None:
    kind = field.message_type.fields_by_name["value"]
    for key, one in value.items():
        if kind.message_type is None:
            entries[key] = _scalar(kind, one)
        else:
            _set_message(entries[key], one, depth)


def _set_message(message: Any, value: Any, depth: int) -> None:
    descriptor = message.DESCRIPTOR
    if descriptor.full_name == _TIMESTAMP:
        moment = value if value.tzinfo else value.replace(tzinfo=datetime.UTC)
        seconds, micros = divmod((moment - _EPOCH) // _MICROSECOND, 1_000_000)
        message.seconds, message.nanos = seconds, micros * 1000
    elif descriptor.full_name in _WRAPPERS:
        message.value = value
    elif isinstance(value, str):
        from google.protobuf import json_format

        try:
            json_format.Parse(value, message)
        except json_format.ParseError as error:
            raise ValueError(str(error)) from error
    else:
        fill_message(message, value, depth + 1)


def _scalar(field: Any, value: Any) -> Any:
    """Return a value as its field takes it: numbers of enums for their names, whole numbers for decimal ones."""
    if field.enum_type is not None and isinstance(value, str):
        known = field.enum_type.values_by_name.get(value)
        return int(value) if known is None else known.number
    if field.cpp_type == field.CPPTYPE_UINT64 and not isinstance(value, int):
        return int(value)
    return value
