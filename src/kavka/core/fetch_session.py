"""Incremental fetch sessions (KIP-227): a fetcher names its partitions once, then only what changes.

    request (id, epoch)     meaning
    (0, -1)                 full fetch without session
    (0, 0)                  full fetch, make a session
    (id, 0)                 full fetch, close `id`, make a new one
    (id, -1)                full fetch, close `id`
    (id, n)                 incremental; n must be the session's next epoch, else an error of the whole request

An incremental response contains only changed partitions: records, an error, a moved high watermark or log start offset,
a preferred replica, a diverging epoch. The cache has a fixed number of slots. A new session takes the slot of one that
was not used for two minutes, else of a smaller or less privileged one that is older than that; else there is none.
Followers are privileged: a consumer never takes their slot.

The partitions of all sessions are bounded as well, which Kafka does not do: a session takes memory for each partition
that it names. For their sake only sessions that were not used for two minutes are evicted. A fetch with more partitions
than fit, or with mostly unknown ones (more than a hundred), is answered without a session; one that adds them to its
session is answered as always, and that ends the session (session id 0). No fetcher gets an error.

A partition is named by (topic name or topic id, number); one session uses names or ids, never both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from kavka.errors import ErrorCode

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
EVICTION_MS: Final = 120_000
_LAST_EPOCH: Final = 2**31 - 1


def epoch_after(epoch: int) -> int:
    """Return the epoch of the next incremental request; 1 follows 2147483647."""
    return 1 if epoch == _LAST_EPOCH else epoch + 1


PartitionKey = tuple[str | bytes, int]
"""(topic name below version 13, else topic id; partition number)."""


class FetchPartition(NamedTuple):
    """The fetch parameters of one partition."""

    fetch_offset: int
    max_bytes: int
    current_leader_epoch: int = -1
    log_start_offset: int = -1
    last_fetched_epoch: int = -1


class FetchOutcome(NamedTuple):
    """The facts of one partition's answer that decide whether it must be sent."""

    error_code: int
    high_watermark: int
    log_start_offset: int
    records_length: int
    preferred_read_replica: int = -1
    has_diverging_epoch: bool = False


_UNKNOWN: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
_FREE_UNKNOWN: Final = 100
"""So many unknown partitions are no reason to keep no session."""


class _CachedPartition:
    """The session's state of a partition: the last request, and the offsets last sent."""

    __slots__ = ("high_watermark", "log_start_offset", "request")

    def __init__(self, request: FetchPartition) -> None:
        self.request = request
        self.high_watermark = -1
        self.log_start_offset = -1

    def has_changes(self, outcome: FetchOutcome) -> bool:
        """Return whether the response must include the partition, and record it as sent."""
        is_changed = (
            outcome.records_length > 0
            or outcome.high_watermark != self.high_watermark
            or outcome.log_start_offset != self.log_start_offset
            or outcome.preferred_read_replica >= 0
        )
        self.high_watermark = outcome.high_watermark
        self.log_start_offset = outcome.log_start_offset
        if outcome.error_code != 0 or outcome.has_diverging_epoch:
            # After the error the partition is sent again, with any high watermark.
            self.high_watermark = -1
            return True
        return is_changed


class _Session:
    """One slot of the cache."""

    __slots__ = (
        "by_topic_id",
        "created_ms",
        "epoch",
        "is_privileged",
        "last_used_ms",
        "partitions",
        "session_id",
    )

    def __init__(
        self, session_id: int, is_privileged: bool, by_topic_id: bool, now_ms: int
    ) -> None:
        self.session_id = session_id
        self.is_privileged = is_privileged
        self.by_topic_id = by_topic_id
        self.created_ms = now_ms
        self.last_used_ms = now_ms
        self.epoch = 1  # the epoch that the next request must have
        # In the order of fetching: those that gave records go to the end, so that each gets its turn.
        self.partitions: dict[PartitionKey, _CachedPartition] = {}

    def update(
        self, partitions: Mapping[PartitionKey, FetchPartition], forgotten: Iterable[PartitionKey]
    ) -> int:
        """Take what a request says; return by how many partitions the session has grown."""
        before = len(self.partitions)
        for key, request in partitions.items():
            cached = self.partitions.get(key)
            if cached is None:
                self.partitions[key] = _CachedPartition(request)
            else:
                cached.request = request
        for key in forgotten:
            self.partitions.pop(key, None)
        return len(self.partitions) - before


class FetchContext:
    """One fetch request on its way: what to read, and afterwards what to answer."""

    __slots__ = (
        "_cache",
        "_epoch",
        "_is_follower",
        "_is_last",
        "_partitions",
        "_session",
        "_wants_session",
    )

    def __init__(
        self,
        cache: FetchSessionCache,
        partitions: Mapping[PartitionKey, FetchPartition],
        session: _Session | None,
        wants_session: bool,
        is_follower: bool,
        *,
        is_last: bool = False,
    ) -> None:
        """Made by `FetchSessionCache.begin`; `is_last` of a session that is not kept any longer."""
        self._cache = cache
        self._partitions = partitions
        self._session = session
        self._epoch = session.epoch if session is not None else 0
        self._wants_session = wants_session
        self._is_follower = is_follower
        self._is_last = is_last

    @property
    def session_id(self) -> int:
        """The session of an incremental fetch; 0 for a full one."""
        return self._session.session_id if self._session is not None else NO_SESSION

    @property
    def makes_session(self) -> bool:
        """Return whether `finish` may need a candidate for the id of a new session."""
        return self._session is None and self._wants_session

    def __len__(self) -> int:
        """Return how many partitions are to be read."""
        return len(self._partitions if self._session is None else self._session.partitions)

    def partitions(self) -> list[tuple[PartitionKey, FetchPartition]]:
        """Return all partitions to read, in the order in which the bytes of the response are shared out."""
        if self._session is None:
            return list(self._partitions.items())
        return [(key, cached.request) for key, cached in self._session.partitions.items()]

    def has_changes(self, key: PartitionKey, outcome: FetchOutcome) -> bool:
        """Return whether a response with this outcome would hold the partition; remembers nothing."""
        cached = self._session.partitions.get(key) if self._session is not None else None
        if cached is None:
            return True
        return (
            outcome.records_length > 0
            or outcome.error_code != 0
            or outcome.has_diverging_epoch
            or outcome.preferred_read_replica >= 0
            or outcome.high_watermark != cached.high_watermark
            or outcome.log_start_offset != cached.log_start_offset
        )

    def finish(
        self, outcomes: Mapping[PartitionKey, FetchOutcome], candidate_id: int, now_ms: int
    ) -> FetchSessionResult:
        """Choose what the response holds. `candidate_id` is a random positive i32, for a session to be made."""
        if self._session is None:
            session_id = NO_SESSION
            if self._wants_session:
                session_id = self._cache.create(
                    self._partitions, outcomes, self._is_follower, candidate_id, now_ms
                )
            return FetchSessionResult(ErrorCode.NONE, session_id, list(outcomes))
        session = self._session
        if not self._is_last and (session.epoch != self._epoch or not self._cache.holds(session)):
            return FetchSessionResult(ErrorCode.INVALID_FETCH_SESSION_EPOCH, NO_SESSION, [])
        if not self._is_last and _is_mostly_unknown(outcomes, len(session.partitions)):
            self._cache.end(session)
            self._is_last = True
        included: list[PartitionKey] = []
        for key, outcome in outcomes.items():
            cached = session.partitions.get(key)
            if cached is None or not cached.has_changes(outcome):
                continue
            included.append(key)
            if outcome.records_length > 0:
                session.partitions[key] = session.partitions.pop(key)
        session_id = NO_SESSION if self._is_last else session.session_id
        return FetchSessionResult(ErrorCode.NONE, session_id, included)

    def refuse(self) -> FetchSessionResult:
        """Answer nothing for now: a quota is exceeded. The session remembers nothing of what was found."""
        session = self._session
        if session is None:
            return FetchSessionResult(ErrorCode.NONE, NO_SESSION, [])
        if not self._is_last and (session.epoch != self._epoch or not self._cache.holds(session)):
            return FetchSessionResult(ErrorCode.INVALID_FETCH_SESSION_EPOCH, NO_SESSION, [])
        return FetchSessionResult(
            ErrorCode.NONE, NO_SESSION if self._is_last else session.session_id, []
        )


class FetchSessionResult(NamedTuple):
    """The head of a fetch response and the partitions that it holds."""

    error_code: ErrorCode
    session_id: int
    partitions: list[PartitionKey]


class FetchSessionCache:
    """All fetch sessions of a broker, at most `slots` (`max.incremental.fetch.session.cache.slots`)."""

    def __init__(
        self, slots: int, max_partitions: int = 1 << 31, eviction_ms: int = EVICTION_MS
    ) -> None:
        """Keep no more than `slots` sessions, of `max_partitions` together; 0 makes every fetch a full one."""
        self._slots = slots
        self._max_partitions = max_partitions
        self._eviction_ms = eviction_ms
        self.partition_count = 0
        """Number of partitions in all sessions."""
        # Invariant: in the order of last use, so the stalest is first. len <= slots.
        self._sessions: dict[int, _Session] = {}
        self.evictions = 0

    def __len__(self) -> int:
        """Return how many sessions are open."""
        return len(self._sessions)

    def holds(self, session: _Session) -> bool:
        """Return whether the session still has its slot."""
        return self._sessions.get(session.session_id) is session

    def end(self, session: _Session) -> None:
        """Keep a session no longer."""
        del self._sessions[session.session_id]
        self.partition_count -= len(session.partitions)

    def begin(
        self,
        session_id: int,
        session_epoch: int,
        partitions: Mapping[PartitionKey, FetchPartition],
        forgotten: Iterable[PartitionKey],
        *,
        by_topic_id: bool,
        is_follower: bool,
        now_ms: int,
    ) -> FetchContext | ErrorCode:
        """Start a fetch. An error code refuses the whole request: the fetcher starts over with a full one."""
        if session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            named = self._sessions.get(session_id)
            if named is not None:
                self.end(named)
            return FetchContext(self, partitions, None, session_epoch == INITIAL_EPOCH, is_follower)
        session = self._sessions.get(session_id)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != session_epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if session.by_topic_id != by_topic_id:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        self.end(session)
        growth = session.update(partitions, forgotten)
        if not session.partitions:
            return FetchContext(self, {}, None, False, is_follower)
        session.last_used_ms = now_ms
        session.epoch = epoch_after(session.epoch)
        fits = growth <= 0 or self._has_room(len(session.partitions), now_ms)
        if fits:
            self._keep(session)
        return FetchContext(self, {}, session, False, is_follower, is_last=not fits)

    def create(
        self,
        partitions: Mapping[PartitionKey, FetchPartition],
        outcomes: Mapping[PartitionKey, FetchOutcome],
        is_follower: bool,
        candidate_id: int,
        now_ms: int,
    ) -> int:
        """Make a session for a full fetch and return its id; 0 when there is nothing worth keeping or no room."""
        if not partitions or _is_mostly_unknown(outcomes, len(partitions)):
            return NO_SESSION
        if not self._evict_for(is_follower, len(partitions), now_ms):
            return NO_SESSION
        session_id = max(1, candidate_id & _LAST_EPOCH)
        while session_id in self._sessions:
            session_id = max(1, (session_id + 1) & _LAST_EPOCH)
        by_topic_id = isinstance(next(iter(partitions))[0], bytes)
        session = _Session(session_id, is_follower, by_topic_id, now_ms)
        session.update(partitions, ())
        for key, outcome in outcomes.items():
            if key in session.partitions:
                session.partitions[key].has_changes(outcome)
        self._keep(session)
        return session_id

    def _keep(self, session: _Session) -> None:
        self._sessions[session.session_id] = session
        self.partition_count += len(session.partitions)

    def _has_room(self, size: int, now_ms: int) -> bool:
        """Return whether `size` more partitions fit, perhaps after the eviction of unused sessions."""
        if size > self._max_partitions:
            return False
        while self.partition_count + size > self._max_partitions:
            stalest = next(iter(self._sessions.values()))
            if now_ms - stalest.last_used_ms <= self._eviction_ms:
                return False
            self.end(stalest)
            self.evictions += 1
        return True

    def _evict_for(self, is_privileged: bool, size: int, now_ms: int) -> bool:
        if not self._has_room(size, now_ms):
            return False
        if len(self._sessions) < self._slots:
            return True
        victim = self._session_to_evict(is_privileged, size, now_ms)
        if victim is None:
            return False
        self.end(victim)
        self.evictions += 1
        return True

    def _session_to_evict(self, is_privileged: bool, size: int, now_ms: int) -> _Session | None:
        stalest = next(iter(self._sessions.values()), None)
        if stalest is not None and now_ms - stalest.last_used_ms > self._eviction_ms:
            return stalest
        candidates = [
            s for s in self._sessions.values() if self._is_evictable(s, is_privileged, now_ms)
        ]
        if not candidates:
            return None
        smallest = min(candidates, key=_rank)
        return smallest if _rank(smallest) < (is_privileged, size, 0) else None

    def _is_evictable(self, session: _Session, by_privileged: bool, now_ms: int) -> bool:
        if now_ms - session.created_ms > self._eviction_ms:
            return True
        return by_privileged and not session.is_privileged


def _rank(session: _Session) -> tuple[bool, int, int]:
    return (session.is_privileged, len(session.partitions), session.session_id)


def _is_mostly_unknown(outcomes: Mapping[PartitionKey, FetchOutcome], partitions: int) -> bool:
    """Return whether more than half of a session's partitions do not exist here, and they are many."""
    if len(outcomes) <= _FREE_UNKNOWN:
        return False
    unknown = sum(1 for outcome in outcomes.values() if outcome.error_code in _UNKNOWN)
    return unknown > max(_FREE_UNKNOWN, partitions // 2)
