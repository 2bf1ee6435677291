"""Three brokers replicate one partition: acknowledgements, failover, divergence, the in-sync set."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from kavka.broker.metadata.cache import NO_LEADER
from kavka.errors import ErrorCode
from kavka.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kavka.wire.messages.stop_replica import (
    StopReplicaRequest,
    StopReplicaRequestPartition,
    StopReplicaRequestTopicState,
)
from kavka.wire.records.compression import Compression
from support.produce import batch, produce
from support.replication import WHERE
from support.waiting import until

Play = Callable[..., None]


def test_followers_append_the_leaders_bytes(play: Play) -> None:
    async def story(cluster: Any) -> None:
        await cluster.start(1, 2, 3)
        await cluster.leader_and_isr(1, isr=[1, 2, 3], replicas=[1, 2, 3])
        for number in range(10):
            response = await cluster.produce(1, b"a%d" % number, b"b" * number)
            assert (response.error_code, response.base_offset) == (0, 2 * number)
        await cluster.until_equal(1, 2, 3)
        assert cluster.replica(2).partition.high_watermark == 20
        assert cluster.bytes_of(1) == cluster.bytes_of(2) == cluster.bytes_of(3) != b""

    play(story)


def test_acknowledgement_by_all_waits_for_every_in_sync_replica(play: Play) -> None:
    async def story(cluster: Any) -> None:
        await cluster.start(1, 2)
        await cluster.leader_and_isr(1, isr=[1, 2], replicas=[1, 2], to=[1])
        refused = await cluster.produce(1, b"a", timeout_ms=50)
        assert refused.error_code == ErrorCode.REQUEST_TIMED_OUT
        assert (await cluster.fetch(1, 0)).records == b""
        assert (await cluster.produce(1, b"b", acks=1)).error_code == ErrorCode.NONE
        await cluster.send_state(2)
        assert (await cluster.produce(1, b"c")).error_code == ErrorCode.NONE
        assert (await cluster.fetch(1, 0)).high_watermark == 3

    play(story)


def test_a_produce_that_was_appended_in_slices_keeps_nothing_while_it_waits_for_replicas(
    play: Play,
) -> None:
    async def story(cluster: Any) -> None:
        await cluster.start(1, 2)
        await cluster.leader_and_isr(1, isr=[1, 2], replicas=[1, 2], to=[1])
        broker = cluster.brokers[1]
        records = batch(*[bytes(50_000)] * 100, compression=Compression.ZSTD)
        peer = await cluster.peer(1)
        sent = asyncio.ensure_future(produce(peer, WHERE, records, timeout_ms=2**31 - 1))
        await until(lambda: len(broker.produce_purgatory))
        await until(lambda: not broker.dispatcher.in_second_stage())
        assert (broker.request_budget.held_bytes, broker.dispatcher._memory.in_use) == (0, 0)
        await cluster.send_state(2)
        response = await sent
        assert (response.error_code, response.base_offset) == (ErrorCode.NONE, 0)

    play(story)


def test_new_leader_goes_on_and_the_old_one_follows_it(play: Play) -> None:
    async def story(cluster: Any) -> None:
        await cluster.start(1, 2, 3)
        await cluster.leader_and_isr(1, isr=[1, 2, 3], replicas=[1, 2, 3])
        await cluster.produce(1, b"a")
        await cluster.leader_and_isr(2)
        assert (await cluster.produce(1, b"x")).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (await cluster.produce(2, b"b")).base_offset == 1
        await cluster.until_equal(1, 2, 3)
        assert cluster.bytes_of(1) == cluster.bytes_of(2) == cluster.bytes_of(3)

    play(story)


def test_stopped_follower_continues_with_leader_and_isr_of_the_same_epoch(play: Play) -> None:
    async def story(cluster: Any) -> None:
        await cluster.start(1, 2)
        await cluster.leader_and_isr(1, isr=[1, 2], replicas=[1, 2])
        await cluster.produce(1, b"a")
        state = StopReplicaRequestPartition(
            partition_index=0, leader_epoch=cluster.epoch, delete_partition=False
        )
        topic = StopReplicaRequestTopicState(topic_name="t", partition_states=[state])
        stop = StopReplicaRequest(controller_id=1, controller_epoch=1000, topic_states=[topic])
        await cluster.brokers[2].control_requests.stop_replica(stop)
        await cluster.produce(1, b"b", acks=1)
        await cluster.send_state(2)
        await cluster.until_equal(1, 2)
        assert cluster.replica(2).log.log_end_offset == 2

    play(story)


def test_records_of_the_old_leader_alone_are_truncated_when_it_returns(play: Play) -> None:
    async def story(cluster: Any) -> None:
        await cluster.start(1, 2)
        await cluster.leader_and_isr(1, isr=[1, 2], replicas=[1, 2])
        await cluster.produce(1, b"a")
        await cluster.leader_and_isr(2, to=[2])
        # The old leader has not learned of it: what it takes now cannot be committed.
        await cluster.produce(1, b"lost", b"lost too", acks=1)
        assert cluster.replica(1).log.log_end_offset == 3
        await cluster.produce(2, b"b", acks=1)
        await cluster.send_state(1)
        await cluster.until_equal(1, 2)
        assert cluster.replica(1).log.log_end_offset == 2
        assert cluster.bytes_of(1) == cluster.bytes_of(2)
        assert b"lost" not in cluster.bytes_of(1)

    play(story)


def test_replica_that_stops_leaves_the_set_and_comes_back(play: Play) -> None:
    async def story(cluster: Any) -> None:
        await cluster.start(1, 2)
        await cluster.leader_and_isr(1, isr=[1, 2], replicas=[1, 2])
        await cluster.produce(1, b"a")
        await cluster.stop(2)
        response = await cluster.produce(1, b"b")
        assert response.error_code == ErrorCode.NONE
        assert cluster.isr == [1]
        await cluster.start(2)
        await cluster.send_state(1)
        await cluster.send_state(2)
        await until(lambda: cluster.isr == [1, 2])
        await cluster.until_equal(1, 2)

    play(story, replica__lag__time__max__ms="200")


def test_too_small_a_set_refuses_acknowledgement_by_all(play: Play) -> None:
    async def story(cluster: Any) -> None:
        await cluster.start(1, 2)
        await cluster.leader_and_isr(1, isr=[1], replicas=[1, 2], to=[1])
        response = await cluster.produce(1, b"a")
        assert response.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        assert cluster.replica(1).log.log_end_offset == 0
        assert (await cluster.produce(1, b"a", acks=1)).error_code == ErrorCode.NONE
        # Written by one only: no consumer may see it before the second has it.
        assert (await cluster.fetch(1, 0)).high_watermark == 0

    play(story, min__insync__replicas="2")


def test_set_that_the_controller_refuses_is_proposed_again(play: Play) -> None:
    async def story(cluster: Any) -> None:
        await cluster.start(1, 2)
        cluster.refuses = ErrorCode.INELIGIBLE_REPLICA
        await cluster.leader_and_isr(1, isr=[1], replicas=[1, 2])
        await until(lambda: cluster.replica(1).partition.followers[2].log_end_offset == 0)
        assert cluster.isr == [1]
        cluster.refuses = None
        await until(lambda: cluster.isr == [1, 2])

    play(story)


def test_replica_that_was_away_begins_at_the_leaders_start(play: Play) -> None:
    async def story(cluster: Any) -> None:
        await cluster.start(1, 2)
        await cluster.leader_and_isr(1, isr=[1], replicas=[1, 2], to=[1])
        for number in range(5):
            await cluster.produce(1, b"a%d" % number)
        cluster.replica(1).delete_before(3)
        await cluster.send_state(2)
        await cluster.until_equal(1, 2)
        assert cluster.replica(2).log.log_start_offset == 3

    play(story)


def test_log_start_offset_travels_to_followers(play: Play) -> None:
    async def story(cluster: Any) -> None:
        await cluster.start(1, 2)
        await cluster.leader_and_isr(1, isr=[1, 2], replicas=[1, 2])
        await cluster.produce(1, b"a")
        await cluster.produce(1, b"b")
        cluster.replica(1).delete_before(1)
        await until(lambda: cluster.replica(2).log.log_start_offset == 1)

    play(story)


def test_partition_without_leader_answers_no_client(play: Play) -> None:
    async def story(cluster: Any) -> None:
        await cluster.start(1, 2)
        await cluster.leader_and_isr(1, isr=[1, 2], replicas=[1, 2])
        await cluster.produce(1, b"a")
        await cluster.leader_and_isr(-1)
        assert (await cluster.produce(1, b"b")).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        await cluster.leader_and_isr(2)
        assert (await cluster.produce(2, b"b")).error_code == ErrorCode.NONE

    play(story)


def test_metadata_waits_a_moment_for_the_successor_of_a_leader_that_was_lost(play: Play) -> None:
    async def story(cluster: Any) -> None:
        await cluster.start(1, 2, 3)
        await cluster.leader_and_isr(1, isr=[1, 2, 3], replicas=[1, 2, 3])
        await cluster.produce(1, b"a")
        peer = await cluster.peer(2)
        metadata = cluster.brokers[2].metadata
        await cluster.stop(1)
        await until(lambda: metadata.has_unreachable)
        asked = asyncio.ensure_future(peer.send(MetadataRequest(topics=None)))
        await cluster.leader_and_isr(3, isr=[2, 3])
        response = await asked
        assert response.topics[0].partitions[0].leader_id == 3

    play(story)


def test_metadata_names_a_lost_leader_when_no_other_is_elected(play: Play) -> None:
    async def story(cluster: Any) -> None:
        await cluster.start(1, 2)
        await cluster.leader_and_isr(1, isr=[1, 2], replicas=[1, 2])
        await cluster.produce(1, b"a")
        peer = await cluster.peer(2)
        await cluster.stop(1)
        await until(lambda: cluster.brokers[2].metadata.has_unreachable)
        response = await peer.send(MetadataRequest(topics=None))
        assert response.topics[0].partitions[0].leader_id == 1

    play(story)


def test_metadata_waits_until_a_new_broker_has_got_update_metadata(
    play: Play,
) -> None:
    async def story(cluster: Any) -> None:
        await cluster.start(1)
        peer = await cluster.peer(1)
        metadata = cluster.brokers[1].metadata
        metadata.controller_id = NO_LEADER  # as before the first order of a controller elsewhere
        asked = asyncio.ensure_future(peer.send(MetadataRequest(topics=None)))
        await asyncio.wait([asked], timeout=0.05)
        assert not asked.done()
        await cluster.leader_and_isr(1, isr=[1], replicas=[1])
        response = await asked
        assert (response.controller_id, [t.name for t in response.topics]) == (1, ["t"])

    play(story)


def test_metadata_waits_for_topics_that_the_registry_had_at_the_start(play: Play) -> None:
    """A controller sends a new broker the live brokers first, and partitions some requests later."""

    async def story(cluster: Any) -> None:
        await cluster.start(1)
        broker = cluster.brokers[1]
        broker.metadata.expect_topics(["t"], broker.clock.tick_ms())
        peer = await cluster.peer(1)
        asked = [
            asyncio.ensure_future(peer.send(MetadataRequest(topics=topics)))
            for topics in (None, [MetadataRequestTopic(name="t")])
        ]
        await asyncio.wait(asked, timeout=0.05)
        assert not any(future.done() for future in asked)
        await cluster.leader_and_isr(1, isr=[1], replicas=[1])
        for future in asked:
            (topic,) = (await future).topics
            assert (topic.name, topic.error_code) == ("t", ErrorCode.NONE)

    play(story)


@pytest.mark.slow
def test_a_topic_of_the_registry_is_never_called_unknown(play: Play) -> None:
    async def story(cluster: Any) -> None:
        await cluster.start(1)
        broker = cluster.brokers[1]
        broker.metadata.expect_topics(["t"], broker.clock.tick_ms())
        peer = await cluster.peer(1)
        for name, code in (
            ("t", ErrorCode.LEADER_NOT_AVAILABLE),
            ("u", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ):
            asked = MetadataRequest(
                topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False
            )
            (topic,) = (await peer.send(asked)).topics
            assert topic.error_code == code

    play(story)


def test_a_topic_that_no_controller_publishes_is_unknown_in_the_end(play: Play) -> None:
    async def story(cluster: Any) -> None:
        await cluster.start(1)
        broker = cluster.brokers[1]
        broker.metadata.expect_topics(["t"], broker.clock.tick_ms() - 60_000)
        asked = MetadataRequest(
            topics=[MetadataRequestTopic(name="t")], allow_auto_topic_creation=False
        )
        (topic,) = (await (await cluster.peer(1)).send(asked)).topics
        assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    play(story)


@pytest.mark.slow
def test_metadata_is_answered_without_a_controller_in_the_end(play: Play) -> None:
    async def story(cluster: Any) -> None:
        await cluster.start(1)
        cluster.brokers[1].metadata.controller_id = NO_LEADER
        response = await (await cluster.peer(1)).send(MetadataRequest(topics=None))
        assert (response.controller_id, [b.node_id for b in response.brokers]) == (NO_LEADER, [1])

    play(story)


def test_producer_waits_on_while_its_leader_stays_the_leader(play: Play) -> None:
    async def story(cluster: Any) -> None:
        await cluster.start(1, 2)
        await cluster.leader_and_isr(1, isr=[1, 2], replicas=[1, 2], to=[1])
        waiting = asyncio.ensure_future(cluster.produce(1, b"a"))
        await until(lambda: cluster.replica(1).log.log_end_offset == 1)
        await cluster.leader_and_isr(1, to=[1])
        await asyncio.wait([waiting], timeout=0.05)
        assert not waiting.done()
        await cluster.leader_and_isr(1, isr=[1], to=[1])
        assert (await waiting).error_code == ErrorCode.NONE
        assert cluster.replica(1).log.log_end_offset == 1

    play(story)


@contextmanager
def busy(replica: Any) -> Iterator[None]:
    """Keep the queue of a replica's directory full, as producers of other partitions do."""
    writes = replica.log.directory.writes
    is_busy = True

    async def write_more() -> None:
        await asyncio.sleep(0.001)  # time: a write that keeps the queue busy
        if is_busy:
            writes.submit(write_more)

    writes.submit(write_more)
    try:
        yield
    finally:
        is_busy = False


def test_leader_on_a_busy_slow_disk_steps_down_at_once(play: Play) -> None:
    async def story(cluster: Any) -> None:
        await cluster.start(1, 2)
        await cluster.leader_and_isr(1, isr=[1, 2], replicas=[1, 2])
        with busy(cluster.replica(1)):
            queued = asyncio.ensure_future(cluster.produce(1, b"queued", acks=1))
            await until(lambda: cluster.replica(1).log.log_end_offset == 1)
            async with asyncio.timeout(60):
                await cluster.leader_and_isr(2)
        assert (await queued).error_code == ErrorCode.NONE
        assert (await cluster.produce(2, b"a")).error_code == ErrorCode.NONE
        await cluster.until_equal(1, 2)

    play(story)


def test_leader_that_has_nothing_queued_steps_down_though_others_wait_for_its_disk(
    play: Play,
) -> None:
    """Orders are carried out one after another: a thousand partitions would wait a thousand times."""

    async def story(cluster: Any) -> None:
        await cluster.start(1, 2)
        await cluster.leader_and_isr(1, isr=[1, 2], replicas=[1, 2])
        await cluster.produce(1, b"a")
        is_written = asyncio.Event()
        cluster.replica(1).log.directory.writes.submit(is_written.wait)
        try:
            async with asyncio.timeout(10):
                await cluster.leader_and_isr(2)
        finally:
            is_written.set()
        assert (await cluster.produce(2, b"b")).error_code == ErrorCode.NONE

    play(story)


def test_replica_on_a_busy_slow_disk_is_deleted_at_once(play: Play) -> None:
    async def story(cluster: Any) -> None:
        await cluster.start(1)
        await cluster.leader_and_isr(1, isr=[1], replicas=[1])
        await cluster.produce(1, b"a")
        with busy(cluster.replica(1)):
            async with asyncio.timeout(60):
                code = await cluster.brokers[1].replica_manager.stop(WHERE, -1, delete=True)
        assert code is ErrorCode.NONE

    play(story)


def test_follower_on_a_busy_slow_disk_is_cut_at_once(play: Play) -> None:
    async def story(cluster: Any) -> None:
        await cluster.start(1, 2)
        await cluster.leader_and_isr(1, isr=[1], replicas=[1, 2], to=[1])
        await cluster.produce(1, b"of the old leader", acks=1)
        with busy(cluster.replica(1)):
            await cluster.leader_and_isr(2, isr=[2])
            await cluster.produce(2, b"of the new leader", acks=1)
            await until(lambda: cluster.isr == [2, 1])
        assert cluster.bytes_of(1) == cluster.bytes_of(2)

    play(story)


def test_follower_whose_log_is_being_changed_asks_again_later(play: Play) -> None:
    """Records that come meanwhile are dropped: they would be fetched over and over, as fast as the network is."""

    async def story(cluster: Any) -> None:
        await cluster.start(1, 2)
        await cluster.leader_and_isr(1, isr=[1, 2], replicas=[1, 2])
        await cluster.produce(1, b"a")
        ((_leader, _number, fetcher),) = cluster.brokers[2].replication_manager.fetchers.items()
        (followed,) = fetcher.followed
        async with cluster.replica(2).lock:
            await cluster.produce(1, b"b", acks=1)
            await until(lambda: followed.machine.delayed_until_ms > 0, timeout_s=10)
        await cluster.until_equal(1, 2)

    play(story)


def test_producer_that_waits_at_a_replica_that_is_deleted_is_sent_to_the_leader(
    play: Play,
) -> None:
    async def story(cluster: Any) -> None:
        await cluster.start(1)
        await cluster.leader_and_isr(1, isr=[1, 2], replicas=[1, 2])
        waiting = asyncio.ensure_future(cluster.produce(1, b"a"))
        await until(lambda: cluster.replica(1).log.log_end_offset == 1)
        code = await cluster.brokers[1].replica_manager.stop(WHERE, -1, delete=True)
        assert code is ErrorCode.NONE
        assert (await waiting).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    play(story)


def test_producer_that_waits_at_a_failing_disk_gets_the_error(play: Play) -> None:
    async def story(cluster: Any) -> None:
        await cluster.start(1)
        await cluster.leader_and_isr(1, isr=[1, 2], replicas=[1, 2])
        waiting = asyncio.ensure_future(cluster.produce(1, b"a"))
        await until(lambda: cluster.replica(1).log.log_end_offset == 1)
        cluster.replica(1).log.directory.fail(OSError("the disk is gone"))
        assert (await waiting).error_code == ErrorCode.KAFKA_STORAGE_ERROR

    play(story)


def test_broker_that_nothing_is_fetched_from_any_more_is_not_looked_for(
    play: Play, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(cluster: Any) -> None:
        await cluster.start(1, 2)
        await cluster.leader_and_isr(1, isr=[1, 2], replicas=[1, 2])
        assert (await cluster.produce(1, b"from 1 to 2")).error_code == 0
        await cluster.leader_and_isr(2)
        assert (await cluster.produce(2, b"from 2 to 1")).error_code == 0
        await cluster.stop(1)
        caplog.clear()
        await cluster.leader_and_isr(2, isr=[2], replicas=[2])
        assert (await cluster.produce(2, b"from 2 alone")).error_code == 0

    with caplog.at_level("INFO"):
        play(story)
    assert [line for line in caplog.messages if line.startswith("fetcher disconnected")] == []
