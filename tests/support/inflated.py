"""The largest requests that fit into a frame: every array of every message filled with as much as goes in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from kavka.wire.codec import encode
from kavka.wire.frame import encode_request
from kavka.wire.schema import Field, Kind, ListOf, fields_of

TOPIC = "t"
"""Exists, with two partitions, when names are to be known."""


class Inflated(NamedTuple):
    """A frame, and what is in it."""

    title: str
    frame: bytes
    count: int  # type: ignore[assignment]


def inflated(cls: type, version: int, size: int) -> Iterator[Inflated]:
    """Yield frames of about `size` bytes: each array in turn with many elements, all different or all the same.

    The same are tried of the outermost arrays only.
    """
    for path in array_paths(cls, version):
        for distinct in (True, False)[: 2 if len(path) == 1 else 1]:
            message, count = _filled(cls, version, path, size, distinct=distinct)
            name = ".".join(each.name for each in path)
            kind = "different" if distinct else "same"
            frame = b"".join(map(bytes, encode_request(message, version, 7, "c")))  # type: ignore[arg-type]
            yield Inflated(f"{cls.__name__} v{version} {name} {count} {kind}", frame, count)


def array_paths(cls: type, version: int) -> Iterator[tuple[Field, ...]]:
    """Yield the way to each array of a message, as the fields that lead to it."""
    for each in fields_of(cls):
        if version not in each.versions:
            continue
        if isinstance(each.type, ListOf):
            yield (each,)
            if not isinstance(each.type.item, Kind):
                for rest in array_paths(each.type.item, version):
                    yield (each, *rest)
        elif not isinstance(each.type, Kind):
            for rest in array_paths(each.type, version):
                yield (each, *rest)


def _filled(
    cls: type, version: int, path: tuple[Field, ...], size: int, *, distinct: bool
) -> tuple[Any, int]:
    """Return a message whose array at `path` has as many elements as fit into `size`, and how many these are."""
    few = _made(cls, version, path, 1000, distinct=distinct)
    none = _made(cls, version, path, 0, distinct=distinct)
    each = max(1.0, (_length(few, version) - _length(none, version)) / 1000)
    count = int(size / (each + (2 if distinct else 0)))
    return _made(cls, version, path, count, distinct=distinct), count


def _length(message: Any, version: int) -> int:
    return sum(len(part) for part in encode(message, version))  # type: ignore[arg-type, misc]


def _made(cls: type, version: int, path: tuple[Field, ...], count: int, *, distinct: bool) -> Any:
    first, *rest = path
    made = _known(cls, version)
    if rest:
        inner = first.type.item if isinstance(first.type, ListOf) else first.type
        assert isinstance(inner, type)
        one = _made(inner, version, tuple(rest), count, distinct=distinct)
        setattr(made, first.name, [one] if isinstance(first.type, ListOf) else one)
    else:
        assert isinstance(first.type, ListOf)
        setattr(made, first.name, _elements(first.type.item, version, count, distinct=distinct))
    return made


def _elements(item: Kind | type, version: int, count: int, *, distinct: bool) -> list[Any]:
    if isinstance(item, Kind):
        if not distinct:
            return [item.zero] * count
        if item.name == "string":
            return [f"{n:x}" for n in range(count)]
        if item.name == "uuid":
            return [n.to_bytes(16, "big") for n in range(count)]
        most = 1 << (8 * {"b": 1, "h": 2, "i": 4, "q": 8}.get(item.format, 1) - 1)
        return [n % most for n in range(count)]
    if not distinct:
        return [_known(item, version)] * count
    return [_numbered(item, version, n) for n in range(count)]


def _known(cls: type, version: int) -> Any:
    """Return an object with existing names, as far as the fields' names allow."""
    made = cls()
    for each in fields_of(cls):
        if version not in each.versions or not isinstance(each.type, Kind):
            continue
        if each.type.name == "string" and each.name in ("name", "topic", "topic_name"):
            setattr(made, each.name, TOPIC)
        elif each.type.name == "string" and getattr(made, each.name) is None:
            if version not in each.nullable:
                setattr(made, each.name, "")
        elif each.name == "acks":
            setattr(made, each.name, 1)  # without there would be no response
    return made


def _numbered(cls: type, version: int, n: int) -> Any:
    """Return an object that differs from those of other numbers in its first text and its first number."""
    made = cls()
    has_text = has_number = False
    for each in fields_of(cls):
        if version not in each.versions or not isinstance(each.type, Kind):
            continue
        if each.type.name == "string" and not has_text:
            setattr(made, each.name, f"{n:x}")
            has_text = True
        elif each.type.format in ("i", "q") and not has_number and not has_text:
            setattr(made, each.name, n)
            has_number = True
        elif each.type.name == "uuid" and not has_text:
            setattr(made, each.name, n.to_bytes(16, "big"))
    return made
