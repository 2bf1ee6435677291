"""`kavka console-producer`: send the lines of standard input to a topic, as kafka-console-producer.sh does.

One difference: when a record could not be written, the exit code is 1 where Kafka's tool ends with 0.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from kavka.cli.arguments.client_properties import (
    SERVERS,
    key_values,
    read_properties,
    servers,
)
from kavka.cli.arguments.options import BadUsage, Given, Option, OptionSet
from kavka.cli.console.line_reader import BadLine, LineReader
from kavka.cli.console.ordered_send import Pair, PairSource, send_in_order
from kavka.cli.text.java_errors import log_line, spelt_together
from kavka.client.config import PRODUCER
from kavka.client.setting_names import effective_settings
from kavka.errors import AuthenticationFailed, KafkaError
from kavka.settings.declaration import InvalidSetting

if TYPE_CHECKING:
    from kavka.client.producer import Producer

_CHUNK_BYTES = 1 << 18
_DEFAULT_READER = "LineMessageReader"

OPTIONS = OptionSet(
    "This tool helps to read data from standard input and publish it to Kafka.",
    SERVERS,
    Option("broker-list", "DEPRECATED, use --bootstrap-server instead.", "servers"),
    Option("topic", "REQUIRED: The topic to produce messages to.", "topic"),
    Option("sync", "Wait for the answer to each message before the next one is sent."),
    Option(
        "compression-codec",
        "none, gzip, snappy, lz4 or zstd; gzip when no value is given.",
        "codec",
        value_is_optional=True,
    ),
    Option("request-required-acks", "acks of the producer (default: -1).", "acks"),
    Option("batch-size", "batch.size of the producer (default: 16384).", "bytes"),
    Option("max-partition-memory-bytes", "The same as --batch-size.", "bytes"),
    Option("timeout", "linger.ms of the producer (default: 1000).", "ms"),
    Option("max-block-ms", "max.block.ms of the producer (default: 60000).", "ms"),
    Option("message-send-max-retries", "retries of the producer (default: 3).", "count"),
    Option("retry-backoff-ms", "retry.backoff.ms of the producer (default: 100).", "ms"),
    Option("request-timeout-ms", "request.timeout.ms of the producer (default: 1500).", "ms"),
    Option("max-memory-bytes", "buffer.memory of the producer (default: 33554432).", "bytes"),
    Option("metadata-expiry-ms", "metadata.max.age.ms of the producer (default: 300000).", "ms"),
    Option("socket-buffer-size", "Known for compatibility; it has no effect.", "bytes"),
    Option("line-reader", f"Only {_DEFAULT_READER}, the default.", "class"),
    Option(
        "property",
        "A property of the reader: parse.key, key.separator, parse.headers, headers.delimiter, "
        "headers.separator, headers.key.separator, ignore.error, null.marker.",
        "key=value",
    ),
    Option("reader-property", "The same as --property.", "key=value"),
    Option("reader-config", "A file with properties of the reader.", "file"),
    Option("producer-property", "A setting of the producer.", "key=value"),
    Option("command-property", "The same as --producer-property.", "key=value"),
    Option("producer.config", "A file with settings of the producer.", "file"),
    Option("command-config", "The same as --producer.config.", "file"),
    asks_a_broker=False,
)

_MERGED = (
    ("timeout", "linger.ms", "1000"),
    ("request-required-acks", "acks", "-1"),
    ("request-timeout-ms", "request.timeout.ms", "1500"),
    ("message-send-max-retries", "retries", "3"),
    ("retry-backoff-ms", "retry.backoff.ms", "100"),
    ("max-memory-bytes", "buffer.memory", "33554432"),
    ("max-block-ms", "max.block.ms", "60000"),
    ("metadata-expiry-ms", "metadata.max.age.ms", "300000"),
    ("batch-size", "batch.size", "16384"),
)
"""Option, setting, and the default of the option, which counts only when the setting is not given."""


def main(arguments: list[str]) -> int:
    """Send until the input ends; 1 when the options are wrong, no broker answers or a record is not written."""
    return OPTIONS.run(arguments, _act)


def _act(given: Given) -> int:
    settings = producer_settings(given)
    topic = given.text("topic")
    try:
        reader = LineReader.of(
            read_properties(given.one("reader-config"))
            | key_values(given.all("property") + given.all("reader-property"))
        )
        return asyncio.run(_produce(topic, settings, reader, given.has("sync")))
    except InvalidSetting as error:
        print(f"org.apache.kafka.common.config.ConfigException: {error}", file=sys.stderr)
    except BadLine as error:
        print(f"org.apache.kafka.common.KafkaException: {error}", file=sys.stderr)
    except (ConnectionError, AuthenticationFailed) as error:
        print(error, file=sys.stderr)
    return 1


def producer_settings(given: Given) -> dict[str, str]:
    """Return what the producer is to be made with. Raise BadUsage, BadValue."""
    brokers = _servers(given)
    given.require("topic")
    given.forbid("producer.config", ("command-config",))
    reader = given.one("line-reader") or _DEFAULT_READER
    if reader.rpartition(".")[2].rpartition("$")[2] != _DEFAULT_READER:
        raise BadUsage(reader)
    file = read_properties(given.one("command-config") or given.one("producer.config"))
    pairs = key_values(given.all("producer-property") + given.all("command-property"))
    settings = effective_settings(PRODUCER, file | pairs)
    for name in ("key.serializer", "value.serializer"):
        settings.pop(name, None)
    settings["bootstrap.servers"] = brokers
    if given.has("compression-codec"):
        settings["compression.type"] = given.one("compression-codec") or "gzip"
    else:
        settings["compression.type"] = "none"
    settings.setdefault("client.id", "console-producer")
    if given.has("sync") and not given.has("timeout"):
        settings.setdefault("linger.ms", "0")  # each record would wait alone for company
    for name, setting, default in _MERGED:
        is_renamed = name == "batch-size" and given.has("max-partition-memory-bytes")
        option = "max-partition-memory-bytes" if is_renamed else name
        value = given.one(option)
        if value is None:
            settings.setdefault(setting, default)
        else:
            settings[setting] = value if setting == "acks" else str(given.integer(option, 64))
    return settings


def _servers(given: Given) -> str:
    if given.has("broker-list") and not given.has("bootstrap-server"):
        given = Given({"bootstrap-server": given.all("broker-list")})
    if not given.has("bootstrap-server"):
        raise BadUsage("Missing required option(s) [bootstrap-server]")
    return servers(given)


async def _produce(topic: str, settings: dict[str, str], reader: LineReader, is_sync: bool) -> int:
    from kavka.client.producer import Producer

    sending = _LineSender(Producer(settings), topic)
    await sending.producer.start()
    try:
        number = 1
        async for lines in _lines(is_prompting=sys.stdin.isatty() and sys.stdout.isatty()):
            if not await sending.learn_topic():
                pass
            elif is_sync:
                await sending.send_each(reader, lines, number)
            elif reader.parses_headers:
                await sending.append_each(reader, lines, number)
            else:
                pairs, error = reader.pairs(lines, number)
                await sending.send_pairs(pairs)
                if error is not None:
                    raise error
            number += len(lines)
    except (KafkaError, OSError) as error:
        sending.failed(error)
    finally:
        await sending.finish()
    return 1 if sending.has_failed else 0


class _LineSender:
    """Records on their way, and whether one of them has failed."""

    def __init__(self, producer: Producer, topic: str) -> None:
        self.producer = producer
        self.topic = topic
        self.has_failed = False
        self._is_topic_known = False
        self._in_flight: set[asyncio.Task[Any]] = set()

    async def learn_topic(self) -> bool:
        """Wait for the topic's metadata; False, once reported, when there are none within max.block.ms."""
        if not self._is_topic_known:
            try:
                await self.producer.partitions_for(self.topic)
            except (KafkaError, TimeoutError) as error:
                self.failed(error)
                return False
            self._is_topic_known = True
        return True

    async def send_each(self, reader: LineReader, lines: list[bytes], number: int) -> None:
        """Send line by line, waiting for each acknowledgement. Raise BadLine, and the first failure."""
        for at, line in enumerate(lines, number):
            key, value, headers = reader.read(line, at)
            await self.producer.send(self.topic, value, key, headers=headers)

    async def append_each(self, reader: LineReader, lines: list[bytes], number: int) -> None:
        """Hand records over, waiting for nothing but room. Raise BadLine."""
        from kavka.client.producer import BufferFull

        for at, line in enumerate(lines, number):
            key, value, headers = reader.read(line, at)
            while True:
                try:
                    self.producer.append(self.topic, value, key, headers=headers)
                except BufferFull:
                    await self.producer.wait_for_memory()
                    continue
                except KafkaError as error:
                    self.failed(error)
                break

    async def send_pairs(self, pairs: list[Pair]) -> None:
        """Hand (key, value) pairs over, waiting for nothing but room; one that is refused is left out."""
        source = PairSource(pairs)
        while not source.is_read.is_set():
            task = await send_in_order(self.producer, self.topic, source)
            self._in_flight.add(task)
            task.add_done_callback(self._on_done)

    def _on_done(self, task: asyncio.Task[Any]) -> None:
        self._in_flight.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.failed(error)

    async def finish(self) -> None:
        """Send what waits, and close. What failed without having been seen comes out here."""
        try:
            await self.producer.close()
        except (KafkaError, OSError) as error:
            self.failed(error)
        if self._in_flight:
            await asyncio.wait(self._in_flight)

    def failed(self, error: BaseException) -> None:
        """Report what went wrong with records."""
        self.has_failed = True
        text = (
            f"Error when sending messages to topic {self.topic} with error: {spelt_together(error)}"
        )
        log_line("ERROR", text, __name__)


async def _lines(*, is_prompting: bool) -> AsyncIterator[list[bytes]]:
    """Yield the lines of standard input as they come, many at once from a pipe or a file."""
    rest = b""
    while True:
        if is_prompting and not rest:
            print(">", end="", flush=True)
        chunk = await _read_stdin()
        if not chunk:
            break
        # A carriage return at the end may be half of a line's end: it waits for what follows.
        content = rest + chunk
        lines = content.splitlines(keepends=True)
        rest = b"" if lines[-1].endswith(b"\n") else lines.pop()
        if lines:
            yield [line.rstrip(b"\r\n") if line[-2:-1] == b"\r" else line[:-1] for line in lines]
    if rest:
        yield rest.splitlines()


async def _read_stdin() -> bytes:
    """Return some bytes, none at the end. A file is read at once; of a pipe or a terminal others wait meanwhile."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    try:
        loop.add_reader(0, lambda: None if ready.done() else ready.set_result(None))
    except PermissionError:  # a regular file: it is always ready
        await asyncio.sleep(0)
        return os.read(0, _CHUNK_BYTES)
    try:
        await ready
    finally:
        loop.remove_reader(0)
    return os.read(0, _CHUNK_BYTES)
