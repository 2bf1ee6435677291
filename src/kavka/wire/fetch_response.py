"""The response that nearly every fetch gets which waits for records, as bytes: a few of them, and no error.

`frame.encode_response` gives the same bytes for a `FetchResponse` of that content, with objects that live for
microseconds. A batch with acks=all waits for one such response to each follower, a consumer for each of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from struct import Struct
from typing import Final

from kavka.io import Buffer
from kavka.wire.frame import EncodedResponse
from kavka.wire.primitives import put_varint

Fetched = tuple[int, int, int, int, Buffer]
"""Partition, high watermark, last stable offset, log start offset, records."""

FIRST_ENCODED: Final = 12
"""The first version that `encode_fetched` encodes, which is flexible."""

# No tags in the header, no throttling, no error.
_HEAD = Struct(">iixihi").pack
# No error, no aborted transactions (a length of 0 as 1, or none as 0), no preferred replica.
_PARTITION = Struct(">ihqqqbi").pack
_SIZE = Struct(">i")
_END = b"\0"


def encode_fetched(
    version: int,
    correlation_id: int,
    session_id: int,
    topics: Mapping[str | bytes, Sequence[Fetched]],
    *,
    names_aborted: bool = True,
) -> EncodedResponse:
    """Return the frame, with its size; topics are named by id from version 13 on, by text in version 12.

    `names_aborted` is false for a consumer that reads what is not committed: the list of transactions is null then.
    """
    assert version >= FIRST_ENCODED, version
    aborted = 1 if names_aborted else 0
    out = EncodedResponse(_HEAD(0, correlation_id, 0, 0, session_id))
    put_varint(out, len(topics) + 1)
    for name, partitions in topics.items():
        if isinstance(name, str):
            text = name.encode()
            put_varint(out, len(text) + 1)
            out += text
        else:
            out += name
        put_varint(out, len(partitions) + 1)
        for index, high_watermark, last_stable_offset, log_start_offset, records in partitions:
            out += _PARTITION(
                index, 0, high_watermark, last_stable_offset, log_start_offset, aborted, -1
            )
            put_varint(out, len(records) + 1)
            out += records
            out += _END
        out += _END
    out += _END
    _SIZE.pack_into(out, 0, len(out) - 4)
    return out
