"""The schedules of chaos: from a seed, within bounds, and no process is disturbed twice at one time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kavka_chaos.schedule import BROKERS, KINDS, Fault, Schedule

seeds = st.integers(0, 1 << 31)


def rounds(schedule: Schedule, count: int) -> list[Fault]:
    return [fault for _ in range(count) for fault in schedule.round(40)]


@given(seeds)
def test_a_seed_gives_the_same_schedule_again(seed: int) -> None:
    first, second = (Schedule(seed, 3, disks=(1,)) for _ in range(2))
    assert rounds(first, 3) == rounds(second, 3)


@given(seeds)
def test_no_process_is_disturbed_by_two_faults_at_one_time(seed: int) -> None:
    found = Schedule(seed, 3, disks=(1, 2)).round(60)
    for place, one in enumerate(found):
        for other in found[place + 1 :]:
            together = one.begin <= other.end and other.begin <= one.end
            assert not together or not set(one.brokers) & set(other.brokers)
            assert not together or not (one.members and other.members)


@given(seeds, st.sampled_from([20.0, 45.0]))
def test_faults_name_what_there_is_and_end_with_the_round(seed: int, seconds: float) -> None:
    for fault in Schedule(seed, 3, disks=(2,)).round(seconds):
        assert 0 < fault.begin <= fault.end <= seconds
        assert len(set(fault.brokers)) == fault.kind.brokers
        assert len(set(fault.members)) == fault.kind.members
        assert len(set(fault.ends)) == fault.kind.ends
        assert {*fault.brokers, *fault.ends} <= set(range(BROKERS))
        assert not fault.kind.needs_disk or fault.brokers == (2,)


def test_every_kind_comes_before_long() -> None:
    assert {fault.kind for fault in rounds(Schedule(1, 3, disks=(1,)), 8)} == set(KINDS)


def test_what_a_machine_or_a_registry_cannot_do_is_not_drawn() -> None:
    found = rounds(Schedule(1, 1, can_cut=False), 12)
    assert not any(f.kind.needs_cuts or f.kind.needs_disk or f.kind.needs_quorum for f in found)
    assert {f.members for f in found} <= {(), (0,)}
