"""`kavka sql --spark` gives the rows that `kavka sql` gives."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from kavka.client import blocking
from support.spark.topic_filling import make_topic

if TYPE_CHECKING:
    from kavka_compat.brokers import Broker

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(200)]


def test_the_same_statement_on_spark(kavka_broker: Broker, fresh_name: str) -> None:
    make_topic(kavka_broker, fresh_name, 2)
    with blocking.Producer({"bootstrap.servers": kavka_broker.bootstrap}) as producer:
        for n in range(20):
            value = b'{"user": "u%d", "ms": %d, "geo": {"lat": %d.5}, "tags": ["a"], "key": 1}' % (
                n % 3,
                n,
                n,
            )
            headers = [("h", b"v")] if n % 2 else []
            producer.append(
                fresh_name, value, b"k", partition=n % 2, timestamp_ms=n * 1000, headers=headers
            )
        producer.append(fresh_name, None, b"gone", partition=0, timestamp_ms=0)
        producer.append(fresh_name, b"no JSON", partition=1, timestamp_ms=0)
    words = (
        'select topic, partition, "offset", timestamp, key, "user", ms, geo, tags, value_key, value, headers '
        f'from "{fresh_name}" order by partition, "offset"'
    )
    command = [
        sys.executable,
        "-m",
        "kavka",
        "sql",
        words,
        "--bootstrap-server",
        kavka_broker.bootstrap,
    ]
    printed = []
    for options in ([], ["--spark"]):
        done = subprocess.run(
            [*command, "--output", "json", *options], capture_output=True, text=True, timeout=150
        )
        assert done.returncode == 0, done.stderr
        printed.append(done.stdout.splitlines())
    assert printed[0] == printed[1]
    assert len(printed[0]) == 22
