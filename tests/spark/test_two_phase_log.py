"""The log lines of a worker when brokers do not offer two-phase commit, which is the rule."""

from __future__ import annotations

import logging
from pathlib import Path

import pyarrow as pa
import pytest

from kavka.core.transactional_producer.state import PreparedTxnState
from kavka.spark.exactly_once.commit_protocol import Plan
from kavka.spark.exactly_once.decisions import Batch
from kavka.spark.exactly_once.task_writer import run_task
from kavka.spark.sink_options import parse_sink
from kavka_compat.ours import run_kavka
from support.spark.topic_filling import make_topic

pytestmark = [pytest.mark.compat, pytest.mark.timeout(100)]


def test_brokers_without_two_phase_commit_are_an_info_line_and_no_failure(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "kavka")
    with run_kavka(tmp_path, {}) as broker:
        make_topic(broker, "out", 1)
        options = {"kafka.bootstrap.servers": broker.bootstrap, "topic": "out", "sinkId": "quiet"}
        sink = parse_sink(options | {"deliveryGuarantee": "exactly-once"})
        rows = iter([pa.RecordBatch.from_pydict({"value": [b"v"]})])
        plan = Plan(PreparedTxnState(1, 0), None, accepts_other_writes=True)
        done = run_task(rows, sink, plan, Batch("w", 0), 0)
    assert done.rows == 1
    assert [one.message for one in caplog.records if one.levelno >= logging.WARNING] == []
    assert "two-phase commit is not offered, as by most brokers" in caplog.text
    assert "TRANSACTIONAL_ID_AUTHORIZATION_FAILED" in caplog.text
