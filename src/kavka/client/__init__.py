"""Producer, consumer and admin client on asyncio; `blocking` has the same three for threads.

Pure parts (partitioner, accumulator, sequences, metadata cache, subscription, assignors) stand beside the shells
that use them and say so in the first line of their docstrings. Names are imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kavka.client.admin import Admin, NewPartitions, NewTopic, OffsetSpec
    from kavka.client.consumer import (
        Consumer,
        CorruptRecordError,
        FetchedBatches,
        OffsetAndMetadata,
        RecordDeserializationError,
    )
    from kavka.client.exactly_once import ExactlyOnce
    from kavka.client.producer import (
        AbortableError,
        BufferFull,
        FatalError,
        PreparedTxnState,
        Producer,
        ProducerRecord,
        RecordMetadata,
    )
    from kavka.client.setting_names import SettingWithoutEffect, UnknownSetting
    from kavka.core.group_member.steps import GroupMetadata
    from kavka.ids import TopicPartition

_HOMES = {
    "AbortableError": "kavka.client.producer",
    "Admin": "kavka.client.admin",
    "BufferFull": "kavka.client.producer",
    "Consumer": "kavka.client.consumer",
    "CorruptRecordError": "kavka.client.consumer",
    "ExactlyOnce": "kavka.client.exactly_once",
    "FatalError": "kavka.client.producer",
    "FetchedBatches": "kavka.client.consumer",
    "GroupMetadata": "kavka.core.group_member.steps",
    "NewPartitions": "kavka.client.admin",
    "NewTopic": "kavka.client.admin",
    "OffsetAndMetadata": "kavka.client.consumer",
    "OffsetSpec": "kavka.client.admin",
    "PreparedTxnState": "kavka.client.producer",
    "Producer": "kavka.client.producer",
    "ProducerRecord": "kavka.client.producer",
    "RecordDeserializationError": "kavka.client.consumer",
    "RecordMetadata": "kavka.client.producer",
    "SettingWithoutEffect": "kavka.client.setting_names",
    "TopicPartition": "kavka.ids",
    "UnknownSetting": "kavka.client.setting_names",
}

__all__ = [
    "AbortableError",
    "Admin",
    "BufferFull",
    "Consumer",
    "CorruptRecordError",
    "ExactlyOnce",
    "FatalError",
    "FetchedBatches",
    "GroupMetadata",
    "NewPartitions",
    "NewTopic",
    "OffsetAndMetadata",
    "OffsetSpec",
    "PreparedTxnState",
    "Producer",
    "ProducerRecord",
    "RecordDeserializationError",
    "RecordMetadata",
    "SettingWithoutEffect",
    "TopicPartition",
    "UnknownSetting",
]


def __getattr__(name: str) -> Any:
    """Import a public name from the module that has it."""
    if name not in _HOMES:
        raise AttributeError(f"module 'kavka.client' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """Return all names, those that were not imported yet, too."""
    return sorted({*globals(), *__all__})
