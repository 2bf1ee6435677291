"""Answers that wait: given in the turn after they are woken, those of a connection together, each once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from kavka.broker.deferred_response import DeferredResponse, DeferredResponses
from kavka.net.connection import Connection


class Connections:
    """Connections by name, and what is done to them, in order."""

    def __init__(self) -> None:
        self.story: list[str] = []

    def named(self, name: str) -> Connection:
        story = self.story

        class Named:
            def cork(self) -> None:
                story.append(f"cork {name}")

            def uncork(self) -> None:
                story.append(f"uncork {name}")

        return cast(Connection, Named())


Give = Callable[[Connections, DeferredResponses], list[DeferredResponse]]


def play(story: Callable[[Connections, DeferredResponses], Any]) -> list[str]:
    """Return what was done to the connections in the turn after the story."""
    connections = Connections()

    async def run() -> list[str]:
        story(connections, DeferredResponses())
        assert connections.story == []  # whoever woke goes first
        await asyncio.sleep(0)
        return list(connections.story)

    return asyncio.run(run())


def parked(connections: Connections, name: str) -> DeferredResponse:
    return DeferredResponse(lambda: None, lambda: connections.story.append(f"{name} given up"))


def test_answers_of_a_connection_leave_together() -> None:
    def story(connections: Connections, answers: DeferredResponses) -> None:
        a, b = connections.named("a"), connections.named("b")
        for connection, name in ((a, "1"), (b, "2"), (a, "3")):
            each = parked(connections, name)
            answers.add(each, connection, lambda name=name: connections.story.append(name))  # type: ignore[misc]
            each.wake()

    assert play(story) == ["cork a", "1", "3", "uncork a", "cork b", "2", "uncork b"]


def test_one_that_is_woken_before_it_waits_is_answered() -> None:
    def story(connections: Connections, answers: DeferredResponses) -> None:
        each = parked(connections, "1")
        each.wake()
        answers.add(each, connections.named("a"), lambda: connections.story.append("1"))

    assert play(story) == ["cork a", "1", "uncork a"]


def test_one_that_is_woken_twice_is_answered_once() -> None:
    def story(connections: Connections, answers: DeferredResponses) -> None:
        each = parked(connections, "1")
        answers.add(each, connections.named("a"), lambda: connections.story.append("1"))
        each.wake()
        each.wake()

    assert play(story) == ["cork a", "1", "uncork a"]


def test_one_that_is_given_up_after_it_was_woken_is_not_answered() -> None:
    def story(connections: Connections, answers: DeferredResponses) -> None:
        each = DeferredResponse(lambda: None, lambda: None)
        answers.add(each, connections.named("a"), lambda: connections.story.append("1"))
        each.wake()
        each.cancel()

    assert play(story) == ["cork a", "uncork a"]


def test_who_answers_may_wake_others_for_the_next_turn() -> None:
    def story(connections: Connections, answers: DeferredResponses) -> None:
        a = connections.named("a")
        first, second = parked(connections, "1"), parked(connections, "2")
        answers.add(second, a, lambda: connections.story.append("2"))
        answers.add(first, a, second.wake)
        first.wake()

    assert play(story) == ["cork a", "uncork a"]


def test_a_fault_on_one_connection_is_nothing_to_the_others() -> None:
    failures: list[Any] = []

    def fail() -> None:
        raise RuntimeError("a fault of ours")

    def story(connections: Connections, answers: DeferredResponses) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _loop, context: failures.append(context["exception"]))
        for name, answer in (("a", fail), ("b", lambda: connections.story.append("2"))):
            each = parked(connections, name)
            answers.add(each, connections.named(name), answer)
            each.wake()

    assert play(story) == ["cork a", "uncork a", "cork b", "2", "uncork b"]
    assert [str(failure) for failure in failures] == ["a fault of ours"]
