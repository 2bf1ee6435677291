"""The parts that are notified when a partition changes, and their order.

    1  metadata cache      a leader with a failed log is not shown: clients, answered below, ask for the leader
    2  replica fetchers    fetching in the old role stops
    3  the replica         takes epoch and last stable offset of the new role, and notifies followers' sessions
    4  moves               a move to another directory that was interrupted continues
    5  coordinators        resign, or begin, before any request that waits below is answered and comes again
    6  produce purgatory   what waits for other replicas is judged by the new role, and by the disk it has now
    7  fetch purgatory     consumers are answered with what there is
    8  replica fetchers    last: what is fetched, or proposed for the in-sync set, belongs to the new role alone

Coordinators, replication and moves are imported and made when the first event needs them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from kavka.broker.metadata.cache import INTERNAL_TOPICS, MetadataCache
from kavka.broker.partitions.partition_events import (
    PartitionChange,
    PartitionEvent,
    PartitionEvents,
)
from kavka.broker.requests.purgatory import Purgatory
from kavka.ids import TopicPartition
from kavka.storage.store.log_store import LogStore

if TYPE_CHECKING:
    from kavka.broker.coordination.coordinators import Coordinators
    from kavka.broker.lazy import Lazy
    from kavka.broker.replication.alter_log_dirs import AlterLogDirsManager
    from kavka.broker.replication.replication_manager import ReplicationManager


class PartitionSubscribers:
    """The order in which the parts are notified of a partition's change."""

    def __init__(
        self,
        metadata: MetadataCache,
        store: LogStore,
        replication_manager: Lazy[ReplicationManager],
        alter_log_dirs: Lazy[AlterLogDirsManager],
        coordinators: Mapping[str, Coordinators[Any]],
        coordinators_of: Callable[[str], Coordinators[Any] | None],
        produce_purgatory: Purgatory,
        fetch_purgatory: Purgatory,
    ) -> None:
        """`coordinators` are those that there are so far, by topic; `coordinators_of` makes those of a topic."""
        self._metadata = metadata
        self._store = store
        self._replication_manager = replication_manager
        self._alter_log_dirs = alter_log_dirs
        self._coordinators = coordinators
        self._coordinators_of = coordinators_of
        self._produce_purgatory = produce_purgatory
        self._fetch_purgatory = fetch_purgatory

    def subscribe_to(self, events: PartitionEvents) -> None:
        """Subscribe all parts, in the order that stands above."""
        hosted, role_changed = PartitionChange.HOSTED, PartitionChange.ROLE_CHANGED
        stopped, resumed = PartitionChange.STOPPED, PartitionChange.RESUMED
        failed, deleted = PartitionChange.LOG_FAILED, PartitionChange.DELETED
        replaced, low_watermark = PartitionChange.LOG_REPLACED, PartitionChange.LOW_WATERMARK_MOVED
        for subscriber, changes in (
            (self._clear_leader, (failed,)),
            (self._stop_fetching, (role_changed, stopped, failed, deleted)),
            (self._notify_replica, (role_changed, failed, deleted)),
            (self._resume_move, (hosted,)),
            (self._coordinate, (role_changed, failed, deleted)),
            (self._check_produces, (role_changed, failed, deleted, replaced, low_watermark)),
            (self._release_fetches, (role_changed, failed, deleted)),
            (self._begin_replication, (role_changed, resumed)),
        ):
            events.subscribe(subscriber, *changes)
        events.subscribe_to_high_watermarks(self._produce_purgatory.check_and_complete)
        events.subscribe_to_high_watermarks(self._fetch_purgatory.check_and_complete)
        for topic in INTERNAL_TOPICS:
            events.subscribe_to_high_watermarks(self._committed, topic)

    def _clear_leader(self, event: PartitionEvent) -> None:
        if event.replica.partition.is_leader:
            self._metadata.clear_leader(event.topic_partition)

    def _stop_fetching(self, event: PartitionEvent) -> None:
        replication_manager = self._replication_manager.made
        if replication_manager is not None:
            replication_manager.unfollow(event.topic_partition)

    def _notify_replica(self, event: PartitionEvent) -> None:
        if event.change is PartitionChange.ROLE_CHANGED:
            event.replica.role_changed()
        else:
            event.replica.notify_observers()

    def _resume_move(self, event: PartitionEvent) -> None:
        if self._store.future(event.topic_partition) is not None:
            self._alter_log_dirs.get().resume(event.replica)

    def _coordinate(self, event: PartitionEvent) -> None:
        topic_partition = event.topic_partition
        if event.change is not PartitionChange.ROLE_CHANGED:
            coordinators = self._coordinators.get(topic_partition.topic)
            if coordinators is not None:
                coordinators.resign(topic_partition.partition)
            return
        coordinators = self._coordinators_of(topic_partition.topic)
        if coordinators is None:
            return
        if event.stays_leader:
            coordinators.continue_leading(event.replica)
            # A smaller in-sync set may be all that their decisions waited for.
            coordinators.committed(topic_partition)
        elif event.replica.partition.is_leader:
            coordinators.become_leader(event.replica)
        else:
            coordinators.resign(topic_partition.partition)

    def _check_produces(self, event: PartitionEvent) -> None:
        # The other partitions of a request continue waiting.
        self._produce_purgatory.check_and_complete(event.topic_partition)

    def _release_fetches(self, event: PartitionEvent) -> None:
        self._fetch_purgatory.release(event.topic_partition)

    def _begin_replication(self, event: PartitionEvent) -> None:
        partition = event.replica.partition
        if not partition.is_leader:
            self._replication_manager.get().follow(event.replica)
        elif len(partition.replicas) > 1:
            self._replication_manager.get().alter_partition_manager.start()

    def _committed(self, topic_partition: TopicPartition) -> None:
        coordinators = self._coordinators.get(topic_partition.topic)
        if coordinators is not None:
            coordinators.committed(topic_partition)
