"""Control requests over the network in a cluster: those of the controller that the registry names are carried out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from kavka.core.znodes import Create, Delete, SetData
from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.net.network import TcpNetwork
from kavka.net.peer import Peer
from kavka.registry.local_session import LocalSession
from kavka.wire.messages.stop_replica import StopReplicaRequest
from kavka.wire.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersRequestMarker,
    WriteTxnMarkersRequestTopic,
)
from kavka.wire.stored import znodes

Run = Callable[..., None]
Cluster = Any
HIGHEST = 2**31 - 1
STALE = ErrorCode.STALE_CONTROLLER_EPOCH
WHERE = TopicPartition("t", 0)


def follower(cluster: Cluster) -> int:
    """Return a broker that does not rule."""
    number: int = next(n for n in cluster.brokers if n != cluster.controller)
    return number


def stop_request(cluster: Cluster, number: int, **claim: int) -> StopReplicaRequest:
    """Return a StopReplica that stops nothing, as from the present controller but for what `claim` says."""
    ruler = cluster.controller
    true = {
        "controller_id": ruler,
        "controller_epoch": cluster.brokers[ruler].controller.epoch,
        "broker_epoch": cluster.brokers[number].context.broker_epoch,
    }
    return StopReplicaRequest(**{**true, **claim})


async def response_code(cluster: Cluster, number: int, **claim: int) -> ErrorCode:
    response = await cluster.send(number, stop_request(cluster, number, **claim))
    return ErrorCode.of(response.error_code)


async def elect(cluster: Cluster, session: Any, broker: int) -> int:
    """Make a broker the controller in the registry, as an election does; return its epoch."""
    data, stat = await session.get(znodes.CONTROLLER_EPOCH)
    epoch = int(data) + 1
    await session.multi(
        [
            Delete(znodes.CONTROLLER),
            Create(znodes.CONTROLLER, znodes.encode_controller(broker, 0), ephemeral=True),
            SetData(znodes.CONTROLLER_EPOCH, str(epoch).encode(), stat.version),
        ]
    )
    return epoch


def test_control_request_is_carried_out_only_with_the_epochs_that_the_registry_has(
    run: Run,
) -> None:
    async def story(cluster: Cluster) -> None:
        number = follower(cluster)
        own = cluster.brokers[number].context.broker_epoch
        ruler, epoch = cluster.controller, cluster.brokers[number].controller.epoch
        assert await response_code(cluster, number, controller_epoch=HIGHEST) is STALE
        assert await response_code(cluster, number, controller_epoch=epoch - 1) is STALE
        assert await response_code(cluster, number, controller_id=number) is STALE
        assert await response_code(cluster, number, controller_id=99) is STALE
        for wrong in (-1, own - 1, own + 1, 2**63 - 1):
            code = await response_code(cluster, number, broker_epoch=wrong)
            assert code is ErrorCode.STALE_BROKER_EPOCH, wrong
        assert await response_code(cluster, number) is ErrorCode.NONE
        assert await response_code(cluster, number, controller_id=ruler + 50) is STALE

    run(story)


def test_epoch_from_outside_makes_no_controller_stale(run: Run) -> None:
    async def story(cluster: Cluster) -> None:
        for number in list(cluster.brokers):
            assert await response_code(cluster, number, controller_epoch=HIGHEST) is STALE
            assert (
                await response_code(cluster, number, controller_id=number, controller_epoch=99)
                is STALE
            )
        await cluster.create("t", [1, 2, 3])
        assert (await cluster.produce(WHERE, b"a")).error_code == ErrorCode.NONE

    run(story)


def test_requests_of_a_controller_that_is_new_to_the_broker_are_applied(run: Run) -> None:
    async def story(cluster: Cluster) -> None:
        number = follower(cluster)
        assert await response_code(cluster, number) is ErrorCode.NONE
        before = cluster.brokers[number].controller.epoch
        claim = stop_request(cluster, number)
        session = LocalSession(cluster.znode_server, 60_000)
        epoch = await elect(cluster, session, 77)
        assert epoch == before + 1
        claim.controller_id, claim.controller_epoch = 77, epoch
        assert (await cluster.send(number, claim)).error_code == ErrorCode.NONE
        claim.controller_epoch = before
        assert (await cluster.send(number, claim)).error_code == STALE

    run(story)


def test_requests_of_a_new_controller_are_carried_out_in_their_sequence_while_the_registry_is_slow(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(cluster: Cluster) -> None:
        number = follower(cluster)
        broker, session = cluster.brokers[number], cluster.sessions[number]
        assert await response_code(cluster, number) is ErrorCode.NONE
        confirmed, new = stop_request(cluster, number), stop_request(cluster, number)
        other = LocalSession(cluster.znode_server, 60_000)
        new.controller_id, new.controller_epoch = 77, await elect(cluster, other, 77)
        await cluster.until(lambda: broker.controller.epoch == new.controller_epoch)
        carried_out: list[int] = []
        stop_replica, stat = broker.control_requests.stop_replica, session.stat
        gate = asyncio.Event()

        async def slow(path: str, watch: Any = None) -> Any:
            if path == f"{znodes.BROKER_IDS}/{number}":
                await gate.wait()
            return await stat(path, watch)

        async def noted(request: StopReplicaRequest, version: int) -> Any:
            carried_out.append(request.controller_epoch)
            if request.delete_partitions:
                carried_out[-1] = -1
            return await stop_replica(request, version)

        monkeypatch.setattr(session, "stat", slow)
        monkeypatch.setattr(broker.control_requests, "stop_replica", noted)
        peer = await Peer.connect(TcpNetwork(), "127.0.0.1", cluster.ports[number])
        cluster.peers[99] = peer
        first = asyncio.ensure_future(peer.send(new, 2))
        await cluster.until(lambda: bool(broker.lazy.control_request_check.get()._waiting))
        # A confirmed controller does not wait for the registry; requests of one connection keep their order.
        assert (await cluster.send(number, confirmed)).error_code == ErrorCode.NONE
        new.delete_partitions = True
        second = asyncio.ensure_future(peer.send(new, 2))
        await cluster.until(lambda: len(broker.lazy.control_request_check.get()._waiting) == 2)
        gate.set()
        codes = [(await each).error_code for each in (first, second)]
        assert codes == [ErrorCode.NONE, ErrorCode.NONE]
        assert carried_out == [confirmed.controller_epoch, new.controller_epoch, -1]

    run(story)


def test_control_request_that_no_registry_confirms_costs_the_connection_and_is_sent_again(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(cluster: Cluster) -> None:
        number = follower(cluster)
        session = cluster.sessions[number]

        async def away(path: str, watch: Any = None) -> Any:
            raise ConnectionError("no member answers")

        with monkeypatch.context() as patch:
            patch.setattr(session, "stat", away)
            with pytest.raises(ConnectionError):
                await response_code(cluster, number, controller_epoch=HIGHEST)
        assert await response_code(cluster, number, controller_epoch=HIGHEST) is STALE
        assert await response_code(cluster, number) is ErrorCode.NONE

    run(story)


def test_marker_has_no_newer_epoch_than_the_registry_gives_coordinators(run: Run) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create("t", [1, 2, 3])
        await cluster.create("__transaction_state", [1, 2, 3])
        leader = cluster.leader(WHERE)

        async def mark(epoch: int) -> int:
            topic = WriteTxnMarkersRequestTopic(name="t", partition_indexes=[0])
            marker = WriteTxnMarkersRequestMarker(
                producer_id=7, producer_epoch=1, topics=[topic], coordinator_epoch=epoch
            )
            response = await cluster.send(leader, WriteTxnMarkersRequest(markers=[marker]))
            code: int = response.markers[0].topics[0].partitions[0].error_code
            return code

        newest = cluster.partition_metadata(
            leader, TopicPartition("__transaction_state", 0)
        ).leader_epoch
        refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert await mark(newest + 1) == refused
        assert await mark(HIGHEST) == refused
        path = znodes.state_path("__transaction_state", 0)
        session = LocalSession(cluster.znode_server, 60_000)
        data, stat = await session.get(path)
        state = znodes.StateNode.decode(data)
        # Elected in the registry, and not learned of here.
        await session.set(path, state._replace(leader_epoch=newest + 1).encode(), stat.version)
        assert await mark(newest + 1) == ErrorCode.NONE

    run(story)


def test_broker_that_is_stopped_asks_the_registry_no_more(run: Run) -> None:
    async def story(cluster: Cluster) -> None:
        number = follower(cluster)
        claim = stop_request(cluster, number, controller_epoch=99)
        broker, session = cluster.brokers.pop(number), cluster.sessions[number]
        check = broker.lazy.control_request_check.get()
        session.cut()
        asking = asyncio.ensure_future(check.check(claim, is_authorized=True))
        await asyncio.sleep(0)
        assert check._reading is not None
        session.crash()
        await broker.abandon()
        assert check._reading is None
        asking.cancel()

    run(story)
