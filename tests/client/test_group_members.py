"""A member of a group: joining, rebalances, commits, refusals; listeners, also those that raise."""

from typing import Any

import pytest

from kavka.client import TopicPartition
from kavka.client.consumer import RebalanceListener
from kavka.errors import ErrorCode, KafkaError
from kavka.wire.apis import ApiKey
from support.faults import LOSE_REQUEST
from support.reading import AT, RecordingListener, fill, poll_until, read, run
from support.waiting import until


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


def test_an_iteration_returns_what_is_read_where_a_listener_has_sought(broker, settings):
    fill(broker, settings, 10)

    async def work(consumer):
        class Seeking(RebalanceListener):
            def on_assigned(self, partitions):
                consumer.seek(partitions[0], 7)

        consumer.subscribe(["t"], listener=Seeking())
        return [(await anext(consumer)).offset for _ in range(3)]

    assert run(broker, settings, work, **{"group.id": "g"}) == [7, 8, 9]


def test_an_iteration_commits_no_further_than_it_came(broker, settings):
    fill(broker, settings, 10)

    async def work(consumer):
        consumer.subscribe(["t"])
        async for record in consumer:
            if record.offset == 3:
                break

    run(broker, settings, work, **{"group.id": "g"})
    assert broker.committed == {("t", 0): 4}


def test_a_rebalance_revokes_and_assigns_again_inside_poll(broker, settings):
    listener = RecordingListener()

    async def work(consumer):
        consumer.subscribe(["t"], listener=listener)
        await poll_until(consumer, lambda: listener.story)
        broker.faults[ApiKey.HEARTBEAT].append(ErrorCode.REBALANCE_IN_PROGRESS)
        await poll_until(consumer, lambda: len(listener.story) == 3)

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
        await poll_until(consumer, lambda: listener.story)
        broker.faults[ApiKey.HEARTBEAT].append(ErrorCode.REBALANCE_IN_PROGRESS)
        await poll_until(consumer, lambda: len(listener.story) == 2)
        assert consumer.assignment() == [AT]

    more = {"group.id": "g", "heartbeat.interval.ms": 5}
    more["partition.assignment.strategy"] = "cooperative-sticky"
    run(broker, settings, work, **more)
    assert listener.story[:2] == [("assigned", ["t-0"]), ("assigned", [])]


def test_a_member_that_is_unknown_loses_its_partitions_and_joins_again(broker, settings):
    listener = RecordingListener()

    async def work(consumer):
        consumer.subscribe(["t"], listener=listener)
        await poll_until(consumer, lambda: listener.story)
        broker.remove_members()
        await poll_until(consumer, lambda: len(listener.story) == 3)

    run(broker, settings, work, **{"group.id": "g", "heartbeat.interval.ms": 5})
    assert [what for what, _ in listener.story[:3]] == ["assigned", "lost", "assigned"]


def test_a_fenced_static_member_gets_the_error(broker, settings):
    async def work(consumer):
        consumer.subscribe(["t"])
        await poll_until(consumer, consumer.assignment)
        broker.faults[ApiKey.HEARTBEAT].append(ErrorCode.FENCED_INSTANCE_ID)
        with pytest.raises(KafkaError, match="FENCED_INSTANCE_ID"):
            await poll_until(consumer, lambda: False)

    more = {"group.id": "g", "group.instance.id": "i", "heartbeat.interval.ms": 5}
    run(broker, settings, work, **more)
    assert broker.seen(ApiKey.LEAVE_GROUP) == []


def test_a_member_that_was_refused_tries_again_with_the_next_poll(broker, settings):
    broker.faults[ApiKey.JOIN_GROUP].append(ErrorCode.GROUP_AUTHORIZATION_FAILED)

    async def work(consumer):
        consumer.subscribe(["t"])
        with pytest.raises(KafkaError, match="GROUP_AUTHORIZATION_FAILED"):
            await consumer.poll(1000)
        await poll_until(consumer, consumer.assignment)

    run(broker, settings, work, **{"group.id": "g"})


def test_a_member_that_does_not_poll_leaves_the_group(broker, settings):
    listener = RecordingListener()

    async def work(consumer):
        consumer.subscribe(["t"], listener=listener)
        await poll_until(consumer, lambda: listener.story)
        await until(lambda: broker.seen(ApiKey.LEAVE_GROUP))
        await poll_until(consumer, lambda: len(listener.story) >= 3)

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
        await poll_until(consumer, lambda: len(listener.story) == 3)
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_topic_that_is_deleted_makes_the_leader_join_again(broker, settings):
    broker.create("gone")
    listener = RecordingListener()

    async def work(consumer):
        consumer.subscribe(["t", "gone"], listener=listener)
        await poll_until(consumer, lambda: len(consumer.assignment()) == 2)
        joins = len(broker.seen(ApiKey.JOIN_GROUP))
        broker.delete("gone")
        await poll_until(consumer, lambda: consumer.assignment() == [AT])
        joined = len(broker.seen(ApiKey.JOIN_GROUP))
        assert joined > joins
        updates = len(broker.seen(ApiKey.METADATA))
        await poll_until(consumer, lambda: len(broker.seen(ApiKey.METADATA)) > updates + 3)
        assert len(broker.seen(ApiKey.JOIN_GROUP)) == joined  # once is enough

    run(broker, settings, work, **{"group.id": "g", "metadata.max.age.ms": 10})
