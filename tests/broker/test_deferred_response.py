"""Responses that wait: built in the iteration after they are woken, those of a connection together, each once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from kavka.broker.requests.context import RequestContext
from kavka.broker.requests.deferred import DeferredResponse
from kavka.broker.requests.failures import RequestFailures
from kavka.broker.requests.pending_requests import PendingRequests


class Deferred(DeferredResponse):
    """A response whose result is its name, or what `build` returns."""

    def __init__(
        self, story: list[str], name: str, on_build: Callable[[], None] | None = None
    ) -> None:
        super().__init__()
        self._story = story
        self._name = name
        self._on_build = on_build

    def build(self) -> str:
        if self._on_build is not None:
            self._on_build()
        return self._name

    def release(self) -> None:
        self._story.append(f"{self._name} given up")


class Named(SimpleNamespace):
    """A stand-in for a connection that is equal to itself alone."""

    __hash__ = object.__hash__  # type: ignore[assignment]
    __eq__ = object.__eq__


class Connections:
    """Connections by name, and what is done to them, in order."""

    def __init__(self) -> None:
        self.story: list[str] = []
        self.now_ms = 0
        self._named: dict[str, Any] = {}
        self.waiting = PendingRequests(
            lambda _context, result: self.story.append(result),
            RequestFailures(),
            cast(Any, id),
            lambda: self.now_ms,
        )

    def _connection(self, name: str) -> Any:
        story = self.story
        return Named(
            cork=lambda: story.append(f"cork {name}"),
            uncork=lambda: story.append(f"uncork {name}"),
            abort=lambda: story.append(f"abort {name}"),
            release=lambda _slot: None,
            attachment=SimpleNamespace(waiting={}, is_open=True),
        )

    def context(self, name: str) -> RequestContext:
        """Return the context of another request on the connection of this name."""
        if name not in self._named:
            self._named[name] = self._connection(name)
        connection = self._named[name]
        return cast(
            RequestContext,
            SimpleNamespace(
                connection=connection,
                slot=None,
                large=None,
                loop_time=None,
                version=0,
                api=SimpleNamespace(key=0),
                finish=lambda: None,
            ),
        )

    def defer(self, name: str, result: str, on_build: Callable[[], None] | None = None) -> Deferred:
        """Let a response wait on a connection."""
        deferred = Deferred(self.story, result, on_build)
        self.waiting.defer(self.context(name), deferred)
        return deferred


def play(story: Callable[[Connections], Any]) -> list[str]:
    """Return what was done to the connections in the iteration after the story."""
    connections = Connections()

    async def run() -> list[str]:
        story(connections)
        done = [event for event in connections.story if "given up" not in event]
        assert done == []  # the code that woke goes first
        await asyncio.sleep(0)
        return list(connections.story)

    return asyncio.run(run())


def test_responses_of_a_connection_leave_together() -> None:
    def story(connections: Connections) -> None:
        for name, result in (("a", "1"), ("b", "2"), ("a", "3")):
            connections.defer(name, result).wake()

    assert play(story) == ["cork a", "1", "3", "uncork a", "cork b", "2", "uncork b"]


def test_what_a_request_wakes_is_answered_at_the_end_of_its_time_slice() -> None:
    def story(connections: Connections) -> None:
        connections.waiting.is_held = True
        connections.defer("a", "1").wake()
        assert connections.story == []
        connections.waiting.end_hold(responds_now=True)
        assert connections.story == ["cork a", "1", "uncork a"]
        connections.story.append("next iteration")

    connections = Connections()

    async def run() -> None:
        story(connections)
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    asyncio.run(run())
    assert connections.story[-1] == "next iteration"


def test_what_is_woken_waits_for_the_connections_that_are_served_first() -> None:
    def story(connections: Connections) -> None:
        connections.waiting.is_held = True
        connections.defer("a", "1").wake()
        connections.waiting.end_hold(responds_now=False)

    assert play(story) == ["cork a", "1", "uncork a"]


def test_responses_that_take_long_leave_in_several_iterations() -> None:
    connections = Connections()

    def build() -> None:
        connections.now_ms += 2

    async def run() -> None:
        for name, result in (("a", "1"), ("a", "2"), ("b", "3")):
            connections.defer(name, result, build).wake()
        for last in ("1", "3", "2"):  # a connection with more goes behind the others
            await asyncio.sleep(0)
            assert connections.story[1] == last
            connections.story.clear()
        await asyncio.sleep(0)
        assert connections.story == []

    asyncio.run(run())


def test_one_that_is_woken_before_it_waits_is_answered() -> None:
    def story(connections: Connections) -> None:
        deferred = Deferred(connections.story, "1")
        deferred.wake()
        connections.waiting.defer(connections.context("a"), deferred)

    assert play(story) == ["cork a", "1", "uncork a"]


def test_one_that_is_woken_twice_is_answered_once() -> None:
    def story(connections: Connections) -> None:
        deferred = connections.defer("a", "1")
        deferred.wake()
        deferred.wake()

    assert play(story) == ["cork a", "1", "uncork a"]


def test_one_that_is_given_up_after_it_was_woken_is_not_answered() -> None:
    def story(connections: Connections) -> None:
        deferred = connections.defer("a", "1")
        deferred.wake()
        deferred.cancel()

    assert play(story) == ["1 given up", "cork a", "uncork a"]


def test_one_that_begins_to_wait_after_its_connection_was_closed_is_given_up() -> None:
    def story(connections: Connections) -> None:
        context = connections.context("a")
        context.connection.attachment.is_open = False
        deferred = Deferred(connections.story, "1")
        connections.waiting.defer(context, deferred)
        deferred.wake()

    assert play(story) == ["1 given up"]


def test_one_that_is_built_may_wake_others_for_the_next_iteration() -> None:
    def story(connections: Connections) -> None:
        second = connections.defer("a", "2")
        connections.defer("a", "1", second.wake).wake()

    assert play(story) == ["cork a", "1", "uncork a"]


def test_a_fault_in_one_response_is_nothing_to_the_others() -> None:
    def fail() -> None:
        raise RuntimeError("a fault of ours")

    def story(connections: Connections) -> None:
        connections.defer("a", "1", fail).wake()
        connections.defer("a", "2").wake()
        connections.defer("b", "3").wake()

    assert play(story) == ["cork a", "abort a", "2", "uncork a", "cork b", "3", "uncork b"]
