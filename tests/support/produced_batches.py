"""Batches as producers send them, sound and damaged, and what a leader's checks say of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kavka.errors import ErrorCode
from kavka.wire.records.batch import BatchBuilder
from kavka.wire.records.batch_check import Checked, Refusal
from kavka.wire.records.compression import Compression
from kavka.wire.records.header import (
    HEADER_SIZE,
    BatchHeader,
    batch_crc,
    encode_header,
    read_header,
)
from kavka.wire.records.validate import (
    BatchRules,
    begin_check,
)

NOW = 1_700_000_000_000
CODECS = list(Compression)
PLAIN = BatchRules()
ROWS = [(b"k%d" % i, b"v" * i, NOW + i) for i in range(20)]


def prepare_produced(
    batch: memoryview | bytearray, rules: BatchRules, now_ms: int, produce_version: int = 11
) -> Checked | Refusal:
    """Check a batch to the end."""
    return begin_check(batch, rules, now_ms, produce_version).finish()


def check_produced(
    batch: memoryview | bytearray, rules: BatchRules, now_ms: int, produce_version: int = 11
) -> list[BatchHeader] | Refusal:
    """Check a batch to the end, and return its header."""
    found = prepare_produced(batch, rules, now_ms, produce_version)
    return found if isinstance(found, Refusal) else [found.header]


def produced(
    rows: Iterable[tuple[bytes | None, bytes | None, int]] = ROWS,
    codec: Compression = Compression.NONE,
    **options: Any,
) -> bytearray:
    """Return a batch of keys, values and timestamps."""
    builder = BatchBuilder()
    for key, value, timestamp in rows:
        builder.append(key, value, timestamp)
    return builder.build(codec, **options)


def patched(batch: bytearray, **fields: Any) -> bytearray:
    """Change the header and make the checksum true again."""
    header = read_header(batch)._replace(**fields)
    batch = bytearray(encode_header(header)) + batch[HEADER_SIZE:]
    batch[17:21] = batch_crc(batch, header).to_bytes(4, "big")
    return batch


def refusal(
    batch: bytes | bytearray, rules: BatchRules = PLAIN, produce_version: int = 11
) -> Refusal:
    """Check a batch that is refused."""
    found = check_produced(memoryview(bytearray(batch)), rules, NOW, produce_version)
    assert isinstance(found, Refusal)
    assert found.message
    return found


def code(
    batch: bytes | bytearray, rules: BatchRules = PLAIN, produce_version: int = 11
) -> ErrorCode:
    """Return the error that a batch is refused with."""
    return refusal(batch, rules, produce_version).code
