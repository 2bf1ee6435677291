"""The declarations of messages beside the schemas of kafka-python."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from kavka.wire.apis import APIS, ApiKey
from kavka.wire.schema import FRESH, Field, Kind, ListOf, fields_of, schema_of, version_range

with warnings.catch_warnings():
    # kafka-python reads its schemas by a call that Python 3.11 deprecates.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka.protocol.schemas


def _their_schema(name: str) -> dict[str, Any] | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            found: dict[str, Any] = kafka.protocol.schemas.load_json(name)
    except FileNotFoundError:
        return None
    return found


DECLARED = [cls for api in APIS.values() for cls in (api.request(), api.response())]


BETWEEN_BROKERS = {
    ApiKey.LEADER_AND_ISR,
    ApiKey.STOP_REPLICA,
    ApiKey.UPDATE_METADATA,
    ApiKey.CONTROLLED_SHUTDOWN,
    ApiKey.ALTER_PARTITION,
    ApiKey.ALLOCATE_PRODUCER_IDS,
}
"""APIs that no client uses; `wire/test_apache_bytes.py` compares them with Apache Kafka itself."""


LACKING = BETWEEN_BROKERS | {
    ApiKey.CREATE_DELEGATION_TOKEN,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
}
"""APIs that kafka-python does not have."""
COMMON = [cls for cls in DECLARED if schema_of(cls).api_key not in LACKING]


def test_kafka_python_has_all_but_those_between_brokers_and_of_tokens() -> None:
    lacking = {schema_of(cls).api_key for cls in DECLARED if _their_schema(cls.__name__) is None}
    assert lacking == LACKING


@pytest.mark.parametrize("cls", COMMON, ids=[cls.__name__ for cls in COMMON])
def test_declarations_agree_with_the_schemas_of_kafka_python(cls: type) -> None:
    theirs = _their_schema(cls.__name__)
    assert theirs is not None
    versions = [v for v in schema_of(cls).versions if v in version_range(theirs["validVersions"])]
    structs = {each["name"]: each["fields"] for each in theirs.get("commonStructs", ())}
    assert versions
    for version in versions:
        assert (version in schema_of(cls).flexible) == (
            version in version_range(theirs["flexibleVersions"])
        )
        _compare(cls, theirs["fields"], structs, version)


def _compare(
    cls: type, theirs: list[dict[str, Any]], structs: dict[str, Any], version: int
) -> None:
    ours = [each for each in fields_of(cls) if version in each.versions]
    others = [each for each in theirs if version in version_range(each["versions"])]
    assert [each.name.replace("_", "") for each in ours] == [o["name"].lower() for o in others]
    for each, other in zip(ours, others, strict=True):
        _compare_field(each, other, structs, version)


def _compare_field(
    each: Field, other: dict[str, Any], structs: dict[str, Any], version: int
) -> None:
    assert (version in each.nullable) == (
        version in version_range(other.get("nullableVersions", "none"))
    )
    assert each.tag == other.get("tag")
    is_everywhere = each.versions == version_range("0+")
    assert is_everywhere or each.ignorable == other.get("ignorable", False)
    item = each.type.item if isinstance(each.type, ListOf) else each.type
    assert isinstance(each.type, ListOf) == other["type"].startswith("[]")
    name = other["type"].removeprefix("[]")
    if isinstance(item, Kind):
        assert item.name == name
    else:
        _compare(item, other.get("fields") or structs[name], structs, version)
    _compare_default(each, other)


def _compare_default(each: Field, other: dict[str, Any]) -> None:
    theirs = other.get("default")
    if theirs is None:
        # Kafka's default of a text that can be null is often empty; ours is None, which is as legal.
        assert each.default in (FRESH, None) or each.default == each.type.zero
        return
    ours = {None: "null", True: "true", False: "false"}.get(each.default, str(each.default))
    assert ours == str(theirs).lower() or int(str(theirs), 0) == each.default


def test_keys_are_those_of_kafka_python() -> None:
    for cls in COMMON:
        theirs = _their_schema(cls.__name__)
        assert theirs is not None
        assert theirs["apiKey"] == schema_of(cls).api_key
