"""The consumer, along the path of a record.

`subscription` (the assigned partitions), by `assign` or from `group` (coordinator, assignors) -> `positions` (committed
offset, or a lookup) -> `fetch.fetcher` (requests ahead of the user, into the partitions' buffers) -> `consumer` (`poll`
drains the buffers) -> `batches` (decoded when they are read), or record by record by `record_iteration` ->
`consumed_positions`, which `offsets` and `auto_commit` commit.

Names are imported on first use: the admin client shares a few of these modules and needs no consumer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kavka.client.consumer.batches import (
        ConsumerRecord,
        CorruptRecordError,
        FetchedBatches,
        RecordDeserializationError,
    )
    from kavka.client.consumer.consumer import Consumer
    from kavka.client.consumer.group.rebalance_listener import RebalanceListener
    from kavka.core.group_member.steps import OffsetAndMetadata

__all__ = [
    "Consumer",
    "ConsumerRecord",
    "CorruptRecordError",
    "FetchedBatches",
    "OffsetAndMetadata",
    "RebalanceListener",
    "RecordDeserializationError",
]

_HOMES = {
    "Consumer": "consumer",
    "ConsumerRecord": "batches",
    "CorruptRecordError": "batches",
    "FetchedBatches": "batches",
    "OffsetAndMetadata": "subscription",
    "RebalanceListener": "group.rebalance_listener",
    "RecordDeserializationError": "batches",
}


if not TYPE_CHECKING:  # else a type checker would take every name

    def __getattr__(name: str) -> Any:
        """Import a public name from the module that has it."""
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    """Return all names, those that were not imported yet, too."""
    return sorted({*globals(), *__all__})
