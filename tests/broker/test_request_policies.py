"""The stages authenticate, authorise and quota: what a policy decides there is obeyed, without the handlers' help."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kavka.broker.requests.context import RequestContext
from kavka.broker.requests.policies import Policies, plaintext_session, refuse_whole
from kavka.broker.requests.refusals import RefusalReason
from kavka.broker.requests.session import AclOperation, AclResourceType, Principal, Session
from kavka.errors import ErrorCode
from kavka.net.connection import Connection
from kavka.wire.apis import ApiKey
from kavka.wire.messages.api_versions import ApiVersionsRequest
from kavka.wire.messages.create_topics import CreateTopicsRequest
from kavka.wire.messages.describe_cluster import DescribeClusterRequest
from kavka.wire.messages.fetch import FetchRequest, FetchRequestPartition, FetchRequestTopic
from kavka.wire.messages.heartbeat import HeartbeatRequest
from kavka.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kavka.wire.messages.produce import ProduceRequest, ProduceRequestPartition, ProduceRequestTopic
from kavka.wire.records.batch import BatchBuilder
from support.one_broker import Run, Served
from support.waiting import until

_FAILED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


# -- authenticate


def test_an_unauthenticated_client_may_ask_for_versions_only(run: Run) -> None:
    def begin(connection: Connection) -> Session:
        return Session(
            connection.listener_name, "SASL_PLAINTEXT", connection.peer_host, is_authenticated=False
        )

    async def story(served: Served) -> None:
        dispatcher = served.broker.dispatcher
        dispatcher.set_policies(Policies(open_session=begin))
        other = await served.another()
        assert (await other.send(ApiVersionsRequest(), 0)).error_code == ErrorCode.NONE
        with pytest.raises(ConnectionError):
            await other.send(MetadataRequest(topics=[]), 9)
        counts = dispatcher.refusals.refused
        assert counts[ApiKey.METADATA, RefusalReason.UNAUTHENTICATED] == 1

    run(story)


def test_a_client_goes_on_when_its_session_is_authenticated(run: Run) -> None:
    sessions: list[Session] = []

    def begin(connection: Connection) -> Session:
        session = plaintext_session(connection)
        session.is_authenticated = False
        sessions.append(session)
        return session

    async def story(served: Served) -> None:
        served.broker.dispatcher.set_policies(Policies(open_session=begin))
        other = await served.another()
        (session,) = sessions
        session.principal, session.is_authenticated = Principal("User", "alice"), True
        assert (await other.send(MetadataRequest(topics=[]), 9)).brokers

    run(story)


# -- authorise


def test_a_request_is_refused_with_the_response_of_its_api(run: Run) -> None:
    def refusal(context: RequestContext, request: Any) -> Any:
        if context.api.key is ApiKey.DESCRIBE_CLUSTER:
            return refuse_whole(context, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        return None

    async def story(served: Served) -> None:
        served.broker.dispatcher.set_policies(Policies(refusal_of=lambda _key: refusal))
        response = await served.send(DescribeClusterRequest())
        assert response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert (await served.send(MetadataRequest(topics=[]), 9)).brokers
        errors = served.broker.dispatcher.traffic()[ApiKey.DESCRIBE_CLUSTER].errors
        assert errors == {ErrorCode.CLUSTER_AUTHORIZATION_FAILED: 1}

    run(story)


def test_an_async_handler_does_not_begin_when_its_request_is_refused(run: Run) -> None:
    async def story(served: Served) -> None:
        served.broker.dispatcher.set_policies(
            Policies(refusal_of=lambda _key: lambda context, _request: context.api.response())
        )
        other = await served.another()
        request = CreateTopicsRequest(topics=[served.new_topic("t")], timeout_ms=30_000)
        assert (await other.send(request, 5)).topics == []
        assert "t" not in served.broker.metadata.topics

    run(story)


def only_topic(name: str) -> Policies:
    """Allow everything on one topic, and nothing else."""

    def allows(
        session: Session, operation: AclOperation, resource: AclResourceType, of: str
    ) -> bool:
        assert session.principal.name == "ANONYMOUS"
        return resource is AclResourceType.TOPIC and of == name

    return Policies(allows=allows)


async def restricted(served: Served) -> Any:
    """Create topics `mine` and `other`, and return a connection whose client may use `mine` only."""
    for name in ("mine", "other"):
        await served.topic(name)
        await served.produce(name, b"record")
    served.broker.dispatcher.set_policies(only_topic("mine"))
    return await served.another()


async def metadata(client: Any, names: list[str] | None, version: int = 9) -> dict[str, int]:
    topics = None if names is None else [MetadataRequestTopic(name=name) for name in names]
    response = await client.send(MetadataRequest(topics=topics), version)
    return {topic.name: topic.error_code for topic in response.topics}


def test_metadata_shows_the_topics_that_a_client_may_describe(run: Run) -> None:
    async def story(served: Served) -> None:
        client = await restricted(served)
        assert await metadata(client, None) == {"mine": 0}
        assert await metadata(client, ["mine"]) == {"mine": 0}
        asked = ["mine", "other", "absent"]
        assert await metadata(client, asked) == {"mine": 0, "other": _FAILED, "absent": _FAILED}
        assert "absent" not in served.broker.metadata.topics

    run(story)


def test_metadata_names_no_topic_that_was_asked_for_by_an_id_that_is_not_allowed(run: Run) -> None:
    async def story(served: Served) -> None:
        client = await restricted(served)
        topic_id = served.broker.metadata.topics["other"].topic_id
        request = MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=topic_id)])
        (topic,) = (await client.send(request, 12)).topics
        assert (topic.error_code, topic.name, topic.partitions) == (_FAILED, None, [])
        assert topic.topic_id == topic_id

    run(story)


def test_a_topic_is_not_created_for_a_client_that_may_describe_it_only(run: Run) -> None:
    def allows(_session: Session, operation: AclOperation, *_resource: Any) -> bool:
        return operation is AclOperation.DESCRIBE

    async def story(served: Served) -> None:
        served.broker.dispatcher.set_policies(Policies(allows=allows))
        client = await served.another()
        assert await metadata(client, ["new"]) == {"new": _FAILED}
        assert "new" not in served.broker.metadata.topics

    run(story)


def test_a_produce_is_refused_for_each_topic_that_is_not_allowed(run: Run) -> None:
    async def story(served: Served) -> None:
        client = await restricted(served)
        builder = BatchBuilder()
        builder.append(None, b"more", 1_700_000_000_000)
        rows = [ProduceRequestPartition(index=0, records=builder.build())]
        topics = [ProduceRequestTopic(name=n, partition_data=rows) for n in ("mine", "other")]
        response = await client.send(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=topics), 9)
        codes = {row.name: row.partition_responses[0].error_code for row in response.responses}
        assert codes == {"mine": 0, "other": _FAILED}
        assert (await served.fetch("other")).high_watermark == 1

    run(story)


def test_a_fetch_reads_the_topics_that_are_allowed(run: Run) -> None:
    async def story(served: Served) -> None:
        client = await restricted(served)
        rows = [FetchRequestPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)]
        topics = [FetchRequestTopic(topic=n, partitions=rows) for n in ("mine", "other")]
        request = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, topics=topics)
        responses = (await client.send(request, 11)).responses
        found = {topic.topic: topic.partitions[0] for topic in responses}
        assert found["mine"].records
        assert (found["other"].error_code, found["other"].records) == (_FAILED, b"")
        assert found["other"].high_watermark == -1

    run(story)


# -- quota


class Throttle:
    """A quota that throttles requests of one API, before or after their handler."""

    def __init__(self, key: ApiKey, *, request_ms: int = 0, response_ms: int = 0) -> None:
        self._key = key
        self._request_ms = request_ms
        self._response_ms = response_ms

    def loop_time(self, context: RequestContext) -> None:
        return None

    def request_throttle_ms(self, context: RequestContext, request: Any) -> int:
        return self._request_ms if context.api.key is self._key else 0

    def response_throttle_ms(self, context: RequestContext, response: Any) -> int:
        return self._response_ms if context.api.key is self._key else 0


def requests_of_every_kind() -> list[tuple[Any, int]]:
    """Return requests whose responses are a message, encoded by the handler, and of an asynchronous handler."""
    builder = BatchBuilder()
    builder.append(None, b"record", 1_700_000_000_000)
    row = ProduceRequestPartition(index=0, records=builder.build())
    topics = [ProduceRequestTopic(name="t", partition_data=[row])]
    return [
        (DescribeClusterRequest(), 0),
        (MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 9),
        (ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3),
        (ProduceRequest(acks=1, timeout_ms=1000, topic_data=topics), 9),
        (HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 3),
        (FetchRequest(max_wait_ms=0, min_bytes=1, topics=[]), 11),
    ]


@pytest.mark.parametrize(
    ("request_", "version"), requests_of_every_kind(), ids=lambda of: type(of).__name__
)
@pytest.mark.parametrize("side", ["request_ms", "response_ms"])
def test_the_throttle_time_is_in_the_response_of_any_api(
    run: Run, request_: Any, version: int, side: str
) -> None:
    key = ApiKey(type(request_).__schema__.api_key)

    async def story(served: Served) -> None:
        await served.topic("t")
        plain = await served.send(request_, version)
        other = await served.another()
        limits: dict[str, int] = {side: 60_000}
        served.broker.dispatcher.set_policies(Policies(quota=Throttle(key, **limits)))
        known = set(served.broker.dispatcher.connections)
        response = await other.send(request_, version)
        assert (plain.throttle_time_ms, response.throttle_time_ms) == (0, 60_000)
        assert [one.is_blocked for one in known].count(True) == 1

    run(story)


def test_a_throttled_client_is_served_when_its_time_is_over(run: Run) -> None:
    async def story(served: Served) -> None:
        other = await served.another()
        quota = Throttle(ApiKey.DESCRIBE_CLUSTER, response_ms=20)
        served.broker.dispatcher.set_policies(Policies(quota=quota))
        first = asyncio.ensure_future(other.send(DescribeClusterRequest(), 0))
        second = asyncio.ensure_future(other.send(MetadataRequest(topics=[]), 9))
        assert (await first).throttle_time_ms == 20
        assert (await second).brokers
        assert not any(one.is_blocked for one in served.broker.dispatcher.connections)

    run(story)


def test_a_client_that_is_throttled_twice_is_muted_for_the_longer_time(run: Run) -> None:
    async def story(served: Served) -> None:
        other = await served.another()
        quota = Throttle(ApiKey.METADATA, response_ms=60_000)
        served.broker.dispatcher.set_policies(Policies(quota=quota))
        sent = [asyncio.ensure_future(other.send(MetadataRequest(topics=[]), 9)) for _ in (1, 2)]
        await sent[0]
        (state,) = [s for c, s in served.broker.dispatcher.connections.items() if c.is_blocked]
        timer = state._unmute_timer
        (connection,) = [c for c in served.broker.dispatcher.connections if c.is_blocked]
        state.mute(connection, asyncio.get_running_loop(), 10)
        assert state._unmute_timer is timer
        state.mute(connection, asyncio.get_running_loop(), 120_000)
        assert state._unmute_timer is not timer
        assert timer.cancelled()
        connection.abort()  # while it is muted it is not read
        await until(lambda: connection not in served.broker.dispatcher.connections)
        assert state._unmute_timer is None
        with pytest.raises(ConnectionError):
            await sent[1]

    run(story)
