"""A model of a log: the appended batches, and how many of them a fault may lose."""

from __future__ import annotations

import random
from dataclasses import dataclass

from kavka.simulation.invariants.invariant import Violation
from kavka.storage.log.log import Log
from kavka.wire.crc32c import crc32c
from kavka.wire.records.header import (
    HEADER_SIZE,
    LENGTH_END,
    BatchHeader,
    encode_header,
    read_header,
    walk,
)


@dataclass(frozen=True, slots=True)
class ModelBatch:
    """A batch as it must lie in the file."""

    base_offset: int
    next_offset: int
    content: bytes


class LogModel:
    """The truth about one log. Offsets: synced_end <= safe_end <= the end of the last batch."""

    def __init__(self, source: random.Random) -> None:
        """Begin with the model of an empty log."""
        self.batches: list[ModelBatch] = []
        self.synced_end = 0
        """The end of what a completed flush covered."""
        self.safe_end = 0
        """The end of what is in the page cache for certain."""
        self.recovery_point = 0
        """The present or next checkpoint: recovery trusts what is below."""
        self.start_floor = 0
        """No record below was asked to be kept."""
        self.base = 0
        """Start offset while the log has no batch."""
        self.restart_at: int | None = None
        """Offset at which the log is about to restart, which a crash may prevent."""
        self.flipped_from: int | None = None
        """The first offset with a batch that was damaged on the medium."""
        self._source = source
        self._sequences: dict[int, int] = {}

    @property
    def end(self) -> int:
        """The offset after the last batch, certain or not."""
        return self.batches[-1].next_offset if self.batches else self.base

    def next_batch(
        self, now_ms: int, leader_epoch: int, base_offset: int
    ) -> tuple[bytes, BatchHeader]:
        """Make a batch of random size for `base_offset`, of one of three idempotent producers or of none."""
        count = self._source.randint(1, 5)
        producer = self._source.choice([-1, 1, 2, 3])
        sequence = self._sequences.get(producer, 0) if producer >= 0 else -1
        records = self._source.randbytes(self._source.choice([10, 60, 200, 1500]))
        header = BatchHeader(
            position=0, base_offset=base_offset, batch_length=HEADER_SIZE - LENGTH_END + len(records),
            size=HEADER_SIZE + len(records), partition_leader_epoch=leader_epoch, magic=2, crc=0, attributes=0,
            last_offset_delta=count - 1, base_timestamp=now_ms, max_timestamp=now_ms + count, producer_id=producer,
            producer_epoch=0 if producer >= 0 else -1, base_sequence=sequence, record_count=count,
        )  # fmt: skip
        content = encode_header(header) + records
        header = header._replace(crc=crc32c(content[21:]))
        return encode_header(header) + records, header

    def add(self, content: bytes, header: BatchHeader) -> None:
        """Note a batch that is about to be appended."""
        next_offset = header.base_offset + header.last_offset_delta + 1
        self.batches.append(ModelBatch(header.base_offset, next_offset, content))
        if header.producer_id >= 0:
            self._sequences[header.producer_id] = header.base_sequence + header.record_count

    def cut(self, end: int) -> None:
        """Forget what the log lost; producers continue where it ends."""
        self.batches = [batch for batch in self.batches if batch.next_offset <= end]
        self.base = min(self.base, end)
        self.synced_end = min(self.synced_end, end)
        self.safe_end = end
        self.recovery_point = min(self.recovery_point, end)
        self._sequences.clear()
        for batch in self.batches:
            header = read_header(batch.content)
            if header.producer_id >= 0:
                self._sequences[header.producer_id] = header.base_sequence + header.record_count

    def cutting(self, offset: int) -> int:
        """Note that the log is about to be cut, which a crash may prevent; return where it will end."""
        held = [batch.base_offset for batch in self.batches if batch.next_offset > offset]
        end = min([offset, *held])
        self.synced_end = min(self.synced_end, end)
        self.safe_end = min(self.safe_end, end)
        return end

    def restarted(self, offset: int) -> None:
        """Note that the log was emptied and begins at `offset`."""
        self.batches.clear()
        self._sequences.clear()
        self.base = self.synced_end = self.safe_end = self.recovery_point = offset
        self.start_floor = max(self.start_floor, offset)
        self.restart_at = None

    # -- checks

    def check(self, log: Log, *, power_was_lost: bool) -> None:
        """Compare a log that was just opened. Raise Violation."""
        if self.restart_at == log.log_start_offset == log.log_end_offset:
            self.restarted(self.restart_at)
        self.restart_at = None
        least = self.synced_end if power_was_lost else self.safe_end
        if self.flipped_from is not None:
            least = min(least, self.flipped_from)
        if not least <= log.log_end_offset <= max(self.end, least):
            raise Violation(
                f"the log ends at {log.log_end_offset}; it must hold {least} and never held more than {self.end}"
            )
        if log.log_start_offset > max(self.start_floor, 0):
            raise Violation(
                f"the log starts at {log.log_start_offset}, deleted were {self.start_floor}"
            )
        self.check_content(log)

    def check_content(self, log: Log) -> None:
        """Read every batch through the log, by each of its offsets, and compare its bytes."""
        known = {batch.base_offset: batch for batch in self.batches}
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            content = read_bytes(log, offset)
            for header in walk(content):
                batch = known.get(header.base_offset)
                found = content[header.position : header.end]
                if batch is None or found != batch.content:
                    raise Violation(
                        f"the batch at offset {header.base_offset} is not what was appended"
                    )
                if header.base_offset > offset:
                    raise Violation(f"offsets {offset} to {header.base_offset - 1} are missing")
                offset = batch.next_offset
        for batch in self.batches:
            if log.log_start_offset <= batch.base_offset < log.log_end_offset:
                self._check_lookup(log, batch)

    def _check_lookup(self, log: Log, batch: ModelBatch) -> None:
        """Check that the indexes lead from every offset of the batch to the batch."""
        for offset in (batch.base_offset, batch.next_offset - 1):
            content = read_bytes(log, offset, max_bytes=1)
            if read_header(content).base_offset != batch.base_offset:
                raise Violation(f"offset {offset} leads to another batch than {batch.base_offset}")

    def check_epochs(self, log: Log) -> None:
        """Check that the log knows the leader epoch of each of its batches, except deleted ones."""
        start = max(log.log_start_offset, self.start_floor)
        for batch in self.batches:
            if start <= batch.base_offset < log.log_end_offset:
                epoch = read_header(batch.content).partition_leader_epoch
                known = log.epoch_at(batch.base_offset)
                if known != epoch:
                    raise Violation(
                        f"offset {batch.base_offset} is of leader epoch {epoch}, the log says {known}"
                    )

    def check_producers(self, log: Log) -> None:
        """Check that the log knows the last sequence of each producer that has a batch in it."""
        entries = {entry.producer_id: entry for entry in log.producers.entries()}
        last = {
            header.producer_id: header.last_sequence
            for header in (read_header(batch.content) for batch in self.batches)
            if header.producer_id >= 0
            and log.log_start_offset <= header.base_offset < log.log_end_offset
        }
        for producer, sequence in last.items():
            entry = entries.get(producer)
            if entry is None or entry.last_sequence != sequence:
                raise Violation(
                    f"producer {producer} is at sequence {sequence}, the log knows {entry}"
                )


def read_bytes(log: Log, offset: int, max_bytes: int = 4096) -> bytes:
    """Read whole batches from the one that holds `offset` on."""
    read = log.read(offset, max_bytes, log.log_end_offset, may_block=True)
    found = read.range
    if found is None:
        raise Violation(f"offset {offset} is in the log, but a read finds nothing")
    content = found.file.read_at(found.length, found.position)
    found.release()
    first = read_header(content)
    whole = first.size
    while len(content) - whole >= HEADER_SIZE:
        size = read_header(content, whole).size
        if whole + size > len(content):
            break
        whole += size
    return content[:whole]
