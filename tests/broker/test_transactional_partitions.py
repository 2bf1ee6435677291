"""Transactions at the partitions that take part: what is verified, what is readable, which offsets count."""

from __future__ import annotations

import asyncio
import errno
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kavka.broker.api import find_coordinator
from kavka.broker.broker import Broker
from kavka.broker.dispatch import RequestContext
from kavka.broker.group_shell import GroupShell
from kavka.broker.host import RealHost
from kavka.core.group.settings import GroupSettings
from kavka.core.shards import partition_for
from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.net.peer import Peer
from kavka.storage.disk import OsDisk, OsFile
from kavka.wire.apis import ApiKey
from kavka.wire.frame import RequestHeader
from kavka.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kavka.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnRequestTopic,
)
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
from kavka.wire.messages.end_txn import EndTxnRequest
from kavka.wire.messages.fetch import FetchRequest, FetchRequestPartition, FetchRequestTopic
from kavka.wire.messages.find_coordinator import FindCoordinatorRequest
from kavka.wire.messages.init_producer_id import InitProducerIdRequest
from kavka.wire.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
)
from kavka.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from kavka.wire.messages.produce import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
)
from kavka.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kavka.wire.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersRequestMarker,
    WriteTxnMarkersRequestTopic,
)
from kavka.wire.records.batch import BatchBuilder, decode_records
from kavka.wire.records.compression import Compression
from kavka.wire.records.control import ControlType, EndMarker
from kavka.wire.records.header import walk_complete

Run = Callable[..., None]
SETTINGS = {"transaction__state__log__num__partitions": "2"}
TRIES = 10_000
NONE = ErrorCode.NONE
NOW_MS = int(time.time() * 1000)  # markers are of today, and a segment holds seven days


class Producer:
    """A transactional producer that does what it is told to, in order or not."""

    def __init__(self, served: Any, name: str, producer_id: int = -1, epoch: int = 0) -> None:
        self.served = served
        self.name = name
        self.producer_id = producer_id
        self.epoch = epoch
        self.sequence = 0

    @classmethod
    async def begin(cls, served: Any, name: str = "x") -> Producer:
        await served.topic("t")
        await served.send(FindCoordinatorRequest(key=name, key_type=1), 3)
        self = cls(served, name)
        await self.init()
        return self

    async def init(self) -> None:
        request = InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=60_000)
        given = await self.patiently(request, 4)
        assert given.error_code == NONE
        self.producer_id, self.epoch, self.sequence = given.producer_id, given.producer_epoch, 0

    async def patiently(self, request: Any, version: int) -> Any:
        """Ask until the transaction before is over."""
        for _ in range(TRIES):
            response = await self.served.send(request, version)
            if response.error_code != ErrorCode.CONCURRENT_TRANSACTIONS:
                return response
        raise AssertionError("a transaction does not end")

    async def add(self, topic: str = "t", partition: int = 0) -> None:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnRequestTopic(name=topic, partitions=[partition])
            ],
        )
        for _ in range(TRIES):
            response = await self.served.send(request, 3)
            (row,) = response.results_by_topic_v3_and_below[0].results_by_partition
            if row.partition_error_code != ErrorCode.CONCURRENT_TRANSACTIONS:
                break
        assert row.partition_error_code == NONE

    def batch(self, *values: bytes, transactional: bool = True) -> bytearray:
        builder = BatchBuilder()
        for value in values:
            builder.append(None, value, NOW_MS)
        first, self.sequence = self.sequence, self.sequence + len(values)
        return builder.build(
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=first,
            transactional=transactional,
        )

    def request(self, *batches: bytearray, acks: int = -1) -> ProduceRequest:
        """Return the request for partitions 0, 1 ... of the topic."""
        rows = [
            ProduceRequestPartition(index=index, records=batch)
            for index, batch in enumerate(batches)
        ]
        topic = ProduceRequestTopic(name="t", partition_data=rows)
        return ProduceRequest(
            transactional_id=self.name, acks=acks, timeout_ms=30_000, topic_data=[topic]
        )

    async def produce(self, *values: bytes, version: int = 9, transactional: bool = True) -> Any:
        request = self.request(self.batch(*values, transactional=transactional))
        response = await self.served.send(request, version)
        return response.responses[0].partition_responses[0]

    async def end(self, *, committed: bool) -> None:
        request = EndTxnRequest(
            transactional_id=self.name,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=committed,
        )
        assert (await self.patiently(request, 3)).error_code == NONE

    async def ended(self, *, committed: bool) -> None:
        """End, and wait until no marker is on its way."""
        await self.end(committed=committed)
        markers = self.served.broker.transactions.markers
        for _ in range(TRIES):
            if not len(markers):
                return
            await asyncio.sleep(0)
        raise AssertionError("a marker is not written")

    async def add_offsets(self, group: str = "g") -> None:
        await self.served.send(FindCoordinatorRequest(key=group), 3)
        request = AddOffsetsToTxnRequest(
            transactional_id=self.name,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            group_id=group,
        )
        assert (await self.patiently(request, 3)).error_code == NONE

    async def commit_offset(self, offset: int, version: int = 3, **member: Any) -> int:
        row = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        request = TxnOffsetCommitRequest(
            transactional_id=self.name,
            group_id="g",
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=[TxnOffsetCommitRequestTopic(name="t", partitions=[row])],
            **member,
        )
        response = await self.served.send(request, version)
        code: int = response.topics[0].partitions[0].error_code
        return code


async def plain(served: Any, value: bytes) -> None:
    """Produce outside of transactions."""
    builder = BatchBuilder()
    builder.append(None, value, NOW_MS)
    assert (await served.produce_bytes("t", builder.build())).error_code == NONE


async def fetch(served: Any, offset: int = 0, *, max_wait_ms: int = 0, min_bytes: int = 1) -> Any:
    asked = FetchRequestPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        isolation_level=1,
        topics=[FetchRequestTopic(topic="t", partitions=[asked])],
    )
    response = await served.send(request, 11)
    return response.responses[0].partitions[0]


async def committed(served: Any, offset: int = 0) -> list[bytes]:
    """Read as a consumer does with read_committed: without the records of aborted transactions."""
    found = await fetch(served, offset)
    assert found.error_code == NONE
    pending = sorted((a.first_offset, a.producer_id) for a in found.aborted_transactions)
    aborted: set[int] = set()
    values: list[bytes] = []
    data = bytes(found.records)
    for header in walk_complete(data):
        while pending and pending[0][0] <= header.last_offset:
            aborted.add(pending.pop(0)[1])
        if header.is_control:
            aborted.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborted):
            values += [bytes(r.value or b"") for r in decode_records(data, header)]
    return values


async def list_offset(served: Any, timestamp: int, isolation_level: int = 1) -> int:
    row = ListOffsetsRequestPartition(partition_index=0, timestamp=timestamp)
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation_level,
        topics=[ListOffsetsRequestTopic(name="t", partitions=[row])],
    )
    response = await served.send(request, 5)
    assert response.topics[0].partitions[0].error_code == NONE
    offset: int = response.topics[0].partitions[0].offset
    return offset


async def group_offset(served: Any, *, stable: bool = True) -> tuple[int, int]:
    """Return the error and the offset of partition 0, after the shard has been loaded."""
    topic = OffsetFetchRequestTopic(name="t", partition_indexes=[0])
    request = OffsetFetchRequest(group_id="g", topics=[topic], require_stable=stable)
    for _ in range(TRIES):
        response = await served.send(request, 7)
        if response.error_code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            break
    row = response.topics[0].partitions[0]
    return row.error_code, row.committed_offset


def replica(served: Any, topic: str = "t", partition: int = 0) -> Any:
    return served.broker.replicas.find(TopicPartition(topic, partition))


# Producing


def test_a_committed_transaction_is_read_and_an_aborted_one_is_not(run: Run) -> None:
    async def story(served: Any) -> None:
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
    async def story(served: Any) -> None:
        producer = await Producer.begin(served)
        await producer.add()
        assert (await producer.produce(b"a")).error_code == NONE
        await producer.ended(committed=True)
        answer = await producer.produce(b"late", version=version)
        assert (answer.error_code, answer.base_offset) == (code, -1)
        if version == 9:
            assert answer.error_message == "Partition was not added to the transaction"
        assert replica(served).log.log_end_offset == 2

    run(story, **SETTINGS)


def test_a_batch_of_an_unknown_transaction_is_refused(run: Run) -> None:
    async def story(served: Any) -> None:
        producer = await Producer.begin(served)
        assert (await producer.produce(b"a")).error_code == ErrorCode.INVALID_TXN_STATE
        stranger = Producer(served, "stranger", 77)
        code = (await stranger.produce(b"a")).error_code
        assert code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert replica(served).log.log_end_offset == 0

    run(story, **SETTINGS)


def test_a_fenced_producer_is_told_that_its_epoch_is_old(run: Run) -> None:
    async def story(served: Any) -> None:
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
    async def story(served: Any) -> None:
        producer = await Producer.begin(served)
        await producer.add()
        requests = [producer.request(producer.batch(b"%d" % number)) for number in range(5)]
        answers = await asyncio.gather(*(served.send(request, 9) for request in requests))
        rows = [answer.responses[0].partition_responses[0] for answer in answers]
        assert [row.error_code for row in rows] == [NONE] * 5
        assert [row.base_offset for row in rows] == [0, 1, 2, 3, 4]
        again = await served.send(requests[0], 9)
        assert again.responses[0].partition_responses[0].base_offset == 0
        await producer.ended(committed=True)
        assert await committed(served) == [b"0", b"1", b"2", b"3", b"4"]

    run(story, **SETTINGS)


def test_each_partition_of_a_request_is_judged_by_itself(run: Run) -> None:
    async def story(served: Any) -> None:
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
    async def story(served: Any) -> None:
        one = await Producer.begin(served, "one")
        two = await Producer.begin(served, "two")
        request = one.request(one.batch(b"a"), two.batch(b"b"))
        response = await served.send(request, 9)
        codes = {row.error_code for row in response.responses[0].partition_responses}
        assert codes == {ErrorCode.INVALID_PRODUCER_ID_MAPPING}

    run(story, **SETTINGS, num__partitions="2")


def test_verification_can_be_turned_off(run: Run) -> None:
    async def story(served: Any) -> None:
        producer = await Producer.begin(served)
        assert (await producer.produce(b"a")).error_code == NONE

    run(story, **SETTINGS, transaction__partition__verification__enable="false")


def test_a_transactional_batch_without_transactional_id_is_refused(run: Run) -> None:
    async def story(served: Any) -> None:
        producer = await Producer.begin(served)
        await producer.add()
        answer = await served.produce_bytes("t", producer.batch(b"a"))
        assert answer.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED

    run(story, **SETTINGS)


def test_a_plain_batch_in_an_open_transaction_is_refused(run: Run) -> None:
    async def story(served: Any) -> None:
        producer = await Producer.begin(served)
        await producer.add()
        await producer.produce(b"a")
        answer = await producer.produce(b"b", transactional=False)
        assert answer.error_code == ErrorCode.INVALID_TXN_STATE

    run(story, **SETTINGS)


async def send_silently(served: Any, producer: Producer, value: bytes) -> None:
    """Send what is not answered; this ends with the connection."""
    await served.peer.send(producer.request(producer.batch(value), acks=0), 9)


def test_acks_0_in_a_transaction_is_not_answered_and_an_error_closes_the_connection(
    run: Run,
) -> None:
    async def story(served: Any) -> None:
        producer = await Producer.begin(served)
        await producer.add()
        other = await served.another()
        silent = [asyncio.ensure_future(send_silently(other, producer, b"a"))]
        for _ in range(TRIES):
            if replica(served).log.log_end_offset:
                break
            await asyncio.sleep(0)
        assert replica(served).log.log_end_offset == 1
        await producer.ended(committed=True)
        silent.append(asyncio.ensure_future(send_silently(other, producer, b"late")))
        for _ in range(TRIES):
            if other.peer.is_closed:
                break
            await asyncio.sleep(0.001)
        assert other.peer.is_closed
        assert all(
            isinstance(e, OSError) for e in await asyncio.gather(*silent, return_exceptions=True)
        )
        assert replica(served).log.log_end_offset == 2

    run(story, **SETTINGS)


# Reading


def test_a_read_committed_fetch_is_woken_by_the_marker_and_not_by_what_is_open(run: Run) -> None:
    async def story(served: Any) -> None:
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
    async def story(served: Any) -> None:
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
    async def story(served: Any) -> None:
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
    async def story(served: Any) -> None:
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

    async def before(served: Any) -> None:
        producer = await Producer.begin(served)
        await producer.add()
        await producer.produce(b"a")
        await plain(served, b"behind")
        names.append((producer.producer_id, producer.epoch))

    async def after(served: Any) -> None:
        producer = Producer(served, "x", *names[0])
        producer.sequence = 1
        assert await committed(served) == []
        assert (await producer.produce(b"b")).base_offset == 2
        await producer.ended(committed=True)
        assert await committed(served) == [b"a", b"behind", b"b"]

    run(before, **SETTINGS)
    run(after, **SETTINGS)


class ColdFile(OsFile):
    """A file of which nothing is in the page cache."""

    def is_cached(self, length: int, position: int) -> bool:
        return False


class ColdDisk(OsDisk):
    """A disk whose files must all be read in the pool."""

    def open(self, path: str, *, create: bool = False) -> OsFile:
        return ColdFile(os.open(path, os.O_RDWR | (os.O_CREAT if create else 0), 0o644))


def test_what_is_read_from_the_disk_comes_with_its_aborted_transactions(
    run: Run, tmp_path: Path
) -> None:
    async def before(served: Any) -> None:
        producer = await Producer.begin(served)
        await producer.add()
        await producer.produce(b"never")
        await producer.ended(committed=False)
        await plain(served, b"behind")

    async def later() -> None:
        host = RealHost()
        host.disk = ColdDisk(threads=2)
        listeners = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(tmp_path / "data")}
        broker = Broker(listeners, host)
        (endpoint,) = await broker.start()
        peer = await Peer.connect(host.network, "127.0.0.1", endpoint.port)
        try:
            assert await committed(peer) == [b"behind"]
        finally:
            peer.close()
            await broker.stop()

    run(before, **SETTINGS)
    asyncio.run(later())


def damage(served: Any, damaged: bytes | None) -> Any:
    """Overwrite the index of aborted transactions, or let it be gone; return the log."""
    log = replica(served).log
    (index,) = Path(log.path).glob("*.txnindex")
    if damaged is None:
        log._active.transaction_index.data.discard()
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
    async def story(served: Any) -> None:
        producer = await Producer.begin(served)
        await producer.add()
        await producer.produce(b"never")
        await producer.ended(committed=False)
        log = damage(served, damaged)
        if is_cold:
            log._active.data.close()
            log.directory.disk.open = ColdDisk(threads=1).open
        found = await fetch(served)
        assert found.error_code == code
        assert not found.records
        assert log._active.data.pins == 0
        assert len(await served.read("t")) == 2  # the records themselves are whole

    run(story, **SETTINGS)


def test_records_of_an_open_transaction_can_be_deleted(run: Run) -> None:
    async def story(served: Any) -> None:
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
    async def story(served: Any) -> None:
        producer = await Producer.begin(served)
        await plain(served, b"before")
        await producer.add()
        await producer.produce(b"a", b"b")
        topics = [
            DescribeProducersRequestTopic(name="t", partition_indexes=[0]),
            DescribeProducersRequestTopic(name="nobody", partition_indexes=[0]),
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


def test_what_is_described_twice_in_a_request_is_described_once(run: Run) -> None:
    async def story(served: Any) -> None:
        await Producer.begin(served)
        topic = DescribeProducersRequestTopic(name="t", partition_indexes=[0, 1, 0, 0])
        request: Any = DescribeProducersRequest(topics=[topic, topic])
        (answer,) = (await served.send(request, 0)).topics
        assert [row.partition_index for row in answer.partitions] == [0, 1]
        request = DescribeTransactionsRequest(transactional_ids=["x", "y", "x"])
        states = (await served.send(request, 0)).transaction_states
        assert [state.transactional_id for state in states] == ["x", "y"]
        request = FindCoordinatorRequest(key_type=1, coordinator_keys=["y", "x", "y"])
        coordinators = (await served.send(request, 4)).coordinators
        assert [found.key for found in coordinators] == ["y", "x"]

    run(story, **SETTINGS)


def test_others_have_their_turn_while_many_coordinators_are_looked_for(run: Run) -> None:
    async def story(served: Any) -> None:
        await served.send(FindCoordinatorRequest(key="x", key_type=1), 3)
        names = [str(number) for number in range(20_000)]
        request = FindCoordinatorRequest(key_type=1, coordinator_keys=names)
        (connection,) = served.broker.dispatcher.connections
        header = RequestHeader(ApiKey.FIND_COORDINATOR, 4, 0, "test", 0)
        context = RequestContext(connection, header, 0)
        many = asyncio.ensure_future(find_coordinator.handle(served.broker, context, request))
        await asyncio.sleep(0)
        assert not many.done()
        assert [found.key for found in (await many).coordinators] == names

    run(story, **SETTINGS)


# Taking part


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state"])
def test_clients_cannot_let_internal_topics_take_part(run: Run, topic: str) -> None:
    async def story(served: Any) -> None:
        producer = await Producer.begin(served)
        await served.send(FindCoordinatorRequest(key="g"), 3)
        names = [topic, "t", "nobody"]
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
            "nobody": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
        assert (await producer.produce(b"a")).error_code == ErrorCode.INVALID_TXN_STATE

    run(story, **SETTINGS)


# Markers


async def mark(served: Any, epoch: int, coordinator_epoch: int, **topics: list[int]) -> list[int]:
    rows = [WriteTxnMarkersRequestTopic(name=n, partition_indexes=p) for n, p in topics.items()]
    marker = WriteTxnMarkersRequestMarker(
        producer_id=7,
        producer_epoch=epoch,
        transaction_result=True,
        topics=rows,
        coordinator_epoch=coordinator_epoch,
    )
    response = await served.send(WriteTxnMarkersRequest(markers=[marker]), 1)
    (answer,) = response.markers
    assert answer.producer_id == 7
    return [row.error_code for topic in answer.topics for row in topic.partitions]


def test_markers_are_refused_partition_by_partition(run: Run) -> None:
    async def story(served: Any) -> None:
        await served.topic("t")
        assert await mark(served, 1, 5, t=[0, 9], nobody=[0]) == [
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
    async def story(served: Any) -> None:
        await served.topic("t")
        topic = WriteTxnMarkersRequestTopic(name="t", partition_indexes=[0, 0])
        marker = WriteTxnMarkersRequestMarker(
            producer_id=7,
            producer_epoch=0,
            transaction_result=True,
            topics=[topic, topic],
            coordinator_epoch=1,
        )
        response = await served.send(WriteTxnMarkersRequest(markers=[marker, marker]), 1)
        (answer,) = response.markers
        (row,) = answer.topics[0].partitions
        assert row.error_code == NONE
        assert replica(served).log.log_end_offset == 1

    run(story)


# Offsets


def test_offsets_count_when_their_transaction_is_committed(run: Run) -> None:
    async def story(served: Any) -> None:
        producer = await Producer.begin(served)
        await producer.add_offsets()
        assert await producer.commit_offset(5) == NONE
        assert await group_offset(served) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
        assert await group_offset(served, stable=False) == (NONE, -1)
        await producer.ended(committed=True)
        assert await group_offset(served) == (NONE, 5)
        await producer.add_offsets()
        assert await producer.commit_offset(6) == NONE
        await producer.ended(committed=False)
        assert await group_offset(served) == (NONE, 5)

    run(story, **SETTINGS)


def test_pending_offsets_survive_a_restart(run: Run) -> None:
    names: list[tuple[int, int]] = []

    async def before(served: Any) -> None:
        producer = await Producer.begin(served)
        await producer.add_offsets()
        assert await producer.commit_offset(5) == NONE
        await producer.ended(committed=True)
        await producer.add_offsets()
        assert await producer.commit_offset(6) == NONE
        await producer.ended(committed=False)
        await producer.add_offsets()
        assert await producer.commit_offset(7) == NONE
        names.append((producer.producer_id, producer.epoch))

    async def after(served: Any) -> None:
        assert await group_offset(served) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
        assert await group_offset(served, stable=False) == (NONE, 5)
        await Producer(served, "x", *names[0]).ended(committed=True)
        assert await group_offset(served) == (NONE, 7)

    async def again(served: Any) -> None:
        assert await group_offset(served) == (NONE, 7)

    run(before, **SETTINGS)
    run(after, **SETTINGS)
    run(again, **SETTINGS)


@pytest.mark.parametrize(
    ("version", "code"),
    [(3, ErrorCode.INVALID_TXN_STATE), (4, ErrorCode.TRANSACTION_ABORTABLE)],
)
def test_offsets_of_a_group_that_takes_no_part_are_refused(
    run: Run, version: int, code: ErrorCode
) -> None:
    async def story(served: Any) -> None:
        producer = await Producer.begin(served)
        await served.send(FindCoordinatorRequest(key="g"), 3)
        assert await producer.commit_offset(5, version) == code
        assert await group_offset(served) == (NONE, -1)

    run(story, **SETTINGS)


def test_offsets_of_who_is_no_member_are_refused(run: Run) -> None:
    async def story(served: Any) -> None:
        producer = await Producer.begin(served)
        await producer.add_offsets()
        code = await producer.commit_offset(5, generation_id=3, member_id="m")
        assert code == ErrorCode.UNKNOWN_MEMBER_ID
        assert await group_offset(served) == (NONE, -1)

    run(story, **SETTINGS)


def test_offsets_in_transactions_are_stored_as_kafka_stores_them(run: Run) -> None:
    async def story(served: Any) -> None:
        producer = await Producer.begin(served)
        await producer.add_offsets()
        await producer.commit_offset(5)
        await producer.ended(committed=True)
        where = replica(served, "__consumer_offsets", partition_for("g", 3))
        read = where.log.read(0, 1 << 20, where.log.log_end_offset, True)
        data = read.range.file.read_at(read.range.length, read.range.position)
        read.range.release()
        stored, marker = walk_complete(data)
        assert stored.is_transactional
        assert (stored.producer_id, stored.producer_epoch) == (producer.producer_id, 0)
        assert stored.base_sequence == 0
        assert marker.is_control

    run(story, **SETTINGS)


@pytest.mark.parametrize("turns", range(4))
def test_a_marker_that_comes_while_a_shard_is_loading_counts(run: Run, turns: int) -> None:
    async def story(served: Any) -> None:
        producer = await Producer.begin(served)
        await producer.add_offsets()
        assert await producer.commit_offset(5) == NONE
        where = replica(served, "__consumer_offsets", partition_for("g", 3))
        broker = served.broker
        shell = GroupShell(
            where, GroupSettings(), Compression.NONE, 5_000, broker.clock, broker.host.disk
        )
        shell.start()
        for _ in range(turns):
            await asyncio.sleep(0)
        marker = EndMarker(ControlType.COMMIT, 0)
        outcome = where.append_marker(producer.producer_id, producer.epoch, marker)
        shell.marker_appended(producer.producer_id, committed=True, end_offset=outcome.end_offset)
        for _ in range(TRIES):
            if not shell.machine.is_loading:
                break
            await asyncio.sleep(0)
        (_stored, offsets, undecided) = shell.machine.durable()["g"]
        assert [value.offset for value in offsets.values()] == [5]
        assert not undecided
        shell.stop()

    run(story, **SETTINGS)


def test_a_shard_that_cannot_be_loaded_keeps_no_markers(run: Run) -> None:
    async def story(served: Any) -> None:
        producer = await Producer.begin(served)
        await producer.add_offsets()
        assert await producer.commit_offset(5) == NONE
        where = replica(served, "__consumer_offsets", partition_for("g", 3))
        broker = served.broker
        shell = GroupShell(
            where, GroupSettings(), Compression.NONE, 5_000, broker.clock, broker.host.disk
        )
        where.log.directory.fail(OSError(errno.EIO, "Input/output error"))
        shell.start()
        assert shell._loading is not None
        for _ in range(3):
            shell.marker_appended(producer.producer_id, committed=True, end_offset=2)
        assert shell._ends_while_loading
        await shell._loading
        assert shell.machine.is_loading
        assert not shell._ends_while_loading
        shell.marker_appended(producer.producer_id, committed=True, end_offset=2)
        assert not shell._ends_while_loading
        shell.stop()

    run(story, **SETTINGS)
