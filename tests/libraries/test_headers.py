"""The header of a batch that kafka-python built."""

from kafka.record.default_records import DefaultRecordBatchBuilder

from kavka.wire.records import header as h
from kavka.wire.records.compression import Compression


def a_batch(count: int = 3, producer_id: int = -1, transactional: bool = False) -> bytearray:
    builder = DefaultRecordBatchBuilder(
        2, 0, int(transactional), producer_id, 0 if producer_id >= 0 else -1, 7, 1 << 20
    )
    for index in range(count):
        builder.append(index, 1000 + index, b"key", b"value", [])
    return bytearray(builder.build())


def test_a_header_of_another_client_is_read() -> None:
    batch = a_batch(3, producer_id=5, transactional=True)
    header = h.read_header(batch)
    assert header.size == len(batch) == header.end
    assert (header.base_timestamp, header.max_timestamp) == (1000, 1002)
    assert (header.last_offset, header.record_count, header.last_sequence) == (2, 3, 9)
    assert header.producer_id == 5
    assert header.is_transactional
    assert not header.is_control
    assert header.compression is Compression.NONE
    assert header.crc == h.batch_crc(batch, header)
    assert h.encode_header(header) == bytes(batch[:61])
