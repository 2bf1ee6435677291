import asyncio
from typing import Any

import pytest

from kavka.client import Consumer, Producer, TopicPartition
from kavka.client.consumer import RebalanceListener
from kavka.errors import ErrorCode, KafkaError
from kavka.wire.apis import ApiKey
from support.faults import LOSE_REQUEST
from support.waiting import until as wait_until

AT = TopicPartition("t", 0)


def fill(broker, settings, count, topic="t", **more):
    async def main() -> None:
        async with Producer(settings | more, network=broker) as producer:
            await producer.send_many(topic, [(b"k", b"%d" % i) for i in range(count)])

    asyncio.run(main())


def run(broker, settings, work, **more):
    """Run `work(consumer)` with a consumer at the broker."""

    async def main():
        given = settings | {"auto.offset.reset": "earliest"} | more
        async with Consumer(given, network=broker) as consumer:
            return await work(consumer)

    return asyncio.run(main())


async def read(consumer, count):
    found: list[Any] = []
    while len(found) < count:
        for batches in await consumer.poll(1000):
            found += batches.records()
    return found


def offsets(batches):
    return [record.offset for one in batches for record in one.records()]


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


def test_an_answer_to_what_a_partition_wanted_in_an_earlier_assignment_is_dropped(broker, settings):
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
        consumer.assign([])  # the answer is on its way
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


class RecordingListener(RebalanceListener):
    def __init__(self) -> None:
        self.story: list[Any] = []

    async def on_assigned(self, partitions):
        self.story.append(("assigned", [str(at) for at in partitions]))

    def on_revoked(self, partitions):
        self.story.append(("revoked", [str(at) for at in partitions]))

    def on_lost(self, partitions):
        self.story.append(("lost", [str(at) for at in partitions]))


def test_a_member_joins_reads_and_commits_when_it_leaves(broker, settings):
    fill(broker, settings, 10)
    listener = RecordingListener()

    async def work(consumer):
        consumer.subscribe(["t"], listener=listener)
        assert len(await read(consumer, 10)) == 10
        assert consumer.assignment() == [AT]

    run(broker, settings, work, **{"group.id": "g"})
    assert listener.story == [("assigned", ["t-0"]), ("revoked", ["t-0"])]
    assert broker.committed == {("t", 0): 10}
    assert len(broker.seen(ApiKey.LEAVE_GROUP)) == 1


def test_a_group_goes_on_where_it_committed(broker, settings):
    fill(broker, settings, 10)

    async def first(consumer):
        consumer.subscribe(["t"])
        await consumer.poll(1000, max_records=4)
        await consumer.commit()
        assert (await consumer.committed([AT]))[AT].offset == 4

    async def second(consumer):
        consumer.subscribe(["t"])
        return [r.offset for r in await read(consumer, 6)]

    more = {"group.id": "g", "enable.auto.commit": False}
    run(broker, settings, first, **more)
    assert run(broker, settings, second, **more) == [4, 5, 6, 7, 8, 9]


def test_an_iteration_commits_no_further_than_it_came(broker, settings):
    fill(broker, settings, 10)

    async def work(consumer):
        consumer.subscribe(["t"])
        async for record in consumer:
            if record.offset == 3:
                break

    run(broker, settings, work, **{"group.id": "g"})
    assert broker.committed == {("t", 0): 4}


async def until(consumer, condition):
    async with asyncio.timeout(60):
        while not condition():
            await consumer.poll(20)


def test_a_rebalance_revokes_and_assigns_again_inside_poll(broker, settings):
    listener = RecordingListener()

    async def work(consumer):
        consumer.subscribe(["t"], listener=listener)
        await until(consumer, lambda: listener.story)
        broker.faults[ApiKey.HEARTBEAT].append(ErrorCode.REBALANCE_IN_PROGRESS)
        await until(consumer, lambda: len(listener.story) == 3)

    run(broker, settings, work, **{"group.id": "g", "heartbeat.interval.ms": 5})
    assert listener.story[:3] == [
        ("assigned", ["t-0"]),
        ("revoked", ["t-0"]),
        ("assigned", ["t-0"]),
    ]


def test_a_cooperative_member_keeps_its_partitions_in_a_rebalance(broker, settings):
    listener = RecordingListener()

    async def work(consumer):
        consumer.subscribe(["t"], listener=listener)
        await until(consumer, lambda: listener.story)
        broker.faults[ApiKey.HEARTBEAT].append(ErrorCode.REBALANCE_IN_PROGRESS)
        await until(consumer, lambda: len(listener.story) == 2)
        assert consumer.assignment() == [AT]

    more = {"group.id": "g", "heartbeat.interval.ms": 5}
    more["partition.assignment.strategy"] = "cooperative-sticky"
    run(broker, settings, work, **more)
    assert listener.story[:2] == [("assigned", ["t-0"]), ("assigned", [])]


def test_a_member_that_is_unknown_loses_its_partitions_and_joins_again(broker, settings):
    listener = RecordingListener()

    async def work(consumer):
        consumer.subscribe(["t"], listener=listener)
        await until(consumer, lambda: listener.story)
        broker.remove_members()
        await until(consumer, lambda: len(listener.story) == 3)

    run(broker, settings, work, **{"group.id": "g", "heartbeat.interval.ms": 5})
    assert [what for what, _ in listener.story[:3]] == ["assigned", "lost", "assigned"]


def test_a_fenced_static_member_gets_the_error(broker, settings):
    async def work(consumer):
        consumer.subscribe(["t"])
        await until(consumer, consumer.assignment)
        broker.faults[ApiKey.HEARTBEAT].append(ErrorCode.FENCED_INSTANCE_ID)
        with pytest.raises(KafkaError, match="FENCED_INSTANCE_ID"):
            await until(consumer, lambda: False)

    more = {"group.id": "g", "group.instance.id": "i", "heartbeat.interval.ms": 5}
    run(broker, settings, work, **more)
    assert broker.seen(ApiKey.LEAVE_GROUP) == []


def test_a_member_that_was_refused_tries_again_with_the_next_poll(broker, settings):
    broker.faults[ApiKey.JOIN_GROUP].append(ErrorCode.GROUP_AUTHORIZATION_FAILED)

    async def work(consumer):
        consumer.subscribe(["t"])
        with pytest.raises(KafkaError, match="GROUP_AUTHORIZATION_FAILED"):
            await consumer.poll(1000)
        await until(consumer, consumer.assignment)

    run(broker, settings, work, **{"group.id": "g"})


def test_a_member_that_does_not_poll_leaves_the_group(broker, settings):
    listener = RecordingListener()

    async def work(consumer):
        consumer.subscribe(["t"], listener=listener)
        await until(consumer, lambda: listener.story)
        await wait_until(lambda: broker.seen(ApiKey.LEAVE_GROUP))
        await until(consumer, lambda: len(listener.story) >= 3)

    more = {"group.id": "g", "heartbeat.interval.ms": 5, "max.poll.interval.ms": 50}
    run(broker, settings, work, **more)
    assert [what for what, _ in listener.story[:3]] == ["assigned", "lost", "assigned"]


@pytest.mark.parametrize(
    "api", [ApiKey.FIND_COORDINATOR, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.OFFSET_COMMIT]
)
def test_group_requests_are_repeated(broker, settings, api):
    fill(broker, settings, 3)
    code = ErrorCode.NOT_COORDINATOR
    if api is ApiKey.FIND_COORDINATOR:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    broker.faults[api].extend([code, LOSE_REQUEST])

    async def work(consumer):
        consumer.subscribe(["t"])
        await read(consumer, 3)
        await consumer.commit()

    run(broker, settings, work, **{"group.id": "g"})
    assert broker.committed == {("t", 0): 3}


def test_a_commit_of_an_old_generation_is_refused(broker, settings):
    fill(broker, settings, 3)

    async def work(consumer):
        consumer.subscribe(["t"])
        await read(consumer, 3)
        broker.faults[ApiKey.OFFSET_COMMIT].append(ErrorCode.ILLEGAL_GENERATION)
        with pytest.raises(KafkaError, match="ILLEGAL_GENERATION"):
            await consumer.commit()

    run(broker, settings, work, **{"group.id": "g", "enable.auto.commit": False})


def test_a_commit_before_the_group_has_answered_is_refused(broker, settings):
    async def work(consumer):
        consumer.subscribe(["t"])
        with pytest.raises(KafkaError, match="REBALANCE_IN_PROGRESS"):
            await consumer.commit({AT: 1})

    run(broker, settings, work, **{"group.id": "g", "enable.auto.commit": False})
    assert broker.committed == {}


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
        for _ in range(1000):
            if len(broker.seen(ApiKey.FETCH)) > 3:
                break
            await asyncio.sleep(0.001)
        with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED"):
            await consumer.poll(1000)
        return await consumer.poll(1000)

    assert offsets(run(broker, settings, work)) == [0, 1, 2]


def test_a_pattern_takes_topics_that_appear_later(broker, settings):
    async def work(consumer):
        consumer.subscribe(pattern="u.*")
        assert await consumer.poll(30) == []
        broker.create("u1")
        await until(consumer, consumer.assignment)
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


def test_what_was_committed_before_a_revoke_does_not_count_after_it(broker, settings):
    fill(broker, settings, 10)

    class Taken(RecordingListener):
        def on_revoked(self, partitions):
            super().on_revoked(partitions)
            if len(self.story) == 2:  # another member has the partition in between, and goes back
                assert broker.committed == {("t", 0): 10}
                broker.replacements[ApiKey.OFFSET_FETCH] = went_back

    def went_back(response):
        (group,) = response.groups
        group.topics[0].partitions[0].committed_offset = 4
        return response

    listener = Taken()

    async def work(consumer):
        consumer.subscribe(["t"], listener=listener)
        await read(consumer, 10)
        broker.faults[ApiKey.HEARTBEAT].append(ErrorCode.REBALANCE_IN_PROGRESS)
        await until(consumer, lambda: len(listener.story) == 3)
        while await consumer.position(AT) < 10:
            await consumer.poll(20)

    run(broker, settings, work, **{"group.id": "g", "heartbeat.interval.ms": 5})
    assert broker.committed == {("t", 0): 10}


class RaisingListener(RecordingListener):
    """Raises in each of its methods."""

    async def on_assigned(self, partitions):
        await super().on_assigned(partitions)
        raise LookupError(f"assigned {len(self.story)}")

    def on_revoked(self, partitions):
        super().on_revoked(partitions)
        raise LookupError(f"revoked {len(self.story)}")

    def on_lost(self, partitions):
        super().on_lost(partitions)
        raise LookupError(f"lost {len(self.story)}")


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_a_member_whose_listener_always_raises_stays_in_its_group(broker, settings, assignor):
    broker.create("u")
    fill(broker, settings, 10)
    listener = RaisingListener()
    raised: list[str] = []

    async def poll(consumer):
        try:
            return await consumer.poll(20)
        except LookupError as error:
            raised.append(str(error))
            return []

    async def work(consumer):
        consumer.subscribe(["t"], listener=listener)
        found = 0
        while found < 10:
            found += sum(len(batches) for batches in await poll(consumer))
        broker.faults[ApiKey.HEARTBEAT].append(ErrorCode.UNKNOWN_MEMBER_ID)
        while len(listener.story) < 3:
            await poll(consumer)
        consumer.subscribe(["u"], listener=listener)  # t-0 is revoked
        while consumer.assignment() != [TopicPartition("u", 0)]:
            await poll(consumer)
        await consumer.unsubscribe()

    with pytest.raises(LookupError, match="revoked 6"):
        run(
            broker,
            settings,
            work,
            **{
                "group.id": "g",
                "heartbeat.interval.ms": 5,
                "session.timeout.ms": 1000,  # of the member that the coordinator does not forget
                "partition.assignment.strategy": assignor,
            },
        )
    kinds = ["assigned", "lost", "assigned", "revoked", "assigned", "revoked"]
    assert [kind for kind, _ in listener.story] == kinds
    assert raised == [f"{kind} {number}" for number, kind in enumerate(kinds[:-1], 1)]
    assert len(broker.seen(ApiKey.LEAVE_GROUP)) == 1


@pytest.mark.parametrize("mistake", [LookupError("its own"), TimeoutError("its own")])
def test_closing_raises_what_the_listener_raised_and_leaves_the_group(broker, settings, mistake):
    class Failing(RebalanceListener):
        def on_revoked(self, partitions):
            raise mistake

    async def work(consumer):
        consumer.subscribe(["t"], listener=Failing())
        while not consumer.assignment():
            await consumer.poll(20)

    with pytest.raises(type(mistake), match="its own"):
        run(broker, settings, work, **{"group.id": "g"})
    assert len(broker.seen(ApiKey.LEAVE_GROUP)) == 1


def test_a_subscription_in_a_listener_has_no_effect_while_the_consumer_closes(broker, settings):
    class Subscribing(RecordingListener):
        consumer: Any

        def on_revoked(self, partitions):
            super().on_revoked(partitions)
            self.consumer.subscribe(["u"], listener=self)

    listener = Subscribing()

    async def work(consumer):
        listener.consumer = consumer
        consumer.subscribe(["t"], listener=listener)
        while not consumer.assignment():
            await consumer.poll(20)

    run(broker, settings, work, **{"group.id": "g"})
    assert listener.story == [("assigned", ["t-0"]), ("revoked", ["t-0"])]
    assert len(broker.seen(ApiKey.LEAVE_GROUP)) == 1
    assert len(broker.seen(ApiKey.JOIN_GROUP)) == 2  # without an id and with it


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


def test_a_topic_that_is_deleted_makes_the_leader_join_again(broker, settings):
    broker.create("gone")
    listener = RecordingListener()

    async def work(consumer):
        consumer.subscribe(["t", "gone"], listener=listener)
        await until(consumer, lambda: len(consumer.assignment()) == 2)
        joins = len(broker.seen(ApiKey.JOIN_GROUP))
        broker.delete("gone")
        await until(consumer, lambda: consumer.assignment() == [AT])
        joined = len(broker.seen(ApiKey.JOIN_GROUP))
        assert joined > joins
        updates = len(broker.seen(ApiKey.METADATA))
        await until(consumer, lambda: len(broker.seen(ApiKey.METADATA)) > updates + 3)
        assert len(broker.seen(ApiKey.JOIN_GROUP)) == joined  # once is enough

    run(broker, settings, work, **{"group.id": "g", "metadata.max.age.ms": 10})


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


@pytest.mark.parametrize("name", ["", " ", None])
def test_an_empty_topic_name_is_refused_at_once(broker, settings, name):
    async def work(consumer):
        with pytest.raises(ValueError, match="cannot contain null or empty topic"):
            consumer.subscribe(["t", name])
        assert consumer.subscription() == []
        consumer.assign([AT])  # no mode was taken

    run(broker, settings, work, **{"group.id": "g"})
