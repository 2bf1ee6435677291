"""Consume, transform, produce on three brokers of which one after another is killed: every record once."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kavka.client import (
    Admin,
    Consumer,
    ExactlyOnce,
    FatalError,
    NewTopic,
    Producer,
    ProducerRecord,
    TopicPartition,
)
from kavka.testing.local_cluster import LocalCluster
from support.waiting import eventually

pytestmark = [pytest.mark.chaos, pytest.mark.long, pytest.mark.timeout(400)]

_PARTITIONS = 4
_WORKERS = 3
_KILLS = 4
_PATIENCE_S = 240
_SETTINGS = {
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
}


def _parts(topic: str) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in range(_PARTITIONS)]


class _Pipeline:
    """Workers that copy the topic `in` to `out`, and begin another life every few seconds."""

    def __init__(self, bootstrap: str, is_enough: Callable[[], bool]) -> None:
        """Write records until there are enough."""
        self.written = 0
        self._is_enough = is_enough
        self._settings = {"bootstrap.servers": bootstrap}
        self._stop = asyncio.Event()

    async def run(self) -> Counter[str]:
        """Write, copy all of it, and return what readers of committed records see."""
        async with Admin(self._settings) as admin:
            safe = {"min.insync.replicas": "2"}
            topics = [NewTopic(name, _PARTITIONS, 3, safe) for name in ("in", "out")]
            for outcome in (await admin.create_topics(topics)).values():
                assert not isinstance(outcome, Exception), outcome
            workers = [asyncio.create_task(self._work(number)) for number in range(_WORKERS)]
            await self._write()
            await self._until_all_is_read(admin)
        self._stop.set()
        await asyncio.gather(*workers)
        return await self._copied()

    async def _write(self) -> None:
        async with Producer(self._settings) as producer:
            while not self._is_enough():
                values = [b"%d" % number for number in range(self.written, self.written + 20)]
                await producer.send_many("in", [(value, value) for value in values])
                self.written += len(values)
                await asyncio.sleep(0.02)  # time: the rate; no call waits for it

    async def _until_all_is_read(self, admin: Admin) -> None:
        ends = await admin.list_offsets(dict.fromkeys(_parts("in"), -1))

        def is_read(found: Any) -> bool:
            return all(
                topic_partition in found and found[topic_partition].offset >= end.offset  # type: ignore[union-attr]
                for topic_partition, end in ends.items()
            )

        await eventually(lambda: admin.list_group_offsets("g", _parts("in")), is_read, _PATIENCE_S)

    async def _work(self, number: int) -> None:
        rng = random.Random(number)
        while not self._stop.is_set():
            try:
                await self._live(number, rng)
            except (FatalError, OSError):  # its next life continues
                await asyncio.sleep(0.2)  # time: the pause of a supervisor

    async def _live(self, number: int, rng: random.Random) -> None:
        reading = self._settings | {
            "group.id": "g",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 500,
            "max.poll.records": 50,
        }
        writing = self._settings | {
            "transactional.id": f"worker-{number}",
            "request.timeout.ms": 5_000,
            "delivery.timeout.ms": 20_000,
        }
        async with Consumer(reading) as consumer, Producer(writing) as producer:
            consumer.subscribe(["in"])
            await producer.init_transactions()
            loop = ExactlyOnce(consumer, producer, _copy)
            ends = asyncio.get_running_loop().time() + rng.uniform(2, 8)
            while not self._stop.is_set() and asyncio.get_running_loop().time() < ends:
                await loop.step(500)
            if rng.random() < 0.5:
                producer.begin_transaction()  # and leave it open: closing aborts it
                await producer.send("out", b"never seen")

    async def _copied(self) -> Counter[str]:
        found: Counter[str] = Counter()
        async with Consumer(self._settings | {"isolation.level": "read_committed"}) as consumer:
            consumer.assign(_parts("out"))
            consumer.seek_to_beginning()
            ends = await consumer.end_offsets(_parts("out"))
            async with asyncio.timeout(_PATIENCE_S):
                while any(
                    [
                        await consumer.position(topic_partition) < end
                        for topic_partition, end in ends.items()
                    ]
                ):
                    for batch in await consumer.poll(1000):
                        found.update(record.value.decode() for record in batch.records())
        return found


def _copy(batch: Any) -> Any:
    for record in batch.records():
        yield ProducerRecord("out", record.value, record.key)


def _kill_one_after_another(cluster: LocalCluster) -> None:
    rng = random.Random(1)
    for _ in range(_KILLS):
        time.sleep(rng.uniform(1, 4))  # time: when it dies is chance
        victim = rng.choice(cluster.running)
        cluster.kill(victim)
        time.sleep(rng.uniform(0.2, 2))  # time: for how long it is dead is chance
        cluster.start(victim)


def test_every_record_is_copied_once_although_brokers_are_killed(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, settings=_SETTINGS) as cluster:
        killer = threading.Thread(target=_kill_one_after_another, args=(cluster,))
        killer.start()
        pipeline = _Pipeline(cluster.bootstrap_servers, lambda: not killer.is_alive())
        try:
            copied = asyncio.run(pipeline.run())
        finally:
            killer.join()
    assert set(copied) == {str(number) for number in range(pipeline.written)}
    assert set(copied.values()) == {1}
