"""`kavka verifiable-consumer`: read a topic in a group and print each event of it, as kafka-verifiable-consumer.sh."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from typing import Any

from kavka.cli.arguments.client_properties import read_properties
from kavka.cli.arguments.tool_parser import ToolParser, add_brokers
from kavka.cli.console.json_events import TERMINATED, print_event, run_tool, stop_event
from kavka.cli.text.java_errors import spelt
from kavka.client.config import CONSUMER
from kavka.client.consumer import Consumer
from kavka.client.consumer.batches import FetchedBatches
from kavka.client.consumer.group.rebalance_listener import RebalanceListener
from kavka.client.setting_names import effective_settings
from kavka.errors import KafkaError
from kavka.ids import TopicPartition

_POLL_MS = 100
_AT_ONCE = 500


def main(arguments: list[str]) -> int:
    """Read until `--max-messages` or SIGTERM (143); 1 when the options are wrong or no broker answers."""
    return run_tool(_parser(), arguments, _run)


def _parser() -> ToolParser:
    parser = ToolParser(
        prog="kavka verifiable-consumer",
        description="Reads a topic and prints what happens (partitions given and taken, messages, committed offsets) "
        "as JSON lines.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add_brokers(parser)
    add("--topic", required=True, help="read this topic")
    add("--group-id", required=True, help="the group to read in")
    add("--group-instance-id", help="the name of a static member")
    add("--group-protocol", type=str.lower, choices=("classic",), default="classic", help="classic")
    add("--group-remote-assignor", help="known for compatibility; classic groups have none")
    add("--max-messages", type=int, default=-1, help="read so many (default: -1, without end)")
    add("--session-timeout", type=int, default=30_000, help="in milliseconds (default: 30000)")
    add("--verbose", action="store_true", help="print each message")
    add("--enable-autocommit", action="store_true", help="let the consumer commit by itself")
    add(
        "--reset-policy",
        choices=("earliest", "latest", "none"),
        default="earliest",
        help="where to begin without an offset (default: earliest)",
    )
    add("--assignment-strategy", help="the assignor, by its name or Java's class (default: range)")
    add("--consumer.config", "--command-config", dest="config", help="a file with settings")
    return parser


def _settings(given: argparse.Namespace) -> dict[str, str]:
    settings = read_properties(given.config)
    settings |= {
        "bootstrap.servers": given.brokers,
        "group.id": given.group_id,
        "enable.auto.commit": str(given.enable_autocommit).lower(),
        "auto.offset.reset": given.reset_policy,
        "session.timeout.ms": str(given.session_timeout),
        "partition.assignment.strategy": given.assignment_strategy or "range",
    }
    if given.group_instance_id is not None:
        settings["group.instance.id"] = given.group_instance_id
    for name in ("key.deserializer", "value.deserializer"):
        settings.pop(name, None)
    return effective_settings(CONSUMER, settings)


async def _run(given: argparse.Namespace) -> int:
    consumer = Consumer(_settings(given))
    await consumer.start()
    print_event("startup_complete")
    with stop_event() as stopped:
        try:
            consumer.subscribe([given.topic], listener=_Listener())
            await _Reading(given, consumer).read(stopped)
        finally:
            await consumer.close()
            print_event("shutdown_complete")
        return TERMINATED if stopped.is_set() else 0


class _Listener(RebalanceListener):
    """Prints the partitions that the group gives and takes."""

    def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """Print new partitions."""
        print_event("partitions_assigned", partitions=_named(partitions))

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """Print partitions that are taken away."""
        print_event("partitions_revoked", partitions=_named(partitions))


class _Reading:
    """A run, with the number of messages read."""

    def __init__(self, given: argparse.Namespace, consumer: Consumer) -> None:
        self._given = given
        self._consumer = consumer
        self._count = 0

    async def read(self, stopped: asyncio.Event) -> None:
        """Read, print and commit until there is enough, or `stopped`."""
        limit = self._given.max_messages
        while not stopped.is_set() and (limit < 0 or self._count < limit):
            most = _AT_ONCE if limit < 0 else min(_AT_ONCE, limit - self._count)
            fetched = await self._consumer.poll(_POLL_MS, max_records=most)
            if fetched:
                await self._process(fetched)

    async def _process(self, fetched: list[FetchedBatches]) -> None:
        offsets: dict[TopicPartition, int] = {}
        partitions: list[dict[str, Any]] = []
        for batches in fetched:
            records = batches.records()
            self._count += len(records)
            if self._given.verbose:
                for record in records:
                    print_event("record_data", **_shown(record))
            first, last = records[0].offset, records[-1].offset
            offsets[TopicPartition(batches.topic, batches.partition)] = last + 1
            partitions.append(
                {"topic": batches.topic, "partition": batches.partition, "count": len(records)}
                | {"minOffset": first, "maxOffset": last}
            )
        count = sum(partition["count"] for partition in partitions)
        print_event("records_consumed", count=count, partitions=partitions)
        if not self._given.enable_autocommit:
            await self._commit(offsets)

    async def _commit(self, offsets: dict[TopicPartition, int]) -> None:
        shown = [
            {"topic": place.topic, "partition": place.partition, "offset": offset}
            for place, offset in offsets.items()
        ]
        try:
            await self._consumer.commit(offsets)
        except (KafkaError, TimeoutError) as error:
            text = spelt(error)[1]
            print_event("offsets_committed", offsets=shown, error=text, success=False)
        else:
            print_event("offsets_committed", offsets=shown, success=True)


def _named(partitions: Sequence[TopicPartition]) -> list[dict[str, Any]]:
    return [{"topic": topic, "partition": number} for topic, number in partitions]


def _shown(record: Any) -> dict[str, Any]:
    place = {"topic": record.topic, "partition": record.partition, "offset": record.offset}
    return {"key": _text(record.key), "value": _text(record.value), **place}


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "replace")
