"""The response that nearly every Produce gets, as bytes: all batches are written, and there is nothing else to say.

`frame.encode_response` gives the same bytes for a `ProduceResponse` without errors. That costs a broker a third of what
it does for a batch of one record, in objects that live for microseconds; so this one shape has a way of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple

from kavka.io import Buffer
from kavka.wire.frame import EncodedResponse
from kavka.wire.primitives import put_varint

Written = tuple[int, int, int, int]
"""Partition, base offset, log append time (-1 where the topic has the producer's), log start offset."""

_FLEXIBLE_FROM = 9
_FLEXIBLE_HEAD = Struct(">iix")
_HEAD = Struct(">ii")
_SIZE = Struct(">i")
_NAME_LENGTH = Struct(">h")
# No record errors (a length of 0 as 1), no message, no tags.
_FLEXIBLE_PARTITION = Struct(">ihqqqbxx").pack
_PARTITIONS = {
    8: Struct(">ihqqqih").pack,
    5: Struct(">ihqqq").pack,
    2: Struct(">ihqq").pack,
    0: Struct(">ihq").pack,
}
_TOPIC_END = b"\0"
_FLEXIBLE_END = bytes(5)  # no throttling, no tags
_END = bytes(4)
_ONE_PARTITION = Struct(">ihqqqbbbbib")
"""Fields of a partition, then what follows the last one: no tags, no throttling, no tags."""
_AFTER_NAME = 1 + _ONE_PARTITION.size


def encode_written(
    version: int, correlation_id: int, topics: Sequence[tuple[str, Sequence[Written]]]
) -> EncodedResponse:
    """Return the frame, with its size, of a response in which no partition has an error."""
    if version < _FLEXIBLE_FROM:
        return _encode_older(version, correlation_id, topics)
    out = EncodedResponse(_FLEXIBLE_HEAD.pack(0, correlation_id))
    put_varint(out, len(topics) + 1)
    for name, partitions in topics:
        text = name.encode()
        put_varint(out, len(text) + 1)
        out += text
        put_varint(out, len(partitions) + 1)
        for index, base_offset, append_time_ms, log_start_offset in partitions:
            out += _FLEXIBLE_PARTITION(index, 0, base_offset, append_time_ms, log_start_offset, 1)
        out += _TOPIC_END
    out += _FLEXIBLE_END
    _SIZE.pack_into(out, 0, len(out) - 4)
    return out


class WrittenBatch(NamedTuple):
    """The result of the one batch of a request, where it was written."""

    topic: str
    partition: int
    base_offset: int
    log_append_time_ms: int


def decode_written(version: int, frame: Buffer) -> WrittenBatch | None:
    """Return what a response says, given without its size, if `encode_written` gives it for one partition; else None.

    It is for clients, which need not make a message for each record that they wait for.
    """
    if version < _FLEXIBLE_FROM or len(frame) < 7 + _AFTER_NAME or frame[4] or frame[5] != 2:
        return None
    end = 6 + frame[6]  # of the name, whose length is there plus one
    if not 0 < frame[6] < 128 or len(frame) != end + _AFTER_NAME or frame[end] != 2:
        return None
    fields = _ONE_PARTITION.unpack_from(frame, end + 1)
    index, code, base_offset, append_time_ms, _log_start, errors, *zeros = fields
    if code or errors != 1 or any(zeros):
        return None
    try:
        topic = str(frame[7:end], "utf-8")
    except UnicodeDecodeError:
        return None
    return tuple.__new__(WrittenBatch, (topic, index, base_offset, append_time_ms))


def _encode_older(
    version: int, correlation_id: int, topics: Sequence[tuple[str, Sequence[Written]]]
) -> EncodedResponse:
    """Encode for versions that count with whole numbers; each of the steps has added a field."""
    out = EncodedResponse(_HEAD.pack(0, correlation_id))
    out += _SIZE.pack(len(topics))
    for name, partitions in topics:
        text = name.encode()
        out += _NAME_LENGTH.pack(len(text))
        out += text
        out += _SIZE.pack(len(partitions))
        for index, base_offset, append_time_ms, log_start_offset in partitions:
            if version >= 8:
                out += _PARTITIONS[8](
                    index, 0, base_offset, append_time_ms, log_start_offset, 0, -1
                )
            elif version >= 5:
                out += _PARTITIONS[5](index, 0, base_offset, append_time_ms, log_start_offset)
            elif version >= 2:
                out += _PARTITIONS[2](index, 0, base_offset, append_time_ms)
            else:
                out += _PARTITIONS[0](index, 0, base_offset)
    if version >= 1:
        out += _END
    _SIZE.pack_into(out, 0, len(out) - 4)
    return out
