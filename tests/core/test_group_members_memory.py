"""What the members of all groups take in memory is counted, and bounded."""

from __future__ import annotations

from typing import Any

from kavka.core.group.events import Join, JoinReply, Leave, LeavingMember
from kavka.core.group.settings import GroupSettings
from kavka.core.group.shard import GroupShard
from kavka.errors import ErrorCode


class Shard:
    """A loaded shard that may keep so many bytes of members."""

    def __init__(self, most: int = 1 << 62) -> None:
        self.machine: GroupShard
        settings = GroupSettings(
            initial_rebalance_delay_ms=0,
            max_members_bytes=most,
            members_bytes=lambda: self.machine.members_memory.bytes,
        )
        self.machine = GroupShard(settings)
        self.machine.loaded(0)
        self._token = 0

    def tell(self, event: Any, now_ms: int = 0) -> list[Any]:
        decision = self.machine.handle(event, now_ms)
        for record in decision.records:
            self.machine.apply(record)
        return [effect.reply for effect in decision.effects]

    def join(
        self, member_id: str = "", size: int = 0, group: str = "g", *, requires_id: bool = False
    ) -> list[Any]:
        self._token += 1
        event = Join(
            self._token,
            group,
            10_000,
            10_000,
            member_id,
            None,
            "consumer",
            (("range", bytes(size)),),
            "client",
            "/host",
            f"client-{self._token}",
            requires_known_member_id=requires_id,
            supports_skipping_assignment=True,
        )
        return self.tell(event)

    @property
    def bytes(self) -> int:
        return self.machine.members_memory.bytes


def test_members_count_until_they_leave() -> None:
    shard = Shard()
    (joined,) = shard.join(size=50_000)
    assert 50_000 < shard.bytes < 55_000
    shard.join(joined.member_id, size=20_000)
    assert 20_000 < shard.bytes < 25_000
    shard.tell(Leave(9, "g", (LeavingMember(joined.member_id, None),)))
    assert shard.bytes == 0


def test_ids_that_were_given_out_count_until_they_are_used_or_expire() -> None:
    shard = Shard()
    (asked,) = shard.join(requires_id=True)
    assert asked.error_code is ErrorCode.MEMBER_ID_REQUIRED
    waiting = shard.bytes
    assert waiting >= 1000
    shard.join(requires_id=True)
    assert shard.bytes > waiting
    shard.machine.tick(10_001)
    assert shard.bytes == 0


def test_who_brings_more_than_there_is_room_for_is_refused_and_members_stay() -> None:
    shard = Shard(100_000)
    (joined,) = shard.join(size=60_000)
    assert joined.error_code is ErrorCode.NONE
    (refused,) = shard.join(size=60_000, group="other")
    assert isinstance(refused, JoinReply)
    assert refused.error_code is ErrorCode.GROUP_MAX_SIZE_REACHED
    (again,) = shard.join(joined.member_id, size=60_000)
    assert again.error_code is ErrorCode.NONE
    (grown,) = shard.join(joined.member_id, size=200_000)
    assert grown.error_code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert 60_000 < shard.bytes < 65_000
