"""One partition's replication, as its leader or follower sees it.

    log_start_offset                    last_stable_offset   high_watermark       log_end_offset
          |  readable by read_committed       |                    |                    |
          v---------------------------------->v                    |                    |
          |  readable by all consumers        +------------------->v                    |
          |  replicated by followers                               +------------------->v

The leader takes appends, learns from followers' fetches how far they are, and moves the high watermark to
the smallest log end offset of those that are in sync or about to be. Membership of the in-sync set changes through the
controller: the leader proposes (`IsrChange`), counts with the *maximal* set while the proposal is in progress (nothing
can be acknowledged that a replica about to join lacks), and adopts what the controller answers.

Epochs fence: the leader epoch grows with each election, the partition epoch with each change of leader or in-sync set.
Sources: KIP-101, KIP-320, KIP-497, KIP-966; Kafka's `Partition` and `Replica`.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from enum import Enum
from typing import NamedTuple

from kavka.errors import ErrorCode
from kavka.ids import (
    NO_TOPIC_ID,
    BrokerId,
    LeaderEpoch,
    TopicId,
    TopicPartition,
    are_other_topics,
)
from kavka.values import frozen

NO_LEADER = BrokerId(-1)
_NEVER_MS = -(2**62)


class Role(Enum):
    """The role of this broker for the partition."""

    NONE = "none"
    LEADER = "leader"
    FOLLOWER = "follower"


@frozen
class PartitionState:
    """The controller's state of a partition: the content of LeaderAndIsr, and of the znode `state`."""

    leader: BrokerId
    leader_epoch: LeaderEpoch
    partition_epoch: int
    in_sync_replicas: tuple[BrokerId, ...]
    replicas: tuple[BrokerId, ...]
    adding_replicas: tuple[BrokerId, ...] = ()
    removing_replicas: tuple[BrokerId, ...] = ()
    controller_epoch: int = 0
    topic_id: TopicId = NO_TOPIC_ID


class IsrChange(NamedTuple):
    """A proposal to the controller (AlterPartition), valid only while both epochs are the partition's."""

    in_sync_replicas: tuple[BrokerId, ...]
    leader_epoch: LeaderEpoch
    partition_epoch: int
    broker_epochs: tuple[int, ...]
    """Broker epoch of each of them, from its fetches at the proposal; -1 for the leader, and where no fetch had one.

    A broker that has registered again since may have lost records (KIP-903): the controller compares these epochs.
    """


class FollowerActivity:
    """Facts in each fetch of a follower that hold for all its partitions, though the fetch names only changed ones."""

    __slots__ = ("broker_epoch", "last_fetch_ms")

    def __init__(self, last_ms: int = _NEVER_MS) -> None:
        """Begin with the first fetch."""
        self.last_fetch_ms = last_ms
        self.broker_epoch = -1
        """Of the follower's registration as it was then: another one after each loss of its session."""


class Follower:
    """The leader's state of another replica."""

    __slots__ = (
        "activity",
        "last_caught_up_ms",
        "last_fetch_leader_end_offset",
        "last_fetch_ms",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(self, last_caught_up_ms: int) -> None:
        """Begin with the time at which the follower was last in sync."""
        self.log_end_offset = -1  # -1 is unknown: it holds the high watermark back
        self.log_start_offset = -1
        self.last_caught_up_ms = last_caught_up_ms
        self.last_fetch_leader_end_offset = -1
        self.last_fetch_ms = _NEVER_MS
        self.activity: FollowerActivity | None = None

    @property
    def broker_epoch(self) -> int:
        """The follower's registration, as its last fetch said; -1 when it did not."""
        return -1 if self.activity is None else self.activity.broker_epoch

    def restarted(self) -> None:
        """Note that the leader appends, and that this replica had everything until then."""
        if self.activity is not None and self.activity.last_fetch_ms > self.last_caught_up_ms:
            self.last_caught_up_ms = self.activity.last_fetch_ms

    def fetched(
        self, offset: int, log_start_offset: int, leader_end_offset: int, now_ms: int
    ) -> None:
        """Note a fetch from `offset`, which says that it has all before; `leader_end_offset` is of that moment.

        A follower that now reaches the leader's end of its previous fetch was caught up then: a follower that is
        always one fetch behind a busy leader is in sync.
        """
        if offset >= leader_end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)
        elif offset >= self.last_fetch_leader_end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.log_end_offset = offset
        self.log_start_offset = log_start_offset
        self.last_fetch_leader_end_offset = leader_end_offset
        self.last_fetch_ms = now_ms

    def is_caught_up(self, leader_end_offset: int, now_ms: int, max_lag_ms: int) -> bool:
        """Return whether it has all, or had all within `replica.lag.time.max.ms`."""
        return (
            self.log_end_offset == leader_end_offset
            or now_ms - self.last_caught_up_ms <= max_lag_ms
        )


def _always_alive(_broker: BrokerId) -> bool:
    return True


class Partition:
    """The replication state of one partition on this broker.

    `min_insync_replicas` and `max_lag_ms` are set again by the owner when the settings change.
    """

    def __init__(
        self,
        topic_partition: TopicPartition,
        broker_id: BrokerId,
        *,
        log_start_offset: int = 0,
        log_end_offset: int = 0,
        high_watermark: int = 0,
        min_insync_replicas: int = 1,
        max_lag_ms: int = 30_000,
    ) -> None:
        """Start from what the disk has: the log's ends and the checkpointed high watermark, which is clamped."""
        self.topic_partition = topic_partition
        self.broker_id = broker_id
        self.min_insync_replicas = min_insync_replicas
        self.max_lag_ms = max_lag_ms
        self.is_alive: Callable[[BrokerId], bool] = _always_alive
        """True if a broker is known to be alive; the owner advances the high watermark when that changes."""
        self.topic_id = NO_TOPIC_ID
        self.role = Role.NONE
        self.leader = NO_LEADER
        self.leader_epoch = LeaderEpoch(-1)
        self.partition_epoch = -1
        self.controller_epoch = -1
        self.replicas: tuple[BrokerId, ...] = ()
        self.adding_replicas: tuple[BrokerId, ...] = ()
        self.removing_replicas: tuple[BrokerId, ...] = ()
        # Committed by the controller. Invariant while leading: holds the leader.
        self.in_sync_replicas: tuple[BrokerId, ...] = ()
        self._pending: IsrChange | None = None
        # Since then this log was not cut: what was appended in any epoch from here on is in it.
        self.leads_since = LeaderEpoch(-1)
        # Start of this leader's epoch: a replica that has not reached it may have records of a diverging log.
        self.leader_epoch_start_offset = -1
        self.followers: dict[BrokerId, Follower] = {}
        # While following: whether this replica was in sync when the leader's epoch began.
        self.began_in_sync = False
        # Invariant: log_start_offset <= last_stable_offset <= high_watermark <= log_end_offset.
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self.high_watermark = min(max(high_watermark, log_start_offset), log_end_offset)
        self.first_unstable_offset: int | None = None
        self._check()

    def _check(self) -> None:
        assert 0 <= self.log_start_offset <= self.high_watermark <= self.log_end_offset, self
        assert self.role is not Role.LEADER or self.broker_id in self.in_sync_replicas, self

    def __repr__(self) -> str:
        """Show the facts that invariants speak of."""
        return (
            f"<{self.topic_partition} {self.role.value} epoch={self.leader_epoch} "
            f"start={self.log_start_offset} hw={self.high_watermark} end={self.log_end_offset} "
            f"isr={list(self.in_sync_replicas)}>"
        )

    # What may be read

    @property
    def is_leader(self) -> bool:
        """Return whether this broker leads."""
        return self.role is Role.LEADER

    @property
    def last_stable_offset(self) -> int:
        """Return the end of read_committed: the first undecided transaction's offset, or the high watermark."""
        first_unstable = self.first_unstable_offset
        if first_unstable is None or first_unstable >= self.high_watermark:
            return self.high_watermark
        return max(first_unstable, self.log_start_offset)

    def readable_end(self, *, read_committed: bool = False, is_follower: bool = False) -> int:
        """Return the offset before which a fetcher may read."""
        if is_follower:
            return self.log_end_offset
        return self.last_stable_offset if read_committed else self.high_watermark

    def check_leader_epoch(self, leader_epoch: int) -> ErrorCode:
        """Judge the epoch that a request carries; -1 claims nothing (KIP-320)."""
        if leader_epoch < 0 or leader_epoch == self.leader_epoch:
            return ErrorCode.NONE
        if leader_epoch < self.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.UNKNOWN_LEADER_EPOCH

    def check_leader(self, leader_epoch: int = -1) -> ErrorCode:
        """Judge a request that only the leader may answer. The epoch counts first, as in Kafka."""
        error = self.check_leader_epoch(leader_epoch)
        if error is ErrorCode.NONE and self.role is not Role.LEADER:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return error

    # Acks

    @property
    def effective_min_insync_replicas(self) -> int:
        """The value of `min.insync.replicas`, or the number of replicas if that is smaller."""
        return min(self.min_insync_replicas, max(1, len(self.replicas)))

    @property
    def has_enough_replicas(self) -> bool:
        """Return whether the in-sync set is large enough for acks=all, before an append."""
        in_sync = len(self.in_sync_replicas)
        return in_sync >= self.min_insync_replicas or in_sync >= self.effective_min_insync_replicas

    def acknowledged(self, end_offset: int, leader_epoch: int) -> ErrorCode | None:
        """Return the outcome of a produce with acks=all that ends before `end_offset`; None while it waits.

        `leader_epoch` is that of the append. A leader that stays leader in a newer epoch (another replica failed, say)
        still has the records, so its producers need not send them once more.
        """
        if self.role is not Role.LEADER or leader_epoch < self.leads_since:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if self.high_watermark < end_offset:
            return None
        return (
            ErrorCode.NONE
            if self.has_enough_replicas
            else ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        )

    # The leader's log

    def appended(self, end_offset: int, now_ms: int) -> bool:
        """Note that the leader's log now ends at `end_offset`; return whether the high watermark moved.

        `now_ms` counts only where there are followers.
        """
        present = self.log_end_offset
        assert end_offset >= present, (self, end_offset)
        for follower in self.followers.values() if self.followers else ():
            if follower.log_end_offset == present:
                follower.restarted()
        self.log_end_offset = end_offset
        if self.followers or self.min_insync_replicas > 1:
            return self.advance_high_watermark(now_ms)
        # What `advance_high_watermark` comes to for a leader without followers, which is asked for each batch.
        if self.role is not Role.LEADER or end_offset <= self.high_watermark:
            return False
        self.high_watermark = end_offset
        return True

    def advance_high_watermark(self, now_ms: int) -> bool:
        """Advance the leader's high watermark as far as the replicas allow; return whether it moved."""
        if self.role is not Role.LEADER or not self.has_enough_replicas:
            return False
        end_offset = self.log_end_offset
        if self.followers:
            end_offset = self._replicated_end(end_offset, now_ms)
        if end_offset <= self.high_watermark:
            return False
        self.high_watermark = end_offset
        return True

    @property
    def live_replicas(self) -> list[BrokerId]:
        """The replicas with a live broker, as far as is known."""
        return [broker for broker in self.replicas if self.is_alive(broker)]

    @property
    def may_be_replaced(self) -> bool:
        """Return whether another leader of the maximal in-sync set may have been elected without notifying this one."""
        maximal = {*self.in_sync_replicas, *(self.pending_isr or ())}
        return maximal != {self.broker_id}

    def _replicated_end(self, end_offset: int, now_ms: int) -> int:
        for broker_id, follower in self.followers.items():
            if follower.log_end_offset < end_offset and self._blocks_high_watermark(
                broker_id, follower, now_ms
            ):
                end_offset = follower.log_end_offset
        return end_offset

    def waits_for(self, broker_id: BrokerId, now_ms: int) -> bool:
        """Return whether the high watermark waits for a replica: to keep records from it would stop producers."""
        follower = self.followers.get(broker_id)
        return follower is not None and self._blocks_high_watermark(broker_id, follower, now_ms)

    def _blocks_high_watermark(self, broker_id: BrokerId, follower: Follower, now_ms: int) -> bool:
        """Return whether the high watermark waits for this replica: in the maximal set, or about to rejoin it."""
        if broker_id in self.in_sync_replicas:
            return True
        if self._pending is not None and broker_id in self._pending.in_sync_replicas:
            return True
        if not self.is_alive(broker_id):
            return False  # it cannot join: the controller would refuse it
        return follower.is_caught_up(self.log_end_offset, now_ms, self.max_lag_ms)

    def follower_fetched(
        self,
        replica: BrokerId,
        offset: int,
        now_ms: int,
        log_start_offset: int = -1,
        *,
        is_alive: bool = True,
    ) -> tuple[bool, IsrChange | None]:
        """Note a follower's fetch from `offset`; return whether the high watermark moved, and a larger set to propose.

        The replica must be one of `replicas` (else the fetch is answered UNKNOWN_LEADER_EPOCH and not noted). One that
        the cluster does not know to be alive is not proposed.
        """
        assert self.role is Role.LEADER, self
        follower = self.followers[replica]
        follower.fetched(offset, log_start_offset, self.log_end_offset, now_ms)
        change = self._propose_expansion(replica, follower) if is_alive else None
        return self.advance_high_watermark(now_ms), change

    def low_watermark(self) -> int:
        """Return the smallest log start offset of all replicas that are alive: what DeleteRecords waits for.

        A replica that comes back takes the leader's log start offset with its first fetch.
        """
        starts = [f.log_start_offset for b, f in self.followers.items() if self.is_alive(b)]
        return min([self.log_start_offset, *starts])

    # The in-sync set

    def _propose_expansion(self, replica: BrokerId, follower: Follower) -> IsrChange | None:
        if self._pending is not None or replica in self.in_sync_replicas:
            return None
        if follower.log_end_offset < max(self.high_watermark, self.leader_epoch_start_offset):
            return None
        return self._propose((*self.in_sync_replicas, replica))

    def propose_expansion(self, alive: Container[BrokerId], now_ms: int) -> IsrChange | None:
        """Propose a replica that has caught up, but was not proposed at its own fetch, or was refused."""
        if self.role is not Role.LEADER or self._pending is not None:
            return None
        for replica, follower in self.followers.items():
            if replica in alive and self._is_fetching(follower, now_ms):
                change = self._propose_expansion(replica, follower)
                if change is not None:
                    return change
        return None

    def _is_fetching(self, follower: Follower, now_ms: int) -> bool:
        last_ms = (
            follower.last_fetch_ms if follower.activity is None else follower.activity.last_fetch_ms
        )
        return now_ms - last_ms <= self.max_lag_ms

    def propose_shrink(self, now_ms: int) -> IsrChange | None:
        """Propose the set without those that lag; asked every half of `replica.lag.time.max.ms`."""
        if self.role is not Role.LEADER or self._pending is not None:
            return None
        stay = tuple(b for b in self.in_sync_replicas if not self._lags(b, now_ms))
        return None if len(stay) == len(self.in_sync_replicas) else self._propose(stay)

    def _lags(self, broker_id: BrokerId, now_ms: int) -> bool:
        if broker_id == self.broker_id:
            return False
        follower = self.followers.get(broker_id)
        if follower is None:
            return True  # it is not, or no longer, a replica: no response names it
        return not follower.is_caught_up(self.log_end_offset, now_ms, self.max_lag_ms)

    def _propose(self, in_sync_replicas: tuple[BrokerId, ...]) -> IsrChange:
        broker_epochs = tuple(map(self._broker_epoch_of, in_sync_replicas))
        self._pending = IsrChange(
            in_sync_replicas, self.leader_epoch, self.partition_epoch, broker_epochs
        )
        return self._pending

    def _broker_epoch_of(self, broker_id: BrokerId) -> int:
        follower = self.followers.get(broker_id)
        return -1 if follower is None else follower.broker_epoch

    def isr_changed(
        self,
        change: IsrChange,
        in_sync_replicas: tuple[BrokerId, ...],
        partition_epoch: int,
        now_ms: int,
    ) -> bool:
        """Adopt the controller's response to `change`; return whether the high watermark moved.

        A response that is older than a later request of the controller is dropped.
        """
        if change != self._pending:
            return False
        self._pending = None
        if partition_epoch >= self.partition_epoch:
            self.in_sync_replicas = in_sync_replicas
            self.partition_epoch = partition_epoch
            self._check()
        return self.advance_high_watermark(now_ms)

    def isr_change_failed(self, change: IsrChange, error: ErrorCode) -> bool:
        """Handle the refusal of `change`; return whether the same proposal should be sent again later.

        After errors that mean "your view is old" the set stays maximal until the controller's next request: the
        proposal may have been carried out, and is made again from time to time (`pending_change`).
        INVALID_REQUEST and INELIGIBLE_REPLICA say that it was not.
        """
        if change != self._pending:
            return False
        if error in (
            ErrorCode.INVALID_REQUEST,
            ErrorCode.INELIGIBLE_REPLICA,
            ErrorCode.OPERATION_NOT_ATTEMPTED,
        ):
            self._pending = None
            return False
        stale = (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.UNKNOWN_TOPIC_ID,
            ErrorCode.FENCED_LEADER_EPOCH,
            ErrorCode.INVALID_UPDATE_VERSION,
        )
        return error not in stale

    @property
    def pending_isr(self) -> tuple[BrokerId, ...] | None:
        """Return the proposed in-sync set, while its outcome is unknown."""
        return None if self._pending is None else self._pending.in_sync_replicas

    def pending_change(self) -> IsrChange | None:
        """Return the pending proposal, if there is one."""
        return self._pending

    # What the controller says

    def apply_state(self, state: PartitionState, now_ms: int) -> ErrorCode:
        """Lead or follow, as requested by the controller in a newer leader epoch (else STALE_CONTROLLER_EPOCH)."""
        if state.leader_epoch <= self.leader_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        if are_other_topics(self.topic_id, state.topic_id):
            return ErrorCode.INCONSISTENT_TOPIC_ID
        if state.leader == self.broker_id and self.broker_id not in state.in_sync_replicas:
            return ErrorCode.INVALID_REQUEST  # what it has need not be what was acknowledged
        if state.topic_id != NO_TOPIC_ID:
            self.topic_id = state.topic_id
        self.leader = state.leader
        self.leader_epoch = state.leader_epoch
        self.partition_epoch = state.partition_epoch
        self.controller_epoch = state.controller_epoch
        self.replicas = state.replicas
        self.adding_replicas = state.adding_replicas
        self.removing_replicas = state.removing_replicas
        self._pending = None
        if state.leader == self.broker_id:
            self._become_leader(state, now_ms)
        else:
            self._become_follower(state)
        self._check()
        return ErrorCode.NONE

    def _become_leader(self, state: PartitionState, now_ms: int) -> None:
        if self.role is not Role.LEADER:
            self.leads_since = state.leader_epoch
        self.role = Role.LEADER
        self.in_sync_replicas = state.in_sync_replicas
        self.leader_epoch_start_offset = self.log_end_offset
        self.followers = {
            broker_id: Follower(now_ms if broker_id in state.in_sync_replicas else _NEVER_MS)
            for broker_id in state.replicas
            if broker_id != self.broker_id
        }
        self.advance_high_watermark(now_ms)

    def _become_follower(self, state: PartitionState) -> None:
        self.role = Role.FOLLOWER
        self.began_in_sync = self.broker_id in state.in_sync_replicas
        self.in_sync_replicas = ()
        self.leader_epoch_start_offset = -1
        self.followers = {}

    def resign(self) -> None:
        """End the role: the partition is another broker's, and operations in progress on this object fail."""
        self.role = Role.NONE
        self._pending = None
        self.followers = {}

    # The follower's log, and what storage does

    def follower_appended(self, end_offset: int, leader_high_watermark: int) -> bool:
        """Note what was fetched from the leader and written; return whether the high watermark moved."""
        assert self.role is Role.FOLLOWER, self
        assert end_offset >= self.log_end_offset, (self, end_offset)
        self.log_end_offset = end_offset
        high_watermark = max(self.log_start_offset, min(end_offset, leader_high_watermark))
        if high_watermark <= self.high_watermark:
            return False
        self.high_watermark = high_watermark
        return True

    def truncated(self, end_offset: int) -> None:
        """Note that a follower cut its log to `end_offset`, by the leader's epochs."""
        assert self.role is not Role.LEADER, self
        self.log_end_offset = min(self.log_end_offset, end_offset)
        self.high_watermark = min(self.high_watermark, self.log_end_offset)
        self.log_start_offset = min(self.log_start_offset, self.log_end_offset)
        self._check()

    def restarted_at(self, offset: int) -> None:
        """Note that a follower emptied its log and starts at `offset`, the leader's log start offset."""
        assert self.role is not Role.LEADER, self
        self.log_start_offset = self.high_watermark = self.log_end_offset = offset
        self.first_unstable_offset = None

    def log_start_moved(self, log_start_offset: int) -> bool:
        """Note that records before the offset are gone (retention, DeleteRecords); False when it is no progress.

        A leader deletes below its high watermark only; a follower's high watermark is pushed along.
        """
        if log_start_offset <= self.log_start_offset:
            return False
        assert log_start_offset <= self.log_end_offset, (self, log_start_offset)
        assert self.role is not Role.LEADER or log_start_offset <= self.high_watermark, (
            self,
            log_start_offset,
        )
        self.log_start_offset = log_start_offset
        self.high_watermark = max(self.high_watermark, log_start_offset)
        return True
