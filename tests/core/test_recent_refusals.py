"""Producers that a partition has refused with a temporary error."""

from __future__ import annotations

from kavka.core.recent_refusals import REMEMBERED_MS, RecentRefusals
from kavka.errors import ErrorCode

NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_reason_is_remembered_for_its_time() -> None:
    refusals = RecentRefusals()
    refusals.note(7, NOT_LEADER, 100)
    assert refusals.reason(7, 100 + REMEMBERED_MS - 1) is NOT_LEADER
    assert refusals.reason(8, 100) is None
    assert refusals.reason(7, 100 + REMEMBERED_MS) is None
    assert not refusals


def test_what_has_come_again_is_forgotten() -> None:
    refusals = RecentRefusals()
    refusals.note(7, NOT_LEADER, 0)
    refusals.forget(7)
    refusals.forget(8)
    assert refusals.reason(7, 0) is None


def test_the_last_reason_counts() -> None:
    refusals = RecentRefusals()
    refusals.note(7, NOT_LEADER, 0)
    refusals.note(7, ErrorCode.NOT_ENOUGH_REPLICAS, 1)
    assert refusals.reason(7, 1) is ErrorCode.NOT_ENOUGH_REPLICAS


def test_memory_is_bounded_and_the_oldest_goes_first() -> None:
    refusals = RecentRefusals()
    for producer_id in range(1001):
        refusals.note(producer_id, NOT_LEADER, 0)
    assert len(refusals) == 1000
    assert refusals.reason(0, 0) is None
    assert refusals.reason(1000, 0) is NOT_LEADER
