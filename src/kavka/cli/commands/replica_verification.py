"""`kavka replica-verification`: check that replicas hold the same records, as `kafka-replica-verification.sh` does."""

from __future__ import annotations

import asyncio
import re
import sys
import time
from collections.abc import Mapping
from typing import NamedTuple, NoReturn

from kavka.cli.admin.connection import FAILURES, with_admin
from kavka.cli.admin.replica_comparison import NOTHING, Lag, ReplicasDiffer, compare_round
from kavka.cli.arguments.options import JSON, BadUsage, Given, Option, OptionSet
from kavka.cli.commands.topics import topic_pattern
from kavka.cli.json_lines import tool_shapes
from kavka.cli.json_lines.lines import Row, print_failure, print_rows, print_warning
from kavka.cli.text.java_errors import log_line, spelt_together
from kavka.cli.text.progress import progress
from kavka.cli.text.times import current_time_ms
from kavka.client.admin.admin import Admin
from kavka.client.admin.records import OffsetSpec
from kavka.client.admin.replica_records import ReplicaRecords
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import BrokerId, TopicPartition
from kavka.wire.records.corrupt import CorruptBatch

_RETRY_S = 0.2
_NO_TOPICS = "No topics found. --topics-include if specified, is either filtering out all topics or there is no topic."

OPTIONS = OptionSet(
    "Validate that all replicas for a set of topics have the same data.",
    Option("broker-list", "REQUIRED unless --bootstrap-server: brokers to connect to.", "servers"),
    Option("fetch-size", "The most bytes of a partition that one request fetches (1048576).", "bytes"),
    Option("max-wait-ms", "How long a request may wait for records (1000).", "ms"),
    Option("topics-include", "The topics: a regular expression; by default all.", "Java regex (String)"),
    Option("topic-white-list", "DEPRECATED: use --topics-include.", "Java regex (String)"),
    Option("time", "Where to begin: -1 (latest, the default), -2 (earliest), or milliseconds since 1970.", "timestamp"),
    Option("report-interval-ms", "How often to report (30000).", "ms"),
    JSON,
)  # fmt: skip


class _Choice(NamedTuple):
    pattern: re.Pattern[str]
    time: int
    fetch_bytes: int
    max_wait_ms: int
    report_interval_ms: int
    is_json: bool


Layout = Mapping[BrokerId, list[TopicPartition]]
"""Of which partitions each broker has a replica."""


def main(argv: list[str]) -> int:
    """Run the command until it is interrupted; 1 when replicas differ or no topic is meant."""
    return OPTIONS.run(argv, _act)


def _act(given: Given) -> int:
    is_old = given.has("broker-list")
    if not is_old and not given.has("bootstrap-server"):
        raise BadUsage('Missing required argument "[broker-list]"')
    choice = _choice(given)

    async def act(admin: Admin) -> int:
        return await _verify(admin, choice)

    def failed(error: Exception) -> int:
        print(spelt_together(error), file=sys.stderr)
        return 1

    server_option = "broker-list" if is_old else "bootstrap-server"
    return with_admin(given, act, failed, server_option=server_option)


def _choice(given: Given) -> _Choice:
    def number(option: str, default: int, bits: int = 32) -> int:
        chosen = given.integer(option, bits)
        return default if chosen is None else chosen

    given.forbid("topic-white-list", ("topics-include",))
    included = given.one("topics-include") or given.one("topic-white-list") or ".*"
    return _Choice(
        topic_pattern(included),
        number("time", OffsetSpec.LATEST, 64),
        number("fetch-size", 1 << 20),
        number("max-wait-ms", 1000),
        number("report-interval-ms", 30_000, 64),
        given.has("json"),
    )


async def _verify(admin: Admin, choice: _Choice) -> int:
    layout = await _layout(admin, choice.pattern)
    if not layout:
        if choice.is_json:
            return print_failure("BAD_VALUE", _NO_TOPICS)
        log_line("ERROR", _NO_TOPICS, "kavka.cli.commands.replica_verification")
        return 1
    offsets = await _first_offsets(admin, layout, choice.time)
    if not choice.is_json:
        print(f"{_now()}: verification process is started", flush=True)
    try:
        await _compare_until_stopped(admin, layout, offsets, choice)
    except (ReplicasDiffer, CorruptBatch) as error:
        if choice.is_json:
            return print_failure(ErrorCode.CORRUPT_MESSAGE.name, str(error))
        print(f"{_now()}: {error}", flush=True)
        return 1


async def _layout(admin: Admin, pattern: re.Pattern[str]) -> Layout:
    layout: dict[BrokerId, list[TopicPartition]] = {}
    for name, topic in (await admin.describe_topics()).items():
        if isinstance(topic, KafkaError) or not pattern.fullmatch(name):
            continue
        for part in topic.partitions:
            for broker in part.replicas:
                layout.setdefault(broker, []).append(TopicPartition(name, part.partition))
    return layout


async def _first_offsets(admin: Admin, layout: Layout, spec: int) -> dict[TopicPartition, int]:
    partitions = sorted({topic_partition for parts in layout.values() for topic_partition in parts})
    offsets = {}
    for topic_partition, found in (
        await admin.list_offsets(dict.fromkeys(partitions, spec))
    ).items():
        if isinstance(found, KafkaError):
            raise found
        offsets[topic_partition] = found.offset
    young = [
        topic_partition for topic_partition, offset in offsets.items() if offset < 0
    ]  # no record is that young
    if young:
        ends = await admin.list_offsets(dict.fromkeys(young, OffsetSpec.LATEST))
        offsets.update(
            {
                topic_partition: o.offset
                for topic_partition, o in ends.items()
                if not isinstance(o, KafkaError)
            }
        )
    return offsets


async def _compare_until_stopped(
    admin: Admin, layout: Layout, offsets: dict[TopicPartition, int], choice: _Choice
) -> NoReturn:
    reported = time.monotonic()
    begun, ends = dict(offsets), await _present_ends(admin, offsets)
    total = sum(ends[each] - begun[each] for each in ends)
    with progress("comparing", total, "records", prints_meanwhile=True) as shown:
        while True:
            lag = await _compare_once(admin, layout, offsets, choice)
            done = sum(min(offsets[each], ends[each]) - begun[each] for each in ends)
            shown.update(done)
            if done >= total:
                shown.close()  # from here on the report says how far it is
            if (time.monotonic() - reported) * 1000 > choice.report_interval_ms:
                if choice.is_json:
                    print_rows(tool_shapes.REPLICA_LAG, [_object(lag, len(offsets))])
                else:
                    print(report_line(_now(), lag, len(offsets)), flush=True)
                reported = time.monotonic()


async def _present_ends(
    admin: Admin, offsets: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Return the ends of the partitions' logs, without those that have none now."""
    found = await admin.list_offsets(dict.fromkeys(offsets, OffsetSpec.LATEST))
    return {
        topic_partition: max(end.offset, offsets[topic_partition])
        for topic_partition, end in found.items()
        if not isinstance(end, KafkaError)
    }


async def _compare_once(
    admin: Admin, layout: Layout, offsets: dict[TopicPartition, int], choice: _Choice
) -> Lag:
    results = await asyncio.gather(
        *(_fetch(admin, broker, parts, offsets, choice) for broker, parts in layout.items())
    )
    fetched: dict[TopicPartition, dict[int, ReplicaRecords]] = {
        topic_partition: {} for topic_partition in offsets
    }
    for broker, found in zip(layout, results, strict=True):
        for topic_partition, replica in found.items():
            fetched[topic_partition][broker] = replica
    return compare_round(fetched, offsets)


async def _fetch(
    admin: Admin,
    broker: BrokerId,
    parts: list[TopicPartition],
    offsets: Mapping[TopicPartition, int],
    choice: _Choice,
) -> dict[TopicPartition, ReplicaRecords]:
    """Return what a broker has; nothing of a replica that it could not give, which lags then."""
    try:
        found = await admin.fetch_replicas(
            broker,
            {topic_partition: offsets[topic_partition] for topic_partition in parts},
            max_bytes=choice.fetch_bytes,
            max_wait_ms=choice.max_wait_ms,
        )
    except FAILURES as error:
        if choice.is_json:
            print_warning(f"broker {broker}: {error}")
        else:
            log_line("WARN", f"broker {broker}: {error}", "kavka.cli.commands.replica_verification")
        found = {}
        await asyncio.sleep(_RETRY_S)
    usable = {
        topic_partition: r for topic_partition, r in found.items() if not isinstance(r, KafkaError)
    }
    return {topic_partition: usable.get(topic_partition, NOTHING) for topic_partition in parts}


def _object(lag: Lag, partitions: int) -> Row:
    at = lag.topic_partition
    return {
        "time_ms": current_time_ms(),
        "max_lag": lag.records,
        "topic": None if at is None else at.topic,
        "partition": None if at is None else at.partition,
        "offset": lag.offset,
        "partition_count": partitions,
    }


def report_line(now: str, lag: Lag, partitions: int) -> str:
    """Return the line about the partition that is furthest behind."""
    partition = "null" if lag.topic_partition is None else str(lag.topic_partition)
    return (
        f"{now}: max lag is {lag.records} for partition {partition} at offset {lag.offset} "
        f"among {partitions} partitions"
    )


def _now() -> str:
    now = time.time()
    return f"{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(now))},{int(now * 1000) % 1000:03d}"
