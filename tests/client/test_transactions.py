"""A transactional producer: what it asks for, and what it makes of refusals."""

import asyncio
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kavka.client import (
    AbortableError,
    Consumer,
    FatalError,
    GroupMetadata,
    Producer,
    TopicPartition,
)
from kavka.client.blocking import Producer as BlockingProducer
from kavka.errors import ErrorCode, KafkaError
from kavka.wire.apis import ApiKey
from kavka.wire.records.header import BatchHeader, walk_complete
from kavka.wire.refusals import refusal
from support.faults import LOSE_REQUEST, LOSE_RESPONSE, NO_RESPONSE
from support.faulty_broker import FaultyBroker
from support.writing import (
    OF_A_TRANSACTION,
    asked,
    run_transactional,
    transact,
    transactional_broker,
)

AT = TopicPartition("t", 0)
IN = TopicPartition("in", 0)
OFFSETS = "__consumer_offsets"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[FaultyBroker]:
    """A broker whose clients announce the partitions of a transaction, with the topics `t` and `in`."""
    made = transactional_broker(tmp_path, 0)
    yield made
    made.close()


def values(broker, topic="t"):
    return [value for _, _, value in broker.records(topic)]


def first_batch(broker: FaultyBroker) -> BatchHeader:
    return next(h for h in walk_complete(broker.batches("t")) if not h.is_control)


def test_partitions_are_added_before_their_first_batch_and_the_end_comes_last(broker, settings):
    run_transactional(broker, settings, lambda producer: transact(producer, b"a", b"b"))
    assert asked(broker) == [ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.PRODUCE, ApiKey.END_TXN]
    broker.until(lambda: broker.ends() == [True])
    batch = first_batch(broker)
    assert batch.is_transactional
    assert (batch.producer_epoch, batch.record_count) == (0, 2)
    (request,) = broker.seen(ApiKey.PRODUCE)
    assert request.transactional_id == "x"


def test_each_transaction_adds_its_partitions_again_and_continues_the_sequences(broker, settings):
    async def work(producer):
        await transact(producer, b"a", b"b")
        await transact(producer, b"c")

    run_transactional(broker, settings, work)
    assert len(broker.seen(ApiKey.ADD_PARTITIONS_TO_TXN)) == 2
    batches = [h for h in walk_complete(broker.batches("t")) if not h.is_control]
    assert [h.base_sequence for h in batches] == [0, 2]


def test_an_empty_transaction_asks_for_nothing(broker, settings):
    async def work(producer):
        await transact(producer)
        producer.begin_transaction()
        await producer.abort_transaction()

    run_transactional(broker, settings, work)
    assert asked(broker) == []


def test_what_was_not_sent_is_dropped_by_an_abort(broker, settings):
    async def work(producer):
        producer.begin_transaction()
        lost = producer.append("t", b"a", want_future=True)
        await producer.abort_transaction()
        with pytest.raises(AbortableError, match="aborted before"):
            await lost
        await transact(producer, b"b")

    run_transactional(
        broker, settings, work, **{"linger.ms": 60_000, "delivery.timeout.ms": 120_000}
    )
    assert values(broker) == [b"b"]
    broker.until(lambda: broker.ends() in ([True], [False, True]))


def test_what_was_sent_is_aborted_in_the_same_epoch(broker, settings):
    async def work(producer):
        producer.begin_transaction()
        await producer.send("t", b"a")
        await producer.abort_transaction()
        await transact(producer, b"b")

    run_transactional(broker, settings, work)
    broker.until(lambda: broker.ends() == [False, True])
    assert len(broker.seen(ApiKey.INIT_PRODUCER_ID)) == 1


def test_offsets_take_part_once_per_group_and_carry_the_member(broker, settings):
    accepted = partial(refusal, ApiKey.TXN_OFFSET_COMMIT, code=ErrorCode.NONE)
    broker.responses[ApiKey.TXN_OFFSET_COMMIT] = accepted

    async def work(producer):
        producer.begin_transaction()
        group = GroupMetadata("g", 4, "m", "i")
        await producer.send_offsets_to_transaction({IN: 7}, group)
        await producer.send_offsets_to_transaction({IN: 9}, group)
        await producer.commit_transaction()

    run_transactional(broker, settings, work)
    assert asked(broker) == [
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.END_TXN,
    ]
    request = broker.seen(ApiKey.TXN_OFFSET_COMMIT)[0]
    assert (request.generation_id, request.member_id, request.group_instance_id) == (4, "m", "i")
    broker.until(lambda: broker.ends(OFFSETS) == [True])


@pytest.mark.parametrize("api", OF_A_TRANSACTION)
@pytest.mark.parametrize(
    "fault", [LOSE_REQUEST, LOSE_RESPONSE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
)
def test_every_step_is_repeated_until_it_is_answered(broker, settings, api, fault):
    if api is ApiKey.PRODUCE and isinstance(fault, ErrorCode):
        fault = ErrorCode.NOT_LEADER_OR_FOLLOWER
    broker.faults[api].extend([fault, fault])

    async def work(producer):
        producer.begin_transaction()
        producer.append("t", b"a")
        await producer.send_offsets_to_transaction({IN: 7}, GroupMetadata("g"))
        await producer.commit_transaction()

    run_transactional(broker, settings, work)
    assert values(broker) == [b"a"]
    broker.until(lambda: broker.ends() == broker.ends(OFFSETS) == [True])
    assert broker.committed == {IN: 7}


def test_the_coordinator_is_looked_up_again_when_it_has_moved(broker, settings):
    broker.pretend_nodes(0, 1)

    def moved(response):
        for found in response.coordinators:
            found.node_id, found.host = 1, "b1"
        return response

    async def work(producer):
        await transact(producer, b"a")
        broker.faults[ApiKey.ADD_PARTITIONS_TO_TXN].append(ErrorCode.NOT_COORDINATOR)
        broker.replacements[ApiKey.FIND_COORDINATOR] = moved
        await transact(producer, b"b")

    run_transactional(broker, settings, work)
    broker.until(lambda: broker.ends() == [True, True])
    assert (ApiKey.END_TXN, "b1") in broker.asked


def test_the_end_of_the_last_transaction_is_waited_for(broker, settings):
    async def work(producer):
        await transact(producer, b"a")
        broker.faults[ApiKey.ADD_PARTITIONS_TO_TXN].extend([ErrorCode.CONCURRENT_TRANSACTIONS] * 3)
        await transact(producer, b"b")

    run_transactional(broker, settings, work)
    assert values(broker) == [b"a", b"b"]


def test_an_unwatched_failed_record_makes_the_commit_fail(broker, settings):
    broker.faults[ApiKey.PRODUCE].append(ErrorCode.INVALID_RECORD)

    async def work(producer):
        with pytest.raises(AbortableError, match="INVALID_RECORD"):
            await transact(producer, b"bad")
        with pytest.raises(AbortableError, match="INVALID_RECORD"):
            producer.append("t", b"more")
        await producer.abort_transaction()
        await transact(producer, b"good")

    run_transactional(broker, settings, work)
    broker.until(lambda: broker.ends() == [False, True])
    assert values(broker) == [b"good"]


def test_a_hole_in_the_sequences_ends_with_a_new_epoch_from_the_coordinator(broker, settings):
    broker.faults[ApiKey.PRODUCE].append(ErrorCode.INVALID_RECORD)

    async def work(producer):
        with pytest.raises(AbortableError):
            await transact(producer, b"bad")
        await producer.abort_transaction()
        await transact(producer, b"good")

    run_transactional(broker, settings, work)
    first, bump = broker.seen(ApiKey.INIT_PRODUCER_ID)
    assert (first.producer_id, first.producer_epoch) == (-1, -1)
    batch = first_batch(broker)
    assert (bump.producer_id, bump.producer_epoch) == (batch.producer_id, 0)
    assert (batch.producer_epoch, batch.base_sequence) == (1, 0)


def test_what_lies_behind_a_hole_is_not_written(broker, settings):
    async def work(producer):
        await transact(producer, b"0")
        broker.faults[ApiKey.PRODUCE].append(ErrorCode.INVALID_RECORD)
        producer.begin_transaction()
        for i in range(1, 6):
            producer.append("t", b"%d" % i * 90)
            await asyncio.sleep(0)
        with pytest.raises(AbortableError):
            await producer.commit_transaction()
        await producer.abort_transaction()
        await transact(producer, b"6")

    run_transactional(broker, settings, work, **{"batch.size": 100})
    assert values(broker) == [b"0", b"6"]


def test_a_topic_that_is_refused_aborts_the_transaction(broker, settings):
    broker.refuse_topics({"secret": ErrorCode.TOPIC_AUTHORIZATION_FAILED})

    async def work(producer):
        producer.begin_transaction()
        producer.append("secret", b"a")
        with pytest.raises(AbortableError, match="TOPIC_AUTHORIZATION_FAILED"):
            await producer.commit_transaction()
        await producer.abort_transaction()
        await transact(producer, b"b")

    run_transactional(broker, settings, work)
    assert values(broker) == [b"b"]


def test_a_record_that_is_too_large_aborts_the_transaction(broker, settings):
    async def work(producer):
        producer.begin_transaction()
        with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
            await producer.send("t", b"x" * 2000)
        with pytest.raises(AbortableError, match="MESSAGE_TOO_LARGE"):
            await producer.commit_transaction()
        await producer.abort_transaction()

    run_transactional(broker, settings, work, **{"max.request.size": 1000})


def test_a_topic_without_permission_leaves_nothing_to_end(broker, settings):
    broker.faults[ApiKey.ADD_PARTITIONS_TO_TXN].append(ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    async def work(producer):
        with pytest.raises(AbortableError, match="AddPartitionsToTxn: t-0"):
            await transact(producer, b"a")
        await producer.abort_transaction()

    run_transactional(broker, settings, work)
    assert asked(broker) == [ApiKey.ADD_PARTITIONS_TO_TXN]


def test_offsets_of_a_lost_generation_abort_the_transaction(broker, settings):
    broker.faults[ApiKey.TXN_OFFSET_COMMIT].append(ErrorCode.ILLEGAL_GENERATION)

    async def work(producer):
        producer.begin_transaction()
        with pytest.raises(AbortableError, match="ILLEGAL_GENERATION"):
            await producer.send_offsets_to_transaction({IN: 7}, GroupMetadata("g", 1, "m"))
        await producer.abort_transaction()

    run_transactional(broker, settings, work)
    broker.until(lambda: broker.ends(OFFSETS) == [False])


def test_an_id_that_the_coordinator_has_forgotten_is_asked_for_again(broker, settings):
    async def work(producer):
        producer.begin_transaction()
        broker.faults[ApiKey.ADD_OFFSETS_TO_TXN].append(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        with pytest.raises(AbortableError, match="INVALID_PRODUCER_ID_MAPPING"):
            await producer.send_offsets_to_transaction({IN: 7}, GroupMetadata("g"))
        await producer.abort_transaction()
        await transact(producer, b"a")

    run_transactional(broker, settings, work)
    assert ApiKey.END_TXN in asked(broker)
    broker.until(lambda: broker.ends() == [True])


def test_a_fenced_producer_can_do_nothing_more(broker, settings):
    async def work(producer):
        producer.begin_transaction()
        await producer.send("t", b"a")
        async with Producer(settings | {"transactional.id": "x"}, network=broker) as other:
            await other.init_transactions()
        with pytest.raises(FatalError, match="PRODUCER_FENCED"):
            await producer.commit_transaction()
        for call in (producer.abort_transaction, producer.commit_transaction):
            with pytest.raises(FatalError):
                await call()
        with pytest.raises(FatalError):
            producer.begin_transaction()
        with pytest.raises(FatalError):
            producer.append("t", b"b")

    run_transactional(broker, settings, work)
    broker.until(lambda: broker.ends() == [False])


def test_an_old_epoch_at_a_leader_is_found_out_by_the_abort(broker, settings):
    broker.faults[ApiKey.PRODUCE].append(ErrorCode.INVALID_PRODUCER_EPOCH)
    broker.faults[ApiKey.END_TXN].append(ErrorCode.PRODUCER_FENCED)

    async def work(producer):
        with pytest.raises(AbortableError, match="INVALID_PRODUCER_EPOCH"):
            await transact(producer, b"a")
        with pytest.raises(FatalError, match="PRODUCER_FENCED"):
            await producer.abort_transaction()

    run_transactional(broker, settings, work)


def test_a_refused_init_is_fatal(broker, settings):
    broker.faults[ApiKey.INIT_PRODUCER_ID].append(ErrorCode.INVALID_TRANSACTION_TIMEOUT)

    async def main() -> None:
        async with Producer(settings | {"transactional.id": "x"}, network=broker) as producer:
            with pytest.raises(FatalError, match="INVALID_TRANSACTION_TIMEOUT"):
                await producer.init_transactions()

    asyncio.run(main())


def test_a_commit_that_takes_too_long_is_waited_for_by_the_next_call(broker, settings):
    async def work(producer):
        producer.begin_transaction()
        await producer.send("t", b"a")
        broker.silent.add("broker")
        with pytest.raises(TimeoutError, match="call it again"):
            await producer.commit_transaction()
        with pytest.raises(RuntimeError, match="commit_transaction is not over"):
            await producer.abort_transaction()
        with pytest.raises(RuntimeError, match="commit_transaction is not over"):
            producer.begin_transaction()
        broker.silent.clear()
        for _ in range(50):
            try:
                await producer.commit_transaction()
                break
            except TimeoutError:
                continue
        await transact(producer, b"b")

    more = {"max.block.ms": 200, "request.timeout.ms": 300}
    run_transactional(broker, settings, work, **more)
    broker.until(lambda: broker.ends() == [True, True])


def test_records_outside_of_a_transaction_are_refused(broker, settings):
    async def work(producer):
        with pytest.raises(RuntimeError, match="call begin_transaction"):
            producer.append("t", b"a")
        with pytest.raises(RuntimeError, match="call begin_transaction"):
            await producer.send_many("t", [(None, b"a")])
        await transact(producer, b"a")
        with pytest.raises(RuntimeError, match="call begin_transaction"):
            await producer.send("t", b"b")

    run_transactional(broker, settings, work)
    assert values(broker) == [b"a"]


def test_a_record_appended_while_the_commit_is_under_way_is_refused(broker, settings):
    async def work(producer):
        producer.begin_transaction()
        producer.append("t", b"a")
        committing = asyncio.ensure_future(producer.commit_transaction())
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="is committing"):
            producer.append("t", b"b")
        await committing

    run_transactional(
        broker, settings, work, **{"linger.ms": 60_000, "delivery.timeout.ms": 120_000}
    )
    assert values(broker) == [b"a"]


async def fail_within(producer):
    async with producer.transaction():
        await producer.send("t", b"b")
        raise LookupError


def test_a_with_commits_at_its_end_and_aborts_when_its_body_raises(broker, settings):
    async def work(producer):
        async with producer.transaction():
            producer.append("t", b"a")
        with pytest.raises(LookupError):
            await fail_within(producer)

    run_transactional(broker, settings, work)
    broker.until(lambda: broker.ends() == [True, False])


def test_closing_aborts_what_is_open(broker, settings):
    async def work(producer):
        producer.begin_transaction()
        await producer.send("t", b"a")

    run_transactional(broker, settings, work)
    broker.until(lambda: broker.ends() == [False])


def test_closing_does_not_wait_without_limit_for_a_lost_coordinator(broker, settings):
    async def work(producer):
        producer.begin_transaction()
        await producer.send("t", b"a")
        broker.is_down = True
        broker.kill("broker")

    run_transactional(broker, settings, work, **{"max.block.ms": 200})
    assert broker.ends() == []


@pytest.mark.parametrize(
    ("name", "value"),
    [("acks", "1"), ("retries", 0), ("enable.idempotence", False)],
)
def test_a_transactional_id_needs_idempotence(
    settings: dict[str, Any], name: str, value: bool | int | str
) -> None:
    with pytest.raises(ValueError, match=name.replace(".", r"\.")):
        Producer(settings | {"transactional.id": "x", name: value})


def test_transactions_need_a_transactional_id(broker, settings):
    async def main() -> None:
        async with Producer(settings, network=broker) as producer:
            with pytest.raises(RuntimeError, match=r"transactional\.id"):
                producer.begin_transaction()

    asyncio.run(main())


def test_a_broker_from_before_members_in_transactions_is_refused_for_a_member(broker, settings):
    broker.limits[ApiKey.TXN_OFFSET_COMMIT] = 2

    async def work(producer):
        async with producer.transaction():
            await producer.send_offsets_to_transaction({IN: 3}, GroupMetadata("g"))
        producer.begin_transaction()
        with pytest.raises(FatalError, match="UNSUPPORTED_VERSION"):
            await producer.send_offsets_to_transaction({IN: 7}, GroupMetadata("g", 1, "m"))

    run_transactional(broker, settings, work)


def test_a_table_is_written_in_the_transaction(broker, settings):
    async def work(producer):
        async with producer.transaction():
            await producer.send_table("t", pa.table({"value": [b"a", b"b"]}))

    run_transactional(broker, settings, work)
    assert first_batch(broker).is_transactional
    assert values(broker) == [b"a", b"b"]


def test_threads_commit_what_they_handed_over(broker, settings):
    with BlockingProducer(settings | {"transactional.id": "x"}, network=broker) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        for i in range(100):
            producer.append("t", b"%d" % i)
        producer.send_offsets_to_transaction({IN: 7}, GroupMetadata("g"))
        producer.commit_transaction()
        producer.begin_transaction()
        producer.append("t", b"dropped")
        producer.abort_transaction()
        with producer.transaction():
            producer.append("t", b"last")
    assert values(broker)[:100] == [b"%d" % i for i in range(100)]
    broker.until(lambda: broker.ends() in ([True, True], [True, False, True]))
    assert broker.ends(OFFSETS) == [True]
    assert broker.committed == {IN: 7}
    assert values(broker)[-1] == b"last"


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_consumers_wait_for_offsets_of_open_transactions(broker, settings, isolation):
    """KIP-447: one that begins before them does again what the transaction has done."""
    broker.faults[ApiKey.OFFSET_FETCH].append(ErrorCode.UNSTABLE_OFFSET_COMMIT)
    broker.commit(AT, 7)

    async def main() -> None:
        reading = settings | {"group.id": "g", "isolation.level": isolation}
        async with Consumer(reading, network=broker) as consumer:
            assert (await consumer.committed([AT]))[AT].offset == 7

    asyncio.run(main())
    assert [request.require_stable for request in broker.seen(ApiKey.OFFSET_FETCH)] == [True, True]


def test_another_process_goes_on_as_the_producer_until_the_id_is_taken_over(broker, settings):
    chosen = settings | {"transactional.id": "x"}

    async def main() -> None:
        async with Producer(chosen, network=broker) as first:
            await first.init_transactions()
            identity = first.transaction_identity
        async with Producer(chosen, network=broker) as second:
            second.resume_transactions(identity)
            await transact(second, b"a")
            assert second.transaction_identity == identity
        async with (
            Producer(chosen, network=broker) as late,
            Producer(chosen, network=broker) as new,
        ):
            late.resume_transactions(identity)
            await new.init_transactions()
            with pytest.raises(FatalError, match="PRODUCER_FENCED"):
                await transact(late, b"b")

    asyncio.run(main())
    assert len(broker.seen(ApiKey.INIT_PRODUCER_ID)) == 2
    broker.until(lambda: broker.ends() == [True])
    assert values(broker) == [b"a"]


def test_a_producer_that_has_its_id_is_not_resumed(broker, settings):
    async def work(producer):
        with pytest.raises(RuntimeError, match="init_transactions is not possible"):
            producer.resume_transactions(producer.transaction_identity)

    run_transactional(broker, settings, work)


def test_closing_after_a_commit_was_given_up_ends_what_adds_to_the_transaction(broker, settings):
    """The commit's end wakes the sender, which may have nothing added any more (simulation, seed 634)."""
    broker.responses[ApiKey.ADD_PARTITIONS_TO_TXN] = lambda request: NO_RESPONSE

    async def main() -> None:
        chosen = settings | {"transactional.id": "x", "max.block.ms": 200}
        producer = Producer(chosen, network=broker)
        await producer.start()
        await producer.init_transactions()
        others = asyncio.all_tasks()
        producer.begin_transaction()
        producer.append("t", b"never", want_future=True)
        with pytest.raises(TimeoutError, match="commit_transaction is not over"):
            await producer.commit_transaction()
        await producer.close(timeout_ms=100)
        assert asyncio.all_tasks() <= others

    asyncio.run(main())
