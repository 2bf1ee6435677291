"""Objects of `kavka transactions`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kavka.cli.json_lines.lines import Row
from kavka.cli.json_rows.topics import of_partition, of_partitions
from kavka.client.admin.transactions import (
    ProducerState,
    TransactionDescription,
    TransactionListing,
)
from kavka.ids import BrokerId, TopicPartition


def listed_rows(found: Mapping[BrokerId, Iterable[TransactionListing]]) -> list[Row]:
    """Return transactional ids by coordinator."""
    return [
        {
            "transactional_id": each.transactional_id,
            "coordinator_id": broker_id,
            "producer_id": each.producer_id,
            "state": each.state,
        }
        for broker_id, listed in found.items()
        for each in listed
    ]


def described_row(name: str, found: TransactionDescription, now_ms: int) -> Row:
    """Return the state of a transactional id."""
    start_ms = found.start_time_ms
    return {
        "coordinator_id": found.coordinator_id,
        "transactional_id": name,
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "state": found.state,
        "timeout_ms": found.timeout_ms,
        "start_time_ms": start_ms,
        "duration_ms": None if start_ms is None else now_ms - start_ms,
        "partitions": of_partitions(found.partitions),
    }


def producer_rows(topic_partition: TopicPartition, found: Iterable[ProducerState]) -> list[Row]:
    """Return the producers of a partition."""
    return [
        {
            **of_partition(topic_partition),
            "producer_id": each.producer_id,
            "producer_epoch": each.producer_epoch,
            "coordinator_epoch": each.coordinator_epoch,
            "last_sequence": each.last_sequence,
            "last_timestamp_ms": each.last_timestamp_ms,
            "current_transaction_start_offset": each.current_transaction_start_offset,
        }
        for each in found
    ]


def hanging_rows(found: Iterable[tuple[TopicPartition, ProducerState]], now_ms: int) -> list[Row]:
    """Return hanging transactions."""
    return [
        {
            **of_partition(topic_partition),
            "producer_id": each.producer_id,
            "producer_epoch": each.producer_epoch,
            "coordinator_epoch": each.coordinator_epoch,
            "start_offset": each.current_transaction_start_offset,
            "last_timestamp_ms": each.last_timestamp_ms,
            "duration_ms": now_ms - each.last_timestamp_ms,
        }
        for topic_partition, each in found
    ]
