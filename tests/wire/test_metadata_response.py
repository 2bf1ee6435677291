"""Topics that are kept as bytes make the same responses as messages do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.ids import TopicId
from kavka.wire.frame import encode_response
from kavka.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kavka.wire.metadata_response import (
    PartitionRow,
    encode_partitions,
    encode_topic_end,
    encode_topic_head,
    with_topics,
)

VERSIONS = range(13)
i32 = st.integers(-(2**31), 2**31 - 1)
brokers = st.lists(i32, max_size=4)
rows = st.builds(PartitionRow, st.sampled_from([0, 5]), i32, i32, i32, brokers, brokers, brokers)
topics = st.lists(
    st.tuples(
        st.text(max_size=200),
        st.binary(min_size=16, max_size=16),
        st.booleans(),
        st.lists(rows, max_size=4),
        st.sampled_from([-(2**31), 3576]),
    ),
    max_size=3,
)


def message_of(version, found):
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=1, host="a", port=9092, rack="r")],
        cluster_id="c",
        controller_id=1,
        topics=[
            MetadataResponseTopic(
                name=name,
                topic_id=topic_id,
                is_internal=is_internal,
                partitions=[
                    MetadataResponsePartition(
                        error_code=row.error_code,
                        partition_index=row.partition,
                        leader_id=row.leader,
                        leader_epoch=row.leader_epoch,
                        replica_nodes=list(row.replicas),
                        isr_nodes=list(row.in_sync_replicas),
                        offline_replicas=list(row.offline_replicas),
                    )
                    for row in partitions
                ],
                topic_authorized_operations=operations if version >= 8 else -(2**31),
            )
            for name, topic_id, is_internal, partitions, operations in found
        ],
    )


def encoded(version, found):
    return [
        encode_topic_head(version, name, TopicId(topic_id), is_internal, len(partitions))
        + encode_partitions(version, partitions)
        + encode_topic_end(version, operations)
        for name, topic_id, is_internal, partitions, operations in found
    ]


def check(version, found):
    expected = b"".join(encode_response(message_of(version, found), version, 7))  # type: ignore[arg-type]
    (empty,) = encode_response(message_of(version, []), version, 7)
    assert with_topics(empty, version, encoded(version, found)) == expected  # type: ignore[arg-type]


@given(st.sampled_from(VERSIONS), topics)
def test_encoded_topics_make_the_bytes_of_the_message(version, found):
    check(version, found)


@given(st.sampled_from([0, 5, 9, 12]), st.integers(120, 140))
def test_lengths_take_as_many_bytes_as_they_need(version, count):
    row = PartitionRow(0, 1, 2, 3, list(range(count)), [1], list(range(count)))
    topic = ("t" * count, bytes(16), False, [row, row], -(2**31))
    check(version, [topic, topic])


@pytest.mark.parametrize("version", [0, 8, 9])
@pytest.mark.parametrize("count", [126, 127, 128])
def test_topics_and_partitions_are_counted_in_as_many_bytes_as_they_take(
    version: int, count: int
) -> None:
    rows = [PartitionRow(0, number, 1, 1, [1], [1], []) for number in range(count)]
    check(
        version,
        [("t", bytes(16), False, rows, -(2**31))] + [("u", bytes(16), True, [], -(2**31))] * count,
    )
