"""Objects of `kavka topics`, `get-offsets`, `delete-records` and `log-dirs`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kavka.cli.json_lines.lines import Row, error_object, error_or_none
from kavka.client.admin.nodes import LogDir
from kavka.client.admin.topics import CreatedTopic
from kavka.client.list_offsets import OffsetAndTimestamp
from kavka.errors import KafkaError
from kavka.ids import BrokerId, TopicPartition, uuid_text


def new_topic_row(name: str, created: CreatedTopic | None) -> Row:
    """Return what became of a topic that should be created; None is one that was there."""
    return {
        "topic": name,
        "created": created is not None,
        "topic_id": None if created is None else uuid_text(created.topic_id),
        "partition_count": None if created is None else created.partitions,
        "replication_factor": None if created is None else created.replication_factor,
    }


def changed_topic_rows(outcomes: Mapping[str, KafkaError | None]) -> list[Row]:
    """Return what became of topics."""
    return [
        {"topic": name, "error": error_or_none(outcome)}
        for name, outcome in sorted(outcomes.items())
    ]


def offset_rows(
    partitions: Iterable[TopicPartition],
    offsets: Mapping[TopicPartition, OffsetAndTimestamp | KafkaError],
) -> list[Row]:
    """Return offsets in the order of the partitions."""
    rows: list[Row] = []
    for topic_partition in partitions:
        result = offsets[topic_partition]
        offset = timestamp = None
        if not isinstance(result, KafkaError):
            offset = result.offset if result.offset >= 0 else None
            timestamp = result.timestamp if result.timestamp >= 0 else None
        rows.append(
            {
                **of_partition(topic_partition),
                "offset": offset,
                "timestamp_ms": timestamp,
                "error": error_or_none(result),
            }
        )
    return rows


def deleted_records_rows(outcomes: Mapping[TopicPartition, int | KafkaError]) -> list[Row]:
    """Return the new starts of partitions."""
    return [
        {
            **of_partition(topic_partition),
            "low_watermark": None if isinstance(outcome, KafkaError) else outcome,
            "error": error_or_none(outcome),
        }
        for topic_partition, outcome in outcomes.items()
    ]


def log_dir_rows(
    found: Mapping[BrokerId, dict[str, LogDir] | Exception], topics: Iterable[str]
) -> list[Row]:
    """Return the directories of brokers, with the replicas of some topics or of all. Raise what a broker answered."""
    rows: list[Row] = []
    for broker_id, log_dirs in found.items():
        if isinstance(log_dirs, Exception):
            raise log_dirs
        rows += [_log_dir(broker_id, path, each, set(topics)) for path, each in log_dirs.items()]
    return rows


def _log_dir(broker_id: int, path: str, log_dir: LogDir, topics: set[str]) -> Row:
    return {
        "broker_id": broker_id,
        "log_dir": path,
        "error": None if log_dir.error is None else error_object(log_dir.error),
        "total_bytes": log_dir.total_bytes if log_dir.total_bytes >= 0 else None,
        "usable_bytes": log_dir.usable_bytes if log_dir.usable_bytes >= 0 else None,
        "replicas": [
            {
                **of_partition(topic_partition),
                "size": replica.size,
                "offset_lag": replica.offset_lag,
                "is_future": replica.is_future,
            }
            for topic_partition, replica in sorted(log_dir.replicas.items())
            if not topics or topic_partition.topic in topics
        ],
    }


def of_partition(topic_partition: TopicPartition) -> dict[str, object]:
    """Return the keys that name a partition."""
    return {"topic": topic_partition.topic, "partition": topic_partition.partition}


def of_partitions(partitions: Sequence[TopicPartition]) -> list[dict[str, object]]:
    """Return partitions, sorted."""
    return [of_partition(topic_partition) for topic_partition in sorted(partitions)]
