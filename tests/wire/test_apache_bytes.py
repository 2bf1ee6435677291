"""Every message in every version has the bytes of Apache Kafka 3.9, and every stored record those of 4.1.

`golden/ask_apache.py` asked them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kavka.wire.apis import APIS
from kavka.wire.codec import decode, encode
from kavka.wire.schema import fields_of, schema_of
from kavka.wire.stored import offsets, transactions

Sample = Callable[[type, int], Any]
STORED = (
    offsets.OffsetCommitKey,
    offsets.OffsetCommitValue,
    offsets.GroupMetadataKey,
    offsets.GroupMetadataValue,
    transactions.TransactionLogKey,
    transactions.TransactionLogValue,
)
CLASSES: dict[str, type] = {
    cls.__name__: cls
    for cls in (*STORED, *(one for api in APIS.values() for one in (api.request(), api.response())))
}


def _golden(name: str) -> dict[tuple[str, int], bytes]:
    text = (Path(__file__).parent / "golden" / name).read_text()
    rows = [line.split() for line in text.splitlines() if not line.startswith("#")]
    return {(name, int(version)): bytes.fromhex("".join(data)) for name, version, *data in rows}


GOLDEN = _golden("apache_3_9.txt")
GOLDEN_STORED = _golden("apache_4_1.txt")


def test_apache_kafka_was_asked_for_every_version_of_every_message() -> None:
    ours = {
        (cls.__name__, version)
        for api in APIS.values()
        for cls in (api.request(), api.response())
        for version in range(api.min_version, api.max_version + 1)
    }
    assert set(GOLDEN) == ours
    stored = {(cls.__name__, version) for cls in STORED for version in schema_of(cls).versions}
    assert set(GOLDEN_STORED) == stored


ALL = {**GOLDEN, **GOLDEN_STORED}
NEWER = {"TransactionLogValue": ("next_producer_epoch",)}
"""Fields that 4.1 does not have; a tagged field is not in the bytes while it has its default."""


@pytest.mark.parametrize(("name", "version"), ALL, ids=[f"{n}-{v}" for n, v in ALL])
def test_bytes_equal_those_of_apache_kafka(name: str, version: int, wire_sample: Sample) -> None:
    message = wire_sample(CLASSES[name], version)
    for each in fields_of(CLASSES[name]):
        if each.name in NEWER.get(name, ()):
            setattr(message, each.name, each.new_default())
    expected = ALL[name, version]
    assert b"".join(encode(message, version)).hex() == expected.hex()  # type: ignore[arg-type]
    assert decode(CLASSES[name], version, expected) == message
