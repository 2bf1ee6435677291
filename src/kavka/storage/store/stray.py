"""Stray logs: they belong to no partition of the cluster, so they are renamed.

    my-topic-0  ->  my-topic-0.<32 hex digits>-stray

That happens to the log of a topic that was deleted while its log directory was offline, or deleted and created again:
its topic id is not the topic's. As in Kafka it is never removed; an operator who needs the records renames the
directory.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from kavka.ids import TopicId, TopicPartition
from kavka.io import Disk
from kavka.storage.checkpoint.files import read_file
from kavka.storage.checkpoint.partition_metadata import (
    PARTITION_METADATA,
    decode_partition_metadata,
)
from kavka.storage.directory.directory_names import STRAY_SUFFIX, other_name
from kavka.storage.directory.log_directory import LogDirectory

logger = logging.getLogger(__name__)

IsStray = Callable[[TopicPartition, TopicId | None], bool]
"""Returns whether the log of a partition is stray, given its topic id where it has one."""


async def rename_strays(
    directory: LogDirectory, found: list[TopicPartition], is_stray: IsStray
) -> list[TopicPartition]:
    """Rename the stray ones among the partitions that were found, and return the others. Raise OSError."""
    disk, path = directory.disk, directory.path
    topic_ids = await disk.run(_topic_ids, disk, path, found)
    strays = [
        topic_partition
        for topic_partition in found
        if is_stray(topic_partition, topic_ids[topic_partition])
    ]
    for topic_partition in strays:
        aside = (
            f"{path}/{other_name(topic_partition, directory.random.random_bytes(16), STRAY_SUFFIX)}"
        )
        await disk.run(disk.rename, f"{path}/{topic_partition}", aside)
        logger.warning("stray log renamed log=%s path=%s", topic_partition, aside)
    if strays:
        await disk.run(disk.sync_directory, path)
    set_aside = set(strays)
    return [topic_partition for topic_partition in found if topic_partition not in set_aside]


def _topic_ids(
    disk: Disk, path: str, found: Iterable[TopicPartition]
) -> dict[TopicPartition, TopicId | None]:
    """Return the stored topic id of each partition, None where there is none that can be read. It blocks."""
    ids: dict[TopicPartition, TopicId | None] = {}
    for topic_partition in found:
        content = read_file(disk, f"{path}/{topic_partition}/{PARTITION_METADATA}")
        try:
            ids[topic_partition] = None if content is None else decode_partition_metadata(content)
        except ValueError:
            ids[topic_partition] = None  # said when the log is opened
    return ids
