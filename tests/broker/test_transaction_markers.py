"""Markers of transactions at the partitions that take part: which are refused, which are written."""

from __future__ import annotations

from kavka.errors import ErrorCode
from kavka.wire.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersRequestMarker,
    WriteTxnMarkersRequestTopic,
)
from support.one_broker import Served
from support.transactional_producer import (
    NONE,
    Run,
    replica,
)


async def mark(
    served: Served, epoch: int, coordinator_epoch: int, **topics: list[int]
) -> list[int]:
    rows = [WriteTxnMarkersRequestTopic(name=n, partition_indexes=p) for n, p in topics.items()]
    marker = WriteTxnMarkersRequestMarker(
        producer_id=7,
        producer_epoch=epoch,
        transaction_result=True,
        topics=rows,
        coordinator_epoch=coordinator_epoch,
    )
    # As the coordinators in this process do: from the network, no epoch is taken that no coordinator has.
    appender = served.broker.lazy.marker_appender.get()
    response = await appender.write(WriteTxnMarkersRequest(markers=[marker]))
    (result,) = response.markers
    assert result.producer_id == 7
    return [row.error_code for topic in result.topics for row in topic.partitions]


def test_markers_are_refused_partition_by_partition(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        assert await mark(served, 1, 5, t=[0, 9], nonexistent=[0]) == [
            NONE,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]
        assert await mark(served, 1, 4, t=[0]) == [ErrorCode.TRANSACTION_COORDINATOR_FENCED]
        assert await mark(served, 0, 5, t=[0]) == [ErrorCode.INVALID_PRODUCER_EPOCH]
        assert await mark(served, 1, 5, t=[0]) == [NONE]
        assert replica(served).log.log_end_offset == 2
        assert (await served.send(WriteTxnMarkersRequest(markers=[]), 1)).markers == []

    run(story)


def test_a_marker_that_is_named_twice_is_written_once(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        topic = WriteTxnMarkersRequestTopic(name="t", partition_indexes=[0, 0])
        marker = WriteTxnMarkersRequestMarker(
            producer_id=7,
            producer_epoch=0,
            transaction_result=True,
            topics=[topic, topic],
            coordinator_epoch=0,
        )
        response = await served.send(WriteTxnMarkersRequest(markers=[marker, marker]), 1)
        (result,) = response.markers
        (row,) = result.topics[0].partitions
        assert row.error_code == NONE
        assert replica(served).log.log_end_offset == 1

    run(story)
