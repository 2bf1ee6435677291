"""The fetch sessions of all followers of a broker, within bounds (KIP-227)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kavka.broker.context import BrokerContext
from kavka.broker.partitions.replication_rounds import ReplicationRounds
from kavka.broker.replication.fetch_messages import FIRST_BY_TOPIC_ID, forgotten_partitions
from kavka.broker.replication.follower_sessions import FollowerSession
from kavka.broker.requests.context import RequestContext
from kavka.core.fetch_session import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION
from kavka.errors import ErrorCode
from kavka.ids import BrokerId
from kavka.wire.messages.fetch import FetchRequest

_LAST_EPOCH: Final = 2**31 - 1
_MAX_SESSIONS: Final = 64
_PARTITIONS_SETTING: Final = "kavka.max.incremental.fetch.session.cache.partitions"


class FollowerSessionCache:
    """The sessions that followers may continue, by their id."""

    def __init__(self, context: BrokerContext, rounds: ReplicationRounds) -> None:
        """Begin without sessions; `rounds` says what may wait for more."""
        self._rounds = rounds
        self._random = context.random
        self._sessions: dict[int, FollowerSession] = {}
        self._max_partitions = context.config.integer(_PARTITIONS_SETTING)
        self._partition_count = 0  # Invariant: the sum of `counted` of all sessions

    def __iter__(self) -> Iterator[FollowerSession]:
        """Iterate over the sessions, the oldest first."""
        return iter(self._sessions.values())

    def __getitem__(self, session_id: int) -> FollowerSession:
        """Return a session. Raise KeyError."""
        return self._sessions[session_id]

    def begin(
        self, context: RequestContext, request: FetchRequest, replica_id: BrokerId
    ) -> FollowerSession | ErrorCode:
        """Return the session of a request, a new one or one that it continues, or the error to respond with."""
        by_topic_id = context.version >= FIRST_BY_TOPIC_ID
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self._close(request.session_id, replica_id)
            session_id = NO_SESSION
            if request.session_epoch == INITIAL_EPOCH:
                session_id = self._new_id()
            session = FollowerSession(
                replica_id, session_id, context.connection, self._rounds, by_topic_id=by_topic_id
            )
            if session_id != NO_SESSION:
                self._add(session)
            return session
        known = self._sessions.get(request.session_id)
        if known is None or known.replica_id != replica_id:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if known.epoch != request.session_epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if known.by_topic_id != by_topic_id:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        known.epoch = 1 if known.epoch == _LAST_EPOCH else known.epoch + 1
        for key in forgotten_partitions(request):
            known.forget(key)
        return known

    def count(self, session: FollowerSession) -> None:
        """Count the partitions of a session that is kept; one that outgrows the bound of all ends with its response.

        The client need not be the broker that it names, so its partitions may be any.
        """
        if session.session_id == NO_SESSION:
            return
        growth = len(session.partitions) - session.counted
        self._partition_count += growth
        session.counted += growth
        if growth > 0 and self._partition_count > self._max_partitions:
            del self._sessions[session.session_id]
            self._partition_count -= session.counted
            session.session_id = NO_SESSION

    def _new_id(self) -> int:
        while True:
            number = int.from_bytes(self._random.random_bytes(4)) & _LAST_EPOCH
            if number != NO_SESSION and number not in self._sessions:
                return number

    def _add(self, session: FollowerSession) -> None:
        """Keep a session; sessions of closed connections will not be continued.

        Sessions per follower and per connection are bounded: the client need not be the broker that it names.
        """
        same = []
        for other in list(self._sessions.values()):
            if not other.connection.is_open:
                self._close(other.session_id, other.replica_id)
            elif other.replica_id == session.replica_id or other.connection is session.connection:
                same.append(other)
        if len(same) >= _MAX_SESSIONS:
            self._close(same[0].session_id, same[0].replica_id)
        self._sessions[session.session_id] = session

    def _close(self, session_id: int, replica_id: BrokerId) -> None:
        session = self._sessions.get(session_id)
        if session is not None and session.replica_id == replica_id:
            del self._sessions[session_id]
            self._partition_count -= session.counted
            session.close()
