"""The cleaner's calls of the kernel in Python: the specification, and what serves without the compiled ones.

How keys are hashed is each kernel's own affair: what stays and what goes is the same.
"""

from __future__ import annotations

import hashlib
from struct import Struct
from typing import Final

from kavka.io import Buffer
from kavka.wire.records.corrupt import CorruptBatch
from kavka.wire.records.pure_fields import (
    RawRecord,
    each_header,
    each_record,
    put_varint,
    read_varint,
    wrap,
)

IndexEntry = tuple[int, int, int, int]
"""Position, last offset, largest timestamp so far, and the last offset of the batch that has it."""

_HEADER_SIZE: Final = 61
_LENGTH_END: Final = 12
_HASH_BYTES: Final = 16
_SLOT: Final = Struct("<16sq")
_OUTLINE: Final = Struct(">qi11xi8xq14xi")


class OffsetMap:
    """Map from a key's hash to the offset of its last record: 24 bytes per key, in a table of fixed size."""

    def __init__(self, slots: int, capacity: int, seed: bytes) -> None:
        """Allocate `capacity` keys in `slots` slots; `seed` is 16 bytes that writers of keys cannot know.

        Raise ValueError when no slot would stay free, MemoryError when there is not so much.
        """
        if not 0 < capacity < slots:
            raise ValueError(f"a capacity of {capacity} in {slots} slots")
        if len(seed) != 16:
            raise ValueError(f"a seed of {len(seed)} bytes, not 16")
        self._slots = slots
        self._capacity = capacity
        self._seed = bytes(seed)
        self._used = 0
        self._table = bytearray(slots * _SLOT.size)

    def __len__(self) -> int:
        """Return how many keys are known."""
        return self._used

    @property
    def capacity(self) -> int:
        """Return the maximum number of keys."""
        return self._capacity

    def _find(self, key: bytes) -> tuple[bytes, int, int]:
        """Return the key's hash, where its slot begins, and its latest offset, -1 when it is new."""
        hashed = hashlib.blake2b(key, digest_size=_HASH_BYTES, key=self._seed).digest()
        index = int.from_bytes(hashed[:8], "little") % self._slots
        while True:
            known, offset = _SLOT.unpack_from(self._table, index * _SLOT.size)
            if offset == 0 or known == hashed:
                return hashed, index * _SLOT.size, offset - 1
            index = (index + 1) % self._slots

    def _note(self, key: bytes, offset: int) -> bool:
        hashed, place, known = self._find(key)
        if known < 0:
            if self._used == self._capacity:
                return False
            self._used += 1
        _SLOT.pack_into(self._table, place, hashed, offset + 1)
        return True

    def add(
        self, body: Buffer, start: int, end: int, count: int, base_offset: int, from_offset: int
    ) -> bool:
        """Note the keys of a body's records from `from_offset` on; False when one found no room, others may be in."""
        has_room = True

        def take(data: bytes, record: RawRecord, position: int) -> None:
            nonlocal has_room
            each_header(data, record, lambda name, content: None)
            offset = wrap(base_offset + record[2])
            if has_room and record[4] >= 0 and offset >= from_offset:
                has_room = self._note(data[record[3] : record[3] + record[4]], offset)

        each_record(body, start, end, count, take)
        return has_room

    def index(self, block: Buffer, start: int, from_offset: int) -> tuple[int, int, bool]:
        """Note the keys of the plain batches at `start`: without codec, of no transaction, whole, their CRC right.

        Return where that ended, the last offset of the last batch that was noted (-1 without one), and whether the next
        one is plain but does not fit. The twin leaves all batches to the caller, which can do each by itself.
        """
        return start, -1, False

    def choose(
        self,
        body: Buffer,
        start: int,
        end: int,
        count: int,
        base_offset: int,
        last_indexed: int,
        drops_tombstones: bool,
    ) -> tuple[bytearray, int, int]:
        """Return a mask of the records that stay, how many do, and how many of these are tombstones.

        What lies above `last_indexed` stays. Below, a record stays that is its key's last; not one without key, nor
        a tombstone if these are dropped.
        """
        mask = bytearray()
        tombstones = 0

        def take(data: bytes, record: RawRecord, position: int) -> None:
            nonlocal tombstones
            each_header(data, record, lambda name, content: None)
            _, _, delta, key_at, key_length, _, value_length, _, _ = record
            offset = wrap(base_offset + delta)
            stays = offset > last_indexed
            if not stays and key_length >= 0 and not (value_length < 0 and drops_tombstones):
                stays = offset >= self._find(data[key_at : key_at + key_length])[2]
            mask.append(stays)
            tombstones += stays and value_length < 0

        each_record(body, start, end, count, take)
        return mask, sum(mask), tombstones

    def filter(
        self,
        block: Buffer,
        start: int,
        last_indexed: int,
        now_ms: int,
        horizon_ms: int,
        last_of_producers: Buffer,
        last_of_round: int,
        epoch_starts: Buffer,
    ) -> tuple[int, bytearray]:
        """Clean the plain batches at `start`; return where they ended, and what stays of them.

        `last_of_producers` and `epoch_starts` are int64 in the machine's order, ascending: the last or first offsets of
        batches that stay, empty if needed. A batch with a delete horizon up to `now_ms` loses its tombstones, one with
        tombstones and without horizon gets `horizon_ms`. As with `index`, the twin leaves all to the caller.
        """
        return start, bytearray()


def rebase(body: Buffer, start: int, end: int, count: int, shift: int) -> bytearray:
    """Return the records with `shift` added to each timestamp delta, as another base timestamp needs it."""
    moved = bytearray()

    def take(data: bytes, record: RawRecord, position: int) -> None:
        each_header(data, record, lambda name, content: None)
        _, at = read_varint(data, position, record[0], 5, 0)
        _, rest = read_varint(data, at + 1, record[0], 10, 0)
        made = bytearray(data[at : at + 1])
        put_varint(made, wrap(record[1] + shift))
        made += data[rest : record[0]]
        put_varint(moved, len(made))
        moved.extend(made)

    each_record(body, start, end, count, take)
    return moved


def outline(
    buffer: Buffer, interval: int, unindexed: int, largest: int, largest_offset: int
) -> tuple[list[IndexEntry], int, int, int, int]:
    """Return the index entries of whole batches, one for each `interval` bytes, and the state for the next buffer.

    That is: bytes since the last entry, the largest timestamp, the offset that has it; and the last offset of all (-1
    without a batch). `unindexed`, `largest` and `largest_offset` are those of the buffer before. The time of a batch
    without records counts for nothing. Raise CorruptBatch for bytes that are no batches.
    """
    position, last_offset = 0, -1
    entries: list[IndexEntry] = []
    while len(buffer) - position >= _HEADER_SIZE:
        base_offset, length, delta, timestamp, count = _OUTLINE.unpack_from(buffer, position)
        size = length + _LENGTH_END
        if size < _HEADER_SIZE or size > len(buffer) - position:
            break
        last_offset = base_offset + delta
        if timestamp > largest and count:
            largest, largest_offset = timestamp, last_offset
        if unindexed > interval:
            entries.append((position, last_offset, largest, largest_offset))
            unindexed = 0
        unindexed += size
        position += size
    if position < len(buffer):
        raise CorruptBatch("bytes that are no whole batch", position)
    return entries, unindexed, largest, largest_offset, last_offset
