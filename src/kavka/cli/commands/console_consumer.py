"""`kavka console-consumer`: print the records of topics, as kafka-console-consumer.sh does."""

from __future__ import annotations

import asyncio
import random
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from kavka.cli.arguments.client_properties import SERVERS, key_values, read_properties, servers
from kavka.cli.arguments.options import (
    JSON,
    BadUsage,
    BadValue,
    Given,
    Option,
    OptionSet,
    whole_number,
)
from kavka.cli.json_lines.lines import print_error, print_warning
from kavka.cli.text.java_errors import log_line, spelt_together
from kavka.cli.text.standard_streams import drop_output, watched_reader
from kavka.client.config import CONSUMER
from kavka.client.setting_names import effective_settings
from kavka.errors import AuthenticationFailed, KafkaError
from kavka.ids import TopicPartition
from kavka.settings.declaration import InvalidSetting
from kavka.values import frozen

if TYPE_CHECKING:
    import re

    from kavka.cli.console.message_formatters import Formatter
    from kavka.client.consumer import Consumer
    from kavka.client.consumer.batches import ConsumerRecord, FetchedBatches

_LOGGER = "kavka.cli.commands.console_consumer"
_AT_ONCE = 20_000
"""Records of a poll: positions move with the poll, so this is what a Ctrl-C may have half printed."""
_NO_TIMEOUT_MS = 1000
_TERMINATED = 128 + signal.SIGTERM

OPTIONS = OptionSet(
    "This tool helps to read data from Kafka topics and outputs it to standard output.",
    SERVERS,
    Option("topic", "The topic to consume on.", "topic"),
    Option("include", "Regular expression specifying list of topics to include.", "regex"),
    Option("whitelist", "DEPRECATED, use --include instead.", "regex"),
    Option(
        "partition",
        "The partition to consume from, from its end unless --offset is given.",
        "partition",
    ),
    Option("offset", "Where to start: a number, 'earliest' or 'latest' (the default).", "offset"),
    Option("from-beginning", "Start at the earliest record where the group has no offset."),
    Option("max-messages", "Exit after this many records.", "count"),
    Option("timeout-ms", "Exit when no record has come for this long.", "ms"),
    Option("group", "The consumer group; one is made up when it is not given.", "group"),
    Option("isolation-level", "read_committed or read_uncommitted, the default.", "level"),
    Option("consumer-property", "A setting of the consumer.", "key=value"),
    Option("command-property", "The same as --consumer-property.", "key=value"),
    Option("consumer.config", "A file with settings of the consumer.", "file"),
    Option("command-config", "The same as --consumer.config.", "file"),
    Option(
        "formatter",
        "DefaultMessageFormatter, LoggingMessageFormatter, NoOpMessageFormatter, OffsetsMessageFormatter, "
        "GroupMetadataMessageFormatter or TransactionLogMessageFormatter, also by the full Java name.",
        "class",
    ),
    Option(
        "property",
        "A property of the formatter: print.timestamp, print.key, print.offset, print.partition, print.headers, "
        "print.epoch, print.value, key.separator, line.separator, headers.separator, null.literal, "
        "key.deserializer, value.deserializer, headers.deserializer.",
        "key=value",
    ),
    Option("formatter-property", "The same as --property.", "key=value"),
    Option("formatter-config", "A file with properties of the formatter.", "file"),
    Option(
        "key-deserializer", "String, Integer, Long, Double, ByteArray... by the Java name.", "class"
    ),
    Option("value-deserializer", "The same for values.", "class"),
    Option("skip-message-on-error", "Pass over a record that cannot be printed instead of ending."),
    Option("enable-systest-events", "Also print when the consumer has closed."),
    JSON,
    asks_a_broker=False,
)


@frozen
class _Plan:
    """The parsed options of one call."""

    settings: dict[str, str]
    formatter: Formatter
    topic: str | None
    pattern: re.Pattern[str] | None
    partition: int | None
    offset: int | str
    max_messages: int | None
    timeout_ms: int | None
    skips_errors: bool
    announces_end: bool
    is_json: bool


class _Unprintable(Exception):
    """A record is not what the deserializer or the formatter is for."""


def main(arguments: list[str]) -> int:
    """Print records until it is stopped; return 1 after a mistake, a refusal or without a broker, 130 after Ctrl-C."""
    return OPTIONS.run(arguments, _act)


def _act(given: Given) -> int:
    plan = _plan(given)
    try:
        return asyncio.run(_Run(plan).run())
    except (InvalidSetting, _Unprintable, ConnectionError, AuthenticationFailed) as error:
        if isinstance(error, BrokenPipeError):
            return _without_reader(plan.is_json)
        if plan.is_json:
            return print_error(error)
        if isinstance(error, (ConnectionError, AuthenticationFailed)):
            print(error, file=sys.stderr)
            return 1
        is_setting = isinstance(error, InvalidSetting)
        text = f"org.apache.kafka.common.config.ConfigException: {error}" if is_setting else error
        log_line("ERROR", "Unknown error when running consumer: ", _LOGGER)
        print(text, file=sys.stderr)
    return 1


def _plan(given: Given) -> _Plan:
    """Check the options. Raise BadUsage, BadValue with Kafka's sentences."""
    from kavka.cli.console.message_formatters import UnknownClass, formatter_of, json_formatter

    given.forbid("whitelist", ("include",))
    given.forbid("consumer.config", ("command-config",))
    pattern = given.one("include") or given.one("whitelist")
    topic = given.one("topic")
    if (topic is None) == (pattern is None):
        raise BadUsage("Exactly one of --include/--topic is required. ")
    partition = given.integer("partition")
    if partition is not None and topic is None:
        raise BadUsage("The topic is required when partition is specified.")
    if given.has("offset") and partition is None:
        raise BadUsage("The partition is required when offset is specified.")
    if given.has("offset") and given.has("from-beginning"):
        raise BadUsage("Options from-beginning and offset cannot be specified together.")
    offset = _offset(given)
    compiled = _compiled(pattern)
    brokers = servers(given)
    settings = _settings(given) | {"bootstrap.servers": brokers}
    properties = read_properties(given.one("formatter-config"))
    properties |= key_values(given.all("property") + given.all("formatter-property"))
    for name in ("key-deserializer", "value-deserializer"):
        if given.has(name):
            properties[name.replace("-", ".")] = given.text(name)
    given.forbid("json", ("formatter", "enable-systest-events"))
    try:
        formatter = (
            json_formatter(properties)
            if given.has("json")
            else formatter_of(given.one("formatter") or "DefaultMessageFormatter", properties)
        )
    except UnknownClass as error:
        raise BadUsage(str(error)) from error
    most = given.integer("max-messages")
    timeout_ms = given.integer("timeout-ms", 64)
    return _Plan(
        settings=settings,
        formatter=formatter,
        topic=topic,
        pattern=compiled,
        partition=partition,
        offset=offset,
        max_messages=None if most == -1 else most,
        timeout_ms=None if timeout_ms is None or timeout_ms < 0 else timeout_ms,
        skips_errors=given.has("skip-message-on-error"),
        announces_end=given.has("enable-systest-events"),
        is_json=given.has("json"),
    )


def _compiled(pattern: str | None) -> re.Pattern[str] | None:
    from kavka.core.java_patterns import BadJavaPattern, java_pattern

    try:
        return None if pattern is None else java_pattern(pattern)
    except BadJavaPattern as error:
        raise BadValue(f"java.util.regex.PatternSyntaxException: {error}\n{pattern}") from error


def _offset(given: Given) -> int | str:
    text = given.one("offset")
    if text is None:
        return "earliest" if given.has("from-beginning") else "latest"
    if text.lower() in ("earliest", "latest"):
        return text.lower()
    try:
        number = whole_number(text, 64)
    except ValueError:
        number = -1
    if number >= 0:
        return number
    raise BadUsage(
        f"The provided offset value '{text}' is incorrect. Valid values are 'earliest', 'latest', or a "
        "non-negative long."
    )


def _settings(given: Given) -> dict[str, str]:
    file = read_properties(given.one("command-config") or given.one("consumer.config"))
    pairs = key_values(given.all("consumer-property") + given.all("command-property"))
    settings = effective_settings(CONSUMER, file | pairs)
    for name in ("key.deserializer", "value.deserializer"):
        settings.pop(name, None)
    reset = settings.get("auto.offset.reset")
    if reset is None:
        settings["auto.offset.reset"] = "earliest" if given.has("from-beginning") else "latest"
    elif given.has("from-beginning") and reset != "earliest":
        raise BadValue(
            f"Can't simultaneously specify --from-beginning and 'auto.offset.reset={reset}', "
            "please remove one option"
        )
    settings["isolation.level"] = given.one("isolation-level") or "read_uncommitted"
    settings.setdefault("client.id", "console-consumer")
    settings["group.id"] = group = _group(given.one("group"), pairs, file)
    if not group:
        settings["group.id"] = f"console-consumer-{random.randrange(100_000)}"
        # This group is not used again, so its offsets are not stored.
        settings.setdefault("enable.auto.commit", "false")
    elif given.has("partition"):
        raise BadUsage("Options group and partition cannot be specified together.")
    return settings


def _group(option: str | None, pairs: dict[str, str], file: dict[str, str]) -> str:
    """Return the group that is asked for, empty for none. Raise BadUsage when there are several."""
    places = (option, pairs.get("group.id"), file.get("group.id"))
    groups = list(dict.fromkeys(group for group in places if group))
    if len(groups) > 1:
        listed = ", ".join(f"'{group}'" for group in groups)
        raise BadUsage(
            "The group ids provided in different places (directly using '--group', via '--consumer-property', "
            f"or via '--consumer.config') do not match. Detected group ids: {listed}"
        )
    return groups[0] if groups else ""


class _Run:
    """A run of the consumer, with the number of printed records."""

    def __init__(self, plan: _Plan) -> None:
        self._plan = plan
        self._count = 0
        # Of the batches at hand: the offset of the record that was printed last, or could not be; -1 for none.
        self._last_offset = -1

    async def run(self) -> int:
        """Return the exit code. Raise ConnectionError when no broker answers, InvalidSetting."""
        from kavka.client.consumer import Consumer

        consumer = Consumer(self._plan.settings)
        await consumer.start()
        task = asyncio.current_task()
        assert task is not None
        ends: list[Callable[[], int]] = []

        def end(with_code: Callable[[], int]) -> None:
            ends.append(with_code)
            task.cancel()

        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, end, lambda: _TERMINATED)
        try:
            self._choose(consumer)
            with watched_reader(loop, lambda: end(lambda: _without_reader(self._plan.is_json))):
                return await self._print_all(consumer)
        except asyncio.CancelledError:
            if not ends:
                raise  # Ctrl-C
            return ends[0]()
        finally:
            await consumer.close()
            if self._plan.announces_end:
                print("shutdown_complete")
            sys.stdout.flush()
            if not self._plan.is_json:
                print(f"Processed a total of {self._count} messages", file=sys.stderr)

    def _choose(self, consumer: Consumer) -> None:
        """Assign or subscribe to what is to be read."""
        plan = self._plan
        if plan.partition is None:
            if plan.topic is not None:
                consumer.subscribe([plan.topic])
            else:
                consumer.subscribe(pattern=plan.pattern)
            return
        assert plan.topic is not None
        topic_partition = TopicPartition(plan.topic, plan.partition)
        consumer.assign([topic_partition])
        if plan.offset == "earliest":
            consumer.seek_to_beginning([topic_partition])
        elif plan.offset == "latest":
            consumer.seek_to_end([topic_partition])
        else:
            consumer.seek(topic_partition, int(plan.offset))

    async def _print_all(self, consumer: Consumer) -> int:
        """Print until enough has come or nothing comes any more; 1 where a poll fails, which Kafka counts as an end."""
        plan = self._plan
        timeout_ms = _NO_TIMEOUT_MS if plan.timeout_ms is None else plan.timeout_ms
        while plan.max_messages is None or self._count < plan.max_messages:
            left = _AT_ONCE if plan.max_messages is None else plan.max_messages - self._count
            try:
                fetched = await consumer.poll(timeout_ms, max_records=min(left, _AT_ONCE))
            except (KafkaError, OSError) as error:
                return self._ended(error)
            if not fetched and plan.timeout_ms is not None:
                if not plan.is_json:
                    _terminating("org.apache.kafka.common.errors.TimeoutException")
                return 0
            try:
                self._print_fetched(consumer, fetched)
            except KafkaError as error:  # a corrupt batch
                return self._ended(error)
        return 0

    def _ended(self, error: KafkaError | OSError) -> int:
        if self._plan.is_json:
            return print_error(error)
        _terminating(spelt_together(error))
        return 1

    def _print_fetched(self, consumer: Consumer, fetched: Sequence[FetchedBatches]) -> None:
        """Print what a poll returned. Raise CorruptRecordError, _Unprintable, BrokenPipeError.

        What was not printed then is not committed: positions go back to it. As in Kafka's tool, a record that cannot
        be printed counts as read.
        """
        for number, batches in enumerate(fetched):
            self._last_offset = -1
            try:
                self._print(batches.records())
            except BaseException:
                consumer.rewind(fetched[number:])
                if self._last_offset >= 0:
                    consumer.seek(batches.topic_partition, self._last_offset + 1)
                raise

    def _print(self, records: Iterable[ConsumerRecord]) -> None:
        """Print records. Raise _Unprintable, BrokenPipeError."""
        from kavka.cli.console.deserializers import DeserializationFailed
        from kavka.wire.codec import CorruptFrame

        formatter = self._plan.formatter
        shown: list[bytes] = []
        try:
            for record in records:
                self._count += 1
                self._last_offset = record.offset
                try:
                    shown.append(formatter(record))
                except (DeserializationFailed, CorruptFrame) as error:
                    text = f"org.apache.kafka.common.errors.SerializationException: {error}"
                    if not self._plan.skips_errors:
                        raise _Unprintable(text) from error
                    sentence = f"Error processing message, skipping this message: {text}"
                    if self._plan.is_json:
                        print_warning(sentence)
                    else:
                        log_line("ERROR", sentence, _LOGGER)
        finally:
            try:
                _write(b"".join(shown))
            except BrokenPipeError:
                self._last_offset = -1  # how many of them were read is not known
                raise


def _write(content: bytes) -> None:
    """Write to standard output at once; when its reader has gone, end as Kafka's tool does."""
    try:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        drop_output()
        raise


def _without_reader(is_json: bool) -> int:
    """Say that nothing reads our output any more, as Kafka's tool does, and return the exit code."""
    text = "Unable to write to standard out, closing consumer."
    if is_json:
        print_warning(text)
    else:
        print(text, file=sys.stderr)
    return 0


def _terminating(cause: str) -> None:
    log_line("ERROR", "Error processing message, terminating consumer process: ", _LOGGER)
    print(cause, file=sys.stderr)
