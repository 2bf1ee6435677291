"""The bytes of a request with one batch, and what is read of its response, are those of the messages."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kavka.wire.frame import encode_request, encode_response
from kavka.wire.messages.produce import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
    ProduceResponse,
    ProduceResponsePartition,
    ProduceResponseTopic,
)
from kavka.wire.produce_request import FIRST_VERSION, LAST_VERSION, encode_batch
from kavka.wire.produce_response import decode_written, encode_written

i16 = st.integers(-(2**15), 2**15 - 1)
i32 = st.integers(-(2**31), 2**31 - 1)
i64 = st.integers(-(2**63), 2**63 - 1)
names = st.text(max_size=9) | st.just("n" * 200)
records = st.binary(max_size=9) | st.sampled_from([126, 127, 5000, 70_000]).map(bytes)


@given(
    st.integers(FIRST_VERSION, LAST_VERSION),
    i32,
    st.none() | names,
    st.tuples(st.none() | names, i16, i32),
    st.tuples(names, i32),
    records,
)
def test_a_request_with_one_batch_is_encoded_as_its_message(
    version, correlation_id, client_id, parameters, place, batch
):
    transactional_id, acks, timeout_ms = parameters
    message = ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[
            ProduceRequestTopic(
                name=place[0],
                partition_data=[ProduceRequestPartition(index=place[1], records=batch)],
            )
        ],
    )
    expected: Any = encode_request(message, version, correlation_id, client_id)
    for _ in range(2):  # the second time with the head of the first
        found: Any = encode_batch(version, correlation_id, client_id, parameters, place, batch)
        assert b"".join(found) == b"".join(expected)
    assert [type(part) for part in found] == [type(part) for part in expected]


@given(st.integers(0, 12), st.text(max_size=130), st.tuples(i32, i64, i64, i64))
def test_a_response_to_one_batch_is_read_as_its_maker_wrote_it(version, topic, written):
    frame = memoryview(encode_written(version, 7, [(topic, [written])]))[4:]
    found = decode_written(version, frame)
    if version >= 9 and len(topic.encode()) < 127:
        assert found == (topic, *written[:3])
    else:
        assert found is None


part = st.builds(
    ProduceResponsePartition,
    index=i32,
    error_code=st.sampled_from([0, 0, 0, 6]),
    base_offset=i64,
    error_message=st.none() | st.just("x"),
)
response = st.builds(
    ProduceResponse,
    responses=st.lists(
        st.builds(
            ProduceResponseTopic,
            name=st.text(max_size=5),
            partition_responses=st.lists(part, max_size=2),
        ),
        max_size=2,
    ),
    throttle_time_ms=st.sampled_from([0, 0, 5]),
)


@given(st.integers(9, 12), response)
def test_only_a_response_that_says_nothing_else_is_read_so(version, message):
    frame = b"".join(encode_response(message, version, 1))[4:]  # type: ignore[arg-type]
    found = decode_written(version, frame)
    parts = [(t.name, p) for t in message.responses for p in t.partition_responses]
    if found is None:
        is_plain = len(message.responses) == 1 and len(parts) == 1 and not message.throttle_time_ms
        assert not is_plain or parts[0][1].error_code or parts[0][1].error_message
    else:
        ((name, only),) = parts
        assert found == (name, only.index, only.base_offset, only.log_append_time_ms)
        assert (message.throttle_time_ms, only.error_code, only.error_message) == (0, 0, None)


@given(st.binary(max_size=80), st.integers(0, 12))
def test_any_bytes_are_read_as_a_written_batch_or_not_at_all(frame, version):
    found = decode_written(version, frame)
    assert found is None or version >= 9
