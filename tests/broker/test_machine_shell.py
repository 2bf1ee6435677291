"""The timer of the machines of coordinators, in virtual time."""

from __future__ import annotations

from contextlib import closing

from kavka.broker.coordination.machine_shell import MachineTimer
from kavka.simulation.loop import SimLoop


class Clock:
    """The time of a loop."""

    def __init__(self, loop: SimLoop) -> None:
        self.loop = loop

    def now_ms(self) -> int:
        raise AssertionError("timers do not depend on the wall clock")

    def tick_ms(self) -> int:
        return int(self.loop.time() * 1000)

    def work_ns(self) -> int:
        return self.tick_ms() * 1_000_000


class Machine:
    """Has things due at given times."""

    def __init__(self, loop: SimLoop) -> None:
        self.clock = Clock(loop)
        self.timer = MachineTimer(self.clock, self.tick)
        self.due_ms: list[int] = []
        self.ticks_ms: list[int] = []

    def set_due(self, *due_ms: int) -> None:
        self.due_ms = list(due_ms)
        self.timer.set(min(due_ms, default=None))

    def tick(self) -> None:
        now_ms = self.clock.tick_ms()
        self.ticks_ms.append(now_ms)
        self.set_due(*(due_ms for due_ms in self.due_ms if due_ms > now_ms))


def ticks_of(*steps: tuple[int, tuple[int, ...]]) -> list[int]:
    """Return when a machine was called that has other things due at each step."""
    loop = SimLoop()
    machine = Machine(loop)

    async def run() -> None:
        for at_ms, due_ms in steps:
            loop.call_at(at_ms / 1000, machine.set_due, *due_ms)
        done = loop.create_future()
        loop.call_at(60, done.set_result, None)
        await done

    with closing(loop):
        loop.run(run())
    return machine.ticks_ms


def test_the_machine_is_called_for_all_that_is_due() -> None:
    assert ticks_of((0, (100, 300, 200))) == [100, 200, 300]


def test_what_is_due_sooner_is_not_late() -> None:
    assert ticks_of((0, (5000,)), (10, (5000, 40))) == [40, 5000]


def test_what_is_due_later_than_before_costs_one_call_too_many() -> None:
    assert ticks_of((0, (100,)), (50, (200,))) == [100, 200]


def test_what_is_overdue_is_done_in_the_next_iteration() -> None:
    assert ticks_of((1000, (0,))) == [1000]


def test_nothing_is_called_when_nothing_is_due() -> None:
    assert ticks_of((0, ())) == []
