"""The bytes of a follower's Fetch are those of the message."""

from hypothesis import given
from hypothesis import strategies as st

from kavka.wire.fetch_request import FollowerFetch
from kavka.wire.frame import encode_request
from kavka.wire.messages.fetch import (
    FetchRequest,
    FetchRequestPartition,
    FetchRequestReplicaState,
    FetchRequestTopic,
)

i32 = st.integers(-(2**31), 2**31 - 1)
i64 = st.integers(-(2**63), 2**63 - 1)
# The message leaves the tag of the replica out where it has the defaults, which no follower has.
replica_id = st.integers(0, 2**31 - 1)
named = st.lists(st.tuples(i32, i32, i64, i32, i64, i32), max_size=3)
by_id = st.dictionaries(st.binary(min_size=16, max_size=16), named, max_size=3)
fetches = st.builds(FollowerFetch, replica_id, i64, i32, i32, i32, i32, i32, by_id)


def as_message(fetch):
    return FetchRequest(
        replica_state=FetchRequestReplicaState(
            replica_id=fetch.replica_id, replica_epoch=fetch.replica_epoch
        ),
        max_wait_ms=fetch.max_wait_ms,
        min_bytes=fetch.min_bytes,
        max_bytes=fetch.max_bytes,
        session_id=fetch.session_id,
        session_epoch=fetch.session_epoch,
        topics=[
            FetchRequestTopic(
                topic_id=topic_id,
                partitions=[
                    FetchRequestPartition(
                        partition=partition,
                        current_leader_epoch=leader_epoch,
                        fetch_offset=fetch_offset,
                        last_fetched_epoch=last_fetched_epoch,
                        log_start_offset=log_start_offset,
                        partition_max_bytes=max_bytes,
                    )
                    for (
                        partition,
                        leader_epoch,
                        fetch_offset,
                        last_fetched_epoch,
                        log_start_offset,
                        max_bytes,
                    ) in rows
                ],
            )
            for topic_id, rows in fetch.topics.items()
        ],
    )


@given(fetches, st.integers(15, 17), i32, st.none() | st.text(max_size=20))
def test_a_followers_fetch_is_encoded_as_its_message(fetch, version, correlation_id, client_id):
    parts = encode_request(as_message(fetch), version, correlation_id, client_id)
    expected = b"".join(parts)  # type: ignore[arg-type]
    assert b"".join(fetch.encode(version, correlation_id, client_id)) == expected


def test_many_partitions_are_counted_in_as_many_bytes_as_they_take():
    rows = {bytes(16): [(index, 0, index, 0, 0, 1 << 20) for index in range(130)]}
    fetch = FollowerFetch(1, 2, 500, 1, 1 << 20, 3, 4, rows)
    expected = b"".join(encode_request(as_message(fetch), 17, 9, "b"))  # type: ignore[arg-type]
    assert b"".join(fetch.encode(17, 9, "b")) == expected
