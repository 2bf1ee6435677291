"""Topics as Metadata responses have them, encoded once for each change.

A topic is encoded when a response first needs it, a piece at a time, so that one with thousands of partitions does not
stop the loop; clients that ask for it meanwhile continue with the same pieces. It counts as long as the metadata cache
has the very same entry of the topic, and the same brokers live.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final, NamedTuple

from kavka.broker.metadata.cache import NO_LEADER, MetadataCache, TopicMetadata
from kavka.errors import ErrorCode
from kavka.ids import BrokerId
from kavka.wire.metadata_response import (
    PartitionRow,
    encode_partitions,
    encode_topic_end,
    encode_topic_head,
)

PIECE: Final = 512
"""Partitions that are encoded in one go: less than a millisecond."""
_MAX_FORMS: Final = 4
_HEAD_COST: Final = 2
"""Memory of a topic besides its partitions, in partitions."""


class Form(NamedTuple):
    """The facts besides the topic that its bytes depend on."""

    version: int
    operations: int


class EncodedTopic:
    """A topic in one form, perhaps not to its end yet."""

    __slots__ = ("_form", "_live", "_next", "_parts", "data", "leaderless", "topic")

    def __init__(self, topic: TopicMetadata, form: Form, live: Collection[BrokerId]) -> None:
        """Encode no partition yet."""
        self.topic = topic
        self._form = form
        self._live = live
        self._next = 0
        head = encode_topic_head(
            form.version, topic.name, topic.topic_id, topic.is_internal, len(topic.partitions)
        )
        self._parts: list[bytes | bytearray] = [head]
        self.data: bytes | None = None
        """All of it; None before the last piece."""
        self.leaderless = 0
        """Number of encoded partitions with LEADER_NOT_AVAILABLE."""

    def go_on(self) -> int:
        """Encode one more piece, of as many partitions as this returns."""
        partitions = self.topic.partitions[self._next : self._next + PIECE]
        rows = list(self._rows(self._next))
        self._parts.append(encode_partitions(self._form.version, rows))
        self._next += len(partitions)
        if self._next == len(self.topic.partitions):
            self._parts.append(encode_topic_end(*self._form))
            self.data = b"".join(self._parts)
            self._parts.clear()
        return len(partitions)

    def _rows(self, start: int) -> Iterator[PartitionRow]:
        live = self._live
        for index, partition_metadata in enumerate(
            self.topic.partitions[start : start + PIECE], start
        ):
            has_leader = partition_metadata.leader in live
            self.leaderless += not has_leader
            yield PartitionRow(
                ErrorCode.NONE if has_leader else ErrorCode.LEADER_NOT_AVAILABLE,
                index,
                partition_metadata.leader if has_leader else NO_LEADER,
                partition_metadata.leader_epoch,
                partition_metadata.replicas,
                partition_metadata.in_sync_replicas,
                [
                    b
                    for b in partition_metadata.replicas
                    if b not in live or b in partition_metadata.offline_replicas
                ],
            )


class EncodedTopics:
    """The encoded topics of one broker, in the few forms that its clients ask for."""

    def __init__(self, metadata: MetadataCache) -> None:
        """Encode topics of `metadata`."""
        self._metadata = metadata
        self._live: frozenset[BrokerId] = frozenset()
        self._forms: dict[Form, dict[str, EncodedTopic]] = {}

    def take(self, topics: Collection[TopicMetadata], form: Form) -> list[EncodedTopic]:
        """Return topics that the metadata cache has now, each encoded as far as it was needed before."""
        if self._live != self._metadata.brokers.keys():
            self._live = frozenset(self._metadata.brokers)
            self._forms.clear()
        known = self._forms.pop(form, None)
        if known is None:
            known = {}
        elif len(known) > len(self._metadata.topics):
            known = {n: each for n, each in known.items() if n in self._metadata.topics}
        self._forms[form] = (
            known  # the last one now: the first is the one that was not asked for longest
        )
        if len(self._forms) > _MAX_FORMS:
            del self._forms[next(iter(self._forms))]
        found = []
        for topic in topics:
            encoded = known.get(topic.name)
            if encoded is None or encoded.topic is not topic:
                encoded = known[topic.name] = EncodedTopic(topic, form, self._live)
            found.append(encoded)
        return found


def pieces(topics: Iterable[EncodedTopic]) -> Iterator[None]:
    """Encode what is missing; yield after each piece, when the time slice is over."""
    budget = PIECE
    for encoded in topics:
        while encoded.data is None:
            budget -= encoded.go_on() + _HEAD_COST
            if budget <= 0:
                yield
                budget = PIECE
