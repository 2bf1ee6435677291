"""Full collections of garbage: none while large requests are in work; what lives afterwards is walked later."""

from __future__ import annotations

import asyncio
import gc
import itertools
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from kavka.broker.requests import full_collections
from kavka.broker.requests.full_collections import FullCollections
from kavka.broker.requests.memory import RequestMemory
from kavka.wire.messages.fetch import FetchRequest, FetchRequestPartition, FetchRequestTopic
from kavka.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from support.frames import connected, framed
from support.one_broker import Run, Served
from support.waiting import until


@pytest.fixture(autouse=True)
def collections() -> Iterator[list[int]]:
    """Small thresholds, and the generations that were collected."""
    thresholds, collected = gc.get_threshold(), list[int]()

    def note(phase: str, info: dict[str, Any]) -> None:
        if phase == "stop":
            collected.append(info["generation"])

    gc.set_threshold(100, 10, 10)
    gc.callbacks.append(note)
    yield collected
    gc.callbacks.remove(note)
    gc.set_threshold(*thresholds)
    gc.unfreeze()
    gc.collect()
    gc.freeze()  # as `conftest` does: else every full collection walks all tests


def spare_all() -> None:
    """Spare what this process has from collections, as `kavka server-start` does after its start."""
    gc.collect()
    gc.freeze()
    gc.collect()  # the heap by which the collector judges growth is that of now


def large() -> MetadataRequest:
    topics = [MetadataRequestTopic(name=f"topic-{n}") for n in range(30_000)]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=False)


@pytest.mark.slow
@pytest.mark.parametrize("are_put_off", [False, True])
def test_a_large_request_causes_full_collections_unless_they_are_put_off(
    run: Run, collections: list[int], are_put_off: bool
) -> None:
    async def story(served: Served) -> None:
        if are_put_off:
            served.broker.dispatcher.watch_large_requests(FullCollections().large_requests)
        request = large()
        spare_all()
        collections.clear()
        sending = asyncio.ensure_future(served.send(request, 9))
        while not sending.done():
            if served.broker.dispatcher._memory.in_use:
                assert gc.get_threshold()[2] == (500 if are_put_off else 10)
                in_work.extend(collections)
            collections.clear()
            await asyncio.sleep(0)
        assert gc.get_threshold()[2] == 10

    in_work: list[int] = []
    run(story)
    assert in_work.count(1) > 5
    assert (in_work.count(2) == 0) == are_put_off


def test_other_large_work_is_as_a_large_request() -> None:
    async def story() -> None:
        memory, notified = RequestMemory(100), list[bool]()
        memory.watch(notified.append)
        with memory.large_work(), memory.large_work():
            await memory.take(100)
            assert notified == [True]
        assert notified == [True]
        memory.give(100)
        assert notified == [True, False]
        with memory.large_work():
            await memory.take(100)  # there is room
            memory.give(100)
        with pytest.raises(ZeroDivisionError), memory.large_work():
            raise ZeroDivisionError
        assert notified == [True, False] * 3

    asyncio.run(story())


def test_a_new_controller_takes_in_the_cluster_as_large_work(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.create("t", 1)
        notified: list[bool] = []
        served.broker.dispatcher.watch_large_requests(notified.append)
        controller = served.broker.controller
        await controller._on_controller_resignation()
        elected = controller._elected
        assert elected is not None
        await controller._on_controller_failover(elected, ())
        assert notified == [True, False]

    run(story)


def test_a_large_request_that_waits_for_its_client_does_not_put_them_off(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.create("t", 1)
        served.broker.dispatcher.watch_large_requests(FullCollections().large_requests)
        rows = [FetchRequestPartition(partition=0, partition_max_bytes=1000)] * 30_000
        topics = [FetchRequestTopic(topic="t", partitions=rows)]
        fetch = FetchRequest(max_wait_ms=2**31 - 1, min_bytes=1, max_bytes=1 << 20, topics=topics)
        _reader, writer = await connected(served)
        writer.write(framed(fetch, 11))
        await until(lambda: gc.get_threshold()[2] == 500)
        await until(lambda: gc.get_threshold()[2] == 10)
        assert len(served.broker.fetch_purgatory) == 1
        writer.transport.abort()

    run(story)


class Cycle:
    """Something that only the collector frees."""

    def __init__(self) -> None:
        self.itself = self


async def no_time(_seconds: float) -> None:
    await real_sleep(0)


real_sleep = asyncio.sleep


@pytest.mark.parametrize("is_quiet", [False, True])
def test_what_was_spared_is_collected_later(
    monkeypatch: pytest.MonkeyPatch, is_quiet: bool
) -> None:
    async def story() -> None:
        spared = Cycle()
        is_there = weakref.ref(spared)
        collections.large_requests(True)
        collections.large_requests(False)
        del spared
        gc.collect()
        assert is_there() is not None
        catching_up = asyncio.ensure_future(collections.catch_up(requests_received))
        await until(lambda: is_there() is None)
        catching_up.cancel()

    def requests_received() -> int:
        return 0 if is_quiet else next(numbers)

    numbers = itertools.count()
    collections = FullCollections()
    monkeypatch.setattr(full_collections, "_MOST_WAIT_S", 3_000 if is_quiet else 0.01)
    monkeypatch.setattr(asyncio, "sleep", no_time)
    asyncio.run(story())


def test_what_was_spared_is_not_collected_while_a_large_request_is_in_work_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story() -> None:
        spared = Cycle()
        is_there = weakref.ref(spared)
        for are_in_work in (True, False, True):
            collections.large_requests(are_in_work)
        del spared
        catching_up = asyncio.ensure_future(collections.catch_up(requests_received))
        await until(lambda: next(asked) > 100)
        assert is_there() is not None
        collections.large_requests(False)
        await until(lambda: is_there() is None)
        catching_up.cancel()

    def requests_received() -> int:
        next(asked)
        return 0

    asked = itertools.count()
    collections = FullCollections()
    monkeypatch.setattr(asyncio, "sleep", no_time)
    asyncio.run(story())


def test_memory_notifies_of_the_first_use_and_of_the_last_end() -> None:
    async def story() -> None:
        await memory.take(60)
        await memory.take(40)
        waiting = asyncio.ensure_future(memory.take(70))
        await asyncio.sleep(0)
        memory.give(60)
        memory.give(0)
        assert notified == [True]
        memory.give(40)
        await waiting
        assert notified[-1] is True
        memory.give(70)
        assert notified[-1] is False

    notified: list[bool] = []
    memory = RequestMemory(100)
    memory.watch(notified.append)
    asyncio.run(story())
