"""Answers that wait: given in the turn after they are woken, those of a connection together, each once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from kavka.broker.parked import Parked, ParkedAnswers
from kavka.net.connection import Connection


class Connections:
    """Connections by name, and what is done to them, in order."""

    def __init__(self) -> None:
        self.story: list[str] = []

    def named(self, name: str) -> Connection:
        story = self.story

        class Named:
            def hold(self) -> None:
                story.append(f"hold {name}")

            def let_go(self) -> None:
                story.append(f"send {name}")

        return cast(Connection, Named())


Give = Callable[[Connections, ParkedAnswers], list[Parked]]


def play(story: Callable[[Connections, ParkedAnswers], Any]) -> list[str]:
    """Return what was done to the connections in the turn after the story."""
    connections = Connections()

    async def run() -> list[str]:
        story(connections, ParkedAnswers())
        assert connections.story == []  # whoever woke goes first
        await asyncio.sleep(0)
        return list(connections.story)

    return asyncio.run(run())


def parked(connections: Connections, name: str) -> Parked:
    return Parked(lambda: None, lambda: connections.story.append(f"{name} given up"))


def test_answers_of_a_connection_leave_together() -> None:
    def story(connections: Connections, answers: ParkedAnswers) -> None:
        a, b = connections.named("a"), connections.named("b")
        for connection, name in ((a, "1"), (b, "2"), (a, "3")):
            each = parked(connections, name)
            answers.park(each, connection, lambda name=name: connections.story.append(name))  # type: ignore[misc]
            each.wake()

    assert play(story) == ["hold a", "1", "3", "send a", "hold b", "2", "send b"]


def test_one_that_is_woken_before_it_waits_is_answered() -> None:
    def story(connections: Connections, answers: ParkedAnswers) -> None:
        each = parked(connections, "1")
        each.wake()
        answers.park(each, connections.named("a"), lambda: connections.story.append("1"))

    assert play(story) == ["hold a", "1", "send a"]


def test_one_that_is_woken_twice_is_answered_once() -> None:
    def story(connections: Connections, answers: ParkedAnswers) -> None:
        each = parked(connections, "1")
        answers.park(each, connections.named("a"), lambda: connections.story.append("1"))
        each.wake()
        each.wake()

    assert play(story) == ["hold a", "1", "send a"]


def test_one_that_is_given_up_after_it_was_woken_is_not_answered() -> None:
    def story(connections: Connections, answers: ParkedAnswers) -> None:
        each = Parked(lambda: None, lambda: None)
        answers.park(each, connections.named("a"), lambda: connections.story.append("1"))
        each.wake()
        each.cancel()

    assert play(story) == ["hold a", "send a"]


def test_who_answers_may_wake_others_for_the_next_turn() -> None:
    def story(connections: Connections, answers: ParkedAnswers) -> None:
        a = connections.named("a")
        first, second = parked(connections, "1"), parked(connections, "2")
        answers.park(second, a, lambda: connections.story.append("2"))
        answers.park(first, a, second.wake)
        first.wake()

    assert play(story) == ["hold a", "send a"]


def test_a_fault_on_one_connection_is_nothing_to_the_others() -> None:
    failures: list[Any] = []

    def fail() -> None:
        raise RuntimeError("a fault of ours")

    def story(connections: Connections, answers: ParkedAnswers) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _loop, context: failures.append(context["exception"]))
        for name, answer in (("a", fail), ("b", lambda: connections.story.append("2"))):
            each = parked(connections, name)
            answers.park(each, connections.named(name), answer)
            each.wake()

    assert play(story) == ["hold a", "send a", "hold b", "2", "send b"]
    assert [str(failure) for failure in failures] == ["a fault of ours"]
