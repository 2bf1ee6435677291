"""The follower's side of replication: its log becomes and stays equal to the leader's.

Pure; one machine for each partition and one for each fetch session.

    phase        requests                    next
    TRUNCATING   the end of its last epoch   FETCHING, once the leader knows the epoch, too (leaders below Fetch v12)
    FETCHING     records from its end on     SEARCHING when that is out of the leader's range
    SEARCHING    the leader's end and start  FETCHING, truncated to the leader's end or begun again at its start
    FAILED       nothing                     TRUNCATING or FETCHING, when the controller names a newer leader epoch

A follower sends the epoch of its last record with each fetch, so a leader of Fetch v12 or later answers at once
where the logs diverge (KIP-595); with older leaders it asks for the ends of epochs first (KIP-101, KIP-279).
It never truncates by its high watermark, which may be behind the leader's, unless there are no epochs to go by.

The shell sends `next_request`, gives its response to `*_fetched`, and does the step that comes out *before* it asks for
the next one: the machine reads the log's ends from the log itself, and so cannot be of another opinion.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple, Protocol

from kavka.core.fetch_metadata import FetchMetadata
from kavka.core.fetch_session import FetchPartition, PartitionKey
from kavka.errors import ErrorCode

LATEST: Final = -1
EARLIEST: Final = -2
_UNKNOWN: Final = -1
_FIRST_BACKOFF_MS: Final = 10


class FollowedLog(Protocol):
    """The follower's own log, as far as the decisions need it."""

    @property
    def log_start_offset(self) -> int:
        """The first offset."""
        ...

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record from the leader must have."""
        ...

    @property
    def high_watermark(self) -> int:
        """Return the high watermark: all offsets below it are known to be committed."""
        ...

    @property
    def latest_epoch(self) -> int:
        """The epoch of the last record, -1 when none is known."""
        ...

    def end_offset_for(self, epoch: int) -> tuple[int, int]:
        """Return the largest epoch that is not above `epoch` and where it ends; (-1, -1) when nothing is known."""
        ...


class Phase(Enum):
    """The phase of a follower."""

    TRUNCATING = "truncating"
    FETCHING = "fetching"
    SEARCHING = "searching"
    FAILED = "failed"


class FetchRecords(NamedTuple):
    """Fetch from `fetch_offset` on."""

    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int
    leader_epoch: int


class FetchEpochEndOffset(NamedTuple):
    """Ask OffsetForLeaderEpoch for the end of `epoch`."""

    epoch: int
    leader_epoch: int


class FetchOffset(NamedTuple):
    """Ask ListOffsets for `timestamp`: LATEST, which is its log's end for a follower, or EARLIEST."""

    timestamp: int
    leader_epoch: int


LeaderRequest = FetchRecords | FetchEpochEndOffset | FetchOffset


class Append(NamedTuple):
    """Append the records, if any; then adopt the leader's high watermark and log start offset."""

    high_watermark: int
    log_start_offset: int


class Truncate(NamedTuple):
    """Cut the log to `offset`."""

    offset: int


class RestartAt(NamedTuple):
    """Drop everything, and begin at `offset`."""

    offset: int


Step = Append | Truncate | RestartAt


class FetchedPartition(NamedTuple):
    """The leader's response for a partition, without the records."""

    error: ErrorCode
    high_watermark: int = -1
    log_start_offset: int = -1
    diverging_epoch: int = -1
    diverging_end_offset: int = -1


class FollowedPartition:
    """One partition that this broker follows, in one leader epoch; a newer epoch is another object."""

    __slots__ = (
        "_backoff_ms",
        "_max_backoff_ms",
        "_searched_end",
        "delayed_until_ms",
        "is_checked_by_fetch",
        "leader_epoch",
        "log",
        "phase",
    )

    def __init__(
        self,
        log: FollowedLog,
        leader_epoch: int,
        *,
        is_checked_by_fetch: bool = True,
        max_backoff_ms: int = 1000,
    ) -> None:
        """`is_checked_by_fetch`: the leader serves Fetch v12, whose response reports divergence."""
        self.log = log
        self.leader_epoch = leader_epoch
        self.is_checked_by_fetch = is_checked_by_fetch
        self.delayed_until_ms = 0
        self._backoff_ms = _FIRST_BACKOFF_MS
        self._max_backoff_ms = max_backoff_ms
        self._searched_end = _UNKNOWN
        self.phase = Phase.TRUNCATING
        self._begin()

    def _begin(self) -> None:
        must_ask = not self.is_checked_by_fetch and self.log.latest_epoch >= 0
        self.phase = Phase.TRUNCATING if must_ask else Phase.FETCHING

    # -- asking

    def first_step(self) -> Step | None:
        """Return what is to be done before the leader is asked: a log without epochs has its high watermark only."""
        log = self.log
        if log.latest_epoch >= 0 or log.log_end_offset <= log.high_watermark:
            return None
        return Truncate(log.high_watermark)

    def next_request(self, now_ms: int) -> LeaderRequest | None:
        """Return what to ask the leader now; None while delayed or failed."""
        if self.phase is Phase.FAILED or now_ms < self.delayed_until_ms:
            return None
        if self.phase is Phase.TRUNCATING and self.log.latest_epoch >= 0:
            return FetchEpochEndOffset(self.log.latest_epoch, self.leader_epoch)
        if self.phase is Phase.SEARCHING:
            timestamp = LATEST if self._searched_end == _UNKNOWN else EARLIEST
            return FetchOffset(timestamp, self.leader_epoch)
        self.phase = Phase.FETCHING
        log = self.log
        return FetchRecords(
            log.log_end_offset,
            log.latest_epoch if self.is_checked_by_fetch else -1,
            log.log_start_offset,
            self.leader_epoch,
        )

    @property
    def is_settled(self) -> bool:
        """Return whether it fetches records, or nothing at all."""
        return self.phase is Phase.FETCHING or self.phase is Phase.FAILED

    # -- responses

    def records_fetched(
        self, asked: FetchRecords, fetched: FetchedPartition, now_ms: int
    ) -> Step | None:
        """Take what a fetch gave; a response to a request that is no longer the present one is dropped."""
        if self.phase is not Phase.FETCHING or asked.fetch_offset != self.log.log_end_offset:
            return None
        if fetched.error is ErrorCode.OFFSET_OUT_OF_RANGE:
            self.phase, self._searched_end = Phase.SEARCHING, _UNKNOWN
            return None
        if fetched.error is not ErrorCode.NONE:
            self.refused(fetched.error, now_ms)
            return None
        self._backoff_ms = _FIRST_BACKOFF_MS
        if fetched.diverging_end_offset >= 0:
            step, _is_complete = self._truncation(
                fetched.diverging_epoch, fetched.diverging_end_offset
            )
            return step
        return Append(fetched.high_watermark, fetched.log_start_offset)

    def epoch_end_offset_fetched(
        self, asked: FetchEpochEndOffset, error: ErrorCode, epoch: int, end_offset: int, now_ms: int
    ) -> Step | None:
        """Take the end of an epoch; cut to it, and ask again while the leader's epoch is unknown here."""
        if self.phase is not Phase.TRUNCATING or asked.epoch != self.log.latest_epoch:
            return None
        if error is not ErrorCode.NONE:
            self.refused(error, now_ms)
            return None
        self._backoff_ms = _FIRST_BACKOFF_MS
        step, is_complete = self._truncation(epoch, end_offset)
        if is_complete:
            self.phase = Phase.FETCHING
        return step

    def _truncation(self, epoch: int, end_offset: int) -> tuple[Truncate, bool]:
        """Return where to cut for what the leader said of an epoch, and whether that is all.

        A cut at the end is a step, too: epochs in which nothing was written here are forgotten by it.
        """
        log = self.log
        if end_offset < 0:  # the leader knows nothing about epochs as old as ours
            return self._truncate(log.high_watermark), True
        if epoch < 0:
            return self._truncate(end_offset), True
        own_epoch, own_end = log.end_offset_for(epoch)
        if own_end < 0:
            return self._truncate(end_offset), True
        if own_epoch != epoch:
            return self._truncate(own_end), False
        return self._truncate(min(own_end, end_offset)), True

    def _truncate(self, offset: int) -> Truncate:
        return Truncate(min(offset, self.log.log_end_offset))

    def offset_fetched(
        self, asked: FetchOffset, error: ErrorCode, offset: int, now_ms: int
    ) -> Step | None:
        """Take the leader's end or start, after a fetch that was out of range."""
        if self.phase is not Phase.SEARCHING:
            return None
        if error is not ErrorCode.NONE or offset < 0:
            self.refused(error, now_ms)
            return None
        end = self.log.log_end_offset
        if asked.timestamp == LATEST:
            if offset >= end:
                self._searched_end = offset
                return None
            # An unclean leader has less than we have, and what it had not is not history any more.
            self._begin()
            return Truncate(offset)
        self._begin()
        if offset > end:
            return RestartAt(offset)
        # In range again, or the leader does not know our epoch: either way no faster than the back-off.
        self._delay(now_ms)
        return None

    # -- what goes wrong

    def refused(self, error: ErrorCode, now_ms: int) -> None:
        """Take an error: fenced by a newer leader epoch is for the controller to resolve, all else is tried again."""
        if error is ErrorCode.FENCED_LEADER_EPOCH:
            self.fail()
        else:
            self._delay(now_ms)

    def delay(self, now_ms: int) -> None:
        """Ask again later: the records were damaged on the way, or the leader was not reached."""
        self._delay(now_ms)

    def fail(self) -> None:
        """End fetching until the controller's next request: the disk of this broker failed."""
        self.phase = Phase.FAILED

    def _delay(self, now_ms: int) -> None:
        self.delayed_until_ms = now_ms + self._backoff_ms
        self._backoff_ms = min(2 * self._backoff_ms, self._max_backoff_ms)


_NOTHING: Final = FetchPartition(-1, -1)


class SessionRequest(NamedTuple):
    """The part of a Fetch that is about the session: what is named, and what is dropped."""

    session_id: int
    session_epoch: int
    partitions: dict[PartitionKey, FetchPartition]
    forgotten: list[PartitionKey]
    number: int
    """Counts the requests of this fetcher; given back with the response."""


class FollowerSession:
    """The fetcher's side of an incremental fetch session: says only what has changed (KIP-227).

    A second request may be sent before the first is answered, once there is a session: its epoch is known. Answers
    come in order; one that belongs to a session that was given up counts no more.
    """

    def __init__(self) -> None:
        """Begin with a full fetch that asks for a session."""
        self._metadata = FetchMetadata()
        self._wanted: dict[PartitionKey, FetchPartition] = {}
        # What was sent to the leader, and in which request. Of a session that begins again, nothing.
        self._sent: dict[PartitionKey, tuple[FetchPartition, int]] = {}
        self._changed: dict[PartitionKey, None] = {}
        # What the leader said of these was dropped, because a later request named them again.
        self._superseded: dict[PartitionKey, None] = {}
        self._number = 0
        self._began_with = 0

    def __len__(self) -> int:
        """Return how many partitions are to be fetched."""
        return len(self._wanted)

    @property
    def is_established(self) -> bool:
        """Return whether requests are incremental, so that one more may be sent before the response."""
        return self._metadata.is_incremental

    @property
    def has_changes(self) -> bool:
        """Return whether the next request would add, change or forget a partition."""
        return bool(self._changed) or not self.is_established

    def put(self, key: PartitionKey, wanted: FetchPartition) -> None:
        """Fetch a partition from there on."""
        if self._wanted.get(key) != wanted:
            self._wanted[key] = wanted
            self._changed[key] = None

    def drop(self, key: PartitionKey) -> None:
        """Fetch a partition no longer, for now."""
        if self._wanted.pop(key, None) is not None:
            self._changed[key] = None

    def resend(self, key: PartitionKey) -> None:
        """Name a partition again though nothing about it has changed: its response was an error, or is lost."""
        if key in self._sent:
            self._sent[key] = (_NOTHING, self._number)
        self._changed[key] = None

    def resend_superseded(self) -> None:
        """Name the partitions of a dropped late response again; called while no request is in flight.

        The leader counts them as sent, so without new records they would not get a high watermark again.
        """
        for key in self._superseded:
            self.resend(key)
        self._superseded.clear()

    def build(self) -> SessionRequest:
        """Return what the next request says."""
        self._number += 1
        position = self._metadata
        if not position.is_incremental:
            self._began_with = self._number
            self._sent = {key: (wanted, self._number) for key, wanted in self._wanted.items()}
            self._changed.clear()
            self._superseded.clear()
            named = dict(self._wanted)
            return SessionRequest(
                position.session_id, position.request_sent(), named, [], self._number
            )
        named, forgotten = self._changes()
        epoch = position.request_sent()
        return SessionRequest(position.session_id, epoch, named, forgotten, self._number)

    def _changes(self) -> tuple[dict[PartitionKey, FetchPartition], list[PartitionKey]]:
        named: dict[PartitionKey, FetchPartition] = {}
        forgotten: list[PartitionKey] = []
        for key in self._changed:
            wanted = self._wanted.get(key)
            if wanted is None:
                if self._sent.pop(key, None) is not None:
                    forgotten.append(key)
            elif key not in self._sent or self._sent[key][0] != wanted:
                named[key] = wanted
                self._sent[key] = (wanted, self._number)
        self._changed.clear()
        return named, forgotten

    def response_received(self, number: int, error: ErrorCode, session_id: int) -> bool:
        """Handle the head of the response to request `number`; return whether its partitions count."""
        if number < self._began_with:
            return False
        counts = self._metadata.response_received(
            error, session_id, was_full=number == self._began_with
        )
        if not self._metadata.is_incremental:
            self._start_session_at_next()
        return counts

    def requested(self, key: PartitionKey, number: int) -> FetchPartition | None:
        """Return what request `number` asked of a partition; None when that is not known, or asked no more.

        The caller drops what it is not given for: to the leader that is sent, so the partition is named again when it
        is wanted again, be it from the same offset on.
        """
        sent = self._sent.get(key)
        if sent is None:
            return None
        if key not in self._wanted:
            self.resend(key)
            return None
        if sent[1] > number:
            self._superseded[key] = None
            return None
        return sent[0]

    def lost(self) -> None:
        """Note that no response will arrive: the leader's session state is unknown."""
        self._metadata.restart()
        self._start_session_at_next()

    def _start_session_at_next(self) -> None:
        """Take nothing that is on its way: the next request begins with a full fetch again."""
        self._began_with = self._number + 1
