"""The records of a produced batch, held to the format and to the topic's rules, in the pieces that its codec gives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kavka.io import Buffer
from kavka.wire.records import corrupt, kernel
from kavka.wire.records.batch_check import Allowance
from kavka.wire.records.compression import Compression, decompress_pieces, decompress_small
from kavka.wire.records.corrupt import BatchTooLarge, CorruptBatch
from kavka.wire.records.header import COMPRESSION_MASK, HEADER_SIZE, BatchHeader

_PIECE_COST: Final = 4096
"""Bytes that a piece counts as, at least: some microseconds, however small it is."""
_WEIGHTS: Final = {Compression.GZIP: 2}
"""Weight of a byte of each slow codec."""


class RecordCheck:
    """The kernel's check over one body or its pieces."""

    __slots__ = ("_rest", "count", "index", "largest", "violations")

    def __init__(
        self,
        count: int,
        needs_key: bool,
        base_timestamp: int,
        earliest: int,
        latest: int,
        bounded: bool = True,
    ) -> None:
        """Begin before the first of `count` records; timestamps must be in `earliest` to `latest`.

        Unless `bounded`, records that are not as long as they say break a rule, not the format.
        """
        self.count = count
        self.index = 0
        self.largest = -1
        """The largest timestamp so far."""
        self.violations: list[tuple[int, int]] = []
        """Index and rule of the records that break one."""
        self._rest = (needs_key, base_timestamp, earliest, latest, bounded)

    def feed(self, body: Buffer, start: int, end: int, last: bool) -> int:
        """Check on from where the last piece ended; return the position of the first record that is cut."""
        self.index, position, largest, _, broken = kernel.check(
            body, start, end, self.index, self.count, last, *self._rest
        )
        self.largest = max(self.largest, largest)
        if broken:
            self.violations += broken[: corrupt.MAX_VIOLATIONS - len(self.violations)]
        return position


def check_body(
    buffer: Buffer, header: BatchHeader, check: RecordCheck, limit: int, allowance: Allowance
) -> Iterator[int]:
    """Feed `check` with all records, yielding before a step that takes more than the allowance has left.

    A compressed body may come to `limit` bytes. Of a piece that was checked only the record that it cuts is kept.
    Raise CorruptBatch, CorruptBody or BatchTooLarge.
    """
    start, end = header.position + HEADER_SIZE, header.end
    if header.attributes & COMPRESSION_MASK == 0:
        check.feed(buffer, start, end, True)
        return
    codec = header.compression
    packed = memoryview(buffer)[start:end]
    limit = min(limit, allowance.decompressed_bytes_left)
    weight = _WEIGHTS.get(codec, 1)
    carry = bytearray()
    enough = 0  # A record that may end anywhere is read again when the bytes have doubled, not with each piece.
    for piece in decompress_pieces(codec, packed, limit):
        if isinstance(piece, int):
            _charge(allowance, 0, weight)
            yield weight * piece
            continue
        _count(allowance, len(piece), weight, limit)
        if carry:
            carry += piece
            if len(carry) >= enough:
                position = check.feed(carry, 0, len(carry), False)
                enough = 0 if position else 2 * len(carry)
                del carry[:position]
        else:
            position = check.feed(piece, 0, len(piece), False)
            if position < len(piece):
                carry += memoryview(piece)[position:]
        if allowance.bytes_left < 0:
            yield 0
    check.feed(carry, 0, len(carry), True)


def is_small_and_sound(
    buffer: Buffer,
    header: BatchHeader,
    needs_key: bool,
    earliest: int,
    latest: int,
    allowance: Allowance,
) -> bool:
    """Return whether a compressed body is small, its records in order, and the header's largest timestamp theirs.

    False says only that the batch must be checked step by step.
    """
    if allowance.bytes_left < 0:
        return False
    codec = header.compression
    try:
        body = decompress_small(
            codec, memoryview(buffer)[header.position + HEADER_SIZE : header.end]
        )
        if body is None or len(body) > allowance.decompressed_bytes_left:
            return False
        _, _, largest, _, violations = kernel.check(
            body,
            0,
            len(body),
            0,
            header.record_count,
            True,
            needs_key,
            header.base_timestamp,
            earliest,
            latest,
        )
    except CorruptBatch:
        return False
    allowance.bytes_left -= _WEIGHTS.get(codec, 1) * len(body)
    allowance.decompressed_bytes_left -= len(body)
    return not violations and largest == header.max_timestamp


def _charge(allowance: Allowance, size: int, weight: int) -> None:
    """Count a step; raise BatchTooLarge when the request has none left, for want of bytes or for too many pieces."""
    cost = max(size, _PIECE_COST)
    allowance.bytes_left -= weight * cost
    allowance.decompressed_bytes_left -= cost
    if allowance.decompressed_bytes_left < 0 and size < _PIECE_COST:
        raise BatchTooLarge("a compressed body of too many pieces", 0)


def _count(allowance: Allowance, size: int, weight: int, limit: int) -> None:
    _charge(allowance, size, weight)
    if size > limit:
        raise BatchTooLarge(f"a compressed body of more than {limit} bytes", 0)
