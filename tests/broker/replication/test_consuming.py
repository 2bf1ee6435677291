"""Consumers of a replicated partition: visible records, and the replicas that serve them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from kavka.errors import ErrorCode
from kavka.wire.messages.delete_records import (
    DeleteRecordsRequest,
    DeleteRecordsRequestPartition,
    DeleteRecordsRequestTopic,
)
from support.waiting import until

Play = Callable[..., None]
RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


def test_consumer_is_sent_to_the_replica_in_its_rack(play: Play) -> None:
    async def story(cluster: Any) -> None:
        await cluster.start(1, 2, 3)
        await cluster.leader_and_isr(1, isr=[1, 2, 3], replicas=[1, 2, 3])
        await cluster.produce(1, b"a")
        await cluster.until_equal(1, 2, 3)
        sent = await cluster.fetch(1, 0, rack="rack-3")
        assert (sent.preferred_read_replica, sent.records) == (3, b"")
        near = await cluster.fetch(3, 0, rack="rack-3")
        assert near.error_code == ErrorCode.NONE
        assert len(near.records) > 0
        for rack in ("rack-1", "rack-4", ""):
            kept = await cluster.fetch(1, 0, rack=rack)
            assert kept.preferred_read_replica == -1
            assert len(kept.records) > 0

    play(story, replica__selector__class=RACK_AWARE)


def test_without_a_selector_consumers_stay_with_the_leader(play: Play) -> None:
    async def story(cluster: Any) -> None:
        await cluster.start(1, 2)
        await cluster.leader_and_isr(1, isr=[1, 2], replicas=[1, 2])
        await cluster.produce(1, b"a")
        await cluster.until_equal(1, 2)
        assert (await cluster.fetch(1, 0, rack="rack-2")).preferred_read_replica == -1

    play(story)


def test_consumer_is_not_sent_to_a_replica_that_lacks_the_offset(play: Play) -> None:
    async def story(cluster: Any) -> None:
        await cluster.start(1, 2)
        await cluster.leader_and_isr(1, isr=[1], replicas=[1, 2], to=[1])
        await cluster.produce(1, b"a")
        assert (await cluster.fetch(1, 0, rack="rack-2")).preferred_read_replica == -1

    play(story, replica__selector__class=RACK_AWARE)


def test_consumer_is_not_sent_to_a_replica_that_has_fallen_behind(play: Play) -> None:
    async def story(cluster: Any) -> None:
        await cluster.start(1, 2)
        await cluster.leader_and_isr(1, isr=[1, 2], replicas=[1, 2])
        await cluster.produce(1, b"a")
        await cluster.until_equal(1, 2)
        assert (await cluster.fetch(1, 0, rack="rack-2")).preferred_read_replica == 2
        await cluster.stop(2)
        await cluster.produce(1, b"b")
        assert cluster.isr == [1]
        assert (await cluster.fetch(1, 0, rack="rack-2")).preferred_read_replica == -1

    play(story, replica__selector__class=RACK_AWARE, replica__lag__time__max__ms="200")


def test_follower_shows_nothing_above_the_high_watermark_that_it_knows(play: Play) -> None:
    async def story(cluster: Any) -> None:
        await cluster.start(1, 2)
        await cluster.leader_and_isr(1, isr=[1, 2], replicas=[1, 2, 77])
        await cluster.produce(1, b"a")
        await cluster.until_equal(1, 2)
        # A third member that is not alive holds the next record back.
        await cluster.leader_and_isr(1, isr=[1, 2, 77])
        await cluster.produce(1, b"b", acks=1)
        await until(lambda: cluster.replica(2).log.log_end_offset == 2)
        shown = await cluster.fetch(2, 1)
        assert (shown.error_code, shown.high_watermark, shown.records) == (0, 1, b"")
        beyond = await cluster.fetch(2, 3)
        assert beyond.error_code == ErrorCode.OFFSET_OUT_OF_RANGE

    play(story)


def test_epoch_of_an_older_leader_is_fenced_at_a_follower_too(play: Play) -> None:
    async def story(cluster: Any) -> None:
        await cluster.start(1, 2)
        await cluster.leader_and_isr(1, isr=[1, 2], replicas=[1, 2])
        await cluster.leader_and_isr(2)
        old = await cluster.fetch(1, 0, current_leader_epoch=0)
        assert old.error_code == ErrorCode.FENCED_LEADER_EPOCH
        new = await cluster.fetch(1, 0, current_leader_epoch=2)
        assert new.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH

    play(story)


def delete(offset: int, timeout_ms: int = 5000) -> DeleteRecordsRequest:
    asked = DeleteRecordsRequestPartition(partition_index=0, offset=offset)
    topic = DeleteRecordsRequestTopic(name="t", partitions=[asked])
    return DeleteRecordsRequest(topics=[topic], timeout_ms=timeout_ms)


def test_records_are_deleted_when_every_live_replica_has_deleted_them(play: Play) -> None:
    async def story(cluster: Any) -> None:
        await cluster.start(1, 2)
        await cluster.leader_and_isr(1, isr=[1, 2], replicas=[1, 2, 77])
        await cluster.produce(1, b"a")
        await cluster.produce(1, b"b")
        peer = await cluster.peer(1)
        response = (await peer.send(delete(1))).topics[0].partitions[0]
        assert (response.error_code, response.low_watermark) == (0, 1)
        assert cluster.replica(2).log.log_start_offset == 1

    play(story)


def test_deletion_that_a_replica_does_not_follow_times_out(play: Play) -> None:
    async def story(cluster: Any) -> None:
        await cluster.start(1, 2)
        await cluster.leader_and_isr(1, isr=[1], replicas=[1, 2], to=[1])
        await cluster.produce(1, b"a")
        peer = await cluster.peer(1)
        response = (await peer.send(delete(1, timeout_ms=50))).topics[0].partitions[0]
        assert response.error_code == ErrorCode.REQUEST_TIMED_OUT
        assert cluster.replica(1).log.log_start_offset == 1

    play(story)


def test_deletion_waits_while_its_leader_stays_the_leader_and_not_for_dead_replicas(
    play: Play,
) -> None:
    async def story(cluster: Any) -> None:
        await cluster.start(1, 2)
        await cluster.leader_and_isr(1, isr=[1], replicas=[1, 2], to=[1])
        await cluster.produce(1, b"a")
        peer = await cluster.peer(1)
        waiting = asyncio.ensure_future(peer.send(delete(1, timeout_ms=30_000)))
        await until(lambda: cluster.replica(1).log.log_start_offset == 1)
        await cluster.leader_and_isr(1, to=[1])
        await asyncio.wait([waiting], timeout=0.05)
        assert not waiting.done()
        await cluster.brokers[1].control_requests.update_metadata(cluster.update([1]))
        async with asyncio.timeout(10):
            response = (await waiting).topics[0].partitions[0]
        assert (response.error_code, response.low_watermark) == (0, 1)

    play(story)


def test_response_names_the_leader_that_there_is_now(play: Play) -> None:
    async def story(cluster: Any) -> None:
        await cluster.start(1, 2)
        await cluster.leader_and_isr(1, isr=[1, 2], replicas=[1, 2])
        await cluster.leader_and_isr(2)
        for response in (
            await cluster.produce(1, b"a", version=10),
            await cluster.fetch(1, 0, current_leader_epoch=0),
        ):
            assert response.error_code in (
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                ErrorCode.FENCED_LEADER_EPOCH,
            )
            assert response.current_leader.leader_id == 2
            assert response.current_leader.leader_epoch == 1
        (endpoint,) = cluster.node_endpoints
        assert (endpoint.node_id, endpoint.port) == (2, cluster.ports[2])

    play(story)
