"""A new registry that adopts logs contradicts nothing that they remember."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from kavka.broker.control.adoption import adopted_producer_ids, adoption
from kavka.ids import BrokerId
from kavka.io import Environment
from kavka.wire.messages.init_producer_id import InitProducerIdRequest
from kavka.wire.messages.metadata import MetadataRequest
from kavka.wire.records.batch import BatchBuilder
from kavka.wire.stored.transactions import (
    TransactionLogKey,
    TransactionLogValue,
    encode_transaction_key,
    encode_transaction_value,
)
from kavka.wire.stored.znodes import ProducerIdBlock

Run = Callable[..., None]


def lose_registry(data: Path) -> None:
    for path in data.glob("kavka-registry.*"):
        path.unlink()


async def producer_id(served: Any) -> int:
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    response = await served.send(request)
    assert response.error_code == 0
    return int(response.producer_id)


async def produce_idempotently(served: Any, of: int, *values: bytes) -> None:
    for sequence, value in enumerate(values):
        builder = BatchBuilder()
        builder.append(None, value, 1_700_000_000_000)
        batch = builder.build(producer_id=of, producer_epoch=0, base_sequence=sequence)
        assert (await served.produce_bytes("t", batch)).error_code == 0


def test_a_new_registry_gives_no_producer_the_id_of_another(run: Run, tmp_path: Path) -> None:
    given: list[int] = []

    async def before(served: Any) -> None:
        await served.create("t")
        given.append(await producer_id(served))
        await produce_idempotently(served, given[0], b"1", b"2", b"3")
        given.append(await producer_id(served))  # of a producer that has written nothing yet

    async def after(served: Any) -> None:
        new = await producer_id(served)
        assert new > max(given)
        await produce_idempotently(served, new, b"4", b"5", b"6")
        values = [record.value for record in await served.read("t")]
        assert values == [b"1", b"2", b"3", b"4", b"5", b"6"]

    run(before)
    lose_registry(tmp_path / "data")
    run(after)


def test_leader_epochs_of_adopted_logs_go_on(run: Run, tmp_path: Path) -> None:
    epochs: list[int] = []

    async def story(served: Any) -> None:
        if not epochs:
            await served.create("t")
        topic = next(
            t for t in (await served.send(MetadataRequest(topics=None))).topics if t.name == "t"
        )
        epochs.append(topic.partitions[0].leader_epoch)
        assert (await served.produce("t", b"v")).error_code == 0

    for _ in range(3):
        run(story)
        lose_registry(tmp_path / "data")
    assert epochs == [0, 1, 2]


def test_an_empty_directory_begins_with_producer_id_0(run: Run) -> None:
    async def story(served: Any) -> None:
        assert await producer_id(served) == 0

    run(story)


def test_ids_that_only_the_transaction_log_names_are_left_out(run: Run, tmp_path: Path) -> None:
    """Also when the clock is wrong, and of transactional ids whose batches are gone from the topics."""

    async def before(served: Any) -> None:
        broker = served.broker
        from kavka.broker.metadata import TRANSACTIONS_TOPIC

        await served.create("t")
        await served.create("copy")
        value = TransactionLogValue(
            producer_id=7_000,
            producer_epoch=1,
            transaction_timeout_ms=1000,
            transaction_status=0,
            transaction_partitions=None,
            transaction_last_update_timestamp_ms=0,
            transaction_start_timestamp_ms=-1,
            next_producer_id=8_000,
            client_transaction_version=2,
        )
        builder = BatchBuilder()
        key = encode_transaction_key(TransactionLogKey(transactional_id="x"))
        builder.append(key, encode_transaction_value(value), 0)
        builder.append(b"no key", b"no value", 0)
        assert (await served.produce_bytes("copy", builder.build())).error_code == 0
        store, disk = broker.replica_manager.store, broker.environment.disk
        partition_log = next(each for each in store if each.topic_partition.topic == "copy")
        partition_log.topic_partition = partition_log.topic_partition._replace(
            topic=TRANSACTIONS_TOPIC
        )
        (operation,) = await adopted_producer_ids(store, disk, BrokerId(0), 5)
        assert ProducerIdBlock.decode(operation.data).end == 8_000

    run(before)


def test_the_time_is_no_bound_where_the_clock_is_wrong(run: Run) -> None:
    async def story(served: Any) -> None:
        await served.create("t")
        await produce_idempotently(served, 41, b"1")
        environment: Environment = served.broker.environment
        operations = await adoption(
            served.broker.replica_manager.store,
            environment.disk,
            BrokerId(0),
            environment.random,
            3,
        )
        assert ProducerIdBlock.decode(operations[-1].data or b"").end == 41

    run(story)
