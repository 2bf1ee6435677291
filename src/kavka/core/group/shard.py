"""The group machine of one shard: it takes events, returns decisions and applies records.

A shard begins loading: `apply` takes every record of the partition, then `loaded` makes the groups live. Meanwhile
requests are refused with COORDINATOR_LOAD_IN_PROGRESS, but for heartbeats (answered without a check, so that no member
rejoins without need) and syncs (REBALANCE_IN_PROGRESS). When the partition moves away the runtime calls `resign` and
drops the machine.

Hard state: `stored`, `offsets` and `undecided` of each group, nothing else.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from heapq import heappop, heappush

from kavka.core.group import (
    describe,
    expiry,
    group_loading,
    membership,
    offsets,
    rebalance,
    transactions,
)
from kavka.core.group.events import (
    CommitOffsets,
    CommitOffsetsInTransaction,
    DeleteGroup,
    DeleteGroupReply,
    DeleteOffsets,
    DeleteOffsetsReply,
    DeleteTopicsOffsets,
    DescribedGroup,
    Event,
    FetchOffsets,
    FetchOffsetsReply,
    Heartbeat,
    HeartbeatReply,
    Join,
    JoinReply,
    Leave,
    LeaveReply,
    ListedGroup,
    Request,
    Sync,
    SyncReply,
)
from kavka.core.group.group import Group, GroupState, MembersMemory
from kavka.core.group.join import join, refuse, roll_back_replacement
from kavka.core.group.records import (
    CommittedOffset,
    GroupRecord,
    OffsetRecord,
    PendingOffsetRecord,
    Record,
    StoredGroup,
    TransactionEnd,
)
from kavka.core.group.refused_records import reply_for_refused_append, store_error
from kavka.core.group.settings import GroupSettings
from kavka.core.group.step import GroupDecision, Step
from kavka.core.group.sync import assignment_refused, assignment_stored, reply_to_late_syncs, sync
from kavka.errors import ErrorCode

Durable = dict[
    str,
    tuple[
        StoredGroup | None,
        dict[tuple[str, int], CommittedOffset],
        dict[tuple[str, int], list[tuple[int, CommittedOffset | None]]],
    ],
]

_AT_ONCE_MS = -(2**62)
_GROUPS_PER_CHECK = 200  # one tick of the retention check checks no more than these


class GroupShard:
    """The coordinator of the groups of one partition of `__consumer_offsets`; a `core.machine.Machine`."""

    def __init__(self, settings: GroupSettings, of_broker: MembersMemory | None = None) -> None:
        """Begin loading, knowing nothing; what members take is counted in `of_broker`, too."""
        self.settings = settings  # replaced by the owner when a dynamic setting changes
        self.is_loading = True
        self._groups: dict[str, Group] = {}
        self.members_memory = MembersMemory(of_broker)
        """Memory of the members of all groups of the shard, in bytes."""
        # (deadline, group id); an entry counts while it is its group's `scheduled_ms`. Deadlines that moved back are
        # found when the entry comes up, so that a heartbeat costs nothing here.
        self._timers: list[tuple[int, str]] = []
        self._next_retention_check_ms: int | None = None
        self._to_check: list[str] = []
        # Groups to look through for deleted topics.
        self._to_tombstone: deque[tuple[str, dict[str, None]]] = deque()
        self._deleted_topics: dict[str, None] = {}  # while loading
        # Producer id -> groups that it has committed for since its last marker.
        self._in_transaction: dict[int, dict[str, None]] = {}

    # The contract

    def handle(self, event: Event, now_ms: int) -> GroupDecision:
        """Decide about one event."""
        step = Step(now_ms, self.settings)
        match event:
            case DeleteTopicsOffsets():
                self._delete_topics_offsets(event)
            case _ if self.is_loading:
                _reply_while_loading(event, step)
            case Join():
                self._join(event, step)
            case Sync():
                self._sync(event, step)
            case Heartbeat():
                self._heartbeat(event, step)
            case Leave():
                self._leave(event, step)
            case CommitOffsets():
                self._commit(event, step)
            case CommitOffsetsInTransaction():
                self._commit_in_transaction(event, step)
            case FetchOffsets():
                self._fetch_offsets(event, step)
            case DeleteOffsets():
                self._delete_offsets(event, step)
            case DeleteGroup():
                self._delete_group(event, step)
        return step.decision()

    def apply(self, record: Record) -> None:
        """Remember a record of the log."""
        match record:
            case OffsetRecord():
                self._apply_offset(record)
            case GroupRecord():
                self._apply_group(record)
            case PendingOffsetRecord():
                self._apply_pending_offset(record)
            case TransactionEnd():
                self._end_transaction(record)

    def failed(self, decision: GroupDecision, error: ErrorCode, now_ms: int) -> GroupDecision:
        """Take back what was waiting for the refused records, and answer the waiting requests."""
        for record in decision.records:
            if isinstance(record, GroupRecord) and record.value is not None:
                group = self._groups.get(record.group_id)
                if group is not None:
                    group.store_ended(record.value)
        return self.overdue(decision, error, now_ms)

    def overdue(self, decision: GroupDecision, error: ErrorCode, now_ms: int) -> GroupDecision:
        """Answer requests that wait for records that are in the log and not committed in time.

        All is taken back as for refused records, but that generations are kept: they may be committed yet.
        """
        step = Step(now_ms, self.settings)
        touched: dict[str, Group] = {}
        for record in decision.records:
            if isinstance(record, TransactionEnd):
                continue  # it is in the log, and is applied when it is committed
            group = self._groups.get(record.group_id)
            if group is not None:
                touched[record.group_id] = group
                _roll_back(group, record, error, step)
        for effect in decision.effects:
            step.reply(effect.token, reply_for_refused_append(effect.reply, error))
        for group in touched.values():
            rebalance.complete_if_all_joined(group, step)
            self._settle(group, step)
        return step.decision()

    def tick(self, now_ms: int) -> GroupDecision:
        """Handle what is due for one group."""
        step = Step(now_ms, self.settings)
        group = self._next_due(now_ms)
        if group is not None:
            _run_timers(group, step)
            self._settle(group, step)
        elif self._to_tombstone:
            self._tombstone_next(step)
        elif self._next_retention_check_ms is not None and now_ms >= self._next_retention_check_ms:
            self._check_retention(step)
        return step.decision()

    def deadline_ms(self) -> int | None:
        """Return when the next group is due, or the next retention check."""
        if self._to_tombstone:
            return _AT_ONCE_MS
        while self._timers and not self._is_current(self._timers[0]):
            heappop(self._timers)
        timer = self._timers[0][0] if self._timers else None
        check = self._next_retention_check_ms
        if timer is None or check is None:
            return check if timer is None else timer
        return min(timer, check)

    # Life of the shard

    def loaded(self, now_ms: int) -> GroupDecision:
        """Begin to serve: every record of the partition has been applied."""
        assert self.is_loading, "loaded once"
        self._next_retention_check_ms = now_ms + self.settings.retention_check_interval_ms
        decision = Step(now_ms, self.settings)
        for group in self._groups.values():
            step = Step(now_ms, self.settings)
            group_loading.load_group(group, step)
            rebalance.complete_if_all_joined(group, step)
            self._settle(group, step)
            decision.records += step.records
            decision.effects += step.effects
        self.is_loading = False
        if self._deleted_topics:
            self._delete_topics_offsets(DeleteTopicsOffsets(tuple(self._deleted_topics)))
            self._deleted_topics = {}
        return decision.decision()

    def resign(self, now_ms: int) -> GroupDecision:
        """Answer all waiting requests with NOT_COORDINATOR; the machine is of no use afterwards."""
        step = Step(now_ms, self.settings)
        for group in self._groups.values():
            for member in group.members.values():
                if member.join_token is not None:
                    step.reply(
                        member.join_token, JoinReply(ErrorCode.NOT_COORDINATOR, member.member_id)
                    )
                if member.sync_token is not None:
                    step.reply(member.sync_token, SyncReply(ErrorCode.NOT_COORDINATOR))
        self._groups.clear()
        self.members_memory.clear()
        self._timers.clear()
        self._to_check.clear()
        self._to_tombstone.clear()
        self._in_transaction.clear()
        self._next_retention_check_ms = None
        self.is_loading = True
        return step.decision()

    # Reads that need no decision

    def describe(self, group_id: str) -> DescribedGroup:
        """Return one group's description, or why not."""
        if self.is_loading:
            return DescribedGroup(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, group_id)
        return describe.describe(group_id, self._groups.get(group_id))

    @property
    def offset_count(self) -> int:
        """Return the number of committed offsets, over all groups."""
        return sum(len(group.offsets) for group in self._groups.values())

    def list(
        self, states: Collection[str] = (), types: Collection[str] = ()
    ) -> list[ListedGroup] | ErrorCode:
        """Return the shard's groups that pass the filters."""
        if self.is_loading:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return [
            describe.listed(g)
            for g in self._groups.values()
            if describe.is_wanted(g, states, types)
        ]

    def durable(self) -> Durable:
        """Return the hard state: what any replay of the same records must give."""
        return {
            group_id: (
                group.stored,
                dict(group.offsets),
                {key: list(rows.items()) for key, rows in group.undecided.items()},
            )
            for group_id, group in sorted(self._groups.items())
            if group.stored is not None or group.offsets or group.undecided
        }

    def check(self) -> None:
        """Assert the invariants of all groups."""
        taken = sum(group.members_bytes for group in self._groups.values())
        assert self.members_memory.bytes == taken
        for group_id, group in self._groups.items():
            assert group.group_id == group_id
            if not self.is_loading:
                group.check()
                deadline = membership.next_deadline(group)
                assert deadline is None or (
                    group.scheduled_ms is not None and group.scheduled_ms <= deadline
                )

    # Events

    def _join(self, event: Join, step: Step) -> None:
        settings = self.settings
        if not event.group_id:
            refuse(event, ErrorCode.INVALID_GROUP_ID, step)
        elif (
            not settings.min_session_timeout_ms
            <= event.session_timeout_ms
            <= settings.max_session_timeout_ms
        ):
            refuse(event, ErrorCode.INVALID_SESSION_TIMEOUT, step)
        else:
            group = self._groups.get(event.group_id)
            if group is None and event.member_id:
                refuse(event, ErrorCode.UNKNOWN_MEMBER_ID, step)
                return
            group = group or self._make(event.group_id)
            join(group, event, step)
            self._settle(group, step)

    def _sync(self, event: Sync, step: Step) -> None:
        group, error = self._find(event.group_id)
        if group is None:
            step.reply(event.token, SyncReply(error))
            return
        sync(group, event, step)
        self._settle(group, step)

    def _fetch_offsets(self, event: FetchOffsets, step: Step) -> None:
        reply = offsets.fetch(self._groups.get(event.group_id), event)
        is_stable = all(code is ErrorCode.NONE for *_, code in reply.partitions)
        # A client that gets unstable offsets asks again, and uses none of these.
        step.must_confirm = event.require_stable and is_stable
        step.reply(event.token, reply)

    def _heartbeat(self, event: Heartbeat, step: Step) -> None:
        group, error = self._find(event.group_id)
        if group is not None:
            error = membership.heartbeat(group, event, step)
            self._settle(group, step)
        step.reply(event.token, HeartbeatReply(error))

    def _leave(self, event: Leave, step: Step) -> None:
        group, error = self._find(event.group_id)
        if group is not None:
            reply = membership.leave(group, event, step)
            self._settle(group, step)
        elif error is ErrorCode.INVALID_GROUP_ID:
            reply = LeaveReply(error)
        else:
            reply = LeaveReply(ErrorCode.NONE, tuple((m, error) for m in event.members))
        step.reply(event.token, reply)

    def _commit(self, event: CommitOffsets, step: Step) -> None:
        group = self._groups.get(event.group_id)
        if group is None and event.generation_id >= 0:
            step.reply(event.token, offsets.refused_commit(event, ErrorCode.ILLEGAL_GENERATION))
            return
        group = group or self._make(event.group_id)
        offsets.commit(group, event, step)
        self._settle(group, step)

    def _commit_in_transaction(self, event: CommitOffsetsInTransaction, step: Step) -> None:
        if not event.group_id:
            refusal = offsets.refused_commit(event, ErrorCode.INVALID_GROUP_ID)
            step.reply(event.token, refusal)
            return
        group = self._groups.get(event.group_id) or self._make(event.group_id)
        transactions.commit(group, event, step)

    def _delete_offsets(self, event: DeleteOffsets, step: Step) -> None:
        if not event.group_id:
            step.reply(event.token, DeleteOffsetsReply(ErrorCode.INVALID_GROUP_ID))
            return
        group = self._groups.get(event.group_id)
        offsets.delete(group, event, step)
        if group is not None:
            self._delete_if_unused(group, step)

    def _delete_if_unused(self, group: Group, step: Step) -> None:
        if expiry.delete_if_unused(group, step):
            del self._groups[group.group_id]

    def _delete_topics_offsets(self, event: DeleteTopicsOffsets) -> None:
        """Schedule the check of every group, one per tick; while loading, after it."""
        topics = dict.fromkeys(event.topics)
        if self.is_loading:
            self._deleted_topics.update(topics)
        else:
            self._to_tombstone += [(group_id, topics) for group_id in self._groups]

    def _tombstone_next(self, step: Step) -> None:
        """Write the tombstones of the next group that has offsets of deleted topics."""
        for _ in range(min(_GROUPS_PER_CHECK, len(self._to_tombstone))):
            group_id, topics = self._to_tombstone.popleft()
            group = self._groups.get(group_id)
            if group is None:
                continue
            for key in offsets.known_keys(group):
                if key[0] in topics:
                    offsets.append_tombstone(group, key, step)
            if step.records:
                self._delete_if_unused(group, step)
                break

    def _delete_group(self, event: DeleteGroup, step: Step) -> None:
        error, may_forget = expiry.delete(self._groups.get(event.group_id), step)
        if may_forget:
            del self._groups[event.group_id]
        step.reply(event.token, DeleteGroupReply(error))

    def _find(self, group_id: str) -> tuple[Group | None, ErrorCode]:
        """Return the group, or the error for a member of an unknown one."""
        if not group_id:
            return None, ErrorCode.INVALID_GROUP_ID
        return self._groups.get(group_id), ErrorCode.UNKNOWN_MEMBER_ID

    def _make(self, group_id: str) -> Group:
        group = self._groups[group_id] = Group(group_id, self.members_memory)
        return group

    # Records

    def _apply_offset(self, record: OffsetRecord) -> None:
        group = self._groups.get(record.group_id)
        key = (record.topic, record.partition)
        if record.value is not None:
            group = group or self._make(record.group_id)
            group.offsets[key] = record.value
            offsets.commit_finished(group, key)
            transactions.superseded(group, key)
        elif group is not None:
            group.offsets.pop(key, None)
            group.undecided.pop(key, None)
            self._forget_if_deleted(group)

    def _apply_pending_offset(self, record: PendingOffsetRecord) -> None:
        group = self._groups.get(record.group_id) or self._make(record.group_id)
        transactions.appended(group, record)
        self._in_transaction.setdefault(record.producer_id, {})[record.group_id] = None

    def _end_transaction(self, record: TransactionEnd) -> None:
        for group_id in self._in_transaction.pop(record.producer_id, ()):
            group = self._groups.get(group_id)
            if group is not None:
                transactions.ended(group, record.producer_id, committed=record.committed)
                self._forget_if_deleted(group)

    def _apply_group(self, record: GroupRecord) -> None:
        group = self._groups.get(record.group_id)
        if record.value is None:
            if group is not None:
                group.apply(None)
                self._forget_if_deleted(group)
            return
        group = group or self._make(record.group_id)
        group.apply(record.value)
        if not self.is_loading:
            for member in record.value.members:
                group.replaced.pop(member.member_id, None)
            assignment_stored(group, record.value)
            if group.has_late_syncs:
                self._schedule(group, _AT_ONCE_MS)

    def _forget_if_deleted(self, group: Group) -> None:
        is_going = self.is_loading or group.state is GroupState.DEAD
        has_offsets = group.offsets or group.undecided or group.pending_commits
        if is_going and group.stored is None and not has_offsets:
            del self._groups[group.group_id]

    # Timers

    def _settle(self, group: Group, step: Step) -> None:
        """Note the deadlines that a step has set."""
        if step.wake_ms is not None:
            self._schedule(group, step.wake_ms)
            step.wake_ms = None

    def _schedule(self, group: Group, deadline_ms: int) -> None:
        if group.scheduled_ms is None or deadline_ms < group.scheduled_ms:
            group.scheduled_ms = deadline_ms
            heappush(self._timers, (deadline_ms, group.group_id))

    def _is_current(self, timer: tuple[int, str]) -> bool:
        group = self._groups.get(timer[1])
        return group is not None and group.scheduled_ms == timer[0]

    def _next_due(self, now_ms: int) -> Group | None:
        """Take the next group with a passed deadline; put others back with their present deadline."""
        while self._timers and self._timers[0][0] <= now_ms:
            timer = heappop(self._timers)
            if not self._is_current(timer):
                continue
            group = self._groups[timer[1]]
            group.scheduled_ms = None
            deadline = membership.next_deadline(group)
            if deadline is not None:
                self._schedule(group, deadline)
            if group.has_late_syncs or (deadline is not None and deadline <= now_ms):
                return group
        return None

    def _check_retention(self, step: Step) -> None:
        """Check one group, or, when all are done, begin the wait for the next round."""
        if not self._to_check:
            self._to_check = list(self._groups)
        for _ in range(min(_GROUPS_PER_CHECK, len(self._to_check))):
            group = self._groups.get(self._to_check.pop())
            if group is not None and expiry.expire(group, step):
                del self._groups[group.group_id]
            if step.records:
                break
        if not self._to_check:
            self._next_retention_check_ms = step.now_ms + self.settings.retention_check_interval_ms


def _run_timers(group: Group, step: Step) -> None:
    if group.has_late_syncs:
        reply_to_late_syncs(group, step)
    membership.expire_sessions(group, step)
    if group.sync_deadline_ms is not None and group.sync_deadline_ms <= step.now_ms:
        rebalance.sync_deadline_passed(group, step)
    if group.join_deadline_ms is not None and group.join_deadline_ms <= step.now_ms:
        rebalance.join_deadline_passed(group, step)
    deadline = membership.next_deadline(group)
    if deadline is not None:
        step.wake(deadline)


def _roll_back(
    group: Group,
    record: GroupRecord | OffsetRecord | PendingOffsetRecord,
    error: ErrorCode,
    step: Step,
) -> None:
    match record:
        case OffsetRecord(value=None) | GroupRecord(value=None):
            expiry.tombstones_refused(group, step)
        case OffsetRecord() | PendingOffsetRecord():
            offsets.commit_finished(group, (record.topic, record.partition))
        case GroupRecord(value=StoredGroup() as stored):
            for member in stored.members:
                if member.member_id in group.replaced:
                    roll_back_replacement(group, member.member_id, step)
            assignment_refused(group, stored, store_error(error), step)


def _reply_while_loading(event: Request, step: Step) -> None:
    loading_error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    match event:
        case Join():
            refuse(event, loading_error, step)
        case Sync():
            # Its rebalance is lost: the member joins again, without looking for another coordinator.
            step.reply(event.token, SyncReply(ErrorCode.REBALANCE_IN_PROGRESS))
        case Heartbeat():
            step.reply(event.token, HeartbeatReply(ErrorCode.NONE))
        case Leave():
            step.reply(event.token, LeaveReply(loading_error))
        case CommitOffsets() | CommitOffsetsInTransaction():
            step.reply(event.token, offsets.refused_commit(event, loading_error))
        case FetchOffsets():
            step.reply(event.token, FetchOffsetsReply(loading_error))
        case DeleteOffsets():
            step.reply(event.token, DeleteOffsetsReply(loading_error))
        case DeleteGroup():
            step.reply(event.token, DeleteGroupReply(loading_error))
