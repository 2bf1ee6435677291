"""Topics of logs that nobody registered: a directory that Apache Kafka wrote, or one whose registry was lost."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from kavka.broker.known_topics import NOT_TOPICS
from kavka.broker.metadata import INTERNAL_TOPICS
from kavka.core.controller.records import StateCreated, TopicCreated, operations_of
from kavka.core.controller.state import Assignment
from kavka.core.znodes import Operation
from kavka.doors import Chance
from kavka.ids import BrokerId, TopicId, TopicPartition
from kavka.wire.stored.znodes import StateNode

log = logging.getLogger(__name__)


def adopted_topics(
    found: Mapping[str, Mapping[int, TopicId | None]], broker_id: BrokerId, chance: Chance
) -> list[Operation]:
    """Return what makes topics of the logs that a start found, led by this broker alone.

    Only the first controller of a registry does this, in the multi that elects it. No later start adopts anything:
    an unknown log is then one of a deleted topic.
    """
    operations: list[Operation] = []
    own = int(broker_id)
    for name, logs in sorted(found.items()):
        if name in NOT_TOPICS:
            continue
        given = [topic_id for topic_id in logs.values() if topic_id is not None]
        topic_id = given[0] if given else TopicId(chance.random_bytes(16))
        count = max(logs) + 1
        config = {"cleanup.policy": "compact"} if name in INTERNAL_TOPICS else {}
        assignments = {partition: Assignment((own,)) for partition in range(count)}
        operations += operations_of(TopicCreated(name, topic_id, assignments, config))
        node = StateNode(own, 0, 1, [own])
        for partition in range(count):
            where = TopicPartition(name, partition)
            operations += operations_of(StateCreated(where, node, False, True))
        log.warning("topic adopted from its logs topic=%s partitions=%d", name, count)
    return operations
