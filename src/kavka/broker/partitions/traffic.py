"""Traffic counters of topics: plain integers where the work is done.

`broker.metrics` shows them; without it they cost an addition each.
"""

from __future__ import annotations

from kavka.errors import ErrorCode


class TopicTraffic:
    """The counters of one topic on this broker, shared by its replicas; Kafka's BrokerTopicMetrics."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "bytes_rejected",
        "failed_fetch_requests",
        "failed_produce_requests",
        "fetch_requests",
        "messages_in",
        "produce_requests",
        "reassignment_bytes_in",
        "reassignment_bytes_out",
        "replicas",
        "replication_bytes_in",
        "replication_bytes_out",
    )

    def __init__(self) -> None:
        """Begin at zero."""
        self.replicas = 0
        """Number of replicas counted here."""
        self.messages_in = self.bytes_in = self.bytes_out = self.bytes_rejected = 0
        self.produce_requests = self.failed_produce_requests = 0
        """Partitions of requests, as in Kafka: a request for ten partitions counts ten times."""
        self.fetch_requests = self.failed_fetch_requests = 0
        self.replication_bytes_in = self.replication_bytes_out = 0
        self.reassignment_bytes_in = self.reassignment_bytes_out = 0

    def add(self, other: TopicTraffic) -> None:
        """Take over what another topic counted."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


_REFUSED_FOR_SIZE = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)
_EXPECTED_OF_PRODUCE = (
    *_REFUSED_FOR_SIZE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.KAFKA_STORAGE_ERROR,
)
"""Kafka does not count these as failed: clients get over them, or other counters show them."""


class Traffic:
    """The counters of all topics."""

    def __init__(self) -> None:
        """Begin with no topic."""
        self.topics: dict[str, TopicTraffic] = {}
        self._removed = TopicTraffic()

    def join(self, topic: str) -> TopicTraffic:
        """Return the counters of a topic, for another replica of it."""
        traffic = self.topics.get(topic)
        if traffic is None:
            traffic = self.topics[topic] = TopicTraffic()
        traffic.replicas += 1
        return traffic

    def leave(self, topic: str) -> None:
        """Forget a topic with its last replica; the sum over all topics keeps what it counted."""
        traffic = self.topics[topic]
        traffic.replicas -= 1
        if not traffic.replicas:
            self._removed.add(self.topics.pop(topic))

    def total(self) -> TopicTraffic:
        """Return the sum over all topics that ever were."""
        total = TopicTraffic()
        for traffic in (self._removed, *self.topics.values()):
            total.add(traffic)
        return total


def count_refused_produce(traffic: TopicTraffic, code: ErrorCode, size: int) -> None:
    """Count a produced batch that was refused."""
    traffic.produce_requests += 1
    if code in _REFUSED_FOR_SIZE:
        traffic.bytes_rejected += size
    if code not in _EXPECTED_OF_PRODUCE:
        traffic.failed_produce_requests += 1
