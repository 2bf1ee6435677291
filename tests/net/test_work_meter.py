"""Meters of connections: all of an event is charged once, with what the loop did for it, and nothing of others."""

from __future__ import annotations

from typing import Any

from kavka.net.work_meter import LoopClock, WorkMeter


class Thread:
    """The processor time of a thread, which passes on request; reading it takes none."""

    def __init__(self) -> None:
        self.now = 1_000_000

    def work_ns(self) -> int:
        return self.now

    def works(self, ns: int) -> None:
        self.now += ns


class Loop:
    """A loop whose waits take 300 ns and whose dispatches take 200."""

    def __init__(self) -> None:
        self.thread = Thread()
        self.works: list[str] = []
        self.clock = LoopClock(self.thread.work_ns, self.works)
        self.charged: list[int] = []

    def meter(self) -> WorkMeter:
        return WorkMeter(self.clock, self.charged.append)

    def wait(self, events: int = 1, *, is_alone: bool = True) -> None:
        def wait() -> list[Any]:
            self.thread.works(300)
            return [None] * events

        self.clock.end_iteration()
        self.works.clear()
        self.clock.sample(wait, is_alone=is_alone)

    def works_for_others(self, ns: int) -> None:
        self.works.append("a request")
        self.thread.works(ns)

    def event(self, meter: WorkMeter, ns: int) -> None:
        """Dispatch an event that takes so long."""
        self.thread.works(200)
        meter.begin()
        meter.enter()
        self.thread.works(ns)
        meter.leave()
        self.thread.works(100)  # the loop's way back

    def learn(self, meter: WorkMeter) -> None:
        """Have enough samples."""
        for _ in range(200):
            self.wait()
            self.event(meter, 10)
        take(meter)


def take(meter: WorkMeter) -> int:
    """Return what is owed, in an event that takes no time and follows the last one at once."""
    meter.begin()
    meter.enter()
    taken = meter.take_ns()
    meter.leave()
    return taken


def test_before_there_are_samples_an_event_behind_others_is_its_own_time() -> None:
    loop = Loop()
    meter = loop.meter()
    loop.works_for_others(500)
    loop.wait()
    loop.event(meter, 5000)
    assert meter._owed_ns == 5000


def test_an_event_includes_what_the_loop_did_for_it() -> None:
    loop = Loop()
    meter = loop.meter()
    loop.learn(meter)
    began = loop.thread.now
    for _ in range(10):
        loop.wait()
        loop.event(meter, 5000)
    total = loop.thread.now - began
    assert take(meter) == total


def test_work_for_others_between_two_events_is_not_charged() -> None:
    loop = Loop()
    meter = loop.meter()
    loop.learn(meter)
    for _ in range(10):
        loop.wait(2)
        loop.works_for_others(50_000)
        loop.event(meter, 5000)
    assert take(meter) <= 10 * (5000 + 100 + 300 + 200) + 100


def test_two_events_of_one_wait_share_it() -> None:
    loop = Loop()
    meters = [loop.meter(), loop.meter()]
    loop.learn(meters[0])
    loop.wait(2)
    for meter in meters:
        loop.event(meter, 5000)
    # The second follows the first at once: nothing more than what lies between can be its.
    assert take(meters[0]) <= 5000 + 600
    assert take(meters[1]) <= 5000 + 300


def test_a_request_takes_the_time_so_far_and_the_rest_is_the_next_ones() -> None:
    loop = Loop()
    meter = loop.meter()
    meter.begin()
    meter.enter()
    loop.thread.works(700)
    assert meter.take_ns() == 700
    loop.thread.works(40)
    meter.leave()
    meter.begin()
    meter.enter()
    loop.thread.works(5)
    assert meter.take_ns() == 45
    meter.leave()
    assert loop.charged == []


def test_much_that_no_request_takes_is_charged_all_the_same() -> None:
    loop = Loop()
    meter = loop.meter()
    for _ in range(3):
        loop.event(meter, 900_000)
    assert loop.charged == [1_800_300]


def test_what_is_discarded_is_not_charged() -> None:
    loop = Loop()
    meter = loop.meter()
    meter.begin()
    meter.enter()
    meter.discard()
    loop.thread.works(900)
    meter.resume()
    loop.thread.works(70)
    assert meter.take_ns() == 70
    meter.discard()
    loop.thread.works(900)
    meter.leave()
    assert take(meter) == 0


def test_leaving_without_an_event_does_nothing() -> None:
    loop = Loop()
    meter = loop.meter()
    meter.begin()  # there was nothing to read
    loop.thread.works(900)
    meter.leave()
    assert meter._owed_ns == 0
