"""Markers on their way to the leaders of partitions; the writing to the partitions is scripted."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from kavka.broker.coordination.transaction_marker_manager import TransactionMarkerManager
from kavka.core.transaction.events import MarkersWritten, SendMarkers
from kavka.core.transaction_markers.events import MarkerCodes, TransactionMarkers
from kavka.errors import ErrorCode
from kavka.ids import BrokerId, TopicPartition
from kavka.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsRequestTopic
from kavka.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsRequestTopic
from kavka.wire.stored.znodes import topic_path
from support.one_broker import Run, Served
from support.waiting import until

T, U = TopicPartition("t", 0), TopicPartition("u", 0)
Asked = list[tuple[int, str]]
"""Producer id and topic of each marker in a request."""


class ScriptedWriter:
    """Takes requests, which wait until the test answers them."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Asked, asyncio.Future[MarkerCodes]]] = []
        self.requests: list[list[TransactionMarkers]] = []

    async def write(self, markers: list[TransactionMarkers]) -> MarkerCodes:
        response: asyncio.Future[MarkerCodes] = asyncio.get_running_loop().create_future()
        self.requests.append(markers)
        asked = [(of.producer_id, partition.topic) for _, of, some in markers for partition in some]
        self.waiting.append((asked, response))
        return await response

    async def asked(self, count: int = 1) -> list[Asked]:
        """Return what is asked for, when there are so many requests."""
        await until(lambda: len(self.waiting) >= count)
        for _ in range(10):
            await asyncio.sleep(0)
        return [asked for asked, _response in self.waiting]

    def answer(self, index: int = 0, **codes: ErrorCode) -> None:
        """Answer a request; a topic that is not named has its markers."""
        asked, response = self.waiting.pop(index)
        response.set_result(
            {
                (producer_id, TopicPartition(topic, 0)): codes.get(topic, ErrorCode.NONE)
                for producer_id, topic in asked
            }
        )

    def fail(self, error: Exception) -> None:
        """Lose a request."""
        _asked, response = self.waiting.pop(0)
        response.set_exception(error)


class Coordinator:
    """Records its calls."""

    def __init__(self) -> None:
        self.coordinator_epoch = 7
        self.posted: list[tuple[int, tuple[TopicPartition, ...]]] = []

    def post_all(self, events: Sequence[MarkersWritten]) -> None:
        self.posted += [(event.producer_id, event.partitions) for event in events]

    async def until_posted(self, count: int) -> list[tuple[int, tuple[TopicPartition, ...]]]:
        await until(lambda: len(self.posted) >= count)
        return self.posted


def effect(producer_id: int, *partitions: TopicPartition, committed: bool = True) -> SendMarkers:
    return SendMarkers(f"x{producer_id}", producer_id, 3, committed, partitions)


Story = Callable[[TransactionMarkerManager, ScriptedWriter, Coordinator, Any], Any]


def play(run: Run, story: Story) -> None:
    """Run a story over the partitions `t-0` and `u-0` of a broker."""

    async def over(served: Served) -> None:
        for topic_partition in (T, U):
            await served.topic(topic_partition.topic)
        writer = ScriptedWriter()
        markers = TransactionMarkerManager(served.broker.context, writer.write)
        try:
            await story(markers, writer, Coordinator(), served)
        finally:
            await markers.stop()

    run(over)


def test_all_partitions_of_a_transaction_get_their_marker_at_once(run: Run) -> None:
    async def story(
        markers: TransactionMarkerManager, writer: ScriptedWriter, coordinator: Coordinator, _: Any
    ) -> None:
        markers.send(coordinator, effect(1, T, U, committed=False))
        assert await writer.asked() == [[(1, "t"), (1, "u")]]
        ((coordinator_epoch, transaction, _partitions),) = writer.requests[0]
        assert (transaction.producer_epoch, coordinator_epoch) == (3, 7)
        assert transaction.committed is False
        writer.answer()
        assert await coordinator.until_posted(1) == [(1, (T, U))]

    play(run, story)


def test_a_partition_has_one_request_in_flight(run: Run) -> None:
    async def story(
        markers: TransactionMarkerManager, writer: ScriptedWriter, coordinator: Coordinator, _: Any
    ) -> None:
        markers.send(coordinator, effect(1, T))
        await writer.asked()
        markers.send(coordinator, effect(2, T))
        markers.send(coordinator, effect(3, T))
        assert await writer.asked() == [[(1, "t")]]
        writer.answer()
        assert await writer.asked() == [[(2, "t"), (3, "t")]]
        writer.answer()
        assert await coordinator.until_posted(3) == [(1, (T,)), (2, (T,)), (3, (T,))]

    play(run, story)


def test_a_slow_partition_does_not_delay_another(run: Run) -> None:
    async def story(
        markers: TransactionMarkerManager, writer: ScriptedWriter, coordinator: Coordinator, _: Any
    ) -> None:
        markers.send(coordinator, effect(1, T))
        await writer.asked()
        for producer_id in range(2, 20):
            markers.send(coordinator, effect(producer_id, U))
            await writer.asked(2)
            writer.answer(1)
        assert await coordinator.until_posted(18) == [(number, (U,)) for number in range(2, 20)]
        assert await writer.asked() == [[(1, "t")]]

    play(run, story)


def test_many_slow_partitions_do_not_delay_another(run: Run) -> None:
    async def story(
        markers: TransactionMarkerManager,
        writer: ScriptedWriter,
        coordinator: Coordinator,
        served: Served,
    ) -> None:
        await served.send(
            CreateTopicsRequest(
                topics=[
                    CreateTopicsRequestTopic(name="slow", num_partitions=6, replication_factor=1)
                ],
                timeout_ms=30_000,
            )
        )
        for index in range(6):
            markers.send(coordinator, effect(index, TopicPartition("slow", index)))
            await asyncio.sleep(0)
        markers.send(coordinator, effect(9, U))
        await until(lambda: [(9, "u")] in [asked[-1:] for asked, _response in writer.waiting])
        assert sum(len(asked) for asked in await writer.asked()) == 7

    play(run, story)


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.TRANSACTION_COORDINATOR_FENCED,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
    ids=lambda code: code.name,
)
def test_a_refused_marker_is_sent_again_alone(run: Run, code: ErrorCode) -> None:
    async def story(
        markers: TransactionMarkerManager, writer: ScriptedWriter, coordinator: Coordinator, _: Any
    ) -> None:
        markers.send(coordinator, effect(1, T, U))
        await writer.asked()
        writer.answer(t=code)
        assert await coordinator.until_posted(1) == [(1, (U,))]
        assert await writer.asked() == [[(1, "t")]]
        markers.send(coordinator, effect(2, U))
        assert await writer.asked(2) == [[(1, "t")], [(2, "u")]]
        writer.answer(t=code)
        writer.answer()
        assert await coordinator.until_posted(2) == [(1, (U,)), (2, (U,))]
        await writer.asked()
        writer.answer()
        assert (await coordinator.until_posted(3))[2] == (1, (T,))

    play(run, story)


def test_where_a_newer_epoch_writes_nothing_is_left_to_end(run: Run) -> None:
    async def story(
        markers: TransactionMarkerManager, writer: ScriptedWriter, coordinator: Coordinator, _: Any
    ) -> None:
        markers.send(coordinator, effect(1, T))
        await writer.asked()
        writer.answer(t=ErrorCode.INVALID_PRODUCER_EPOCH)
        assert await coordinator.until_posted(1) == [(1, (T,))]

    play(run, story)


def test_a_lost_request_is_sent_again(run: Run) -> None:
    async def story(
        markers: TransactionMarkerManager, writer: ScriptedWriter, coordinator: Coordinator, _: Any
    ) -> None:
        markers.send(coordinator, effect(1, T))
        for error in (ConnectionError("lost"), TimeoutError("late")):
            assert await writer.asked() == [[(1, "t")]]
            writer.fail(error)
        assert await writer.asked() == [[(1, "t")]]
        writer.answer()
        assert await coordinator.until_posted(1) == [(1, (T,))]

    play(run, story)


def test_partitions_of_a_late_request_are_sent_again_one_by_one(run: Run) -> None:
    async def story(
        markers: TransactionMarkerManager, writer: ScriptedWriter, coordinator: Coordinator, _: Any
    ) -> None:
        markers.send(coordinator, effect(1, T, U))
        await writer.asked()
        writer.fail(TimeoutError("late"))  # one of them may be why it was
        assert sorted(await writer.asked(2)) == [[(1, "t")], [(1, "u")]]
        writer.answer()
        writer.answer()
        assert sorted(await coordinator.until_posted(2)) == [(1, (T,)), (1, (U,))]

    play(run, story)


def test_a_coordinator_that_resigned_sends_nothing_more(run: Run) -> None:
    async def story(
        markers: TransactionMarkerManager, writer: ScriptedWriter, coordinator: Coordinator, _: Any
    ) -> None:
        successor = Coordinator()
        markers.send(coordinator, effect(1, T, U))
        await writer.asked()
        markers.forget(coordinator)
        markers.send(successor, effect(2, T))
        assert await writer.asked(2) == [[(1, "t"), (1, "u")], [(2, "t")]]
        writer.answer(t=ErrorCode.NOT_ENOUGH_REPLICAS)
        writer.answer()
        assert await successor.until_posted(1) == [(2, (T,))]
        assert await writer.asked(0) == []
        assert coordinator.posted == []

    play(run, story)


def test_a_coordinator_that_resigns_before_its_markers_leave_sends_nothing(run: Run) -> None:
    async def story(
        markers: TransactionMarkerManager, writer: ScriptedWriter, coordinator: Coordinator, _: Any
    ) -> None:
        successor = Coordinator()
        markers.send(coordinator, effect(1, T, U))
        markers.send(successor, effect(2, T))
        assert len(markers) == 3
        markers.forget(coordinator)
        assert await writer.asked() == [[(2, "t")]]
        writer.answer()
        assert await successor.until_posted(1) == [(2, (T,))]
        assert (coordinator.posted, len(markers)) == ([], 0)

    play(run, story)


def test_transactions_that_end_together_share_a_request(run: Run) -> None:
    async def story(
        markers: TransactionMarkerManager, writer: ScriptedWriter, coordinator: Coordinator, _: Any
    ) -> None:
        for producer_id in range(1, 8):
            markers.send(coordinator, effect(producer_id, T))
        assert await writer.asked() == [[(producer_id, "t") for producer_id in range(1, 8)]]
        writer.answer()
        assert len(await coordinator.until_posted(7)) == 7

    play(run, story)


def test_no_marker_waits_for_a_deposed_leader(run: Run) -> None:
    async def story(
        markers: TransactionMarkerManager,
        writer: ScriptedWriter,
        coordinator: Coordinator,
        served: Served,
    ) -> None:
        metadata = served.broker.metadata
        news = metadata.topics["t"]
        elsewhere = news.partitions[0]._replace(leader=BrokerId(9))
        metadata.brokers[BrokerId(9)] = metadata.brokers[BrokerId(0)]._replace(
            broker_id=BrokerId(9), endpoints=()
        )
        metadata.put_topic(news._replace(partitions=(elsewhere,)))
        markers.send(coordinator, effect(1, T))  # broker 9 cannot be reached
        assert await writer.asked(0) == []
        metadata.put_topic(news)
        markers.metadata_changed()
        assert await writer.asked() == [[(1, "t")]]
        writer.answer()
        assert await coordinator.until_posted(1) == [(1, (T,))]

    play(run, story)


def test_a_marker_that_is_withdrawn_while_connecting_is_not_sent(run: Run) -> None:
    async def story(
        markers: TransactionMarkerManager,
        _: ScriptedWriter,
        coordinator: Coordinator,
        served: Served,
    ) -> None:
        metadata = served.broker.metadata
        news = metadata.topics["t"]
        elsewhere = news.partitions[0]._replace(leader=BrokerId(9))
        here = metadata.brokers[BrokerId(0)]
        metadata.brokers[BrokerId(9)] = here._replace(broker_id=BrokerId(9))
        metadata.put_topic(news._replace(partitions=(elsewhere,)))
        markers.send(coordinator, effect(1, T))
        await asyncio.sleep(0)
        assert len(markers._tasks) == 1
        markers.forget(coordinator)
        successor = Coordinator()
        successor.coordinator_epoch = (
            0  # over the network, no other is taken: no coordinator has it
        )
        markers.send(successor, effect(2, T))
        assert await successor.until_posted(1) == [(2, (T,))]
        await until(lambda: not markers._tasks)
        assert served.broker.replica_manager.find(T).log.log_end_offset == 1
        assert coordinator.posted == []

    play(run, story)


def test_a_topic_made_again_with_fewer_partitions_needs_no_marker_in_the_others(run: Run) -> None:
    async def story(
        markers: TransactionMarkerManager, writer: ScriptedWriter, coordinator: Coordinator, _: Any
    ) -> None:
        gone = TopicPartition("t", 5)
        markers.send(coordinator, effect(1, gone))
        assert await coordinator.until_posted(1) == [(1, (gone,))]
        assert writer.requests == []

    play(run, story)


def test_a_deleted_topic_does_not_wait_for_another_that_hangs_in_its_request(run: Run) -> None:
    async def story(
        markers: TransactionMarkerManager,
        writer: ScriptedWriter,
        coordinator: Coordinator,
        served: Served,
    ) -> None:
        markers.send(coordinator, effect(1, T, U))
        assert await writer.asked() == [[(1, "t"), (1, "u")]]
        deletion = DeleteTopicsRequest(
            topics=[DeleteTopicsRequestTopic(name="t")], timeout_ms=30_000
        )
        await served.send(deletion)
        markers.metadata_changed()
        assert await coordinator.until_posted(1) == [(1, (T,))]
        writer.answer()
        assert await coordinator.until_posted(2) == [(1, (T,)), (1, (U,))]

    play(run, story)


def test_a_topic_that_is_not_shown_for_a_moment_keeps_its_marker_in_flight(run: Run) -> None:
    async def story(
        markers: TransactionMarkerManager,
        writer: ScriptedWriter,
        coordinator: Coordinator,
        served: Served,
    ) -> None:
        metadata = served.broker.metadata
        markers.send(coordinator, effect(1, T))
        await writer.asked()
        shown = metadata.topics["t"]
        metadata.remove_topic("t")
        markers.metadata_changed()
        assert await writer.asked() == [[(1, "t")]]
        assert coordinator.posted == []
        metadata.put_topic(shown)
        writer.answer()
        assert await coordinator.until_posted(1) == [(1, (T,))]

    play(run, story)


def test_a_topic_that_cannot_be_read_keeps_its_markers(run: Run) -> None:
    async def story(
        markers: TransactionMarkerManager,
        writer: ScriptedWriter,
        coordinator: Coordinator,
        served: Served,
    ) -> None:
        registry = served.broker.registry
        await registry.create(topic_path("odd"), b"junk")
        odd = TopicPartition("odd", 0)
        markers.send(coordinator, effect(1, odd))
        markers.send(coordinator, effect(2, TopicPartition("deleted", 0)))
        await coordinator.until_posted(1)
        assert [number for number, _partitions in coordinator.posted] == [2]
        await registry.delete(topic_path("odd"))
        assert (await coordinator.until_posted(2))[1] == (1, (odd,))

    play(run, story)


def test_a_request_has_a_bounded_number_of_markers(run: Run) -> None:
    async def story(
        markers: TransactionMarkerManager, writer: ScriptedWriter, coordinator: Coordinator, _: Any
    ) -> None:
        markers.send(coordinator, effect(0, T, U))
        await writer.asked()
        for producer_id in range(1, 301):
            markers.send(coordinator, effect(producer_id, T, U))
        writer.answer()
        await until(lambda: len(writer.waiting) >= 2)
        assert [len(asked) for asked in await writer.asked(2)] == [300, 300]

    play(run, story)


def test_a_coordinator_that_fails_keeps_nothing_from_others(run: Run) -> None:
    failed: list[int] = []

    class Failing(Coordinator):
        def post_all(self, events: Sequence[MarkersWritten]) -> None:
            failed.extend(event.producer_id for event in events)
            raise RuntimeError("a fault")

    async def story(
        markers: TransactionMarkerManager, writer: ScriptedWriter, coordinator: Coordinator, _: Any
    ) -> None:
        markers.send(coordinator, effect(0, T))
        await writer.asked()
        markers.send(Failing(), effect(1, T))
        markers.send(coordinator, effect(2, T))
        writer.answer()
        assert await writer.asked() == [[(1, "t"), (2, "t")]]
        markers.send(coordinator, effect(3, T))
        writer.answer()
        assert await coordinator.until_posted(2) == [(0, (T,)), (2, (T,))]
        assert failed == [1]
        assert await writer.asked() == [[(3, "t")]]

    play(run, story)


def test_markers_that_a_stop_leaves_unbegun_are_closed(run: Run) -> None:
    async def story(
        markers: TransactionMarkerManager, writer: ScriptedWriter, coordinator: Coordinator, _: Any
    ) -> None:
        begun: list[Coroutine[Any, Any, MarkerCodes]] = []

        def write(asked: list[TransactionMarkers]) -> Coroutine[Any, Any, MarkerCodes]:
            begun.append(writer.write(asked))
            return begun[0]

        markers._write_here = write
        markers.send(coordinator, effect(1, T))
        await asyncio.sleep(0)
        assert len(begun) == 1
        await markers.stop()
        assert not writer.waiting
        assert inspect.getcoroutinestate(begun[0]) == inspect.CORO_CLOSED

    play(run, story)
