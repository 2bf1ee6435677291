"""A listener of a Spark Connect session, added and removed so that the process can always end.

PySpark's client has one bus of listeners for each session, with a thread that handles the server's reports:

    the thread          for each report: take the bus's lock, call the listeners
    removeListener      take the bus's lock; for the last listener: ask the server for the end of the reports, then
                        join the thread, with the lock held

A report that comes after `removeListener` has taken the lock stops both for good: the thread waits for the lock, and
`removeListener` for the thread. The thread is no daemon, so the interpreter waits for it at its end, and the next
`addListener` of the session waits for the lock. Here the thread is joined without the lock, and it is a daemon: a
server that never ends the reports does not keep the process either.
"""

from __future__ import annotations

import threading
from typing import Any


def add_listener(spark: Any, listener: Any) -> None:
    """Add a listener. Raise what Spark raises."""
    errors: list[Exception] = []

    def add() -> None:
        try:
            spark.streams.addListener(listener)
        except Exception as error:  # noqa: BLE001 - raised below, in the caller's thread
            errors.append(error)

    # The bus starts its thread in here, and a thread is a daemon if the one that starts it is.
    worker = threading.Thread(target=add, name="add-listener", daemon=True)
    worker.start()
    worker.join()
    if errors:
        raise errors[0]


def remove_listener(spark: Any, listener: Any) -> None:
    """Remove a listener after it has been called with all reports. Raise what Spark raises.

    No other listener may be added to the session meanwhile.
    """
    bus = spark.streams._sqlb
    with bus._lock:
        handler = bus._execution_thread
        is_last = bus._listener_bus == [listener]
    if not is_last or handler is None:
        bus.remove(listener)  # it joins nothing
        return
    _end_reports(spark)
    handler.join()
    with bus._lock:
        # The bus has removed all listeners itself if its thread failed.
        if bus._listener_bus == [listener]:
            bus._listener_bus.clear()
            bus._execution_thread = None


def _end_reports(spark: Any) -> None:
    """Ask the server for the end of the reports: it sends what it still has, then the stream of reports ends."""
    from pyspark.sql.connect.proto import Command

    command = Command()
    command.streaming_query_listener_bus_command.remove_listener_bus_listener = True
    spark.client.execute_command(command)
