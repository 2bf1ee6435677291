"""Replicas and their logs: Kafka's ReplicaManager, Partition, Log, LogManager and LogFlushStats."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from kavka.broker.metrics.sources import MetricsSources
from kavka.broker.partitions.replica import Replica
from kavka.core.partition import Partition
from kavka.metrics.families import (
    Family,
    Sample,
    counter,
    gauge,
    labelled,
    summarized,
    summary,
)

T = TypeVar("T")

_MANAGER = "kafka_server_replicamanager_"


def is_under_replicated(partition: Partition) -> bool:
    """Return whether replicas are missing from the in-sync set; those that a reassignment adds do not count."""
    wanted = len(partition.replicas) - len(partition.adding_replicas)
    return partition.is_leader and len(partition.in_sync_replicas) < wanted


def is_under_min_isr(partition: Partition) -> bool:
    """Return whether acks=all is refused."""
    missing = len(partition.in_sync_replicas) < partition.effective_min_insync_replicas
    return partition.is_leader and missing


def is_at_min_isr(partition: Partition) -> bool:
    """Return whether acks=all is refused when one more replica is lost."""
    exactly = len(partition.in_sync_replicas) == partition.effective_min_insync_replicas
    return partition.is_leader and exactly


def _is_reassigning(partition: Partition) -> bool:
    return partition.is_leader and bool(partition.adding_replicas or partition.removing_replicas)


_COUNTED: dict[str, tuple[Callable[[Partition], bool], str]] = {
    "leadercount": (lambda p: p.is_leader, "Partitions that this broker leads."),
    "underreplicatedpartitions": (
        is_under_replicated,
        "Partitions led here with replicas that are not in sync.",
    ),
    "underminisrpartitioncount": (
        is_under_min_isr,
        "Partitions led here with fewer in sync than min.insync.replicas: acks=all is refused.",
    ),
    "atminisrpartitioncount": (
        is_at_min_isr,
        "Partitions led here with just min.insync.replicas in sync.",
    ),
    "reassigningpartitions": (_is_reassigning, "Partitions led here that are being moved."),
}

_OF_PARTITION: dict[str, tuple[Callable[[Partition], int], str]] = {
    "underreplicated": (is_under_replicated, "1 where replicas are not in sync."),
    "underminisr": (is_under_min_isr, "1 where acks=all is refused."),
    "atminisr": (is_at_min_isr, "1 where one more lost replica has acks=all refused."),
    "insyncreplicascount": (
        lambda p: len(p.in_sync_replicas) if p.is_leader else 0,
        "Replicas in sync, as the leader knows; 0 where this broker does not lead.",
    ),
    "replicascount": (
        lambda p: len(p.replicas) if p.is_leader else 0,
        "Replicas, as the leader knows; 0 where this broker does not lead.",
    ),
    "laststableoffsetlag": (
        lambda p: p.high_watermark - p.last_stable_offset,
        "Records that read_committed does not see yet, because a transaction is open.",
    ),
}

_OF_LOG: dict[str, tuple[Callable[[Replica], int], str]] = {
    "size": (lambda r: r.log.size, "Bytes of the log."),
    "numlogsegments": (lambda r: len(r.log.segments), "Segments of the log."),
    "logstartoffset": (lambda r: r.log.log_start_offset, "The first offset."),
    "logendoffset": (lambda r: r.log.log_end_offset, "The offset after the last record."),
}


def families(sources: MetricsSources) -> Iterator[Family]:
    """Yield the families, first those of the whole broker."""
    replicas = list(sources.replica_manager)
    yield from _of_manager(sources, replicas)
    yield from _of_directories(sources)
    labels = [
        labelled(topic=r.topic_partition.topic, partition=r.topic_partition.partition)
        for r in replicas
    ]
    for name, (of_partition, help) in _OF_PARTITION.items():
        samples = _samples(labels, [replica.partition for replica in replicas], of_partition)
        yield gauge(f"kafka_cluster_partition_{name}", help, samples)
    for name, (of_log, help) in _OF_LOG.items():
        yield gauge(f"kafka_log_log_{name}", help, _samples(labels, replicas, of_log))


def _samples(labels: list[str], owners: list[T], value: Callable[[T], int]) -> Iterator[Sample]:
    for label, owner in zip(labels, owners, strict=True):
        yield label, int(value(owner))


def _of_manager(sources: MetricsSources, replicas: list[Replica]) -> Iterator[Family]:
    yield gauge(f"{_MANAGER}partitioncount", "Replicas on this broker.", len(replicas))
    for name, (is_counted, help) in _COUNTED.items():
        yield gauge(f"{_MANAGER}{name}", help, sum(is_counted(r.partition) for r in replicas))
    offline = sum(replica.log.directory.failure is not None for replica in replicas)
    offline += len(sources.replica_manager.store.unreadable)
    yield gauge(
        f"{_MANAGER}offlinereplicacount", "Replicas with a log that cannot be used.", offline
    )
    producers = sum(len(replica.log.producers) for replica in replicas)
    help = "Producer ids that are remembered, over all replicas."
    yield gauge(f"{_MANAGER}produceridcount", help, producers)
    replication_manager = sources.replication_manager.made
    sets = None if replication_manager is None else replication_manager.alter_partition_manager
    shrinks, expansions, failures = (
        (0, 0, 0) if sets is None else (sets.shrinks, sets.expansions, sets.failures)
    )
    help = "In-sync sets that became smaller because a follower lagged."
    yield counter(f"{_MANAGER}isrshrinks_total", help, shrinks)
    help = "In-sync sets that became larger."
    yield counter(f"{_MANAGER}isrexpands_total", help, expansions)
    help = "Changes of in-sync sets that the controller refused."
    yield counter(f"{_MANAGER}failedisrupdates_total", help, failures)


def _of_directories(sources: MetricsSources) -> Iterator[Family]:
    directories = sources.replica_manager.store.directories
    offline = [(labelled(logDirectory=d.path), int(d.failure is not None)) for d in directories]
    name = "kafka_log_logmanager_offlinelogdirectorycount"
    yield gauge(name, "Log directories that have failed.", sum(count for _, count in offline))
    name = "kafka_log_logmanager_logdirectoryoffline"
    yield gauge(name, "1 for a log directory that has failed.", offline)
    name = "kafka_log_logflushstats_logflushrateandtimems"
    help = "How long logs took to be brought to the medium, in ms."
    yield summary(name, help, summarized([directory.flushes for directory in directories]))
