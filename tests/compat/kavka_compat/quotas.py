"""Clients that go as fast as they may, and the rates that come of it, against any broker."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from kavka.client import Admin
from kavka.client.admin import ClientQuotaEntity

_VALUE = b"x" * 1000
Work = Callable[["Meter"], None]
"""Runs until the meter is stopped, and counts what is transferred."""


def set_quota(
    bootstrap: str, entity: ClientQuotaEntity, quotas: Mapping[str, float | None]
) -> None:
    """Set quotas of one entity."""

    async def alter() -> None:
        async with Admin({"bootstrap.servers": bootstrap}) as admin:
            assert await admin.alter_client_quotas({entity: quotas}) == {entity: None}

    asyncio.run(alter())


def make_topic(bootstrap: str, topic: str, leader: int = 0) -> None:
    """Create a topic of one partition on a broker."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    new = NewTopic(topic, 1, replica_assignment=[[leader]])
    admin.create_topics([new])[topic].result(30)


class Meter:
    """Counts bytes of all clients."""

    def __init__(self) -> None:
        """Begin with none."""
        self.bytes = 0
        self.is_stopped = False

    def rate(self, warm_s: float, measured_s: float) -> float:
        """Return the bytes a second of `measured_s` seconds, after `warm_s` have passed."""
        time.sleep(warm_s)
        began, before = time.monotonic(), self.bytes
        time.sleep(measured_s)
        return (self.bytes - before) / (time.monotonic() - began)


_END_S = 120
"""Seconds in which a client ends: a throttled one is answered late."""


@contextmanager
def running(works: Sequence[Work]) -> Iterator[Meter]:
    """Run clients, each in a thread of its own, and give their meter."""
    meter = Meter()
    threads = [
        threading.Thread(target=work, args=(meter,), name=f"client {number}", daemon=True)
        for number, work in enumerate(works)
    ]
    for thread in threads:
        thread.start()
    try:
        yield meter
    finally:
        meter.is_stopped = True
        deadline = time.monotonic() + _END_S
        for thread in threads:
            thread.join(max(deadline - time.monotonic(), 0))
        hung = [thread.name for thread in threads if thread.is_alive()]
        assert not hung, f"calls of these clients do not return: {hung}"


def producing(bootstrap: str, topic: str, client_id: str, **settings: Any) -> Work:
    """Return a producer of records of 1,000 bytes."""

    def work(meter: Meter) -> None:
        config = {"bootstrap.servers": bootstrap, "client.id": client_id, "linger.ms": 5}
        limits = {"queue.buffering.max.kbytes": 2000, "batch.size": 16_384}
        producer = Producer({**config, **limits, **settings})

        def delivered(error: Any, message: Any) -> None:
            if error is None:
                meter.bytes += len(_VALUE)

        while not meter.is_stopped:
            try:
                producer.produce(topic, _VALUE, on_delivery=delivered)
            except BufferError:
                producer.poll(0.01)
            producer.poll(0)
        producer.purge()
        producer.flush(1)

    return work


def consuming(bootstrap: str, topic: str, client_id: str) -> Work:
    """Return a consumer that reads a topic again and again."""

    def work(meter: Meter) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "client.id": client_id,
                "group.id": f"{topic}-{client_id}",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "fetch.message.max.bytes": 65_536,
                "queued.max.messages.kbytes": 256,
                "queued.min.messages": 100,
            }
        )
        consumer.subscribe([topic])
        while not meter.is_stopped:
            for message in consumer.consume(500, 0.1):
                meter.bytes += len(message.value() or b"")
        consumer.close()

    return work
