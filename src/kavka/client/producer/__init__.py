"""The producer: partitioner, accumulator and sequences (pure), sender and `Producer` (shells)."""

from kavka.client.producer.accumulator import BufferFull
from kavka.client.producer.batch import RecordMetadata, RecordRange
from kavka.client.producer.partitioner import murmur2
from kavka.client.producer.producer import Producer

__all__ = ["BufferFull", "Producer", "RecordMetadata", "RecordRange", "murmur2"]
