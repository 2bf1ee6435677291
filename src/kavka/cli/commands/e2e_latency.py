"""`kavka e2e-latency`: the time from producer to consumer, message by message, as kafka-e2e-latency.sh measures it."""

from __future__ import annotations

import asyncio
import sys
import time
from random import Random
from typing import NamedTuple

from kavka.cli.arguments.client_properties import SERVERS, read_properties, servers
from kavka.cli.arguments.options import JSON, BadValue, Given, Option, OptionSet, whole_number
from kavka.cli.json_lines import tool_shapes
from kavka.cli.json_lines.lines import print_error, print_rows, print_warning
from kavka.cli.text.java_errors import spelt_together
from kavka.cli.text.progress import progress
from kavka.client.admin.admin import Admin
from kavka.client.admin.topics import NewTopic
from kavka.client.config import ADMIN, CONSUMER, PRODUCER
from kavka.client.consumer import Consumer
from kavka.client.consumer.batches import ConsumerRecord
from kavka.client.producer import Producer
from kavka.client.setting_names import effective_settings
from kavka.errors import KafkaError
from kavka.settings.declaration import InvalidSetting

_POSITIONAL = (
    "broker_list topic num_messages producer_acks message_size_bytes [optional] properties_file"
)
_USAGE = f"usage: kavka e2e-latency {_POSITIONAL}"
_TIMEOUT_MS = 60_000
_REPORT_EACH = 1000
_LARGEST_MESSAGE = 256 << 20
_CAPITALS = bytes(65 + code % 26 for code in range(256))

OPTIONS = OptionSet(
    "This tool records the average end to end latency for a single message to travel through Kafka. "
    f"The older form is kavka e2e-latency {_POSITIONAL}",
    SERVERS,
    Option("topic", "REQUIRED: The topic to use; it is created where it is missing.", "topic"),
    Option("num-records", "REQUIRED: The number of messages to send.", "count"),
    Option("producer-acks", "REQUIRED: Producer acknowledgements, 1 or all.", "acks"),
    Option("record-size", "REQUIRED: The size of a message's value in bytes.", "bytes"),
    Option("command-config", "A properties file with settings of the clients.", "file"),
    JSON,
    asks_a_broker=False,
)


class _Plan(NamedTuple):
    """The parsed options of one call."""

    brokers: str
    topic: str
    messages: int
    acks: str
    size: int
    settings: dict[str, str]
    is_json: bool = False


class _Failed(Exception):
    """A message was lost, late or another one; the text is for the user."""


def main(arguments: list[str]) -> int:
    """Measure and report; 1 when the options are wrong, no broker answers, or a message does not come back."""
    if arguments and arguments[0].startswith("-"):
        return OPTIONS.run(arguments, lambda given: _measure(_named(given)))
    if len(arguments) not in (5, 6):
        print(_USAGE, file=sys.stderr)
        return 1
    try:
        return _measure(_positional(arguments))
    except BadValue as error:
        print(error, file=sys.stderr)
        return 1


def _named(given: Given) -> _Plan:
    brokers = servers(given)
    given.require("topic", "num-records", "producer-acks", "record-size")
    texts = [given.text(name) for name in ("topic", "num-records", "producer-acks", "record-size")]
    plan = _plan([brokers, *texts], given.one("command-config"))
    return plan._replace(is_json=given.has("json"))


def _positional(arguments: list[str]) -> _Plan:
    return _plan(arguments[:5], arguments[5] if len(arguments) == 6 else None)


def _plan(values: list[str], config: str | None) -> _Plan:
    brokers, topic, messages, acks, size = values
    if acks not in ("1", "all"):
        raise BadValue("Latency testing requires synchronous acknowledgement. Please use 1 or all")
    return _Plan(
        brokers,
        topic,
        _number("the number of messages", messages, 1 << 31),
        acks,
        _number("the size of a message", size, _LARGEST_MESSAGE),
        read_properties(config),
    )


def _number(what: str, text: str, most: int) -> int:
    try:
        number = whole_number(text, 64)
    except ValueError as error:
        raise BadValue(f"{what}: {error}") from error
    if not 0 < number <= most:
        raise BadValue(f"{what} must be from 1 to {most}, not {number}")
    return number


def _measure(plan: _Plan) -> int:
    try:
        asyncio.run(_run(plan))
    except (KafkaError, TimeoutError, _Failed, InvalidSetting, ConnectionError) as error:
        if plan.is_json:
            return print_error(error)
        is_spelt = isinstance(error, (KafkaError, TimeoutError))
        print(spelt_together(error) if is_spelt else error, file=sys.stderr)
        return 1
    return 0


async def _run(plan: _Plan) -> None:
    servers_of = {"bootstrap.servers": plan.brokers}
    async with Admin(effective_settings(ADMIN, plan.settings) | servers_of) as admin:
        await _require_topic(admin, plan)
    producing = {"linger.ms": "0", "acks": plan.acks}
    consuming = {
        "enable.auto.commit": "false",
        "auto.offset.reset": "latest",
        "fetch.max.wait.ms": "0",
    }
    producer_settings = effective_settings(PRODUCER, plan.settings) | servers_of | producing
    consumer_settings = effective_settings(CONSUMER, plan.settings) | servers_of | consuming
    async with Producer(producer_settings) as producer, Consumer(consumer_settings) as consumer:
        await _go_to_end(consumer, plan.topic)
        latencies = []
        with progress("measuring", plan.messages, "records", prints_meanwhile=True) as shown:
            for number in range(plan.messages):
                latencies.append(await _one(producer, consumer, plan, number))
                shown.update(number + 1)
    _report(latencies, as_json=plan.is_json)


async def _require_topic(admin: Admin, plan: _Plan) -> None:
    topic = plan.topic
    if topic in await admin.list_topics():
        return
    text = f'Topic "{topic}" does not exist. Will create topic with 1 partition(s) and replication factor = 1'
    if plan.is_json:
        print_warning(text)
    else:
        print(text, flush=True)
    outcome = (await admin.create_topics([NewTopic(topic, 1, 1)]))[topic]
    if isinstance(outcome, Exception):
        raise outcome


async def _go_to_end(consumer: Consumer, topic: str) -> None:
    """Read all partitions of the topic from their present ends on."""
    partitions = await consumer.partitions_for(topic)
    consumer.assign(partitions)
    for partition, end in (await consumer.end_offsets(partitions)).items():
        consumer.seek(partition, end)


async def _one(producer: Producer, consumer: Consumer, plan: _Plan, number: int) -> float:
    """Send a message and wait until it is read; return the time in milliseconds."""
    value = Random(number).randbytes(plan.size).translate(_CAPITALS)
    began = time.perf_counter_ns()
    await producer.send(plan.topic, value)
    deadline = began + _TIMEOUT_MS * 1_000_000
    records: list[ConsumerRecord] = []
    while not records and time.perf_counter_ns() < deadline:
        fetched = await consumer.poll(1000)
        elapsed = time.perf_counter_ns() - began
        records = [record for batches in fetched for record in batches.records()]
    if not records:
        raise _Failed(f"poll() timed out before finding a result (timeout:[{_TIMEOUT_MS}ms])")
    if len(records) > 1:
        raise _Failed(f"Only one result was expected during this test. We found [{len(records)}]")
    if records[0].value != value:
        raise _Failed(
            "The message read is not the message sent: does another producer write to this topic?"
        )
    latency_ms = elapsed / 1_000_000
    if number % _REPORT_EACH == 0 and not plan.is_json:
        print(f"{number}\t{latency_ms}", flush=True)
    return latency_ms


def _report(latencies_ms: list[float], *, as_json: bool) -> None:
    whole = sorted(int(latency) for latency in latencies_ms)
    at = [whole[int(len(whole) * share)] for share in (0.5, 0.99, 0.999)]
    if as_json:
        keys = ("latency_50_ms", "latency_99_ms", "latency_999_ms")
        row = {
            "records": len(latencies_ms),
            "latency_avg_ms": sum(latencies_ms) / len(latencies_ms),
            **dict(zip(keys, at, strict=True)),
        }
        print_rows(tool_shapes.LATENCY, [row])
        return
    print(f"Avg latency: {sum(latencies_ms) / len(latencies_ms):.4f} ms")
    print(f"Percentiles: 50th = {at[0]}, 99th = {at[1]}, 99.9th = {at[2]}")
