"""Internal topics: only their coordinators write them, and a malformed record there hides no other."""

from __future__ import annotations

import pytest

from kavka.broker.metadata.cache import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from kavka.core.group.records import GroupRecord, StoredGroup, StoredMember
from kavka.core.group.stored import to_bytes
from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.net.network import TcpNetwork
from kavka.net.peer import Peer
from kavka.wire.messages.init_producer_id import InitProducerIdRequest
from kavka.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kavka.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from kavka.wire.stored.offsets import OffsetCommitKey, encode_key
from kavka.wire.stored.transactions import (
    TransactionLogKey,
    TransactionLogPartition,
    TransactionLogValue,
)
from support.one_broker import Run, Served
from support.produce import batch, produce
from support.transaction_records import encode_transaction_key, encode_transaction_value


def group_of(*members: tuple[str, str | None]) -> tuple[bytes, bytes]:
    """Return the record of group `g` with members of these ids and instance ids."""
    parts = tuple(StoredMember(m, i, "", "", 1000, 6000, b"", b"") for m, i in members)
    return written_group(GroupRecord("g", StoredGroup("consumer", 1, "range", "m", 0, parts)))


def written_group(record: GroupRecord) -> tuple[bytes, bytes]:
    key, value = to_bytes(record)
    assert value is not None
    return key, value


def batch_of(key: bytes, value: bytes) -> bytearray:
    return batch(value, key=key, timestamp_ms=0)


async def commit(served: Served, topic: str, offset: int) -> int:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    commit = OffsetCommitRequestTopic(name=topic, partitions=[partition])
    while True:
        response = await served.send(OffsetCommitRequest(group_id="g", topics=[commit]), 8)
        code = ErrorCode.of(response.topics[0].partitions[0].error_code)
        if code not in (
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            ErrorCode.NOT_COORDINATOR,
        ):
            return int(code)


async def find_coordinator(served: Served, name: str, kind: int) -> None:
    from kavka.wire.messages.find_coordinator import FindCoordinatorRequest

    while (
        await served.send(FindCoordinatorRequest(key=name, key_type=kind), 3)
    ).error_code != ErrorCode.NONE:
        pass


@pytest.mark.parametrize("client_id", ["anybody", "__admin_client"])
def test_only_the_coordinator_writes_an_internal_topic(run: Run, client_id: str) -> None:
    async def story(served: Served) -> None:
        await find_coordinator(served, "g", 0)
        peer = await Peer.connect(TcpNetwork(), "127.0.0.1", served.port, client_id=client_id)
        response = await produce(
            peer, TopicPartition(OFFSETS_TOPIC, 0), batch_of(b"k", b"v"), acks=1
        )
        peer.close()
        assert response.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION

    run(story)


def test_commits_behind_a_malformed_record_survive_a_restart(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def before(served: Served) -> None:
        await served.create("t")
        await find_coordinator(served, "g", 0)
        assert await commit(served, "t", 1) == 0
        broker = served.broker
        topic_partition = broker.groups.partition_of("g")
        assert topic_partition is not None
        replica = broker.replica_manager.find(topic_partition)
        key = encode_key(OffsetCommitKey(group="g", topic="t", partition=0))
        for records in (
            batch_of(key, b"\x00\x09nothing"),
            batch_of(key[:-3], b"cut"),
            batch_of(b"\x00", b""),
            batch_of(*group_of(("m", None), ("m", None))),
            batch_of(*group_of(("m", "i"), ("n", "i"))),
        ):
            assert replica.append_internal(records).error is ErrorCode.NONE
        assert await commit(served, "t", 7) == 0

    async def after(served: Served) -> None:
        await find_coordinator(served, "g", 0)
        assert await commit(served, "other", 3) in (0, int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        wanted = OffsetFetchRequestTopic(name="t", partition_indexes=[0])
        response = await served.send(OffsetFetchRequest(group_id="g", topics=[wanted]), 5)
        assert response.topics[0].partitions[0].committed_offset == 7
        shards = list(served.broker.groups.shards())
        assert sum(shard.malformed_records for shard in shards) == 5
        assert {shard.machine.is_loading for shard in shards} == {False}

    run(before)
    run(after)
    assert "malformed record skipped partition=__consumer_offsets" in caplog.text


def transaction_of(transactional_id: str, epoch: int) -> tuple[bytes, bytes]:
    """Return the record of a transaction that is to be committed, in partition t-0."""
    value = TransactionLogValue(
        producer_id=5,
        producer_epoch=epoch,
        transaction_timeout_ms=1000,
        transaction_status=2,
        transaction_partitions=[TransactionLogPartition(topic="t", partition_ids=[0])],
    )
    key = TransactionLogKey(transactional_id=transactional_id)
    return encode_transaction_key(key), encode_transaction_value(value)


def test_transactions_load_in_spite_of_a_malformed_record(run: Run) -> None:
    """Those behind it are served, and their markers are sent again."""
    settings = {"transaction__state__log__num__partitions": "1"}

    async def before(served: Served) -> None:
        await served.create("t")
        await find_coordinator(served, "x", 1)
        broker = served.broker
        topic_partition = broker.transactions.partition_of("x")
        assert topic_partition is not None
        key = encode_transaction_key(TransactionLogKey(transactional_id="x"))
        for records in (
            batch_of(key, b"\x00\x00bad"),
            batch_of(b"\x00\x00\x7f", b""),
            batch_of(*transaction_of("x", -32768)),
            batch_of(*transaction_of("y", 0)),
        ):
            assert (
                broker.replica_manager.find(topic_partition).append_internal(records).error
                is ErrorCode.NONE
            )

    async def after(served: Served) -> None:
        for transactional_id in ("x", "y"):  # "y" once its transaction is complete
            await find_coordinator(served, transactional_id, 1)
            request = InitProducerIdRequest(
                transactional_id=transactional_id, transaction_timeout_ms=60_000
            )
            while (code := (await served.send(request)).error_code) in (
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
                ErrorCode.CONCURRENT_TRANSACTIONS,
            ):
                pass
            assert code == ErrorCode.NONE
        shards = served.broker.coordinators[TRANSACTIONS_TOPIC].shards()
        assert sum(shard.malformed_records for shard in shards) == 3

    run(before, **settings)
    run(after, **settings)
