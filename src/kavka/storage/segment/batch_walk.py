"""A walk over the batches of a segment's file, for recovery and replay: reads in the pool, slices on the loop."""

from __future__ import annotations

import zlib
from typing import NamedTuple

from kavka.io import Disk
from kavka.storage.disk.partition_directory import DataFile
from kavka.storage.failures import CorruptFile
from kavka.wire.crc32c import crc32c
from kavka.wire.records.corrupt import CorruptBatch
from kavka.wire.records.header import (
    CRC_START,
    HEADER_SIZE,
    LENGTH_END,
    MAGIC_POSITION,
    BatchHeader,
    batch_crc,
    read_header,
)

# Small enough that the work on one block of small batches keeps the loop for a few milliseconds only.
_BLOCK_BYTES = 128 * 1024
_CRC_CHUNK_BYTES = 1 << 20
_LEGACY_HEAD_BYTES = 26


class WalkedBatch(NamedTuple):
    """A batch at byte `position` of the file; `header.position` is its place in `block`.

    The block holds the whole batch, unless the batch is larger than a block or reaches beyond the end.
    """

    position: int
    header: BatchHeader
    block: bytes


class BatchWalk:
    """Reads the batches from `position` up to `end`. `damage` says why it stopped early at `position`."""

    def __init__(self, disk: Disk, data: DataFile, position: int, end: int) -> None:
        """Begin at `position`, which is the start of a batch."""
        self._disk = disk
        self._data = data
        self._end = end
        self.position = position
        self.damage: str | None = None

    async def next_block(self) -> list[WalkedBatch]:
        """Return the batches of the next block; none at the end or at damage. Raise CorruptFile at a legacy message.

        Damage is checked twice: a read that went wrong once must not cost data.
        """
        if self.position >= self._end or self.damage is not None:
            return []
        return await self._next_block() or await self._reread_end()

    async def _reread_end(self) -> list[WalkedBatch]:
        self.damage = None
        return await self._next_block()

    async def _next_block(self) -> list[WalkedBatch]:
        block = await self._read(min(_BLOCK_BYTES, self._end - self.position), self.position)
        found: list[WalkedBatch] = []
        at = 0
        while at + HEADER_SIZE <= len(block) and self.damage is None:
            try:
                header = read_header(block, at)
            except CorruptBatch as corrupt:
                self.damage = corrupt.what
                await self._refuse_legacy(self.position + at)
                break
            if self.position + header.end > self._end:
                self.damage = f"a batch of {header.size} bytes is cut short by the end of the file"
                break
            if header.end > len(block) and at:
                break
            found.append(WalkedBatch(self.position + at, header, block))
            at = header.end
        if at == 0 and self.damage is None:
            self.damage = "fewer bytes than a batch header before the end of the file"
        if found:
            self.damage = None  # the next call begins there and looks again
        self.position += at
        return found

    async def is_sound(self, batch: WalkedBatch) -> WalkedBatch | None:
        """Return the batch if its checksum is right, None if it is not, after reading it once more."""
        header = batch.header
        if header.end <= len(batch.block) and batch_crc(batch.block, header) == header.crc:
            return batch
        crc = 0
        end = batch.position + header.size
        for position in range(batch.position + CRC_START, end, _CRC_CHUNK_BYTES):
            chunk = await self._read(min(_CRC_CHUNK_BYTES, end - position), position)
            crc = crc32c(chunk, crc)
        block = await self._read(min(header.size, _BLOCK_BYTES), batch.position)
        try:
            again = read_header(block)
        except CorruptBatch:
            return None
        return WalkedBatch(batch.position, again, block) if again.crc == crc else None

    async def is_whole(self, batch: WalkedBatch) -> tuple[bytes, BatchHeader]:
        """Return bytes that hold all of the batch, and its header in them."""
        header = batch.header
        if header.end <= len(batch.block):
            return batch.block, header
        return await self._read(header.size, batch.position), header._replace(position=0)

    async def _read(self, length: int, position: int) -> bytes:
        file = self._data.pin()
        try:
            return await self._disk.run(file.read_at, length, position)
        finally:
            self._data.unpin()

    async def _refuse_legacy(self, position: int) -> None:
        """Stop rather than cut when a sound message of magic 0 or 1 lies at `position`: it is data, not damage."""
        head = await self._read(_LEGACY_HEAD_BYTES, position)
        if len(head) < _LEGACY_HEAD_BYTES or head[MAGIC_POSITION] not in (0, 1):
            return
        size = int.from_bytes(head[8:LENGTH_END], "big", signed=True)
        if not 14 <= size <= self._end - position - LENGTH_END:
            return
        message = await self._read(size, position + LENGTH_END)
        if zlib.crc32(message[4:]) == int.from_bytes(message[:4], "big"):
            raise CorruptFile(
                f"{self._data.path} holds messages of format {head[MAGIC_POSITION]} at position {position}; "
                "only batches of format 2 can be opened"
            )
