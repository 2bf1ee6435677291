"""The consumer's side of incremental fetch sessions (KIP-227). Pure; `core.fetch_metadata` counts.

In a session a request names only partitions that are new or changed, and those that are dropped; a response names only
partitions with news. After anything unclear (a lost connection, a refused epoch, a response about partitions that were
not asked for) the next request is a full one that ends the session, of whose state at the broker nothing is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from kavka.core.fetch_metadata import FetchMetadata
from kavka.core.fetch_session import FINAL_EPOCH
from kavka.errors import ErrorCode
from kavka.ids import TopicId, TopicPartition

CLOSING_EPOCH: Final = FINAL_EPOCH


class FetchTarget(NamedTuple):
    """The fetch parameters of one partition."""

    offset: int
    max_bytes: int
    leader_epoch: int
    topic_id: TopicId


class SessionRequest(NamedTuple):
    """The content of the next request."""

    session_id: int
    session_epoch: int
    added: dict[TopicPartition, FetchTarget]
    """New and changed partitions; all in a full request."""
    forgotten: dict[TopicPartition, TopicId]


class FetchSession:
    """One consumer's session at one broker. A request must be answered, or be `lost`, before the next."""

    def __init__(self) -> None:
        """Start without a session."""
        self._metadata = FetchMetadata()
        self._uses_ids = False
        self._partitions: dict[TopicPartition, FetchTarget] = {}
        self._is_full = True  # the request in progress

    @property
    def session_id(self) -> int:
        """The id, 0 while there is no session."""
        return self._metadata.session_id

    def request(
        self, wanted: Mapping[TopicPartition, FetchTarget], uses_ids: bool
    ) -> SessionRequest:
        """Return what to send so that the broker reads `wanted`; topics are named by id if `uses_ids`."""
        old = self._partitions
        is_other = uses_ids != self._uses_ids or any(
            topic_partition in old and old[topic_partition].topic_id != want.topic_id
            for topic_partition, want in wanted.items()
        )
        if is_other:  # names and ids do not mix, and a topic that was created again is another one
            self._metadata.restart()
        self._partitions = dict(wanted)
        self._uses_ids = uses_ids
        self._is_full = not self._metadata.is_incremental
        session_id, epoch = self._metadata.session_id, self._metadata.request_sent()
        if self._is_full:
            return SessionRequest(session_id, epoch, dict(wanted), {})
        added = {
            topic_partition: want
            for topic_partition, want in wanted.items()
            if old.get(topic_partition) != want
        }
        forgotten = {
            topic_partition: had.topic_id
            for topic_partition, had in old.items()
            if topic_partition not in wanted
        }
        return SessionRequest(session_id, epoch, added, forgotten)

    def on_response(
        self, code: ErrorCode, session_id: int, answered: Iterable[TopicPartition]
    ) -> bool:
        """Take a response; return whether it may be used."""
        names = set(answered)
        is_other = names - self._partitions.keys() or (
            self._is_full and len(names) != len(self._partitions)
        )
        if is_other and code is ErrorCode.NONE:
            self.lost()
            return False
        return self._metadata.response_received(code, session_id, was_full=self._is_full)

    def lost(self) -> None:
        """Reset after a lost response: the next full request closes the old session."""
        self._metadata.restart()
