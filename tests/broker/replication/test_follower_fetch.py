"""A leader's responses to a follower that the test itself plays, over the wire."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from typing import Any

import pytest

from kavka.broker.requests.pace import Pace
from kavka.errors import ErrorCode
from kavka.ids import BrokerId, TopicPartition
from kavka.storage.disk.os_disk import OsFile
from kavka.storage.log.log_read import LogRead
from kavka.wire.messages.alter_partition import AlterPartitionRequest
from kavka.wire.messages.fetch import (
    FetchRequestForgottenTopic,
    FetchRequestPartition,
    FetchRequestTopic,
)
from kavka.wire.messages.leader_and_isr import (
    LeaderAndIsrRequest,
    LeaderAndIsrRequestPartition,
    LeaderAndIsrRequestTopic,
)
from support.cold_files import patch_cached
from support.follower import fetch, led, only
from support.replication import TOPIC_ID
from support.waiting import until

Play = Callable[..., None]
CUT_AT = 100
"""Bytes: more than a batch of one small record, less than one of a thousand bytes."""


@pytest.mark.parametrize("version", range(4, 18))
def test_follower_of_any_version_gets_what_is_not_committed_yet(play: Play, version: int) -> None:
    async def story(cluster: Any) -> None:
        peer = await led(cluster, 3)
        response = only(await peer.send(fetch(version), version))
        assert response.error_code == ErrorCode.NONE
        assert len(response.records) > 0
        assert cluster.replica(1).partition.followers[2].log_end_offset == 0
        await peer.send(fetch(version, offset=3), version)
        assert cluster.replica(1).partition.followers[2].log_end_offset == 3

    play(story)


def test_broker_that_is_no_replica_is_refused(play: Play) -> None:
    async def story(cluster: Any) -> None:
        peer = await led(cluster, 1)
        response = only(await peer.send(fetch(replica=7)))
        assert response.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
        assert BrokerId(7) not in cluster.replica(1).partition.followers

    play(story)


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ({"current_leader_epoch": 5}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"offset": 9}, ErrorCode.OFFSET_OUT_OF_RANGE),
        ({"offset": 1, "last_fetched_epoch": 4}, ErrorCode.OFFSET_OUT_OF_RANGE),
    ],
)
def test_leader_says_what_is_wrong_with_a_fetch(
    play: Play, asked: dict[str, int], error: ErrorCode
) -> None:
    async def story(cluster: Any) -> None:
        peer = await led(cluster, 1)
        assert only(await peer.send(fetch(**asked))).error_code == error
        assert cluster.replica(1).partition.followers[2].log_end_offset == -1

    play(story)


def test_leader_says_where_histories_part_and_counts_such_a_fetch_not(play: Play) -> None:
    async def story(cluster: Any) -> None:
        peer = await led(cluster, 2)
        await cluster.leader_and_isr(1)
        await cluster.leader_and_isr(1)
        await cluster.produce(1, b"2", acks=1)
        asked = {"offset": 5, "last_fetched_epoch": 1, "current_leader_epoch": 2}
        response = only(await peer.send(fetch(**asked)))
        assert response.error_code == ErrorCode.NONE
        # Nothing was written in epoch 1, so it is as if it had not been.
        assert (response.diverging_epoch.epoch, response.diverging_epoch.end_offset) == (0, 2)
        assert cluster.replica(1).partition.followers[2].log_end_offset == -1

    play(story)


def test_session_goes_on_with_what_is_new(play: Play) -> None:
    async def story(cluster: Any) -> None:
        peer = await led(cluster, 1)
        first = await peer.send(fetch(offset=1))
        session = first.session_id
        assert session != 0
        quiet = await peer.send(fetch(session=session, epoch=1, is_quiet=True))
        assert (quiet.error_code, quiet.responses) == (0, [])
        await cluster.produce(1, b"new", acks=1)
        news = await peer.send(fetch(session=session, epoch=2, is_quiet=True))
        assert len(only(news).records) > 0
        again = await peer.send(fetch(session=session, epoch=3, is_quiet=True))
        assert again.responses == []

    play(story)


def test_a_repeated_fetch_gets_the_high_watermark_again(play: Play) -> None:
    async def story(cluster: Any) -> None:
        peer = await led(cluster, 1)
        first = await peer.send(fetch(offset=1))
        # The response was dropped, say, because the follower got a new leader epoch meanwhile.
        again = only(await peer.send(fetch(offset=1, session=first.session_id, epoch=1)))
        assert (again.high_watermark, again.log_start_offset) == (1, 0)
        quiet = fetch(session=first.session_id, epoch=2, is_quiet=True)
        assert (await peer.send(quiet)).responses == []

    play(story)


def test_a_new_broker_epoch_holds_for_partitions_without_changes(play: Play) -> None:
    async def story(cluster: Any) -> None:
        peer = await led(cluster, 1)
        first = await peer.send(fetch(offset=1, registration=10))
        follower = cluster.replica(1).partition.followers[2]
        assert follower.broker_epoch == 10
        again = fetch(session=first.session_id, epoch=1, is_quiet=True, registration=11)
        await peer.send(again)
        assert follower.broker_epoch == 11

    play(story)


def test_wrong_session_or_epoch_begins_again(play: Play) -> None:
    async def story(cluster: Any) -> None:
        peer = await led(cluster, 1)
        session = (await peer.send(fetch())).session_id
        unknown = await peer.send(fetch(session=session ^ 1, epoch=1))
        assert unknown.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        wrong = await peer.send(fetch(session=session, epoch=5))
        assert wrong.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
        by_name = await peer.send(fetch(12, session=session, epoch=1), 12)
        assert by_name.error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        stranger = await peer.send(fetch(session=session, epoch=1, replica=7))
        assert stranger.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND

    play(story)


def test_sessions_of_unknown_brokers_do_not_pile_up(play: Play) -> None:
    """Any client can claim to be a broker; each session stores the partitions that it names."""

    async def story(cluster: Any) -> None:
        peer = await led(cluster, 1)
        stranger = await cluster.peer(1)
        for number in range(100):
            assert (await stranger.send(fetch(replica=1000 + number))).session_id != 0
        observers = cluster.replica(1).observers
        assert len(observers) == 64
        stranger.close()
        await stranger.wait_closed()
        session = 0
        async with asyncio.timeout(60):
            while not session or len(observers) > 1:
                session = (await peer.send(fetch(offset=1, session=session))).session_id
        assert session != 0

    play(story)


def test_waiting_fetch_ends_with_the_next_append(play: Play) -> None:
    async def story(cluster: Any) -> None:
        peer = await led(cluster, 1)
        session = (await peer.send(fetch(offset=1))).session_id
        waiting = peer.post(fetch(session=session, epoch=1, is_quiet=True, wait=20_000))
        await asyncio.sleep(0)
        await cluster.produce(1, b"new", acks=1)
        async with asyncio.timeout(60):
            assert len(only(await waiting).records) > 0

    play(story)


def test_second_fetch_of_a_session_ends_the_wait_of_the_first(play: Play) -> None:
    async def story(cluster: Any) -> None:
        peer = await led(cluster, 1)
        session = (await peer.send(fetch(offset=1))).session_id
        first = peer.post(fetch(session=session, epoch=1, is_quiet=True, wait=20_000))
        second = peer.post(fetch(session=session, epoch=2, offset=0, wait=20_000))
        async with asyncio.timeout(60):
            assert (await first).responses == []
            assert len(only(await second).records) > 0

    play(story)


def test_a_wait_has_its_own_time_whatever_waited_before(play: Play) -> None:
    """One timer serves all waits of a session."""

    async def story(cluster: Any) -> None:
        peer = await led(cluster, 1)
        session = (await peer.send(fetch(offset=1))).session_id
        long = peer.post(fetch(session=session, epoch=1, is_quiet=True, wait=20_000))
        short = peer.post(fetch(session=session, epoch=2, is_quiet=True, wait=30))
        async with asyncio.timeout(60):
            assert (await long).responses == []
            assert (await short).responses == []
            await peer.send(fetch(session=session, epoch=3, is_quiet=True, wait=10))
            await peer.send(fetch(session=session, epoch=4, is_quiet=True, wait=20))

    play(story)


@pytest.mark.parametrize("size", [10, 20_000])
def test_records_that_the_disk_does_not_give_close_the_connection(
    play: Play, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    def read_at(file: OsFile, length: int, position: int) -> bytes:
        raise OSError(errno.EIO, "a broken sector")

    async def story(cluster: Any) -> None:
        peer = await led(cluster, 0)
        await cluster.produce(1, b"x" * size, acks=1)
        response = only(await peer.send(fetch()))
        assert len(response.records) > size
        if size < 20_000:  # longer ones are sent by the kernel
            monkeypatch.setattr(OsFile, "read_at", read_at)
            monkeypatch.setattr(OsFile, "read_cached", read_at)
            with pytest.raises(ConnectionError):
                await peer.send(fetch())
            monkeypatch.undo()

    play(story)


def test_loss_of_leadership_ends_a_wait(play: Play) -> None:
    async def story(cluster: Any) -> None:
        peer = await led(cluster, 1)
        session = (await peer.send(fetch(offset=1))).session_id
        waiting = peer.post(fetch(session=session, epoch=1, is_quiet=True, wait=20_000))
        await asyncio.sleep(0)
        await cluster.leader_and_isr(-1)
        async with asyncio.timeout(60):
            assert only(await waiting).error_code == ErrorCode.FENCED_LEADER_EPOCH

    play(story)


def test_what_does_not_fit_comes_with_the_next_response(play: Play) -> None:
    async def story(cluster: Any) -> None:
        peer = await led(cluster, 1)
        await cluster.produce(1, b"x" * 1000, acks=1)
        request = fetch()
        request.max_bytes = 1
        response = await peer.send(request)
        assert len(only(response).records) > 0
        request = fetch(session=response.session_id, epoch=1, offset=1)
        request.max_bytes = 1
        assert len(only(await peer.send(request)).records) > 1000

    play(story)


def test_what_was_cut_comes_although_it_came_into_memory_meanwhile(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The read of a partition must not be cold when it is cut, and warm when it is loaded."""
    probes: list[int] = []

    def is_cached(file: OsFile, length: int, position: int) -> bool:
        if length != CUT_AT:
            return True
        probes.append(length)
        return len(probes) > 1

    async def story(cluster: Any) -> None:
        peer = await led(cluster, 1)
        await lead_another(cluster)
        await cluster.produce(1, b"x" * 1000, acks=1, partition=1)
        patch_cached(monkeypatch, is_cached)
        request = fetch()
        ((first,),) = [topic.partitions for topic in request.topics]
        second = FetchRequestPartition(
            partition=1, fetch_offset=0, partition_max_bytes=CUT_AT, current_leader_epoch=0
        )
        request.topics[0].partitions = [first, second]
        response = await peer.send(request)
        assert [len(part.records) > CUT_AT for part in response.responses[0].partitions] == [
            False,
            False,
        ]
        request = fetch(session=response.session_id, epoch=1, is_quiet=True)
        result = only(await peer.send(request))
        assert result.partition_index == 1
        assert len(result.records) > 1000

    play(story)


def test_what_was_forgotten_while_it_was_read_is_served_no_more(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by seed 3510: it was answered without limit, and a follower got an epoch that it had left."""
    gate = asyncio.Event()
    load = LogRead.load

    async def load_late(read: LogRead, disk: Any) -> LogRead:
        await gate.wait()
        return await load(read, disk)

    async def story(cluster: Any) -> None:
        peer = await led(cluster, 1)
        await lead_another(cluster)
        await cluster.produce(1, b"x" * 1000, acks=1, partition=1)
        session = (await peer.send(fetch(offset=1))).session_id
        patch_cached(monkeypatch, lambda _file, length, _at: length != CUT_AT)
        monkeypatch.setattr(LogRead, "load", load_late)
        naming = fetch(session=session, epoch=1)
        naming.topics[0].partitions.append(
            FetchRequestPartition(
                partition=1, fetch_offset=0, partition_max_bytes=CUT_AT, current_leader_epoch=0
            )
        )
        forgetting = fetch(session=session, epoch=2, is_quiet=True)
        forgetting.forgotten_topics_data = [
            FetchRequestForgottenTopic(topic_id=TOPIC_ID, partitions=[1])
        ]
        responses = peer.post(naming), peer.post(forgetting)
        kept = cluster.brokers[1].replication_manager.followers.sessions[session]
        await until(lambda: kept.epoch == 3 and (TOPIC_ID, 1) not in kept.partitions)
        async with asyncio.timeout(60):
            gate.set()
            await asyncio.gather(*responses)
            await cluster.produce(1, b"y", acks=1, partition=1)
            quiet = await peer.send(fetch(session=session, epoch=3, is_quiet=True))
        assert quiet.responses == []

    play(story)


def test_files_are_let_go_when_the_follower_goes_while_they_are_read(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pinned file stays open, and takes its place on the disk after it was deleted."""
    begun: list[LogRead] = []

    async def load_for_ever(read: LogRead, _disk: Any) -> LogRead:
        begun.append(read)
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            assert read.range is not None
            read.range.release()
        return read

    async def story(cluster: Any) -> None:
        peer = await led(cluster, 1)
        await lead_another(cluster)
        await cluster.produce(1, b"a", acks=1, partition=1)
        patch_cached(monkeypatch)
        monkeypatch.setattr(LogRead, "load", load_for_ever)
        request = fetch(epoch=-1)
        request.topics[0].partitions.append(
            FetchRequestPartition(
                partition=1, fetch_offset=0, partition_max_bytes=1 << 20, current_leader_epoch=0
            )
        )
        peer.post(request)
        await until(lambda: bool(begun))
        replicas = [cluster.replica(1, TopicPartition("t", number)) for number in (0, 1)]
        files = [replica.log.segments[-1].data for replica in replicas]
        assert [file.pins for file in files] == [1, 1]
        peer.abort()
        await until(lambda: [file.pins for file in files] == [0, 0], timeout_s=10)
        assert [replica.observers for replica in replicas] == [{}, {}]

    play(story)


def test_what_was_not_sent_of_a_large_response_is_sent_with_the_next(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files are released, and the session still has all partitions to check."""

    async def story(cluster: Any) -> None:
        peer = await led(cluster, 1)
        file, rest = cluster.replica(1).log.segments[-1].data, Pace.rest

        async def rest_without_end(pace: Pace) -> None:
            await (asyncio.Event().wait() if file.pins else rest(pace))

        monkeypatch.setattr(Pace, "rest", rest_without_end)
        monkeypatch.setattr(Pace, "is_over", lambda _pace, _steps=1: True)
        request = fetch()
        request.topics[0].partitions += [
            FetchRequestPartition(partition=n, partition_max_bytes=1) for n in range(1, 2_000)
        ]
        peer.post(request)
        await until(lambda: file.pins)
        (session,) = followers(cluster).sessions
        session.partition_changed(session.partitions[TOPIC_ID, 1_999], can_wait=False)
        peer.abort()
        await until(lambda: not file.pins)
        assert session.dirty.keys() == set(session.partitions.values())
        assert len(session.dirty) == 2_000

    play(story)


def followers(cluster: Any) -> Any:
    return cluster.brokers[1].replication_manager.followers


async def lead_another(cluster: Any) -> None:
    """Let broker 1 lead `t-1` as well."""
    state = LeaderAndIsrRequestPartition(
        partition_index=1, leader=1, leader_epoch=0, isr=[1], replicas=[1, 2], is_new=True
    )
    topic = LeaderAndIsrRequestTopic(topic_name="t", topic_id=TOPIC_ID, partition_states=[state])
    request = LeaderAndIsrRequest(controller_id=1, controller_epoch=1000, topic_states=[topic])
    await cluster.brokers[1].control_requests.leader_and_isr(request)


def test_fetch_of_a_followers_former_life_says_nothing_about_this_one(play: Play) -> None:
    async def story(cluster: Any) -> None:
        before = await led(cluster, 3)
        after = await cluster.peer(1)
        await after.send(fetch(registration=8, offset=1))
        await before.send(fetch(registration=7, offset=3))
        assert cluster.replica(1).partition.followers[2].log_end_offset == 1
        await after.send(fetch(registration=8, offset=2))
        assert cluster.replica(1).partition.followers[2].log_end_offset == 2

    play(story)


def test_fetch_that_was_overtaken_on_its_way_counts_until_the_next_only(play: Play) -> None:
    async def story(cluster: Any) -> None:
        peer = await led(cluster, 3)
        given_up = (await peer.send(fetch(offset=1))).session_id
        session = (await peer.send(fetch(offset=2))).session_id
        await peer.send(fetch(offset=3, session=session, epoch=1))
        follower = cluster.replica(1).partition.followers[2]
        assert follower.log_end_offset == 3
        # An old request, of a slow connection that the follower has given up.
        await peer.send(fetch(offset=1, session=given_up, epoch=1))
        await peer.send(fetch(session=session, epoch=2, is_quiet=True))
        assert follower.log_end_offset == 3
        await peer.send(fetch(session=given_up, epoch=2, is_quiet=True))
        await peer.send(fetch(session=session, epoch=3, is_quiet=True))
        assert follower.log_end_offset == 3

    play(story)


def test_follower_that_the_high_watermark_waits_for_is_not_throttled(play: Play) -> None:
    """It had everything when it asked last, and fell behind by a record since: acks=all waits for it."""

    async def story(cluster: Any) -> None:
        peer = await led(cluster, 1)
        await cluster.brokers[1].control_requests.update_metadata(cluster.update([1, 2]))
        configs = cluster.brokers[1].context.effective_configs
        configs.put_topic("t", {"leader.replication.throttled.replicas": "*"})
        configs.put_broker({"leader.replication.throttled.rate": "1"}, default=False)
        assert only(await peer.send(fetch(offset=0))).records
        assert cluster.brokers[1].replication_manager.leader_throttle.is_exceeded
        await cluster.produce(1, b"one more", acks=1)
        partition = cluster.replica(1).partition
        assert (partition.high_watermark, partition.in_sync_replicas) == (2, (1,))
        assert only(await peer.send(fetch(offset=1))).records
        waiting = asyncio.ensure_future(cluster.produce(1, b"awaited"))
        await until(lambda: partition.log_end_offset == 3)
        assert partition.high_watermark == 2
        await peer.send(fetch(offset=2))
        await peer.send(fetch(offset=3))
        assert (await waiting).error_code == ErrorCode.NONE
        await until(lambda: cluster.isr == [1, 2])

    play(story)


def test_set_is_proposed_with_the_registrations_of_the_time_when_it_was(play: Play) -> None:
    """A follower that registers again before the controller is reached may have lost records (KIP-903)."""

    async def story(cluster: Any) -> None:
        before = await led(cluster, 3)
        await cluster.brokers[1].control_requests.update_metadata(cluster.update([1, 2]))
        asked: list[AlterPartitionRequest] = []

        async def unreachable(request: AlterPartitionRequest) -> None:
            asked.append(request)
            raise ConnectionError("no controller")

        cluster.brokers[1].replication_manager.controller.local = unreachable
        await before.send(fetch(registration=7, offset=3))
        assert cluster.replica(1).partition.pending_isr == (1, 2)
        after = await cluster.peer(1)
        await after.send(fetch(registration=8, offset=0))
        asked.clear()
        await until(lambda: bool(asked))
        ((partition,),) = [topic.partitions for topic in asked[0].topics]
        epochs = {member.broker_id: member.broker_epoch for member in partition.new_isr_with_epochs}
        assert epochs[2] == 7

    play(story)


@pytest.mark.slow
def test_high_watermark_waits_no_longer_for_a_follower_that_lags_for_too_long(
    play: Play,
) -> None:
    """It was about to rejoin, and was never learned of again; an idempotent producer appends nothing new either."""

    async def story(cluster: Any) -> None:
        peer = await led(cluster, 3)
        await cluster.brokers[1].control_requests.update_metadata(cluster.update([1, 2]))
        await peer.send(fetch(offset=0))
        await cluster.produce(1, b"committed by the leader alone", acks=1)
        await peer.send(fetch(offset=3))
        partition = cluster.replica(1).partition
        assert (partition.high_watermark, partition.pending_isr) == (4, None)
        response = await cluster.produce(1, b"awaited", timeout_ms=20_000)
        assert response.error_code == ErrorCode.NONE

    play(story, replica__lag__time__max__ms="500")


def test_sessions_of_followers_have_a_bound_of_partitions(play: Play) -> None:
    async def story(cluster: Any) -> None:
        peer = await led(cluster, 1)
        first = await peer.send(fetch(offset=1))
        assert first.session_id != 0
        strange = fetch(replica=7, is_quiet=True)
        parts = [FetchRequestPartition(partition=n, partition_max_bytes=1) for n in range(2_000)]
        strange.topics = [FetchRequestTopic(topic_id=b"\x07" * 16, partitions=parts)]
        response = await peer.send(strange)
        assert (response.error_code, response.session_id) == (0, 0)
        assert len(response.responses[0].partitions) == 2_000
        await cluster.produce(1, b"new", acks=1)
        news = await peer.send(fetch(session=first.session_id, epoch=1, is_quiet=True))
        assert news.session_id == first.session_id
        assert len(only(news).records) > 0

    play(story, kavka__max__incremental__fetch__session__cache__partitions="1000")
