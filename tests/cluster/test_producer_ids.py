"""Producer ids in a cluster: the controller gives blocks, and the registry where it cannot be asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kavka.errors import ErrorCode
from kavka.wire.messages.allocate_producer_ids import AllocateProducerIdsResponse
from kavka.wire.messages.init_producer_id import InitProducerIdRequest
from kavka.wire.stored.znodes import PRODUCER_ID_BLOCK, ProducerIdBlock

Run = Callable[..., None]
Cluster = Any


async def last_block(cluster: Cluster) -> ProducerIdBlock:
    data, _stat = await next(iter(cluster.sessions.values())).get(PRODUCER_ID_BLOCK)
    return ProducerIdBlock.decode(data)


async def producer_id(cluster: Cluster, number: int) -> int:
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
    response = await cluster.send(number, request)
    assert response.error_code == 0
    given: int = response.producer_id
    return given


def test_each_broker_has_a_block_from_the_controller(run: Run) -> None:
    async def story(cluster: Cluster) -> None:
        asked: list[int] = []
        ids = cluster.brokers[1].producer_ids
        take = ids.allocate_block

        async def take_block(broker_id: int) -> ProducerIdBlock:
            asked.append(broker_id)
            block: ProducerIdBlock = await take(broker_id)
            return block

        ids.allocate_block = take_block
        given = [await producer_id(cluster, number) for number in (2, 3, 1, 2)]
        assert given == [0, 1000, 2000, 1]
        assert asked == [2, 3, 1]
        assert await last_block(cluster) == ProducerIdBlock(1, 2000, 2999)

    run(story)


@pytest.mark.slow
def test_broker_whose_controller_is_out_of_reach_takes_from_the_registry(run: Run) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.brokers[3].controller.stop()  # it knows no controller any more
        assert await producer_id(cluster, 3) == 0
        assert await producer_id(cluster, 2) == 1000

    run(story)


def test_controller_without_further_producer_ids_answers_an_error(run: Run) -> None:
    async def story(cluster: Cluster) -> None:
        data = ProducerIdBlock(1, 0, (1 << 63) - 1).encode()
        await next(iter(cluster.sessions.values())).set(PRODUCER_ID_BLOCK, data)
        for number in (1, 2):
            request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
            response = await cluster.send(number, request)
            assert response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        await next(iter(cluster.sessions.values())).set(PRODUCER_ID_BLOCK, b"")
        assert await producer_id(cluster, 2) == 0

    run(story)


@pytest.mark.parametrize(("start", "length"), [((1 << 63) - 1, 1000), (-5, 10)])
def test_producer_ids_of_a_controller_that_are_out_of_range_are_not_given(
    run: Run, start: int, length: int
) -> None:
    async def story(cluster: Cluster) -> None:
        class Controller:
            is_active = False

            async def send(self, *_: object) -> AllocateProducerIdsResponse:
                return AllocateProducerIdsResponse(producer_id_start=start, producer_id_len=length)

        ids = cluster.brokers[2].producer_ids
        ids._controller = Controller()
        assert await producer_id(cluster, 2) == 0

    run(story)
