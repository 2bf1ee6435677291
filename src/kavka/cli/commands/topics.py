"""`kavka topics`: create, list, describe, alter and delete topics, as `kafka-topics.sh` does."""

from __future__ import annotations

import re
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import TextIO

from kavka.cli.admin.connection import with_admin
from kavka.cli.admin.topic_table import Problems, lines_of, topic_rows, topic_views
from kavka.cli.arguments.options import (
    JSON,
    BadUsage,
    BadValue,
    Given,
    Option,
    OptionSet,
    whole_number,
)
from kavka.cli.json_lines import lines as json_lines
from kavka.cli.json_lines import shapes
from kavka.cli.json_rows.topics import changed_topic_rows, new_topic_row
from kavka.cli.text.failures import CommandFailed
from kavka.cli.text.java_errors import log_line, spelt
from kavka.client.admin.admin import Admin
from kavka.client.admin.topics import NewPartitions, NewTopic, TopicDescription
from kavka.core.java_patterns import BadJavaPattern, java_pattern
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import NO_TOPIC_ID, uuid_bytes

_ACTIONS = ("list", "describe", "create", "alter", "delete")
_REPORTS = (
    "under-replicated-partitions",
    "unavailable-partitions",
    "under-min-isr-partitions",
    "at-min-isr-partitions",
)
_NUMBERS = ("partitions", "replication-factor", "partition-size-limit-per-response")
_ALLOWED = {
    "config": ("create",),
    "partitions": ("create", "alter"),
    "replication-factor": ("create",),
    "replica-assignment": ("create", "alter"),
    "if-exists": ("alter", "delete", "describe"),
    "if-not-exists": ("create",),
    "exclude-internal": ("list", "describe"),
    "topics-with-overrides": ("describe",),
    **dict.fromkeys(_REPORTS, ("describe",)),
}
"""With which actions an option makes sense."""

OPTIONS = OptionSet(
    "This tool helps to create, delete, describe, or change a topic.",
    Option("list", "List the topics."),
    Option("describe", "Show partitions, leaders, replicas and settings of topics."),
    Option("create", "Create a topic."),
    Option("alter", "Give a topic more partitions."),
    Option("delete", "Delete topics."),
    Option("topic", "The topic; a regular expression except with --create.", "topic"),
    Option("topic-id", "The id of the topic; with --describe only.", "topic-id"),
    Option("config", "A setting of the new topic; may be repeated.", "name=value"),
    Option("delete-config", "Known for compatibility; it has no effect.", "name"),
    Option("partitions", "How many partitions; without it the broker's default.", "number"),
    Option(
        "replication-factor",
        "How many replicas a new topic has; without it the broker's default.",
        "number",
    ),
    Option(
        "replica-assignment",
        "Brokers of each partition: partitions are parted by commas, replicas by colons.",
        "b1:b2,b2:b3",
    ),
    Option("if-exists", "With --alter, --delete, --describe: pass over a missing topic."),
    Option("if-not-exists", "With --create: pass over a topic that exists."),
    Option("exclude-internal", "With --list, --describe: leave internal topics out."),
    Option("under-replicated-partitions", "Show partitions with replicas that are out of sync."),
    Option("unavailable-partitions", "Show partitions whose leader is not available."),
    Option("under-min-isr-partitions", "Show partitions with too few replicas in sync."),
    Option("at-min-isr-partitions", "Show partitions with just enough replicas in sync."),
    Option("topics-with-overrides", "Show topics that have settings of their own."),
    Option(
        "partition-size-limit-per-response", "How many partitions to ask for at once.", "number"
    ),
    JSON,
)


def main(argv: list[str]) -> int:
    """Run the command; 1 when it was refused."""
    return OPTIONS.run(argv, _act)


def _act(given: Given) -> int:
    action = _checked(given)
    try:
        for name in _NUMBERS:
            given.integer(name)
    except BadValue as error:
        if given.has("json"):
            raise
        return _failed("joptsimple.OptionArgumentConversionException", str(error))
    actions: dict[str, Callable[[Admin, Given], Awaitable[int]]] = {
        "list": _list,
        "describe": _describe,
        "create": _create,
        "alter": _alter,
        "delete": _delete,
    }

    async def act(admin: Admin) -> int:
        if given.has("json"):
            return await actions[action](admin, given)
        try:
            return await actions[action](admin, given)
        except CommandFailed as error:
            return _failed(error.name, str(error))
        except BadValue as error:
            return _failed("joptsimple.OptionException", str(error))

    return with_admin(given, act, lambda error: _failed(*spelt(error)))


def _failed(name: str, sentence: str) -> int:
    print(f"Error while executing topic command : {sentence}", flush=True)
    log_line("ERROR", f"{name}: {sentence}", "kavka.cli.commands.topics")
    return 1


def _checked(given: Given) -> str:
    action = given.one_action(*_ACTIONS, before_last=" or ")
    if given.has("delete-config"):
        _warn(
            given,
            "delete-config option is no longer supported and deprecated since version 4.0. The config will be fully "
            "removed in future releases.",
        )
    if not given.has("bootstrap-server"):
        raise BadUsage("--bootstrap-server must be specified")
    if given.has("topic-id") and action != "describe":
        raise BadUsage(f'Option "[topic-id]" can\'t be used with option "[{action}]"')
    if action in ("create", "delete"):
        given.require("topic")
    if action == "alter":
        if given.has("config"):
            raise BadUsage(
                'Option combination "[[bootstrap-server], [config]]" can\'t be used with option "[alter]" '
                "(To alter topic configurations, the kafka-configs tool can be used.)"
            )
        given.require("topic", "partitions")
    for name, allowed in _ALLOWED.items():
        if action not in allowed:
            given.forbid(name, (action,))
    if action == "create":
        given.forbid("replica-assignment", ("partitions", "replication-factor"))
    for report in _REPORTS:
        given.forbid(report, ("topics-with-overrides",))
    if action == "describe" and given.has("if-exists"):
        if not given.has("topic", "topic-id"):
            raise BadUsage("--topic or --topic-id is required to describe a topic")
        if given.has("topic") and given.has("topic-id"):
            _warn(
                given,
                "Only topic id will be used when both --topic and --topic-id are specified and topicId is not "
                "Uuid.ZERO_UUID",
                file=sys.stdout,
            )
    return action


def _warn(given: Given, sentence: str, file: TextIO | None = None) -> None:
    """Print a warning where Kafka's tool does, by default on standard error."""
    if given.has("json"):
        json_lines.print_warning(sentence)
    else:
        print(sentence, file=file or sys.stderr)


# What the actions do


async def _list(admin: Admin, given: Given) -> int:
    names = await _matching(admin, given)
    if given.has("json"):
        json_lines.print_rows(shapes.TOPIC, ({"topic": name} for name in names))
    else:
        sys.stdout.write("".join(f"{name}\n" for name in names))
    return 0


async def _describe(admin: Admin, given: Given) -> int:
    known: list[TopicDescription]
    topic_id = _topic_id(given)
    if topic_id != NO_TOPIC_ID:
        known = await _by_id(admin, given, topic_id)
    else:
        names = await _matching(admin, given)
        _insist(names, given)
        found = await admin.describe_topics(names) if names else {}
        known = [topic for topic in found.values() if not isinstance(topic, KafkaError)]
    problems = Problems(*(given.has(report) for report in _REPORTS))
    page_size = given.integer("partition-size-limit-per-response") or 2000
    overrides_only = given.has("topics-with-overrides")
    views = await topic_views(admin, known, problems, page_size)
    if given.has("json"):
        rows = topic_rows(views, is_filtered=any(problems), overrides_only=overrides_only)
        json_lines.print_rows(shapes.TOPIC_DESCRIPTION, rows)
    else:
        lines = lines_of(views, problems, overrides_only=overrides_only)
        sys.stdout.write("".join(f"{line}\n" for line in lines))
    return 0


def _topic_id(given: Given) -> bytes:
    text = given.one("topic-id")
    if text is None:
        return NO_TOPIC_ID
    try:
        return uuid_bytes(text)
    except ValueError as error:
        raise CommandFailed("java.lang.IllegalArgumentException", str(error)) from error


async def _by_id(admin: Admin, given: Given, wanted: bytes) -> list[TopicDescription]:
    known = (await admin.describe_topics()).values()
    found = [t for t in known if not isinstance(t, KafkaError) and t.topic_id == wanted]
    if not found and not given.has("if-exists"):
        sentence = f"TopicId '{given.text('topic-id')}' does not exist as expected"
        if given.has("json"):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, sentence)
        raise CommandFailed("java.lang.IllegalArgumentException", sentence)
    return found


async def _create(admin: Admin, given: Given) -> int:
    topic = _new_topic(given)
    if "." in topic.name or "_" in topic.name:
        _warn(
            given,
            "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') could "
            "collide. To avoid issues it is best to use either, but not both.",
            file=sys.stdout,
        )
    outcome = (await admin.create_topics([topic]))[topic.name]
    created = None if isinstance(outcome, KafkaError) else outcome
    if isinstance(outcome, KafkaError) and not (
        outcome.code is ErrorCode.TOPIC_ALREADY_EXISTS and given.has("if-not-exists")
    ):
        raise outcome
    if given.has("json"):
        json_lines.print_rows(shapes.NEW_TOPIC, [new_topic_row(topic.name, created)])
    elif created is not None:
        print(f"Created topic {topic.name}.")
    return 0


def _new_topic(given: Given) -> NewTopic:
    replicas = given.integer("replication-factor")
    partitions = given.integer("partitions")
    if replicas is not None and not 1 <= replicas <= 32767:
        sentence = "The replication factor must be between 1 and 32767 inclusive"
        raise CommandFailed("java.lang.IllegalArgumentException", sentence)
    if partitions is not None and partitions < 1:
        sentence = "The partitions must be greater than 0"
        raise CommandFailed("java.lang.IllegalArgumentException", sentence)
    assignment = given.one("replica-assignment")
    return NewTopic(
        given.text("topic"),
        -1 if partitions is None else partitions,
        -1 if replicas is None else replicas,
        _settings(given.all("config")),
        None if assignment is None else dict(enumerate(parse_assignment(assignment))),
    )


def _settings(pairs: Sequence[str]) -> dict[str, str | None]:
    settings: dict[str, str | None] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise CommandFailed(
                "java.lang.IllegalArgumentException",
                'requirement failed: Invalid topic config: all configs to be added must be in the format "key=val".',
            )
        settings[name.strip()] = value.strip()
    return settings


def parse_assignment(text: str) -> list[list[int]]:
    """Return the brokers of each partition of `0:1,1:2`."""
    try:
        lists = [
            [whole_number(broker.strip(), 32) for broker in part.split(":")]
            for part in text.split(",")
        ]
    except ValueError as error:
        sentence = f"--replica-assignment is not a list of broker ids: {text}"
        raise CommandFailed("java.lang.NumberFormatException", sentence) from error
    for number, replicas in enumerate(lists):
        doubled = sorted({str(broker) for broker in replicas if replicas.count(broker) > 1})
        if doubled:
            sentence = (
                f"Partition replica lists may not contain duplicate entries: {', '.join(doubled)}"
            )
            raise CommandFailed("org.apache.kafka.tools.AdminCommandFailedException", sentence)
        if len(replicas) != len(lists[0]):
            sentence = f"Partition {number} has different replication factor: {replicas}"
            raise CommandFailed("org.apache.kafka.tools.AdminOperationException", sentence)
    return lists


async def _alter(admin: Admin, given: Given) -> int:
    names = await _matching(admin, given)
    _insist(names, given)
    if not names:
        return 0
    total = given.integer("partitions")
    assert total is not None  # `_checked` insists on it
    text = given.one("replica-assignment")
    assignment = None if text is None else parse_assignment(text)
    wanted = {}
    for name, topic in (await admin.describe_topics(names)).items():
        if isinstance(topic, KafkaError):
            raise topic
        added = None if assignment is None else assignment[len(topic.partitions) :]
        wanted[name] = NewPartitions(total, added)
    return _done(given, await admin.create_partitions(wanted))


async def _delete(admin: Admin, given: Given) -> int:
    names = await _matching(admin, given)
    _insist(names, given)
    return _done(given, await admin.delete_topics(names) if names else {})


def _done(given: Given, outcomes: dict[str, KafkaError | None]) -> int:
    """Print what became of topics as JSON, or raise the first refusal."""
    if given.has("json"):
        return json_lines.print_outcomes(shapes.CHANGED_TOPIC, changed_topic_rows(outcomes))
    for outcome in outcomes.values():
        if outcome is not None:
            raise outcome
    return 0


# Which topics are meant


async def _matching(admin: Admin, given: Given) -> list[str]:
    names = await admin.list_topics(include_internal=not given.has("exclude-internal"))
    wanted = given.one("topic")
    if wanted is None:
        return names
    pattern = topic_pattern(wanted)
    return [name for name in names if pattern.fullmatch(name)]


def topic_pattern(text: str) -> re.Pattern[str]:
    """Return the expression of `--topic`, Java's, in which a comma stands for `|`. Raise BadValue when it is none."""
    expression = re.sub(r"\s", "", text.replace(",", "|")).strip("\"'")
    try:
        return java_pattern(expression)
    except BadJavaPattern as error:
        raise BadValue(f"{text} is an invalid regex.") from error


def _insist(names: Sequence[str], given: Given) -> None:
    wanted = given.one("topic")
    if wanted is not None and not names and not given.has("if-exists"):
        sentence = f"Topic '{wanted}' does not exist as expected"
        if given.has("json"):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, sentence)
        raise CommandFailed("java.lang.IllegalArgumentException", sentence)
