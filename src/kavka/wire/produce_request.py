"""The request that most Produces are: one batch, in a version with compact lengths.

`frame.encode_request` gives the same bytes for its `ProduceRequest`. A program that awaits each record sends one for
each, and its head is the same but for two numbers; so this one shape has a way of its own, as its response has.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct

from kavka.io import Buffer, Sendable
from kavka.wire.apis import ApiKey
from kavka.wire.primitives import put_records, put_text_length, put_varint

FIRST_VERSION = 9
LAST_VERSION = 12

_HEAD = Struct(">ihhih")
_NUMBERS = Struct(">hi")
_INDEX = Struct(">i")
_SIZE = Struct(">i").pack_into
_CORRELATION_POSITION = 8
_TAIL = bytes(3)  # no tags: of the partition, the topic, the request

Parameters = tuple[str | None, int, int]
"""The transactional id, the acknowledgements, and the milliseconds to wait for them."""


def encode_batch(
    version: int,
    correlation_id: int,
    client_id: str | None,
    parameters: Parameters,
    place: tuple[str, int],
    records: Buffer,
) -> Sequence[Sendable]:
    """Return the frame, with its size, of a request with one batch for `place`, a topic and partition.

    The version is one from FIRST_VERSION to LAST_VERSION. Raise ValueError for a name that is too long.
    """
    head = out = bytearray(_head(version, client_id, parameters, place))
    put_varint(out, len(records) + 1)
    parts: list[Sendable] = []
    out = put_records(parts, out, records)
    out += _TAIL
    size = len(out) + len(records) + len(head) - 4 if parts else len(out) - 4
    parts.append(out)
    _SIZE(head, 0, size)
    _SIZE(head, _CORRELATION_POSITION, correlation_id)
    return parts


@lru_cache(256)
def _head(
    version: int, client_id: str | None, parameters: Parameters, place: tuple[str, int]
) -> bytes:
    """Return what stands before the length of the records, with 0 for the size and the correlation id."""
    transactional_id, acks, timeout_ms = parameters
    topic, partition = place
    client = b"" if client_id is None else client_id.encode()
    length = -1 if client_id is None else len(client)
    out = bytearray(_HEAD.pack(0, ApiKey.PRODUCE, version, 0, length) + client + b"\0")
    if transactional_id is None:
        out.append(0)
    else:
        _put_text(out, transactional_id)
    out += _NUMBERS.pack(acks, timeout_ms)
    put_varint(out, 2)  # one topic
    _put_text(out, topic)
    put_varint(out, 2)  # one partition
    out += _INDEX.pack(partition)
    return bytes(out)


def _put_text(out: bytearray, text: str) -> None:
    encoded = text.encode()
    put_text_length(out, len(encoded) + 1)
    out += encoded
