"""Iterations of the loop are measured, and what took longest in one is found."""

from __future__ import annotations

import asyncio
import time
from typing import NamedTuple

from kavka.net.event_loop import LoopIterations, MeasuredEventLoop, Stall, iterations_of

_MS = 1_000_000


class Work(NamedTuple):
    """Something that was begun."""

    name: str
    began_ms: int


def work_until_the_clock_has_moved(ms: int) -> None:
    until = time.monotonic_ns() + ms * _MS
    while time.monotonic_ns() < until:
        pass


def watched(stall_ms: int) -> tuple[LoopIterations, list[Stall]]:
    iterations, stalls = LoopIterations(), list[Stall]()
    iterations.watch(stall_ms, stalls.append)
    return iterations, stalls


def test_turn_that_takes_the_threshold_is_a_stall() -> None:
    iterations, stalls = watched(200)
    iterations.ended(0, 200 * _MS - 1, 0)
    assert not stalls
    iterations.ended(1_000 * _MS, 1_200 * _MS, 150 * _MS)
    assert stalls == [Stall(200, 150, None)]
    assert (iterations.stalls, iterations.stalled_ms) == (1, 200)


def test_work_that_lasted_longest_is_at_fault_and_not_the_last() -> None:
    iterations, stalls = watched(100)
    works = [Work("quick", 1_000), Work("slow", 1_010), Work("last", 1_200)]
    iterations.works.extend(works)
    iterations.ended(1_000 * _MS, 1_250 * _MS, 0)
    assert stalls[0].work == works[1]


def test_last_work_lasts_until_the_turn_ends() -> None:
    iterations, stalls = watched(100)
    works = [Work("quick", 1_000), Work("last", 1_020)]
    iterations.works.extend(works)
    iterations.ended(1_000 * _MS, 1_250 * _MS, 0)
    assert stalls[0].work == works[1]


def test_longest_iteration_is_forgotten_after_two_minutes() -> None:
    iterations = LoopIterations()
    iterations.ended(0, 300 * _MS, 0)
    iterations.rotate()
    iterations.ended(0, 5 * _MS, 0)
    assert iterations.longest_ms == 300
    iterations.rotate()
    assert iterations.longest_ms == 5
    assert iterations.timings.count == 2


def test_loop_reports_a_callback_that_keeps_it_busy_and_what_it_had_noted() -> None:
    loop = MeasuredEventLoop()
    stalls: list[Stall] = []
    loop.iterations.watch(20, stalls.append)

    def keep_busy() -> None:
        loop.iterations.works.append(Work("busy", time.monotonic_ns() // _MS))
        work_until_the_clock_has_moved(25)

    async def story() -> None:
        loop.call_soon(keep_busy)
        for _ in range(3):
            await asyncio.sleep(0)

    loop.run_until_complete(story())
    loop.close()
    (stall,) = (s for s in stalls if isinstance(s.work, Work))
    assert stall.work is not None
    assert stall.duration_ms >= 25
    assert 0 <= stall.cpu_ms <= stall.duration_ms
    assert not loop.iterations.works


def test_time_in_which_the_loop_does_not_run_is_no_turn() -> None:
    loop = MeasuredEventLoop()
    loop.run_until_complete(asyncio.sleep(0))
    an_hour = 3_600_000
    loop._measured._began_ns -= an_hour * _MS
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    assert loop.iterations.longest_ms < an_hour


def test_unwatched_loop_reports_no_stalls_and_keeps_measuring() -> None:
    iterations, stalls = watched(10)
    iterations.unwatch(stalls.append)
    iterations.ended(0, 20 * _MS, 0)
    assert not stalls
    assert iterations.longest_ms == 20


def test_loop_that_is_not_measured_keeps_nothing_of_what_is_noted() -> None:
    loop = asyncio.SelectorEventLoop()
    iterations = iterations_of(loop)
    iterations.works.extend(Work("work", number) for number in range(100))
    loop.close()
    assert len(iterations.works) <= 1
