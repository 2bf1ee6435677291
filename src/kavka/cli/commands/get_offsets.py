"""`kavka get-offsets`: print the offsets of partitions as `topic:partition:offset`, as `kafka-get-offsets.sh` does."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable

from kavka.cli.admin.connection import with_admin
from kavka.cli.arguments.options import JSON, BadValue, Given, Option, OptionSet, whole_number
from kavka.cli.commands.topics import topic_pattern
from kavka.cli.json_lines import shapes
from kavka.cli.json_lines.lines import print_outcomes
from kavka.cli.json_rows.topics import offset_rows
from kavka.cli.text.java_errors import spelt, spelt_together
from kavka.client.admin.admin import Admin
from kavka.client.admin.records import OffsetSpec
from kavka.errors import KafkaError
from kavka.ids import TopicPartition

_TIMES: dict[str, int] = {
    "latest": OffsetSpec.LATEST,
    "earliest": OffsetSpec.EARLIEST,
    "max-timestamp": OffsetSpec.MAX_TIMESTAMP,
    "earliest-local": OffsetSpec.EARLIEST_LOCAL,
    "latest-tiered": OffsetSpec.LATEST_TIERED,
}

OPTIONS = OptionSet(
    "An interactive shell for getting topic-partition offsets.",
    Option("broker-list", "DEPRECATED, use --bootstrap-server instead.", "servers"),
    Option("topic", "The topics: a regular expression.", "topic"),
    Option("partitions", "The partitions, as 0,1,2; without it all.", "numbers"),
    Option(
        "topic-partitions",
        "Topics with partitions: t1:1,t2:0-3,t3,t4.*:5- (from, and up to without, a partition).",
        "topic:range",
    ),
    Option(
        "time",
        "-1 or latest (the default), -2 or earliest, -3 or max-timestamp, -4 or earliest-local, "
        "-5 or latest-tiered, or milliseconds since 1970.",
        "time",
    ),
    Option("exclude-internal-topics", "Leave internal topics out."),
    JSON,
)

Wanted = Callable[[TopicPartition], bool]


def main(argv: list[str]) -> int:
    """Run the command; 1 when nothing matches or the broker refuses."""
    return OPTIONS.run(argv, _act)


def _act(given: Given) -> int:
    is_old = given.has("broker-list") and not given.has("bootstrap-server")
    server_option = "broker-list" if is_old else "bootstrap-server"
    if not is_old:
        given.require("bootstrap-server")
    try:
        spec, wanted = offset_spec(given.one("time")), _wanted(given)
    except BadValue as error:
        if given.has("json"):
            raise
        return _failed(str(error))

    async def act(admin: Admin) -> int:
        try:
            return await _print(admin, spec, wanted, given)
        except BadValue as error:
            if given.has("json"):
                raise
            return _failed(str(error))

    def failed(error: Exception) -> int:
        return _failed(spelt_together(error))

    return with_admin(given, act, failed, server_option=server_option)


def _failed(sentence: str) -> int:
    print(f"Error occurred: {sentence}", file=sys.stderr)
    return 1


async def _print(admin: Admin, spec: int, wanted: Wanted, given: Given) -> int:
    found = await admin.describe_topics()
    exclude_internal = given.has("exclude-internal-topics")
    partitions = [
        topic_partition
        for name, topic in found.items()
        if not isinstance(topic, KafkaError) and not (exclude_internal and topic.is_internal)
        for part in topic.partitions
        if wanted(topic_partition := TopicPartition(name, part.partition))
    ]
    if not partitions:
        raise BadValue("Could not match any topic-partitions with the specified filters")
    offsets = await admin.list_offsets(dict.fromkeys(partitions, spec))
    if given.has("json"):
        rows = offset_rows(sorted(partitions), offsets)
        return print_outcomes(shapes.OFFSET, rows)
    for topic_partition in sorted(partitions):
        result = offsets[topic_partition]
        if isinstance(result, KafkaError):
            print(
                f"Skip getting offsets for topic-partition {topic_partition} due to error: {spelt(result)[1]}",
                file=sys.stderr,
            )
        elif result.offset >= 0:
            print(f"{topic_partition.topic}:{topic_partition.partition}:{result.offset}")
    return 0


def offset_spec(text: str | None) -> int:
    """Return the `OffsetSpec` or the time that `--time` asks for."""
    if text is None:
        return OffsetSpec.LATEST
    try:
        number = _TIMES[text] if text in _TIMES else whole_number(text, 64)
    except ValueError:
        number = min(_TIMES.values()) - 1
    if number < min(_TIMES.values()):
        listed = " / ".join(f"{int(number)} or {name}" for name, number in _TIMES.items())
        raise BadValue(
            f"Malformed time argument {text}. Please use {listed}, or a specified long format timestamp"
        )
    return number


# Which partitions are meant


def _wanted(given: Given) -> Wanted:
    rules = given.one("topic-partitions")
    if rules is None:
        return _by_topic(given.one("topic"), given.one("partitions"))
    if given.has("topic", "partitions"):
        raise BadValue("--topic-partitions cannot be used with --topic or --partitions")
    return any_of([topic_range(rule) for rule in rules.split(",") if rule])


def any_of(rules: Iterable[Wanted]) -> Wanted:
    """Return a rule that accepts what one of the rules accepts."""
    listed = list(rules)
    return lambda topic_partition: any(rule(topic_partition) for rule in listed)


def _by_topic(topic: str | None, partitions: str | None) -> Wanted:
    pattern = None if topic is None else topic_pattern(topic)
    try:
        numbers = (
            {whole_number(number, 32) for number in partitions.split(",")} if partitions else None
        )
    except ValueError:
        raise BadValue(
            "--partitions expects a comma separated list of numeric partition ids, but received: "
            f"{partitions}"
        ) from None
    return lambda topic_partition: (
        (pattern is None or pattern.fullmatch(topic_partition.topic) is not None)
        and (numbers is None or topic_partition.partition in numbers)
    )


_RANGE = re.compile(r"([^:,]*)(?::(?:(\d+)|(\d*)-(\d*)))?")


def topic_range(text: str) -> Wanted:
    """Return the rule of `topic`, `topic:1`, `topic:1-3` (without 3), `topic:1-`, `topic:-3` or `:1`."""
    match = _RANGE.fullmatch(text)
    if match is None:
        raise BadValue(f"Invalid rule specification: {text}")
    topic, single, lower, upper = match.groups()
    pattern = topic_pattern(topic) if topic else None
    first = int(single or lower or 0)
    end = first + 1 if single else int(upper) if upper else None
    return lambda topic_partition: (
        (pattern is None or pattern.fullmatch(topic_partition.topic) is not None)
        and topic_partition.partition >= first
        and (end is None or topic_partition.partition < end)
    )
