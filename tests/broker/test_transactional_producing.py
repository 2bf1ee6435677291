"""Transactions at the partitions that take part: what is verified and appended, and what is refused."""

from __future__ import annotations

import asyncio

import pytest

from kavka.errors import ErrorCode
from kavka.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnRequestTopic,
)
from kavka.wire.messages.find_coordinator import FindCoordinatorRequest
from support.one_broker import Served
from support.transactional_producer import (
    NONE,
    SETTINGS,
    Producer,
    Run,
    committed,
    fetch,
    replica,
)
from support.waiting import until


def test_a_committed_transaction_is_read_and_an_aborted_one_is_not(run: Run) -> None:
    async def story(served: Served) -> None:
        one = await Producer.begin(served, "one")
        two = await Producer.begin(served, "two")
        await one.add()
        await two.add()
        assert (await one.produce(b"a", b"b")).error_code == NONE
        assert (await two.produce(b"never")).base_offset == 2
        assert (await one.produce(b"c")).base_offset == 3
        assert await committed(served) == []
        assert (await fetch(served)).last_stable_offset == 0
        await one.ended(committed=True)
        assert await committed(served) == [b"a", b"b"]
        await two.ended(committed=False)
        assert await committed(served) == [b"a", b"b", b"c"]
        found = await fetch(served)
        assert (found.last_stable_offset, found.high_watermark) == (6, 6)
        (row,) = found.aborted_transactions
        assert (row.producer_id, row.first_offset) == (two.producer_id, 2)
        assert [r.value for r in await served.read("t")][:4] == [b"a", b"b", b"never", b"c"]

    run(story, **SETTINGS)


@pytest.mark.parametrize(
    ("version", "code"),
    [(9, ErrorCode.INVALID_TXN_STATE), (11, ErrorCode.TRANSACTION_ABORTABLE)],
)
def test_a_batch_that_comes_after_its_transactions_end_is_refused(
    run: Run, version: int, code: ErrorCode
) -> None:
    async def story(served: Served) -> None:
        producer = await Producer.begin(served)
        await producer.add()
        assert (await producer.produce(b"a")).error_code == NONE
        await producer.ended(committed=True)
        response = await producer.produce(b"late", version=version)
        assert (response.error_code, response.base_offset) == (code, -1)
        if version == 9:
            assert response.error_message == "Partition was not added to the transaction"
        assert replica(served).log.log_end_offset == 2

    run(story, **SETTINGS)


def test_a_batch_of_an_unknown_transaction_is_refused(run: Run) -> None:
    async def story(served: Served) -> None:
        producer = await Producer.begin(served)
        assert (await producer.produce(b"a")).error_code == ErrorCode.INVALID_TXN_STATE
        stranger = Producer(served, "stranger", 77)
        code = (await stranger.produce(b"a")).error_code
        assert code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert replica(served).log.log_end_offset == 0

    run(story, **SETTINGS)


def test_a_fenced_producer_gets_an_invalid_epoch(run: Run) -> None:
    async def story(served: Served) -> None:
        zombie = await Producer.begin(served)
        await zombie.add()
        await zombie.produce(b"a")
        heir = await Producer.begin(served)
        assert heir.epoch > zombie.epoch
        assert (await zombie.produce(b"b")).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
        assert await committed(served) == []
        assert (await fetch(served)).last_stable_offset == 2

    run(story, **SETTINGS)


def test_batches_that_wait_for_the_coordinator_keep_their_order(run: Run) -> None:
    async def story(served: Served) -> None:
        producer = await Producer.begin(served)
        await producer.add()
        requests = [producer.request(producer.batch(b"%d" % number)) for number in range(5)]
        responses = await asyncio.gather(*(served.send(request, 9) for request in requests))
        rows = [response.responses[0].partition_responses[0] for response in responses]
        assert [row.error_code for row in rows] == [NONE] * 5
        assert [row.base_offset for row in rows] == [0, 1, 2, 3, 4]
        again = await served.send(requests[0], 9)
        assert again.responses[0].partition_responses[0].base_offset == 0
        await producer.ended(committed=True)
        assert await committed(served) == [b"0", b"1", b"2", b"3", b"4"]

    run(story, **SETTINGS)


def test_each_partition_of_a_request_is_judged_by_itself(run: Run) -> None:
    async def story(served: Served) -> None:
        producer = await Producer.begin(served)
        await producer.add()
        request = producer.request(producer.batch(b"a"))
        second = producer.request(bytearray(), producer.batch(b"b")).topic_data[0].partition_data
        request.topic_data[0].partition_data.append(second[1])
        response = await served.send(request, 9)
        codes = [row.error_code for row in response.responses[0].partition_responses]
        assert codes == [NONE, ErrorCode.INVALID_TXN_STATE]

    run(story, **SETTINGS, num__partitions="2")


def test_a_request_with_transactions_of_two_producers_is_refused(run: Run) -> None:
    async def story(served: Served) -> None:
        one = await Producer.begin(served, "one")
        two = await Producer.begin(served, "two")
        request = one.request(one.batch(b"a"), two.batch(b"b"))
        response = await served.send(request, 9)
        codes = {row.error_code for row in response.responses[0].partition_responses}
        assert codes == {ErrorCode.INVALID_PRODUCER_ID_MAPPING}

    run(story, **SETTINGS, num__partitions="2")


def test_verification_can_be_turned_off(run: Run) -> None:
    async def story(served: Served) -> None:
        producer = await Producer.begin(served)
        assert (await producer.produce(b"a")).error_code == NONE

    run(story, **SETTINGS, transaction__partition__verification__enable="false")


def test_a_transactional_batch_without_transactional_id_is_refused(run: Run) -> None:
    async def story(served: Served) -> None:
        producer = await Producer.begin(served)
        await producer.add()
        response = await served.produce_bytes("t", producer.batch(b"a"))
        assert response.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED

    run(story, **SETTINGS)


def test_a_plain_batch_in_an_open_transaction_is_refused(run: Run) -> None:
    async def story(served: Served) -> None:
        producer = await Producer.begin(served)
        await producer.add()
        await producer.produce(b"a")
        response = await producer.produce(b"b", transactional=False)
        assert response.error_code == ErrorCode.INVALID_TXN_STATE

    run(story, **SETTINGS)


async def send_silently(served: Served, producer: Producer, value: bytes) -> None:
    """Send what is not answered; this ends with the connection."""
    await served.peer.send(producer.request(producer.batch(value), acks=0), 9)


def test_acks_0_in_a_transaction_is_not_answered_and_an_error_closes_the_connection(
    run: Run,
) -> None:
    async def story(served: Served) -> None:
        producer = await Producer.begin(served)
        await producer.add()
        other = await served.another()
        silent = [asyncio.ensure_future(send_silently(other, producer, b"a"))]
        await until(lambda: replica(served).log.log_end_offset)
        assert replica(served).log.log_end_offset == 1
        await producer.ended(committed=True)
        silent.append(asyncio.ensure_future(send_silently(other, producer, b"late")))
        await until(lambda: other.peer.is_closed)
        assert all(
            isinstance(e, OSError) for e in await asyncio.gather(*silent, return_exceptions=True)
        )
        assert replica(served).log.log_end_offset == 2


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state"])
def test_clients_cannot_let_internal_topics_take_part(run: Run, topic: str) -> None:
    async def story(served: Served) -> None:
        producer = await Producer.begin(served)
        await served.send(FindCoordinatorRequest(key="g"), 3)
        names = [topic, "t", "nonexistent"]
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=producer.name,
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnRequestTopic(name=name, partitions=[0]) for name in names
            ],
        )
        response = await served.send(request, 3)
        codes = {
            row.name: row.results_by_partition[0].partition_error_code
            for row in response.results_by_topic_v3_and_below
        }
        assert codes == {
            topic: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            "t": ErrorCode.OPERATION_NOT_ATTEMPTED,
            "nonexistent": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
        assert (await producer.produce(b"a")).error_code == ErrorCode.INVALID_TXN_STATE

    run(story, **SETTINGS)
