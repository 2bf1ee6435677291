"""The replica manager: all partitions that this broker hosts, with their logs and their replication state.

What happens to one is published as a `PartitionEvent`; nothing here knows the parts that act on it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from kavka.broker.context import BrokerContext
from kavka.broker.partitions.partition_events import PartitionChange, PartitionEvents
from kavka.broker.partitions.replica import Replica
from kavka.broker.partitions.traffic import Traffic
from kavka.core.partition import Partition, PartitionState
from kavka.errors import ErrorCode
from kavka.ids import NO_TOPIC_ID, BrokerId, TopicId, TopicPartition
from kavka.settings.declaration import Value, whole_number
from kavka.storage.checkpoint.meta_properties import MetaProperties
from kavka.storage.directory.log_directory import LogDirectory
from kavka.storage.failures import CorruptFile, LogDirectoryFailed
from kavka.storage.log_config import NEVER, LogConfig
from kavka.storage.store.log_store import DirectoryReport, LogStore
from kavka.storage.store.stray import IsStray

if TYPE_CHECKING:
    from kavka.broker.partitions.replication_rounds import ReplicationRounds

log = logging.getLogger(__name__)

_UNKNOWN_PARTITION = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class ReplicaManager:
    """Hosts partitions over the broker's log directories."""

    def __init__(
        self,
        context: BrokerContext,
        events: PartitionEvents,
        *,
        end_move: Callable[[TopicPartition], Awaitable[None]],
        on_directory_failed: Callable[[], None],
        on_all_failed: Callable[[str], None],
    ) -> None:
        """Touch no disk before `lock`.

        `end_move` ends the move of a replica that is deleted to another directory. `on_directory_failed` is called
        behind the events of the failed directory's partitions; `on_all_failed`, with the reason, when no directory is
        left, or the registry's has failed: the broker must stop.
        """
        self._context = context
        self._events = events
        self._end_move = end_move
        self._on_directory_failed = on_directory_failed
        self._on_all_failed = on_all_failed
        config, environment = context.config, context.environment
        directories = [
            LogDirectory(
                environment.disk,
                environment.clock,
                environment.random,
                path,
                on_failure=self._directory_failed,
            )
            for path in config.log_directories
        ]
        self.store = LogStore(
            directories,
            self._log_config,
            loads_at_once=config.integer("num.recovery.threads.per.data.dir"),
        )
        self.traffic = Traffic()
        self.rounds: ReplicationRounds | None = None
        """Set when followers are served: a lone broker has none."""
        self._log_configs: dict[str, tuple[Mapping[str, Value], LogConfig]] = {}
        self._hosted: dict[TopicPartition, Replica] = {}
        self._is_replicated = False  # True since another broker, or a replica there, is known
        self._is_open = False

    # -- directories

    async def lock(self) -> None:
        """Take the directories. Raise BlockingIOError when another broker uses one, OSError when none can be used."""
        self._is_open = True
        await self.store.lock()

    async def load(self, is_stray: IsStray) -> None:
        """Load the logs, with their topics' settings, recovering those that were not closed cleanly."""
        await self.store.load(is_stray)
        for topic_partition, recovery in self.store.recoveries.items():
            report = log.warning if recovery.cut_bytes else log.info
            report(
                "log recovered partition=%s end_offset=%d cut_bytes=%d damage=%s",
                topic_partition,
                recovery.end_offset,
                recovery.cut_bytes,
                recovery.damage,
            )

    @property
    def was_clean(self) -> bool:
        """Return whether every directory was closed cleanly, or is new."""
        return all(directory.was_clean for directory in self.store.directories) or not len(
            self.store
        )

    @property
    def first_directory(self) -> str:
        """Return the directory of the embedded registry."""
        return self.store.directories[0].path

    async def read_meta(self) -> dict[str, MetaProperties | None]:
        """Return `meta.properties` of each directory that is online; None where there is none."""
        return {
            directory.path: await directory.read_meta()
            for directory in self.store.directories
            if directory.failure is None
        }

    async def write_meta(self, broker_id: BrokerId, cluster_id: str) -> None:
        """Write `meta.properties` where it is missing."""
        for directory in self.store.directories:
            if directory.failure is None and await directory.read_meta() is None:
                await directory.write_meta(MetaProperties(broker_id, cluster_id))

    async def describe_directories(self) -> list[DirectoryReport]:
        """Return all directories with the sizes of their logs."""
        return await self.store.describe()

    def _directory_failed(self, directory: LogDirectory) -> None:
        """Publish the failure of each partition in the directory; stop the broker when no directory is left."""
        for topic_partition, replica in list(self._hosted.items()):
            # Not `replica.log`, which is the old one until the end of a swap.
            hosted = self.store.get(topic_partition) or replica.log
            if hosted.directory is directory:
                self._events.publish(PartitionChange.LOG_FAILED, replica)
        self._on_directory_failed()
        is_registrys = self._context.has_own_registry and directory is self.store.directories[0]
        gone = all(other.failure is not None for other in self.store.directories)
        if is_registrys or gone:
            self._on_all_failed(f"log directory {directory.path} failed: {directory.failure}")

    def registry_failed(self, error: OSError) -> None:
        """Stop the broker: without the registry's journal no change could be stored."""
        self._on_all_failed(f"the registry's journal failed: {error}")

    # -- hosting

    def find(self, topic_partition: TopicPartition) -> Replica | ErrorCode:
        """Return the replica that this broker leads or follows, or the error to answer."""
        replica = self._hosted.get(topic_partition)
        if replica is not None:
            if replica.log.directory.failure is None or replica.is_swapping:
                return replica
            return ErrorCode.KAFKA_STORAGE_ERROR
        if self._context.metadata.partition(topic_partition) is None:
            return _UNKNOWN_PARTITION
        if topic_partition in self.store.unreadable:
            return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    async def make_leader_or_follower(
        self, topic_partition: TopicPartition, state: PartitionState, *, is_new: bool
    ) -> ErrorCode:
        """Lead or follow a partition as the controller says, making its log when there is none.

        With all directories online any log is created; else only a new partition's, since the log may be in there.
        """
        replica = self._hosted.get(topic_partition)
        if replica is None:
            made = await self._host(topic_partition, state.topic_id, is_new=is_new)
            if isinstance(made, ErrorCode):
                return made
            replica = made
        if replica.is_offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        async with replica.lock:
            if (
                self.find(topic_partition) is ErrorCode.KAFKA_STORAGE_ERROR
            ):  # since a swap that held the lock
                return ErrorCode.KAFKA_STORAGE_ERROR
            if replica.log.written_offset < replica.log.log_end_offset:
                # Nothing more is appended, else a slow disk and busy producers would delay the change without limit.
                replica.is_frozen = True
                try:
                    await replica.log.directory.writes.reached()
                finally:
                    replica.is_frozen = False
            return self._apply_state(replica, state)

    async def _host(
        self, topic_partition: TopicPartition, topic_id: TopicId, *, is_new: bool
    ) -> Replica | ErrorCode:
        """Open or make the log, and begin with what the checkpoints say."""
        config = self._log_config(topic_partition.topic)
        is_known = self.store.get(topic_partition) is not None
        if not is_new and not is_known and self._has_offline_directory():
            return ErrorCode.KAFKA_STORAGE_ERROR
        try:
            known_id = None if topic_id == NO_TOPIC_ID else topic_id
            partition_log = await self.store.create(topic_partition, known_id, config)
        except (CorruptFile, OSError) as error:
            log.error("partition offline partition=%s reason=%s", topic_partition, error)
            return ErrorCode.KAFKA_STORAGE_ERROR
        if NO_TOPIC_ID != topic_id != (partition_log.topic_id or topic_id):
            return ErrorCode.INCONSISTENT_TOPIC_ID
        # Only now: they may have changed meanwhile, and `reconfigure` finds the replica from here on.
        values = self._context.effective_configs.topic(topic_partition.topic)
        partition_log.config = self._log_config(topic_partition.topic)
        partition = Partition(
            topic_partition,
            self._context.broker_id,
            log_start_offset=partition_log.log_start_offset,
            log_end_offset=partition_log.written_offset,
            high_watermark=self.store.high_watermarks.get(topic_partition, 0),
            max_lag_ms=self._context.effective_configs.broker_integer("replica.lag.time.max.ms"),
        )
        partition.topic_id = partition_log.topic_id or NO_TOPIC_ID
        partition.is_alive = partial(self._is_alive, topic_partition)
        traffic = self.traffic.join(topic_partition.topic)
        replica = Replica(
            partition,
            partition_log,
            self._context.clock,
            self._events.high_watermark_moved,
            traffic,
        )
        replica.configure(values)
        self._hosted[topic_partition] = replica
        self._events.publish(PartitionChange.HOSTED, replica)
        return replica

    def _has_offline_directory(self) -> bool:
        return any(directory.failure is not None for directory in self.store.directories)

    def _apply_state(self, replica: Replica, state: PartitionState) -> ErrorCode:
        """Change the role; waiting requests of the old one are failed. A leader that stays one continues."""
        partition = replica.partition
        replica.note_written()
        is_filled_in = partition.topic_id == NO_TOPIC_ID != state.topic_id
        if is_filled_in and state.leader_epoch == partition.leader_epoch:
            # The same state once more, with the topic id that an older controller did not know.
            partition.topic_id = state.topic_id
            return ErrorCode.NONE
        stays_leader = partition.is_leader
        code = partition.apply_state(state, self._context.clock.tick_ms())
        if code is not ErrorCode.NONE:
            is_same = state.leader_epoch == partition.leader_epoch
            if not (is_same and replica.is_stopped and not partition.is_leader):
                return code
            # It was stopped because the controller lost sight of this broker; that raised no epoch out of sync.
            replica.is_stopped = False
            self._events.publish(PartitionChange.RESUMED, replica)
            return ErrorCode.NONE
        replica.is_stopped = False
        self._is_replicated |= len(partition.replicas) > 1 or not partition.is_leader
        stays_leader = stays_leader and partition.is_leader
        self._events.publish(PartitionChange.ROLE_CHANGED, replica, stays_leader=stays_leader)
        return ErrorCode.NONE

    def _is_alive(self, topic_partition: TopicPartition, broker: BrokerId) -> bool:
        """Return whether a replica can be in sync: brokers that the controller suspects are shown, but offline."""
        if broker not in self._context.metadata.brokers:
            return False
        partition_metadata = self._context.metadata.partition(topic_partition)
        return partition_metadata is None or broker not in partition_metadata.offline_replicas

    def metadata_changed(
        self, shown: Iterable[TopicPartition], *, are_brokers_others: bool
    ) -> None:
        """Note that partitions were shown, and whether other brokers are alive now; known ones may be elsewhere.

        A leader does not wait for a replica with a dead broker, or with an offline directory.
        """
        self._is_replicated |= len(self._context.metadata.brokers) > 1
        if not self._is_replicated:
            return
        now_ms = self._context.clock.tick_ms()
        concerned = self._hosted if are_brokers_others else shown
        for topic_partition in list(concerned):
            replica = self._hosted.get(topic_partition)
            if replica is not None and replica.partition.is_leader:
                replica.advance_high_watermark(now_ms)
                self.low_watermark_moved(replica)

    def topic_of(self, topic_id: TopicId) -> str | None:
        """Return the name of a topic that is known, or hosted, by its id."""
        name = self._context.metadata.name_of(topic_id)
        if name is None:
            for topic_partition, replica in self._hosted.items():
                if replica.partition.topic_id == topic_id:
                    return topic_partition.topic
        return name

    def low_watermark_moved(self, replica: Replica) -> None:
        """Notify that the low watermark, the least log start offset of all replicas, may have moved."""
        self._events.publish(PartitionChange.LOW_WATERMARK_MOVED, replica)

    async def stop(
        self, topic_partition: TopicPartition, leader_epoch: int, *, delete: bool
    ) -> ErrorCode:
        """Stop following, and delete the log if so; -1 and -2 are leader epochs that are always accepted."""
        replica = self._hosted.get(topic_partition)
        if replica is not None:
            if replica.is_offline:
                return ErrorCode.KAFKA_STORAGE_ERROR
            if 0 <= leader_epoch < replica.partition.leader_epoch:
                return ErrorCode.FENCED_LEADER_EPOCH
        if not delete:
            if replica is not None:
                replica.is_stopped = True
                self._events.publish(PartitionChange.STOPPED, replica)
            return ErrorCode.NONE
        return (
            ErrorCode.NONE if await self._remove(topic_partition) else ErrorCode.KAFKA_STORAGE_ERROR
        )

    async def _remove(self, topic_partition: TopicPartition) -> bool:
        """Stop hosting a partition and delete its log; return False when the disk fails."""
        replica = self._hosted.pop(topic_partition, None)
        if replica is not None:
            replica.partition.resign()
            self._events.publish(PartitionChange.DELETED, replica)
        await self._end_move(topic_partition)
        if replica is None:
            return await self._delete_log(topic_partition)
        self.traffic.leave(topic_partition.topic)
        if topic_partition.topic not in self.traffic.topics:
            self._log_configs.pop(topic_partition.topic, None)
        async with replica.lock:
            return await self._delete_log(topic_partition)

    async def _delete_log(self, topic_partition: TopicPartition) -> bool:
        try:
            await self.store.delete(topic_partition)
        except LogDirectoryFailed as error:
            log.warning(
                "log of a deleted partition not deleted partition=%s reason=%s",
                topic_partition,
                error,
            )
            return False
        return True

    def reconfigure(self, topic: str | None = None) -> None:
        """Apply the present settings, of one topic or of all; they may be hosted and not shown yet."""
        for replica in self._hosted.values():
            name = replica.topic_partition.topic
            if topic is None or name == topic:
                replica.log.config = self._log_config(name)
                replica.configure(self._context.effective_configs.topic(name))

    def _log_config(self, topic: str) -> LogConfig:
        """Return the settings of a topic's logs; one object for all of them until they change."""
        values = self._context.effective_configs.topic(topic)
        known = self._log_configs.get(topic)
        if known is None or known[0] is not values:
            known = self._log_configs[topic] = (values, log_config(values))
        return known[1]

    def __iter__(self) -> Iterator[Replica]:
        """Iterate over the hosted replicas as they are now."""
        return iter(list(self._hosted.values()))

    # -- periodic tasks

    async def delete_old_segments(self) -> None:
        """Apply retention everywhere."""
        for number, replica in enumerate(self):
            try:
                if replica.log.directory.failure is None:
                    replica.delete_old_segments()
            except LogDirectoryFailed:
                continue  # said when it failed
            if number % 64 == 63:
                await asyncio.sleep(0)

    async def flush_due(self) -> None:
        """Flush the logs after their `flush.ms`. It runs every second, so it checks topics before logs."""
        if any(config.flush_ms != NEVER for _, config in self._log_configs.values()):
            await self.store.flush_due()

    async def remove_due_files(self) -> None:
        """Unlink files after their delay."""
        await self.store.remove_due()

    async def expire_producers(self) -> None:
        """Forget producers that were silent for `producer.id.expiration.ms`."""
        now_ms = self._context.clock.now_ms()
        expiration_ms = self._context.effective_configs.broker_integer("producer.id.expiration.ms")
        for number, replica in enumerate(self):
            replica.log.producers.expire(now_ms, expiration_ms)
            if number % 64 == 63:
                await asyncio.sleep(0)

    async def write_checkpoints(self) -> None:
        """Write recovery points and log start offsets."""
        await self.store.write_checkpoints()

    async def write_high_watermarks(self) -> None:
        """Write the high watermarks."""
        await self.store.write_high_watermarks(self._high_watermarks())

    def _high_watermarks(self) -> dict[TopicPartition, int]:
        return {replica.topic_partition: replica.partition.high_watermark for replica in self}

    async def close(self, *, is_clean: bool, broker_epoch: int = -1) -> None:
        """Flush and close everything, and leave the marker of a clean stop if `is_clean`. Twice is allowed."""
        if self._is_open:
            self._is_open = False
            await self.store.close(
                self._high_watermarks(), is_clean=is_clean, broker_epoch=broker_epoch
            )


def log_config(values: Mapping[str, Value]) -> LogConfig:
    """Return the settings of a log from its topic's."""
    whole = partial(whole_number, values)
    policy, ratio = values["cleanup.policy"], values["min.cleanable.dirty.ratio"]
    assert isinstance(policy, list)
    assert isinstance(ratio, float | int)
    segment_ms, lag_ms = whole("segment.ms"), whole("max.compaction.lag.ms")
    return LogConfig(
        segment_bytes=whole("segment.bytes"),
        # What is active is not compacted: it must be closed in time.
        segment_ms=min(segment_ms, lag_ms) if "compact" in policy else segment_ms,
        segment_jitter_ms=whole("segment.jitter.ms"),
        index_interval_bytes=whole("index.interval.bytes"),
        segment_index_bytes=whole("segment.index.bytes"),
        retention_ms=whole("retention.ms"),
        retention_bytes=whole("retention.bytes"),
        flush_messages=whole("flush.messages"),
        flush_ms=whole("flush.ms"),
        file_delete_delay_ms=whole("file.delete.delay.ms"),
        max_message_bytes=whole("max.message.bytes"),
        cleanup_policy=frozenset(policy),
        min_cleanable_dirty_ratio=ratio,
        min_compaction_lag_ms=whole("min.compaction.lag.ms"),
        max_compaction_lag_ms=lag_ms,
        delete_retention_ms=whole("delete.retention.ms"),
    )
