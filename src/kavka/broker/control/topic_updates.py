"""Changes of topics by an UpdateMetadata. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kavka.broker.control.control_request_messages import TopicStates
from kavka.broker.metadata.cache import PartitionMetadata, TopicMetadata
from kavka.ids import NO_TOPIC_ID, BrokerId, TopicId
from kavka.wire.messages.update_metadata import UpdateMetadataRequestPartition

LEADER_DURING_DELETE: Final = BrokerId(-2)
_UNKNOWN = PartitionMetadata(BrokerId(-1), -1, (), (), -1)
_MAX_UNSENT: Final = 10_000
_MAX_UNSENT_PER_STATE: Final = 10
"""Maximum of unsent partitions below those of a request, for each of its states."""


def is_sensible(changes: TopicStates, topics: Mapping[str, TopicMetadata]) -> bool:
    """Return whether the named partitions are about all that there are.

    The metadata of a topic has an entry for every partition below the largest; a few may not be sent yet.
    """
    unknown, named = 0, 0
    for topic, (_topic_id, states) in changes.items():
        indexes = [state.partition_index for state in states]
        if min(indexes, default=0) < 0:
            return False
        known = topics.get(topic)
        places = 0 if known is None else len(known.partitions)
        unknown += max(0, max(indexes, default=-1) + 1 - places)
        named += len(states)
    return unknown <= _MAX_UNSENT + _MAX_UNSENT_PER_STATE * named


def updated_topic(
    name: str,
    topic_id: TopicId,
    states: list[UpdateMetadataRequestPartition],
    known: TopicMetadata | None,
) -> TopicMetadata | None:
    """Return a topic after the changes to its partitions; None when all of them are being deleted."""
    partitions = list(known.partitions) if known is not None else []
    has_same_id = known is not None and NO_TOPIC_ID != topic_id == known.topic_id
    for state in states:
        missing = state.partition_index + 1 - len(partitions)
        partitions += [_UNKNOWN] * missing
        if has_same_id and _is_older(state, partitions[state.partition_index]):
            continue
        partitions[state.partition_index] = PartitionMetadata(
            BrokerId(state.leader),
            state.leader_epoch,
            tuple(map(BrokerId, state.replicas)),
            tuple(map(BrokerId, state.isr)),
            state.zk_version,
            tuple(map(BrokerId, state.offline_replicas)),
        )
    if all(partition.leader == LEADER_DURING_DELETE for partition in partitions):
        return None
    if topic_id == NO_TOPIC_ID and known is not None:
        topic_id = known.topic_id
    return TopicMetadata(name, topic_id, tuple(partitions))


def _is_older(state: UpdateMetadataRequestPartition, known: PartitionMetadata) -> bool:
    """Return whether a later request has come before this one.

    A controller that waits no longer for a response closes its connection and sends again by another one. What it had
    sent may still be on its way, over a slow link.
    """
    if state.leader == LEADER_DURING_DELETE:
        return False
    return (state.leader_epoch, state.zk_version) < (known.leader_epoch, known.partition_epoch)
