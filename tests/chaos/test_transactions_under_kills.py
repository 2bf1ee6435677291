"""kill -9 of a broker in the middle of transactions: it coordinates them, leads their partitions, and recovers both."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest

from kavka.testing.history.workload import Load, Settings
from kavka_compat.ours import start_kavka
from kavka_compat.processes import free_port

_KILLS = max(int(os.environ.get("KAVKA_KILLS", "12")) // 6, 1)
_SETTINGS = {
    "log.segment.bytes": str(1 << 18),
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
}
_PATIENCE_S = 120

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(240 + 20 * _KILLS)]


@pytest.mark.parametrize(
    "client",
    [
        pytest.param("confluent", marks=pytest.mark.long, id="transaction-version-0"),
        pytest.param("kavka", id="transaction-version-2"),
    ],
)
def test_killing_the_broker_tears_no_transaction(tmp_path: Path, client: str) -> None:
    port = free_port()
    broker = start_kavka(tmp_path, _SETTINGS, port)
    try:
        settings = Settings(
            broker.bootstrap,
            topic="t",
            client=client,
            producers=1,
            transactional=3,
            readers=1,
            members=1,
            rate=100,
            timeout_seconds=_PATIENCE_S,
        )
        with Load(settings) as load:
            for _ in range(_KILLS):
                load.wait_for(50, _PATIENCE_S)
                time.sleep(random.uniform(0, 0.5))  # time: when it dies is chance
                broker.process.kill()
                broker = start_kavka(tmp_path, _SETTINGS, port)
            load.wait_for(50, _PATIENCE_S)
            verdict = load.finish()
    finally:
        broker.process.stop()
    assert verdict.passed, verdict.report()
    assert verdict.counts["transactions committed"] > 5
