"""Large requests that wait, or are given up: they keep no memory that others need, and no files open."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kavka.broker.api.delete_records import _LowWatermarkWait
from kavka.broker.control.controller import Controller
from kavka.broker.requests import responses
from kavka.broker.requests.pace import Pace
from kavka.ids import TopicPartition
from kavka.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsRequestTopic,
)
from kavka.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsRequestTopic
from kavka.wire.messages.delete_records import (
    DeleteRecordsRequest,
    DeleteRecordsRequestPartition,
    DeleteRecordsRequestTopic,
)
from kavka.wire.messages.delete_topics import DeleteTopicsRequest
from kavka.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersRequestTopic
from kavka.wire.messages.fetch import FetchRequest, FetchRequestPartition, FetchRequestTopic
from kavka.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from support.cold_files import patch_cached
from support.frames import connected, framed, read_response
from support.one_broker import Run, Served
from support.waiting import until

WITHOUT_END_MS = 2**31 - 1


def fetch_of(partitions: int, repetitions: int = 1, max_wait_ms: int = 0) -> FetchRequest:
    rows = [FetchRequestPartition(partition=n, partition_max_bytes=1000) for n in range(partitions)]
    topics = [FetchRequestTopic(topic="t", partitions=rows * repetitions)]
    return FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=1 << 20, topics=topics)


def data_file(served: Served) -> Any:
    return served.broker.replica_manager.find(TopicPartition("t", 0)).log.segments[-1].data


# -- fetches that wait


def test_large_fetches_that_wait_are_not_queued_and_keep_no_memory(run: Run) -> None:
    """512 of them stopped the reading of all other connections."""

    async def story(served: Served) -> None:
        await served.create("t", 1)
        dispatcher, budget = served.broker.dispatcher, served.broker.request_budget
        frame = framed(fetch_of(1, 2_600, max_wait_ms=WITHOUT_END_MS), 11)
        assert len(frame) > 64 * 1024 - 24 * 100
        clients = [await connected(served) for _ in range(2)]
        for _reader, writer in clients:
            writer.write(frame * 10)
        await until(lambda: len(served.broker.fetch_purgatory) == 20)
        await until(lambda: not dispatcher.in_second_stage())
        assert (budget.queued, budget.held_bytes, dispatcher._memory.in_use) == (0, 0, 0)
        await served.produce("t", b"records")
        for reader, writer in clients:
            for _ in range(10):
                assert b"records" in await read_response(reader)
            writer.close()
        assert dispatcher._memory.in_use == 0

    run(story)


@pytest.mark.slow
def test_a_large_fetch_has_its_memory_until_it_is_answered(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.create("t", 1)
        other = await served.another()
        memory, seen = served.broker.dispatcher._memory, []
        fetching = asyncio.ensure_future(other.send(fetch_of(20_000), 11))
        while not fetching.done():
            if any("_handle_many" in repr(task) for task in asyncio.all_tasks()):
                seen.append(memory.in_use)
            await asyncio.sleep(0)
        assert len(seen) > 2
        assert min(seen) > 0
        assert memory.in_use == 0

    run(story)


def test_a_large_fetch_that_waits_goes_with_its_connection(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.create("t", 1)
        _reader, writer = await connected(served)
        writer.write(framed(fetch_of(1, 3_000, max_wait_ms=WITHOUT_END_MS), 11))
        await served.until_a_fetch_waits()
        writer.transport.abort()
        await until(lambda: not len(served.broker.fetch_purgatory))

    run(story)


# -- fetches that are given up


def test_files_are_released_when_a_client_goes_while_a_large_fetch_is_answered(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        await served.produce("t", b"records")
        file, rest = data_file(served), Pace.rest

        async def rest_without_end(pace: Pace) -> None:
            await (asyncio.Event().wait() if file.pins else rest(pace))

        monkeypatch.setattr(Pace, "rest", rest_without_end)
        monkeypatch.setattr(Pace, "is_over", lambda _pace, _steps=1: bool(file.pins))
        _reader, writer = await connected(served)
        writer.write(framed(fetch_of(1, 3_000), 11))
        await until(lambda: file.pins)
        writer.transport.abort()
        await until(lambda: not file.pins)

    run(story)


def test_files_are_released_when_a_client_goes_while_a_response_is_encoded(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        await served.produce("t", b"records")
        file, encode_slice, pins = data_file(served), responses.encode_slice, []  # type: ignore[attr-defined]

        def encode_and_go(*asked: Any) -> Any:
            parts = encode_slice(*asked)
            if parts is None and file.pins:
                pins.append(file.pins)
                writer.transport.abort()
                for connection in served.broker.dispatcher.connections:
                    connection.abort()
            return parts

        monkeypatch.setattr(responses, "encode_slice", encode_and_go)
        _reader, writer = await connected(served)
        writer.write(framed(fetch_of(30_000), 11))
        await until(lambda: pins)
        await until(lambda: not file.pins)

    run(story)


@pytest.mark.slow
def test_files_are_released_when_a_response_is_too_large(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        await served.produce("t", b"records")
        reader, writer = await connected(served)
        writer.write(framed(fetch_of(30_000), 11))
        with pytest.raises(asyncio.IncompleteReadError):
            await read_response(reader)
        await until(lambda: not data_file(served).pins)
        writer.close()

    run(story, kavka__response__max__bytes=str(1 << 20))


def test_files_are_released_when_a_cold_read_is_given_up_before_it_begins(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(served: Served) -> None:

        await served.topic("t")
        await served.produce("t", b"records")
        patch_cached(monkeypatch)
        dispatcher, file = served.broker.dispatcher, data_file(served)
        other = await served.another()
        waiting = dispatcher._responses.pending
        run_stage = waiting.run

        def run_and_cancel(context: Any, stage: Any) -> None:
            run_stage(context, stage)
            assert file.pins
            dispatcher.connections[context.connection].waiting.popitem()[0].cancel()

        monkeypatch.setattr(waiting, "run", run_and_cancel)
        with pytest.raises(ConnectionError):
            await other.fetch("t")
        await until(lambda: not file.pins)

    run(story)


# -- requests that wait for others, as long as their clients wish


UNKNOWN = [f"topic-{number:05}" for number in range(9_000)]


def requests_that_wait() -> list[tuple[Any, int]]:
    rows = [DeleteRecordsRequestPartition(partition_index=n, offset=1) for n in range(20_000)]
    deletion = [DeleteRecordsRequestTopic(name="t", partitions=rows)]
    new = [
        CreateTopicsRequestTopic(name=name, num_partitions=1, replication_factor=1)
        for name in UNKNOWN
    ]
    more = [
        CreatePartitionsRequestTopic(name=name, count=2, assignments=None)
        for name in ["t", *UNKNOWN]
    ]
    elected = [ElectLeadersRequestTopic(topic=name, partitions=[0]) for name in ["t", *UNKNOWN]]
    wait = {"timeout_ms": WITHOUT_END_MS}
    return [
        (DeleteRecordsRequest(topics=deletion, **wait), 1),
        (CreateTopicsRequest(topics=new, **wait), 4),  # type: ignore[arg-type]
        (DeleteTopicsRequest(topic_names=["t", *UNKNOWN], **wait), 3),  # type: ignore[arg-type]
        (CreatePartitionsRequest(topics=more, **wait), 1),  # type: ignore[arg-type]
        (ElectLeadersRequest(topic_partitions=elected, **wait), 1),
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("request_", "version"), requests_that_wait(), ids=lambda of: type(of).__name__
)
def test_large_requests_that_wait_leave_memory_to_others(
    run: Run, monkeypatch: pytest.MonkeyPatch, request_: Any, version: int
) -> None:
    """A few with a timeout of 24 days took the memory of all large requests."""
    waits = []

    async def wait_without_end(*_asked: Any) -> None:
        waits.append(1)
        await asyncio.Event().wait()

    async def story(served: Served) -> None:
        await served.topic("t")
        await served.produce("t", b"records")
        monkeypatch.setattr(_LowWatermarkWait, "_judge", lambda _wait: None)
        monkeypatch.setattr(_LowWatermarkWait, "end", wait_without_end)
        monkeypatch.setattr(Controller, "flushed", wait_without_end)
        monkeypatch.setattr(Controller, "wait_until_published", wait_without_end)
        dispatcher, budget = served.broker.dispatcher, served.broker.request_budget
        taken = []
        take = dispatcher._memory.take
        monkeypatch.setattr(
            dispatcher._memory,
            "take",
            lambda size: taken.append(size) or take(size),  # type: ignore[func-returns-value]
        )
        _reader, writer = await connected(served)
        writer.write(framed(request_, version))
        await until(lambda: waits)
        assert taken
        assert (dispatcher._memory.in_use, budget.held_bytes) == (0, 0)
        assert any(one.is_blocked for one in dispatcher.connections)
        writer.transport.abort()

    run(story)


def test_a_request_that_waits_for_memory_goes_with_its_connection(run: Run) -> None:
    async def story(served: Served) -> None:
        dispatcher = served.broker.dispatcher
        memory = dispatcher._memory
        await memory.take(memory._capacity)
        topics = [MetadataRequestTopic(name=f"topic-{n}") for n in range(50_000)]
        _reader, writer = await connected(served)
        writer.write(framed(MetadataRequest(topics=topics), 9))
        await until(lambda: memory._waiting)
        (connection,) = [one for one in dispatcher.connections if one.is_blocked]
        connection.abort()  # its client is silent, say: while it is blocked it is not read
        await until(lambda: not dispatcher.in_second_stage())
        assert (served.broker.request_budget.held_bytes, memory.in_use) == (0, memory._capacity)
        memory.give(memory._capacity)
        writer.close()

    run(story)


@pytest.mark.slow
def test_responses_that_a_client_does_not_read_count(run: Run) -> None:
    """A hundred of them took 106 MB, and the budget knew of none."""

    async def story(served: Served) -> None:
        topics = [MetadataRequestTopic(name=f"{number:0200}") for number in range(20_000)]
        frame = framed(MetadataRequest(topics=topics, allow_auto_topic_creation=False), 9)
        budget = served.broker.request_budget
        reader, writer = await connected(served)
        writer.write(frame * 3)
        await until(lambda: any(one.bytes_unsent for one in served.broker.dispatcher.connections))
        (connection,) = [one for one in served.broker.dispatcher.connections if one.bytes_unsent]
        assert budget.held_bytes >= connection.bytes_in_work >= connection.bytes_unsent
        for _ in range(3):
            await read_response(reader)
        await until(lambda: not budget.held_bytes)
        writer.close()

    run(story)
