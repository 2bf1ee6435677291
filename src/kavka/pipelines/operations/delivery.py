"""Delivery of alerts from their topic to a webhook, at least once, in order, one at a time.

An offset is committed when its alert was delivered, or is in the topic of dead letters. So an endpoint that is down
gets one attempt at a time, with pauses that grow, and all alerts when it is back. An alert that was delivered and not
committed (the process died in between) comes again, with the same Idempotency-Key.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kavka.client import Consumer
from kavka.client.admin import Admin
from kavka.client.consumer.batches import ConsumerRecord
from kavka.client.producer import Producer
from kavka.errors import KafkaError
from kavka.ids import TopicPartition
from kavka.pipelines.operations.webhook import Endpoint, Outcome, Verdict, wait_s
from kavka.pipelines.project import PipelineError

log = logging.getLogger(__name__)

_AT_ONCE = 1
"""Records of a poll: each may take its whole time-out, and the group waits for the next poll."""
_LOOK_MS = 500
_SESSION = {"session.timeout.ms": 10_000}
"""A process that died is replaced after this time, unless the settings say another."""
_CONSUMER = {
    "isolation.level": "read_committed",
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",
    "group.protocol": "classic",
}


@dataclass(frozen=True, slots=True)
class DeliveryOptions:
    """The topic and the settings of a delivery."""

    topic: str
    group: str
    dead_letters: str
    retry_for_s: float = 900.0
    """Seconds for which an alert is tried to which the endpoint answers with an error."""
    first_wait_s: float = 1.0
    """The pause after the first attempt; the next ones are twice as long, up to a minute."""
    is_once: bool = False
    """True to end when all that was there at the start is delivered."""


@dataclass(slots=True)
class Deliveries:
    """Counts since the start."""

    delivered: int = 0
    attempts: int = 0
    dead_letters: int = 0

    def line(self) -> str:
        """Return the counts as a line for people."""
        return (
            f"delivered={self.delivered} attempts={self.attempts} dead_letters={self.dead_letters}"
        )


def idempotency_key(record: ConsumerRecord) -> str:
    """Return what names an alert, the same at each attempt: incident and event, or its place if it has none."""
    try:
        alert = json.loads(record.value)
        incident, event = alert["incident"], alert["event"]
        if isinstance(incident, str) and isinstance(event, str):
            key = f"{incident}:{event}"
            if key.isascii() and key.isprintable() and len(key) <= 200:
                return key
    except (ValueError, TypeError, KeyError):
        pass
    return f"{record.topic}-{record.partition}-{record.offset}"


class AlertDelivery:
    """One member of the group that delivers; more of them share the partitions."""

    def __init__(
        self, settings: Mapping[str, Any], options: DeliveryOptions, endpoint: Endpoint
    ) -> None:
        """Configure the delivery; `settings` are a client's, without those of a group."""
        self._settings = settings
        self._options = options
        self._endpoint = endpoint
        self.counts = Deliveries()
        self._stop = asyncio.Event()
        self._consumer: Consumer
        self._producer: Producer

    async def run(self, stop: asyncio.Event) -> None:
        """Deliver until the event is set, or all is delivered that was to be. Raise PipelineError, KafkaError."""
        self._stop = stop
        await self._require_topics()
        group = {**_SESSION, **self._settings, **_CONSUMER, "group.id": self._options.group}
        async with (
            Producer({**self._settings, "acks": "all"}) as self._producer,
            Consumer(group) as self._consumer,
        ):
            ends = await self._ends() if self._options.is_once else None
            self._consumer.subscribe([self._options.topic])
            while not self._stop.is_set() and not await self._is_done(ends):
                for batch in await self._consumer.poll(_LOOK_MS, _AT_ONCE):
                    for record in batch.records():
                        await self._handle(record)

    async def _require_topics(self) -> None:
        names = [self._options.topic, self._options.dead_letters]
        async with Admin(self._settings) as admin:
            described = await admin.describe_topics(names)
        servers = self._settings["bootstrap.servers"]
        for name in names:
            if isinstance(described[name], Exception):
                raise PipelineError(
                    f"the topic {name} cannot be used: {described[name]}; create it with "
                    f"`kavka topics --bootstrap-server {servers} --create --topic {name}`"
                )

    async def _ends(self) -> dict[TopicPartition, int]:
        async with Admin(self._settings) as admin:
            [described] = (await admin.describe_topics([self._options.topic])).values()
        if isinstance(described, Exception):
            raise described
        parts = [
            TopicPartition(self._options.topic, number)
            for number in range(len(described.partitions))
        ]
        return await self._consumer.end_offsets(parts)

    async def _is_done(self, ends: Mapping[TopicPartition, int] | None) -> bool:
        if ends is None:
            return False
        committed = await self._consumer.committed(ends)
        assignment = self._consumer.assignment()
        for topic_partition, end in ends.items():
            entry = committed[topic_partition]
            position = 0 if entry is None else entry.offset
            if topic_partition in assignment:
                # Behind the last record there may be markers of transactions, which no record stands for.
                position = max(position, await self._consumer.position(topic_partition))
            if position < end:
                return False
        return True

    # One alert

    async def _handle(self, record: ConsumerRecord) -> None:
        """Deliver an alert and commit its offset, unless the end comes or its partition is taken away."""
        topic_partition = TopicPartition(record.topic, record.partition)
        if self._stop.is_set() or topic_partition not in self._consumer.assignment():
            return
        if record.value is not None and not await self._deliver(record, topic_partition):
            return
        try:
            await self._consumer.commit({topic_partition: record.offset + 1})
        except KafkaError as error:
            # Another member of the group has the partition now, and delivers the alert again with the same key.
            if not error.retriable and topic_partition in self._consumer.assignment():
                raise
            log.warning(
                "offset not committed partition=%s offset=%d reason=%s",
                topic_partition,
                record.offset,
                error,
            )

    async def _deliver(self, record: ConsumerRecord, topic_partition: TopicPartition) -> bool:
        """Return whether the alert needs nothing more."""
        key = idempotency_key(record)
        began_s, attempts = time.monotonic(), 0
        while True:
            outcome = await self._endpoint.post(record.value, key, self._stop)
            attempts += 1
            self.counts.attempts += 1
            verdict = outcome.verdict
            if verdict is Verdict.DELIVERED:
                self.counts.delivered += 1
                if attempts > 1:
                    log.warning(
                        "alert delivered endpoint=%s key=%s attempts=%d",
                        self._endpoint.name,
                        key,
                        attempts,
                    )
                return True
            is_expired = time.monotonic() - began_s >= self._options.retry_for_s
            if verdict is Verdict.REFUSED or (verdict is Verdict.FAILED and is_expired):
                await self._give_up(record, outcome, attempts)
                return True
            pause_s = wait_s(self._options.first_wait_s, attempts, outcome, random.random())
            if attempts == 1:
                log.warning(
                    "alert not delivered, is tried again endpoint=%s key=%s reason=%s retry_s=%.1f",
                    self._endpoint.name,
                    key,
                    outcome.text,
                    pause_s,
                )
            if not await self._pause(pause_s, topic_partition):
                return False

    async def _give_up(self, record: ConsumerRecord, outcome: Outcome, attempts: int) -> None:
        """Send an alert to the topic of dead letters unchanged, with the failure in its headers."""
        facts = {
            "reason": outcome.text,
            "attempts": attempts,
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset,
        }
        headers = [
            *record.headers,
            *((f"kavka.webhook.{k}", str(v).encode()) for k, v in facts.items()),
        ]
        await self._producer.send(
            self._options.dead_letters, record.value, record.key, headers=headers
        )
        self.counts.dead_letters += 1
        log.error(
            "alert given up topic=%s partition=%d offset=%d attempts=%d reason=%s dead_letters=%s",
            record.topic,
            record.partition,
            record.offset,
            attempts,
            outcome.text,
            self._options.dead_letters,
        )

    async def _pause(self, pause_s: float, topic_partition: TopicPartition) -> bool:
        """Wait, and stay a member of the group meanwhile; return whether the partition is still ours."""
        deadline = time.monotonic() + pause_s
        while (remaining_s := deadline - time.monotonic()) > 0:
            self._consumer.pause(self._consumer.assignment())
            wait_ms = max(1, min(_LOOK_MS, round(remaining_s * 1000)))
            # What a partition brings that was given to us just now is read again when the pause is over.
            self._consumer.rewind(await self._consumer.poll(wait_ms, 1))
            if self._stop.is_set() or topic_partition not in self._consumer.assignment():
                break
        self._consumer.resume(self._consumer.paused())
        return not self._stop.is_set() and topic_partition in self._consumer.assignment()
