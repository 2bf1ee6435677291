"""Clients of three nodes whose leaders, coordinator and controller move."""

import asyncio
import itertools
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kavka.client import Admin, Consumer, NewTopic, Producer, TopicPartition
from kavka.errors import ErrorCode, KafkaError
from kavka.wire.apis import ApiKey
from support.faults import LOSE_REQUEST, LOSE_RESPONSE
from support.moving_leaders import MovingLeaders, host_of, node_of
from support.waiting import until

AT = TopicPartition("t", 0)
OTHER = TopicPartition("two", 1)
SLOW = {"retry.backoff.ms": 60_000, "retry.backoff.max.ms": 60_000}
"""With these, nothing that waits for a back-off ends in time."""


@pytest.fixture
def three(tmp_path: Path) -> Iterator[MovingLeaders]:
    """Three brokers; the first leads `t`."""
    made = MovingLeaders(tmp_path / "data", 3)
    made.create("t")
    yield made
    made.close()


def throttled(response):
    response.throttle_time_ms = 80
    return response


def with_producer(broker, settings, work, **more):
    async def main():
        async with Producer(settings | more, network=broker) as producer:
            return await asyncio.wait_for(work(producer), 60)

    return asyncio.run(main())


def with_consumer(broker, settings, work, **more):
    async def main():
        given = settings | {"auto.offset.reset": "earliest"} | more
        async with Consumer(given, network=broker) as consumer:
            return await asyncio.wait_for(work(consumer), 60)

    return asyncio.run(main())


def with_admin(broker, settings, work, **more):
    async def main():
        async with Admin(settings | more, network=broker) as admin:
            return await asyncio.wait_for(work(admin), 60)

    return asyncio.run(main())


def fill(broker, settings, values, topic="t"):
    async def work(producer):
        await producer.send_many(topic, [(None, value) for value in values], partition=0)

    with_producer(broker, settings, work)


async def read(consumer, count):
    found: list[Any] = []
    while len(found) < count:
        for batches in await consumer.poll(1000):
            found += batches.records()
    return found


def values(broker):
    return [value for _, _, value in broker.records("t")]


def nodes(broker, api):
    return broker.nodes_asked(api)


NUMBERS = [b"%d" % i for i in range(200)]


# Producer


@pytest.mark.parametrize("has_hints", [True, False])
def test_batches_in_flight_keep_their_order_over_leader_changes(three, settings, has_hints):
    three.has_hints = has_hints
    respond = three.respond

    led = itertools.count(1)

    def move_and_respond(host, key, request):
        leader, epoch = three.leaders.get(("t", 0), (0, 0))
        if key is ApiKey.PRODUCE and host == host_of(leader) and not next(led) % 2:
            three.leaders["t", 0] = ((leader + 1) % 3, epoch + 1)
        return respond(host, key, request)

    three.respond = move_and_respond

    async def work(producer):
        for i, value in enumerate(NUMBERS):
            producer.append("t", value)
            if i % 5 == 0:
                await asyncio.sleep(0)
        await producer.flush()

    with_producer(three, settings, work, **{"batch.size": 60})
    assert values(three) == NUMBERS
    assert set(nodes(three, ApiKey.PRODUCE)) == {0, 1, 2}


def test_a_hint_of_the_leader_spares_the_back_off(three, settings):
    three.has_hints = True

    async def work(producer):
        await producer.send("t", b"a")
        three.leaders["t", 0] = (1, 1)
        await producer.send("t", b"b")

    with_producer(three, settings, work, **SLOW)
    assert values(three) == [b"a", b"b"]
    assert nodes(three, ApiKey.PRODUCE) == [0, 0, 1]


def test_a_leader_that_dies_is_replaced_and_nothing_is_lost_or_doubled(three, settings):
    three.leaders["t", 0] = (1, 0)

    async def work(producer):
        await producer.send("t", b"first")
        three.faults[ApiKey.PRODUCE].append(LOSE_RESPONSE)
        many = asyncio.create_task(producer.send_many("t", [(None, v) for v in NUMBERS]))
        while len(nodes(three, ApiKey.PRODUCE)) < 2:  # noqa: ASYNC110  the broker has no events
            await asyncio.sleep(0)
        three.kill("b1")
        three.leaders["t", 0] = (2, 1)
        await many

    with_producer(three, settings, work, **{"batch.size": 200})
    assert values(three) == [b"first", *NUMBERS]


def test_a_leader_that_never_answers_is_given_up_after_request_timeout(three, settings):
    three.leaders["t", 0] = (1, 0)

    async def work(producer):
        await producer.send("t", b"a")
        three.silent.add("b1")
        three.leaders["t", 0] = (2, 1)
        await producer.send("t", b"b")

    more = {"request.timeout.ms": 50, "socket.connection.setup.timeout.ms": 50}
    with_producer(three, settings, work, **more)
    assert values(three) == [b"a", b"b"]


def test_a_duplicate_counts_as_written(three, settings):
    async def work(producer):
        await producer.send("t", b"a")
        three.faults[ApiKey.PRODUCE].append(ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
        return await producer.send("t", b"b")

    assert with_producer(three, settings, work).offset == -1


@pytest.mark.parametrize(
    "code", [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID]
)
def test_a_leader_that_lost_the_producers_state_gets_the_batch_again(three, settings, code):
    async def work(producer):
        await producer.send("t", b"a")
        three.faults[ApiKey.PRODUCE].append(code)
        return await producer.send("t", b"b")

    assert with_producer(three, settings, work).offset == 1
    assert values(three) == [b"a", b"b"]


def test_a_throttled_producer_leaves_the_broker_alone(three, settings):
    async def work(producer):
        three.faults[ApiKey.PRODUCE].append(throttled)
        loop = asyncio.get_running_loop()
        await producer.send("t", b"a")
        began = loop.time()
        await producer.send("t", b"b")
        return loop.time() - began

    assert with_producer(three, settings, work) >= 0.07


# Bootstrap


def test_dead_bootstrap_servers_are_passed_over(three, settings):
    three.down = {"b1", "b2"}
    given = settings | {"bootstrap.servers": "b1:9092,b2:9092,broker:9092"}
    for _ in range(5):
        fill(three, given, [b"a"])
    assert values(three) == [b"a"] * 5


def test_a_bootstrap_server_that_never_answers_is_passed_over(three, settings):
    three.silent = {"b1"}
    more = {"socket.connection.setup.timeout.ms": 30, "request.timeout.ms": 50}
    given = settings | {"bootstrap.servers": "b1:9092,broker:9092"} | more
    for _ in range(3):
        fill(three, given, [b"a"])
    assert values(three) == [b"a"] * 3


def test_a_bootstrap_server_without_metadata_is_passed_over(three, settings):
    three.nodes = [0]
    three.faults[ApiKey.METADATA].append(LOSE_REQUEST)
    given = settings | {"bootstrap.servers": "b1:9092,broker:9092"}
    fill(three, given, [b"a"])
    assert values(three) == [b"a"]


# Consumer


@pytest.mark.parametrize("has_hints", [True, False])
def test_a_consumer_follows_the_leader(three, settings, has_hints):
    three.has_hints = has_hints
    fill(three, settings, NUMBERS[:100])

    async def work(consumer):
        consumer.assign([AT])
        found = await read(consumer, 100)
        three.leaders["t", 0] = (2, 1)
        async with Producer(settings, network=three) as producer:
            await producer.send_many("t", [(None, value) for value in NUMBERS[100:]])
        return found + await read(consumer, 100)

    assert [r.value for r in with_consumer(three, settings, work)] == NUMBERS
    assert set(nodes(three, ApiKey.OFFSET_FOR_LEADER_EPOCH)) == {2}
    there = [key for key, host in three.asked if node_of(host) == 2]
    assert there.index(ApiKey.OFFSET_FOR_LEADER_EPOCH) < there.index(ApiKey.FETCH)


def test_a_hint_of_the_leader_is_used_by_a_fetch_at_once(three, settings):
    three.has_hints = True
    fill(three, settings, NUMBERS[:10])
    three.leaders["t", 0] = (0, 0)

    async def work(consumer):
        consumer.assign([AT])
        consumer.seek(AT, 0)
        while not await consumer.poll(10, max_records=1):
            pass
        three.leaders["t", 0] = (2, 1)
        return await read(consumer, 9)

    assert len(with_consumer(three, settings, work, **SLOW)) == 9


def test_what_was_fetched_ahead_of_an_old_leader_is_fetched_again(three, settings):
    for value in NUMBERS[:10]:
        fill(three, settings, [value])

    async def cut(consumer):
        consumer.assign([AT])
        taken = [r for b in await consumer.poll(1000, max_records=4) for r in b.records()]
        while not taken:
            taken = [r for b in await consumer.poll(1000, max_records=4) for r in b.records()]
        # The new leader has only five of the ten, and others after them.
        three.truncate("t", 5)
        three.leaders["t", 0] = (1, 1)
        three.epoch_ends["t", 0] = (0, 5)
        async with Producer(settings, network=three) as producer:
            await producer.send_many("t", [(None, v) for v in [b"new-5", b"new-6"]])
        await consumer._cluster.refresh()
        return taken + await read(consumer, 3)

    records = with_consumer(three, settings, cut)
    assert [r.value for r in records] == [*NUMBERS[:5], b"new-5", b"new-6"]


def test_a_truncated_position_goes_back_to_where_the_logs_part(three, settings):
    fill(three, settings, NUMBERS[:10])

    async def work(consumer):
        consumer.assign([AT])
        await read(consumer, 10)
        three.leaders["t", 0] = (1, 1)
        three.epoch_ends["t", 0] = (0, 6)
        return [r.offset for r in await read(consumer, 4)]

    assert with_consumer(three, settings, work) == [6, 7, 8, 9]


def test_a_truncation_without_a_reset_policy_is_raised(three, settings):
    fill(three, settings, NUMBERS[:10])

    async def work(consumer):
        consumer.assign([AT])
        consumer.seek(AT, 0)
        await read(consumer, 10)
        three.leaders["t", 0] = (1, 1)
        three.epoch_ends["t", 0] = (0, 6)
        with pytest.raises(KafkaError, match="t-0 was truncated to 6, position 10"):
            await read(consumer, 1)

    with_consumer(three, settings, work, **{"auto.offset.reset": "none"})


def test_a_committed_epoch_is_checked_before_reading_on(three, settings):
    fill(three, settings, NUMBERS[:10])
    more = {"group.id": "g", "enable.auto.commit": False}

    async def commit(consumer):
        consumer.subscribe(["t"])
        await read(consumer, 10)
        await consumer.commit()

    with_consumer(three, settings, commit, **more)
    three.leaders["t", 0] = (1, 1)
    three.epoch_ends["t", 0] = (0, 8)

    async def go_on(consumer):
        consumer.subscribe(["t"])
        return [r.offset for r in await read(consumer, 2)]

    assert with_consumer(three, settings, go_on, **more) == [8, 9]


def test_metadata_that_say_the_same_leader_cost_no_validation(three, settings):
    fill(three, settings, NUMBERS[:10])

    async def work(consumer):
        consumer.assign([AT])
        await read(consumer, 10)
        updates = len(three.seen(ApiKey.METADATA))
        while len(three.seen(ApiKey.METADATA)) < updates + 3:
            await consumer.poll(10)

    with_consumer(three, settings, work, **{"metadata.max.age.ms": 10})
    assert nodes(three, ApiKey.OFFSET_FOR_LEADER_EPOCH) == []


def test_a_near_replica_is_read_from_until_it_is_out_of_date(three, settings):
    fill(three, settings, NUMBERS[:10])
    three.near["t", 0] = 2

    async def work(consumer):
        consumer.assign([AT])
        await read(consumer, 10)
        fetches = len(nodes(three, ApiKey.FETCH))
        while nodes(three, ApiKey.FETCH)[fetches:].count(0) < 2:
            await consumer.poll(20)

    with_consumer(three, settings, work, **{"client.rack": "r", "metadata.max.age.ms": 40})
    asked = nodes(three, ApiKey.FETCH)
    assert asked[:2] == [0, 2]


@pytest.mark.parametrize("how", ["error", "death"])
def test_a_near_replica_that_fails_is_left_for_the_leader(three, settings, how):
    fill(three, settings, NUMBERS[:10])
    three.near["t", 0] = 2

    async def work(consumer):
        consumer.assign([AT])
        await read(consumer, 10)
        del three.near["t", 0]  # from now on it refuses, because it does not lead
        if how == "death":
            three.kill("b2")
        async with Producer(settings, network=three) as producer:
            await producer.send("t", b"more")
            found = await read(consumer, 1)  # perhaps by the fetch that waited there
            await producer.send("t", b"again")
        return [record.value for record in found + await read(consumer, 1)]

    assert with_consumer(three, settings, work, **{"client.rack": "r"}) == [b"more", b"again"]
    reading = [r.session_epoch >= 0 for r in three.seen(ApiKey.FETCH)]
    asked = [n for n, is_read in zip(nodes(three, ApiKey.FETCH), reading, strict=True) if is_read]
    assert asked[:2] == [0, 2]
    assert asked[-1] == 0


def test_a_lost_session_is_begun_again_and_no_record_is_missed(three, settings):
    fill(three, settings, NUMBERS)
    codes = [ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH]
    three.faults[ApiKey.FETCH].extend([None, codes[0], None, None, codes[1], LOSE_RESPONSE])

    async def work(consumer):
        consumer.assign([AT])
        return [r.value for r in await read(consumer, len(NUMBERS))]

    assert with_consumer(three, settings, work) == NUMBERS


@pytest.mark.slow
def test_fetches_of_a_session_name_only_what_moved(three, settings):
    three.create("two", 2)
    fill(three, settings, NUMBERS[:5])

    async def work(consumer):
        consumer.assign([AT, OTHER])
        await read(consumer, 5)
        while len(three.seen(ApiKey.FETCH)) < 5:
            await consumer.poll(10)

    with_consumer(three, settings, work)
    fetches = three.seen(ApiKey.FETCH)
    assert fetches[-1].session_epoch == -1, "the last one ends the session"
    assert any(f.session_epoch > 0 and not f.topics for f in fetches)


def test_a_throttled_consumer_leaves_the_broker_alone(three, settings):
    fill(three, settings, NUMBERS[:5])

    async def work(consumer):
        consumer.assign([AT])
        three.faults[ApiKey.FETCH].append(throttled)
        await read(consumer, 5)
        began, asked = asyncio.get_running_loop().time(), len(three.seen(ApiKey.FETCH))
        await until(lambda: len(three.seen(ApiKey.FETCH)) != asked)
        return asyncio.get_running_loop().time() - began

    assert with_consumer(three, settings, work) >= 0.06


def test_a_topic_that_does_not_exist_holds_up_no_other_lookup(three, settings):
    fill(three, settings, NUMBERS[:3])

    async def work(consumer):
        consumer.assign([TopicPartition("nowhere", 0), AT])
        return len(await read(consumer, 3))

    assert with_consumer(three, settings, work) == 3


# The group's coordinator


def test_a_group_follows_its_coordinator(three, settings):
    fill(three, settings, NUMBERS[:10])

    async def work(consumer):
        consumer.subscribe(["t"])
        await read(consumer, 10)
        three.coordinator = 2
        await consumer.commit()
        three.kill("b2")
        three.coordinator = 1
        await consumer.commit()
        assert (await consumer.committed([AT]))[AT].offset == 10

    with_consumer(three, settings, work, **{"group.id": "g"})
    assert set(nodes(three, ApiKey.OFFSET_COMMIT)) == {0, 1, 2}


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REQUEST_TIMED_OUT,
    ],
)
def test_a_coordinator_that_is_not_ready_is_asked_again(three, settings, code):
    fill(three, settings, NUMBERS[:3])
    for api in (ApiKey.JOIN_GROUP, ApiKey.OFFSET_FETCH, ApiKey.OFFSET_COMMIT):
        three.faults[api].append(code)
    if code is ErrorCode.REQUEST_TIMED_OUT:
        three.faults[ApiKey.JOIN_GROUP].clear()

    async def work(consumer):
        consumer.subscribe(["t"])
        await read(consumer, 3)
        await consumer.commit()

    with_consumer(three, settings, work, **{"group.id": "g"})
    assert three.committed == {("t", 0): 3}


def test_the_admin_client_follows_a_coordinator(three, settings):
    three.faults[ApiKey.DESCRIBE_GROUPS].append(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    async def work(admin):
        before = (await admin.describe_groups(["g"]))["g"]
        three.coordinator = 1
        return before, (await admin.describe_groups(["g"]))["g"]

    before, after = with_admin(three, settings, work)
    assert (before.state, after.coordinator.broker_id) == ("Dead", 1)


# The controller


def test_the_admin_client_finds_a_controller_that_moved(three, settings):
    async def work(admin):
        three.controller = 1
        await admin.create_topics([NewTopic("a", 1, 1)])
        three.kill("b1")
        three.controller = 2
        await admin.create_topics([NewTopic("b", 1, 1)])

    with_admin(three, settings, work)
    assert three.records("a") == three.records("b") == []
    assert nodes(three, ApiKey.CREATE_TOPICS) == [0, 1, 2]


def test_only_what_was_refused_retriably_is_asked_again(three, settings):

    def answered(response, code):
        for topic in response.topics:
            if topic.name == "b":
                topic.error_code = code
        return response

    codes = (ErrorCode.THROTTLING_QUOTA_EXCEEDED, ErrorCode.NONE)
    three.faults[ApiKey.CREATE_TOPICS].extend(partial(answered, code=code) for code in codes)

    async def work(admin):
        return await admin.create_topics([NewTopic(name, 1, 1) for name in ("a", "b", "t")])

    found = with_admin(three, settings, work)
    asked = [[t.name for t in r.topics] for r in three.seen(ApiKey.CREATE_TOPICS)]
    assert asked == [["a", "b", "t"], ["b"]]
    assert list(found) == ["a", "b", "t"]
    assert isinstance(found["t"], KafkaError)
    assert not isinstance(found["a"], KafkaError)
    assert not isinstance(found["b"], KafkaError)


def test_offsets_of_a_topic_that_does_not_exist_are_refused_promptly(three, settings):
    nowhere = TopicPartition("nowhere", 0)

    async def work(admin):
        return await admin.list_offsets({nowhere: -1, AT: -1}), await admin.delete_records(
            {nowhere: 5, AT: 0}
        )

    offsets, deleted = with_admin(three, settings, work)
    assert offsets[nowhere].code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert offsets[AT].offset == 0
    assert deleted[nowhere].code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert deleted[AT] == 0


def test_a_consumer_waits_for_a_topic_as_long_as_an_api_call_may_take(three, settings):
    async def work(consumer):
        asyncio.get_running_loop().call_later(0.1, three.create, "late")
        return await consumer.end_offsets([TopicPartition("late", 0)])

    assert list(with_consumer(three, settings, work).values()) == [0]

    async def never(consumer):
        with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION"):
            await consumer.end_offsets([TopicPartition("nowhere", 0)], timeout_ms=50)

    with_consumer(three, settings, never)
