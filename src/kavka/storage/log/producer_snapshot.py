"""`<offset>.snapshot`: what is known of the producers before that offset (Kafka's ProducerSnapshot, version 1)."""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct, error

from kavka.core.producer_state import ProducerEntry
from kavka.storage.failures import CorruptFile
from kavka.storage.segment.segment import segment_name
from kavka.wire.crc32c import crc32c

SNAPSHOT_SUFFIX = ".snapshot"
_HEAD = Struct(">hIi")
_COUNT_AT = 6
_ENTRY = Struct(">qhiqiqiq")
_VERSION = 1


def snapshot_name(offset: int) -> str:
    """Return the name of the file of what is known before `offset`."""
    return segment_name(offset) + SNAPSHOT_SUFFIX


def encode_snapshot(entries: Iterable[ProducerEntry]) -> bytes:
    """Return the file's content."""
    packed = [_ENTRY.pack(*entry) for entry in entries]
    body = b"".join([len(packed).to_bytes(4, "big"), *packed])
    return _VERSION.to_bytes(2, "big") + crc32c(body).to_bytes(4, "big") + body


def decode_snapshot(content: bytes) -> list[ProducerEntry]:
    """Return the entries. Raise CorruptFile when version, checksum or length is wrong."""
    try:
        version, crc, count = _HEAD.unpack_from(content)
    except error as short:
        raise CorruptFile(f"a producer snapshot of {len(content)} bytes is too short") from short
    if version != _VERSION:
        raise CorruptFile(f"a producer snapshot has version {version}, not {_VERSION}")
    if crc != crc32c(content[_COUNT_AT:]):
        raise CorruptFile("a producer snapshot fails its checksum")
    entries = content[_HEAD.size :]
    if count < 0 or len(entries) != count * _ENTRY.size:
        raise CorruptFile(
            f"a producer snapshot of {count} entries has {len(entries)} bytes of them"
        )
    return [ProducerEntry(*fields) for fields in _ENTRY.iter_unpack(entries)]
