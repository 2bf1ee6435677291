"""The bytes of a follower's response without errors are those of the message."""

from hypothesis import given
from hypothesis import strategies as st

from kavka.wire.fetch_response import encode_fetched
from kavka.wire.frame import encode_response
from kavka.wire.messages.fetch import (
    FetchResponse,
    FetchResponsePartition,
    FetchResponseTopic,
)

i32 = st.integers(-(2**31), 2**31 - 1)
i64 = st.integers(-(2**63), 2**63 - 1)
fetched = st.lists(st.tuples(i32, i64, i64, i64, st.binary(max_size=300)), max_size=3)
by_id = st.dictionaries(st.binary(min_size=16, max_size=16), fetched, max_size=3)
by_name = st.dictionaries(st.text(max_size=200), fetched, max_size=3)


def as_message(session_id, topics):
    return FetchResponse(
        session_id=session_id,
        responses=[
            FetchResponseTopic(
                **({"topic": name} if isinstance(name, str) else {"topic_id": name}),
                partitions=[
                    FetchResponsePartition(
                        partition_index=index,
                        high_watermark=high_watermark,
                        last_stable_offset=last_stable_offset,
                        log_start_offset=log_start_offset,
                        records=records,
                    )
                    for index, high_watermark, last_stable_offset, log_start_offset, records in rows
                ],
            )
            for name, rows in topics.items()
        ],
    )


@given(
    st.one_of(
        st.tuples(st.just(12), by_name),
        st.tuples(st.integers(13, 17), by_id),
    ),
    i32,
    i32,
)
def test_a_response_without_errors_is_encoded_as_its_message(asked, correlation_id, session_id):
    version, topics = asked
    parts = encode_response(as_message(session_id, topics), version, correlation_id)
    expected = b"".join(parts)  # type: ignore[arg-type]
    assert encode_fetched(version, correlation_id, session_id, topics) == expected


def test_many_partitions_are_counted_in_as_many_bytes_as_they_take():
    topics: dict[str | bytes, list[tuple[int, int, int, int, bytes]]]
    topics = {bytes(16): [(index, 1, 1, 0, bytes(200)) for index in range(130)]}
    expected = b"".join(encode_response(as_message(5, topics), 17, 1))  # type: ignore[arg-type]
    assert encode_fetched(17, 1, 5, topics) == expected
