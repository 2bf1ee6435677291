"""A registry that fails in one call while the session stays, or with znodes that cannot be decoded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from kavka.broker.broker import Broker
from kavka.broker.environment import OsEnvironment
from kavka.core.znodes import Operation, Stat, ZnodeError
from kavka.errors import ErrorCode
from kavka.ids import TopicId, TopicPartition
from kavka.io import Listener
from kavka.net.network import TcpNetwork
from kavka.registry.interface import RegistryRefused, Watch, ensure_paths
from kavka.registry.local_session import LocalSession
from kavka.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsRequestTopic
from kavka.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kavka.wire.stored import znodes
from kavka.wire.stored.znodes import TopicNode

Run = Callable[..., None]
Cluster = Any


class Failing(LocalSession):
    """A session in which some lists cannot be read just now, as when no member of an ensemble answers for a while."""

    unreadable: str | None = None
    gone: str | None = None
    """A topic whose settings are deleted right behind the next list of topics."""

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        if path == self.unreadable:
            self.unreadable = None
            raise ConnectionError("no member answers")
        names = await super().children(path, watch)
        if path == znodes.TOPICS and self.gone is not None:
            gone, self.gone = self.gone, None
            await self.delete(znodes.config_path("topics", gone))
        return names


async def start(
    cluster: Cluster, session: LocalSession, environment: OsEnvironment | None = None
) -> None:
    """Start broker 1 in this session."""
    settings = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(cluster.path / "1")}
    broker = Broker({"broker.id": "1", **settings}, environment or OsEnvironment(), session)
    (endpoint,) = await broker.start()
    cluster.brokers[1], cluster.ports[1] = broker, endpoint.port


def test_a_broker_that_finds_another_cluster_in_its_registry_stops(run: Run) -> None:
    """The registry lost its data while the broker ran, and another cluster was begun in it."""

    async def story(cluster: Cluster) -> None:
        session = LocalSession(cluster.znode_server, 60_000)
        await start(cluster, session)
        broker = cluster.brokers[1]
        other = LocalSession(cluster.znode_server, 60_000)
        await other.set(znodes.CLUSTER_ID, znodes.encode_cluster_id("another"))
        cluster.znode_server.expire(session)
        await cluster.until(broker.failed.done, "it stops")
        assert "cluster another" in broker.failed.result()
        assert await other.children(znodes.BROKER_IDS) == []

    run(story, brokers=0)


@pytest.mark.slow
def test_a_broker_takes_part_in_elections_only_after_it_is_registered_again(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(cluster: Cluster) -> None:
        session = LocalSession(cluster.znode_server, 60_000)
        await start(cluster, session)
        other = LocalSession(cluster.znode_server, 60_000)
        await other.delete(f"{znodes.BROKER_IDS}/1")
        await other.delete(znodes.BROKER_IDS)
        cluster.znode_server.expire(session)
        await cluster.until(lambda: caplog.text.count("not registered yet") > 1, "it tries")
        await ensure_paths(other, [znodes.BROKER_IDS])
        await cluster.until(lambda: znodes.CONTROLLER in cluster.znode_server.tree, "it rules")
        controller, node = [
            cluster.znode_server.tree.stat(path)
            for path in (znodes.CONTROLLER, f"{znodes.BROKER_IDS}/1")
        ]
        assert node is not None
        assert node.czxid < controller.czxid

    run(story, brokers=0)


class LostWhileListening(TcpNetwork):
    """A network on which the first listener is bound long after a broker's session has expired."""

    def __init__(self, expire: Callable[[], None]) -> None:
        super().__init__()
        self._expire = expire

    async def listen(self, *arguments: Any) -> Listener:
        self._expire()
        return await super().listen(*arguments)


def test_a_broker_whose_session_ends_while_it_loads_its_logs_starts_in_another(run: Run) -> None:
    async def story(cluster: Cluster) -> None:
        session = LocalSession(cluster.znode_server, 60_000)
        first = session.session_id
        environment = OsEnvironment()
        environment.network = LostWhileListening(lambda: cluster.znode_server.expire(session))
        await start(cluster, session, environment)
        assert session.session_id != first
        other = LocalSession(cluster.znode_server, 60_000)
        stat = await other.stat(f"{znodes.BROKER_IDS}/1")
        assert stat is not None
        assert stat.ephemeral_owner == session.session_id
        await other.create(f"{znodes.CONFIG_CHANGES}/config_change_", b"{}", sequence=True)
        notifications = cluster.brokers[1].config_changes.notifications
        await cluster.until(
            lambda: notifications.seen[znodes.CONFIG_CHANGE].endswith("0"),
            "it follows the settings",
        )

    run(story, brokers=0)


@pytest.mark.parametrize("path", [znodes.LOG_DIR_EVENTS, znodes.ISR_CHANGES])
def test_notifications_are_read_after_the_registry_failed(run: Run, path: str) -> None:
    async def story(cluster: Cluster) -> None:
        session = Failing(cluster.znode_server, 60_000)
        await start(cluster, session)
        other = LocalSession(cluster.znode_server, 60_000)
        session.unreadable = path
        for _ in range(2):
            await other.create(f"{path}/event_", b"{}", sequence=True)
            await cluster.until(
                lambda: not cluster.znode_server.tree.children(path), "all were read"
            )
        assert session.unreadable is None

    run(story, brokers=0)


def test_a_topic_that_cannot_be_read_hinders_no_other(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(cluster: Cluster) -> None:
        path = znodes.topic_path("broken")
        other = LocalSession(cluster.znode_server, 60_000)
        await other.create(path, b"")
        await other.create(znodes.config_path("topics", "broken"), b"nothing that anybody can read")
        await cluster.until(lambda: f"znode not decoded path={path}" in caplog.text)

        await ask_for(cluster, 2, "used")  # the controller finds its znodes
        await cluster.until(lambda: cluster.leader(TopicPartition("used", 0)) > 0, "it is led")
        ruler = cluster.controller
        await cluster.kill(ruler)
        await cluster.until(lambda: cluster.controller > 0, "another rules")
        await cluster.start(ruler)
        successor = cluster.brokers[cluster.controller].controller
        await cluster.until(lambda: len(successor.state.reachable) == 3, "it knows all")
        await cluster.create("later", [1, 2, 3])

        node = TopicNode(TopicId(b"0123456789abcdef"), {0: [1, 2]})
        await other.set(path, node.encode())
        await cluster.until(lambda: cluster.leader(TopicPartition("broken", 0)) > 0, "it is mended")

    run(story)


async def ask_for(cluster: Cluster, number: int, topic: str) -> None:
    """Have a topic created because a client requests its metadata."""
    await cluster.send(number, MetadataRequest(topics=[MetadataRequestTopic(name=topic)]))


def test_a_topic_whose_znode_is_spoilt_is_served_on(run: Run) -> None:
    async def story(cluster: Cluster) -> None:
        topic_partition = TopicPartition("t", 0)
        await cluster.create("t", [1, 2, 3])
        await cluster.must_produce(topic_partition, b"before")
        other = LocalSession(cluster.znode_server, 60_000)
        await other.set(znodes.topic_path("t"), b"nothing that anybody can read")
        victim = next(
            n for n in (1, 2, 3) if n not in (cluster.controller, cluster.leader(topic_partition))
        )
        await cluster.kill(victim)  # what the controller writes now meets another version
        await cluster.start(victim)
        assert cluster.hosts(victim, topic_partition)
        await cluster.until(lambda: cluster.in_sync(topic_partition) == {1, 2, 3}, "all follow")
        await cluster.must_produce(topic_partition, b"after")
        assert await cluster.read(topic_partition) == [b"before", b"after"]

    run(story)


def test_settings_that_cannot_be_read_stop_no_later_change(run: Run) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create("t", [1])
        await cluster.create("u", [1])
        other = LocalSession(cluster.znode_server, 60_000)
        for topic, data in (("t", b"{"), ("u", znodes.encode_config({"retention.ms": "7000"}))):
            await other.set(znodes.config_path("topics", topic), data)
            change = znodes.encode_config_change(f"topics/{topic}")
            await other.create(znodes.CONFIG_CHANGE, change, sequence=True)
        configs = cluster.brokers[1].context.effective_configs
        await cluster.until(lambda: configs.topic("u")["retention.ms"] == 7000, "it is obeyed")

    run(story, brokers=1)


def test_a_broker_starts_while_topics_are_deleted(run: Run) -> None:
    async def story(cluster: Cluster) -> None:
        session = Failing(cluster.znode_server, 60_000)
        for topic in ("going", "staying"):
            paths = [znodes.topic_path(topic), znodes.config_path("topics", topic)]
            await ensure_paths(session, paths)
        await session.create(znodes.CONTROLLER_EPOCH, b"1")
        session.gone = "going"
        await start(cluster, session)
        configs = cluster.brokers[1].context.effective_configs
        assert (configs.knows("going"), configs.knows("staying")) == (False, True)

    run(story, brokers=0)


@pytest.mark.parametrize("node", ["", "/partitions/0/state"])
def test_a_topic_that_is_spoilt_keeps_no_other_from_being_led(run: Run, node: str) -> None:
    async def story(cluster: Cluster) -> None:
        topic_partition = TopicPartition("u", 0)
        await cluster.create("t", [2, 1, 3])
        await cluster.create("u", [2, 1, 3])
        other = LocalSession(cluster.znode_server, 60_000)
        await other.set(znodes.topic_path("t") + node, b"nothing that anybody can read")
        await cluster.kill(2)
        await cluster.until(
            lambda: cluster.leader(topic_partition) > 0, "the other topic is led on"
        )
        await cluster.must_produce(topic_partition, b"a")
        await cluster.kill(cluster.controller)
        await cluster.until(lambda: cluster.controller > 0, "another rules")
        await cluster.until(
            lambda: cluster.leader(topic_partition) > 0, "the other topic is led on"
        )
        await cluster.must_produce(topic_partition, b"b")
        assert await cluster.read(topic_partition) == [b"a", b"b"]

    run(story)


class Small(LocalSession):
    """A session with a registry that takes little at a time."""

    async def multi(self, operations: Sequence[Operation]) -> Any:
        size = sum(len(getattr(op, "data", None) or b"") for op in operations)
        if size > 20_000:
            raise RegistryRefused(ZnodeError.BAD_ARGUMENTS, operations[0].path)
        return await super().multi(operations)


def test_topic_that_is_too_large_for_the_registry_is_refused_at_once(run: Run) -> None:
    async def story(cluster: Cluster) -> None:
        await start(cluster, Small(cluster.znode_server, 60_000))
        await cluster.until(lambda: cluster.brokers[1].controller.is_active, "1 rules")
        for name, partitions, code in (
            ("large", 3000, ErrorCode.POLICY_VIOLATION),
            ("small", 1, ErrorCode.NONE),
        ):
            topic = CreateTopicsRequestTopic(
                name=name, num_partitions=partitions, replication_factor=1
            )
            request = CreateTopicsRequest(topics=[topic], timeout_ms=10_000)
            response = (await cluster.send(1, request)).topics[0]
            assert response.error_code == code
        assert cluster.znode_server.tree.children(znodes.TOPICS) == ["small"]

    run(story, brokers=0)


class Refusing(LocalSession):
    """A session with a registry that refuses the next reads of a node, as one with an inconsistency does."""

    path: str | None = None
    reads: int = 0
    """Number of reads that are answered before."""
    refusals: int = 0
    """Number of reads that are still refused."""

    async def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, Stat]:
        if path == self.path and self.reads:
            self.reads -= 1
        elif path == self.path and self.refusals:
            self.refusals -= 1
            raise RegistryRefused(ZnodeError.RUNTIME_INCONSISTENCY, path)
        return await super().get(path, watch)


async def store_settings(session: LocalSession, retention_ms: int) -> None:
    """Store what `t` overrides, and notify the brokers."""
    path = znodes.config_path("topics", "t")
    await session.set(path, znodes.encode_config({"retention.ms": str(retention_ms)}))
    change = znodes.encode_config_change("topics/t")
    await session.create(znodes.CONFIG_CHANGE, change, sequence=True)


def test_topic_whose_settings_are_refused_is_served_when_they_are_known(run: Run) -> None:
    async def story(cluster: Cluster) -> None:
        session = Refusing(cluster.znode_server, 60_000)
        session.path, session.refusals = znodes.config_path("topics", "t"), 3
        await start(cluster, session)
        await cluster.until(lambda: cluster.brokers[1].controller.is_active, "1 rules")
        settings = znodes.encode_config({"retention.ms": "-1"})
        node = TopicNode(TopicId(b"0123456789abcdef"), {0: [1]})
        other = LocalSession(cluster.znode_server, 60_000)
        await other.create(session.path, settings)
        await other.create(znodes.topic_path("t"), node.encode())
        await cluster.until(lambda: cluster.leader(TopicPartition("t", 0)) == 1, "it is led")
        replica = cluster.brokers[1].replica_manager.find(TopicPartition("t", 0))
        assert replica.log.config.retention_ms == -1
        assert session.refusals == 0

    run(story, brokers=0)


def test_start_fails_when_the_settings_of_a_topic_are_refused(run: Run) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create("t", [1])
        await cluster.stop(1)
        session = Refusing(cluster.znode_server, 60_000)
        session.path, session.refusals = znodes.config_path("topics", "t"), 1
        with pytest.raises(ConnectionError, match="RUNTIME_INCONSISTENCY for /config/topics/t"):
            await start(cluster, session)

    run(story, brokers=1)


@pytest.mark.parametrize(
    "path", [f"{znodes.CONFIG_CHANGE}0000000000", znodes.config_path("topics", "t")]
)
def test_change_of_settings_that_is_refused_is_read_again(run: Run, path: str) -> None:
    async def story(cluster: Cluster) -> None:
        session = Refusing(cluster.znode_server, 60_000)
        await start(cluster, session)
        await cluster.create("t", [1])
        session.path, session.refusals = path, 1
        await store_settings(LocalSession(cluster.znode_server, 60_000), 7000)
        configs = cluster.brokers[1].context.effective_configs
        await cluster.until(lambda: session.refusals == 0, "it is refused")
        await cluster.until(lambda: configs.topic("t")["retention.ms"] == 7000, "it is obeyed")

    run(story, brokers=0)


@pytest.mark.parametrize(
    ("path", "reads"), [(znodes.topic_path("t"), 1), (znodes.state_path("t", 0), 0)]
)
def test_controller_does_not_take_a_refused_topic_for_a_deleted_one(
    run: Run, path: str, reads: int
) -> None:
    """The start itself reads the topic's id once."""

    async def story(cluster: Cluster) -> None:
        topic_partition = TopicPartition("t", 0)
        await cluster.create("t", [1])
        await cluster.must_produce(topic_partition, b"a")
        await cluster.stop(1)
        session = Refusing(cluster.znode_server, 60_000)
        session.path, session.reads, session.refusals = path, reads, 2
        await start(cluster, session)
        await cluster.until(lambda: cluster.leader(topic_partition) == 1, "it is led")
        assert await cluster.read(topic_partition) == [b"a"]

    run(story, brokers=1)
