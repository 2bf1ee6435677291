"""Stray logs: they belong to no partition of the cluster any more, so they are set aside under another name.

    my-topic-0  ->  my-topic-0.<32 hex digits>-stray

That happens to the log of a topic that was deleted while its log directory was offline, or deleted and created again:
its topic id is not the topic's. As in Kafka nothing removes it; whoever wants the records back renames the directory.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from kavka.doors import Disk
from kavka.ids import TopicId, TopicPartition
from kavka.storage.checkpoint import read_file
from kavka.storage.directory_names import STRAY_SUFFIX, other_name
from kavka.storage.log_directory import LogDirectory
from kavka.storage.partition_metadata import PARTITION_METADATA, decode_partition_metadata

logger = logging.getLogger(__name__)

IsStray = Callable[[TopicPartition, TopicId | None], bool]
"""Tells by a log's partition, and its topic id where it has one, whether the log is to be set aside."""


async def set_strays_aside(
    directory: LogDirectory, found: list[TopicPartition], is_stray: IsStray
) -> list[TopicPartition]:
    """Rename the stray ones among the partitions that were found, and return the others. Raise OSError."""
    disk, path = directory.disk, directory.path
    topic_ids = await disk.run(_topic_ids, disk, path, found)
    strays = [where for where in found if is_stray(where, topic_ids[where])]
    for where in strays:
        aside = f"{path}/{other_name(where, directory.chance.random_bytes(16), STRAY_SUFFIX)}"
        await disk.run(disk.rename, f"{path}/{where}", aside)
        logger.warning("stray log set aside log=%s path=%s", where, aside)
    if strays:
        await disk.run(disk.sync_directory, path)
    set_aside = set(strays)
    return [where for where in found if where not in set_aside]


def _topic_ids(
    disk: Disk, path: str, found: Iterable[TopicPartition]
) -> dict[TopicPartition, TopicId | None]:
    """Return the stored topic id of each partition, None where there is none that can be read. It blocks."""
    ids: dict[TopicPartition, TopicId | None] = {}
    for where in found:
        content = read_file(disk, f"{path}/{where}/{PARTITION_METADATA}")
        try:
            ids[where] = None if content is None else decode_partition_metadata(content)
        except ValueError:
            ids[where] = None  # said when the log is opened
    return ids
