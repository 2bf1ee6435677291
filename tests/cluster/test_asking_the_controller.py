"""Requests to the controller while it cannot be reached."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from kavka.errors import ErrorCode
from kavka.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from kavka.wire.stored import znodes

Run = Callable[..., None]
Cluster = Any


def asked_by(cluster: Cluster, number: int) -> AllocateProducerIdsRequest:
    epoch = cluster.brokers[number].context.broker_epoch
    return AllocateProducerIdsRequest(broker_id=number, broker_epoch=epoch)


def test_controller_without_registration_is_asked_as_soon_as_it_has_one(run: Run) -> None:
    async def story(cluster: Cluster) -> None:
        path = f"{znodes.BROKER_IDS}/1"
        data, _stat = await cluster.sessions[1].get(path)
        await cluster.sessions[1].delete(path)
        asking = cluster.brokers[3].controller
        asking.session_renewed()  # it reads /controller again, and finds a broker that does not exist
        await cluster.until(lambda: asking.epoch >= 0 and asking._link is None, "there is no way")
        with pytest.raises(TimeoutError):
            await asking.send(asked_by(cluster, 3), 50)
        await cluster.sessions[1].create(path, data, ephemeral=True)
        response = await asking.send(asked_by(cluster, 3), 10_000)
        assert response.error_code == ErrorCode.NONE

    run(story)


def test_stopped_broker_asks_no_controller_and_does_not_spin(run: Run) -> None:
    async def story(cluster: Cluster) -> None:
        asking = cluster.brokers[3].controller
        await asking.stop()
        with pytest.raises(TimeoutError):
            await asking.send(asked_by(cluster, 3), 50)

    run(story)


def test_controller_znode_that_cannot_be_read_is_read_again(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(cluster: Cluster) -> None:
        session, asking = cluster.sessions[3], cluster.brokers[3].controller
        data, _stat = await session.get(znodes.CONTROLLER)
        await session.set(znodes.CONTROLLER, b"nothing that anybody could read")
        asking.session_renewed()
        await cluster.until(lambda: "controller not known" in caplog.text)
        await session.set(znodes.CONTROLLER, data)
        await cluster.until(lambda: asking.epoch > 0, "the controller is known again")

    run(story)


class Misunderstood(NamedTuple):
    """An event in which the controller has a fault."""

    token: int


def test_a_request_that_fails_in_the_controller_gets_an_error(run: Run) -> None:
    async def story(cluster: Cluster) -> None:
        controller = cluster.brokers[1].controller
        with pytest.raises(ConnectionError, match="the controller failed"):
            async with asyncio.timeout(60):
                await controller.submit_and_wait(Misunderstood)
        response = await controller.send(asked_by(cluster, 1), 10_000)
        assert response.error_code == ErrorCode.NONE

    run(story, brokers=1)
