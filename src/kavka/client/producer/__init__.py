"""The producer, along the path of a record.

`producer` (the public methods) -> `record_serializer` (interceptors, serializers) -> `record_input` (the one way in,
also of `batch_send` and `table_send`) -> `record_appender` (partition and batch) -> `accumulator` (batches that wait)
-> `sender` (requests), with `sequences` of the idempotent producer and the `transaction_manager` -> `batch_outcomes`
(written, sent again, or failed) -> the `record_future` or callback, else `record_failures`. `outstanding_records`
counts and waits for what is on the way.
"""

from kavka.client.producer.accumulator import BufferFull
from kavka.client.producer.batch import RecordRange
from kavka.client.producer.partitioner import murmur2
from kavka.client.producer.producer import Producer
from kavka.client.producer.record_future import RecordMetadata
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
