"""Control batches: the markers that end a transaction in a partition (KIP-98)."""

from __future__ import annotations

from enum import IntEnum
from struct import Struct, error
from typing import Final, NamedTuple

from kavka.io import Buffer
from kavka.wire.records import kernel
from kavka.wire.records.batch import Record, decode_records
from kavka.wire.records.body import seal
from kavka.wire.records.corrupt import CorruptBatch
from kavka.wire.records.header import HEADER_SIZE, BatchHeader

_KEY: Final = Struct(">hh")
_VALUE: Final = Struct(">hi")


class ControlType(IntEnum):
    """The type of a control record."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


class EndMarker(NamedTuple):
    """The end of a producer's transaction in a partition, written by the coordinator of that epoch."""

    control_type: ControlType
    coordinator_epoch: int


def encode_end_marker(
    marker: EndMarker, producer_id: int, producer_epoch: int, timestamp: int
) -> bytearray:
    """Return the control batch of the marker."""
    assert marker.control_type in (ControlType.ABORT, ControlType.COMMIT), marker
    key = _KEY.pack(0, marker.control_type)
    value = _VALUE.pack(0, marker.coordinator_epoch)
    batch = kernel.encode(1, None, [key], [value], None, timestamp, HEADER_SIZE)
    return seal(
        batch,
        1,
        timestamp,
        timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )


def control_type_of(buffer: Buffer, header: BatchHeader) -> ControlType | None:
    """Return what the control batch says; None when it is empty or of a type that Kafka 3.9 has not.

    Raise CorruptBatch for a key that is not of a control record.
    """
    assert header.is_control, "not a control batch"
    return _control_type(decode_records(buffer, header), header)


def _control_type(records: list[Record], header: BatchHeader) -> ControlType | None:
    if not records:
        return None
    try:
        version, number = _KEY.unpack_from(records[0].key or b"")
    except error as cut:
        raise CorruptBatch("a control record with a cut key", header.position) from cut
    if version < 0:
        raise CorruptBatch(f"a control record of version {version}", header.position)
    return ControlType(number) if 0 <= number <= 6 else None


def decode_end_marker(buffer: Buffer, header: BatchHeader) -> EndMarker | None:
    """Return the marker, or None when the batch holds none; CorruptBatch as `control_type_of`."""
    assert header.is_control, "not a control batch"
    records = decode_records(buffer, header)
    control_type = _control_type(records, header)
    if control_type is not ControlType.ABORT and control_type is not ControlType.COMMIT:
        return None
    value = records[0].value or b""
    try:
        _, coordinator_epoch = _VALUE.unpack_from(value)
    except error as cut:
        raise CorruptBatch("an end marker with a cut value", header.position) from cut
    return EndMarker(control_type, coordinator_epoch)
