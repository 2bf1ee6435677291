"""A producer with transaction.version 2 (KIP-890): it announces nothing, and each end gives it an epoch."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kavka.client import AbortableError, FatalError, GroupMetadata, Producer, TopicPartition
from kavka.errors import ErrorCode
from kavka.wire.apis import ApiKey
from kavka.wire.records.header import walk, walk_complete
from support.faults import LOSE_REQUEST, LOSE_RESPONSE
from support.faulty_broker import FaultyBroker
from support.writing import asked, run_transactional, transact, transactional_broker

IN = TopicPartition("in", 0)
OFFSETS = "__consumer_offsets"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[FaultyBroker]:
    """A broker with transaction.version 2 and the topics `t` and `in`."""
    made = transactional_broker(tmp_path, 2)
    yield made
    made.close()


def batches(broker):
    """Return (epoch, first sequence) of the records in the log."""
    return [(header.producer_epoch, header.base_sequence) for header in data_batches(broker)]


def data_batches(broker):
    return [h for h in walk_complete(broker.batches("t")) if not h.is_control]


def test_nothing_is_announced_and_each_transaction_has_its_epoch(broker, settings):
    async def work(producer):
        await transact(producer, b"a", b"b")
        await transact(producer, b"c")

    run_transactional(broker, settings, work)
    assert asked(broker) == [ApiKey.PRODUCE, ApiKey.END_TXN] * 2
    assert batches(broker) == [(0, 0), (1, 0)]
    broker.until(lambda: broker.ends() == [True, True])


def test_an_empty_transaction_asks_for_nothing(broker, settings):
    async def work(producer):
        await transact(producer)
        producer.begin_transaction()
        await producer.abort_transaction()

    run_transactional(broker, settings, work)
    assert asked(broker) == []


@pytest.mark.parametrize("api", [ApiKey.PRODUCE, ApiKey.TXN_OFFSET_COMMIT, ApiKey.END_TXN])
@pytest.mark.parametrize("fault", [LOSE_REQUEST, LOSE_RESPONSE, "refuse for now"])
def test_a_request_is_repeated_until_it_is_answered(api, fault, broker, settings):
    retriable = {
        ApiKey.PRODUCE: ErrorCode.NOT_ENOUGH_REPLICAS,
        ApiKey.TXN_OFFSET_COMMIT: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ApiKey.END_TXN: ErrorCode.CONCURRENT_TRANSACTIONS,
    }

    async def work(producer):
        for offset in (7, 8):
            broker.faults[api].append(retriable[api] if fault == "refuse for now" else fault)
            producer.begin_transaction()
            producer.append("t", b"a")
            await producer.send_offsets_to_transaction({IN: offset}, GroupMetadata("g"))
            await producer.commit_transaction()

    run_transactional(broker, settings, work)
    broker.until(lambda: broker.ends() == broker.ends(OFFSETS) == [True, True])
    assert broker.committed == {IN: 8}
    assert batches(broker) == [(0, 0), (1, 0)]
    assert len(broker.seen(ApiKey.INIT_PRODUCER_ID)) == 1


def test_an_abort_gives_the_epoch_after_a_batch_was_given_up(broker, settings):
    async def work(producer):
        broker.faults[ApiKey.PRODUCE].append(ErrorCode.TRANSACTION_ABORTABLE)
        producer.begin_transaction()
        producer.append("t", b"a")
        with pytest.raises(AbortableError):
            await producer.commit_transaction()
        await producer.abort_transaction()
        await transact(producer, b"b")

    run_transactional(broker, settings, work)
    broker.until(lambda: broker.ends() == [True])
    assert [request.committed for request in broker.seen(ApiKey.END_TXN)] == [False, True]
    assert batches(broker) == [(1, 0)]
    assert len(broker.seen(ApiKey.INIT_PRODUCER_ID)) == 1  # EndTxn has raised the epoch


def test_another_producer_id_is_taken_from_the_end(broker, settings):
    async def work(producer):
        producer.begin_transaction()
        await producer.send("t", b"a")
        await producer.commit_transaction()
        producer.begin_transaction()
        await producer.send("t", b"b")
        broker.faults[ApiKey.END_TXN].append(_with_another_id)
        await producer.commit_transaction()
        producer.begin_transaction()
        producer.append("t", b"c")
        with pytest.raises(FatalError):  # the coordinator has given that id to no producer
            await producer.commit_transaction()

    def _with_another_id(response):
        """The epochs have run out: the response names what follows."""
        response.producer_id, response.producer_epoch = 5000, 0
        return response

    run_transactional(broker, settings, work)
    headers = [
        walk(request.topic_data[0].partition_data[0].records)[0]
        for request in broker.seen(ApiKey.PRODUCE)
    ]
    sent = [(header.producer_id, header.producer_epoch) for header in headers]
    first = sent[0][0]
    assert sent[:3] == [(first, 0), (first, 1), (5000, 0)]


def test_a_leader_that_is_too_old_ends_the_producer(broker, settings):
    broker.limits[ApiKey.PRODUCE] = 11

    async def work(producer):
        producer.begin_transaction()
        producer.append("t", b"a")
        with pytest.raises(
            FatalError, match=r"too old for transaction\.version 2 \(Produce 11 < 12\)"
        ):
            await producer.commit_transaction()

    run_transactional(broker, settings, work)


def test_a_producer_with_two_phases_needs_a_broker_that_knows_them(broker, settings):
    broker.limits[ApiKey.INIT_PRODUCER_ID] = 5
    with pytest.raises(FatalError, match="too old for two-phase commit"):
        run_transactional(
            broker, settings, transact, **{"transaction.two.phase.commit.enable": True}
        )


def test_a_producer_whose_broker_does_not_offer_two_phases_says_how_it_would(broker, settings):
    broker.faults[ApiKey.INIT_PRODUCER_ID].append(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    with pytest.raises(FatalError, match=r"need transaction\.two\.phase\.commit\.enable=true"):
        run_transactional(
            broker, settings, transact, **{"transaction.two.phase.commit.enable": True}
        )


def test_two_phases_and_a_time_out_exclude_each_other(settings: dict[str, Any]) -> None:
    both = {"transaction.two.phase.commit.enable": True, "transaction.timeout.ms": 1000}
    with pytest.raises(ValueError, match=r"transaction\.timeout\.ms"):
        Producer(settings | {"transactional.id": "x"} | both)


def test_a_closed_producer_leaves_what_it_has_prepared(broker, settings):
    async def work(producer):
        producer.begin_transaction()
        producer.append("t", b"a")
        state = await producer.prepare_transaction()
        with pytest.raises(RuntimeError, match="prepared transaction"):
            producer.append("t", b"b")
        return state

    state = run_transactional(broker, settings, work)
    (batch,) = data_batches(broker)
    assert str(state) == f"{batch.producer_id}:0"
    assert type(state).parse(str(state)) == state
    assert broker.ends() == []


@pytest.mark.parametrize(
    "text", ["", "1", "1:", ":1", "1:x", "-1:0", "1:40000", "99999999999999999999:1"]
)
def test_what_names_no_transaction_is_refused(text: str) -> None:
    from kavka.client import PreparedTxnState

    with pytest.raises(ValueError, match="not the state of a prepared transaction"):
        PreparedTxnState.parse(text)
