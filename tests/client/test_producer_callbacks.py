"""Interceptors, serializers and delivery callbacks of a producer: called once, in their order, also when they raise."""

import asyncio
from typing import Any

import pytest

from kavka.client import Producer
from kavka.errors import ErrorCode, KafkaError
from kavka.wire.apis import ApiKey
from support.writing import run, values


def test_a_callback_that_raises_prevents_no_other_callback(broker, settings, caplog):
    called = []

    def fail(metadata, error):
        raise RuntimeError("the user's own mistake")

    async def work(producer):
        producer.append("t", b"a", callback=fail)
        producer.append("t", b"b", callback=lambda metadata, error: called.append(metadata.offset))
        await producer.flush(5000)
        return await producer.send("t", b"c")

    assert run(broker, settings, work).offset == 2
    assert called == [1]
    assert "callback of a record failed" in caplog.text


def test_serializers_interceptors_and_callbacks_are_called_in_their_order(broker, settings):
    called = []

    class Interceptor:
        def on_send(self, record):
            return record._replace(value=record.value.upper())

        def on_acknowledgement(self, metadata, error):
            called.append(("interceptor", metadata.offset, error))

    async def work(producer):
        producer.append("t", "a", "k", callback=lambda m, e: called.append(("user", m.offset, e)))
        await producer.flush()

    more = {
        "key.serializer": str.encode,
        "value.serializer": str.encode,
        "interceptor.classes": [Interceptor()],
    }
    run(broker, settings, work, **more)
    assert broker.records("t") == [(0, b"k", b"A")]
    assert called == [("interceptor", 0, None), ("user", 0, None)]


class Counting:
    """An interceptor that keeps what it sees."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.acknowledged: list[Any] = []

    def on_send(self, record):
        self.sent.append(record.value)
        return record

    def on_acknowledgement(self, metadata, error):
        self.acknowledged.append(error or metadata.offset)


class Failing:
    """An interceptor that always raises."""

    def on_send(self, record):
        raise RuntimeError("the interceptor's own mistake")

    def on_acknowledgement(self, metadata, error):
        raise RuntimeError("the interceptor's own mistake")


def test_interceptors_learn_of_every_record_of_many_and_of_a_table(broker, settings):
    import pyarrow as pa

    seen = Counting()

    async def work(producer):
        await producer.send_many("t", [(None, b"a"), (b"k", b"b")])
        await producer.send_table("t", pa.table({"value": [b"c", b"d"]}))
        broker.faults[ApiKey.PRODUCE].append(ErrorCode.INVALID_RECORD)
        with pytest.raises(KafkaError, match="INVALID_RECORD"):
            await producer.send_many("t", [(None, b"e")])

    run(broker, settings, work, **{"interceptor.classes": [seen]})
    assert seen.sent == [b"a", b"b", b"e"]
    assert seen.acknowledged[:4] == [0, 1, 2, 3]
    assert [error.code for error in seen.acknowledged[4:]] == [ErrorCode.INVALID_RECORD]


def test_a_record_is_prepared_once_however_long_it_waits_for_room(broker, settings):
    seen, serialized = Counting(), []

    def serialize(value):
        serialized.append(value)
        return value

    async def work(producer):
        await producer.send_many("t", [(None, b"%0900d" % i) for i in range(50)])
        await asyncio.gather(*(producer.send("t", b"%0900d" % i) for i in range(50, 80)))

    more = {"buffer.memory": 4000, "batch.size": 1000, "value.serializer": serialize}
    run(broker, settings, work, **more, **{"interceptor.classes": [seen]})
    given = [b"%0900d" % i for i in range(80)]
    assert seen.sent == serialized == given
    assert sorted(values(broker)) == given
    assert values(broker)[:50] == given[:50]
    assert sorted(seen.acknowledged) == list(range(80))


def test_many_records_go_where_an_interceptor_sends_them(broker, settings):
    broker.create("other")

    class Moving(Counting):
        def on_send(self, record):
            return record._replace(topic="other") if record.value == b"b" else record

    async def work(producer):
        return await producer.send_many("t", [(None, b"a"), (None, b"b"), (None, b"c")])

    run(broker, settings, work, **{"interceptor.classes": [Moving()]})
    assert (values(broker), values(broker, "other")) == ([b"a", b"c"], [b"b"])


def test_an_interceptor_that_raises_is_logged_and_the_record_goes_on(broker, settings, caplog):
    seen = Counting()

    async def work(producer):
        await producer.send("t", b"a")
        await producer.send_many("t", [(None, b"b")])

    run(broker, settings, work, **{"interceptor.classes": [Failing(), seen]})
    assert values(broker) == [b"a", b"b"]
    assert seen.acknowledged == [0, 1]
    assert "interceptor failed in on_send topic=t" in caplog.text


def test_a_failure_that_only_interceptors_learn_of_is_raised_by_flush(broker, settings):
    broker.faults[ApiKey.PRODUCE].append(ErrorCode.INVALID_RECORD)

    async def work(producer):
        producer.append("t", b"a")
        with pytest.raises(KafkaError, match="INVALID_RECORD"):
            await producer.flush()

    run(broker, settings, work, **{"interceptor.classes": [Counting()]})


def test_a_callback_is_called_once_for_a_record_that_append_refuses(broker, settings):
    errors, seen = [], []

    class Interceptor:
        def on_send(self, record):
            return record

        def on_acknowledgement(self, metadata, error):
            seen.append(error)

    async def work(producer):
        await producer.send("t", b"")
        wrong = [("t", "text", {}), ("t", b"", {"partition": 5}), ("t", b"x" * 2_000_000, {})]
        for topic, value, options in wrong:
            for want_future in (False, True):
                with pytest.raises((TypeError, ValueError, KafkaError)):
                    producer.append(
                        topic,
                        value,
                        callback=lambda _, error: errors.append(error),
                        want_future=want_future,
                        **options,
                    )
            with pytest.raises((TypeError, ValueError, KafkaError)):
                await producer.send(topic, value, **options)
        await producer.flush()

    run(broker, settings, work, **{"interceptor.classes": [Interceptor()]})
    assert [type(error) for error in errors] == [
        TypeError, TypeError, ValueError, ValueError, KafkaError, KafkaError
    ]  # fmt: skip
    assert len(seen) == 1 + 9


def test_a_callback_of_a_record_with_a_future_has_returned_when_flush_does(broker, settings):
    called = []

    async def work(producer):
        await producer.send("t", b"")
        for _ in range(5):
            producer.append(
                "t", b"", want_future=True, callback=lambda _, error: called.append(error)
            )
        await producer.flush()
        assert called == [None] * 5

    run(broker, settings, work)


def test_futures_stand_for_their_records_among_others(broker, settings):
    async def work(producer):
        await producer.partitions_for("t")
        producer.append("t", b"first")  # opens a batch, which the short way of the next ones needs
        futures = [
            producer.append("t", b"plain", want_future=True),
            producer.append("t", b"keyed", b"k", want_future=True),
            producer.append("t", b"headed", headers=[("h", b"1")], want_future=True),
            producer.append("t", b"last", want_future=True),
        ]
        assert producer.append("t", b"none", want_future=False) is None
        await producer.flush()
        return [future.result() for future in futures]

    found = run(broker, settings, work)
    assert [one.offset for one in found] == [1, 2, 3, 4]
    assert values(broker) == [b"first", b"plain", b"keyed", b"headed", b"last", b"none"]


def test_a_future_is_not_given_by_a_closed_producer(broker, settings):
    async def work(producer):
        await producer.send("t", b"a")
        await producer.close()
        with pytest.raises(RuntimeError, match="not open"):
            producer.append("t", b"b", want_future=True)

    run(broker, settings, work)


def test_records_of_an_unknown_topic_count_as_unsent_when_it_is_closed(broker, settings, caplog):
    async def work():
        producer = Producer(settings, network=broker)
        await producer.start()
        futures = [producer.append("unknown", b"x", want_future=True) for _ in range(3)]
        await producer.close(timeout_ms=0)
        return await asyncio.gather(*filter(None, futures), return_exceptions=True)

    failures = asyncio.run(work())
    assert [type(failure) for failure in failures] == [ConnectionError] * 3
    assert "producer closed before all was sent records=3" in caplog.text
