"""`kavka verifiable-producer`: send numbers and print an event for each result, as kafka-verifiable-producer.sh."""

from __future__ import annotations

import argparse
import asyncio
from typing import TYPE_CHECKING

from kavka.cli.arguments.client_properties import read_properties
from kavka.cli.arguments.options import BadValue
from kavka.cli.arguments.tool_parser import ToolParser, add_brokers
from kavka.cli.console.json_events import TERMINATED, print_event, run_tool, stop_event
from kavka.cli.text.java_errors import spelt
from kavka.cli.text.times import current_time_ms
from kavka.client.config import PRODUCER
from kavka.client.setting_names import effective_settings
from kavka.errors import KafkaError

if TYPE_CHECKING:
    from kavka.client.producer import Producer, RecordMetadata


def main(arguments: list[str]) -> int:
    """Send until `--max-messages` or SIGTERM (143); 1 when the options are wrong or no broker answers."""
    return run_tool(_parser(), arguments, _run)


def _parser() -> ToolParser:
    parser = ToolParser(
        prog="kavka verifiable-producer",
        description="Sends increasing integers to a topic and prints a JSON line for each answer, so that it can be "
        "seen which messages were acknowledged and which were not.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add_brokers(parser)
    add("--topic", required=True, help="send to this topic")
    add("--max-messages", type=int, default=-1, help="send so many (default: -1, without end)")
    add("--throughput", type=int, default=-1, help="messages per second at most (default: -1)")
    add("--acks", type=int, default=-1, help="acknowledgements to wait for (default: -1, all)")
    add("--producer.config", "--command-config", dest="config", help="a file with settings")
    add(
        "--message-create-time",
        type=int,
        default=-1,
        help="time of the first message, in ms since the epoch (default: -1, the present)",
    )
    add("--value-prefix", type=int, help="put this number and a dot before each value")
    add("--repeating-keys", type=int, help="give keys, from 0 to this number (exclusive) in turn")
    return parser


def _settings(given: argparse.Namespace) -> dict[str, str]:
    if given.repeating_keys is not None and given.repeating_keys <= 0:
        raise BadValue("--repeating-keys should be greater than zero.")
    settings = read_properties(given.config)
    settings |= {"bootstrap.servers": given.brokers, "acks": str(given.acks), "retries": "0"}
    for name in ("key.serializer", "value.serializer"):
        settings.pop(name, None)
    return effective_settings(PRODUCER, settings)


async def _run(given: argparse.Namespace) -> int:
    from kavka.client.producer import Producer

    async with Producer(_settings(given)) as producer:
        run = _Run(given, producer)
        print_event("startup_complete")
        with stop_event() as stopped:
            await run.send(stopped)
            await producer.flush()
            code = TERMINATED if stopped.is_set() else 0
    print_event("shutdown_complete")
    run.report()
    return code


class _Run:
    """A run, with the counts of what was sent and acknowledged."""

    def __init__(self, given: argparse.Namespace, producer: Producer) -> None:
        self._given = given
        self._producer = producer
        self._start_ms = current_time_ms()
        self._create_ms: int = given.message_create_time
        self._sent = self._acknowledged = 0
        self._unwritten: OSError | None = None
        """The reason that standard output takes no more events."""

    async def send(self, stopped: asyncio.Event) -> None:
        """Hand over all messages, at most `--throughput` in a second, until `stopped`."""
        given = self._given
        loop = asyncio.get_running_loop()
        started = loop.time()
        while not stopped.is_set() and self._sent != given.max_messages:
            if self._unwritten is not None:
                raise self._unwritten
            await self._send_one(self._sent)
            self._sent += 1
            due = started + self._sent / given.throughput if given.throughput > 0 else 0
            await _sleep_until(due, stopped)
        if given.throughput == 0:  # as Kafka's throttler, which waits until the process ends
            await stopped.wait()

    async def _send_one(self, number: int) -> None:
        from kavka.client.producer import BufferFull

        prefix, keys = self._given.value_prefix, self._given.repeating_keys
        value = str(number) if prefix is None else f"{prefix}.{number}"
        key = None if keys is None else str(number % keys)
        timestamp_ms = self._next_create_ms()
        while True:
            try:
                self._producer.append(
                    self._given.topic,
                    value.encode(),
                    None if key is None else key.encode(),
                    timestamp_ms=timestamp_ms,
                    callback=lambda metadata, error: self._on_done(key, value, metadata, error),
                )
                return
            except BufferFull:
                await self._producer.wait_for_memory()
            except (KafkaError, ValueError, TimeoutError):  # the callback has reported it
                return

    def _next_create_ms(self) -> int | None:
        if self._create_ms < 0:
            return None
        now_ms = self._create_ms
        self._create_ms += current_time_ms() - self._start_ms
        return now_ms

    def _on_done(
        self, key: str | None, value: str, metadata: RecordMetadata | None, error: Exception | None
    ) -> None:
        if self._unwritten is None:
            try:
                self._print_done(key, value, metadata, error)
            except OSError as unwritten:
                self._unwritten = unwritten

    def _print_done(
        self, key: str | None, value: str, metadata: RecordMetadata | None, error: Exception | None
    ) -> None:
        topic = self._given.topic
        if error is not None:
            name, text = spelt(error)
            print_event(
                "producer_send_error",
                topic=topic,
                key=key,
                value=value,
                exception=f"class {name}",
                message=text,
            )
            return
        assert metadata is not None
        self._acknowledged += 1
        place = {"offset": metadata.offset, "topic": topic, "partition": metadata.partition}
        print_event("producer_send_success", key=key, value=value, **place)

    def report(self) -> None:
        """Print the counts and rates of the whole run."""
        elapsed_ms = max(current_time_ms() - self._start_ms, 1)
        print_event(
            "tool_data",
            sent=self._sent,
            acked=self._acknowledged,
            target_throughput=self._given.throughput,
            avg_throughput=1000 * self._acknowledged / elapsed_ms,
        )


async def _sleep_until(due: float, stopped: asyncio.Event) -> None:
    """Yield to the acknowledgements, and wait until the loop's clock is `due`, or `stopped`."""
    wait_s = due - asyncio.get_running_loop().time()
    if wait_s <= 0:
        await asyncio.sleep(0)
        return
    try:
        await asyncio.wait_for(stopped.wait(), wait_s)
    except TimeoutError:
        return
