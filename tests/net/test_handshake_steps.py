"""The steps of handshakes: each address in turn, and none of a client that has gone."""

from __future__ import annotations

import asyncio
import threading

import pytest

from kavka.net.tls.handshake_steps import HandshakeSteps
from support.waiting import until


class Step:
    """A step that writes its name down; the first waits for the test."""

    def __init__(self, name: str, done: list[str], gate: threading.Event) -> None:
        self.host, self._name = name[0], name
        self._done, self._gate = done, gate
        self.failed: BaseException | None = None
        self.has_ended = False

    def run(self) -> None:
        self._gate.wait(60)
        self._done.append(self._name)
        if self._name == "a2":
            raise ConnectionError("a2")

    def ran(self, error: BaseException | None) -> None:
        self.has_ended = True
        self.failed = error


def order(*names: str, gone: tuple[str, ...] = ()) -> list[str]:
    """Return the order in which steps are done that are added at once, but for those that go before their turn."""
    done: list[str] = []

    async def story() -> None:
        gate = threading.Event()
        steps = HandshakeSteps(1)
        made = {name: Step(name, done, gate) for name in names}
        for step in made.values():
            steps.add(step)
        for name in gone:
            steps.discard(made[name])
            steps.discard(made[name])
        gate.set()
        await until(lambda: all(made[name].has_ended for name in names if name not in gone))
        steps.close()
        for name, step in made.items():
            assert (step.failed is None) == (name != "a2" or name in gone)

    asyncio.run(story())
    return done


def test_a_client_of_another_address_waits_for_few_of_one_that_has_many() -> None:
    many = [f"a{number}" for number in range(1, 101)]
    done = order(*many, "b1", "c1", "b2")
    # The first two were handed over before the others came.
    assert done[:8] == ["a1", "a2", "a3", "b1", "c1", "a4", "b2", "a5"]
    assert [name for name in done if name[0] == "a"] == many


def test_a_client_that_has_gone_costs_no_step() -> None:
    done = order("a1", "a2", "a3", "b1", "a4", gone=("a3", "b1"))
    assert done == ["a1", "a2", "a4"]


def test_what_waits_at_the_end_is_not_done() -> None:
    done: list[str] = []

    async def story() -> None:
        gate = threading.Event()
        steps = HandshakeSteps(1)
        for name in ("a1", "b1", "a3", "b2"):
            steps.add(Step(name, done, gate))
        steps.close()
        gate.set()
        await until(lambda: done)
        await asyncio.sleep(0)

    asyncio.run(story())
    assert done == ["a1"]


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_have_their_next_step_before_the_loop_comes_to_it(threads: int) -> None:
    done: list[str] = []

    async def story() -> None:
        gate = threading.Event()
        gate.set()
        steps = HandshakeSteps(threads)
        for number in range(10):
            steps.add(Step(f"b{number}", done, gate))
        # The loop gives way to nothing here.
        wait = threading.Event()
        for _ in range(1000):
            if len(done) >= 2 * threads:
                break
            wait.wait(0.001)
        assert len(done) == 2 * threads
        steps.close()

    asyncio.run(story())
