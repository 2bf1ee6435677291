"""The silence of a partition that counts as a fault's."""

from __future__ import annotations

from kavka_chaos.rounds import silence_of
from kavka_chaos.schedule import KINDS, Fault


def fault(begin: float, end: float) -> Fault:
    return Fault(KINDS[0], begin, end, (0,))


def test_the_longest_silence_in_and_after_a_fault_is_its() -> None:
    one = fault(10, 12)
    assert silence_of(one, [one], [(5, 9), (9.8, 10.4), (11, 14), (30, 99)]) == 3


def test_a_silence_that_lasts_into_the_next_fault_is_counted_up_to_there() -> None:
    one, other = fault(10, 12), fault(15, 16)
    assert silence_of(one, [one, other], [(11, 20)]) == 4
    assert silence_of(other, [one, other], [(11, 20)]) == 0


def test_faults_at_one_time_have_no_silence_of_their_own() -> None:
    one, other = fault(10, 12), fault(11, 16)
    assert silence_of(one, [one, other], [(10, 20)]) is None
