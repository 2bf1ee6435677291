"""Batches of internal topics that are large do not keep the loop while they are loaded."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kavka.broker.control import adoption
from kavka.broker.coordination.group_shard_runtime import GroupCounts, GroupShardRuntime
from kavka.broker.partitions.batch_decoder import BatchDecoder
from kavka.core.group.events import DeleteGroup
from kavka.core.group.group import MembersMemory
from kavka.core.group.records import CommittedOffset, OffsetRecord
from kavka.core.group.settings import GroupSettings
from kavka.core.group.stored import to_bytes
from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.wire.messages.api_versions import ApiVersionsRequest
from kavka.wire.messages.find_coordinator import FindCoordinatorRequest
from kavka.wire.records.batch import BatchBuilder
from kavka.wire.records.compression import Compression
from kavka.wire.stored.transactions import (
    TransactionLogKey,
    TransactionLogValue,
)
from support.one_broker import Run, Served
from support.transaction_records import encode_transaction_key, encode_transaction_value
from support.waiting import until

NOW = 1_700_000_000_000
OFFSETS = 4000
SETTINGS = {
    "offsets__topic__num__partitions": "1",
    "transaction__state__log__num__partitions": "1",
}


def offsets_of_a_group(codec: Compression, metadata: str) -> bytearray:
    builder = BatchBuilder()
    for partition in range(OFFSETS):
        value = CommittedOffset(partition, -1, metadata, NOW)
        record = OffsetRecord("g", "t", partition, value)
        builder.append(*to_bytes(record), NOW)
    return builder.build(codec)


def runtime_over(served: Served) -> GroupShardRuntime:
    broker = served.broker
    replica = served.replica(TopicPartition("__consumer_offsets", 0))
    return GroupShardRuntime(
        replica,
        GroupSettings(),
        Compression.NONE,
        5_000,
        broker.clock,
        BatchDecoder(broker.environment.disk),
        MembersMemory(),
        GroupCounts(),
    )


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.ZSTD])
def test_the_records_of_a_large_batch_are_loaded_in_slices(run: Run, codec: Compression) -> None:
    async def story(served: Served) -> None:
        await served.send(FindCoordinatorRequest(key="g"), 3)
        replica = served.broker.replica_manager.find(TopicPartition("__consumer_offsets", 0))
        replica.append_internal(offsets_of_a_group(codec, ""))
        runtime = runtime_over(served)
        runtime.start()
        seen = set()
        while runtime.machine.is_loading:
            durable = runtime.machine.durable().get("g")
            seen.add(0 if durable is None else len(durable[1]))
            await asyncio.sleep(0)
        assert len(seen) > OFFSETS // 1000
        assert len(runtime.machine.durable()["g"][1]) == OFFSETS
        runtime.stop()

    run(story, **SETTINGS)


def test_a_batch_that_decompresses_to_much_is_decompressed_in_the_pool_one_at_a_time(
    run: Run,
) -> None:
    async def story(served: Served) -> None:
        await served.send(FindCoordinatorRequest(key="g"), 3)
        replica = served.broker.replica_manager.find(TopicPartition("__consumer_offsets", 0))
        replica.append_internal(offsets_of_a_group(Compression.ZSTD, "m" * 2000))
        runtime = runtime_over(served)
        async with runtime._decoder.lock:
            runtime.start()
            await served.send(ApiVersionsRequest(), 0)
            assert runtime.machine.is_loading
        await until(lambda: not runtime.machine.is_loading)
        assert len(runtime.machine.durable()["g"][1]) == OFFSETS
        runtime.stop()

    run(story, **SETTINGS)


def test_producer_ids_in_a_large_batch_are_found_when_logs_are_adopted(
    run: Run, tmp_path: Path
) -> None:
    async def story(served: Served) -> None:
        await served.send(FindCoordinatorRequest(key="x", key_type=1), 3)
        replica = served.broker.replica_manager.find(TopicPartition("__transaction_state", 0))
        builder = BatchBuilder()
        for number in range(3000):
            value = TransactionLogValue(producer_id=number)
            key = TransactionLogKey(transactional_id="x" * 500)
            builder.append(encode_transaction_key(key), encode_transaction_value(value), NOW)
        replica.append_internal(builder.build(Compression.GZIP))
        disk = served.broker.environment.disk
        assert max(await adoption._transactional_ids(replica.log, disk)) == 2999

    run(story, **SETTINGS)


def test_a_shard_that_fails_when_it_begins_to_serve_says_so_and_serves_nothing(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    """It answered as if it were loaded, without those that were behind the failure."""

    async def story(served: Served) -> None:
        await served.send(FindCoordinatorRequest(key="g"), 3)
        replica = served.broker.replica_manager.find(TopicPartition("__consumer_offsets", 0))
        replica.append_internal(offsets_of_a_group(Compression.NONE, ""))
        runtime = runtime_over(served)
        # A bug, in the last step:
        runtime.machine._settle = None  # type: ignore[assignment, method-assign]
        runtime.start()
        await until(lambda: "shard not loaded partition=__consumer_offsets-0" in caplog.text)
        assert runtime.machine.is_loading
        reply = await runtime.submit(lambda token: DeleteGroup(token, "g"))
        assert reply.error_code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        runtime.stop()

    run(story, **SETTINGS)
    assert "TypeError" in caplog.text
