"""Values for every message in every version, from one strategy that follows the declarations."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from kavka.wire.apis import APIS
from kavka.wire.consumer_protocol import Assignment, Subscription
from kavka.wire.schema import Field, Kind, ListOf, fields_of, schema_of
from kavka.wire.stored import offsets, transactions

STORED = [
    offsets.OffsetCommitKey,
    offsets.OffsetCommitValue,
    offsets.GroupMetadataKey,
    offsets.GroupMetadataValue,
    transactions.TransactionLogKey,
    transactions.TransactionLogValue,
]
MESSAGES = [cls for api in APIS.values() for cls in (api.request(), api.response())] + [
    *STORED,
    Subscription,
    Assignment,
]
MESSAGE_VERSIONS = [(cls, version) for cls in MESSAGES for version in schema_of(cls).versions]

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
PRIMITIVES: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "float64": st.floats(allow_nan=False),
    "uuid": st.binary(min_size=16, max_size=16),
    "string": TEXT | TEXT.map(lambda text: text * 20),
    "bytes": st.binary(max_size=40) | st.binary(max_size=8).map(lambda data: data * 30),
    "records": st.binary(max_size=40)
    | st.binary(min_size=1, max_size=4).map(lambda data: data * 5000),
    **{
        f"int{bits}": st.integers(-(1 << bits - 1), (1 << bits - 1) - 1) for bits in (8, 16, 32, 64)
    },
    **{f"uint{bits}": st.integers(0, (1 << bits) - 1) for bits in (16, 32)},
}


def values(cls: type, version: int) -> st.SearchStrategy[Any]:
    """Objects of `cls` that `version` can say; fields that it lacks keep their defaults."""
    present = [each for each in fields_of(cls) if version in each.versions]
    return st.builds(cls, **{each.name: _field_values(each, version) for each in present})


def _field_values(each: Field, version: int) -> st.SearchStrategy[Any]:
    made = _type_values(each.type, version)
    return st.none() | made if version in each.nullable else made


def _type_values(wire_type: Kind | ListOf | type, version: int) -> st.SearchStrategy[Any]:
    if isinstance(wire_type, ListOf):
        return st.lists(_type_values(wire_type.item, version), max_size=3)
    if isinstance(wire_type, Kind):
        return PRIMITIVES[wire_type.name]
    return values(wire_type, version)


SAMPLES: dict[str, Any] = {
    "bool": True,
    "float64": 1.5,
    "uuid": bytes(range(16)),
    "string": "text",
    "bytes": b"bytes",
    "records": b"records" * 3,
}


def sample(cls: type, version: int) -> Any:
    """An object of `cls` in which every field that `version` has says something."""
    present = [each for each in fields_of(cls) if version in each.versions]
    return cls(**{each.name: _sample_of(each.type, version) for each in present})


def _sample_of(wire_type: Kind | ListOf | type, version: int) -> Any:
    if isinstance(wire_type, ListOf):
        return [_sample_of(wire_type.item, version) for _ in range(2)]
    if isinstance(wire_type, Kind):
        return SAMPLES.get(wire_type.name, 3)
    return sample(wire_type, version)
