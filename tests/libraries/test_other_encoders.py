"""The same values give the same bytes as kafka-python's and aiokafka's encoders."""

from __future__ import annotations

import importlib
import pkgutil
import uuid
import warnings
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from kavka.wire.apis import APIS
from kavka.wire.codec import encode
from kavka.wire.schema import Kind, ListOf, fields_of, schema_of, version_range
from support.wire_values import values

QUICK = settings(
    max_examples=4,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
)


def _all_subclasses(cls: type) -> Iterator[Any]:
    for each in cls.__subclasses__():  # type: ignore[var-annotated]
        yield each
        yield from _all_subclasses(each)


def _import_all(name: str) -> None:
    package = importlib.import_module(name)
    for found in pkgutil.walk_packages(package.__path__, name + "."):
        importlib.import_module(found.name)


with warnings.catch_warnings():
    # kafka-python reads its schemas by a call that Python 3.11 deprecates.
    warnings.simplefilter("ignore", DeprecationWarning)
    for _package in ("admin", "consumer", "metadata", "producer", "old"):
        _import_all(f"kafka.protocol.{_package}")
    importlib.import_module("kafka.protocol.sasl")
    _import_all("aiokafka.protocol")
    from aiokafka.protocol.api import RequestStruct, Response
    from kafka.protocol.api_message import ApiMessage
    from kafka.protocol.old.struct import Struct as OldStruct


def _ours(key: int, name: str) -> type | None:
    if key not in APIS:
        return None
    return APIS[key].request() if "Request" in name else APIS[key].response()


def _joined(message: object, version: int) -> bytes:
    return b"".join(encode(message, version))  # type: ignore[arg-type]


# kafka-python: messages with named fields, in the versions of Kafka 4


KAFKA_PYTHON = {
    each.name: each for each in _all_subclasses(ApiMessage) if getattr(each, "_json", None)
}
COMMON = [
    (cls, version)
    for api in APIS.values()
    for cls in (api.request(), api.response())
    if cls.__name__ in KAFKA_PYTHON
    for version in schema_of(cls).versions
    if version in version_range(KAFKA_PYTHON[cls.__name__].json["validVersions"])
]


def _squeezed(name: str) -> str:
    return name.replace("_", "").lower()


def _as_kafka_python(message: Any, struct: Any, version: int) -> SimpleNamespace:
    """Return the fields of ours under their names; tagged fields only where they say something."""
    their_fields = {_squeezed(each.name): each for each in struct._fields}
    named = {}
    for each in fields_of(type(message)):  # type: ignore[arg-type]
        value = getattr(message, each.name)
        if version not in each.versions or (each.tag is not None and value == each.new_default()):
            continue
        name = _squeezed(each.name)
        if name.endswith("authorizedoperations"):
            name = "authorizedoperations" if "authorizedoperations" in their_fields else name
        their_field = their_fields[name]
        named[their_field.name] = _as_their_value(value, each.type, their_field, version)
    return SimpleNamespace(**named)


def _as_their_value(
    value: Any, wire_type: Kind | ListOf | type, their_field: Any, version: int
) -> Any:
    if isinstance(value, list) and isinstance(wire_type, ListOf):
        return [_as_their_value(one, wire_type.item, their_field, version) for one in value]
    if hasattr(type(value), "__schema__"):
        return _as_kafka_python(value, their_field, version)
    if isinstance(wire_type, Kind) and wire_type.name == "uuid":
        return uuid.UUID(bytes=value)
    return _bits(value) if their_field._json["type"] == "bitfield" else value


def _bits(value: int) -> set[int]:
    return {bit for bit in range(32) if value >> bit & 1}


@pytest.mark.parametrize(
    ("cls", "version"), COMMON, ids=[f"{cls.__name__}-{version}" for cls, version in COMMON]
)
def test_bytes_equal_those_of_kafka_python(cls: type, version: int) -> None:
    struct = KAFKA_PYTHON[cls.__name__]._struct
    is_flexible = version in schema_of(cls).flexible

    @QUICK
    @given(values(cls, version))
    def check(message: Any) -> None:
        named = _as_kafka_python(message, struct, version)
        made = struct.encode(named, version=version, compact=is_flexible, tagged=is_flexible)
        assert made == _joined(message, version)

    check()


# aiokafka and the old half of kafka-python: a schema per version, values by position


# What these libraries get wrong, as a broker of Apache Kafka would notice, or describe in another shape.
LEFT_OUT = {
    ("aiokafka", "CreatePartitionsRequest", 0),  # right, but a structure deeper
    ("aiokafka", "CreatePartitionsRequest", 1),
    ("kafka-python", "CreatePartitionsRequest", 0),
    ("kafka-python", "CreatePartitionsRequest", 1),
    ("aiokafka", "ListOffsetsRequest", 4),  # the leader epoch has 8 bytes
    ("aiokafka", "ListOffsetsRequest", 5),
    ("aiokafka", "DescribeAclsRequest", 2),  # not flexible
    ("aiokafka", "DescribeAclsResponse", 2),
    ("kafka-python", "DescribeAclsRequest", 2),
    ("kafka-python", "DescribeAclsResponse", 2),
    ("kafka-python", "DescribeLogDirsRequest", 0),  # one partition in place of an array
}


def _positional() -> Iterator[tuple[str, type, int, Any]]:
    bases = {"aiokafka": (RequestStruct, Response), "kafka-python": (OldStruct,)}
    for library, structs in bases.items():
        for each in {one for base in structs for one in _all_subclasses(base)}:
            key, version = getattr(each, "API_KEY", None), getattr(each, "API_VERSION", None)
            if not isinstance(key, int) or not isinstance(version, int):
                continue
            ours = _ours(key, each.__name__)
            if ours is None or version not in schema_of(ours).versions:
                continue
            if (library, ours.__name__, version) not in LEFT_OUT:
                yield library, ours, version, each.SCHEMA


POSITIONAL = sorted(_positional(), key=lambda row: (row[0], row[1].__name__, row[2]))


def _by_position(message: Any, version: int, schema: Any) -> tuple[Any, ...]:
    present = [e for e in fields_of(type(message)) if version in e.versions and e.tag is None]  # type: ignore[arg-type]
    assert len(schema.fields) - len(present) in (0, 1)
    row = [
        _positional_value(getattr(message, each.name), version, their_type)
        for each, their_type in zip(present, schema.fields, strict=False)
    ]
    return (*row, {}) if len(schema.fields) > len(present) else tuple(row)


def _positional_value(value: Any, version: int, their_type: Any) -> Any:
    if isinstance(value, list):
        return [_positional_value(one, version, their_type.array_of) for one in value]
    if hasattr(type(value), "__schema__"):
        if hasattr(their_type, "fields"):
            return _by_position(value, version, their_type)
        (only,) = (each for each in fields_of(type(value)) if version in each.versions)  # type: ignore[arg-type]
        return _positional_value(getattr(value, only.name), version, their_type)
    return _bits(value) if getattr(their_type, "__name__", "") == "BitField" else value


def _without_tags(value: Any) -> Any:
    """Put the defaults back into tagged fields, which these schemas do not have."""
    for each in fields_of(type(value)):  # type: ignore[arg-type]
        if each.tag is not None:
            setattr(value, each.name, each.new_default())
        held = getattr(value, each.name)
        for one in held if isinstance(held, list) else [held]:
            if hasattr(type(one), "__schema__"):
                _without_tags(one)
    return value


@pytest.mark.parametrize(
    ("library", "cls", "version", "schema"),
    POSITIONAL,
    ids=[f"{library}-{cls.__name__}-{version}" for library, cls, version, _ in POSITIONAL],
)
def test_bytes_equal_those_of_schemas_by_position(
    library: str, cls: type, version: int, schema: Any
) -> None:
    @QUICK
    @given(values(cls, version).map(_without_tags))
    def check(message: Any) -> None:
        row = _by_position(message, version, schema)
        assert schema.encode(row) == _joined(message, version)

    check()
