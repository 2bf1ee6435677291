"""Transactions at the partitions that take part: readable records, and descriptions of open ones."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from kavka.broker.api import find_coordinator
from kavka.broker.broker import Broker
from kavka.broker.environment import OsEnvironment
from kavka.errors import ErrorCode
from kavka.net.peer import Peer
from kavka.storage.disk.os_disk import OsDisk, OsFile
from kavka.wire.apis import ApiKey
from kavka.wire.messages.delete_records import (
    DeleteRecordsRequest,
    DeleteRecordsRequestPartition,
    DeleteRecordsRequestTopic,
)
from kavka.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersRequestTopic,
)
from kavka.wire.messages.describe_transactions import DescribeTransactionsRequest
from kavka.wire.messages.fetch import FetchRequest, FetchRequestPartition, FetchRequestTopic
from kavka.wire.messages.find_coordinator import FindCoordinatorRequest
from kavka.wire.records.header import walk_complete
from support.cold_files import ProbedFile
from support.one_broker import Served
from support.request_contexts import request_context
from support.transactional_producer import (
    NOW_MS,
    SETTINGS,
    Producer,
    Run,
    committed,
    fetch,
    list_offset,
    plain,
    replica,
)


def test_a_read_committed_fetch_is_woken_by_the_marker_and_not_by_what_is_open(run: Run) -> None:
    async def story(served: Served) -> None:
        producer = await Producer.begin(served)
        await producer.add()
        await producer.produce(b"a")
        other = await served.another()
        waiting = asyncio.ensure_future(fetch(other, max_wait_ms=60_000))
        await served.until_a_fetch_waits()
        await producer.produce(b"b")
        await served.topic("t")
        assert not waiting.done()
        assert len(served.broker.fetch_purgatory) == 1
        await producer.end(committed=True)
        found = await waiting
        assert found.last_stable_offset == 3
        assert [h.base_offset for h in walk_complete(bytes(found.records))] == [0, 1, 2]

    run(story, **SETTINGS)


def test_a_read_committed_fetch_for_many_bytes_counts_what_is_decided(run: Run) -> None:
    async def story(served: Served) -> None:
        producer = await Producer.begin(served)
        await plain(served, b"x" * 500)
        await producer.add()
        other = await served.another()
        waiting = asyncio.ensure_future(fetch(other, max_wait_ms=60_000, min_bytes=1_000))
        await served.until_a_fetch_waits()
        await producer.produce(b"y" * 500)
        await served.topic("t")
        assert not waiting.done()
        await producer.end(committed=False)
        found = await waiting
        assert len(found.records) > 1_000
        assert len(found.aborted_transactions) == 1

    run(story, **SETTINGS)


def test_the_list_of_aborted_transactions_is_that_of_the_records(run: Run) -> None:
    async def story(served: Served) -> None:
        producer = await Producer.begin(served)
        for _ in range(4):
            await producer.add()
            await producer.produce(b"x" * 100)
            await producer.ended(committed=False)
        asked = FetchRequestPartition(partition=0, fetch_offset=2, partition_max_bytes=1)
        topics = [FetchRequestTopic(topic="t", partitions=[asked])]
        request = FetchRequest(max_wait_ms=0, isolation_level=1, max_bytes=1, topics=topics)
        found = (await served.send(request, 11)).responses[0].partitions[0]
        assert [h.base_offset for h in walk_complete(bytes(found.records))] == [2]
        assert [row.first_offset for row in found.aborted_transactions] == [2]
        everything = await fetch(served)
        assert [row.first_offset for row in everything.aborted_transactions] == [0, 2, 4, 6]

    run(story, **SETTINGS)


def test_the_latest_offset_for_read_committed_is_the_last_stable_one(run: Run) -> None:
    async def story(served: Served) -> None:
        producer = await Producer.begin(served)
        await plain(served, b"a")
        await producer.add()
        await producer.produce(b"b")
        await plain(served, b"c")
        assert await list_offset(served, -1) == 1
        assert await list_offset(served, -1, isolation_level=0) == 3
        assert await list_offset(served, NOW_MS) == 0
        assert await list_offset(served, -2) == 0
        await producer.ended(committed=True)
        assert await list_offset(served, -1) == 4

    run(story, **SETTINGS)


def test_an_open_transaction_survives_a_restart(run: Run) -> None:
    names: list[tuple[int, int]] = []

    async def before(served: Served) -> None:
        producer = await Producer.begin(served)
        await producer.add()
        await producer.produce(b"a")
        await plain(served, b"behind")
        names.append((producer.producer_id, producer.epoch))

    async def after(served: Served) -> None:
        producer = Producer(served, "x", *names[0])
        producer.sequence = 1
        assert await committed(served) == []
        assert (await producer.produce(b"b")).base_offset == 2
        await producer.ended(committed=True)
        assert await committed(served) == [b"a", b"behind", b"b"]

    run(before, **SETTINGS)
    run(after, **SETTINGS)


class ColdFile(ProbedFile):
    """A file of which nothing is in the page cache."""

    def is_cached(self, length: int, position: int) -> bool:
        return False


class ColdDisk(OsDisk):
    """A disk whose files must all be read in the pool."""

    def open(self, path: str, *, create: bool = False, private: bool = False) -> OsFile:
        return ColdFile(os.open(path, os.O_RDWR | (os.O_CREAT if create else 0), 0o644))


def test_what_is_read_from_the_disk_comes_with_its_aborted_transactions(
    run: Run, tmp_path: Path
) -> None:
    async def before(served: Served) -> None:
        producer = await Producer.begin(served)
        await producer.add()
        await producer.produce(b"never")
        await producer.ended(committed=False)
        await plain(served, b"behind")

    async def later() -> None:
        environment = OsEnvironment()
        environment.disk = ColdDisk(threads=2)
        listeners = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(tmp_path / "data")}
        broker = Broker(listeners, environment)
        (endpoint,) = await broker.start()
        peer = await Peer.connect(environment.network, "127.0.0.1", endpoint.port)
        try:
            assert await committed(peer) == [b"behind"]
        finally:
            peer.close()
            await broker.stop()

    run(before, **SETTINGS)
    asyncio.run(later())


def damage(served: Served, damaged: bytes | None) -> Any:
    """Overwrite the index of aborted transactions, or let it be gone; return the log."""
    log = replica(served).log
    (index,) = Path(log.path).glob("*.txnindex")
    if damaged is None:
        log.segments[-1].transaction_index.data.discard()
    else:
        index.write_bytes(damaged)
    return log


@pytest.mark.parametrize("is_cold", [False, True])
@pytest.mark.parametrize(
    ("damaged", "code"),
    [
        (b"", ErrorCode.CORRUPT_MESSAGE),
        (b"\x7f" * 34, ErrorCode.CORRUPT_MESSAGE),
        (None, ErrorCode.KAFKA_STORAGE_ERROR),
    ],
    ids=["short", "garbage", "gone"],
)
def test_an_index_of_aborted_transactions_that_cannot_be_read_is_an_error_of_its_partition(
    run: Run, damaged: bytes | None, code: ErrorCode, is_cold: bool
) -> None:
    async def story(served: Served) -> None:
        producer = await Producer.begin(served)
        await producer.add()
        await producer.produce(b"never")
        await producer.ended(committed=False)
        log = damage(served, damaged)
        if is_cold:
            log.segments[-1].data.close()
            log.directory.disk.open = ColdDisk(threads=1).open
        found = await fetch(served)
        assert found.error_code == code
        assert not found.records
        assert log.segments[-1].data.pins == 0
        assert len(await served.read("t")) == 2  # the records themselves are whole

    run(story, **SETTINGS)


def test_records_of_an_open_transaction_can_be_deleted(run: Run) -> None:
    async def story(served: Served) -> None:
        producer = await Producer.begin(served)
        await producer.add()
        await producer.produce(b"a", b"b")
        await producer.produce(b"c")
        row = DeleteRecordsRequestPartition(partition_index=0, offset=2)
        topic = DeleteRecordsRequestTopic(name="t", partitions=[row])
        await served.send(DeleteRecordsRequest(topics=[topic], timeout_ms=30_000), 2)
        assert (await fetch(served, 2)).last_stable_offset == 2
        await producer.ended(committed=False)
        assert await committed(served, 2) == []
        assert (await fetch(served, 2)).last_stable_offset == 4

    run(story, **SETTINGS)


def test_producers_are_described_with_the_start_of_their_transaction(run: Run) -> None:
    async def story(served: Served) -> None:
        producer = await Producer.begin(served)
        await plain(served, b"before")
        await producer.add()
        await producer.produce(b"a", b"b")
        topics = [
            DescribeProducersRequestTopic(name="t", partition_indexes=[0]),
            DescribeProducersRequestTopic(name="nonexistent", partition_indexes=[0]),
        ]
        request = DescribeProducersRequest(topics=topics)
        found, missing = (await served.send(request, 0)).topics
        (row,) = found.partitions[0].active_producers
        assert (row.producer_id, row.producer_epoch) == (producer.producer_id, 0)
        assert (row.last_sequence, row.last_timestamp) == (1, NOW_MS)
        assert (row.coordinator_epoch, row.current_txn_start_offset) == (-1, 1)
        assert missing.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        await producer.ended(committed=True)
        (row,) = (await served.send(request, 0)).topics[0].partitions[0].active_producers
        assert (row.coordinator_epoch, row.current_txn_start_offset) == (0, -1)

    run(story, **SETTINGS)


def test_what_is_described_twice_in_a_request_is_answered_twice(run: Run) -> None:
    async def story(served: Served) -> None:
        await Producer.begin(served)
        topic = DescribeProducersRequestTopic(name="t", partition_indexes=[0, 1, 0, 0])
        request: Any = DescribeProducersRequest(topics=[topic, topic])
        responses = (await served.send(request, 0)).topics
        rows = [[row.partition_index for row in response.partitions] for response in responses]
        assert rows == [[0, 1, 0, 0]] * 2
        request = DescribeTransactionsRequest(transactional_ids=["x", "y", "x"])
        states = (await served.send(request, 0)).transaction_states
        assert [state.transactional_id for state in states] == ["x", "y", "x"]
        request = FindCoordinatorRequest(key_type=1, coordinator_keys=["y", "x", "y"])
        coordinators = (await served.send(request, 4)).coordinators
        assert [found.key for found in coordinators] == ["y", "x", "y"]

    run(story, **SETTINGS)


def test_others_have_their_turn_while_many_coordinators_are_looked_for(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.send(FindCoordinatorRequest(key="x", key_type=1), 3)
        names = [str(number) for number in range(20_000)]
        request = FindCoordinatorRequest(key_type=1, coordinator_keys=names)
        (connection,) = served.broker.dispatcher.connections
        context = request_context(connection, ApiKey.FIND_COORDINATOR, 4)
        find = served.broker.handler_parts.bind(find_coordinator)
        many = asyncio.ensure_future(find(context, request))
        await asyncio.sleep(0)
        assert not many.done()
        assert [found.key for found in (await many).coordinators] == names

    run(story, **SETTINGS)
