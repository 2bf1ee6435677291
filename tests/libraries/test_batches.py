"""Batches built and read, beside the builders and readers of kafka-python and aiokafka."""

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder
from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder

from kavka.wire.records.batch import (
    decode_records,
)
from kavka.wire.records.compression import Compression
from kavka.wire.records.header import (
    batch_crc,
    read_header,
)
from support.record_samples import EXPECTED, ROWS, built


@pytest.mark.parametrize("codec", list(Compression))
@pytest.mark.parametrize("reader", [KafkaPythonBatch, AiokafkaBatch])
def test_others_read_our_batches(codec, reader):
    batch = reader(bytes(built(compression=codec)))
    assert batch.validate_crc()
    found = [(r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in batch]
    assert found == [(r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in EXPECTED]


@pytest.mark.parametrize("codec", list(Compression))
@pytest.mark.parametrize("make", [KafkaPythonBuilder, AiokafkaBuilder])
def test_we_read_the_batches_of_others(codec, make):
    builder = make(2, int(codec), 0, -1, -1, -1, 1 << 24)
    for index, (key, value, timestamp, headers) in enumerate(ROWS):
        builder.append(index, timestamp, key, value, headers)
    batch = bytes(builder.build())
    header = read_header(batch)
    assert header.compression is codec
    assert header.crc == batch_crc(batch, header)
    assert decode_records(memoryview(batch), header) == EXPECTED


def test_an_uncompressed_batch_is_that_of_kafka_python_to_the_byte() -> None:
    theirs = KafkaPythonBuilder(2, 0, 0, -1, -1, -1, 1 << 24)
    for index, (key, value, timestamp, headers) in enumerate(ROWS):
        theirs.append(index, timestamp, key, value, headers)
    ours = built(leader_epoch=read_header(bytes(theirs.build())).partition_leader_epoch)
    assert ours == bytes(theirs.build())
