"""The results of one event while it is being handled."""

from __future__ import annotations

from kavka.core.group.events import Reply
from kavka.core.group.group import Group, Member
from kavka.core.group.records import GroupRecord, Record, StoredGroup
from kavka.core.group.settings import GroupSettings
from kavka.core.machine import Decision, SendReply, Token
from kavka.values import field, mutable

GroupDecision = Decision[Record, SendReply[Reply]]


@mutable
class Step:
    """Collects the records and replies of one event, and the earliest deadline that it has set."""

    now_ms: int
    settings: GroupSettings
    records: list[Record] = field(factory=list)
    effects: list[SendReply[Reply]] = field(factory=list)
    wake_ms: int | None = None
    must_confirm: bool = False
    """True if replies without records must be confirmed to be current."""

    def reply(self, token: Token, reply: Reply) -> None:
        """Reply to a request, once the records of the step are committed."""
        self.effects.append(SendReply(token, reply))

    def wake(self, deadline_ms: int) -> int:
        """Schedule a check of the group; return the deadline."""
        if self.wake_ms is None or deadline_ms < self.wake_ms:
            self.wake_ms = deadline_ms
        return deadline_ms

    def renew_session(self, member: Member) -> None:
        """Restart the member's session timeout."""
        member.session_deadline_ms = self.wake(self.now_ms + member.session_timeout_ms)

    def store(self, group: Group, stored: StoredGroup) -> None:
        """Write a generation of the group."""
        group.store_begun(stored)
        self.records.append(GroupRecord(group.group_id, stored))

    def decision(self) -> GroupDecision:
        """Return all that was collected."""
        return Decision(tuple(self.records), tuple(self.effects), self.must_confirm)
