"""Delivery of alerts from their topic to a webhook, at least once, in order, one at a time.

An offset is committed when its alert was delivered, or is in the topic of dead letters. So an endpoint that is down
gets one attempt at a time, with pauses that grow, and all alerts when it is back. An alert that was delivered and not
committed (the process died in between) comes again, with the same Idempotency-Key.

Dead letters have the headers of `kavka.client.dead_letters`, with the stage `webhook`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kavka.client import Consumer
from kavka.client.admin import Admin
from kavka.client.config import ADMIN, CONSUMER, PRODUCER
from kavka.client.consumer.batches import ConsumerRecord
from kavka.client.consumer.group.rebalance_listener import RebalanceListener
from kavka.client.dead_letters import DeadLetter, dead_letter_headers
from kavka.client.producer import Producer
from kavka.client.setting_names import settings_for
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import TopicPartition
from kavka.net.webhook import Endpoint, Outcome, Verdict, wait_s
from kavka.pipelines.project import PipelineError

log = logging.getLogger(__name__)

_AT_ONCE = 1
"""Records of a poll: each may take its whole time-out, and the group waits for the next poll."""
_LOOK_MS = 500
_STAGE = "webhook"
"""Of dead letters."""
_GROUP_MOVED_ON = (
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.REBALANCE_IN_PROGRESS,
)
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
    except (ValueError, TypeError, KeyError, RecursionError):
        pass
    return f"{record.topic}-{record.partition}-{record.offset}"


class Assignments(RebalanceListener):
    """The assignments of partitions to this member, one after the other.

    A partition that was taken away and given back is another assignment: another member may have delivered meanwhile,
    and this one reads from the committed offset on.
    """

    def __init__(self) -> None:
        """Begin without any."""
        self._current: dict[TopicPartition, int] = {}
        self._count = 0

    def on_assigned(self, partitions: Iterable[TopicPartition]) -> None:
        """Give assignments that begin a number."""
        for at in partitions:
            self._count += 1
            self._current[at] = self._count

    def on_revoked(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget assignments that end."""
        for at in partitions:
            self._current.pop(at, None)

    def current(self, at: TopicPartition) -> int | None:
        """Return the number of a partition's assignment, None without one."""
        return self._current.get(at)


@dataclass(frozen=True, slots=True)
class _Alert:
    """A record of the topic of alerts, and the assignment in which it was read."""

    record: ConsumerRecord
    at: TopicPartition
    assignment: int | None


class AlertDelivery:
    """One member of the group that delivers; more of them share the partitions."""

    def __init__(
        self, settings: Mapping[str, Any], options: DeliveryOptions, endpoint: Endpoint
    ) -> None:
        """Take settings of all the clients, without those of a group."""
        self._consumer_settings = {
            **_SESSION,
            **settings_for(CONSUMER, settings),
            **_CONSUMER,
            "group.id": options.group,
        }
        self._producer_settings = {**settings_for(PRODUCER, settings), "acks": "all"}
        self._admin_settings = settings_for(ADMIN, settings)
        self._options = options
        self._endpoint = endpoint
        self.counts = Deliveries()
        self._stop = asyncio.Event()
        self._assignments = Assignments()
        self._consumer: Consumer
        self._producer: Producer

    async def run(self, stop: asyncio.Event) -> None:
        """Deliver until the event is set, or all is delivered that was to be. Raise PipelineError, KafkaError."""
        self._stop = stop
        await self._require_topics()
        async with (
            Producer(self._producer_settings) as self._producer,
            Consumer(self._consumer_settings) as self._consumer,
        ):
            ends = await self._ends() if self._options.is_once else None
            self._consumer.subscribe([self._options.topic], listener=self._assignments)
            while not self._stop.is_set() and not await self._is_done(ends):
                for alert in await self._poll():
                    await self._handle(alert)

    async def _poll(self) -> list[_Alert]:
        found = []
        for batch in await self._consumer.poll(_LOOK_MS, _AT_ONCE):
            at = batch.topic_partition
            assignment = self._assignments.current(at)
            found += [_Alert(record, at, assignment) for record in batch.records()]
        return found

    async def _require_topics(self) -> None:
        names = [self._options.topic, self._options.dead_letters]
        async with Admin(self._admin_settings) as admin:
            described = await admin.describe_topics(names)
        servers = self._admin_settings["bootstrap.servers"]
        for name in names:
            if isinstance(described[name], Exception):
                raise PipelineError(
                    f"the topic {name} cannot be used: {described[name]}; create it with "
                    f"`kavka topics --bootstrap-server {servers} --create --topic {name}`"
                )

    async def _ends(self) -> dict[TopicPartition, int]:
        async with Admin(self._admin_settings) as admin:
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

    async def _handle(self, alert: _Alert) -> None:
        """Deliver an alert and commit its offset, unless the end comes or its partition is taken away."""
        record = alert.record
        if not self._may_go_on(alert):
            return
        if record.value is not None and not await self._deliver(alert):
            return
        try:
            await self._consumer.commit({alert.at: record.offset + 1})
        except (KafkaError, TimeoutError) as error:
            if isinstance(error, KafkaError) and error.code not in _GROUP_MOVED_ON:
                raise
            # The alert comes again, here or at the member that has the partition now, with the same key.
            log.warning(
                "offset not committed partition=%s offset=%d reason=%s",
                alert.at,
                record.offset,
                error,
            )

    def _may_go_on(self, alert: _Alert) -> bool:
        """Return whether the alert is still to be delivered here."""
        is_ours = alert.assignment == self._assignments.current(alert.at) is not None
        return is_ours and not self._stop.is_set()

    async def _deliver(self, alert: _Alert) -> bool:
        """Return whether the alert needs nothing more."""
        key = idempotency_key(alert.record)
        began_s, attempts = time.monotonic(), 0
        while True:
            outcome = await self._endpoint.post(alert.record.value, key, self._stop)
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
            is_over = time.monotonic() - began_s >= self._options.retry_for_s
            if verdict is Verdict.REFUSED or (verdict is Verdict.FAILED and is_over):
                await self._give_up(alert.record, outcome, attempts)
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
            if not await self._pause(pause_s, alert):
                return False

    async def _give_up(self, record: ConsumerRecord, outcome: Outcome, attempts: int) -> None:
        """Put an alert into the topic of dead letters, as it is, with the reason in its headers."""
        reason = outcome.text if attempts == 1 else f"{outcome.text} after {attempts} attempts"
        letter = DeadLetter(
            record.topic, record.partition, record.offset, record.timestamp, _STAGE, message=reason
        )
        await self._producer.send(
            self._options.dead_letters,
            record.value,
            record.key,
            headers=dead_letter_headers(letter, record.headers),
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

    async def _pause(self, pause_s: float, alert: _Alert) -> bool:
        """Wait, and stay a member of the group meanwhile; return whether the alert is still to be delivered here."""
        deadline = time.monotonic() + pause_s
        while self._may_go_on(alert) and (remaining_s := deadline - time.monotonic()) > 0:
            self._consumer.pause(self._consumer.assignment())
            wait_ms = max(1, min(_LOOK_MS, round(remaining_s * 1000)))
            # What a partition brings that was given to us just now is read again when the pause is over.
            self._consumer.rewind(await self._consumer.poll(wait_ms, 1))
        self._consumer.resume(self._consumer.paused())
        return self._may_go_on(alert)
