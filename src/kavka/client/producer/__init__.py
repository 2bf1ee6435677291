"""The producer: partitioner, accumulator and sequences (pure), sender and `Producer` (shells)."""

from kavka.client.producer.accumulator import BufferFull
from kavka.client.producer.batch import RecordMetadata, RecordRange
from kavka.client.producer.partitioner import murmur2
from kavka.client.producer.producer import Producer
from kavka.client.producer.records import ProducerRecord
from kavka.core.transactional_producer.errors import AbortableError, FatalError
from kavka.core.transactional_producer.state import PreparedTxnState

__all__ = [
    "AbortableError",
    "BufferFull",
    "FatalError",
    "PreparedTxnState",
    "Producer",
    "ProducerRecord",
    "RecordMetadata",
    "RecordRange",
    "murmur2",
]
