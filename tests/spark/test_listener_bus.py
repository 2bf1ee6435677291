"""The observer's listener on PySpark's own bus of listeners, with a server that reports at the worst moments."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from queue import SimpleQueue
from typing import Any

import pytest
from pyspark.sql.connect.proto import (
    Command,
    StreamingQueryEventType,
    StreamingQueryListenerEventsResult,
)
from pyspark.sql.connect.streaming.query import StreamingQueryManager
from pyspark.sql.streaming.listener import StreamingQueryListener

from kavka.pipelines.definitions import Definitions
from kavka.pipelines.listener_bus import add_listener, remove_listener
from kavka.pipelines.observer import Observer
from kavka.spark.queries.flow_progress import ProgressTable

pytestmark = pytest.mark.spark

_RUN = "6a4f3c1e-0000-4000-8000-000000000001"


class Server:
    """A session and the server behind it: a query ends at the moment at which the last listener is removed."""

    def __init__(self) -> None:
        self.client = self
        self.streams = StreamingQueryManager(self)
        self.removals = 0
        self._reports: SimpleQueue[StreamingQueryListenerEventsResult | None] = SimpleQueue()

    def execute_command_as_iterator(self, command: Command) -> Iterator[dict[str, Any]]:
        assert command.streaming_query_listener_bus_command.add_listener_bus_listener
        yield self._response(StreamingQueryListenerEventsResult(listener_bus_listener_added=True))
        while (report := self._reports.get()) is not None:
            yield self._response(report)

    def execute_command(self, command: Command) -> None:
        assert command.streaming_query_listener_bus_command.remove_listener_bus_listener
        self.removals += 1
        self.report()
        self._reports.put(None)

    def report(self) -> None:
        """Send the end of a query."""
        event = {"id": _RUN, "runId": _RUN, "exception": None, "errorClassOnException": None}
        result = StreamingQueryListenerEventsResult()
        result.events.add(
            event_json=json.dumps(event),
            event_type=StreamingQueryEventType.QUERY_TERMINATED_EVENT,
        )
        self._reports.put(result)

    @staticmethod
    def _response(result: StreamingQueryListenerEventsResult) -> dict[str, Any]:
        return {"streaming_query_listener_events_result": result}

    @property
    def listeners(self) -> list[StreamingQueryListener]:
        return list(self.streams._sqlb._listener_bus)

    @property
    def handler(self) -> threading.Thread | None:
        """The thread of the bus."""
        thread: threading.Thread | None = self.streams._sqlb._execution_thread
        return thread


def test_a_report_that_comes_while_the_listener_is_removed_is_recorded_and_stops_nothing() -> None:
    server = Server()
    observer = Observer(ProgressTable("shop"), Definitions(), None)
    for ended in (1, 2):  # a session that goes on has another observer for the next update
        observer.listen(server)
        handler = server.handler
        assert handler is not None
        observer.close()
        assert not handler.is_alive()
        assert (server.listeners, server.handler, server.removals) == ([], None, ended)
        assert observer._ended == ended


def test_the_thread_of_the_bus_does_not_keep_the_process() -> None:
    server = Server()
    listener = Listener()
    add_listener(server, listener)
    assert server.handler is not None
    assert server.handler.daemon
    remove_listener(server, listener)


def test_reports_go_on_for_the_listeners_that_are_left() -> None:
    server = Server()
    first, second = Listener(), Listener()
    add_listener(server, first)
    add_listener(server, second)
    remove_listener(server, first)
    assert (server.listeners, server.removals) == ([second], 0)
    server.report()
    remove_listener(server, second)
    assert (len(first.ended), len(second.ended), server.removals) == (0, 2, 1)
    remove_listener(server, second)  # it is removed already
    assert server.removals == 1


class Listener(StreamingQueryListener):
    """Keeps the queries that have ended."""

    def __init__(self) -> None:
        self.ended: list[str] = []

    def onQueryStarted(self, event: Any) -> None:
        """Ignore starts."""

    def onQueryProgress(self, event: Any) -> None:
        """Ignore progress."""

    def onQueryIdle(self, event: Any) -> None:
        """Ignore idle queries."""

    def onQueryTerminated(self, event: Any) -> None:
        """Keep the query."""
        self.ended.append(event.runId)
