"""The decisions of a group member, as dialogues with its shell (`steps` says how).

    unjoined --poll--> joining (`join`: JoinGroup, SyncGroup) --poll--> stable (`keep_alive`: heartbeats)
        ^                                                                |
        '---- rebalance announced, generation lost, topics changed ------'

    code                               while joining                    of a heartbeat
    REBALANCE_IN_PROGRESS              joins again after a back-off     joins with the next poll
    MEMBER_ID_REQUIRED                 joins again at once with the id
    ILLEGAL_GENERATION,                forgets id and generation;       forgets both, and what it holds is lost:
    UNKNOWN_MEMBER_ID                  what it holds is lost            joins with the next poll
    FENCED_INSTANCE_ID                 ends the poll with the error     the next poll raises it; what it holds is lost
    coordinator moved or away,         finds it again, after a back-off finds it again, sooner than the interval
      connection lost
    other, retriable                   joins again after a back-off     tries again
    other                              ends the poll with the error     tries again

`poll`, `join` and `keep_alive` overlap: the first is the user's, the others run beside it, so that a slow user neither
misses heartbeats nor delays them. What the user can see, revoking and assigning, happens in `poll` and `leave` only.
An eager member revokes everything before it joins, a cooperative one what the new assignment has not, and then joins
again so that others get it (KIP-429).
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import suppress
from typing import Any

from kavka.core.group_member.steps import (
    NO_GENERATION,
    AliveStep,
    Assign,
    Assignments,
    AwaitJoin,
    BackOff,
    CheckMetadata,
    CommitPositions,
    GroupMetadata,
    HeartbeatFailed,
    HeartbeatResult,
    Joined,
    JoinResult,
    JoinStep,
    LeaveStep,
    ListenerStep,
    MemberSettings,
    PartitionsAssigned,
    PartitionsLost,
    PartitionsRevoked,
    PollStep,
    PollTimedOut,
    RefreshTopics,
    SendHeartbeat,
    SendJoin,
    SendLeave,
    SendSync,
    Sleep,
    StartJoin,
    SubscribedPartitions,
    SyncResult,
)
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import TopicPartition
from kavka.wire.codec import CorruptFrame

_FIRST_REPEAT_MS = 100
"""Wait before the first repeat of a heartbeat that failed; it grows by this with each."""
_COORDINATOR_GONE = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)
_GENERATION_GONE = (ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID)


class _MembershipEnded(Exception):
    """The listener, or another task, has left the group: the poll has nothing more to do."""


class GroupMember:
    """One member. Invariant: it sends heartbeats and commits as a member only while `generation` is one."""

    def __init__(
        self, settings: MemberSettings, subscription: SubscribedPartitions, now_ms: int
    ) -> None:
        """Start as a member that has not joined."""
        self._settings = settings
        self._subscription = subscription
        self.member_id = ""
        self.generation = NO_GENERATION
        self.needs_join = True
        self._reason = "the consumer is new"
        self._rejoin_reason: str | None = None  # not reported yet
        self._last_generation: GroupMetadata | None = None
        self._is_lost = False
        self._is_joining = False
        self._joined: Joined | None = None  # not adopted yet
        self._fatal: KafkaError | None = None
        self._last_poll_ms = now_ms
        self._owned: list[TopicPartition] = []  # what an eager member had before it joined
        self._owned_generation = NO_GENERATION
        self._joined_topics: list[str] = []
        self._leaves = 0
        self._taken_away: list[TopicPartition] = []
        """Those for which the callback of a revocation or loss runs now."""

    @property
    def is_groupless(self) -> bool:
        """Return whether the group assigns the partitions, and this member is in no generation."""
        return self._subscription.uses_group and self.generation == NO_GENERATION

    def metadata(self) -> GroupMetadata:
        """Return the member's id and generation, or those of the last generation, which the coordinator may refuse.

        Raise KafkaError REBALANCE_IN_PROGRESS before the first one: without a generation it would count as the
        commit of a tool, which a group without members takes.
        """
        if not self._subscription.uses_group:
            return GroupMetadata(self._settings.group_id)
        if self._last_generation is None:
            detail = "the consumer is joining its group: poll until it has partitions"
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS, detail)
        return self._last_generation

    def request_rejoin(self, reason: str) -> None:
        """Join again with the next poll."""
        if not self.needs_join:
            self._rejoin_reason = reason
        self.needs_join = True
        self._reason = reason

    @property
    def needs_poll(self) -> bool:
        """Return whether a poll has more to do than to fetch."""
        return self.needs_join or self._fatal is not None

    def take_rejoin_reason(self) -> str | None:
        """Return, once, why the member has to join again; None when that is no news."""
        reason, self._rejoin_reason = self._rejoin_reason, None
        return reason

    # Polling

    def is_settled(self, now_ms: int) -> bool:
        """Return, for a poll, whether `poll` would do nothing: a call for each batch should be cheap."""
        self._last_poll_ms = now_ms
        return not (
            self.needs_join
            or self._is_joining
            or self._is_lost
            or self._joined is not None
            or self._fatal is not None
            or self._subscription.topics != self._joined_topics
        )

    def poll(self, now_ms: int) -> Generator[PollStep, Any, None]:
        """Run the steps that membership needs, until there is none or `AwaitJoin` returns None.

        Raise KafkaError when the group refuses this member permanently, and what the listener raised: it is not called
        for the same partitions again, and the next poll goes on. A dialogue that is not resumed has changed nothing
        that the next one would miss. It ends where the listener leaves the group.
        """
        self._last_poll_ms = now_ms
        with suppress(_MembershipEnded):
            yield from self._poll_until_settled()

    def _call_back(self, step: ListenerStep) -> Generator[PollStep, Any, Exception | None]:
        """Call the listener, and return what it raised: the rebalance goes on, and the poll raises it at its end.

        Raise _MembershipEnded, or what the listener raised, when it has left the group.
        """
        leaves = self._leaves
        failure = None
        try:
            match step:
                case PartitionsAssigned():
                    yield step
                case _:
                    yield from self._take_away(step)
        except Exception as error:  # noqa: BLE001  the application's own; as in the Java client
            failure = error
        if self._leaves != leaves:
            raise failure or _MembershipEnded
        return failure

    def _take_away(
        self, step: PartitionsLost | PartitionsRevoked
    ) -> Generator[PartitionsLost | PartitionsRevoked, Any, None]:
        """Call the listener for partitions; if it leaves the group, it is not called for them again."""
        before = self._taken_away
        self._taken_away = [*before, *step.partitions]
        try:
            yield step
        finally:
            self._taken_away = before

    def _commit_positions(self) -> Generator[PollStep, Any, None]:
        leaves = self._leaves
        yield CommitPositions()
        if self._leaves != leaves:  # by another task or thread
            raise _MembershipEnded

    def _poll_until_settled(self) -> Generator[PollStep, Any, None]:
        while True:
            if self._fatal is not None:
                fatal, self._fatal = self._fatal, None
                raise fatal
            if self._is_lost:
                yield from self._lose_partitions()
            if self._joined is not None:
                yield from self._adopt(self._joined)
            yield CheckMetadata()
            if self.generation != NO_GENERATION and (
                self._subscription.topics != self._joined_topics
            ):
                self.request_rejoin("the subscribed topics have changed")
            if not self._is_joining:
                if not self.needs_join:
                    return
                yield from self._prepare()
                self._is_joining = True
                yield StartJoin()
            try:
                self._joined = yield AwaitJoin()
            except Exception:
                self._is_joining = False
                self.needs_join = True  # the next poll tries again
                raise
            if self._joined is None:
                return
            self._is_joining = False
            yield from self._adopt(self._joined)

    def _lose_partitions(self) -> Generator[PollStep, Any, None]:
        self._is_lost = False
        held = list(self._subscription.partitions)
        self._owned = []
        if held:
            failure = yield from self._call_back(PartitionsLost(held))
            self._subscription.replace_assignment([])
            if failure is not None:
                raise failure

    def _prepare(self) -> Generator[PollStep, Any, None]:
        """Revoke the partitions that must not be held while joining."""
        if self._subscription.is_unmatched_pattern:
            yield RefreshTopics()  # joining without topics would only mean to join again
        yield from self._commit_positions()
        held = list(self._subscription.partitions)
        self._owned = held or self._owned
        if held and self.generation != NO_GENERATION:
            self._owned_generation = self.generation
        topics = self._subscription.topics
        is_kept = self._settings.is_cooperative
        kept = [partition for partition in held if is_kept and partition.topic in topics]
        revoked = [partition for partition in held if partition not in kept]
        if revoked:
            failure = yield from self._call_back(PartitionsRevoked(revoked))
            self._subscription.replace_assignment(kept)
            if failure is not None:
                raise failure

    def _adopt(self, joined: Joined) -> Generator[PollStep, Any, None]:
        """Take the assignment, unless it is outdated already; the next poll does if this one is given up before."""
        is_outdated = joined.generation != self.generation or self._is_lost
        if is_outdated or self.generation == NO_GENERATION:
            self._joined = None
            self.request_rejoin("the generation ended before it was adopted")
            return
        held = list(self._subscription.partitions)
        revoked = [partition for partition in held if partition not in joined.assigned]
        added = [partition for partition in joined.assigned if partition not in held]
        failure = None
        if revoked:
            yield from self._commit_positions()
            failure = yield from self._call_back(PartitionsRevoked(revoked))
            self.request_rejoin("revoked partitions can be given to others")
        self._subscription.replace_assignment(joined.assigned)
        self._joined = None
        self._owned = []
        later_failure = yield from self._call_back(
            PartitionsAssigned(added, joined.generation, len(joined.assigned))
        )
        failure = failure or later_failure
        if failure is not None:
            raise failure

    # Joining

    def join(self) -> Generator[JoinStep, Any, Joined]:
        """Join and sync until the group is stable; raise KafkaError when it refuses this member.

        Errors of the shell's steps are raised into it: KafkaError, OSError, CorruptFrame.
        """
        attempt = 0
        while True:
            try:
                return (yield from self._join_once())
            except KafkaError as error:
                if not self._may_rejoin(error.code):
                    self._forget_generation()
                    raise
                if error.code is ErrorCode.MEMBER_ID_REQUIRED:
                    continue
                if error.code in _GENERATION_GONE and self._subscription.partitions:
                    # What a cooperative member still holds may be others' by now.
                    self._is_lost = True
                    return Joined(NO_GENERATION, [])
                failure: Exception = error
                forgets_coordinator = error.code in _COORDINATOR_GONE
            except (OSError, CorruptFrame) as error:
                failure, forgets_coordinator = error, True
            yield BackOff(attempt, failure, forgets_coordinator)
            attempt += 1

    def _may_rejoin(self, code: ErrorCode) -> bool:
        if code in _GENERATION_GONE:
            self._forget_generation()
            self._owned = []
        return code.retriable or code in (
            *_COORDINATOR_GONE,
            *_GENERATION_GONE,
            ErrorCode.MEMBER_ID_REQUIRED,
            ErrorCode.REBALANCE_IN_PROGRESS,
        )

    def _join_once(self) -> Generator[JoinStep, Any, Joined]:
        self.needs_join = False
        self.generation = NO_GENERATION  # no heartbeats while joining
        topics = list(self._subscription.topics)
        held = list(self._subscription.partitions)
        joined: JoinResult = yield SendJoin(
            self.member_id,
            topics,
            held,
            self._owned,
            self._owned_generation,
            self._reason,
        )
        if joined.code is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = joined.member_id
        if joined.code is not ErrorCode.NONE:
            raise self._refused(joined.code)
        self.member_id = joined.member_id
        self._joined_topics = topics
        assignments: Assignments = {}
        if joined.leader == joined.member_id and not joined.skip_assignment:
            assignments = yield Assign(joined)
        synced: SyncResult = yield SendSync(
            joined.generation, self.member_id, joined.protocol_name, assignments
        )
        if synced.code is not ErrorCode.NONE:
            raise self._refused(synced.code)
        self.generation = joined.generation
        self._last_generation = GroupMetadata(
            self._settings.group_id, self.generation, self.member_id, self._settings.instance_id
        )
        return Joined(self.generation, synced.assigned)

    def _forget_generation(self) -> None:
        self.generation = NO_GENERATION
        self.member_id = ""

    # Staying

    def keep_alive(self, now_ms: int) -> Generator[AliveStep, Any, None]:
        """Send heartbeats while there is a generation, and leave the group when the consumer does not poll."""
        interval_ms = self._settings.heartbeat_interval_ms
        last_response_ms = now_ms
        attempt = 0
        while True:
            now_ms = yield Sleep(
                interval_ms if attempt == 0 else min(_FIRST_REPEAT_MS * attempt, interval_ms)
            )
            if self.generation == NO_GENERATION:
                last_response_ms = now_ms
                attempt = 0
                continue
            if now_ms - self._last_poll_ms > self._settings.max_poll_interval_ms:
                yield from self._leave_unpolled()
                continue
            generation = self.generation
            result: HeartbeatResult = yield SendHeartbeat(generation, self.member_id)
            is_current = generation == self.generation
            error = result.error
            if error is None and is_current:
                error = self._on_heartbeat(result.code)
            if error is None:
                last_response_ms = result.now_ms
                attempt = 0
                continue
            attempt += 1
            code = error.code if isinstance(error, KafkaError) else None
            yield HeartbeatFailed(
                error,
                forgets_coordinator=code is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
                has_session_timed_out=(
                    result.now_ms - last_response_ms > self._settings.session_timeout_ms
                ),
            )

    def _on_heartbeat(self, code: ErrorCode) -> KafkaError | None:
        """Handle the coordinator's error code; return the error after which the heartbeat is repeated."""
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            self.request_rejoin("the group is rebalancing")
        elif code in _GENERATION_GONE:
            self._forget_generation()
            self._is_lost = True
            self.request_rejoin(f"heartbeat answered {code.name}")
        elif code is ErrorCode.FENCED_INSTANCE_ID:
            self._forget_generation()
            self._is_lost = True
            self._fatal = KafkaError(code)
        elif code is not ErrorCode.NONE:
            return KafkaError(code)
        return None

    def _refused(self, code: ErrorCode) -> KafkaError:
        """Return the error of a refused join, with the group where the user has no right to it."""
        if code is ErrorCode.GROUP_AUTHORIZATION_FAILED:
            return KafkaError(code, f"group {self._settings.group_id}: {code.message}")
        return KafkaError(code)

    def _leave_unpolled(self) -> Generator[AliveStep, Any, None]:
        yield PollTimedOut()
        yield from self._send_leave("consumer poll timeout has expired")
        self._forget_generation()
        self._is_lost = True
        self.request_rejoin("poll was not called in time")

    # Leaving

    def leave(self, reason: str) -> Generator[LeaveStep, Any, None]:
        """Revoke the partitions and, unless the member is static, leave the group; `join` and `keep_alive` have ended.

        Raise at the end what the listener raised.
        """
        # Before the callback, which may be cancelled: the next poll joins again.
        self._is_joining = False
        self._joined = None
        self.needs_join = True
        failure = None
        held = [each for each in self._subscription.partitions if each not in self._taken_away]
        if held and self._subscription.uses_group:
            is_lost = self._is_lost or self.generation == NO_GENERATION
            try:
                yield from self._take_away(
                    PartitionsLost(held) if is_lost else PartitionsRevoked(held)
                )
            except Exception as error:  # noqa: BLE001  the application's own; the group need not wait for a timeout
                failure = error
        self._leaves += 1
        yield from self._send_leave(reason)
        self._forget_generation()
        self._is_lost = False
        if failure is not None:
            raise failure

    def _send_leave(self, reason: str) -> Generator[SendLeave, Any, None]:
        if self._settings.instance_id is None and self.member_id:
            yield SendLeave(self.member_id, reason)
