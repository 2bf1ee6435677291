"""All partitions that this broker hosts: their logs on disk and their places in the replication."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from kavka.broker.groups import OFFSETS_TOPIC
from kavka.broker.metadata import INTERNAL_TOPICS, PartitionNews
from kavka.broker.replica import Replica
from kavka.core.partition import Partition, PartitionState
from kavka.errors import ErrorCode
from kavka.ids import BrokerId, LeaderEpoch, TopicId, TopicPartition
from kavka.settings.declaration import Value
from kavka.storage.failures import CorruptFile, LogDirectoryFailed
from kavka.storage.log import Log
from kavka.storage.log_config import LogConfig
from kavka.storage.log_directory import LogDirectory
from kavka.storage.log_store import DirectoryReport, LogStore
from kavka.storage.meta_properties import MetaProperties

if TYPE_CHECKING:
    from kavka.broker.broker import Broker

log = logging.getLogger(__name__)

_UNKNOWN_PARTITION = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class Replicas:
    """Hosts partitions over the broker's log directories."""

    def __init__(self, broker: Broker) -> None:
        """Touch no disk before `open`."""
        self._broker = broker
        config, host = broker.config, broker.host
        directories = [
            LogDirectory(
                host.disk, host.clock, host.chance, path, on_failure=self._directory_failed
            )
            for path in config.log_directories
        ]
        self.store = LogStore(directories, lambda topic: log_config(broker.configs.topic(topic)))
        self._hosted: dict[TopicPartition, Replica] = {}
        self._is_open = False
        self.on_all_failed: Callable[[str], None] | None = None
        """Told once when no log directory is left, or the registry's: the broker must stop."""

    # -- directories

    async def lock(self) -> None:
        """Take the directories. Raise BlockingIOError when another broker uses one, OSError when none can be used."""
        self._is_open = True
        await self.store.lock()

    async def load(self) -> None:
        """Load the logs, with their topics' settings, recovering those that were not closed cleanly."""
        await self.store.load()
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

    def describe_directories(self) -> list[DirectoryReport]:
        """Return all directories with the sizes of their logs."""
        return self.store.describe()

    def _directory_failed(self, directory: LogDirectory) -> None:
        """Partitions of a failed directory refuse everything; the broker ends when nothing is left to serve."""
        for where, replica in self._hosted.items():
            if replica.log.directory is directory:
                self._broker.metadata.lose_leader(where)
                if where.topic == OFFSETS_TOPIC:
                    self._broker.groups.resign(where.partition)
                self._broker.produce_purgatory.release(where)
                self._broker.fetch_purgatory.release(where)
        is_registrys = directory is self.store.directories[0]
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
            if replica.log.directory.failure is None:
                return replica
            return ErrorCode.KAFKA_STORAGE_ERROR
        if self._broker.metadata.partition(where) is None:
            return _UNKNOWN_PARTITION
        if where in self.store.unreadable:
            return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    async def lead(self, where: TopicPartition, topic_id: TopicId, news: PartitionNews) -> None:
        """Lead a partition from now on, making its log when there is none. Raise OSError."""
        values = self._broker.configs.topic(where.topic)
        config = log_config(values)
        try:
            partition_log = await self.store.create(where, topic_id, config)
        except CorruptFile as error:
            raise OSError(str(error)) from error
        partition_log.config = config
        partition = Partition(
            where,
            self._broker.broker_id,
            log_start_offset=partition_log.log_start_offset,
            log_end_offset=partition_log.written_offset,
            high_watermark=self.store.high_watermarks.get(where, 0),
        )
        replica = Replica(partition, partition_log, self._broker.clock, self._moved)
        is_internal = where.topic in INTERNAL_TOPICS
        replica.configure(values, is_internal=is_internal)
        state = PartitionState(
            news.leader,
            LeaderEpoch(news.leader_epoch),
            news.partition_epoch,
            news.in_sync_replicas,
            news.replicas,
            topic_id=topic_id,
        )
        code = partition.become(state, self._broker.clock.tick_ms())
        assert code is ErrorCode.NONE, code
        replica.note_transactions()
        partition_log.assign_epoch(news.leader_epoch, partition_log.log_end_offset)
        self._hosted[where] = replica
        if where.topic == OFFSETS_TOPIC:
            self._broker.groups.lead(replica)

    async def drop_topic(self, topic: str) -> None:
        """Stop hosting a topic's partitions and delete their logs."""
        on_disk = [partition_log.topic_partition for partition_log in self.store.of_topic(topic)]
        hosted = [where for where in self._hosted if where.topic == topic]
        for where in dict.fromkeys([*hosted, *on_disk]):
            self._hosted.pop(where, None)
            if topic == OFFSETS_TOPIC:
                self._broker.groups.resign(where.partition)
            self._broker.produce_purgatory.release(where)
            self._broker.fetch_purgatory.release(where)
            try:
                await self.store.delete(where)
            except LogDirectoryFailed as error:
                # The topic is gone all the same: its other partitions and its znodes must not stay.
                log.warning("log of a deleted topic stays partition=%s reason=%s", where, error)

    def topic_deleted(self, topic: str) -> None:
        """Let the groups forget what they committed for a topic that is gone."""
        self._broker.groups.topics_deleted((topic,))

    def logs_by_topic(self) -> dict[str, dict[int, Log]]:
        """Return the logs on disk, by topic and partition."""
        found: dict[str, dict[int, Log]] = {}
        for partition_log in self.store:
            where = partition_log.topic_partition
            found.setdefault(where.topic, {})[where.partition] = partition_log
        return found

    def reconfigure(self, topic: str) -> None:
        """Obey a topic's settings as they are now."""
        values = self._broker.configs.topic(topic)
        config = log_config(values)
        news = self._broker.metadata.topics.get(topic)
        for partition in range(len(news.partitions) if news is not None else 0):
            replica = self._hosted.get(TopicPartition(topic, partition))
            if replica is not None:
                replica.log.config = config
                replica.configure(values, is_internal=topic in INTERNAL_TOPICS)

    def _moved(self, where: TopicPartition) -> None:
        """More can be read of a partition: wake who waits for it."""
        self._broker.produce_purgatory.touched(where)
        self._broker.fetch_purgatory.touched(where)
        if where.topic == OFFSETS_TOPIC:
            self._broker.groups.committed(where)

    def __iter__(self) -> Iterator[Replica]:
        """Go over the hosted replicas as they are now."""
        return iter(list(self._hosted.values()))

    # -- duties

    async def delete_old_segments(self) -> None:
        """Apply retention everywhere."""
        for number, replica in enumerate(self):
            if replica.log.directory.failure is None:
                replica.delete_old_segments()
            if number % 64 == 63:
                await asyncio.sleep(0)

    async def flush_due(self) -> None:
        """Flush the logs whose `flush.ms` is over."""
        await self.store.flush_due()

    async def remove_due_files(self) -> None:
        """Unlink files whose delay is over."""
        await self.store.remove_due()

    async def expire_producers(self) -> None:
        """Forget producers that were silent for `producer.id.expiration.ms`."""
        now_ms = self._broker.clock.now_ms()
        expiration_ms = self._broker.configs.broker_integer("producer.id.expiration.ms")
        for replica in self:
            replica.log.producers.expire(now_ms, expiration_ms)

    async def write_checkpoints(self) -> None:
        """Write recovery points and log start offsets."""
        await self.store.write_checkpoints()

    async def write_high_watermarks(self) -> None:
        """Write the high watermarks."""
        await self.store.write_high_watermarks(self._high_watermarks())

    def _high_watermarks(self) -> dict[TopicPartition, int]:
        return {replica.where: replica.partition.high_watermark for replica in self}

    async def close(self, *, is_clean: bool = True) -> None:
        """Flush and close everything, and leave the marker of a clean stop if `is_clean`. Twice is allowed."""
        if self._is_open:
            self._is_open = False
            await self.store.close(self._high_watermarks(), is_clean=is_clean)


def log_config(values: Mapping[str, Value]) -> LogConfig:
    """Return the settings of a log from its topic's."""

    def whole(name: str) -> int:
        value = values[name]
        assert isinstance(value, int), name
        return value

    policy = values["cleanup.policy"]
    assert isinstance(policy, list)
    return LogConfig(
        segment_bytes=whole("segment.bytes"),
        segment_ms=whole("segment.ms"),
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
    )
