"""The memory of the members of all groups is counted, and bounded."""

from __future__ import annotations

from typing import Any

from kavka.core.group.events import Join, JoinReply, Leave, LeavingMember, Sync
from kavka.core.group.group import MembersMemory
from kavka.core.group.settings import GroupSettings
from kavka.core.group.shard import GroupShard
from kavka.errors import ErrorCode


class Shard:
    """A loaded shard that may keep so many bytes of members."""

    def __init__(self, most: int = 1 << 62, of_broker: MembersMemory | None = None) -> None:
        self.of_broker = MembersMemory() if of_broker is None else of_broker
        settings = GroupSettings(initial_rebalance_delay_ms=0, max_members_bytes=most)
        self.machine = GroupShard(settings, self.of_broker)
        self.machine.loaded(0)
        self._token = 0

    def submit(self, event: Any, now_ms: int = 0) -> list[Any]:
        return self.commit(self.machine.handle(event, now_ms))

    def commit(self, decision: Any) -> list[Any]:
        for record in decision.records:
            self.machine.apply(record)
        self.machine.check()
        return [effect.reply for effect in decision.effects]

    def begin_generation(self, group: str = "g", instance: str | None = None) -> JoinReply:
        """Have one member join, and return its generation, which has no assignment yet."""
        joined: JoinReply
        (joined,) = self.join(group=group, instance=instance)
        assert joined.error_code is ErrorCode.NONE
        return joined

    def assignment(self, joined: JoinReply, size: int, group: str = "g") -> Any:
        """Decide about the leader's assignment of so many bytes; it is committed by `commit`."""
        self._token += 1
        parts = ((joined.member_id, bytes(size)), ("nonexistent", bytes(size)))
        event = Sync(self._token, group, joined.generation_id, joined.member_id, assignments=parts)
        return self.machine.handle(event, 0)

    def join(
        self,
        member_id: str = "",
        size: int = 0,
        group: str = "g",
        *,
        requires_id: bool = False,
        instance: str | None = None,
    ) -> list[Any]:
        event = self._join(member_id, size, group, requires_id, instance)
        return self.submit(event)

    def replace(self, instance: str) -> Any:
        """Decide about a static member that comes back without its id."""
        return self.machine.handle(self._join("", 0, "g", False, instance), 0)

    def _join(
        self, member_id: str, size: int, group: str, requires_id: bool, instance: str | None
    ) -> Join:
        self._token += 1
        return Join(
            self._token,
            group,
            10_000,
            10_000,
            member_id,
            instance,
            "consumer",
            (("range", bytes(size)),),
            "client",
            "/host",
            f"client-{self._token}",
            requires_known_member_id=requires_id,
            supports_skipping_assignment=True,
        )

    @property
    def bytes(self) -> int:
        return self.machine.members_memory.bytes


def test_members_count_until_they_leave() -> None:
    shard = Shard()
    (joined,) = shard.join(size=50_000)
    assert 50_000 < shard.bytes < 55_000
    shard.join(joined.member_id, size=20_000)
    assert 20_000 < shard.bytes < 25_000
    shard.submit(Leave(9, "g", (LeavingMember(joined.member_id, None),)))
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


def test_a_member_that_brings_more_than_there_is_room_for_is_refused_and_members_stay() -> None:
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


def test_assignments_count_with_the_generation_that_is_stored_of_them() -> None:
    """100 groups with an assignment of 900 kB each kept 90 MB, of which 0.1 MB were counted."""
    shard = Shard()
    for number in range(3):
        group = f"g{number}"
        joined = shard.begin_generation(group)
        before = shard.bytes
        decision = shard.assignment(joined, 900_000, group)
        assert 900_000 < shard.bytes - before < 910_000, "what is on its way to the log counts"
        (synced,) = shard.commit(decision)
        assert synced.error_code is ErrorCode.NONE
        assert 1_800_000 < shard.bytes - before < 1_810_000
    for number in range(3):
        group = f"g{number}"
        member = shard.machine.describe(group).members[0].member_id
        shard.submit(Leave(9, group, (LeavingMember(member, None),)))
    assert shard.bytes == 0
    assert shard.of_broker.bytes == 0


def test_generations_that_are_loaded_count() -> None:
    records: list[Any] = []
    shard = Shard()
    joined = shard.begin_generation()
    decision = shard.assignment(joined, 50_000)
    records += decision.records
    shard.commit(decision)
    other = GroupShard(GroupSettings(), of_broker := MembersMemory())
    for record in [*records, *records]:
        other.apply(record)
        other.check()
    assert 50_000 < of_broker.bytes < 55_000
    other.loaded(0)
    other.check()
    assert of_broker.bytes == other.members_memory.bytes
    assert 100_000 < of_broker.bytes < 110_000
    other.resign(0)
    assert of_broker.bytes == 0


def test_an_assignment_beyond_the_bound_is_refused_as_a_join_is() -> None:
    shard = Shard(200_000)
    joined = shard.begin_generation()
    (refused,) = shard.commit(shard.assignment(joined, 150_000))
    assert refused.error_code is ErrorCode.GROUP_MAX_SIZE_REACHED
    (synced,) = shard.commit(shard.assignment(joined, 80_000))
    assert synced.error_code is ErrorCode.NONE
    (again,) = shard.join(joined.member_id)
    assert again.generation_id == joined.generation_id + 1
    (synced,) = shard.commit(shard.assignment(again, 80_000))
    assert synced.error_code is ErrorCode.NONE, "no more than before is not too many"
    (refused,) = shard.commit(shard.assignment(shard.begin_generation("other"), 80_000, "other"))
    assert refused.error_code is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_group_whose_leader_was_refused_goes_on_without_it() -> None:
    shard = Shard(200_000)
    joined = shard.begin_generation()
    shard.commit(shard.assignment(joined, 150_000))
    assert shard.machine.describe("g").state == "CompletingRebalance"
    states: list[Any] = []
    while states[-1:] != ["Empty"]:
        deadline_ms = shard.machine.deadline_ms()
        assert deadline_ms is not None
        assert deadline_ms <= 10_000
        shard.commit(shard.machine.tick(deadline_ms))
        states.append(shard.machine.describe("g").state)
    assert shard.bytes == 0


def test_all_shards_of_a_broker_share_the_bound() -> None:
    of_broker = MembersMemory()
    one, other = Shard(100_000, of_broker), Shard(100_000, of_broker)
    one.join(size=60_000)
    (refused,) = other.join(size=60_000)
    assert refused.error_code is ErrorCode.GROUP_MAX_SIZE_REACHED
    one.machine.resign(0)
    (joined,) = other.join(size=60_000)
    assert joined.error_code is ErrorCode.NONE
    assert of_broker.bytes == other.bytes


def test_a_generation_that_is_refused_counts_no_more_and_one_that_is_late_does() -> None:
    shard = Shard()
    joined = shard.begin_generation()
    before = shard.bytes
    refused = shard.assignment(joined, 50_000)
    shard.commit(shard.machine.failed(refused, ErrorCode.NOT_ENOUGH_REPLICAS, 0))
    assert shard.bytes == before
    (again,) = shard.join(joined.member_id)
    late = shard.assignment(again, 50_000)
    shard.commit(shard.machine.overdue(late, ErrorCode.REQUEST_TIMED_OUT, 0))
    assert 50_000 < shard.bytes - before < 55_000
    shard.commit(late)
    assert 50_000 < shard.bytes - before < 55_000, "stored, and not its member's any more"


def test_generations_that_wait_for_replicas_are_bounded() -> None:
    """Each is in memory until it is committed, also when no request waits for it any more."""
    shard = Shard(300_000)
    joined = shard.begin_generation()
    shard.commit(shard.assignment(joined, 50_000))
    codes = []
    for _ in range(10):
        (joined,) = shard.join(joined.member_id)
        decision = shard.assignment(joined, 50_000)
        if decision.records:
            shard.commit(shard.machine.overdue(decision, ErrorCode.REQUEST_TIMED_OUT, 0))
        codes += [effect.reply.error_code for effect in decision.effects]
    assert codes[0] is ErrorCode.NONE
    assert codes[-1] is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert shard.bytes < 300_000


def test_replacements_of_a_static_member_that_wait_for_replicas_are_bounded() -> None:
    shard = Shard(300_000)
    joined = shard.begin_generation(instance="i")
    (synced,) = shard.commit(shard.assignment(joined, 50_000))
    assert synced.error_code is ErrorCode.NONE
    codes = [shard.replace("i").effects[0].reply.error_code for _ in range(10)]
    assert codes[0] is ErrorCode.NONE
    assert codes[-1] is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert shard.bytes < 360_000, "above the bound by the last generation at most"
