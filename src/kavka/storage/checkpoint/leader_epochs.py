"""`leader-epoch-checkpoint`: at which offset each leader epoch began (KIP-101, KIP-279).

    epochs      0        3     4
    offsets     |--------|-----|---------> log end
Invariant: epochs and start offsets both grow strictly.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise, zip_longest
from typing import NamedTuple

from kavka.storage.checkpoint.files import CorruptCheckpoint, decode_lines, encode_lines

LEADER_EPOCHS = "leader-epoch-checkpoint"
NO_EPOCH = -1
NO_OFFSET = -1


class EpochStart(NamedTuple):
    """The first offset of a leader epoch."""

    epoch: int
    start_offset: int


_NO_START = EpochStart(NO_EPOCH, 2**63)


class LeaderEpochs:
    """The epochs of one log. `is_changed` asks the owner to write them to the file."""

    __slots__ = ("_entries", "_stored")

    def __init__(self, entries: list[EpochStart] | None = None) -> None:
        """Start with `entries`, which obey the invariant."""
        self._entries = entries or []
        self._stored = list(self._entries)

    @property
    def entries(self) -> list[EpochStart]:
        """A copy of all entries, oldest first."""
        return list(self._entries)

    @property
    def latest_epoch(self) -> int:
        """The newest epoch, or -1."""
        return self._entries[-1].epoch if self._entries else NO_EPOCH

    @property
    def is_changed(self) -> bool:
        """Return whether the checkpoint on disk is out of date."""
        return self._entries != self._stored

    def is_changed_below(self, end_offset: int) -> bool:
        """Return whether the checkpoint differs below `end_offset`.

        A start drops epochs that began at the end, and wrote nothing.
        """
        return any(
            one != two and min(one.start_offset, two.start_offset) < end_offset
            for one, two in zip_longest(self._entries, self._stored, fillvalue=_NO_START)
        )

    def note_stored(self) -> None:
        """Note that the checkpoint says what `encode` would return now."""
        self._stored = list(self._entries)

    def assign(self, epoch: int, start_offset: int) -> None:
        """Note that `epoch` writes from `start_offset` on, and forget later epochs and starts, which contradict it.

        An epoch that began earlier keeps its start, where Kafka's cache forgets it.
        """
        assert start_offset >= 0
        if epoch < 0:
            return
        entries = self._entries
        while entries and (entries[-1].epoch > epoch or entries[-1].start_offset >= start_offset):
            if entries[-1] == (epoch, start_offset):
                return
            entries.pop()
        if not entries or entries[-1].epoch != epoch:
            entries.append(EpochStart(epoch, start_offset))

    def recover(self, epoch: int, base_offset: int, last_offset: int) -> None:
        """Agree with a batch of the log: entries that contradict it are forgotten.

        The checkpoint may be older than the batches above the recovery point: of an epoch in which a leader wrote
        nothing before it followed a leader whose records are of lower epochs (an unclean election).
        """
        if self.epoch_at(base_offset) != epoch or self.epoch_at(last_offset) != epoch:
            self.assign(epoch, base_offset)

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochStart:
        """Return the largest epoch <= `epoch` and where it ended; (-1, -1) when nothing is known.

        This answers OffsetsForLeaderEpoch: a follower truncates to the smaller of this and its own end.
        """
        entries = self._entries
        if epoch == NO_EPOCH or not entries:
            return EpochStart(NO_EPOCH, NO_OFFSET)
        if epoch == entries[-1].epoch:
            return EpochStart(epoch, log_end_offset)
        higher = bisect_right(entries, epoch, key=_epoch_of)
        if higher == len(entries):
            return EpochStart(NO_EPOCH, NO_OFFSET)
        floor = entries[higher - 1].epoch if higher else epoch
        return EpochStart(floor, entries[higher].start_offset)

    def epoch_at(self, offset: int) -> int:
        """Return the epoch that wrote `offset`, or -1."""
        index = bisect_right(self._entries, offset, key=_start_of)
        return self._entries[index - 1].epoch if index else NO_EPOCH

    def truncate_from_end(self, end_offset: int) -> None:
        """Forget the epochs that start at or after `end_offset`."""
        while self._entries and self._entries[-1].start_offset >= end_offset:
            self._entries.pop()

    def truncate_from_start(self, start_offset: int) -> None:
        """Forget the epochs that ended before `start_offset`.

        The one that covers it keeps its start, where Kafka's cache moves it up to `start_offset`: a follower whose log
        of an earlier epoch ends just there would take the records before it for the leader's.
        """
        index = bisect_right(self._entries, start_offset, key=_start_of)
        del self._entries[: max(index - 1, 0)]

    def replace_with(self, others: LeaderEpochs) -> None:
        """Replace all epochs by those of another log with the same history."""
        self._entries = others.entries

    def clear(self) -> None:
        """Forget all."""
        self._entries.clear()

    def encode(self) -> bytes:
        """Return the checkpoint's content."""
        return encode_lines(f"{epoch} {offset}" for epoch, offset in self._entries)

    @classmethod
    def decode(cls, content: bytes) -> LeaderEpochs:
        """Read a checkpoint. Raise CorruptCheckpoint when it is malformed or breaks the invariant."""
        try:
            entries = [
                EpochStart(int(epoch), int(start))
                for epoch, start in decode_lines(content, LEADER_EPOCHS)
            ]
        except ValueError as error:
            raise CorruptCheckpoint(f"{LEADER_EPOCHS}: {error}") from error
        for one, two in pairwise(entries):
            if one.epoch >= two.epoch or one.start_offset >= two.start_offset:
                raise CorruptCheckpoint(f"{LEADER_EPOCHS} has {tuple(one)} before {tuple(two)}")
        return cls(entries)


def _epoch_of(entry: EpochStart) -> int:
    return entry.epoch


def _start_of(entry: EpochStart) -> int:
    return entry.start_offset
