"""Topics of Metadata responses as bytes, which a broker keeps and puts into one response after another.

`frame.encode_response` gives the same bytes for a `MetadataResponse`. With ten thousand partitions that takes tens of
milliseconds, in objects that are made for each response; these bytes are made once for each change of a topic.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from struct import Struct
from typing import NamedTuple

from kavka.ids import TopicId
from kavka.io import Buffer
from kavka.wire.frame import EncodedResponse
from kavka.wire.primitives import put_text_length, put_varint

_SIZE = Struct(">i")
_NAME_LENGTH = Struct(">h")
_WITH_INTERNAL = 1
_WITH_OFFLINE = 5
_WITH_LEADER_EPOCH = 7
_WITH_TOPIC_OPERATIONS = 8
_FLEXIBLE_FROM = 9
_WITH_TOPIC_ID = 10
_LAST_WITH_CLUSTER_OPERATIONS = 10
_MAX_SHORT = 126
"""Maximum length of an array with a one-byte length in a flexible version."""


class PartitionRow(NamedTuple):
    """A partition of a response."""

    error_code: int
    partition: int
    leader: int
    leader_epoch: int
    replicas: Sequence[int]
    in_sync_replicas: Sequence[int]
    offline_replicas: Sequence[int]


def encode_topic_head(
    version: int, name: str, topic_id: TopicId, is_internal: bool, partitions: int
) -> bytearray:
    """Return what stands before the partitions of a topic that there is."""
    out = bytearray(2)  # no error
    text = name.encode()
    if version >= _FLEXIBLE_FROM:
        put_text_length(out, len(text) + 1)
    else:
        out += _NAME_LENGTH.pack(len(text))
    out += text
    if version >= _WITH_TOPIC_ID:
        out += topic_id
    if version >= _WITH_INTERNAL:
        out.append(is_internal)
    _put_count(out, version, partitions)
    return out


def encode_partitions(version: int, rows: Iterable[PartitionRow]) -> bytearray:
    """Return partitions, in order."""
    out = bytearray()
    for error_code, partition, leader, leader_epoch, replicas, in_sync, offline in rows:
        shape = _shape(version, len(replicas), len(in_sync), len(offline))
        if version >= _WITH_LEADER_EPOCH:
            head: tuple[int, ...] = (error_code, partition, leader, leader_epoch)
        else:
            head = (error_code, partition, leader)
        if shape is None:
            _put_large(out, version, head, (replicas, in_sync, offline))
        elif version >= _FLEXIBLE_FROM:
            out += shape.pack(
                *head,
                len(replicas) + 1,
                *replicas,
                len(in_sync) + 1,
                *in_sync,
                len(offline) + 1,
                *offline,
            )
        elif version >= _WITH_OFFLINE:
            out += shape.pack(
                *head, len(replicas), *replicas, len(in_sync), *in_sync, len(offline), *offline
            )
        else:
            out += shape.pack(*head, len(replicas), *replicas, len(in_sync), *in_sync)
    return out


@cache
def _shape(version: int, replicas: int, in_sync: int, offline: int) -> Struct | None:
    """Return the layout of a partition with so many replicas; None where a length takes more than a byte."""
    head = ">hii" + ("i" if version >= _WITH_LEADER_EPOCH else "")
    if version >= _FLEXIBLE_FROM:
        if max(replicas, in_sync, offline) > _MAX_SHORT:
            return None
        return Struct(f"{head}B{replicas}iB{in_sync}iB{offline}ix")
    lists = f"i{replicas}ii{in_sync}i"
    return Struct(head + lists + (f"i{offline}i" if version >= _WITH_OFFLINE else ""))


def _put_large(
    out: bytearray, version: int, head: Sequence[int], arrays: Sequence[Sequence[int]]
) -> None:
    """Append a partition with more replicas than there are in practice, in a flexible version."""
    out += Struct(">hiii").pack(*head)
    for array in arrays:
        put_varint(out, len(array) + 1)
        out += Struct(f">{len(array)}i").pack(*array)
    out.append(0)


def encode_topic_end(version: int, operations: int) -> bytes:
    """Return what stands behind the partitions of a topic."""
    end = _SIZE.pack(operations) if version >= _WITH_TOPIC_OPERATIONS else b""
    return end + b"\0" if version >= _FLEXIBLE_FROM else end


def with_topics(frame: Buffer, version: int, topics: Sequence[Buffer]) -> EncodedResponse:
    """Return the frame of a response without topics, with these encoded ones put in."""
    tail = 1 if version >= _FLEXIBLE_FROM else 0
    if _WITH_TOPIC_OPERATIONS <= version <= _LAST_WITH_CLUSTER_OPERATIONS:
        tail += 4
    end = len(frame) - tail
    out = EncodedResponse(frame[: end - (1 if version >= _FLEXIBLE_FROM else 4)])
    _put_count(out, version, len(topics))
    out += b"".join(topics)
    out += frame[end:]
    _SIZE.pack_into(out, 0, len(out) - 4)
    return out


def _put_count(out: bytearray, version: int, count: int) -> None:
    if version >= _FLEXIBLE_FROM:
        put_varint(out, count + 1)
    else:
        out += _SIZE.pack(count)
