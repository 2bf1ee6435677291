"""The topics of the registry at the start, which decide about the logs found on disk.

    registry      log's topic                       the log
    new           any                               is hosted; adopted, where the registry is the broker's own
    not new       known, same topic id or none      is hosted
    not new       known, another topic id           is renamed to `-stray`: the topic was deleted and created again
    not new       unknown                           is renamed to `-stray`: the topic was deleted

Topics are deleted, or created again, while the directory of one of their logs is offline. A registry is new until its
first controller is elected; `control.adoption` says what adopting is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from kavka.ids import NO_TOPIC_ID, TopicId, TopicPartition, are_other_topics
from kavka.registry.interface import Registry, RegistryRefused, decode_or_none, require_no_node
from kavka.wire.stored import znodes

NOT_TOPICS = frozenset({"__cluster_metadata"})
"""Logs that look like a topic's in a directory of a KRaft broker; they are left alone."""


class KnownTopics:
    """The topics of a registry by name, with their ids."""

    def __init__(self, ids: Mapping[str, TopicId] | None) -> None:
        """`ids` are None for a new registry."""
        self._ids = ids

    @property
    def ids(self) -> Mapping[str, TopicId]:
        """The topic ids by name, NO_TOPIC_ID for a topic without one; empty for a new registry."""
        return self._ids or {}

    @classmethod
    async def read(cls, registry: Registry) -> KnownTopics:
        """Ask the registry. Raise ConnectionError without it."""
        if await registry.stat(znodes.CONTROLLER_EPOCH) is None:
            return cls(None)
        names = await registry.children(znodes.TOPICS)
        ids = await asyncio.gather(*(_topic_id(registry, name) for name in names))
        pairs = zip(names, ids, strict=True)
        return cls({name: topic_id for name, topic_id in pairs if topic_id is not None})

    def is_stray(self, topic_partition: TopicPartition, topic_id: TopicId | None) -> bool:
        """Return whether a log with this topic id belongs to no topic."""
        if self._ids is None or topic_partition.topic in NOT_TOPICS:
            return False
        known = self._ids.get(topic_partition.topic)
        if known is None:
            return True
        return are_other_topics(known, topic_id or NO_TOPIC_ID)


async def _topic_id(registry: Registry, name: str) -> TopicId | None:
    """Return the id of a topic, None when it has gone meanwhile."""
    try:
        data, _stat = await registry.get(znodes.topic_path(name))
    except RegistryRefused as refused:
        require_no_node(refused)
        return None
    node = decode_or_none(data, znodes.TopicNode.decode, znodes.topic_path(name))
    # Of a topic that cannot be read no log is renamed.
    return NO_TOPIC_ID if node is None else node.topic_id
