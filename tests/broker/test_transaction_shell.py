"""What a shard of transactions does around its machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kavka.core.partition import PartitionState
from kavka.errors import ErrorCode
from kavka.ids import LeaderEpoch
from kavka.wire.messages.find_coordinator import FindCoordinatorRequest
from kavka.wire.messages.init_producer_id import InitProducerIdRequest
from kavka.wire.stored.znodes import PRODUCER_ID_BLOCK

Run = Callable[..., None]
ID = "tx"
SETTINGS = {"transaction__state__log__num__partitions": "1"}


async def ready(served: Any) -> None:
    found = await served.send(FindCoordinatorRequest(key=ID, key_type=1), 3)
    assert found.error_code == ErrorCode.NONE


@pytest.mark.parametrize("transactional_id", [None, ID], ids=["idempotent", "transactional"])
def test_an_odd_block_of_producer_ids_lets_nobody_wait(
    run: Run, transactional_id: str | None
) -> None:
    async def story(served: Any) -> None:
        await ready(served)
        registry = served.broker.registry
        request = InitProducerIdRequest(
            transactional_id=transactional_id, transaction_timeout_ms=60_000
        )
        data, _stat = await registry.get(PRODUCER_ID_BLOCK)
        await registry.set(PRODUCER_ID_BLOCK, b"junk")
        assert (await served.send(request, 4)).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        await registry.set(PRODUCER_ID_BLOCK, data)
        assert (await served.send(request, 4)).error_code == ErrorCode.NONE

    run(story, **SETTINGS)


def test_the_epoch_of_a_coordinator_is_that_by_which_it_began(run: Run) -> None:
    async def story(served: Any) -> None:
        await ready(served)
        broker = served.broker
        shard = broker.transactions.shard_of(ID)
        began = shard.coordinator_epoch
        replica = shard._replica
        partition = replica.partition
        assert began == partition.leader_epoch
        told = PartitionState(
            broker.broker_id,
            LeaderEpoch(began + 1),
            partition.partition_epoch + 1,
            (broker.broker_id,),
            (broker.broker_id,),
            topic_id=partition.topic_id,
            controller_epoch=partition.controller_epoch,
        )
        assert await broker.replicas.obey(replica.where, told, is_new=False) is ErrorCode.NONE
        assert partition.leader_epoch == began + 1
        assert shard.coordinator_epoch == began

    run(story, **SETTINGS)
