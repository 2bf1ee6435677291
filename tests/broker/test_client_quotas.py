"""Client quotas: stored as Apache Kafka stores them, described, followed, and enforced while there are any."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest

from kavka.broker.quotas.client_quotas import KindOfQuota
from kavka.broker.quotas.request_time import Metered
from kavka.broker.requests.policies import Policies
from kavka.broker.requests.session import Session
from kavka.core.quota.entities import DEFAULT as ANY_CLIENT
from kavka.core.quota.entities import Match, QuotaEntity
from kavka.core.quota.sensors import Sensors
from kavka.errors import ErrorCode
from kavka.wire.frame import encode_request
from kavka.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsRequestTopic,
)
from kavka.wire.messages.create_topics import CreateTopicsRequest
from kavka.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsRequestTopic
from kavka.wire.messages.describe_cluster import DescribeClusterRequest
from kavka.wire.messages.fetch import FetchRequest, FetchRequestPartition, FetchRequestTopic
from kavka.wire.messages.produce import ProduceRequest, ProduceRequestPartition, ProduceRequestTopic
from kavka.wire.messages.update_metadata import UpdateMetadataRequest
from kavka.wire.stored import znodes
from support.access import SETTINGS, connected_as
from support.one_broker import Run, Served
from support.produce import batch
from support.quotas import ANY, DEFAULT, EXACT, Entity, alter, describe, stop_time
from support.waiting import until

_ANONYMOUS: Entity = {"user": "ANONYMOUS"}


async def node(served: Served, path: str) -> dict[str, Any]:
    data, _stat = await served.broker.registry.get(path)
    found: dict[str, Any] = json.loads(data)
    return found


async def applied(served: Served) -> None:
    """Wait until the broker has read the notification of the newest change."""
    names = await served.broker.registry.children(znodes.CONFIG_CHANGES)
    await until(
        lambda: served.broker.config_changes.notifications.seen[znodes.CONFIG_CHANGE] == names[-1]
    )


async def limit(served: Served, entity: Entity, **quotas: float | None) -> None:
    response = await alter(served, entity, quotas)
    assert response.error_code == 0, response.error_message
    await applied(served)


# -- stored


def test_quotas_are_stored_as_apache_kafka_stores_them(run: Run) -> None:
    async def story(served: Served) -> None:
        await limit(served, {"user": "a b/c"}, producer_byte_rate=1024)
        await limit(served, {"user": "u", "client-id": "c"}, request_percentage=12.5)
        await limit(served, {"user": None, "client-id": None}, consumer_byte_rate=7)
        await limit(served, {"client-id": "<default>"}, controller_mutation_rate=3)
        await limit(served, {"ip": "10.0.0.7"}, connection_creation_rate=5)
        stored = {
            "/config/users/a%20b%2Fc": {"producer_byte_rate": "1024"},
            "/config/users/u/clients/c": {"request_percentage": "12.5"},
            "/config/users/<default>/clients/<default>": {"consumer_byte_rate": "7"},
            "/config/clients/%3Cdefault%3E": {"controller_mutation_rate": "3.0"},
            "/config/ips/10.0.0.7": {"connection_creation_rate": "5"},
        }
        for path, config in stored.items():
            assert await node(served, path) == {"version": 1, "config": config}
        changes = await served.broker.registry.children(znodes.CONFIG_CHANGES)
        newest = await node(served, f"{znodes.CONFIG_CHANGES}/{changes[-1]}")
        assert newest == {"version": 2, "entity_path": "ips/10.0.0.7"}
        parent, _stat = await served.broker.registry.get("/config/users/u")
        assert not parent

    run(story)


def test_an_alteration_keeps_the_credentials_of_a_user(run: Run) -> None:
    async def story(served: Served) -> None:
        credential = {"SCRAM-SHA-256": "salt=x"}
        await served.broker.registry.create("/config/users/u", znodes.encode_config(credential))
        await limit(served, {"user": "u"}, producer_byte_rate=5)
        await limit(served, {"user": "u"}, producer_byte_rate=None)
        assert (await node(served, "/config/users/u"))["config"] == credential
        assert await describe(served) == []

    run(story)


def test_what_is_only_validated_is_not_stored(run: Run) -> None:
    async def story(served: Served) -> None:
        right = await alter(served, {"user": "u"}, {"producer_byte_rate": 5}, validate_only=True)
        wrong = await alter(served, {"user": "u"}, {"bytes": 5}, validate_only=True)
        assert (right.error_code, wrong.error_code) == (0, ErrorCode.INVALID_REQUEST)
        assert wrong.error_message == "Invalid configuration key bytes"
        assert await describe(served) == []

    run(story)


def test_of_an_alteration_that_is_refused_nothing_is_stored(run: Run) -> None:
    async def story(served: Served) -> None:
        refused = await alter(served, {"user": "u"}, {"producer_byte_rate": 5, "bytes": 1})
        assert refused.error_code == ErrorCode.INVALID_REQUEST
        refused = await alter(served, {"user": ".."}, {"producer_byte_rate": 5})
        assert refused.error_code == ErrorCode.INVALID_REQUEST
        assert await describe(served) == []

    run(story)


def test_quotas_are_described_by_the_parts_of_their_entities(run: Run) -> None:
    async def story(served: Served) -> None:
        await limit(served, {"user": "u"}, producer_byte_rate=1)
        await limit(served, {"user": "u", "client-id": "c"}, producer_byte_rate=2)
        await limit(served, {"user": None}, producer_byte_rate=3)
        await limit(served, {"client-id": "c"}, producer_byte_rate=4)
        await limit(served, {"ip": None}, connection_creation_rate=5)

        async def found(*components: Any, strict: bool = False) -> list[float]:
            entries = await describe(served, *components, strict=strict)
            return sorted(value for _, quotas in entries for value in quotas.values())

        assert await found() == [1, 2, 3, 4, 5]
        assert await found(strict=True) == []
        assert await found(("user", EXACT, "u")) == [1, 2]
        assert await found(("user", EXACT, "u"), strict=True) == [1]
        assert await found(("user", DEFAULT, None)) == [3]
        assert await found(("user", ANY, None), ("client-id", ANY, None)) == [2]
        assert await found(("client-id", EXACT, "c")) == [2, 4]
        assert await found(("ip", DEFAULT, None)) == [5]
        assert await found(("ip", EXACT, "10.0.0.1")) == []

    run(story)


def test_a_changed_quota_of_another_broker_holds_without_a_restart(run: Run) -> None:
    async def story(served: Served) -> None:
        registry, quotas = served.broker.registry, served.broker.quotas
        assert quotas.client_quotas is None
        for text in ("10", "20", None, "junk", "-1"):
            config = {} if text is None else {"producer_byte_rate": text}
            await registry.create("/config/users/u", b"") if text == "10" else None
            await registry.set("/config/users/u", znodes.encode_config(config))
            change = znodes.encode_config_change("users/u")
            await registry.create(znodes.CONFIG_CHANGE, change, sequence=True)
            await applied(served)
            found = quotas.client_quotas and quotas.client_quotas.produce._limits.match("u", "c")
            assert (found and found.limit) == ({"10": 10.0, "20": 20.0}.get(str(text)))
        assert served.broker.dispatcher._policies == Policies()

    run(story)


def test_quotas_hold_after_a_restart(run: Run) -> None:
    async def before(served: Served) -> None:
        await limit(served, {"user": "u", "client-id": None}, producer_byte_rate=9)

    async def after(served: Served) -> None:
        match = served.broker.quotas.client_quotas.produce._limits.match("u", "c")
        assert match.limit == 9

    run(before)
    run(after)


# -- enforced


def produce(size: int, acks: int = 1) -> ProduceRequest:
    row = ProduceRequestPartition(index=0, records=batch(b"x" * size))
    topics = [ProduceRequestTopic(name="t", partition_data=[row])]
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=topics)


def muted(served: Served) -> int:
    return sum(one.is_blocked for one in served.broker.dispatcher.connections)


def test_a_producer_over_its_rate_is_throttled_and_muted(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        other = await served.another()
        stop_time(served)
        await limit(served, {"client-id": "other"}, producer_byte_rate=1000)
        assert (await other.send(produce(5000))).throttle_time_ms == 0
        first = await other.send(produce(10_000))
        assert 5000 < first.throttle_time_ms < 6000
        assert muted(served) == 1
        assert (await served.send(produce(50_000))).throttle_time_ms == 0
        assert (await served.fetch("t")).high_watermark == 3

    run(story)


def test_clients_of_a_user_share_its_rate(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        stop_time(served)
        await limit(served, _ANONYMOUS, producer_byte_rate=1000)
        clients = [await served.another() for _ in range(3)]
        times = [(await client.send(produce(4000))).throttle_time_ms for client in clients]
        assert times[:2] == [0, 0]
        assert 2000 < times[2] < 3000

    run(story)


def test_a_producer_without_acknowledgements_is_muted_too(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        await limit(served, {"client-id": None}, producer_byte_rate=100)
        other = await served.another()
        there_is_none = asyncio.ensure_future(other.send(produce(5000, acks=0), 9))
        await until(lambda: muted(served) == 1)
        there_is_none.cancel()

    run(story)


def test_a_muted_connection_takes_bounded_memory(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        await limit(served, {"client-id": "other"}, producer_byte_rate=1)
        parts = encode_request(produce(100_000), 9, 1, "other")
        frame = b"".join(bytes(part) for part in parts)  # type: ignore[arg-type]
        _reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(frame * 200)
        await until(lambda: muted(served) == 1)
        for _ in range(1000):
            await asyncio.sleep(0)
        assert served.broker.request_budget.held_bytes < 512 << 10
        assert writer.transport.get_write_buffer_size() > 10 << 20  # the client is held back by TCP
        writer.transport.abort()

    run(story)


def test_a_changed_quota_serves_those_again_that_were_throttled(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        await limit(served, {"client-id": "other"}, producer_byte_rate=1)
        other = await served.another()
        assert (await other.send(produce(5000))).throttle_time_ms > 4_000_000
        assert muted(served) == 1
        await limit(served, {"client-id": "other"}, producer_byte_rate=10_000_000)
        assert muted(served) == 0
        assert (await other.send(produce(5000))).throttle_time_ms < 2000

    run(story)


def test_a_removed_quota_throttles_no_more(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        await limit(served, {"client-id": "other"}, producer_byte_rate=1)
        await limit(served, {"client-id": "other"}, producer_byte_rate=None)
        other = await served.another()
        assert (await other.send(produce(5000))).throttle_time_ms == 0
        assert served.broker.quotas.client_quotas is None

    run(story)


async def fetched(
    client: Any, offset: int = 0, session: tuple[int, int] = (0, -1), max_bytes: int = 1 << 20
) -> Any:
    row = FetchRequestPartition(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes)
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=max_bytes,
        session_id=session[0],
        session_epoch=session[1],
        topics=[FetchRequestTopic(topic="t", partitions=[row])] if session[1] <= 0 else [],
    )
    return await client.send(request, 11)


def test_a_consumer_over_its_rate_gets_nothing_for_now_and_keeps_its_session(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        for _ in range(4):
            await served.produce("t", b"x" * 3000)
        stop_time(served)
        await limit(served, {"client-id": "other"}, consumer_byte_rate=1000)
        clients = [await served.another() for _ in range(3)]
        first = await fetched(clients[0], session=(0, 0), max_bytes=7000)
        assert (len(first.responses), first.throttle_time_ms) == (1, 0)
        second = await fetched(clients[1], max_bytes=7000)
        assert (
            len(second.responses[0].partitions[0].records) > 6000
        )  # with it, more than ten seconds' worth
        assert 2000 < second.throttle_time_ms < 5000
        refused = await fetched(clients[2], max_bytes=7000)
        assert (refused.error_code, refused.responses) == (0, [])
        again = await fetched(clients[0], session=(first.session_id, 1))
        assert (again.session_id, again.responses) == (first.session_id, [])
        for response in (refused, again):  # what is refused does not count
            assert response.throttle_time_ms == second.throttle_time_ms
        assert muted(served) == 3

    run(story)


def test_a_batch_that_no_rate_would_allow_is_sent_once_and_waited_for(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        await served.produce("t", b"x" * 50_000)
        await limit(served, {"client-id": "other"}, consumer_byte_rate=1000)
        first, second = await served.another(), await served.another()
        whole = await fetched(first)
        assert len(whole.responses[0].partitions[0].records) > 50_000
        assert whole.throttle_time_ms > 30_000
        assert (await fetched(second)).responses == []

    run(story)


def test_a_fetch_finds_no_more_than_its_rate_will_ever_allow(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        for _ in range(30):
            await served.produce("t", b"x" * 1000)
        stop_time(served)
        await limit(served, {"client-id": "other"}, consumer_byte_rate=1000)
        other = await served.another()
        found = await fetched(other)
        assert 9000 < len(found.responses[0].partitions[0].records) <= 10_000
        assert found.throttle_time_ms < 100  # for what the response is besides records

    run(story)


@pytest.mark.slow
def test_the_loops_time_of_requests_is_charged(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        await limit(served, {"client-id": "other"}, request_percentage=0.000_1)
        other = await served.another()
        for request in (DescribeClusterRequest(), produce(10)):
            response = await other.send(request)
            assert 0 < response.throttle_time_ms <= 1000  # a window at most
        assert (await served.send(DescribeClusterRequest())).throttle_time_ms == 0

    run(story)


def test_the_loop_is_measured_only_while_request_time_is_limited(run: Run) -> None:
    async def story(served: Served) -> None:
        def meters() -> int:
            connections = served.broker.dispatcher.connections
            return sum(connection.meter is not None for connection in connections)

        await served.topic("t")
        other = await served.another()
        assert (served.broker.iterations.sampler, meters()) == (None, 0)
        await limit(served, {"client-id": "other"}, request_percentage=10_000)
        await other.fetch("t")
        assert served.broker.iterations.sampler is not None
        assert meters() == 1
        for _ in range(10):
            await other.fetch("t")
        charged = served.broker.quotas.client_quotas.request
        ((_key, metered),) = charged.counted(served.broker.clock.tick_ms())
        assert metered.meter.rate.total > 0
        await limit(served, {"client-id": "other"}, request_percentage=None)
        await until(lambda: served.broker.iterations.sampler is None)
        assert meters() == 0

    run(story)


def test_a_long_poll_is_charged_for_its_work_and_not_for_its_wait(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        await limit(served, {"client-id": "other"}, request_percentage=50)
        other = await served.another()
        row = FetchRequestPartition(partition=0, fetch_offset=0, partition_max_bytes=100)
        topics = [FetchRequestTopic(topic="t", partitions=[row])]
        response = await other.send(FetchRequest(max_wait_ms=300, min_bytes=1, topics=topics), 11)
        assert response.throttle_time_ms == 0
        quota = served.broker.quotas.client_quotas
        ((_key, metered),) = quota.request.counted(served.broker.clock.tick_ms())
        assert 0 < metered.meter.rate.total < 20  # percent of a second; the wait alone were 30

    run(story)


@pytest.mark.parametrize(("version", "second", "throttle_ms"), [(6, 89, 9000), (5, 0, 10_000)])
def test_changes_of_topics_are_limited_by_partitions(
    run: Run, version: int, second: int, throttle_ms: int
) -> None:
    async def story(served: Served) -> None:
        stop_time(served)
        await limit(served, {"client-id": "other"}, controller_mutation_rate=1)
        other = await served.another()
        topics = [served.new_topic("a", 20), served.new_topic("b", 1)]
        request = CreateTopicsRequest(topics=topics, timeout_ms=30_000)
        response = await other.send(request, version)
        assert [topic.error_code for topic in response.topics] == [0, second]
        assert response.throttle_time_ms == throttle_ms
        assert muted(served) == 1

    run(story)


def test_growth_and_deletion_take_from_the_same_bucket(run: Run) -> None:
    async def story(served: Served) -> None:
        for name in ("a", "b"):
            await served.create(name, 8)
        stop_time(served)
        await limit(served, {"client-id": "other"}, controller_mutation_rate=1)
        clients = [await served.another() for _ in range(4)]
        grown = CreatePartitionsRequestTopic(name="a", count=14, assignments=None)
        request = CreatePartitionsRequest(topics=[grown], timeout_ms=30_000)
        assert (await clients[0].send(request)).results[0].error_code == 0  # 5 of 11 left

        async def deletion(client: Any, name: str) -> Any:
            topic = DeleteTopicsRequestTopic(name=name)
            return await client.send(DeleteTopicsRequest(topics=[topic], timeout_ms=30_000), 6)

        first = await deletion(clients[1], "b")
        assert (first.responses[0].error_code, first.throttle_time_ms) == (0, 0)
        second = await deletion(clients[2], "a")
        assert second.responses[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert second.throttle_time_ms == 3000
        assert "a" in served.broker.metadata.topics

    run(story)


def test_quotas_are_read_again_in_another_session_of_the_registry(run: Run) -> None:
    async def story(served: Served) -> None:
        await limit(served, {"user": "u"}, producer_byte_rate=5)
        assert served.broker.quotas.client_quotas is not None
        await served.broker.registry.set("/config/users/u", znodes.encode_config({}))
        served.broker.config_changes.session_renewed()
        await until(lambda: served.broker.quotas.client_quotas is None)

    run(story)


@pytest.mark.slow
def test_who_calls_itself_a_broker_and_is_none_is_charged(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        await limit(served, {"user": "alice"}, request_percentage=0.000_1)
        alice = await connected_as(served, "alice")
        row = FetchRequestPartition(partition=0, fetch_offset=0, partition_max_bytes=100)
        topics = [FetchRequestTopic(topic="t", partitions=[row])]
        response = await alice.send(FetchRequest(replica_id=1, topics=topics), 11)
        assert response.throttle_time_ms > 0
        ((_key, metered),) = served.broker.quotas.client_quotas.request.counted(
            served.broker.clock.tick_ms()
        )
        before = metered.meter.rate.total
        await alice.send(UpdateMetadataRequest(), 5)
        assert metered.meter.rate.total > before

    run(story, **SETTINGS)


def test_a_long_client_id_takes_little_memory_and_is_told_from_others() -> None:
    kind = KindOfQuota(Sensors(lambda: Metered(None)))
    kind.set_limits({QuotaEntity(None, ANY_CLIENT): 5.0, QuotaEntity(None, "x" * 1000): 7.0})

    def match(client_id: str) -> Match:
        session = Session("PLAINTEXT", "PLAINTEXT", "10.0.0.1")
        context: Any = SimpleNamespace(session=session, client_id=client_id)
        found = kind.match(context)
        assert found is not None
        return found

    one, other = match("a" * 30_000), match("a" * 29_999)
    assert (one.limit, other.limit, match("x" * 1000).limit) == (5, 5, 7)
    assert one.key != other.key
    assert one == match("a" * 30_000)
    assert all(len(each.key.client_id or "") < 400 for each in (one, other))
    assert not kind._known
