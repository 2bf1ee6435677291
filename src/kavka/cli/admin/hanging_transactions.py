"""The table of `kavka transactions find-hanging`."""

from __future__ import annotations

from kavka.cli.text.tab_table import tab_table
from kavka.client.admin.hanging_transactions import Open

_HEADERS = (
    "Topic",
    "Partition",
    "ProducerId",
    "ProducerEpoch",
    "CoordinatorEpoch",
    "StartOffset",
    "LastTimestamp",
    "Duration(min)",
)


def hanging_table(hanging: list[Open], now_ms: int) -> str:
    """Return the table of hanging transactions."""
    rows = [
        (
            topic_partition.topic,
            topic_partition.partition,
            p.producer_id,
            p.producer_epoch,
            -1 if p.coordinator_epoch is None else p.coordinator_epoch,
            p.current_transaction_start_offset,
            p.last_timestamp_ms,
            (now_ms - p.last_timestamp_ms) // 60_000,
        )
        for topic_partition, p in hanging
    ]
    return tab_table(_HEADERS, rows)
