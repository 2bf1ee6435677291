"""The bytes of a response without errors are those of the message."""

from hypothesis import given
from hypothesis import strategies as st

from kavka.wire.frame import encode_response
from kavka.wire.messages.produce import (
    ProduceResponse,
    ProduceResponsePartition,
    ProduceResponseTopic,
)
from kavka.wire.produce_response import encode_written

i32 = st.integers(-(2**31), 2**31 - 1)
i64 = st.integers(-(2**63), 2**63 - 1)
written = st.tuples(i32, i64, i64, i64)
topics = st.lists(st.tuples(st.text(max_size=300), st.lists(written, max_size=3)), max_size=3)


@given(st.integers(0, 12), i32, topics)
def test_a_response_without_errors_is_encoded_as_its_message(version, correlation_id, topics):
    message = ProduceResponse(
        responses=[
            ProduceResponseTopic(
                name=name,
                partition_responses=[
                    ProduceResponsePartition(
                        index=index,
                        base_offset=base_offset,
                        log_append_time_ms=append_time_ms,
                        log_start_offset=log_start_offset,
                    )
                    for index, base_offset, append_time_ms, log_start_offset in partitions
                ],
            )
            for name, partitions in topics
        ]
    )
    expected = b"".join(encode_response(message, version, correlation_id))  # type: ignore[arg-type]
    assert encode_written(version, correlation_id, topics) == expected


@given(st.sampled_from([0, 9, 12]), st.integers(126, 200))
def test_many_partitions_are_counted_in_as_many_bytes_as_they_take(version, count):
    partitions = [(index, index, -1, 0) for index in range(count)]
    message = ProduceResponse(
        responses=[
            ProduceResponseTopic(
                name="t",
                partition_responses=[
                    ProduceResponsePartition(index=index, base_offset=index, log_start_offset=0)
                    for index in range(count)
                ],
            )
        ]
    )
    expected = b"".join(encode_response(message, version, 1))  # type: ignore[arg-type]
    assert encode_written(version, 1, [("t", partitions)]) == expected
