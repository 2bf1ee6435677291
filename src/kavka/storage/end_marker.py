"""The one record of a transaction's control batch (KIP-98): which way the transaction ended."""

from __future__ import annotations

from struct import Struct, error

from kavka.core.producer_state import EndMarker
from kavka.doors import Buffer
from kavka.wire.records.corrupt import CorruptBatch
from kavka.wire.records.header import HEADER_SIZE, BatchHeader

_KEY = Struct(">hh")
_VALUE = Struct(">hi")
_COMMIT = 1


def read_end_marker(buffer: Buffer, header: BatchHeader) -> EndMarker:
    """Return the marker in the control batch at `header.position`; the whole batch is in the buffer.

    Raise CorruptBatch when the record is not a marker's.
    """
    end = header.position + header.size
    try:
        _, position = _varint(buffer, header.position + HEADER_SIZE)  # length of the record
        _, position = _varint(buffer, position + 1)  # after the attributes: timestamp delta
        _, position = _varint(buffer, position)  # offset delta
        key_length, key = _varint(buffer, position)
        value_length, value = _varint(buffer, key + max(key_length, 0))
        if key_length < _KEY.size or value_length < _VALUE.size or value + value_length > end:
            raise CorruptBatch("a transaction marker with a short key or value", header.position)
        _, kind = _KEY.unpack_from(buffer, key)
        _, coordinator_epoch = _VALUE.unpack_from(buffer, value)
    except (IndexError, error) as short:
        raise CorruptBatch("a transaction marker that is cut short", header.position) from short
    if kind not in (0, _COMMIT):
        raise CorruptBatch(f"a transaction marker of type {kind}", header.position)
    return EndMarker(kind == _COMMIT, coordinator_epoch)


def _varint(buffer: Buffer, position: int) -> tuple[int, int]:
    """Return the zig-zag varint at `position` and the position after it."""
    value = shift = 0
    while True:
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position
        shift += 7
        if shift > 63:
            raise CorruptBatch("a varint of more than ten bytes", position)
