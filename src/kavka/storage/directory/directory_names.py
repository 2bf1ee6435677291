"""Names of the directories in a log directory.

<topic>-<partition>                     a partition's log
<topic>-<partition>.<unique>-future     its copy, on the way to replace the log in another log directory
<topic>-<partition>.<unique>-delete     on its way out
<topic>-<partition>.<unique>-stray      of no partition of the cluster, and kept
"""

from __future__ import annotations

import re

from kavka.ids import TopicPartition

DELETE_SUFFIX = "-delete"
FUTURE_SUFFIX = "-future"
STRAY_SUFFIX = "-stray"
_MAX_NAME_LENGTH = 255
_PARTITION = re.compile(r"(?P<topic>[A-Za-z0-9._-]+)-(?P<partition>\d+)")
_FUTURE = re.compile(r"(?P<topic>[A-Za-z0-9._-]+)-(?P<partition>\d+)\.[^.\s]+-future")


def partition_of(name: str) -> TopicPartition | None:
    """Return the partition of the log in a directory, None for all other directories."""
    match = _PARTITION.fullmatch(name)
    return match and TopicPartition(match["topic"], int(match["partition"]))


def future_partition_of(name: str) -> TopicPartition | None:
    """Return the partition of which the directory holds a future log, None for all other directories."""
    match = _FUTURE.fullmatch(name)
    return match and TopicPartition(match["topic"], int(match["partition"]))


def other_name(topic_partition: TopicPartition, uuid: bytes, suffix: str) -> str:
    """Return the name of a partition's directory that is out of use, the topic cut where a name would be too long."""
    rest = f"-{topic_partition.partition}.{uuid.hex()}{suffix}"
    return topic_partition.topic[: _MAX_NAME_LENGTH - len(rest)] + rest


def future_name(topic_partition: TopicPartition, uuid: bytes) -> str:
    """Return the name for a future log; the topic must stay whole, so the unique part gives way.

    Raise ValueError when there is no room for one.
    """
    room = _MAX_NAME_LENGTH - len(f"{topic_partition}.{FUTURE_SUFFIX}")
    if room < 1:
        raise ValueError(
            f"the name of {topic_partition} leaves no room for the directory of a future log"
        )
    return f"{topic_partition}.{uuid.hex()[:room]}{FUTURE_SUFFIX}"
