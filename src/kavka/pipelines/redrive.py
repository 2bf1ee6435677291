"""`kavka pipelines redrive`: dead letters go back, with their own key, value and headers.

Each poll of the dead-letter topic is one transaction: the records that go back, and how far the group has read. So a
kill at any point doubles and loses nothing; the next run aborts what was left open and begins where the last
transaction ended. The group has no members: the transactional id, which is made of its name, lets one run at a time.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from kavka.client.admin import Admin
from kavka.client.config import ADMIN, CONSUMER, PRODUCER
from kavka.client.consumer import Consumer
from kavka.client.consumer.batches import ConsumerRecord, FetchedBatches
from kavka.client.dead_letters import DeadLetter, dead_letter_of, original_headers
from kavka.client.exactly_once import ExactlyOnce
from kavka.client.producer import Producer
from kavka.client.producer.records import ProducerRecord
from kavka.client.setting_names import settings_for
from kavka.core.transactional_producer.errors import FatalError
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import TopicPartition
from kavka.pipelines.project import PipelineError

_POLL_MS = 500
_MAX_ABORTS = 5
"""Of one transaction; then the run ends with the reason. What was committed before stays sent."""
_BACKOFF_S = 0.2
_FENCED = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)


@dataclass(frozen=True, slots=True)
class Selection:
    """The dead letters that go back, and their topic."""

    topic: str
    """The dead-letter topic."""
    group: str
    to_topic: str | None = None
    """In place of the topic that a dead letter came from."""
    reason: re.Pattern[str] | None = None
    """Is found in the reason: stage, class and message of the error."""
    from_topic: str | None = None
    start_ms: int | None = None
    end_ms: int | None = None
    """Bounds of the dead letter's own time; the end does not belong to it."""

    def target(self, record: ConsumerRecord, letter: DeadLetter) -> str | None:
        """Return the topic that a dead letter goes to; None when it is not selected."""
        if self.start_ms is not None and record.timestamp < self.start_ms:
            return None
        if self.end_ms is not None and record.timestamp >= self.end_ms:
            return None
        if self.from_topic not in (None, letter.topic):
            return None
        if self.reason is not None and not self.reason.search(letter.reason):
            return None
        return self.to_topic or letter.topic


@dataclass(slots=True)
class Outcome:
    """Counts of a run."""

    sent: Counter[str] = field(default_factory=Counter)
    """Records by topic."""
    left: int = 0
    """Dead letters that are not selected."""
    unknown: int = 0
    """Of these: selected, but without the header that says where they came from."""

    def lines(self, selection: Selection, *, dry_run: bool) -> list[str]:
        """Return it in sentences."""
        verb = "would be sent" if dry_run else "sent"
        lines = [f"{count} records {verb} to {topic}" for topic, count in sorted(self.sent.items())]
        if not lines:
            lines = [f"no dead letter of {selection.topic} {verb}"]
        if self.left:
            lines.append(f"{self.left} left in {selection.topic}, not selected")
            if self.unknown:
                lines[-1] += f" ({self.unknown} have no header with their topic: give --to-topic)"
            if not dry_run:
                lines[-1] += f"; another --group than {selection.group} reads them again"
        return lines


@dataclass(frozen=True, slots=True)
class Redriven:
    """A dead letter that goes back."""

    at: TopicPartition
    """Its own place."""
    offset: int
    timestamp_ms: int
    letter: DeadLetter
    """Its origin and the reason, by its headers."""
    target: str
    """The topic that it goes to."""

    def __str__(self) -> str:
        """Return it as a line."""
        time = datetime.fromtimestamp(self.timestamp_ms / 1000, UTC)
        stamp = time.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        letter = self.letter
        origin = (
            f" (of {letter.topic}-{letter.partition} offset {letter.offset})"
            if letter.topic
            else ""
        )
        reason = letter.reason or "no reason"
        return f"{self.at} offset {self.offset} {stamp} -> {self.target}{origin}: {reason}"


OnLetter = Callable[[Redriven], None]


def original_record(
    record: ConsumerRecord, letter: DeadLetter, selection: Selection
) -> ProducerRecord:
    """Return the record that a dead letter was, for the topic that it goes to.

    It has the timestamp of the first one; back in its own topic also the partition.
    """
    target = selection.target(record, letter)
    assert target is not None, "it is selected"
    is_back = target == letter.topic
    stamp = record.timestamp if letter.timestamp_ms is None else letter.timestamp_ms
    return ProducerRecord(
        target,
        record.value,
        record.key,
        letter.partition if is_back else None,
        stamp if stamp >= 0 else None,
        original_headers(record.headers),
    )


def redrive(
    settings: Mapping[str, Any], selection: Selection, *, dry_run: bool, on_letter: OnLetter
) -> Outcome:
    """Send dead letters back, up to the end that their topic has now; a dry run calls `on_letter` with each instead.

    Raise PipelineError, KafkaError, OSError.
    """
    return asyncio.run(_redrive(settings, selection, dry_run, on_letter))


async def _redrive(
    settings: Mapping[str, Any], selection: Selection, dry_run: bool, on_letter: OnLetter
) -> Outcome:
    async with Admin(settings_for(ADMIN, settings)) as admin:
        run = _Run(selection, admin, on_letter if dry_run else None)
        partitions = await run.partitions_of(selection.topic)
        topic_partitions = [TopicPartition(selection.topic, number) for number in range(partitions)]
        if dry_run:
            async with _consumer(settings, selection) as consumer:
                await _read(consumer, topic_partitions, run.count_batch)
            return run.outcome
        await _require_no_members(admin, selection.group)
        producer = Producer(
            {
                "acks": "all",
                **settings_for(PRODUCER, settings),
                "transactional.id": f"kavka-redrive-{selection.group}",
            }
        )
        try:
            async with producer:
                await producer.init_transactions()  # aborts what a killed run left open
                async with _consumer(settings, selection) as consumer:
                    await _send_back(consumer, producer, topic_partitions, run)
        except FatalError as error:
            if error.code in _FENCED:
                raise PipelineError(
                    f"another redrive of the group {selection.group} was started after this one and goes on"
                ) from error
            raise PipelineError(str(error)) from error
        return run.outcome


async def _require_no_members(admin: Admin, group: str) -> None:
    """Raise PipelineError for a group with members: brokers take offsets of transactions from outside of it."""
    [description] = (await admin.describe_groups([group])).values()
    if isinstance(description, Exception):
        raise description
    if description.members:
        raise PipelineError(
            f"the group {group} has members, which read for another purpose: give another --group"
        )


def _consumer(settings: Mapping[str, Any], selection: Selection) -> Consumer:
    return Consumer(
        {
            **settings_for(CONSUMER, settings),
            "group.id": selection.group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )


async def _send_back(
    consumer: Consumer, producer: Producer, topic_partitions: list[TopicPartition], run: _Run
) -> None:
    loop = ExactlyOnce(consumer, producer, run.records_of)
    consumer.assign(topic_partitions)
    ends = await consumer.end_offsets(topic_partitions)
    aborts = 0
    while any([await consumer.position(place) < ends[place] for place in topic_partitions]):
        run.begin()
        if await loop.step(_POLL_MS):
            run.committed()
        aborts = 0 if loop.abort_reason is None else aborts + 1
        if aborts == _MAX_ABORTS:
            raise PipelineError(f"the transaction was aborted {aborts} times: {loop.abort_reason}")
        await asyncio.sleep(aborts * _BACKOFF_S)


async def _read(
    consumer: Consumer,
    topic_partitions: list[TopicPartition],
    on_batch: Callable[[FetchedBatches], Any],
) -> None:
    consumer.assign(topic_partitions)
    ends = await consumer.end_offsets(topic_partitions)
    while any([await consumer.position(place) < ends[place] for place in topic_partitions]):
        for batch in await consumer.poll(_POLL_MS):
            await on_batch(batch)


class _Run:
    """The topics and the counts of one run."""

    def __init__(self, selection: Selection, admin: Admin, on_letter: OnLetter | None) -> None:
        self.selection = selection
        self.outcome = Outcome()
        self._pending = Outcome()
        self._admin = admin
        self._on_letter = on_letter
        self._partitions: dict[str, int] = {}

    def begin(self) -> None:
        """Reset the counts of the transaction: an aborted one is repeated."""
        self._pending = Outcome()

    def committed(self) -> None:
        """Add the counts of the committed transaction."""
        self.outcome.sent += self._pending.sent
        self.outcome.left += self._pending.left
        self.outcome.unknown += self._pending.unknown

    async def records_of(self, batch: FetchedBatches) -> list[ProducerRecord]:
        """Return the records that go back. Raise PipelineError for a topic that does not exist."""
        records = []
        for record in batch.records():
            letter = dead_letter_of(record.headers)
            target = self.selection.target(record, letter)
            if target is None:
                self._count_unselected(record, letter)
                continue
            original = original_record(record, letter, self.selection)
            count = await self.partitions_of(target)
            if original.partition is not None and not 0 <= original.partition < count:
                original = original._replace(partition=None)
            self._pending.sent[target] += 1
            records.append(original)
            if self._on_letter is not None:
                at, time_ms = batch.topic_partition, record.timestamp
                self._on_letter(Redriven(at, record.offset, time_ms, letter, target))
        return records

    async def count_batch(self, batch: FetchedBatches) -> None:
        """Count and print the records that would be sent."""
        self.begin()
        await self.records_of(batch)
        self.committed()

    def _count_unselected(self, record: ConsumerRecord, letter: DeadLetter) -> None:
        self._pending.left += 1
        is_unknown = letter.topic is None and self.selection.from_topic is None
        self._pending.unknown += is_unknown and self.selection.to_topic is None

    async def partitions_of(self, topic: str) -> int:
        """Return how many partitions a topic has. Raise PipelineError, KafkaError."""
        count = self._partitions.get(topic)
        if count is None:
            [description] = (await self._admin.describe_topics([topic])).values()
            if isinstance(description, KafkaError):
                if description.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    what_to_do = (
                        "name the topic of dead letters"
                        if topic == self.selection.topic
                        else "create it, or name another with --to-topic"
                    )
                    raise PipelineError(f"the topic {topic} does not exist: {what_to_do}")
                raise description
            count = self._partitions[topic] = len(description.partitions)
        return count
