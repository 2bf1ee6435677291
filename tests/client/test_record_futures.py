"""The outcomes that `send` and `append` return: futures, accepted as coroutines, whose callbacks the loop calls."""

from __future__ import annotations

import asyncio
import weakref
from contextlib import suppress
from contextvars import ContextVar, copy_context
from typing import Any

import anyio
import pytest
from starlette.background import BackgroundTask

from kavka.client import BufferFull, Producer
from kavka.client.direct_future import call_first
from kavka.client.producer.record_future import RecordFuture, RecordMetadata, new_future
from kavka.errors import KafkaError
from support.writing import run, transact, values

PLACE = RecordMetadata("t", 0, 7, 1)

# As a coroutine


def test_records_sent_together_need_no_tasks_and_keep_their_order(broker, settings):
    ways: list[dict[str, Any]] = [
        {},
        {"headers": [("a", b"b")]},
        {"key": b"k"},
        {"timestamp_ms": 1},
    ]

    async def work(producer):
        await producer.send("t", b"first")
        sent = [producer.send("t", b"%d" % i, **ways[i % 4]) for i in range(20)]
        assert len([task for task in asyncio.all_tasks() if "send" in repr(task)]) == 0
        return [place.offset for place in await asyncio.gather(*sent)]

    assert run(broker, settings, work) == list(range(1, 21))
    assert values(broker) == [b"first", *[b"%d" % i for i in range(20)]]


def test_records_of_a_transaction_keep_their_order_too(broker, settings):
    async def work(producer):
        await producer.init_transactions()
        await transact(producer, b"first")
        async with producer.transaction():
            sent = [producer.send("t", b"a"), producer.send("t", b"b", headers=[("h", b"")])]
            producer.append("t", b"c")
            await asyncio.gather(*sent)
        with pytest.raises(RuntimeError):
            await producer.send("t", b"d")

    run(broker, settings, work, **{"transactional.id": "x"})
    assert [value for value in values(broker) if value in (b"a", b"b", b"c", b"d")] == [
        b"a",
        b"b",
        b"c",
    ]


@pytest.mark.parametrize("is_known", [True, False])
def test_what_takes_coroutines_takes_a_record(broker, settings, is_known):
    async def work(producer):
        if is_known:
            await producer.partitions_for("t")
            await producer.send("t", b"")
        task = asyncio.create_task(producer.send("t", b"task"))
        async with asyncio.TaskGroup() as group:
            grouped = group.create_task(producer.send("t", b"group"))
        waited = await asyncio.wait_for(producer.send("t", b"wait"), 60)
        shielded = await asyncio.shield(producer.send("t", b"shield"))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(producer.send, "t", b"anyio")
        await BackgroundTask(producer.send, "t", b"web")()
        return [(await task).offset, grouped.result().offset, waited.offset, shielded.offset]

    offsets = run(broker, settings, work)
    sent = [b"task", b"group", b"wait", b"shield", b"anyio", b"web"]
    written = values(broker)
    assert sorted(written[-6:]) == sorted(sent)
    assert [written[offset] for offset in offsets] == sent[:4]


def test_a_record_is_sent_from_another_thread(broker, settings):
    async def work(producer):
        await producer.send("t", b"a")
        loop = asyncio.get_running_loop()

        def send() -> RecordMetadata:
            return asyncio.run_coroutine_threadsafe(producer.send("t", b"b"), loop).result(60)

        return await asyncio.to_thread(send)

    assert run(broker, settings, work).offset == 1


def test_what_is_wrong_with_a_record_is_raised_where_it_is_awaited(broker, settings):
    async def work(producer):
        await producer.send("t", b"a")
        wrong = [
            producer.send("t", 5),
            producer.send("t", b"", partition=9),
            producer.send("t", b"", timestamp_ms=-1),
            producer.send("", b""),
            producer.send(["t"], b""),
            producer.send("t", b"x" * 2_000_000),
        ]
        found = await asyncio.gather(*wrong, return_exceptions=True)
        await producer.close()
        closed = producer.send("t", b"b")
        with pytest.raises(RuntimeError, match="not open"):
            await closed
        return [type(error) for error in found]

    assert run(broker, settings, work) == [
        TypeError,
        ValueError,
        ValueError,
        ValueError,
        TypeError,
        KafkaError,
    ]
    assert values(broker) == [b"a"]


def test_a_producer_that_was_not_started_refuses_where_it_is_awaited(settings):
    async def main() -> None:
        sent = Producer(settings).send("t", b"")
        with pytest.raises(RuntimeError, match="not open"):
            await sent

    asyncio.run(main())


def test_a_record_whose_task_is_cancelled_is_sent_and_others_are_not_touched(broker, settings):
    async def work(producer):
        await producer.send("t", b"a")
        begun, unbegun = (asyncio.create_task(producer.send("t", value)) for value in (b"b", b"c"))
        other = producer.send("t", b"d")
        unbegun.cancel()
        asyncio.get_running_loop().call_soon(begun.cancel)
        assert (await other).offset == 3
        await asyncio.wait((begun, unbegun))
        return begun.cancelled(), unbegun.cancelled()

    assert run(broker, settings, work) == (True, True)
    assert values(broker) == [b"a", b"b", b"c", b"d"]


def test_records_wait_for_memory_where_they_are_awaited(broker, settings):
    async def work(producer):
        await producer.send("t", b"")
        large = b"x" * 30_000
        for _ in range(3):
            producer.append("t", large)
        with pytest.raises(BufferFull):
            producer.append("t", large)
        return (await producer.send("t", large)).offset

    offset = run(broker, settings, work, **{"buffer.memory": 100_000})
    assert offset == len(values(broker)) - 1


def test_futures_of_append_are_waited_for_as_any_others(broker, settings):
    async def work(producer):
        await producer.partitions_for("t")
        ways: list[dict[str, Any]] = [{}, {"key": b"k"}, {"headers": [("a", b"b")]}]
        futures = [producer.append("t", b"x", want_future=True, **way) for way in ways]
        sent = [asyncio.create_task(producer.send("t", b"y"))]
        done, _ = await asyncio.wait([*futures, *sent])
        return sorted(future.result().offset for future in done)

    assert run(broker, settings, work) == [0, 1, 2, 3]


# Callbacks


def outcome_of(use: Any) -> list[Any]:
    """Return what `use(future, calls)` has put into `calls` once the loop has run for some iterations."""
    calls: list[Any] = []

    async def main() -> None:
        use(new_future(asyncio.get_running_loop()), calls)
        for _ in range(3):
            await asyncio.sleep(0)

    asyncio.run(main())
    return calls


def add(future: RecordFuture, calls: list[Any], *names: str) -> list[Any]:
    """Add callbacks that put their names into `calls`, and return them."""
    made: list[Any] = [lambda _, name=name: calls.append(name) for name in names]
    for callback in made:
        future.add_done_callback(callback)
    return made


@pytest.mark.parametrize(
    "end",
    [
        lambda future: future.set_result(PLACE),
        lambda future: future.set_exception(OSError()) or future.exception(),
        lambda future: future.cancel(),
    ],
)
def test_callbacks_are_called_once_each_in_their_order_and_later(end):
    def use(future: RecordFuture, calls: list[Any]) -> None:
        add(future, calls, "a", "b", "c")
        end(future)
        assert calls == []
        assert not future.cancel()
        add(future, calls, "d")

    assert outcome_of(use) == ["a", "b", "c", "d"]


def test_a_callback_that_was_removed_is_not_called():
    def use(future: RecordFuture, calls: list[Any]) -> None:
        first, second, third = add(future, calls, "a", "b", "c")
        assert future.remove_done_callback(first) == 1
        assert future.remove_done_callback(first) == 0
        assert future.remove_done_callback(second) == 1
        add(future, calls, "d")
        future.set_result(PLACE)
        assert future.remove_done_callback(third) == 0

    assert outcome_of(use) == ["c", "d"]


def test_the_callbacks_of_a_batch_have_their_contexts_and_one_that_fails_keeps_no_other(
    broker, settings
):
    number: ContextVar[int] = ContextVar("number")
    seen: list[tuple[int, int]] = []
    failures: list[str] = []

    async def work(producer):
        await producer.partitions_for("t")
        await producer.send("t", b"")
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: failures.append(context["message"]))

        def on_done(future: asyncio.Future[RecordMetadata]) -> None:
            seen.append((number.get(), future.result().offset))
            if number.get() == 1:
                raise ValueError

        for i in range(4):
            number.set(i)
            future = producer.append("t", b"x", want_future=True)
            future.add_done_callback(on_done)
            future.add_done_callback(on_done)
            if i == 2:
                assert future.remove_done_callback(on_done) == 2
        await producer.flush()
        await asyncio.sleep(0)

    run(broker, settings, work)
    assert sorted(seen) == [(0, 1), (0, 1), (1, 2), (1, 2), (3, 4), (3, 4)]
    assert [place for place in seen if place[0] == 0] == [(0, 1), (0, 1)]
    assert len(failures) == 2


def test_a_program_that_a_callback_ends_has_the_others_called_afterwards():
    calls: list[str] = []

    async def main(ends: bool) -> None:
        loop = asyncio.get_running_loop()
        futures = [new_future(loop) for _ in range(3)]

        def leave(_: object) -> None:
            raise SystemExit(3)

        futures[0].add_done_callback(leave)
        for name, future in zip("bc", futures[1:], strict=True):
            add(future, calls, name)
        with pytest.raises(SystemExit):
            call_first(futures)
        assert calls == []
        await asyncio.sleep(0)

    asyncio.run(main(True))
    assert calls == ["b", "c"]


@pytest.mark.parametrize("ending", [SystemExit, KeyboardInterrupt, asyncio.CancelledError])
def test_a_record_callback_that_ends_the_program_keeps_none_from_its_outcome(
    broker, settings, ending
):
    calls: list[str] = []
    broker.create("u", 2)

    def leave(_metadata: object, _error: object) -> None:
        raise ending

    async def work(producer):
        await producer.partitions_for("u")
        producer.append("u", b"", partition=0, callback=leave)
        for partition in (0, 1):
            future = producer.append("u", b"", partition=partition, want_future=True)
            add(future, calls, f"u-{partition}")
        await producer.flush()
        await asyncio.sleep(0)

    with suppress(SystemExit, KeyboardInterrupt):
        run(broker, settings, work)
    assert sorted(calls) == ["u-0", "u-1"]


@pytest.mark.parametrize("end", [call_first, lambda futures: futures[0].set_result(PLACE)])
def test_a_future_that_is_kept_keeps_no_context(end):
    held: ContextVar[object] = ContextVar("held")

    class Held:
        pass

    async def main() -> None:
        future = new_future(asyncio.get_running_loop())
        value = Held()
        alive = weakref.ref(value)
        context = copy_context()
        context.run(held.set, value)
        future.add_done_callback(lambda _: None, context=context)
        del value, context
        if end is call_first:
            asyncio.Future.set_result(future, PLACE)
        end([future])
        await asyncio.sleep(0)
        assert future.result() == PLACE
        assert alive() is None

    asyncio.run(main())


@pytest.mark.parametrize("acks", ["all", "0"])
def test_the_callbacks_of_futures_are_called_before_a_flush_returns(broker, settings, acks):
    calls: list[str] = []

    async def work(producer):
        await producer.partitions_for("t")
        for _ in range(2):
            add(producer.append("t", b"", want_future=True), calls, "a", "b")
            await producer.flush()
            calls.append("flushed")

    run(broker, settings, work, **{"acks": acks, "enable.idempotence": acks != "0"})
    assert calls == ["a", "b", "flushed"] * 2


def test_a_commit_that_waits_for_a_topic_ends_when_the_producer_is_closed(broker, settings):
    async def work(producer):
        await producer.init_transactions()
        producer.begin_transaction()
        producer.append("unknown", b"", callback=lambda *_: None)
        commit = asyncio.create_task(producer.commit_transaction())
        for _ in range(5):
            await asyncio.sleep(0)
        with suppress(Exception):
            await producer.close(0)
        with pytest.raises((KafkaError, OSError, RuntimeError)):
            await commit

    run(broker, settings, work, **{"transactional.id": "x"})
