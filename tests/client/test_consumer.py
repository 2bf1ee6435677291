import asyncio
from typing import Any

import pytest

from kavka.client import TopicPartition
from kavka.errors import ErrorCode, KafkaError
from kavka.wire.apis import ApiKey
from support.faults import LOSE_REQUEST
from support.reading import AT, fill, offsets, poll_until, read, run
from support.waiting import until


def test_everything_is_read_in_order(broker, settings):
    fill(broker, settings, 1000, **{"batch.size": 500})

    async def work(consumer):
        consumer.assign([AT])
        records = await read(consumer, 1000)
        return records, await consumer.position(AT), consumer.lag(AT)

    records, position, lag = run(broker, settings, work)
    assert [(r.offset, r.key, r.value) for r in records] == [
        (i, b"k", b"%d" % i) for i in range(1000)
    ]
    assert (position, lag) == (1000, 0)


def test_calls_side_by_side_share_the_join_and_the_lookups(broker, settings):
    fill(broker, settings, 2)

    async def work(consumer):
        consumer.subscribe(["t"])
        polls = [consumer.poll(60_000, max_records=1) for _ in range(2)]
        found = await asyncio.gather(*polls)
        consumer.seek_to_beginning()
        positions = [consumer.position(AT) for _ in range(3)]
        return sorted(offsets(one)[0] for one in found), await asyncio.gather(*positions)

    assert run(broker, settings, work, **{"group.id": "g"}) == ([0, 1], [0, 0, 0])


PATIENT = {"retry.backoff.ms": 60_000, "retry.backoff.max.ms": 60_000}


def test_a_consumer_that_has_just_started_looks_offsets_up_without_a_back_off(broker, settings):
    fill(broker, settings, 3)

    async def work(consumer):
        consumer.assign([AT])
        async with asyncio.timeout(20):
            return await consumer.end_offsets([AT])

    assert run(broker, settings, work, **PATIENT) == {AT: 3}


def test_a_consumer_that_has_just_started_reads_from_the_beginning_without_a_back_off(
    broker, settings
):
    fill(broker, settings, 3)

    async def work(consumer):
        consumer.assign([AT])
        async with asyncio.timeout(20):
            return await read(consumer, 3)

    assert len(run(broker, settings, work, **PATIENT)) == 3


def test_a_poll_returns_no_more_records_than_asked_for_and_cuts_batches(broker, settings):
    fill(broker, settings, 100)

    async def work(consumer):
        consumer.assign([AT])
        found: list[Any] = []
        while len(found) < 100:
            batches = await consumer.poll(1000, max_records=7)
            assert sum(len(b) for b in batches) <= 7
            assert sum(b.columns().count for b in batches) == sum(len(b) for b in batches)
            assert sum(b.to_arrow().num_rows for b in batches) == sum(len(b) for b in batches)
            found += offsets(batches)
        return found

    assert run(broker, settings, work) == list(range(100))


def test_a_response_to_what_a_partition_wanted_in_an_earlier_assignment_is_dropped(
    broker, settings
):
    fill(broker, settings, 8, **{"batch.size": 0})

    async def work(consumer):
        consumer.assign([AT])
        consumer.seek(AT, 0)
        assert await consumer.poll(1000)
        asked = len(broker.seen(ApiKey.FETCH))
        for _ in range(100):
            if len(broker.seen(ApiKey.FETCH)) > asked:
                break
            await asyncio.sleep(0)
        consumer.assign([])  # the response is on its way
        consumer.assign([AT])
        consumer.seek(AT, 0)
        return await read(consumer, 8)

    async def in_time(consumer):
        return await asyncio.wait_for(work(consumer), 60)

    records = run(broker, settings, in_time)
    assert [record.offset for record in records] == list(range(8))


def test_columns_and_arrow_say_what_records_say(broker, settings):
    fill(broker, settings, 50, **{"compression.type": "zstd"})

    async def work(consumer):
        consumer.assign([AT])
        consumer.seek(AT, 3)
        (batches,) = await consumer.poll(1000, max_records=20)
        columns, arrow = batches.columns(), batches.to_arrow()
        records = batches.records()
        assert [columns.value.row(i) for i in range(columns.count)] == [r.value for r in records]
        assert arrow.column("value").to_pylist() == [r.value for r in records]
        assert arrow.column("offset").to_pylist() == list(range(3, 23))

    run(broker, settings, work)


def test_iteration_gives_records_and_leaving_it_loses_none(broker, settings):
    fill(broker, settings, 30)

    async def work(consumer):
        consumer.assign([AT])
        found = []
        async for record in consumer:
            found.append(record.offset)
            if len(found) == 10:
                break
        assert await consumer.position(AT) == 10
        return found + [r.offset for r in await read(consumer, 20)]

    assert run(broker, settings, work) == list(range(30))


def test_seeking_goes_anywhere(broker, settings):
    fill(broker, settings, 20)

    async def work(consumer):
        consumer.assign([AT])
        consumer.seek(AT, 15)
        assert offsets(await consumer.poll(1000)) == [15, 16, 17, 18, 19]
        consumer.seek_to_beginning()
        assert await consumer.position(AT) == 0
        assert len(offsets(await consumer.poll(1000))) == 20
        consumer.seek_to_end()
        assert await consumer.position(AT) == 20
        with pytest.raises(ValueError, match="negative"):
            consumer.seek(AT, -1)
        with pytest.raises(ValueError, match="t-9 is not assigned"):
            consumer.seek(TopicPartition("t", 9), 0)

    run(broker, settings, work)


def test_a_paused_partition_gives_nothing_until_it_is_resumed(broker, settings):
    fill(broker, settings, 5)

    async def work(consumer):
        consumer.assign([AT])
        consumer.pause([AT])
        assert await consumer.poll(30) == []
        assert consumer.paused() == [AT]
        consumer.resume([AT])
        assert len(await read(consumer, 5)) == 5

    run(broker, settings, work)


def test_an_offset_out_of_range_is_reset_by_policy_or_raised(broker, settings):
    fill(broker, settings, 5)

    async def work(consumer):
        consumer.assign([AT])
        consumer.seek(AT, 99)
        assert [r.offset for r in await read(consumer, 5)] == [0, 1, 2, 3, 4]

    run(broker, settings, work)

    async def refuse(consumer):
        consumer.assign([AT])
        consumer.seek(AT, 99)
        with pytest.raises(KafkaError, match="99 is out of range for partition t-0"):
            await consumer.poll(1000)

    run(broker, settings, refuse, **{"auto.offset.reset": "none"})


def test_without_an_offset_and_a_policy_a_poll_raises(broker, settings):
    async def work(consumer):
        consumer.assign([AT])
        with pytest.raises(KafkaError, match="no reset policy"):
            await consumer.poll(1000)

    run(broker, settings, work, **{"auto.offset.reset": "none", "group.id": "g"})


@pytest.mark.parametrize(
    "fault", [LOSE_REQUEST, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_SERVER_ERROR]
)
def test_fetches_are_repeated_after_faults(broker, settings, fault):
    fill(broker, settings, 300, **{"batch.size": 200})
    broker.faults[ApiKey.FETCH].extend([fault, None, fault, fault])

    async def work(consumer):
        consumer.assign([AT])
        return [r.offset for r in await read(consumer, 300)]

    assert run(broker, settings, work) == list(range(300))


def test_corrupt_data_is_an_error_that_names_the_place(broker, settings):
    fill(broker, settings, 5)
    broker.replace_records(lambda records: records[:70] + b"\xff" + records[71:])

    async def work(consumer):
        consumer.assign([AT])
        (batches,) = await consumer.poll(1000)
        with pytest.raises(KafkaError, match="t-0 at offset 0 is invalid"):
            batches.records()
        with pytest.raises(KafkaError, match="t-0 at offset 0 is invalid"):
            batches.columns()

    run(broker, settings, work)


def test_deserializers_are_applied_to_records(broker, settings):
    fill(broker, settings, 2)

    async def work(consumer):
        consumer.assign([AT])
        return [(r.key, r.value) for r in await read(consumer, 2)]

    more = {"key.deserializer": bytes.decode, "value.deserializer": int}
    assert run(broker, settings, work, **more) == [("k", 0), ("k", 1)]


def test_a_partition_without_a_position_does_not_hold_up_the_others(broker, settings):
    fill(broker, settings, 3)

    async def work(consumer):
        consumer.assign([AT, TopicPartition("nowhere", 0)])
        consumer.seek(AT, 0)
        return await asyncio.wait_for(consumer.poll(60_000), 60)

    assert offsets(run(broker, settings, work)) == [0, 1, 2]


def test_a_refusal_that_repeats_is_raised_once(broker, settings):
    fill(broker, settings, 3)
    broker.faults[ApiKey.FETCH].extend([ErrorCode.TOPIC_AUTHORIZATION_FAILED] * 3)

    async def work(consumer):
        consumer.assign([AT])
        consumer.seek(AT, 0)
        await consumer.poll(0)
        await until(lambda: len(broker.seen(ApiKey.FETCH)) > 3)
        with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED"):
            await consumer.poll(1000)
        return await consumer.poll(1000)

    assert offsets(run(broker, settings, work)) == [0, 1, 2]


def test_a_pattern_takes_topics_that_appear_later(broker, settings):
    async def work(consumer):
        consumer.subscribe(pattern="u.*")
        assert await consumer.poll(30) == []
        broker.create("u1")
        await poll_until(consumer, consumer.assignment)
        return consumer.assignment()

    more = {"group.id": "g", "metadata.max.age.ms": 20}
    assert run(broker, settings, work, **more) == [TopicPartition("u1", 0)]


def test_subscribing_and_assigning_exclude_each_other(broker, settings):
    async def work(consumer):
        consumer.assign([AT])
        with pytest.raises(RuntimeError, match="mutually exclusive"):
            consumer.subscribe(["t"])

    run(broker, settings, work, **{"group.id": "g"})

    async def without_group(consumer):
        with pytest.raises(RuntimeError, match=r"group\.id"):
            consumer.subscribe(["t"])
        with pytest.raises(RuntimeError, match=r"group\.id"):
            await consumer.commit()

    run(broker, settings, without_group)


def test_an_interceptor_that_raises_is_logged_and_loses_no_record(broker, settings, caplog):
    fill(broker, settings, 5)

    class Failing:
        def on_consume(self, batches):
            raise RuntimeError("the interceptor's own mistake")

        def on_commit(self, offsets):
            raise RuntimeError("the interceptor's own mistake")

    async def work(consumer):
        consumer.assign([AT])
        assert len(await read(consumer, 5)) == 5
        await consumer.commit()

    run(broker, settings, work, **{"group.id": "g", "interceptor.classes": [Failing()]})
    assert broker.committed == {("t", 0): 5}
    assert "interceptor failed in on_consume" in caplog.text
    assert "interceptor failed in on_commit" in caplog.text


REFUSED = pytest.mark.parametrize(
    ("code", "words"),
    [
        (ErrorCode.INVALID_TOPIC_EXCEPTION, r"Invalid topics: \[no\?, none\?\]"),
        (
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            r"Not authorized to access topics: \[no\?, none\?\]",
        ),
    ],
)


@REFUSED
def test_a_topic_that_no_waiting_makes_readable_raises_from_poll(broker, settings, code, words):
    broker.refuse_topics({"no?": code, "none?": code})

    async def work(consumer):
        consumer.subscribe(["t", "no?", "none?"])
        async with asyncio.timeout(60):
            with pytest.raises(KafkaError, match=words) as refused:
                await consumer.poll(60_000)
        return refused.value.code

    assert run(broker, settings, work, **{"group.id": "g"}) is code


@REFUSED
def test_an_assigned_topic_that_is_refused_raises_from_poll(broker, settings, code, words):
    broker.refuse_topics({"no?": code, "none?": code})

    async def work(consumer):
        consumer.assign([TopicPartition("no?", 0), TopicPartition("none?", 0)])
        async with asyncio.timeout(60):
            with pytest.raises(KafkaError, match=words):
                await consumer.poll(60_000)

    run(broker, settings, work)


@pytest.mark.slow
def test_after_a_refused_topic_is_given_up_the_others_are_read(broker, settings):
    fill(broker, settings, 3)
    broker.refuse_topics({"no?": ErrorCode.INVALID_TOPIC_EXCEPTION})

    async def work(consumer):
        consumer.subscribe(["no?"])
        with pytest.raises(KafkaError, match="Invalid topics"):
            await consumer.poll(60_000)
        consumer.subscribe(["t"])
        async with asyncio.timeout(60):
            return await read(consumer, 3)

    records = run(broker, settings, work, **{"group.id": "g"})
    assert [record.offset for record in records] == [0, 1, 2]


@pytest.mark.parametrize("name", ["", " "])
def test_an_empty_topic_name_is_refused_at_once(broker, settings, name):
    async def work(consumer):
        with pytest.raises(ValueError, match="cannot contain null or empty topic"):
            consumer.subscribe(["t", name])
        assert consumer.subscription() == []
        consumer.assign([AT])  # no mode was taken

    run(broker, settings, work, **{"group.id": "g"})
