"""A consumer's subscription and positions. Pure.

A partition has two positions. `position` is the offset of the next record for the user; `fetch_position` runs
ahead of it by what is fetched and not taken yet:

    log:  ... | taken by the user | fetched, waiting in the buffer |  not fetched
                                  ^ position                       ^ fetch_position
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any

from kavka.client import arguments
from kavka.client.partitions import by_partition, offset_of, partitions_of
from kavka.core.group_member.steps import OffsetAndMetadata
from kavka.ids import BrokerId, TopicPartition
from kavka.values import field, mutable


def as_offsets(
    given: Mapping[TopicPartition, OffsetAndMetadata | int],
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return offsets to be committed. Raise TypeError for what is none, ValueError for a negative one."""
    offsets = {}
    for topic_partition, where in by_partition(given).items():
        fields: Any = where if isinstance(where, tuple | list) else (where,)
        chosen = OffsetAndMetadata(*fields)
        offset = offset_of(topic_partition, chosen.offset)
        if offset < 0:
            raise ValueError(f"cannot commit the negative offset {offset} for {topic_partition}")
        metadata: Any = chosen.metadata
        if not isinstance(metadata, str | None):
            what = type(metadata).__name__
            raise TypeError(f"the metadata of the offset of {topic_partition} is {what}, not str")
        offsets[topic_partition] = chosen._replace(offset=offset)
    return offsets


class ResetPolicy(Enum):
    """The position without a valid offset; the values are timestamps of ListOffsets."""

    EARLIEST = -2
    LATEST = -1


class Mode(Enum):
    """The way partitions are chosen; the modes exclude each other."""

    NONE = "none"
    TOPICS = "topics"
    PATTERN = "pattern"
    ASSIGNED = "assigned"


@mutable
class PartitionState:
    """An assigned partition."""

    topic_partition: TopicPartition
    position: int | None = None
    """None until a committed offset, a reset or a seek gives one."""
    position_epoch: int = -1
    """Leader epoch of the last record before `position`, for finding truncations (KIP-320)."""
    fetch_position: int = 0
    reset: ResetPolicy | None = None
    """Set while the position must be asked for."""
    needs_validation: bool = False
    validated_epoch: int = -1
    """The leader's epoch in which the position was found to be valid."""
    last_committed: OffsetAndMetadata | None = None
    """The last offset that this consumer committed since the assignment; others may have committed before."""
    is_paused: bool = False
    position_changes: int = 0
    """Counts seeks: what was fetched for an older count is dropped."""
    buffered: deque[Any] = field(factory=deque)
    """Fetched data, first the oldest."""
    buffered_bytes: int = 0
    retry_at: float = 0.0
    """Loop time before which no fetch is sent, after an error."""
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    preferred_replica: BrokerId | None = None
    """The replica to read from instead of the leader (KIP-392), until loop time `preferred_until`."""
    preferred_until: float = 0.0
    aborted: dict[int, None] = field(factory=dict)
    """Producers with a transaction that is being skipped (read_committed)."""

    @property
    def is_fetchable(self) -> bool:
        """Return whether the partition can be fetched."""
        return (
            self.position is not None
            and self.reset is None
            and not self.is_paused
            and not self.needs_validation
        )

    def seek(self, offset: int, leader_epoch: int = -1) -> None:
        """Go to an offset; what is buffered or in progress is dropped.

        With the leader epoch of the record before it, the leader is asked first whether it has that one.
        """
        self.position = offset
        self.position_epoch = leader_epoch
        self.fetch_position = offset
        self.reset = None
        self._discard_buffer()
        self.needs_validation = leader_epoch >= 0

    def on_leader(self, leader_epoch: int) -> None:
        """Set the leader's epoch; a new leader's log may lack what was read of the old one's (KIP-320).

        What is buffered is dropped: it may be what the new leader lacks.
        """
        if leader_epoch < 0 or leader_epoch == self.validated_epoch:
            return
        self.retry_at = 0.0
        self.preferred_replica = None
        if self.position is not None and self.position_epoch >= 0:
            self.seek(self.position, self.position_epoch)
        else:
            self.validated_epoch = leader_epoch

    def on_validated(self, leader_epoch: int) -> None:
        """Note that the leader of this epoch has all before the position."""
        self.needs_validation = False
        self.validated_epoch = leader_epoch

    def request_reset(self, policy: ResetPolicy) -> None:
        """Request a lookup of the position."""
        self.reset = policy
        self.position = None
        self._discard_buffer()

    def _discard_buffer(self) -> None:
        self.position_changes += 1
        self.buffered.clear()
        self.buffered_bytes = 0
        self.aborted.clear()
        self.needs_validation = False


class Subscription:
    """Topics or pattern, and the partitions that follow from it."""

    def __init__(self) -> None:
        """Start with nothing."""
        self.mode = Mode.NONE
        self.topics: list[str] = []
        self.pattern: re.Pattern[str] | None = None
        self.partitions: dict[TopicPartition, PartitionState] = {}

    def subscribe(self, topics: Iterable[str]) -> None:
        """Subscribe to topics; the group decides about partitions.

        Raise RuntimeError after `assign`, ValueError for an empty name.
        """
        wanted = arguments.names("topics", topics)
        if any(not name or name.isspace() for name in wanted):
            raise ValueError("Topic collection to subscribe to cannot contain null or empty topic")
        self._set_mode(Mode.TOPICS)
        self.topics = wanted

    def subscribe_pattern(self, pattern: str | re.Pattern[str]) -> None:
        """Subscribe to topics with a whole match. Raise RuntimeError after `assign`, ValueError for a bad pattern."""
        try:
            compiled = re.compile(pattern)
        except re.error as error:
            raise ValueError(f"not a pattern: {pattern!r}: {error}") from error
        if not isinstance(compiled.pattern, str):
            raise TypeError(f"pattern is a text, not {pattern!r:.80}")
        self._set_mode(Mode.PATTERN)
        self.pattern = compiled
        self.topics = []

    def match(self, names: Iterable[str]) -> bool:
        """Take the topics that match the pattern; return whether they are others than before."""
        assert self.pattern is not None
        found = sorted(name for name in names if self.pattern.fullmatch(name))
        changed = found != self.topics
        self.topics = found
        return changed

    def reads(self, topic: str) -> bool:
        """Return whether a topic is subscribed to, or has partitions that are assigned."""
        return topic in self.topics or any(one.topic == topic for one in self.partitions)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Take partitions without a group; those that stay keep positions. Raise RuntimeError after `subscribe`."""
        wanted = partitions_of(partitions)
        self._set_mode(Mode.ASSIGNED)
        self.replace_assignment(wanted)

    def replace_assignment(self, partitions: Iterable[TopicPartition]) -> None:
        """Replace the assignment; partitions that stay keep their positions."""
        old = self.partitions
        wanted = dict.fromkeys(partitions_of(partitions))
        self.partitions = {
            topic_partition: old.get(topic_partition) or PartitionState(topic_partition)
            for topic_partition in wanted
        }

    def clear(self) -> None:
        """Drop the subscription and the assignment."""
        self.mode = Mode.NONE
        self.topics = []
        self.pattern = None
        self.partitions = {}

    def states(self) -> list[PartitionState]:
        """Return the assigned partitions."""
        return list(self.partitions.values())

    def paused(self) -> list[TopicPartition]:
        """Return the assigned partitions that are paused."""
        return [
            topic_partition for topic_partition, state in self.partitions.items() if state.is_paused
        ]

    def state(self, topic_partition: TopicPartition) -> PartitionState:
        """Return an assigned partition. Raise ValueError when it is not assigned."""
        state = self.partitions.get(topic_partition)
        if state is None:
            raise ValueError(f"partition {topic_partition} is not assigned to this consumer")
        return state

    def require_something(self) -> None:
        """Raise RuntimeError when nothing was chosen: a reader would wait without end."""
        if self.mode is Mode.NONE:
            raise RuntimeError(
                "there is nothing to read: subscribe to topics, or assign partitions"
            )

    @property
    def uses_group(self) -> bool:
        """Return whether the group assigns the partitions."""
        return self.mode in (Mode.TOPICS, Mode.PATTERN)

    @property
    def is_unmatched_pattern(self) -> bool:
        """Return whether this is a pattern that no known topic matches."""
        return self.mode is Mode.PATTERN and not self.topics

    def _set_mode(self, mode: Mode) -> None:
        if self.mode not in (Mode.NONE, mode):
            raise RuntimeError(
                "Subscription to topics, partitions and pattern are mutually exclusive: unsubscribe first"
            )
        self.mode = mode
