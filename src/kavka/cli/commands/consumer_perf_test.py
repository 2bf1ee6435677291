"""`kavka consumer-perf-test`: measure consuming, with the options and columns of kafka-consumer-perf-test.sh."""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Sequence
from datetime import datetime

from kavka.cli.arguments.client_properties import SERVERS, key_values, read_properties, servers
from kavka.cli.arguments.options import JSON, BadValue, Given, Option, OptionSet, missing
from kavka.cli.json_lines import tool_shapes
from kavka.cli.json_lines.lines import Row, print_error, print_rows, print_warning
from kavka.cli.text.java_dates import BadPattern, format_date
from kavka.cli.text.perf_statistics import (
    consumer_columns,
    consumer_object,
    metric_lines,
    rates,
)
from kavka.cli.text.progress import Progress, progress
from kavka.cli.text.times import current_time_ms
from kavka.client.config import CONSUMER
from kavka.client.consumer import Consumer
from kavka.client.consumer.batches import FetchedBatches
from kavka.client.consumer.group.rebalance_listener import RebalanceListener
from kavka.client.setting_names import effective_settings
from kavka.errors import KafkaError
from kavka.ids import TopicPartition
from kavka.settings.declaration import InvalidSetting
from kavka.values import frozen
from kavka.wire.records.columns import BytesColumn

_POLL_MS = 100
_AT_ONCE = 100_000
_COLUMNS = (
    "data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, "
    "rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
)

OPTIONS = OptionSet(
    "This tool is used to verify the consumer performance.",
    SERVERS,
    Option("broker-list", "DEPRECATED, use --bootstrap-server instead.", "servers"),
    Option("topic", "REQUIRED: The topic to consume from.", "topic"),
    Option("messages", "REQUIRED: The number of messages to consume.", "count"),
    Option("num-records", "The same as --messages.", "count"),
    Option("group", "The group id to consume on (default: a new one).", "gid"),
    Option("fetch-size", "The amount of data to fetch of a partition (default: 1048576).", "size"),
    Option("from-latest", "Start at the latest record where the group has no offset."),
    Option("timeout", "How long nothing may come, in ms (default: 10000).", "ms"),
    Option("show-detailed-stats", "Report each interval instead of a summary."),
    Option("reporting-interval", "Milliseconds between reports (default: 5000).", "ms"),
    Option("hide-header", "Leave out the names of the columns."),
    Option(
        "date-format", "SimpleDateFormat of times (default: yyyy-MM-dd HH:mm:ss:SSS).", "format"
    ),
    Option("print-metrics", "Print metrics at the end."),
    Option("socket-buffer-size", "Known for compatibility; it has no effect.", "size"),
    Option("threads", "DEPRECATED AND IGNORED.", "count"),
    Option("num-fetch-threads", "DEPRECATED AND IGNORED.", "count"),
    Option("consumer.config", "A file with settings of the consumer.", "file"),
    Option("command-config", "The same as --consumer.config.", "file"),
    Option("command-property", "A setting of the consumer.", "key=value"),
    JSON,
    asks_a_broker=False,
)


@frozen
class _Plan:
    """The parsed options of one call."""

    settings: dict[str, str]
    topic: str
    messages: int
    timeout_ms: int
    interval_ms: int
    is_detailed: bool
    hides_header: bool
    prints_metrics: bool
    date_format: str
    is_json: bool


def main(arguments: list[str]) -> int:
    """Consume and report; 1 when the options are wrong or no broker answers."""
    return OPTIONS.run(arguments, _act)


def _act(given: Given) -> int:
    plan = _plan(given)
    if not (plan.hides_header or plan.is_json):
        first = "time, threadId" if plan.is_detailed else "start.time, end.time"
        print(f"{first}, {_COLUMNS}", flush=True)
    try:
        asyncio.run(_run(plan))
    except (InvalidSetting, ConnectionError, KafkaError) as error:
        if plan.is_json:
            return print_error(error)
        print(error, file=sys.stderr)
        return 1
    return 0


def _plan(given: Given) -> _Plan:
    is_old = given.has("broker-list") and not given.has("bootstrap-server")
    brokers = servers(Given({"bootstrap-server": given.all("broker-list")}) if is_old else given)
    given.require("topic")
    given.forbid("messages", ("num-records",))
    given.forbid("consumer.config", ("command-config",))
    messages = given.integer("num-records" if given.has("num-records") else "messages", 64)
    if messages is None:
        given.require("messages")
    assert messages is not None, missing("messages")
    file = read_properties(given.one("command-config") or given.one("consumer.config"))
    settings = effective_settings(CONSUMER, file | key_values(given.all("command-property")))
    for name in ("key.deserializer", "value.deserializer"):
        settings.pop(name, None)
    fetch_size, interval_ms = given.integer("fetch-size"), given.integer("reporting-interval", 64)
    if interval_ms is not None and interval_ms <= 0:
        raise BadValue("Reporting interval must be greater than 0.")
    settings |= {
        "bootstrap.servers": brokers,
        "group.id": given.one("group") or f"perf-consumer-{random.randrange(100_000)}",
        "max.partition.fetch.bytes": str(1_048_576 if fetch_size is None else fetch_size),
        "auto.offset.reset": "latest" if given.has("from-latest") else "earliest",
        "check.crcs": "false",
    }
    settings.setdefault("client.id", "perf-consumer-client")
    timeout_ms = given.integer("timeout", 64)
    pattern = given.one("date-format") or "yyyy-MM-dd HH:mm:ss:SSS"
    try:
        format_date(pattern, datetime.now())
    except BadPattern as error:
        raise BadValue(str(error)) from error
    return _Plan(
        settings=settings,
        topic=given.text("topic"),
        messages=messages,
        timeout_ms=10_000 if timeout_ms is None else timeout_ms,
        interval_ms=5000 if interval_ms is None else interval_ms,
        is_detailed=given.has("show-detailed-stats"),
        hides_header=given.has("hide-header"),
        prints_metrics=given.has("print-metrics"),
        date_format=pattern,
        is_json=given.has("json"),
    )


async def _run(plan: _Plan) -> None:
    consumer = Consumer(plan.settings)
    await consumer.start()
    performance = _Performance(plan)
    try:
        await performance.consume(consumer)
        end_ms = current_time_ms()
    finally:
        await consumer.close()
    if plan.is_json:
        print_rows(tool_shapes.CONSUMED, [performance.total_object(end_ms)])
        return
    if not plan.is_detailed:
        print(performance.summary(end_ms))
    if plan.prints_metrics:
        values = performance.values(end_ms)
        name = "consumer-fetch-manager-metrics:{}:{{client-id=perf-consumer-client}}"
        print("\n".join(metric_lines({name.format(key): v for key, v in values.items()})))


class _Performance(RebalanceListener):
    """A run, with its counts in all and since the last report."""

    def __init__(self, plan: _Plan) -> None:
        self._plan = plan
        self._start_ms = self._reported_ms = self._join_started_ms = current_time_ms()
        self._records = self._bytes = 0
        self._reported_records = self._reported_bytes = 0
        self._join_ms = self._reported_join_ms = 0

    def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """Count the time that it took to get partitions."""
        self._join_ms += current_time_ms() - self._join_started_ms

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """Begin to wait for partitions again."""
        self._join_started_ms = current_time_ms()

    async def consume(self, consumer: Consumer) -> None:
        """Read until there are enough or nothing has come for `--timeout`."""
        plan = self._plan
        consumer.subscribe([plan.topic], listener=self)
        prints = plan.is_detailed
        with progress("consuming", plan.messages, "records", prints_meanwhile=prints) as shown:
            await self._read_all(consumer, shown)
        if self._records < plan.messages:
            self._warn_of_timeout()

    async def _read_all(self, consumer: Consumer, shown: Progress) -> None:
        plan = self._plan
        now_ms = consumed_ms = current_time_ms()
        while self._records < plan.messages and now_ms - consumed_ms <= plan.timeout_ms:
            fetched = await consumer.poll(_POLL_MS, max_records=_AT_ONCE)
            now_ms = current_time_ms()
            for batches in fetched:
                consumed_ms = now_ms
                self._count(batches)
                if now_ms - self._reported_ms >= plan.interval_ms:
                    self._report(now_ms)
            shown.update(self._records)

    def _warn_of_timeout(self) -> None:
        text = (
            "Exiting before consuming the expected number of messages: timeout "
            f"({self._plan.timeout_ms} ms) exceeded. You can use the --timeout option to increase the timeout."
        )
        if self._plan.is_json:
            print_warning(text)
        else:
            print(f"WARNING: {text}")

    def _count(self, batches: FetchedBatches) -> None:
        columns = batches.columns()
        self._records += columns.count
        self._bytes += _size(columns.key, columns.count) + _size(columns.value, columns.count)

    def _report(self, now_ms: int) -> None:
        window = (
            self._bytes,
            self._records,
            self._bytes - self._reported_bytes,
            self._records - self._reported_records,
            now_ms - self._reported_ms,
            self._join_ms - self._reported_join_ms,
        )
        if self._plan.is_detailed and self._plan.is_json:
            times = {"kind": "window", "start_ms": self._reported_ms, "end_ms": now_ms}
            print_rows(tool_shapes.CONSUMED, [{**times, **consumer_object(*window)}])
        elif self._plan.is_detailed:
            columns = consumer_columns(*window)
            print(f"{self._shown(now_ms)}, 0, {columns}", flush=True)
        self._reported_ms = now_ms
        self._reported_records, self._reported_bytes = self._records, self._bytes
        self._reported_join_ms = self._join_ms

    def _totals(self, end_ms: int) -> tuple[int, int, int, int, int, int]:
        size, records = self._bytes, self._records
        return size, records, size, records, end_ms - self._start_ms, self._join_ms

    def total_object(self, end_ms: int) -> Row:
        """Return the whole run for `--json`."""
        times = {"kind": "total", "start_ms": self._start_ms, "end_ms": end_ms}
        return {**times, **consumer_object(*self._totals(end_ms))}

    def summary(self, end_ms: int) -> str:
        """Return the line of the whole run."""
        columns = consumer_columns(*self._totals(end_ms))
        return f"{self._shown(self._start_ms)}, {self._shown(end_ms)}, {columns}"

    def values(self, end_ms: int) -> dict[str, float]:
        """Return what was counted under the names of Kafka's consumer metrics."""
        size_s, records_s = rates(self._bytes, self._records, end_ms - self._start_ms)
        return {
            "records-consumed-total": float(self._records),
            "records-consumed-rate": records_s,
            "bytes-consumed-total": float(self._bytes),
            "bytes-consumed-rate": size_s * 1024 * 1024,
        }

    def _shown(self, time_ms: int) -> str:
        return format_date(self._plan.date_format, datetime.fromtimestamp(time_ms / 1000))


def _size(column: BytesColumn, count: int) -> int:
    ends = memoryview(column.offsets).cast("B").cast("i")
    return ends[count] - ends[0]
