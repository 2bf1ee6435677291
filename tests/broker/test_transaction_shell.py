"""The work of a shard of transactions around its machine."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from kavka.core.partition import PartitionState
from kavka.errors import ErrorCode
from kavka.ids import BrokerId, LeaderEpoch
from kavka.wire.messages.find_coordinator import FindCoordinatorRequest
from kavka.wire.messages.init_producer_id import InitProducerIdRequest
from kavka.wire.stored.znodes import PRODUCER_ID_BLOCK
from support.one_broker import Run, Served

ID = "tx"
SETTINGS = {"transaction__state__log__num__partitions": "1"}


async def ready(served: Served) -> None:
    found = await served.send(FindCoordinatorRequest(key=ID, key_type=1), 3)
    assert found.error_code == ErrorCode.NONE


def request_of(transactional_id: str | None) -> InitProducerIdRequest:
    return InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)


LAST_BLOCK = {"version": 1, "broker": 0, "block_start": "0"}


@pytest.mark.parametrize("transactional_id", [None, ID], ids=["idempotent", "transactional"])
@pytest.mark.parametrize(
    ("block", "reason"),
    [
        (b"junk", "cannot be read: junk"),
        (b"[]", "cannot be read: []"),
        (b"{}", "cannot be read: {}"),
        ((1 << 63) - 1, "all producer ids were given out"),
        ((1 << 63) - 1001 + 1, "all producer ids were given out"),
        (1 << 63, "cannot be read"),
        (-2, "cannot be read"),
    ],
)
def test_a_block_without_further_producer_ids_is_a_clear_error(
    run: Run,
    transactional_id: str | None,
    block: bytes | int,
    reason: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As `zookeeper-shell` may have written it; Apache Kafka answers so, too, when ids are exhausted."""
    if isinstance(block, int):
        block = json.dumps({**LAST_BLOCK, "block_end": str(block)}).encode()

    async def story(served: Served) -> None:
        await ready(served)
        registry = served.broker.registry
        request = request_of(transactional_id)
        data, _stat = await registry.get(PRODUCER_ID_BLOCK)
        await registry.set(PRODUCER_ID_BLOCK, block)
        assert (await served.send(request, 4)).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        await registry.set(PRODUCER_ID_BLOCK, data)
        assert (await served.send(request, 4)).error_code == ErrorCode.NONE

    run(story, **SETTINGS)
    (error,) = [r for r in caplog.records if r.getMessage().startswith("no producer id ")]
    assert reason in error.getMessage()
    assert "set block_end in /latest_producer_id_block of the registry" in error.getMessage()
    assert error.exc_info is None


@pytest.mark.parametrize("block_end", [(1 << 63) - 1001, -1])
def test_the_last_block_of_producer_ids_is_given_out(run: Run, block_end: int) -> None:
    async def story(served: Served) -> None:
        block = json.dumps({**LAST_BLOCK, "block_end": str(block_end)}).encode()
        await served.broker.registry.set(PRODUCER_ID_BLOCK, block)
        request = request_of(None)
        for expected in range(block_end + 1, block_end + 1001):
            assert (await served.send(request, 4)).producer_id == expected
        following = await served.send(request, 4)
        assert (following.error_code == ErrorCode.UNKNOWN_SERVER_ERROR) == (block_end > 0)

    run(story)


async def change_leader(served: Served, shard: Any, epoch: int, leader: int) -> None:
    """Have a newer leader epoch of a shard's partition obeyed."""
    broker, replica = served.broker, shard._replica
    partition = replica.partition
    state = PartitionState(
        BrokerId(leader),
        LeaderEpoch(epoch),
        partition.partition_epoch + 1,
        (BrokerId(leader),),
        (broker.broker_id, BrokerId(77)),
        topic_id=partition.topic_id,
        controller_epoch=partition.controller_epoch,
    )
    assert (
        await broker.replica_manager.make_leader_or_follower(
            replica.topic_partition, state, is_new=False
        )
        is ErrorCode.NONE
    )
    assert partition.leader_epoch == epoch


def test_a_coordinator_that_leads_on_sends_markers_with_the_newer_epoch(run: Run) -> None:
    """Another may have led between, unheard: partitions refuse whatever has an older epoch than its markers had."""

    async def story(served: Served) -> None:
        await ready(served)
        shard = served.broker.transactions.shard_of(ID)
        began = shard.coordinator_epoch
        assert began == shard._replica.partition.leader_epoch
        await change_leader(served, shard, began + 2, served.broker.broker_id)
        assert served.broker.transactions.shard_of(ID) is shard
        assert shard.coordinator_epoch == began + 2

    run(story, **SETTINGS)


def test_a_former_coordinator_keeps_the_epoch_of_its_leadership(run: Run) -> None:
    async def story(served: Served) -> None:
        await ready(served)
        shard = served.broker.transactions.shard_of(ID)
        began = shard.coordinator_epoch
        await change_leader(served, shard, began + 1, 77)
        assert served.broker.transactions.shard_of(ID) is ErrorCode.NOT_COORDINATOR
        assert shard.coordinator_epoch == began

    run(story, **SETTINGS)


@pytest.mark.parametrize("transactional_id", [None, ID], ids=["idempotent", "transactional"])
def test_an_id_of_the_block_waits_for_nothing(run: Run, transactional_id: str | None) -> None:
    async def story(served: Served) -> None:
        await ready(served)
        ids = [await served.send(request_of(transactional_id and "earlier"), 4)]
        async with served.broker.producer_ids._lock, asyncio.timeout(10):  # a block is awaited
            ids.append(await served.send(request_of(transactional_id), 4))
        assert [each.error_code for each in ids] == [ErrorCode.NONE] * 2
        assert ids[1].producer_id == ids[0].producer_id + 1

    run(story, **SETTINGS)
