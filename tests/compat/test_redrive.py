"""`kavka pipelines redrive` under kill -9; librdkafka writes the dead letters and reads what went back."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

if TYPE_CHECKING:
    from kavka_compat.brokers import Broker

pytestmark = [pytest.mark.compat, pytest.mark.long, pytest.mark.timeout(600)]

RECORDS, KILLS = 30_000, 25


def test_kills_double_and_lose_nothing(
    kavka_broker: Broker, fresh_name: str, tmp_path: Path
) -> None:
    servers = kavka_broker.bootstrap
    dead, back = f"{fresh_name}-dead", f"{fresh_name}-back"
    admin = AdminClient({"bootstrap.servers": servers})
    made = admin.create_topics([NewTopic(dead, 2, 1), NewTopic(back, 2, 1)])
    for future in made.values():
        future.result(30)
    _write(servers, dead, back)
    config = tmp_path / "small.properties"  # small fetches make many transactions
    config.write_text("max.partition.fetch.bytes=20000\nfetch.max.bytes=20000\n")
    command = [sys.executable, "-m", "kavka", "pipelines", "redrive", dead]
    command += ["--bootstrap-server", servers, "--command-config", str(config)]

    chance, kills = random.Random(45), 0
    with Consumer({"bootstrap.servers": servers, "group.id": "watch"}) as watch:
        for _ in range(KILLS):
            aim = _written(watch, back) + chance.randrange(1, RECORDS // KILLS)
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            while _written(watch, back) < aim and process.poll() is None:
                pass
            process.kill()
            process.communicate()
            kills += process.returncode == -9
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert kills > KILLS // 2, "the runs ended before they were killed"

    found = _read(servers, back)
    assert Counter(found.values()) == {1: RECORDS}
    again = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert again.stdout == f"no dead letter of {dead} sent\n"


def _write(servers: str, dead: str, back: str) -> None:
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 20})
    headers = [("__kavka.errors.topic", back.encode())]
    for number in range(RECORDS):
        producer.produce(dead, b"%d" % number, b"k", partition=number % 2, headers=headers)
        producer.poll(0)
    assert producer.flush(60) == 0


def _written(watch: Consumer, topic: str) -> int:
    places = [TopicPartition(topic, number) for number in range(2)]
    return sum(
        watch.get_watermark_offsets(topic_partition, timeout=30)[1] for topic_partition in places
    )


def _read(servers: str, topic: str) -> Counter[bytes]:
    settings = {
        "bootstrap.servers": servers,
        "group.id": "t",
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
    }
    found: Counter[bytes] = Counter()
    with Consumer(settings) as consumer:
        consumer.assign([TopicPartition(topic, number, 0) for number in range(2)])
        ended = 0
        while ended < 2:
            for message in consumer.consume(1000, timeout=30):
                if message.error():
                    ended += 1
                else:
                    found[message.value()] += 1
    return found
