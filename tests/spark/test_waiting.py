"""Time for which a trigger and a task wait for a broker that cannot do what they ask."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from kavka.spark.options import parse_source
from kavka.spark.sink import write_rows
from kavka.spark.sink_options import parse_sink
from kavka.spark.source import StreamReader
from kavka_compat.ours import run_kavka
from support.spark.topic_filling import make_topic

if TYPE_CHECKING:
    from kavka_compat.brokers import Broker

pytestmark = [pytest.mark.compat, pytest.mark.timeout(180)]

SHORT_S = 50.0
"""Below the minute and the two minutes that the defaults of the client would wait."""


@pytest.fixture(scope="module")
def lonely(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker that is the only one."""
    with run_kavka(tmp_path_factory.mktemp("lonely"), {}) as broker:
        yield broker


def test_a_coordinator_that_is_away_holds_a_trigger_for_seconds_only(
    lonely: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    make_topic(lonely, "watched", 1)
    options = {"kafka.bootstrap.servers": lonely.bootstrap, "subscribe": "watched", "groupId": "g"}
    reader = StreamReader(parse_source(options, streaming=True))
    assert reader.initialOffset()["watched"] == {"0": 0}
    os.kill(lonely.process.pid, signal.SIGSTOP)
    try:
        began = time.monotonic()
        reader.commit({"watched": {"0": 1}})
        took = time.monotonic() - began
    finally:
        os.kill(lonely.process.pid, signal.SIGCONT)
        reader.stop()
    assert took < SHORT_S
    assert "did not take offsets within 2 s" in caplog.text


def test_a_task_that_fails_does_not_wait_for_rows_that_cannot_be_written(lonely: Broker) -> None:
    make_topic(lonely, "waiting", 1)
    failed_at: list[float] = []

    def rows() -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"value": [b"first"]})
        # Far more than one request: most of it waits when the first row is acknowledged and the next is asked for.
        yield pa.RecordBatch.from_pydict({"value": [os.urandom(100_000) for _ in range(200)]})
        os.kill(lonely.process.pid, signal.SIGSTOP)
        failed_at.append(time.monotonic())
        raise ArithmeticError("the query failed")

    options = {"kafka.bootstrap.servers": lonely.bootstrap, "topic": "waiting"}
    try:
        with pytest.raises(ArithmeticError, match="the query failed"):
            write_rows(rows(), parse_sink(options))
        took = time.monotonic() - failed_at[0]
    finally:
        os.kill(lonely.process.pid, signal.SIGCONT)
    assert took < SHORT_S
