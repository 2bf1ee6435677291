"""Every message in every version has the bytes of Apache Kafka 3.9 or 4.1, and every stored record those of 4.1.

`golden/ask_apache.py` asked them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kavka.wire.apis import APIS
from kavka.wire.codec import decode, encode
from kavka.wire.schema import schema_of
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
GOLDEN_NEWER = _golden("apache_4_1.txt")


def test_apache_kafka_was_asked_for_every_version_of_every_message() -> None:
    ours = {
        (cls.__name__, version)
        for api in APIS.values()
        for cls in (api.request(), api.response())
        for version in range(api.min_version, api.max_version + 1)
    }
    stored = {(cls.__name__, version) for cls in STORED for version in schema_of(cls).versions}
    assert set(GOLDEN).isdisjoint(GOLDEN_NEWER)
    assert set(ALL) | YOUNGER == ours | stored


ALL = {**GOLDEN, **GOLDEN_NEWER}
YOUNGER = {("WriteTxnMarkersRequest", 2), ("WriteTxnMarkersResponse", 2)}
"""Messages that came after 4.1; `libraries/test_declarations.py` compares them with kafka-python's schemas."""


@pytest.mark.parametrize(("name", "version"), ALL, ids=[f"{n}-{v}" for n, v in ALL])
def test_bytes_equal_those_of_apache_kafka(name: str, version: int, wire_sample: Sample) -> None:
    message = wire_sample(CLASSES[name], version)
    expected = ALL[name, version]
    assert b"".join(encode(message, version)).hex() == expected.hex()  # type: ignore[arg-type]
    assert decode(CLASSES[name], version, expected) == message
