"""The kernel's calls that take one record of a producer, in Python: the specification of those of `_kernel`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from kavka.wire.records.murmur2 import murmur2
from kavka.wire.records.pure_fields import put_bytes, put_varint


class OpenBatch(Protocol):
    """The part of a producer's batch that `take_keyed` changes."""

    free_bytes: int
    keys: list[bytes | None]
    values: list[bytes | None]
    timestamps: list[int]
    headers: dict[int, bytes]


def _packed(headers: Any) -> bytes | None:
    if type(headers) is not list and type(headers) is not tuple:
        return None
    output = bytearray()
    put_varint(output, len(headers))
    for header in headers:
        if type(header) is not tuple or len(header) != 2:
            return None
        name, content = header
        if not isinstance(name, str) or not (content is None or type(content) is bytes):
            return None
        put_bytes(output, name.encode())
        put_bytes(output, content)
    return bytes(output)


def pack_headers(headers: Any) -> bytes:
    """Return the headers of a record as `encode` takes them, which are as they stand in the record.

    Raise TypeError for what is no list or tuple of tuples of text and bytes or None, ValueError for text that is not
    UTF-8.
    """
    found = _packed(headers)
    if found is None:
        raise TypeError("headers are a list or tuple of (str, bytes or None)")
    return found


def take_keyed(
    batches: Mapping[int, OpenBatch],
    partitions: int,
    value: bytes,
    key: bytes,
    timestamp: int,
    headers: Any,
    overhead: int,
    largest: int,
) -> bool:
    """Append a record to the batch of its key's partition, by the hash of the key; return whether it did.

    It did not, and nothing is changed, where the partition has no batch, where the batch has no room, where it has
    records without keys, where the record is not below `largest` with the `overhead` that is counted beside its bytes,
    and where headers are neither None nor what `pack_headers` takes. Raise ValueError as `pack_headers`, and without
    partitions.
    """
    if partitions < 1:
        raise ValueError("a topic has at least one partition")
    batch = batches.get((murmur2(key) & 0x7FFFFFFF) % partitions)
    if batch is None:
        return False
    size = len(value) + len(key) + overhead
    found = None
    if headers is not None:
        found = _packed(headers)
        if found is None:
            return False
        size += len(found)
    index = len(batch.values)
    if batch.free_bytes < size or size >= largest or len(batch.keys) != index:
        return False
    if found is not None:
        batch.headers[index] = found
    batch.free_bytes -= size
    batch.values.append(value)
    batch.keys.append(key)
    batch.timestamps.append(timestamp)
    return True
