"""`kavka leader-election`: let partitions elect a leader now, as `kafka-leader-election.sh` does."""

from __future__ import annotations

from kavka.cli.admin.connection import with_admin
from kavka.cli.admin.elections import elect, print_failure, read_partitions
from kavka.cli.arguments.options import BOOTSTRAP, JSON, Given, Option, OptionSet
from kavka.cli.json_lines.lines import print_error
from kavka.cli.text.failures import (
    ADMIN_COMMAND_FAILED,
    CommandFailed,
    spelt_failure,
)
from kavka.client.admin.admin import Admin
from kavka.client.admin.elections import ElectionType
from kavka.ids import TopicPartition

_SCOPES = ("topic", "all-topic-partitions", "path-to-json-file")

OPTIONS = OptionSet(
    "This tool attempts to elect a new leader for a set of topic partitions. The type of elections supported are "
    "preferred replicas and unclean replicas.",
    Option(
        "election-type",
        "REQUIRED: preferred lets the first replica lead where it is in sync; unclean lets any live replica lead "
        "where none is in sync: records may be lost.",
        "[PREFERRED,UNCLEAN]: election type",
    ),
    Option("topic", "The topic of the partition that shall elect.", "topic name"),
    Option("partition", "The partition that shall elect; required with --topic.", "partition id"),
    Option("all-topic-partitions", "Let all partitions elect that have another leader."),
    Option(
        "path-to-json-file",
        'The partitions: {"partitions": [{"topic": "foo", "partition": 1}, {"topic": "foobar", "partition": 2}]}.',
        "Path to JSON file",
    ),
    Option("admin.config", "A properties file with settings of the client.", "config file"),
    BOOTSTRAP,
    JSON,
    asks_a_broker=False,
)


def main(argv: list[str]) -> int:
    """Run the command; 1 when an election could not be held."""
    return OPTIONS.run(argv, _act)


def _act(given: Given) -> int:
    try:
        kind, partitions = _checked(given)
    except CommandFailed as error:
        if given.has("json"):
            return print_error(error)
        return print_failure(error.name, str(error))

    async def act(admin: Admin) -> int:
        try:
            return await elect(admin, kind, partitions, as_json=given.has("json"))
        except CommandFailed as error:
            return print_failure(error.name, str(error))

    def failed(error: Exception) -> int:
        return print_failure(*spelt_failure(error))

    return with_admin(given, act, failed, config_option="admin.config")


def _checked(given: Given) -> tuple[ElectionType, list[TopicPartition] | None]:
    """Return how to elect and the partitions, None for all."""
    missing = [name for name in ("bootstrap-server", "election-type") if not given.has(name)]
    if missing:
        raise _failed(f"Missing required option(s): {', '.join(missing)}")
    kind = _election_type(given.text("election-type"))
    if sum(given.has(name) for name in _SCOPES) != 1:
        listed = ", ".join(_SCOPES)
        raise _failed(f"One and only one of the following options is required: {listed}")
    if given.has("partition") and not given.has("topic"):
        raise _failed("Option partition is only allowed if topic is used")
    if given.has("topic"):
        number = given.integer("partition")
        if number is None:
            raise _failed("Missing required option(s): partition")
        return kind, [TopicPartition(given.text("topic"), number)]
    path = given.one("path-to-json-file")
    return kind, None if path is None else read_partitions(path)


def _election_type(text: str) -> ElectionType:
    for kind in ElectionType:
        if kind.name == text.upper():
            return kind
    sentence = f"Cannot parse argument '{text}' of option election-type"
    raise CommandFailed("joptsimple.OptionArgumentConversionException", sentence)


def _failed(sentence: str) -> CommandFailed:
    return CommandFailed(ADMIN_COMMAND_FAILED, sentence)
