"""Three brokers as real processes on machines of their own, which faults are done to and which is made well again."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError

from kavka.ids import TopicPartition
from kavka.net.network import TcpNetwork
from kavka.net.peer import Peer
from kavka.net.peer_security import PLAINTEXT
from kavka.wire.messages.metadata import MetadataRequest
from kavka.wire.records.header import BatchHeader, walk
from kavka_chaos.network import Network, SmallDisk
from kavka_chaos.registries import Registry, ServedRegistry, ZooKeeper
from kavka_chaos.schedule import BROKERS
from kavka_chaos.security import ADMIN, broker_settings, secure
from kavka_compat.apache import write_properties
from kavka_compat.ours import kavka_command
from kavka_compat.processes import Running, free_port
from kavka_compat.secured import Secured
from support.waiting import wait_until

DISKS = (1, 2)
"""Broker 1 has a small disk beside another, broker 2 has nothing else: it ends when that is full."""
_DISK_MEGABYTES = 64
_SETTINGS = {
    "auto.create.topics.enable": "false",
    "auto.leader.rebalance.enable": "true",
    "leader.imbalance.check.interval.seconds": "10",
    "controlled.shutdown.retry.backoff.ms": "500",
    # A broker that is cut off from its controller tries three times to leave in order: 90 s by default.
    "controller.socket.timeout.ms": "10000",
    "group.initial.rebalance.delay.ms": "0",
    "log.segment.bytes": str(128 * 1024),
    "min.insync.replicas": "2",
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "3",
    "replica.lag.time.max.ms": "3000",
    "unclean.leader.election.enable": "false",
    "zookeeper.connection.timeout.ms": "60000",
    "zookeeper.session.timeout.ms": "3000",
}


class NotWell(AssertionError):
    """The cluster did not become well again, or a process ended by itself."""


def broker_machine(number: int) -> str:
    """Return the machine's name of a broker."""
    return f"broker-{number}"


def machines(members: int) -> list[str]:
    """Return all machines of a cluster, without its clients."""
    registry = [f"registry-{number}" for number in range(members)]
    return [*map(broker_machine, range(BROKERS)), *registry]


class ChaosCluster:
    """Brokers 0 to 2 on a registry. `run_cluster` makes one."""

    def __init__(
        self,
        directory: Path,
        network: Network,
        registry: Registry,
        secured: Secured | None = None,
    ) -> None:
        """Mount the small disks; nothing runs before `heal`. With `secured` all listeners are SASL_SSL."""
        self.network = network
        self.registry = registry
        self.secured = secured
        self._ports = [free_port() for _ in range(BROKERS)]
        self._shown = [
            network.shown(broker_machine(number), port) for number, port in enumerate(self._ports)
        ]
        self.disks = {
            number: SmallDisk(self._disk(directory, number), _DISK_MEGABYTES)
            for number in (DISKS if network.has_disks else ())
        }
        self._directory = directory
        self._running: dict[int, Running] = {}
        self._down: set[int] = set(range(BROKERS))
        """Processes that were stopped or killed, or may end by themselves."""
        self._starts = 0

    @property
    def bootstrap(self) -> str:
        """All brokers."""
        return ",".join(self._shown)

    def client(self, user: str) -> dict[str, str]:
        """Return librdkafka's settings of a user."""
        own = {} if self.secured is None else self.secured.librdkafka(user)
        return {"bootstrap.servers": self.bootstrap, **own}

    # -- processes

    def launch(self, number: int) -> None:
        """Start a broker; it is not ready yet."""
        machine = broker_machine(number)
        protocol = "PLAINTEXT" if self.secured is None else "SASL_SSL"
        settings = {
            "broker.id": str(number),
            "listeners": f"{protocol}://{self.network.address(machine)}:{self._ports[number]}",
            "advertised.listeners": f"{protocol}://{self._shown[number]}",
            "log.dirs": ",".join(map(str, self._log_directories(number))),
            "zookeeper.connect": f"{self.registry.connect}/chaos",
            **_SETTINGS,
            **({} if self.secured is None else broker_settings(self.secured)),
        }
        home = self._directory / machine
        home.mkdir(parents=True, exist_ok=True)
        path = write_properties(home / "server.properties", settings)
        self._starts += 1
        command = [*self.network.within(machine), *kavka_command("server-start", str(path))]
        self._running[number] = Running(command, home / f"{self._starts:04}.out")
        self.network.runs(machine, self._running[number].pid)
        self._down.discard(number)

    def kill(self, number: int) -> None:
        """End a broker with SIGKILL."""
        self._down.add(number)
        self._running[number].kill()

    def signal(self, number: int, which: signal.Signals) -> None:
        """Send a broker a signal."""
        if self._running[number].alive():
            self._running[number].signal(which)

    def ask_to_stop(self, number: int) -> None:
        """Send a broker SIGTERM."""
        self._down.add(number)
        self.signal(number, signal.SIGTERM)

    def wait_stopped(self, number: int, seconds: float = 60) -> None:
        """Return when a broker has ended. Raise NotWell."""
        running = self._running[number]
        wait_until(lambda: not running.alive(), seconds, f"broker {number} stops", NotWell)

    def may_end(self, number: int) -> None:
        """Allow a broker to end by itself: its only disk fails."""
        if len(self._log_directories(number)) == 1:
            self._down.add(number)

    def check_alive(self) -> None:
        """Insist that every broker runs that should."""
        for number, process in self._running.items():
            if number not in self._down and not process.alive():
                tail = "\n  ".join(process.text().splitlines()[-20:])
                raise NotWell(f"broker {number} ended by itself:\n  {tail}")

    def heal(self, topics: Sequence[str], seconds: float = 120) -> None:
        """Start what is down, and return when every replica of `topics` is in sync. Raise NotWell."""
        self.check_alive()
        self.registry.heal()
        for number in range(BROKERS):
            if number not in self._running or not self._running[number].alive():
                self.launch(number)
        for number, process in self._running.items():
            process.wait_for(f"kavka broker {number} ready: ", seconds)
        registry = KazooClient(self.registry.connect, timeout=10)
        registry.start(60)
        try:
            wait_until(
                lambda: self._is_well(self._missing(registry, topics) is None),
                seconds,
                lambda: str(self._missing(registry, topics)),
                NotWell,
            )
        finally:
            registry.stop()
            registry.close()
        wait_until(
            lambda: self._is_well(all(map(self._knows_all, range(BROKERS)))),
            seconds,
            "brokers know each other",
            NotWell,
        )

    def _is_well(self, is_done: bool) -> bool:
        """Return what is waited for, while all brokers run that should."""
        if not is_done:
            self.check_alive()
        return is_done

    def _knows_all(self, number: int) -> bool:
        """Return whether a broker names all brokers and a controller; librdkafka does not ask again otherwise."""
        host, _colon, port = self._shown[number].rpartition(":")
        security = PLAINTEXT if self.secured is None else self.secured.peer(ADMIN)

        async def ask() -> bool:
            async with asyncio.timeout(5):
                peer = await Peer.connect(TcpNetwork(), host, int(port), security=security)
                try:
                    known = await peer.send(MetadataRequest(topics=[]))
                finally:
                    peer.close()
                    await peer.wait_closed()
            alive = {broker.node_id for broker in known.brokers}
            return bool(alive == set(range(BROKERS)) and known.controller_id in alive)

        try:
            return asyncio.run(ask())
        except (OSError, TimeoutError):
            return False

    def _missing(self, registry: KazooClient, topics: Sequence[str]) -> str | None:
        """Return what is not well yet."""
        try:
            alive = set(registry.get_children("/chaos/brokers/ids"))
            if alive != set(map(str, range(BROKERS))):
                return f"registered are {sorted(alive)}"
            for topic in topics:
                path = f"/chaos/brokers/topics/{topic}"
                node = json.loads(registry.get(path)[0])
                for partition, replicas in node["partitions"].items():
                    state = json.loads(registry.get(f"{path}/partitions/{partition}/state")[0])
                    if state["leader"] < 0 or set(state["isr"]) != set(replicas):
                        return f"{topic}-{partition} of {replicas}: {state}"
        except NoNodeError:
            return "a znode is missing"
        except KazooException as error:
            return f"the registry does not answer: {error!r}"
        return None

    def tracebacks(self) -> list[str]:
        """Return a line for each output of a broker that has a traceback in it."""
        return [
            f"{path} has a traceback"
            for path in sorted(self._directory.glob("broker-*/*.out"))
            if "Traceback (most recent call last)" in path.read_text(errors="replace")
        ]

    def abandon(self) -> None:
        """Kill what runs, and throw the small disks away."""
        for process in self._running.values():
            if process.alive():
                process.kill()
        for disk in self.disks.values():
            disk.unmount()

    # -- the logs

    def unequal_logs(self, topic: str, partitions: int, seconds: float = 90) -> list[str]:
        """Return the partitions with replicas of different bytes, after the last write."""

        def unequal() -> list[int]:
            return [at for at in range(partitions) if len(self._contents(topic, at)) > 1]

        with suppress(NotWell):
            wait_until(lambda: not unequal(), seconds, "logs are equal", NotWell)
        return [f"the logs of {topic}-{at} differ" for at in unequal()]

    def batches(self, topic_partition: TopicPartition) -> list[BatchHeader]:
        """Return the headers of a log's batches, as broker 0 has them."""
        return walk(self._log_bytes(0, topic_partition.topic, topic_partition.partition))

    def _contents(self, topic: str, partition: int) -> set[bytes]:
        return {self._log_bytes(number, topic, partition) for number in range(BROKERS)}

    def _log_bytes(self, number: int, topic: str, partition: int) -> bytes:
        for directory in self._log_directories(number):
            segments = sorted((directory / f"{topic}-{partition}").glob("*.log"))
            if segments:
                return b"".join(path.read_bytes() for path in segments)
        return f"broker {number} has none".encode()

    def _disk(self, directory: Path, number: int) -> Path:
        return directory / broker_machine(number) / "disk"

    def _log_directories(self, number: int) -> list[Path]:
        plain = self._directory / broker_machine(number) / "logs"
        disk = self._disk(self._directory, number)
        if number not in self.disks:
            return [plain]
        return [disk / "logs"] if number == DISKS[-1] else [plain, disk / "logs"]


@contextmanager
def run_cluster(
    directory: Path,
    kind: str,
    make_network: Callable[[Sequence[str]], Network],
    *,
    is_secured: bool = False,
) -> Iterator[ChaosCluster]:
    """Run a cluster; `kind` of its registry is `zookeeper` or `served`."""
    members = 3 if kind == "zookeeper" else 1
    names = machines(members)
    network = make_network(names)
    registry: Registry | None = None
    cluster: ChaosCluster | None = None
    try:
        if kind == "zookeeper":
            registry = ZooKeeper(directory, network, names[BROKERS:])
        else:
            registry = ServedRegistry(directory, network, names[BROKERS])
        secured = secure(directory, network, registry, names) if is_secured else None
        cluster = ChaosCluster(directory, network, registry, secured)
        cluster.heal([])
        yield cluster
    finally:
        if cluster is not None:
            cluster.abandon()
        if registry is not None:
            registry.stop()
        network.close()
