"""`kavka delete-records`: delete the records below offsets, as `kafka-delete-records.sh` does."""

from __future__ import annotations

import sys

from kavka.cli.admin.connection import with_admin
from kavka.cli.admin.elections import print_failure
from kavka.cli.arguments.options import JSON, BadValue, Given, Option, OptionSet
from kavka.cli.json_lines import shapes
from kavka.cli.json_lines.lines import print_outcomes
from kavka.cli.json_rows.topics import deleted_records_rows
from kavka.cli.text.failures import ADMIN_OPERATION
from kavka.cli.text.java_errors import spelt_together
from kavka.cli.text.progress import progress
from kavka.client.admin.admin import Admin
from kavka.errors import KafkaError
from kavka.ids import TopicPartition
from kavka.settings.text_files import MAX_DOCUMENT, read_text

_AT_ONCE = 500
"""Partitions in one request."""

OPTIONS = OptionSet(
    "This tool helps to delete records of the given partitions down to the specified offset.",
    Option(
        "offset-json-file",
        'REQUIRED: a file such as {"partitions": [{"topic": "t", "partition": 0, "offset": 10}], "version": 1}; '
        "offset -1 deletes all records.",
        "file",
    ),
    JSON,
)


class _Unreadable(BadValue):
    """The file is not there, or may not be read."""


def main(argv: list[str]) -> int:
    """Run the command; 1 when the file cannot be used. Errors of brokers are printed with exit code 0, as in Kafka."""
    return OPTIONS.run(argv, _act)


def _act(given: Given) -> int:
    given.require("bootstrap-server", "offset-json-file")
    try:
        offsets = read_offsets(given.text("offset-json-file"))
    except BadValue as error:
        if given.has("json"):
            raise
        is_unreadable = isinstance(error, _Unreadable)
        return print_failure(
            "java.io.IOException" if is_unreadable else ADMIN_OPERATION, str(error)
        )

    async def act(admin: Admin) -> int:
        if given.has("json"):
            rows = deleted_records_rows(await _deleted(admin, offsets))
            return print_outcomes(shapes.DELETED_RECORDS, rows)
        print("Executing records delete operation")
        outcomes = await _deleted(admin, offsets)
        print("Records delete operation completed:")
        for topic_partition in offsets:
            outcome = outcomes[topic_partition]
            if isinstance(outcome, KafkaError):
                print(
                    f"partition: {topic_partition}\terror: {spelt_together(outcome, by_code=True)}"
                )
            else:
                print(f"partition: {topic_partition}\tlow_watermark: {outcome}")
        return 0

    return with_admin(given, act, lambda error: _failed(spelt_together(error)))


async def _deleted(
    admin: Admin, offsets: dict[TopicPartition, int]
) -> dict[TopicPartition, int | KafkaError]:
    """Delete records, of some partitions after the others, and return the outcomes in the order of the file."""
    wanted = list(offsets.items())
    outcomes: dict[TopicPartition, int | KafkaError] = {}
    with progress("deleting records", len(wanted), "partitions") as shown:
        for start in range(0, len(wanted), _AT_ONCE):
            outcomes |= await admin.delete_records(dict(wanted[start : start + _AT_ONCE]))
            shown.update(len(outcomes))
    return {topic_partition: outcomes[topic_partition] for topic_partition in offsets}


def _failed(sentence: str) -> int:
    print(sentence, file=sys.stderr)
    return 1


def read_offsets(path: str) -> dict[TopicPartition, int]:
    """Return the offsets of a file. Raise BadValue when it cannot be read, or names a partition twice."""
    import json

    try:
        text = read_text(path, MAX_DOCUMENT)
    except OSError:
        raise _Unreadable(f"Unable to read file {path}") from None
    except ValueError as error:
        raise BadValue(f"{path}: {error}") from None
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise BadValue("The input string is not a valid JSON") from None
    try:
        if int(document.get("version", 1)) != 1:
            raise BadValue(f"Not supported version field value {document['version']}")
        parts = [
            (
                TopicPartition(_text(part["topic"]), _whole(part["partition"])),
                _whole(part["offset"]),
            )
            for part in document["partitions"]
        ]
    except KeyError as error:
        missing = str(error).strip("'")
        if missing == "partitions":
            raise BadValue("Missing partitions field") from None
        raise BadValue(f"Missing {missing} field in {path}") from None
    except (TypeError, ValueError, AttributeError):
        raise BadValue(f"{path} is not of the form that --help shows") from None
    offsets = dict(parts)
    if len(offsets) < len(parts):
        names = [topic_partition for topic_partition, _ in parts]
        doubled = dict.fromkeys(
            str(topic_partition) for topic_partition in names if names.count(topic_partition) > 1
        )
        raise BadValue(f"Offset json file contains duplicate topic partitions: {','.join(doubled)}")
    return offsets


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def _whole(value: object) -> int:
    """Refuse what `int` would round: records below a wrong offset do not come back."""
    if type(value) is not int:
        raise TypeError(value)
    return value
