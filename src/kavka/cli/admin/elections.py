"""Elections that a tool asks for: of which partitions, and what became of them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import TypeVar

from kavka.cli.json_lines import shapes
from kavka.cli.json_lines.lines import print_outcomes as print_outcomes_as_json
from kavka.cli.json_rows.moves import election_rows
from kavka.cli.reassignment.plans import duplicates
from kavka.cli.text.failures import ADMIN_COMMAND_FAILED, ADMIN_OPERATION, CommandFailed
from kavka.cli.text.java_errors import spelt_together
from kavka.client.admin.admin import Admin
from kavka.client.admin.elections import ElectionType
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import TopicPartition
from kavka.settings.text_files import MAX_DOCUMENT, read_text

T = TypeVar("T")


def read_partitions(path: str) -> list[TopicPartition]:
    """Return the partitions of `{"partitions": [{"topic": "t", "partition": 0}]}`. Raise CommandFailed."""
    try:
        text = read_text(path, MAX_DOCUMENT)
    except OSError:
        sentence = f"java.io.IOException: Unable to read file {path}"
        raise CommandFailed("java.lang.RuntimeException", sentence) from None
    except ValueError as error:
        raise CommandFailed(ADMIN_OPERATION, f"{path}: {error}") from None
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise CommandFailed(ADMIN_OPERATION, "Replica election data is empty") from None
    if not isinstance(document, dict) or "partitions" not in document:
        sentence = 'Replica election data is missing "partitions" field'
        raise CommandFailed(ADMIN_OPERATION, sentence)
    try:
        partitions = [
            TopicPartition(_checked(part["topic"], str), _number(part["partition"]))
            for part in document["partitions"]
        ]
    except (KeyError, TypeError):
        sentence = f'{path} is not of the form {{"partitions": [{{"topic": "t", "partition": 0}}]}}'
        raise CommandFailed(ADMIN_OPERATION, sentence) from None
    twice = duplicates(partitions)
    if twice:
        listed = ", ".join(map(str, twice))
        raise CommandFailed(
            ADMIN_OPERATION, f"Replica election data contains duplicate partitions: [{listed}]"
        )
    return partitions


def _number(value: object) -> int:
    number = _checked(value, int)
    if not -(1 << 31) <= number < 1 << 31:
        raise TypeError(value)
    return number


def _checked(value: object, kind: type[T]) -> T:
    if type(value) is not kind:
        raise TypeError(value)
    return value


async def elect(
    admin: Admin,
    kind: ElectionType,
    partitions: Iterable[TopicPartition] | None,
    *,
    as_json: bool,
) -> int:
    """Elect leaders of partitions, by default all, print the outcomes and return the exit code.

    Raise CommandFailed when some failed, KafkaError, TimeoutError.
    """
    if as_json:
        rows = election_rows(kind, await admin.elect_leaders(kind, partitions))
        return print_outcomes_as_json(shapes.ELECTION, rows)
    try:
        outcomes = await admin.elect_leaders(kind, partitions)
    except TimeoutError as error:
        print("Timeout waiting for election results")
        raise CommandFailed(ADMIN_COMMAND_FAILED, "Timeout waiting for election results") from error
    except KafkaError as error:
        if error.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            print("Not authorized to perform leader election")
            sentence = "Not authorized to perform leader election"
            raise CommandFailed(ADMIN_COMMAND_FAILED, sentence) from error
        raise
    print_outcomes(kind, outcomes)
    return 0


def print_outcomes(kind: ElectionType, outcomes: dict[TopicPartition, KafkaError | None]) -> None:
    """Print what became of elections. Raise CommandFailed when some could not be held."""
    elected = [
        topic_partition for topic_partition, error in sorted(outcomes.items()) if error is None
    ]
    failed = {
        topic_partition: error
        for topic_partition, error in sorted(outcomes.items())
        if error is not None
    }
    needless = [
        topic_partition
        for topic_partition, error in failed.items()
        if error.code is ErrorCode.ELECTION_NOT_NEEDED
    ]
    if elected:
        print(
            f"Successfully completed leader election ({kind.name}) for partitions {_listed(elected)}"
        )
    if needless:
        print(f"Valid replica already elected for partitions {_listed(needless)}")
    for topic_partition in needless:
        del failed[topic_partition]
    for topic_partition, error in failed.items():
        print(
            f"Error completing leader election ({kind.name}) for partition: {topic_partition}: {spelt_together(error)}"
        )
    if failed:
        raise CommandFailed(ADMIN_COMMAND_FAILED, f"{len(failed)} replica(s) could not be elected")


def print_failure(name: str, sentence: str) -> int:
    """Print a failure as Kafka's tool does, without the frames of its stack, and return the exit code."""
    print(f"{sentence}\n{name}: {sentence}\n", file=sys.stderr)
    return 1


def _listed(partitions: list[TopicPartition]) -> str:
    return ", ".join(map(str, partitions))
