"""All partitions that this broker hosts: their logs on disk and their places in the replication."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from kavka.broker.replica import Replica
from kavka.broker.traffic import Traffic
from kavka.core.partition import Partition, PartitionState
from kavka.errors import ErrorCode
from kavka.ids import NO_TOPIC_ID, BrokerId, TopicId, TopicPartition
from kavka.settings.declaration import Value, whole_number
from kavka.storage.failures import CorruptFile, LogDirectoryFailed
from kavka.storage.log_config import NEVER, LogConfig
from kavka.storage.log_directory import LogDirectory
from kavka.storage.log_store import DirectoryReport, LogStore
from kavka.storage.meta_properties import MetaProperties
from kavka.storage.stray import IsStray

if TYPE_CHECKING:
    from kavka.broker.broker import Broker
    from kavka.broker.replication.both_sides import Replication
    from kavka.broker.replication.moving import Moves

log = logging.getLogger(__name__)

_UNKNOWN_PARTITION = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class Replicas:
    """Hosts partitions over the broker's log directories."""

    def __init__(self, broker: Broker) -> None:
        """Touch no disk before `lock`."""
        self._broker = broker
        config, host = broker.config, broker.host
        directories = [
            LogDirectory(
                host.disk, host.clock, host.chance, path, on_failure=self._directory_failed
            )
            for path in config.log_directories
        ]
        self.store = LogStore(
            directories,
            self._log_config,
            loads_at_once=config.integer("num.recovery.threads.per.data.dir"),
        )
        self.traffic = Traffic()
        self._log_configs: dict[str, tuple[Mapping[str, Value], LogConfig]] = {}
        self._hosted: dict[TopicPartition, Replica] = {}
        self._replication: Replication | None = None
        self._moves: Moves | None = None
        self._is_open = False
        self.on_all_failed: Callable[[str], None] | None = None
        """Told once when no log directory is left, or the registry's: the broker must stop."""

    # -- directories

    async def lock(self) -> None:
        """Take the directories. Raise BlockingIOError when another broker uses one, OSError when none can be used."""
        self._is_open = True
        await self.store.lock()

    async def load(self, is_stray: IsStray) -> None:
        """Load the logs, with their topics' settings, recovering those that were not closed cleanly."""
        await self.store.load(is_stray)
        for where, recovery in self.store.recoveries.items():
            report = log.warning if recovery.cut_bytes else log.info
            report(
                "log recovered partition=%s end_offset=%d cut_bytes=%d damage=%s",
                where,
                recovery.end_offset,
                recovery.cut_bytes,
                recovery.damage,
            )

    @property
    def was_clean(self) -> bool:
        """Whether every directory was closed by a clean stop, or is new."""
        return all(directory.was_clean for directory in self.store.directories) or not len(
            self.store
        )

    @property
    def first_directory(self) -> str:
        """Where the embedded registry lives."""
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
        """Partitions of a failed directory refuse everything; the broker ends when nothing is left to serve."""
        for where, replica in self._hosted.items():
            # Not `replica.log`, which is the old one until the end of a swap.
            hosted = self.store.get(where) or replica.log
            if hosted.directory is directory:
                if replica.partition.is_leader:
                    self._broker.metadata.lose_leader(where)
                if self._replication is not None:
                    self._replication.unfollow(where)
                replica.touch_watchers()
                coordinators = self._broker.coordinators.get(where.topic)
                if coordinators is not None:
                    coordinators.resign(where.partition)
                self._broker.produce_purgatory.touched(where)
                self._broker.fetch_purgatory.release(where)
        if self._broker.registration is not None:
            self._broker.controller.log_directory_failed()
        is_registrys = self._broker.keeps_registry and directory is self.store.directories[0]
        gone = all(other.failure is not None for other in self.store.directories)
        if (is_registrys or gone) and self.on_all_failed is not None:
            self.on_all_failed(f"log directory {directory.path} failed: {directory.failure}")

    def registry_failed(self, error: OSError) -> None:
        """The registry's journal cannot be written: nothing that changes could be remembered."""
        if self.on_all_failed is not None:
            self.on_all_failed(f"the registry's journal failed: {error}")

    # -- hosting

    def find(self, where: TopicPartition) -> Replica | ErrorCode:
        """Return the replica that this broker leads or follows, or the error to answer."""
        replica = self._hosted.get(where)
        if replica is not None:
            if replica.log.directory.failure is None or replica.is_swapping:
                return replica
            return ErrorCode.KAFKA_STORAGE_ERROR
        if self._broker.metadata.partition(where) is None:
            return _UNKNOWN_PARTITION
        if where in self.store.unreadable:
            return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    async def obey(
        self, where: TopicPartition, state: PartitionState, *, is_new: bool
    ) -> ErrorCode:
        """Lead or follow a partition as the controller says, making its log when there is none.

        Who has every directory makes any log; with one offline only a new partition's, since the log may be in there.
        """
        replica = self._hosted.get(where)
        if replica is None:
            made = await self._host(where, state.topic_id, is_new=is_new)
            if isinstance(made, ErrorCode):
                return made
            replica = made
        if replica.is_offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        async with replica.turn:
            if self.find(where) is ErrorCode.KAFKA_STORAGE_ERROR:  # since a swap that held the turn
                return ErrorCode.KAFKA_STORAGE_ERROR
            if replica.log.written_offset < replica.log.log_end_offset:
                # Nothing more is appended, else a slow disk and busy producers would keep a deposed leader for ever.
                replica.is_frozen = True
                try:
                    await replica.log.directory.writes.reached()
                finally:
                    replica.is_frozen = False
            return self._become(replica, state)

    async def _host(
        self, where: TopicPartition, topic_id: TopicId, *, is_new: bool
    ) -> Replica | ErrorCode:
        """Open or make the log, and begin with what the checkpoints say."""
        config = self._log_config(where.topic)
        is_known = self.store.get(where) is not None
        if not is_new and not is_known and self._has_offline_directory():
            return ErrorCode.KAFKA_STORAGE_ERROR
        try:
            known_id = None if topic_id == NO_TOPIC_ID else topic_id
            partition_log = await self.store.create(where, known_id, config)
        except (CorruptFile, OSError) as error:
            log.error("partition offline partition=%s reason=%s", where, error)
            return ErrorCode.KAFKA_STORAGE_ERROR
        if NO_TOPIC_ID != topic_id != (partition_log.topic_id or topic_id):
            return ErrorCode.INCONSISTENT_TOPIC_ID
        # Only now: they may have changed meanwhile, and `reconfigure` finds the replica from here on.
        values = self._broker.configs.topic(where.topic)
        partition_log.config = self._log_config(where.topic)
        partition = Partition(
            where,
            self._broker.broker_id,
            log_start_offset=partition_log.log_start_offset,
            log_end_offset=partition_log.written_offset,
            high_watermark=self.store.high_watermarks.get(where, 0),
            max_lag_ms=self._broker.configs.broker_integer("replica.lag.time.max.ms"),
        )
        partition.topic_id = partition_log.topic_id or NO_TOPIC_ID
        partition.is_alive = partial(self._is_alive, where)
        traffic = self.traffic.join(where.topic)
        replica = Replica(partition, partition_log, self._broker.clock, self._moved, traffic)
        replica.configure(values)
        self._hosted[where] = replica
        if self.store.future(where) is not None:
            self.moves.resume(replica)
        return replica

    def _has_offline_directory(self) -> bool:
        return any(directory.failure is not None for directory in self.store.directories)

    def _become(self, replica: Replica, state: PartitionState) -> ErrorCode:
        """Change the role; who waits for something of the old one is told. A leader that stays one just goes on."""
        where, partition = replica.where, replica.partition
        replica.note_written()
        is_filled_in = partition.topic_id == NO_TOPIC_ID != state.topic_id
        if is_filled_in and state.leader_epoch == partition.leader_epoch:
            # The same state once more, with the topic id that an older controller did not know.
            partition.topic_id = state.topic_id
            return ErrorCode.NONE
        stays_leader = partition.is_leader
        code = partition.become(state, self._broker.clock.tick_ms())
        if code is not ErrorCode.NONE:
            is_same = state.leader_epoch == partition.leader_epoch
            if not (is_same and replica.is_stopped and not partition.is_leader):
                return code
            # It was stopped because the controller lost sight of this broker; that raised no epoch out of sync.
            replica.is_stopped = False
            self.replication.follow(replica)
            return ErrorCode.NONE
        replica.is_stopped = False
        if self._replication is not None:
            self._replication.unfollow(where)
        stays_leader = stays_leader and partition.is_leader
        replica.role_changed()
        coordinators = self._broker.coordinators_of(where.topic)
        if coordinators is not None:
            if stays_leader:
                coordinators.lead_on(replica)
            elif partition.is_leader:
                coordinators.lead(replica)
            else:
                coordinators.resign(where.partition)
        if stays_leader:
            self._moved(where)  # a smaller in-sync set may be all that somebody waited for
        else:
            self._broker.produce_purgatory.touched(where)  # other partitions of a request wait on
        self._broker.fetch_purgatory.release(where)
        if not partition.is_leader:
            self.replication.follow(replica)
        elif len(partition.replicas) > 1:
            self.replication.in_sync_sets.start()
        return ErrorCode.NONE

    @property
    def replication(self) -> Replication:
        """What replicates; made when another broker is first heard of."""
        if self._replication is None:
            from kavka.broker.replication.both_sides import Replication

            self._replication = Replication(self._broker)
        return self._replication

    @property
    def present_replication(self) -> Replication | None:
        """What replicates, or None while no other broker was heard of."""
        return self._replication

    @property
    def moves(self) -> Moves:
        """Moves between log directories."""
        if self._moves is None:
            from kavka.broker.replication.moving import Moves

            self._moves = Moves(self._broker)
        return self._moves

    def _is_alive(self, where: TopicPartition, broker: BrokerId) -> bool:
        """Tell whether a replica can be in sync: brokers that the controller suspects are shown, but offline."""
        if broker not in self._broker.metadata.brokers:
            return False
        news = self._broker.metadata.partition(where)
        return news is None or broker not in news.offline_replicas

    def metadata_changed(
        self, shown: Iterable[TopicPartition], *, are_brokers_others: bool
    ) -> None:
        """Learn that partitions were shown, and whether other brokers are alive now; known ones may be elsewhere.

        A leader does not wait for a replica whose broker is dead, or whose directory is offline.
        """
        if self._replication is None and len(self._broker.metadata.brokers) <= 1:
            return
        self.replication.brokers_changed()
        now_ms = self._broker.clock.tick_ms()
        concerned = self._hosted if are_brokers_others else shown
        for where in list(concerned):
            replica = self._hosted.get(where)
            if replica is not None and replica.partition.is_leader:
                replica.advance_high_watermark(now_ms)
                self.low_watermark_moved(where)

    def topic_of(self, topic_id: TopicId) -> str | None:
        """Return the name of a topic that is known, or hosted, by its id."""
        name = self._broker.metadata.name_of(topic_id)
        if name is None:
            for where, replica in self._hosted.items():
                if replica.partition.topic_id == topic_id:
                    return where.topic
        return name

    def low_watermark_moved(self, where: TopicPartition) -> None:
        """Wake deletions of records that wait for the other replicas."""
        self._broker.produce_purgatory.touched(where)

    async def stop(self, where: TopicPartition, leader_epoch: int, *, delete: bool) -> ErrorCode:
        """Stop following, and delete the log if so; -1 and -2 are leader epochs that are always obeyed."""
        replica = self._hosted.get(where)
        if replica is not None:
            if replica.is_offline:
                return ErrorCode.KAFKA_STORAGE_ERROR
            if 0 <= leader_epoch < replica.partition.leader_epoch:
                return ErrorCode.FENCED_LEADER_EPOCH
        if self._replication is not None:
            self._replication.unfollow(where)
        if not delete:
            if replica is not None:
                replica.is_stopped = True
            return ErrorCode.NONE
        return ErrorCode.NONE if await self._drop(where) else ErrorCode.KAFKA_STORAGE_ERROR

    async def _drop(self, where: TopicPartition) -> bool:
        """Host a partition no longer and delete its log; false when the disk does not obey."""
        replica = self._hosted.pop(where, None)
        if replica is not None:
            replica.partition.leave()
        if self._replication is not None:
            self._replication.unfollow(where)
        coordinators = self._broker.coordinators.get(where.topic)
        if coordinators is not None:
            coordinators.resign(where.partition)
        self._broker.produce_purgatory.touched(where)
        self._broker.fetch_purgatory.release(where)
        if self._moves is not None:
            await self._moves.forget(where)
        if replica is not None:
            self.traffic.leave(where.topic)
            if where.topic not in self.traffic.topics:
                self._log_configs.pop(where.topic, None)
            replica.touch_watchers()
            async with replica.turn:
                return await self._delete_log(where)
        return await self._delete_log(where)

    async def _delete_log(self, where: TopicPartition) -> bool:
        try:
            await self.store.delete(where)
        except LogDirectoryFailed as error:
            log.warning("log of a deleted partition stays partition=%s reason=%s", where, error)
            return False
        return True

    def reconfigure(self, topic: str | None = None) -> None:
        """Obey the settings as they are now, of one topic or of all; they may be hosted and not shown yet."""
        for replica in self._hosted.values():
            name = replica.where.topic
            if topic is None or name == topic:
                replica.log.config = self._log_config(name)
                replica.configure(self._broker.configs.topic(name))

    def _log_config(self, topic: str) -> LogConfig:
        """Return the settings of a topic's logs; one object for all of them until they change."""
        values = self._broker.configs.topic(topic)
        known = self._log_configs.get(topic)
        if known is None or known[0] is not values:
            known = self._log_configs[topic] = (values, log_config(values))
        return known[1]

    def _moved(self, where: TopicPartition) -> None:
        """More can be read of a partition: wake who waits for it."""
        self._broker.produce_purgatory.touched(where)
        self._broker.fetch_purgatory.touched(where)
        coordinators = self._broker.coordinators.get(where.topic)
        if coordinators is not None:
            coordinators.committed(where)

    def __iter__(self) -> Iterator[Replica]:
        """Go over the hosted replicas as they are now."""
        return iter(list(self._hosted.values()))

    # -- duties

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
        """Flush the logs whose `flush.ms` is over. That comes every second, so topics are asked before logs."""
        if any(config.flush_ms != NEVER for _, config in self._log_configs.values()):
            await self.store.flush_due()

    async def remove_due_files(self) -> None:
        """Unlink files whose delay is over."""
        await self.store.remove_due()

    async def expire_producers(self) -> None:
        """Forget producers that were silent for `producer.id.expiration.ms`."""
        now_ms = self._broker.clock.now_ms()
        expiration_ms = self._broker.configs.broker_integer("producer.id.expiration.ms")
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
        return {replica.where: replica.partition.high_watermark for replica in self}

    async def close(self, *, is_clean: bool, broker_epoch: int = -1) -> None:
        """Flush and close everything, and leave the marker of a clean stop if `is_clean`. Twice is allowed."""
        if self._replication is not None:
            await self._replication.stop()
        if self._moves is not None:
            await self._moves.stop()
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
