"""The fetches from one leader: their session, the names of partitions in it, and the requests in flight."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from kavka.broker.replication.fetch_messages import FIRST_BY_TOPIC_ID, fetch_encoder
from kavka.broker.replication.fetcher_context import FetcherContext
from kavka.broker.replication.partition_fetch_state import PartitionFetchState
from kavka.core.fetch_session import PartitionKey
from kavka.core.follower import FollowerSession, SessionRequest
from kavka.ids import NO_TOPIC_ID, TopicPartition
from kavka.net.peer import Peer
from kavka.wire.apis import ApiKey
from kavka.wire.messages.fetch import FetchResponse

_MAX_IN_FLIGHT: Final = 2


class FetchInFlight:
    """A fetch on its way; `net.peer` gives it the response."""

    __slots__ = ("_on_response", "_outcome", "request")

    def __init__(self, request: SessionRequest, on_response: Callable[[], None]) -> None:
        """Call `on_response`, which must not raise, when the response is there, or there will be none."""
        self.request = request
        self._on_response = on_response
        self._outcome: FetchResponse | Exception | None = None

    def done(self) -> bool:
        """Return whether the response is there, or there will be none."""
        return self._outcome is not None

    def set_result(self, result: FetchResponse, /) -> None:
        """Take the response."""
        self._outcome = result
        self._on_response()

    def set_exception(self, exception: Exception, /) -> None:
        """Take the reason for which there is no response."""
        self._outcome = exception
        self._on_response()

    def cancel(self) -> None:
        """Take no response any more."""
        self._outcome = ConnectionError("the fetch was given up")

    def result(self) -> FetchResponse:
        """Return the response. Raise the reason for which there is none."""
        outcome = self._outcome
        assert outcome is not None, "the response is not there"
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


class LeaderFetches:
    """Sends fetches, at most two at a time, and knows the partitions of their responses.

    While a fetch waits at the leader, a partition that joins is asked for at once by a second one in the same session.
    """

    def __init__(self, context: FetcherContext) -> None:
        """Begin without partitions and without a session."""
        self._context = context
        self.session = FollowerSession()
        """The fetch session: the partitions that were requested, and are to be requested next."""
        self.by_topic_id = True
        """True if the session names topics by their ids."""
        self._by_id: dict[tuple[bytes, int], TopicPartition] = {}
        self.in_flight: deque[FetchInFlight] = deque()
        """The oldest first."""
        self.requests = 0
        """Fetches that were sent since the start."""

    def add(self, followed: PartitionFetchState) -> None:
        """Register a partition under its topic id."""
        topic_partition = followed.replica.topic_partition
        self._by_id[followed.topic_id, topic_partition.partition] = topic_partition

    def remove(self, followed: PartitionFetchState) -> None:
        """Fetch a partition no longer."""
        self._by_id.pop((followed.topic_id, followed.replica.topic_partition.partition), None)
        self.session.drop(self.key(followed))

    def key(self, followed: PartitionFetchState) -> PartitionKey:
        """Return the name of a partition in the session."""
        topic_partition = followed.replica.topic_partition
        return (
            followed.topic_id if self.by_topic_id else topic_partition.topic,
            topic_partition.partition,
        )

    def find(self, key: PartitionKey) -> TopicPartition | None:
        """Return the followed partition of a name."""
        name, index = key
        return (
            TopicPartition(name, index) if isinstance(name, str) else self._by_id.get((name, index))
        )

    def choose_names(
        self,
        peer: Peer,
        due: Iterable[TopicPartition],
        partitions: Mapping[TopicPartition, PartitionFetchState],
    ) -> None:
        """Name partitions by topic id when all have one and the leader knows ids, for a whole session.

        Raise ConnectionError when `due` has partitions that this session cannot name.
        """
        by_topic_id = peer.version_of(ApiKey.FETCH) >= FIRST_BY_TOPIC_ID and all(
            followed.topic_id != NO_TOPIC_ID
            for topic_partition in due
            if (followed := partitions.get(topic_partition)) is not None
        )
        if len(self.session) == 0 and not self.in_flight:
            self.by_topic_id = by_topic_id
        elif self.by_topic_id and not by_topic_id:
            raise ConnectionError("a partition without topic id needs another session")

    def post(self, peer: Peer, on_response: Callable[[], None]) -> None:
        """Send a fetch if none is on its way; a second one only for the sake of what has changed."""
        session = self.session
        if not len(session) or len(self.in_flight) >= _MAX_IN_FLIGHT:
            return
        if self.in_flight and not (session.is_established and session.has_changes):
            return
        newest = None if self.by_topic_id else FIRST_BY_TOPIC_ID - 1
        version = peer.version_of(ApiKey.FETCH, newest)
        built = session.build()
        in_flight = FetchInFlight(built, on_response)
        encode = fetch_encoder(self._context, built, version)
        peer.post_to(in_flight, ApiKey.FETCH, version, self._context.timeout_ms, encode)
        self.requests += 1
        self.in_flight.append(in_flight)

    @property
    def has_response(self) -> bool:
        """Return whether the first fetch has an unprocessed response."""
        return bool(self.in_flight) and self.in_flight[0].done()

    def reset(self) -> None:
        """Cancel the requests and end the session: the connection is closed."""
        for in_flight in self.in_flight:
            in_flight.cancel()
        self.in_flight.clear()
        self.session = FollowerSession()
