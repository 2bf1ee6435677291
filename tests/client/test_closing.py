"""Closing a client ends the calls that wait in it: of other tasks, of other threads, of its own callbacks."""

import asyncio
import gc
import threading
from typing import Any

import pytest

from kavka.client import (
    Admin,
    Consumer,
    GroupMetadata,
    NewTopic,
    Producer,
    TopicPartition,
    blocking,
)
from kavka.client.consumer import RebalanceListener
from kavka.wire.apis import ApiKey
from support.faults import NO_RESPONSE
from support.waiting import until

AT = TopicPartition("t", 0)
IN_A_GROUP = {"group.id": "g", "enable.auto.commit": False}
SMALL = {"batch.size": 200, "buffer.memory": 400, "linger.ms": 0}


def silence(broker, api):
    """Let requests of an API go without a response; return the event of the first one."""
    requested = threading.Event()
    mute(broker, api, requested)
    return requested


def mute(broker, api, requested):
    def no_response(request):
        requested.set()
        return NO_RESPONSE

    broker.responses[ApiKey[api.upper()]] = no_response


def subscribed(consumer):
    consumer.subscribe(["t"])
    consumer.poll(60_000)


def polling(consumer):
    consumer.assign([AT])
    consumer.poll(60_000)


def iterating(consumer):
    consumer.assign([AT])
    next(consumer)


def positioned(consumer):
    consumer.assign([AT])
    consumer.position(AT)


CONSUMER_CALLS = [
    ("join_group", subscribed),
    ("fetch", polling),
    ("fetch", iterating),
    ("list_offsets", polling),
    ("list_offsets", positioned),
    ("list_offsets", lambda consumer: consumer.end_offsets([AT])),
    ("offset_fetch", lambda consumer: consumer.committed([AT])),
    ("offset_commit", lambda consumer: consumer.commit({AT: 1})),
    ("find_coordinator", lambda consumer: consumer.commit({AT: 1})),
]


class Calling(threading.Thread):
    """A thread that makes one call, and keeps what the call raised."""

    def __init__(self, call):
        super().__init__(daemon=True)
        self.call = call
        self.outcome = None
        self.start()

    def run(self):
        try:
            self.outcome = self.call()
        except (RuntimeError, OSError) as error:
            self.outcome = error


def ended(thread):
    thread.join(20)
    assert not thread.is_alive(), "the call waits without end"
    return thread.outcome


def refused(outcome, client):
    assert isinstance(outcome, RuntimeError), outcome
    assert str(outcome) == f"the {client} is closed"


@pytest.mark.timeout(60)
@pytest.mark.parametrize(("api", "call"), CONSUMER_CALLS)
def test_closing_a_consumer_ends_the_calls_of_other_threads(broker, settings, api, call):
    requested = silence(broker, api)
    consumer = blocking.Consumer(settings | IN_A_GROUP, network=broker)
    waiting = Calling(lambda: call(consumer))
    assert requested.wait(20)
    consumer.close()
    refused(ended(waiting), "consumer")
    with pytest.raises(RuntimeError, match="the consumer is closed"):
        call(consumer)


@pytest.mark.timeout(60)
def test_closing_an_admin_client_ends_the_calls_of_other_threads(broker, settings):
    requested = silence(broker, "create_topics")
    admin = blocking.Admin(settings, network=broker)
    waiting = Calling(lambda: admin.create_topics([NewTopic("new", 1, 1)]))
    assert requested.wait(20)
    admin.close()
    refused(ended(waiting), "admin")


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "call",
    [
        lambda producer: producer.send("unknown", b""),
        lambda producer: producer.send_many("unknown", [(None, b"")]),
        lambda producer: producer.partitions_for("unknown"),
    ],
)
def test_closing_a_producer_ends_waits_for_a_topic(broker, settings, call):
    requested = threading.Event()
    respond = broker.respond

    def note_metadata(host, key, request):
        is_asked = key is ApiKey.METADATA and "unknown" in {t.name for t in request.topics or ()}
        if is_asked:
            requested.set()
        return respond(host, key, request)

    broker.respond = note_metadata
    producer = blocking.Producer(settings, network=broker)
    waiting = Calling(lambda: call(producer))
    assert requested.wait(20)
    producer.close()
    refused(ended(waiting), "producer")


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "call",
    [
        lambda producer: producer.send("t", b""),
        lambda producer: producer.append("t", b"", want_future=True).result(),
        lambda producer: producer.send_many("t", [(None, b"")]),
        lambda producer: (producer.append("t", b""), producer.flush()),
    ],
)
def test_closing_a_producer_in_time_ends_waits_for_records(broker, settings, call):
    requested = silence(broker, "produce")
    producer = blocking.Producer(settings, network=broker)
    waiting = Calling(lambda: call(producer))
    assert requested.wait(20)
    closing = Calling(lambda: producer.close(timeout_ms=0))
    # The failure of a record without a future is raised once: by the flush, or by the close.
    outcomes = [ended(thread) for thread in (closing, waiting)]
    assert "the producer was closed before the record was sent" in str(outcomes)
    assert any(isinstance(outcome, ConnectionError) for outcome in outcomes)


@pytest.mark.timeout(60)
def test_closing_a_producer_ends_a_wait_for_memory(broker, settings, monkeypatch):
    monkeypatch.setattr("kavka.client.blocking.producer._MAX_QUEUED", 4)
    requested = silence(broker, "produce")
    producer = blocking.Producer(settings | SMALL, network=broker)

    def append():
        while True:
            producer.append("t", b"x" * 100)

    waiting = Calling(append)
    assert requested.wait(20)
    while len(producer._queued) < 4:  # the thread appends until it has to wait
        producer.waiting_records()
    with pytest.raises(ConnectionError, match="the producer was closed"):
        producer.close(timeout_ms=0)
    refused(ended(waiting), "producer")


@pytest.mark.timeout(60)
def test_a_record_that_is_appended_behind_the_end_of_the_thread_fails(broker, settings, caplog):
    producer = blocking.Producer(settings, network=broker)
    thread = producer._thread
    producer.close()
    # As a caller that looked before the end:
    producer._require_thread = lambda: thread  # type: ignore[assignment, method-assign, return-value]
    future = producer.append("t", b"", want_future=True)
    with pytest.raises(RuntimeError, match="the producer is closed"):
        future.result(20)
    producer.append("t", b"")
    assert "record not sent topic=t reason=the producer is closed" in caplog.text


@pytest.mark.timeout(60)
@pytest.mark.parametrize("api", ["init_producer_id", "end_txn", "txn_offset_commit"])
def test_closing_a_producer_ends_the_calls_of_its_transactions(broker, settings, api):
    requested = silence(broker, api)
    producer = blocking.Producer(settings | {"transactional.id": "x"}, network=broker)

    def work():
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("t", b"")
        producer.send_offsets_to_transaction({AT: 1}, GroupMetadata("g"))
        producer.commit_transaction()

    waiting = Calling(work)
    assert requested.wait(20)
    producer.close(timeout_ms=0)
    refused(ended(waiting), "producer")


def test_a_closed_producer_refuses_the_end_of_a_transaction(broker, settings, recwarn):
    producer = blocking.Producer(settings | {"transactional.id": "x"}, network=broker)
    producer.close()
    for call in (producer.commit_transaction, producer.abort_transaction):
        with pytest.raises(RuntimeError, match="the producer is closed"):
            call()
    gc.collect()
    assert not recwarn.list  # of a coroutine that was never awaited


@pytest.mark.slow
@pytest.mark.timeout(60)
def test_a_producer_is_closed_although_other_threads_go_on_appending(broker, settings):
    producer = blocking.Producer(settings, network=broker)

    def append():
        while True:
            producer.append("t", b"")

    appending = Calling(append)
    broker.until(lambda: broker.seen(ApiKey.PRODUCE))
    assert ended(Calling(producer.close)) is None
    refused(ended(appending), "producer")


@pytest.mark.timeout(60)
def test_no_call_begins_while_another_thread_closes(broker, settings):
    has_begun, release = threading.Event(), threading.Event()
    positions = []

    class Slow(RebalanceListener):
        def on_revoked(self, partitions):
            positions.append(consumer.position(AT))  # a listener is part of the close
            has_begun.set()
            release.wait(20)

    consumer = blocking.Consumer(settings | IN_A_GROUP, network=broker)
    consumer.subscribe(["t"], listener=Slow())
    while not consumer.assignment():
        consumer.poll(100)
    closing = Calling(consumer.close)
    assert has_begun.wait(20)
    with pytest.raises(RuntimeError, match="the consumer is closed"):
        consumer.assignment()
    release.set()
    assert ended(closing) is None
    assert positions == [0]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("is_in_time", [False, True])
def test_a_second_close_waits_for_the_first(broker, settings, is_in_time):
    events = []
    has_begun, release = threading.Event(), threading.Event()

    class Slow(RebalanceListener):
        def on_revoked(self, partitions):
            has_begun.set()
            release.wait(20)
            events.append("revoked")

    consumer = blocking.Consumer(settings | IN_A_GROUP, network=broker)
    consumer.subscribe(["t"], listener=Slow())
    while not consumer.assignment():
        consumer.poll(100)
    first = Calling(consumer.close)
    assert has_begun.wait(20)
    if is_in_time:
        consumer.close(timeout_ms=0)
        events.append("second in time")

    def close_again():
        consumer.close()
        events.append("second")

    second = Calling(close_again)
    release.set()
    ended(first)
    ended(second)
    assert events == [*["second in time"] * is_in_time, "revoked", "second"]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("call", [lambda consumer: consumer.poll(60_000), next])
def test_a_listener_closes_its_consumer(broker, settings, call):
    events: list[Any] = []

    class Closing(RebalanceListener):
        def on_assigned(self, partitions):
            consumer.close()
            events.append("closed")

    consumer = blocking.Consumer(settings | IN_A_GROUP, network=broker)
    consumer.subscribe(["t"], listener=Closing())
    refused(ended(Calling(lambda: call(consumer))), "consumer")
    assert events == ["closed"]
    assert broker.seen(ApiKey.LEAVE_GROUP)


@pytest.mark.timeout(60)
def test_a_call_that_ignores_its_end_keeps_no_thread_waiting(broker, settings, monkeypatch):
    monkeypatch.setattr("kavka.client.blocking.loop_thread._END_S", 0.01)
    consumer = blocking.Consumer(settings, network=broker)
    thread, has_begun = consumer._thread, threading.Event()

    async def ignore():
        asyncio.current_task()._log_destroy_pending = False
        while True:
            try:
                has_begun.set()
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                continue

    waiting = Calling(lambda: thread.run(ignore))
    assert has_begun.wait(20)
    consumer.close()
    refused(ended(waiting), "consumer")
    refused(ended(Calling(lambda: thread.call(print))), "consumer")


# The asynchronous clients


def closed_while_waiting(broker, api, make, call, **options):
    """Return what a task's call raises while another task closes the client."""

    async def main():
        requested = asyncio.Event()
        mute(broker, api, requested)
        client = make()
        await client.start()
        waiting = asyncio.create_task(call(client))
        await requested.wait()
        await client.close(**options)
        async with asyncio.timeout(20):
            return (await asyncio.gather(waiting, return_exceptions=True))[0]

    return asyncio.run(main())


async def join(consumer):
    consumer.subscribe(["t"])
    await consumer.poll(60_000)


async def read(consumer):
    consumer.assign([AT])
    await consumer.poll(60_000)


async def iterate(consumer):
    consumer.assign([AT])
    async for _ in consumer:
        pass


@pytest.mark.parametrize(
    ("api", "call"),
    [
        ("join_group", join),
        ("fetch", read),
        ("fetch", iterate),
        ("list_offsets", lambda consumer: consumer.end_offsets([AT])),
        ("offset_commit", lambda consumer: consumer.commit({AT: 1})),
    ],
)
def test_closing_a_consumer_ends_the_calls_of_other_tasks(broker, settings, api, call):
    def make():
        return Consumer(settings | IN_A_GROUP, network=broker)

    refused(closed_while_waiting(broker, api, make, call), "consumer")


def test_closing_an_admin_client_ends_the_calls_of_other_tasks(broker, settings):
    def make():
        return Admin(settings, network=broker)

    async def call(admin):
        await admin.create_topics([NewTopic("new", 1, 1)])

    refused(closed_while_waiting(broker, "create_topics", make, call), "admin")


def test_closing_a_producer_ends_its_transactions(broker, settings):
    def make():
        return Producer(settings | {"transactional.id": "x"}, network=broker)

    async def call(producer):
        await producer.init_transactions()

    outcome = closed_while_waiting(broker, "init_producer_id", make, call, timeout_ms=0)
    refused(outcome, "producer")


def test_a_call_that_is_cancelled_while_its_client_closes_is_cancelled(broker, settings):
    async def main():
        async with Consumer(settings, network=broker) as consumer:
            consumer.assign([AT])
            polling = asyncio.create_task(consumer.poll(60_000))
            await asyncio.sleep(0)
            polling.cancel()
            await consumer.close()
            with pytest.raises(asyncio.CancelledError):
                await polling

    asyncio.run(main())


def test_a_listener_closes_its_asynchronous_consumer(broker, settings):
    async def main():
        consumer = Consumer(settings | IN_A_GROUP, network=broker)

        class Closing(RebalanceListener):
            async def on_assigned(self, partitions):
                await consumer.close()

        async with consumer:
            consumer.subscribe(["t"], listener=Closing())
            with pytest.raises(RuntimeError, match="the consumer is closed"):
                await consumer.poll(60_000)
        assert (
            len(broker.seen(ApiKey.JOIN_GROUP)) == 2
        )  # without an id and with it, and not once more

    asyncio.run(main())


@pytest.mark.parametrize("end", ["unsubscribe", "poll", "close"])
def test_a_listener_that_unsubscribes_is_called_once(broker, settings, end):
    events: list[Any] = []

    async def main():
        consumer = Consumer(settings | IN_A_GROUP, network=broker)

        class Unsubscribing(RebalanceListener):
            async def on_revoked(self, partitions):
                events.append(list(partitions))
                await consumer.unsubscribe()

        async with consumer:
            consumer.subscribe(["t"], listener=Unsubscribing())
            while not consumer.assignment():
                await consumer.poll(100)
            events.append(consumer.assignment())
            if end == "poll":
                consumer._coordinator.request_rejoin("the test says so")
                await consumer.poll(0)
            else:
                await getattr(consumer, end)()
            assert end == "close" or consumer.subscription() == []

    asyncio.run(main())
    assert len(events) == 2
    assert events[0] == events[1]
    assert len(broker.seen(ApiKey.LEAVE_GROUP)) == 1


@pytest.mark.slow
def test_a_poll_that_joins_goes_on_when_another_task_unsubscribes(broker, settings):
    mute(broker, "join_group", threading.Event())

    async def main():
        async with Consumer(settings | IN_A_GROUP, network=broker) as consumer:
            consumer.subscribe(["t"])
            polling = asyncio.create_task(consumer.poll(60_000))
            await until(lambda: broker.seen(ApiKey.JOIN_GROUP))
            await consumer.unsubscribe()
            consumer.assign([AT])
            await until(lambda: broker.seen(ApiKey.FETCH))
        with pytest.raises(RuntimeError, match="the consumer is closed"):
            await polling

    asyncio.run(main())
