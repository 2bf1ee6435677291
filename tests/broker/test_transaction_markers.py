"""Markers of transactions at the partitions that take part: which are refused, which are written."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kavka.core.transaction.events import End, EndReply, SendMarkers
from kavka.core.transaction_markers.events import TransactionMarkers
from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.wire.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersRequestMarker,
    WriteTxnMarkersRequestTopic,
)
from kavka.wire.records.header import batch_crc, walk_complete
from support.one_broker import Served
from support.transactional_producer import (
    NONE,
    Producer,
    Run,
    replica,
)
from support.waiting import until


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


def of(producer_id: int, epoch: int, *partitions: TopicPartition) -> TransactionMarkers:
    """Return the markers of a commit."""
    transaction = SendMarkers(f"x{producer_id}", producer_id, epoch, True, partitions)
    return TransactionMarkers(5, transaction, list(partitions))


class Notified:
    """Observes a replica: it is notified once for each append."""

    def __init__(self) -> None:
        self.count = 0

    def notify(self, *, can_wait: bool = False) -> None:
        self.count += 1


def test_markers_of_several_producers_are_written_together(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        assert await mark(served, 3, 5, t=[0]) == [NONE]  # of producer 7
        observer = Notified()
        replica(served).observers[observer] = None
        appender = served.broker.lazy.marker_appender.get()
        t, missing = TopicPartition("t", 0), TopicPartition("missing", 0)
        assert appender.write_own([of(8, 0, t), of(7, 2, t), of(9, 0, t, missing)]) == {
            (8, t): NONE,
            (7, t): ErrorCode.INVALID_PRODUCER_EPOCH,
            (9, t): NONE,
            (9, missing): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
        assert observer.count == 1
        found = await served.fetch("t", 0)
        headers = walk_complete(bytes(found.records))
        assert [(one.producer_id, one.base_offset) for one in headers] == [(7, 0), (8, 1), (9, 2)]
        assert all(
            one.is_control and batch_crc(bytes(found.records), one) == one.crc for one in headers
        )
        assert replica(served).partition.high_watermark == 3

    run(story)


def test_transactions_that_end_together_are_completed_by_one_batch(run: Run) -> None:
    async def story(served: Served) -> None:
        transactions = served.broker.transactions
        producers = [await Producer.begin(served, name) for name in ("a", "b")]
        for one in producers:
            await one.add()
            assert (await one.produce(b"v")).error_code == NONE

        def end_of(producer: Producer) -> Callable[[int], End]:
            return lambda token: End(
                token, producer.name, producer.producer_id, producer.epoch, committed=True
            )

        for one in producers:
            reply = transactions.ask(one.name, end_of(one))
            # With one replica nothing has to be waited for.
            assert reply.done()
            assert reply.value == EndReply(NONE)
        await until(lambda: not len(transactions.markers))
        # The ends wait for the next records of their ids, but not for long.
        states = [transactions.describe(one.name).state for one in producers]
        assert states == ["CompleteCommit", "CompleteCommit"]
        stored = served.replica(TopicPartition("__transaction_state", 0))
        await until(lambda: stored.log.log_end_offset > 6)
        found = await served.fetch("__transaction_state", 0)
        counts = [one.record_count for one in walk_complete(bytes(found.records))]
        assert counts == [1, 1, 1, 1, 1, 1, 2], "two ids, partitions, outcomes, and both ends"

    run(story, transaction__state__log__num__partitions="1")


def test_an_end_goes_with_the_first_record_of_the_next_transaction(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kavka.core.transaction.shard.COMPLETION_DELAY_MS", 600_000)

    async def story(served: Served) -> None:
        one = await Producer.begin(served, "a")
        await one.add()
        assert (await one.produce(b"v")).error_code == NONE
        await one.ended(committed=True)
        await one.add()
        found = await served.fetch("__transaction_state", 0)
        counts = [each.record_count for each in walk_complete(bytes(found.records))]
        assert counts == [1, 1, 1, 2], (
            "the id, its partition, the outcome; the end and the next partition"
        )

    run(story, transaction__state__log__num__partitions="1")


def test_a_clean_stop_writes_the_ends_that_are_owed(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kavka.core.transaction.shard.COMPLETION_DELAY_MS", 600_000)

    async def first(served: Served) -> None:
        one = await Producer.begin(served, "a")
        await one.add()
        assert (await one.produce(b"v")).error_code == NONE
        await one.ended(committed=True)
        assert replica(served).log.log_end_offset == 2

    async def second(served: Served) -> None:
        stored = served.replica(TopicPartition("__transaction_state", 0)).log
        assert stored.log_end_offset == 4
        assert served.broker.transactions.describe("a").state == "CompleteCommit"
        assert not len(served.broker.transactions.markers)
        assert replica(served).log.log_end_offset == 2

    run(first, transaction__state__log__num__partitions="1")
    run(second, transaction__state__log__num__partitions="1")
