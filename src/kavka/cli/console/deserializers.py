"""Bytes of keys and values as the text that Java's deserializers would print. Pure."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from math import isnan
from struct import Struct

Deserializer = Callable[[bytes], bytes]
"""Turns bytes into what is printed, in UTF-8. Raise DeserializationFailed."""


class DeserializationFailed(Exception):
    """The bytes are not what the deserializer is for; the text is Kafka's."""


def deserializer_of(name: str) -> Deserializer | None:
    """Return the deserializer of a class, by its full or simple Java name; None when there is none of the name."""
    simple = name.rpartition(".")[2].removesuffix("Deserializer")
    return _DESERIALIZERS.get(simple)


def java_double(value: float) -> str:
    """Return a number as `Double.toString`: plain from 0.001 to 10 million, else with an exponent."""
    if isnan(value):
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    return _java_number(repr(value), value)


def _java_float(value: float) -> str:
    """Return a number of 32 bits as `Float.toString`: the fewest digits that distinguish it from its neighbours."""
    if isnan(value) or value in (float("inf"), float("-inf")):
        return java_double(value)
    for digits in range(1, 10):
        shown = f"{value:.{digits}g}"
        if _FLOAT.unpack(_FLOAT.pack(float(shown)))[0] == value:
            break
    return _java_number(repr(float(shown)), value)


def _java_number(shortest: str, value: float) -> str:
    size = abs(value)
    if size == 0 or 1e-3 <= size < 1e7:
        return shortest
    sign = "-" if value < 0 else ""
    mantissa, _, exponent = shortest.lstrip("-").partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    leading = len(whole) if whole.strip("0") else -(len(fraction) - len(fraction.lstrip("0")))
    power = leading - 1 + int(exponent or 0)
    digits = digits.rstrip("0") or "0"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{power}"


_FLOAT = Struct(">f")
_DOUBLE = Struct(">d")


def _text(content: bytes) -> bytes:
    return content.decode(errors="replace").encode()


def _same(content: bytes) -> bytes:
    return content


def _whole(name: str, width: int) -> Deserializer:
    def deserialize(content: bytes) -> bytes:
        if len(content) != width:
            raise DeserializationFailed(
                f"Size of data received by {name}Deserializer is not {width}"
            )
        return b"%d" % int.from_bytes(content, "big", signed=True)

    return deserialize


def _double(content: bytes) -> bytes:
    if len(content) != 8:
        raise DeserializationFailed("Size of data received by Deserializer is not 8")
    return java_double(_DOUBLE.unpack(content)[0]).encode()


def _float(content: bytes) -> bytes:
    if len(content) != 4:
        raise DeserializationFailed("Size of data received by Deserializer is not 4")
    return _java_float(_FLOAT.unpack(content)[0]).encode()


def _boolean(content: bytes) -> bytes:
    if content not in (b"\0", b"\1"):
        raise DeserializationFailed("Unexpected byte received by BooleanDeserializer")
    return b"true" if content == b"\1" else b"false"


def _uuid(content: bytes) -> bytes:
    try:
        return str(uuid.UUID(content.decode())).encode()
    except ValueError as error:
        raise DeserializationFailed("Error parsing data into UUID") from error


_DESERIALIZERS: dict[str, Deserializer] = {
    "String": _text,
    "Integer": _whole("Integer", 4),
    "Long": _whole("Long", 8),
    "Short": _whole("Short", 2),
    "Double": _double,
    "Float": _float,
    "Boolean": _boolean,
    "UUID": _uuid,
    "ByteArray": _same,
    "ByteBuffer": _same,
    "Bytes": _same,
}
