"""A producer with transaction.version 2 (KIP-890): it announces nothing, and each end gives it an epoch."""

import asyncio
from typing import Any

import pytest

from kavka.client import AbortableError, FatalError, GroupMetadata, Producer, TopicPartition
from kavka.errors import ErrorCode
from kavka.wire.apis import ApiKey
from kavka.wire.records.header import walk
from support.scripted_broker import LOSE_ANSWER, LOSE_REQUEST

AT = TopicPartition("t", 0)
IN = TopicPartition("in", 0)
OFFSETS = ("__consumer_offsets", 0)
OF_A_TRANSACTION = (
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.PRODUCE,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.END_TXN,
)


def run(broker, settings, work, **more):
    """Run `work(producer)` with a transactional producer on the scripted broker; it has its id."""
    broker.transaction_version = 2

    async def main():
        chosen = settings | {"transactional.id": "x"} | more
        async with Producer(chosen, network=broker) as producer:
            await producer.init_transactions()
            return await work(producer)

    return asyncio.run(main())


def asked(broker):
    return [api for api, _ in broker.requests if api in OF_A_TRANSACTION]


def batches(broker):
    """Return (epoch, first sequence) of what is in the log."""
    return [(h.producer_epoch, h.base_sequence) for b in broker.topics["t"][0] for h in walk(b)]


async def transact(producer, *contents):
    producer.begin_transaction()
    for content in contents:
        producer.append("t", content)
    await producer.commit_transaction()


def test_nothing_is_announced_and_each_transaction_has_its_epoch(broker, settings):
    async def work(producer):
        await transact(producer, b"a", b"b")
        await transact(producer, b"c")

    run(broker, settings, work)
    assert asked(broker) == [ApiKey.PRODUCE, ApiKey.END_TXN] * 2
    assert batches(broker) == [(0, 0), (1, 0)]
    assert broker.transactions.ended == [("x", True, [AT], {})] * 2


def test_an_empty_transaction_asks_for_nothing(broker, settings):
    async def work(producer):
        await transact(producer)
        producer.begin_transaction()
        await producer.abort_transaction()

    run(broker, settings, work)
    assert asked(broker) == []


@pytest.mark.parametrize("api", [ApiKey.PRODUCE, ApiKey.TXN_OFFSET_COMMIT, ApiKey.END_TXN])
@pytest.mark.parametrize("fault", [LOSE_REQUEST, LOSE_ANSWER, "refuse for now"])
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

    run(broker, settings, work)
    assert [(e[1], sorted(e[2]), e[3]) for e in broker.transactions.ended] == [
        (True, [OFFSETS, AT], {IN: 7}),
        (True, [OFFSETS, AT], {IN: 8}),
    ]
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

    run(broker, settings, work)
    assert [e[1] for e in broker.transactions.ended] == [False, True]
    assert batches(broker) == [(1, 0)]
    assert len(broker.seen(ApiKey.INIT_PRODUCER_ID)) == 1  # EndTxn has raised the epoch


def test_another_producer_id_is_taken_from_the_end(broker, settings):
    async def work(producer):
        producer.begin_transaction()
        await producer.send("t", b"a")
        await producer.commit_transaction()
        known = broker.transactions.ids["x"]
        producer.begin_transaction()
        await producer.send("t", b"b")
        # The epochs have run out: the answer names what follows.
        answer = broker.end_txn
        broker.end_txn = lambda *request: _with_id(answer(*request), known)
        await producer.commit_transaction()
        broker.end_txn = answer
        await transact(producer, b"c")

    def _with_id(answer, known):
        known.producer_id, known.epoch = 5000, 0
        answer.producer_id, answer.producer_epoch = 5000, 0
        return answer

    run(broker, settings, work)
    written = [(h.producer_id, h.producer_epoch) for b in broker.topics["t"][0] for h in walk(b)]
    assert written == [(2001, 0), (2001, 1), (5000, 0)]


def test_a_leader_that_is_too_old_ends_the_producer(broker, settings):
    broker.versions[ApiKey.PRODUCE] = (0, 11)

    async def work(producer):
        producer.begin_transaction()
        producer.append("t", b"a")
        with pytest.raises(
            FatalError, match=r"too old for transaction\.version 2 \(Produce 11 < 12\)"
        ):
            await producer.commit_transaction()

    run(broker, settings, work)


def test_a_producer_with_two_phases_needs_a_broker_that_knows_them(broker, settings):
    broker.versions[ApiKey.INIT_PRODUCER_ID] = (0, 5)
    with pytest.raises(FatalError, match="too old for two-phase commit"):
        run(broker, settings, transact, **{"transaction.two.phase.commit.enable": True})


def test_a_producer_whose_broker_does_not_offer_two_phases_says_how_it_would(broker, settings):
    broker.faults[ApiKey.INIT_PRODUCER_ID].append(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    with pytest.raises(FatalError, match=r"need transaction\.two\.phase\.commit\.enable=true"):
        run(broker, settings, transact, **{"transaction.two.phase.commit.enable": True})


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

    state = run(broker, settings, work)
    assert str(state) == "2001:0"
    assert type(state).parse("2001:0") == state
    assert broker.transactions.ended == []


@pytest.mark.parametrize(
    "text", ["", "1", "1:", ":1", "1:x", "-1:0", "1:40000", "99999999999999999999:1"]
)
def test_what_names_no_transaction_is_refused(text: str) -> None:
    from kavka.client import PreparedTxnState

    with pytest.raises(ValueError, match="not the state of a prepared transaction"):
        PreparedTxnState.parse(text)
