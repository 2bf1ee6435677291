"""The example of event sourcing: the table is that of the events, also after it was lost, and as of earlier times."""

from __future__ import annotations

import importlib.util
import time
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from kavka_compat.ours import run_kavka

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kavka_compat.brokers import Broker

pytestmark = [pytest.mark.spark, pytest.mark.compat]

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "event-sourcing" / "accounts.py"


@pytest.fixture
def accounts() -> ModuleType:
    spec = importlib.util.spec_from_file_location("accounts", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def create(broker: Broker, topic: str, **config: str) -> None:
    wanted = NewTopic(
        topic, 2, 1, config={name.replace("_", "."): value for name, value in config.items()}
    )
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for future in admin.create_topics([wanted]).values():
        future.result(30)


def balances(frame: DataFrame) -> dict[str, int]:
    return {row.account: row.balance for row in frame.collect()}


@pytest.mark.timeout(240)
def test_balances_follow_from_events_and_are_computed_again(
    spark: SparkSession, accounts: ModuleType, tmp_path: Path
) -> None:
    with run_kavka(tmp_path / "broker") as broker:
        servers = broker.bootstrap
        create(broker, accounts.EVENTS, retention_ms="-1")
        create(broker, accounts.BALANCES, cleanup_policy="compact")
        first = str(tmp_path / "first")
        accounts.record("alice", "deposited", 100, servers)
        accounts.record("bob", "deposited", 5, servers)
        accounts.project(spark, first, servers)
        between_ms = int(time.time() * 1000) + 1
        producer = Producer({"bootstrap.servers": servers})
        producer.produce(
            accounts.EVENTS, b'{"type": "withdrawn", "amount": 30}', b"alice", timestamp=between_ms
        )
        producer.flush(30)
        accounts.project(spark, first, servers)
        truth = {"alice": 70, "bob": 5}
        assert balances(accounts.now(spark, servers)) == truth
        assert balances(accounts.replay(spark, between_ms, servers)) == {"alice": 100, "bob": 5}
        admin = AdminClient({"bootstrap.servers": servers})
        admin.delete_topics([accounts.BALANCES])[accounts.BALANCES].result(30)
        create(broker, accounts.BALANCES, cleanup_policy="compact")
        accounts.project(spark, str(tmp_path / "second"), servers)
        assert balances(accounts.now(spark, servers)) == truth
