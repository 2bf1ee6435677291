"""A cluster inside one process, for tests: brokers and their registry over loopback sockets, each on its own thread.

A broker's thread is its process: `pause` stops it where it stands (SIGSTOP), `kill` ends it with no last word
(SIGKILL), `cut` breaks the network between two. Nothing of the product knows that it is tested.

    with LocalCluster(path) as cluster:
        producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap_servers})
        cluster.kill(cluster.leader("t", 0))
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self

from kavka.broker.broker import Broker
from kavka.broker.environment import OsEnvironment
from kavka.broker.partitions.replica import Replica
from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.net.clock import SystemClock, SystemRandom
from kavka.registry.registry_server import RegistryServer
from kavka.registry.registry_server_config import RegistryServerConfig
from kavka.registry.znode_server import ZnodeServer
from kavka.testing.client_link import ClientLinks
from kavka.testing.cut_network import CutNetwork, Links
from kavka.testing.local_disk import LocalDisk
from kavka.testing.local_process import LocalProcess

REGISTRY = 0
_DEFAULTS = {
    "zookeeper.session.timeout.ms": "3000",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.num.partitions": "5",
    "kavka.transaction.version": "2",
    "replica.lag.time.max.ms": "3000",
    "controlled.shutdown.retry.backoff.ms": "500",
}


class _Host(OsEnvironment):
    """The I/O of one broker."""

    def __init__(self, network: CutNetwork) -> None:
        super().__init__()
        self.network = network  # type: ignore[assignment]
        self.disk = LocalDisk()


class Member:
    """A broker and its process."""

    def __init__(
        self,
        links: Links,
        number: int,
        settings: Mapping[str, str],
        clients: ClientLinks | None = None,
    ) -> None:
        """Take the broker's settings; `clients` are the connections to its first listener."""
        self.process = LocalProcess(links, number, clients)
        self.environment = _Host(self.process.network)
        self.settings = settings
        self.is_paused = False

    def start(self) -> int:
        """Start, and return the port."""

        async def start() -> tuple[Broker, int]:
            broker = Broker(self.settings, self.environment)
            endpoints = await broker.start()
            return broker, endpoints[0].port

        try:
            self.broker, port = self.process.call(start())
        except BaseException:
            self.process.kill()
            raise
        return port

    def stop(self) -> None:
        """Stop in order."""
        try:
            self.process.call(self.broker.stop())
        finally:
            self.process.end()

    def kill(self) -> None:
        """End as SIGKILL does."""
        self.process.kill()
        self.disk.die()

    @property
    def disk(self) -> LocalDisk:
        """Return the broker's disk."""
        disk = self.environment.disk
        assert isinstance(disk, LocalDisk)
        return disk


class LocalCluster:
    """Brokers 1, 2, ... and a registry. All methods are called from the test's thread and return when it is done."""

    _has_registry = True
    """False where the one broker keeps its own registry, on its disk, as without `zookeeper.connect`."""

    def __init__(
        self, path: Path, *, brokers: int = 3, settings: Mapping[str, str] | None = None
    ) -> None:
        """Start under `path`, with `settings` of `server.properties` for every broker.

        The listener is one of `security.inter.broker.protocol`: with SSL, `ssl.*` must be among the settings.
        """
        self.path = path
        self.zookeeper_connect = ""
        self._links = Links()
        replicas = str(min(3, brokers))
        self._settings = {
            "default.replication.factor": replicas,
            "offsets.topic.replication.factor": replicas,
            "transaction.state.log.replication.factor": replicas,
            **(settings or {}),
        }
        self._protocol = self._settings.get("security.inter.broker.protocol", "PLAINTEXT")
        self._members: dict[int, Member] = {}
        self._ports: dict[int, int] = {}
        self._registry = LocalProcess(self._links, REGISTRY)
        try:
            if self._has_registry:
                port = self._registry.call(self._serve_registry())
                self.zookeeper_connect = f"127.0.0.1:{port}"
            with ThreadPoolExecutor(brokers) as starting:
                list(starting.map(self.start, range(1, brokers + 1)))
            self._until_all_are_known()
        except BaseException:
            self.close()
            raise

    async def _serve_registry(self) -> int:
        znode_server = ZnodeServer(SystemClock(), SystemRandom())
        config = RegistryServerConfig.parse(
            {
                "dataDir": str(self.path),
                "clientPort": "0",
                "clientPortAddress": "127.0.0.1",
                "tickTime": "100",
                "maxSessionTimeout": "60000",
                "maxClientCnxns": "0",
            }
        )
        server = RegistryServer(znode_server, config, self._registry.network)
        await server.start()
        return server.port

    def _until_all_are_known(self) -> None:
        """Wait until every broker has learned of all, so that the first topic is placed on all of them."""
        self.until(
            lambda: all(
                member.process.ask(lambda each=member: len(each.broker.metadata.brokers))  # type: ignore[misc]
                == len(self._members)
                for member in self._members.values()
            )
        )

    # -- what a test does

    @property
    def bootstrap_servers(self) -> str:
        """Return the bootstrap servers: the ports of all brokers, stopped ones included."""
        return ",".join(f"127.0.0.1:{port}" for _, port in sorted(self._ports.items()))

    @property
    def running(self) -> list[int]:
        """The brokers that are alive, paused ones included."""
        return sorted(self._members)

    def start(self, number: int) -> None:
        """Start a broker, or start it again, on its directory and its port."""
        settings = {
            **_DEFAULTS,
            "broker.id": str(number),
            "broker.rack": f"rack-{number}",
            "log.dirs": str(self.path / f"broker-{number}"),
            **({"zookeeper.connect": self.zookeeper_connect} if self._has_registry else {}),
            **self._listeners_of(number),
            **self._settings,
        }
        member = Member(self._links, number, settings, self._clients_of(number))
        self._ports[number] = member.start()
        self._members[number] = member

    def _listeners_of(self, number: int) -> dict[str, str]:
        """Return the settings of a broker's listeners, that for clients first."""
        return {"listeners": f"{self._protocol}://127.0.0.1:{self._ports.get(number, 0)}"}

    def _clients_of(self, _number: int) -> ClientLinks | None:
        """Return the connections of a broker's clients, where something may happen to them."""
        return None

    def stop(self, number: int) -> None:
        """Stop a broker as an administrator does."""
        self._members.pop(number).stop()

    def kill(self, number: int) -> None:
        """End a broker as SIGKILL does."""
        self._members.pop(number).kill()

    def pause(self, number: int) -> None:
        """Pause a broker, as SIGSTOP does."""
        self._members[number].process.pause()
        self._members[number].is_paused = True

    def resume(self, number: int) -> None:
        """Resume a paused broker."""
        self._members[number].is_paused = False
        self._members[number].process.resume()

    def cut(self, first: int, second: int, *, one_way: bool = False) -> None:
        """Cut the network between two brokers, or a broker and `REGISTRY`; `one_way`: from `first` to `second` only."""
        self._links.cut(first, second)
        if not one_way:
            self._links.cut(second, first)

    def heal(self) -> None:
        """Mend every link; what was sent meanwhile arrives."""
        self._links.heal()
        for process in self._processes():
            process.loop.call_soon_threadsafe(process.network.healed)

    def _processes(self) -> list[LocalProcess]:
        return [self._registry, *(member.process for member in self._members.values())]

    def close(self) -> None:
        """End everything."""
        for number in self.running:
            self.kill(number)
        self._registry.kill()

    # -- what a test checks

    def leader(self, topic: str, partition: int = 0, *, seen_by: int | None = None) -> int:
        """Return the leader of a partition, -1 for none, in the metadata of `seen_by` or of the first live broker."""
        key = TopicPartition(topic, partition)
        for number, member in sorted(self._members.items()):
            if seen_by in (None, number) and not member.is_paused:
                metadata = member.process.ask(
                    lambda each=member: each.broker.metadata.partition(key)  # type: ignore[misc]
                )
                return -1 if metadata is None else int(metadata.leader)
        return -1

    def controller(self) -> int:
        """Return the controller in the metadata of the first broker that can be asked, -1 for none."""
        for member in self._members.values():
            if not member.is_paused:
                return int(
                    member.process.ask(lambda each=member: each.broker.metadata.controller_id)  # type: ignore[misc]
                )
        return -1

    def coordinator(self, group: str) -> int:
        """Return the coordinator of a group, -1 for none."""
        for member in self._members.values():
            if not member.is_paused:
                leader = member.process.call(member.broker.groups.leader_of(group))
                return -1 if isinstance(leader, ErrorCode) else int(leader)
        return -1

    def in_sync(self, topic: str, partition: int = 0) -> list[int]:
        """Return the leader's in-sync set; empty without a leader."""
        replica = self._replica(self.leader(topic, partition), topic, partition)
        return [] if replica is None else sorted(map(int, replica.partition.in_sync_replicas))

    def ends(self, topic: str, partition: int = 0) -> dict[int, tuple[int, int]]:
        """Return (log end offset, high watermark) of each live replica."""
        offsets = {}
        for number in self.running:
            replica = self._replica(number, topic, partition)
            if replica is not None:
                offsets[number] = (replica.log.log_end_offset, replica.partition.high_watermark)
        return offsets

    def _replica(self, number: int, topic: str, partition: int) -> Replica | None:
        member = self._members.get(number)
        if member is None:
            return None
        topic_partition = TopicPartition(topic, partition)
        replica = member.process.ask(lambda: member.broker.replica_manager.find(topic_partition))
        return replica if isinstance(replica, Replica) else None

    def log_bytes(self, number: int, topic: str, partition: int = 0) -> bytes:
        """Return the content of a replica's segments."""
        directory = self.path / f"broker-{number}" / f"{topic}-{partition}"
        return b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))

    def until(self, condition: Callable[[], object], timeout_s: float = 20) -> None:
        """Wait until something holds. Raise TimeoutError."""
        end = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > end:
                raise TimeoutError("what was waited for did not come")
            time.sleep(0.005)

    def until_replicated(self, topic: str, partition: int = 0, replicas: int = 3) -> None:
        """Wait until so many replicas have everything, and know that it is committed."""

        def is_replicated() -> bool:
            ends = list(self.ends(topic, partition).values())
            return len(ends) >= replicas and len(set(ends)) == 1 and ends[0][0] == ends[0][1]

        self.until(is_replicated)

    def __enter__(self) -> Self:
        """Be closed at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()
