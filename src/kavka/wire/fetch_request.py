"""A follower's Fetch in its session, as bytes: the partitions that have moved.

`frame.encode_request` gives the same bytes for a `FetchRequest` of that content. A follower sends one for each batch
that a producer waits for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from struct import Struct
from typing import Final, NamedTuple

from kavka.wire.apis import ApiKey
from kavka.wire.primitives import put_varint

Named = tuple[int, int, int, int, int, int]
"""Partition, leader epoch, fetch offset, last fetched epoch, log start offset, most bytes of the partition."""

FIRST_ENCODED: Final = 15
"""The first version that `FollowerFetch.encode` encodes: the replica is in a tag, topics have ids."""

_HEAD = Struct(">ihhih").pack
# The limits, isolation level 0, the session.
_BODY = Struct(">iiibii").pack
_PARTITION = Struct(">iiqiqix").pack
# No forgotten topics, no rack, one tag: number 1, of 13 bytes.
_REPLICA = Struct(">bbbbbiqx").pack
_SIZE = Struct(">i")
_END = b"\0"


class FollowerFetch(NamedTuple):
    """The content of a Fetch of a broker that follows, which forgets no partition."""

    replica_id: int
    replica_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    session_id: int
    session_epoch: int
    topics: Mapping[bytes, Sequence[Named]]
    """By topic id."""

    def encode(self, version: int, correlation_id: int, client_id: str | None) -> list[bytearray]:
        """Return the frame, with its size, as its one part."""
        assert version >= FIRST_ENCODED, version
        name = b"" if client_id is None else client_id.encode()
        length = -1 if client_id is None else len(name)
        out = bytearray(_HEAD(0, ApiKey.FETCH, version, correlation_id, length))
        out += name
        out += _END
        out += _BODY(
            self.max_wait_ms,
            self.min_bytes,
            self.max_bytes,
            0,
            self.session_id,
            self.session_epoch,
        )
        put_varint(out, len(self.topics) + 1)
        for topic_id, partitions in self.topics.items():
            out += topic_id
            put_varint(out, len(partitions) + 1)
            for partition in partitions:
                out += _PARTITION(*partition)
            out += _END
        out += _REPLICA(1, 1, 1, 1, 13, self.replica_id, self.replica_epoch)
        _SIZE.pack_into(out, 0, len(out) - 4)
        return [out]
