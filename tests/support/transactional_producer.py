"""A transactional producer on the wire, for tests of the partitions that take part, and how they read."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.net.peer import Peer
from kavka.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kavka.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnRequestTopic,
)
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
)
from kavka.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kavka.wire.records.batch import decode_records
from kavka.wire.records.header import walk_complete
from support.one_broker import Served
from support.produce import batch, partition_response, produce_request

Run = Callable[..., None]
SETTINGS = {"transaction__state__log__num__partitions": "2"}
TRIES = 10_000
NONE = ErrorCode.NONE
NOW_MS = int(time.time() * 1000)  # markers are of today, and a segment holds seven days


class Producer:
    """A transactional producer that sends the given requests, in order or not."""

    def __init__(self, served: Served, name: str, producer_id: int = -1, epoch: int = 0) -> None:
        self.served = served
        self.name = name
        self.producer_id = producer_id
        self.epoch = epoch
        self.sequence = 0

    @classmethod
    async def begin(cls, served: Served, name: str = "x") -> Producer:
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
        first, self.sequence = self.sequence, self.sequence + len(values)
        return batch(
            *values,
            timestamp_ms=NOW_MS,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=first,
            transactional=transactional,
        )

    def request(self, *batches: bytearray, acks: int = -1) -> ProduceRequest:
        """Return the request for partitions 0, 1 ... of the topic."""
        return produce_request("t", enumerate(batches), acks=acks, transactional_id=self.name)

    async def produce(self, *values: bytes, version: int = 9, transactional: bool = True) -> Any:
        request = self.request(self.batch(*values, transactional=transactional))
        return partition_response(await self.served.send(request, version))

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


async def plain(served: Served, value: bytes) -> None:
    """Produce outside of transactions."""
    records = batch(value, timestamp_ms=NOW_MS)
    assert (await served.produce_bytes("t", records)).error_code == NONE


async def fetch(
    served: Served | Peer, offset: int = 0, *, max_wait_ms: int = 0, min_bytes: int = 1
) -> Any:
    asked = FetchRequestPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        isolation_level=1,
        topics=[FetchRequestTopic(topic="t", partitions=[asked])],
    )
    response = await served.send(request, 11)
    return response.responses[0].partitions[0]


async def committed(served: Served | Peer, offset: int = 0) -> list[bytes]:
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


async def list_offset(served: Served, timestamp: int, isolation_level: int = 1) -> int:
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


async def group_offset(served: Served, *, stable: bool = True) -> tuple[int, int]:
    """Return the error and the offset of partition 0, after the shard has been loaded."""
    topic = OffsetFetchRequestTopic(name="t", partition_indexes=[0])
    request = OffsetFetchRequest(group_id="g", topics=[topic], require_stable=stable)
    for _ in range(TRIES):
        response = await served.send(request, 7)
        if response.error_code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            break
    row = response.topics[0].partitions[0]
    return row.error_code, row.committed_offset


def replica(served: Served, topic: str = "t", partition: int = 0) -> Any:
    return served.broker.replica_manager.find(TopicPartition(topic, partition))
