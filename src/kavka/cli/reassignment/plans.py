"""The JSON of `kavka reassign-partitions`: plans that are read, written and generated."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kavka.cli.arguments.options import whole_number
from kavka.cli.text.failures import ADMIN_COMMAND_FAILED, ADMIN_OPERATION, CommandFailed
from kavka.cli.text.stored_json import compact
from kavka.client.admin.placement_plans import (
    Assignment,
    RacksMissing,
    TooFewBrokers,
    proposed_assignment,
)
from kavka.client.admin.replica_log_dirs import Replica
from kavka.client.metadata import BrokerAddress
from kavka.ids import TopicPartition
from kavka.io import Random
from kavka.settings.text_files import MAX_DOCUMENT, read_text

_ANY = "any"
"""The log directory of a replica that may lie in any."""


class Plan(NamedTuple):
    """The target replicas; `entries` is as it was written, a partition may be in it twice."""

    entries: list[tuple[TopicPartition, list[int]]]
    log_dirs: dict[Replica, str]

    @property
    def targets(self) -> dict[TopicPartition, list[int]]:
        """The brokers of each partition."""
        return dict(self.entries)


# Reading


def read_plan(path: str) -> Plan:
    """Return the plan of a `--reassignment-json-file`. Raise CommandFailed."""
    document = _checked_version(_read_json(path))
    entries: list[tuple[TopicPartition, list[int]]] = []
    log_dirs: dict[Replica, str] = {}
    for part in _list(document.get("partitions", []), "partitions"):
        topic_partition = TopicPartition(_text(part, "topic"), _whole(_field(part, "partition")))
        replicas = [_whole(broker) for broker in _list(_field(part, "replicas"), "replicas")]
        paths = (
            _list(part["log_dirs"], "log_dirs") if "log_dirs" in part else [_ANY] * len(replicas)
        )
        if len(paths) != len(replicas):
            raise CommandFailed(
                ADMIN_COMMAND_FAILED,
                f"Size of replicas list {replicas} is different from size of log dirs list "
                f"[{', '.join(map(str, paths))}] for partition {topic_partition}",
            )
        entries.append((topic_partition, replicas))
        log_dirs.update(
            (Replica(*topic_partition, broker), str(path))
            for broker, path in zip(replicas, paths, strict=True)
            if path != _ANY
        )
    return Plan(entries, log_dirs)


def check_executable(plan: Plan) -> None:
    """Raise CommandFailed for a plan without partitions or replicas, and for one that names something twice."""
    if not plan.entries:
        raise CommandFailed(ADMIN_COMMAND_FAILED, "Partition reassignment list cannot be empty")
    if not all(replicas for _, replicas in plan.entries):
        raise CommandFailed(ADMIN_COMMAND_FAILED, "Partition replica list cannot be empty")
    twice = duplicates(topic_partition for topic_partition, _ in plan.entries)
    if twice:
        raise CommandFailed(
            ADMIN_COMMAND_FAILED,
            f"Partition reassignment contains duplicate topic partitions: {','.join(map(str, twice))}",
        )
    lines = [
        f"{topic_partition} contains multiple entries for {','.join(map(str, duplicates(replicas)))}"
        for topic_partition, replicas in plan.entries
        if duplicates(replicas)
    ]
    if lines:
        raise CommandFailed(
            ADMIN_COMMAND_FAILED,
            f"Partition replica lists may not contain duplicate entries: {'. '.join(lines)}",
        )


def read_topics(path: str) -> list[str]:
    """Return the names in a `--topics-to-move-json-file`. Raise CommandFailed."""
    document = _checked_version(_read_json(path))
    topics = [_text(topic, "topic") for topic in _list(document.get("topics", []), "topics")]
    twice = duplicates(topics)
    if twice:
        raise CommandFailed(
            ADMIN_COMMAND_FAILED,
            f"List of topics to reassign contains duplicate entries: [{', '.join(twice)}]",
        )
    return topics


def read_brokers(text: str) -> list[int]:
    """Return the ids of a `--broker-list`. Raise CommandFailed."""
    brokers = []
    for word in text.split(","):
        try:
            brokers.append(whole_number(word, 32))
        except ValueError:
            raise CommandFailed(
                "java.lang.NumberFormatException", f'For input string: "{word}"'
            ) from None
    twice = duplicates(brokers)
    if twice:
        raise CommandFailed(
            ADMIN_COMMAND_FAILED, f"Broker list contains duplicate entries: {twice}"
        )
    return brokers


def duplicates(things: Iterable[Any]) -> list[Any]:
    """Return what is there more than once."""
    listed = list(things)
    return [thing for thing in dict.fromkeys(listed) if listed.count(thing) > 1]


def _read_json(path: str) -> Any:
    try:
        text = read_text(path, MAX_DOCUMENT)
    except OSError:
        raise CommandFailed("java.io.IOException", f"Unable to read file {path}") from None
    except ValueError as error:
        raise CommandFailed(ADMIN_OPERATION, f"{path}: {error}") from None
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CommandFailed(ADMIN_OPERATION, f"{path} is not a valid JSON: {error}") from None


def _checked_version(document: Any) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise CommandFailed(ADMIN_OPERATION, "The input string is not a valid JSON")
    version = document.get("version", 1)
    if version != 1:
        raise CommandFailed(ADMIN_OPERATION, f"Not supported version field value {version}")
    return document


def _field(part: Any, name: str) -> Any:
    if not isinstance(part, dict) or name not in part:
        raise CommandFailed(ADMIN_OPERATION, f"No such field exists: `{name}`")
    return part[name]


def _text(part: Any, name: str) -> str:
    value = _field(part, name)
    if not isinstance(value, str):
        raise CommandFailed(ADMIN_OPERATION, f"Expected `String` value, received {compact(value)}")
    return value


def _whole(value: Any) -> int:
    if type(value) is not int or not -(2**31) <= value < 2**31:
        raise CommandFailed(ADMIN_OPERATION, f"Expected `Integer` value, received {compact(value)}")
    return value


def _list(value: Any, name: str) -> list[Any]:
    if not isinstance(value, list):
        raise CommandFailed(
            ADMIN_OPERATION, f"Expected a list for `{name}`, received {compact(value)}"
        )
    return value


# Writing


def plan_json(assignment: Assignment, log_dirs: Mapping[Replica, str] | None = None) -> str:
    """Return a plan as the JSON that `--reassignment-json-file` takes, sorted."""
    paths = log_dirs or {}
    partitions = [
        {
            "topic": topic_partition.topic,
            "partition": topic_partition.partition,
            "replicas": list(replicas),
            "log_dirs": [paths.get(Replica(*topic_partition, broker), _ANY) for broker in replicas],
        }
        for topic_partition, replicas in sorted(assignment.items())
    ]
    return compact({"version": 1, "partitions": partitions})


# Generating


def generate(
    current: Assignment, brokers: Sequence[BrokerAddress], rack_aware: bool, random: Random
) -> dict[TopicPartition, list[int]]:
    """Return `proposed_assignment`, with the failures of Kafka's tool. Raise CommandFailed."""
    try:
        return proposed_assignment(current, brokers, rack_aware, random)
    except TooFewBrokers as error:
        raise CommandFailed(
            "org.apache.kafka.common.errors.InvalidReplicationFactorException", str(error)
        ) from None
    except RacksMissing as error:
        raise CommandFailed(
            ADMIN_OPERATION,
            f"{error} Add --disable-rack-aware in command line to make replica assignment without rack information.",
        ) from None
