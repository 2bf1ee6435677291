"""JSON without a schema registry: of dictionaries and lists, dataclasses, and models of pydantic. Pure.

Pydantic is not imported: its models and `TypeAdapter`s are known by their methods. Dataclasses are taken apart and
made here, with or without pydantic.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import functools
import json
import types
import typing
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, TypeVar, overload

T = TypeVar("T")

_MISSING: Final = object()


class PlainJsonSerializer:
    """Writes JSON in UTF-8; None stays null, which deletes a key from a compacted topic.

    Takes what `json` takes, dataclasses, models of pydantic (by `model_dump_json`), dates and times (ISO 8601), UUIDs,
    decimals (as text) and members of enums (their values), at any depth.
    """

    def __call__(self, value: Any) -> bytes | None:
        """Return the bytes of a value. Raise TypeError, ValueError for what JSON cannot say, NaN among it."""
        if value is None:
            return None
        dump = getattr(value, "model_dump_json", None)
        if dump is not None:
            text: str = dump()
            return text.encode()
        return json.dumps(
            value, default=_plain, ensure_ascii=False, allow_nan=False, separators=(",", ":")
        ).encode()


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, uuid.UUID | decimal.Decimal):
        return str(value)
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, set | frozenset):
        return list(value)
    raise TypeError(f"JSON has no {type(value).__name__}")


class PlainJsonDeserializer(Generic[T]):
    """Reads JSON, as dictionaries and lists, or as values of a type: a dataclass or a model of pydantic.

    A dataclass is made with its fields by their annotations: fields without a value need a default, unknown ones are
    left out. Other types (`list[Order]`, unions) go as a `pydantic.TypeAdapter`.
    """

    @overload
    def __init__(self: PlainJsonDeserializer[Any]) -> None: ...

    @overload
    def __init__(self, into: type[T]) -> None: ...

    @overload
    def __init__(self: PlainJsonDeserializer[Any], into: Any) -> None: ...

    def __init__(self, into: Any = None) -> None:
        """Take the type, None for what JSON has. Raise TypeError for one that is neither of these."""
        self._read: Callable[[bytes], Any]
        if into is None:
            self._read = json.loads
        elif hasattr(into, "model_validate_json"):
            self._read = into.model_validate_json
        elif hasattr(into, "validate_json"):
            self._read = into.validate_json
        elif isinstance(into, type) and dataclasses.is_dataclass(into):
            self._read = lambda data: _made(into, json.loads(data), into.__name__)
        else:
            raise TypeError(
                f"{into!r} is neither a dataclass nor a model of pydantic: give pydantic.TypeAdapter of it"
            )

    def __call__(self, data: bytes | None) -> T | None:
        """Return the value; None stays None. Raise ValueError, TypeError; pydantic's errors are ValueErrors."""
        if data is None:
            return None
        made: T = self._read(data)
        return made


_FROM_TEXT: Final[dict[Any, Callable[[str], Any]]] = {
    datetime.datetime: datetime.datetime.fromisoformat,
    datetime.date: datetime.date.fromisoformat,
    datetime.time: datetime.time.fromisoformat,
    uuid.UUID: uuid.UUID,
    decimal.Decimal: decimal.Decimal,
}


def _made(into: Any, given: Any, where: str) -> Any:
    """Return a value of a type; `where` names it in errors."""
    origin, arguments = typing.get_origin(into), typing.get_args(into)
    if into in (Any, object) or isinstance(into, TypeVar):
        return given
    if origin in (typing.Union, types.UnionType):
        return _made_one_of(arguments, given, where)
    if origin is typing.Annotated:
        return _made(arguments[0], given, where)
    if origin is typing.Literal:
        return _checked(given in arguments, given, into, where)
    if origin is not None:
        return _made_collection(origin, arguments, given, where)
    if dataclasses.is_dataclass(into):
        return _made_dataclass(into, given, where)
    return _made_scalar(into, given, where)


def _made_scalar(into: Any, given: Any, where: str) -> Any:
    try:
        if into in _FROM_TEXT:
            return _FROM_TEXT[into](_checked(isinstance(given, str), given, into, where))
        if isinstance(into, type) and issubclass(into, enum.Enum):
            return into(given)
    except (ValueError, decimal.InvalidOperation) as error:
        raise ValueError(f"{where}: {error}") from error
    if into is float and type(given) is int:
        return float(given)
    if into is None:
        return _checked(given is None, given, into, where)
    is_it = isinstance(given, into) and (into is bool or not isinstance(given, bool))
    return _checked(is_it, given, into, where)


def _made_dataclass(into: Any, given: Any, where: str) -> Any:
    _checked(isinstance(given, Mapping), given, into, where)
    hints = _hints(into)
    values = {}
    for field in dataclasses.fields(into):
        value = given.get(field.name, _MISSING)
        if value is not _MISSING and field.init:
            values[field.name] = _made(hints[field.name], value, f"{where}.{field.name}")
    try:
        return into(**values)
    except TypeError as error:
        raise ValueError(f"{where}: {error}") from error


@functools.cache
def _hints(into: Any) -> dict[str, Any]:
    return typing.get_type_hints(into, include_extras=True)


def _made_one_of(choices: tuple[Any, ...], given: Any, where: str) -> Any:
    reasons = []
    for choice in choices:
        try:
            return _made(choice, given, where)
        except (ValueError, TypeError) as error:
            reasons.append(str(error))
    raise ValueError("; ".join(reasons))


def _made_collection(origin: Any, arguments: tuple[Any, ...], given: Any, where: str) -> Any:
    if isinstance(origin, type) and issubclass(origin, Mapping):
        _checked(isinstance(given, Mapping), given, origin, where)
        return {key: _made(arguments[1], one, f"{where}[{key!r}]") for key, one in given.items()}
    _checked(isinstance(given, list), given, origin, where)
    if origin is tuple and arguments[-1] is not Ellipsis:
        if len(arguments) != len(given):
            raise ValueError(f"{where}: {len(given)} items, not {len(arguments)}")
        each = list(arguments)
    else:
        each = [arguments[0]] * len(given)
    made = [
        _made(kind, one, f"{where}[{n}]")
        for n, (kind, one) in enumerate(zip(each, given, strict=True))
    ]
    return (
        made
        if not isinstance(origin, type) or origin not in (tuple, set, frozenset)
        else origin(made)
    )


def _checked(is_it: bool, given: Any, into: Any, where: str) -> Any:
    if not is_it:
        raise ValueError(f"{where}: {given!r:.60} is no {getattr(into, '__name__', into)}")
    return given
