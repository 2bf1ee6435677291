"""Fetch responses with few records, which are read and sent as one buffer: for consumers and for followers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kavka.broker.partitions.partition_read import PartitionRead
from kavka.core.fetch_session import PartitionKey
from kavka.wire.fetch_response import FIRST_ENCODED, Fetched, encode_fetched
from kavka.wire.frame import EncodedResponse

_MAX_BYTES: Final = 16 << 10
"""Records up to here cost less in a copy than in system calls of their own."""
_MAX_PARTITIONS: Final = 64


def read_short(version: int, reads: Sequence[PartitionRead]) -> bool:
    """Read the records of a short response without errors into memory, where they are in the page cache.

    Return whether that is what the response will be, in this version of Fetch; false leaves all to another way.
    """
    if version < FIRST_ENCODED or len(reads) > _MAX_PARTITIONS:
        return False
    size = 0
    for read in reads:
        size += read.length
        if size > _MAX_BYTES or read.error or read.diverging is not None:
            return False
    for read in reads:
        found = read.found
        if found is not None and not found.read_short():
            return False
    return True


def encode_short(
    version: int,
    correlation_id: int,
    session_id: int,
    reads: Sequence[tuple[PartitionKey, PartitionRead]],
    *,
    names_aborted: bool = True,
) -> EncodedResponse:
    """Return the response with what `read_short` has read, and release the reads."""
    topics: dict[str | bytes, list[Fetched]] = {}
    for (name, index), read in reads:
        row = (
            index,
            read.high_watermark,
            read.last_stable_offset,
            read.log_start_offset,
            read.short_records,
        )
        topics.setdefault(name, []).append(row)
        read.release()
    return encode_fetched(version, correlation_id, session_id, topics, names_aborted=names_aborted)
