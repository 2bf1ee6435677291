"""The watch of Spark's JVM, with a process that stands in its place."""

from __future__ import annotations

import logging
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from kavka.pipelines.jvm import DriverEnded, JvmWatch
from support.waiting import wait_until

LOG = Path("storage/spark.log")


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """A process that ends when its standard input is closed, as the JVM does."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as running:
        yield running
        running.kill()


class Channel:
    """The channel of a client, which would try its calls for minutes."""

    is_closed = False

    def close(self) -> None:
        self.is_closed = True


def test_a_jvm_that_was_killed_is_named_as_the_cause_of_broken_connections(
    process: subprocess.Popen[bytes],
) -> None:
    watch = JvmWatch(process, LOG)
    watch.require_jvm()
    assert watch.failure_behind(ValueError("of the project")) is None
    process.kill()
    broken = RuntimeError("a call failed")
    broken.__cause__ = ConnectionRefusedError()
    ended = watch.failure_behind(broken)
    assert ended is not None
    assert "by signal 9, as when the machine has no memory left" in str(ended)
    assert str(LOG) in str(ended)
    assert watch.failure_behind(ended) is ended
    with pytest.raises(DriverEnded, match="signal 9"):
        watch.require_jvm()


def test_channels_of_a_jvm_that_has_ended_are_closed(process: subprocess.Popen[bytes]) -> None:
    watch = JvmWatch(process, LOG)
    first, second = (SimpleNamespace(_channel=Channel(), _closed=False) for _ in range(2))
    for client in (first, second):
        watch.add(SimpleNamespace(client=client))
    watch.discard(SimpleNamespace(client=second))
    watch.start()
    process.send_signal(signal.SIGTERM)
    wait_until(lambda: first._closed, 10)
    assert first._channel.is_closed
    assert not second._channel.is_closed
    watch.close()


def test_a_call_that_breaks_is_not_logged_as_well(
    process: subprocess.Popen[bytes], caplog: pytest.LogCaptureFixture
) -> None:
    watch = JvmWatch(process, LOG)
    watch.start()
    root = logging.getLogger()
    for path in ("site-packages/py4j/clientserver.py", "project/py4j_notes.py"):
        root.handle(root.makeRecord("root", logging.ERROR, path, 1, "from %s", (path,), None))
    watch.close()
    assert caplog.messages == ["from project/py4j_notes.py"]


def test_a_jvm_of_another_program_is_not_watched() -> None:
    watch = JvmWatch(None, LOG)
    watch.require_jvm()
    assert watch.failure_behind(ConnectionResetError()) is None
    assert not watch.has_ended
