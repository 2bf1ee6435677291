"""`kavka consumer-groups --delete` and `--delete-offsets`."""

from __future__ import annotations

from kavka.cli.arguments.options import Given
from kavka.cli.arguments.topic_partitions import TopicArgument, topic_arguments
from kavka.cli.groups.description import consumer_groups
from kavka.cli.groups.tables import Column, print_error, show, table
from kavka.cli.json_lines import shapes
from kavka.cli.json_lines.lines import print_outcomes
from kavka.cli.json_rows.groups import deleted_group_rows, deleted_offset_rows
from kavka.cli.text.java_errors import sentence, spelt_together
from kavka.client.admin.admin import Admin
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import TopicPartition

_STATUS_COLUMNS = (
    Column("TOPIC", 15, grows=False),
    Column("PARTITION", 10, grows=False),
    Column("STATUS", 15, grows=False),
)


async def delete_groups(admin: Admin, given: Given, timeout_ms: int) -> int:
    """Delete groups and print those that could not be deleted."""
    if given.has("all-groups"):
        names = [group.group_id for group in await consumer_groups(admin)]
    else:
        names = list(dict.fromkeys(given.all("group")))
    outcomes = await admin.delete_groups(names, timeout_ms=timeout_ms)
    if given.has("json"):
        return print_outcomes(shapes.DELETED_GROUP, deleted_group_rows(outcomes))
    failed = {name: error for name, error in outcomes.items() if error is not None}
    done = ", ".join(f"'{name}'" for name in outcomes if name not in failed)
    if not failed:
        show(f"Deletion of requested consumer groups ({done}) was successful.\n")
        return 0
    print_error("Deletion of some consumer groups failed:")
    for name, error in failed.items():
        reason = spelt_together(error, by_code=True)
        show(f"* Group '{name}' could not be deleted due to: {reason}\n")
    if done:
        show(f"\nThese consumer groups were deleted successfully: {done}\n")
    return 0


async def delete_offsets(admin: Admin, given: Given, timeout_ms: int) -> int:
    """Delete offsets of one group and print the outcome of each partition."""
    group = given.text("group")
    partitions, unknown = await _partitions(admin, topic_arguments(given.all("topic")))
    statuses: dict[TopicPartition, KafkaError | None] = {}
    if given.has("json"):
        if partitions:
            statuses = await admin.delete_group_offsets(group, partitions, timeout_ms=timeout_ms)
        rows_of = deleted_offset_rows(group, unknown, statuses)
        return print_outcomes(shapes.DELETED_OFFSET, rows_of)
    try:
        if partitions:
            statuses = await admin.delete_group_offsets(group, partitions, timeout_ms=timeout_ms)
    except KafkaError as error:
        statuses = dict.fromkeys(partitions, error)
        _print_group_error(group, error)
    else:
        if any(status is not None for status in statuses.values()):
            print_error("Encountered some partition-level error, see the follow-up details.")
        else:
            show(f"Request succeeded for deleting offsets from group {group}.\n")
    missing = f"Error: {spelt_together(KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))}"
    rows: list[tuple[object, ...]] = [(topic, "-", missing) for topic in unknown]
    rows += [
        (topic_partition.topic, topic_partition.partition, _status(status))
        for topic_partition, status in sorted(statuses.items(), key=lambda s: s[0])
    ]
    show("\n" + table(_STATUS_COLUMNS, rows))
    return 0


def _print_group_error(group: str, error: KafkaError) -> None:
    match error.code:
        case ErrorCode.INVALID_GROUP_ID:
            print_error(f"'{group}' is not valid.")
        case ErrorCode.GROUP_ID_NOT_FOUND:
            print_error(sentence(error.code))
        case ErrorCode.NON_EMPTY_GROUP:
            print_error(
                f"Deleting offsets of a consumer group '{group}' is forbidden if the group is not empty."
            )
        case _:
            raise error


def _status(error: KafkaError | None) -> str:
    return "Successful" if error is None else f"Error: {spelt_together(error, by_code=True)}"


async def _partitions(
    admin: Admin, wanted: list[TopicArgument]
) -> tuple[list[TopicPartition], list[str]]:
    """Return the partitions that are meant, and the topics that do not exist."""
    found = [TopicPartition(w.topic, p) for w in wanted for p in w.partitions or ()]
    whole = [w.topic for w in wanted if w.partitions is None]
    unknown = []
    for name, topic in (await admin.describe_topics(whole)).items() if whole else ():
        if isinstance(topic, KafkaError):
            unknown.append(name)
        else:
            found.extend(TopicPartition(name, part.partition) for part in topic.partitions)
    return found, unknown
