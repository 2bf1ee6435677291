"""The registry of a simulated cluster: an object with sessions, or a process that serves ZooKeeper's protocol.

Both report every write to the invariants when it happens.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from kavka.core.znode_access import Identity
from kavka.core.znodes import Create, Operation, SetData, ZnodeTree
from kavka.registry.interface import Registry
from kavka.registry.registry_server import RegistryServer
from kavka.registry.registry_server_config import RegistryServerConfig
from kavka.registry.znode_server import Result, ZnodeServer
from kavka.simulation.brokers.scenario import REGISTRY, REGISTRY_PORT
from kavka.simulation.environment import SimEnvironment
from kavka.simulation.events import ControllerElected, StateWritten
from kavka.simulation.faulty_session import FaultySession
from kavka.simulation.random_streams import SimRandom, stream
from kavka.wire.stored import znodes
from kavka.wire.stored.znodes import StateNode

if TYPE_CHECKING:
    from kavka.simulation.world import World

_STATE = "/state"

Observe = Callable[[StateWritten | ControllerElected], None]
"""Receiver of the written events."""


class ObservedZnodeServer(ZnodeServer):
    """A znode server that reports its writes to the invariants."""

    observe: Observe
    prefix = ""
    """The brokers' chroot."""

    def submit(
        self,
        operations: Sequence[Operation],
        session_id: int,
        identities: Collection[Identity] | None = None,
    ) -> list[Result]:
        """Apply all or none, and report changed states of partitions, and elected controllers."""
        written = [each for each in operations if isinstance(each, Create | SetData)]
        before = {each.path: self.tree.data(each.path) for each in written if _is_state(each.path)}
        results = super().submit(operations, session_id, identities)
        for each in written:
            path = each.path.removeprefix(self.prefix)
            if path == znodes.CONTROLLER_EPOCH and each.data:
                self._record_event(ControllerElected(int(each.data), session_id))
            elif each.path in before and each.data:
                self._record_state(path, before[each.path], each.data, session_id)
        return results

    def _record_event(self, event: StateWritten | ControllerElected) -> None:
        """Report a write after its sync: before that it is not visible, and the process may crash."""

        def report(failure: ConnectionError | None) -> None:
            if failure is None:
                self.observe(event)

        self.after_sync(report)

    def _record_state(self, path: str, before: bytes | None, data: bytes, session_id: int) -> None:
        topic, partition = path.split("/")[3], int(path.split("/")[5])
        epoch = self.tree.data(self.prefix + znodes.CONTROLLER_EPOCH)
        topic_data = self.tree.data(self.prefix + znodes.topic_path(topic)) or b""
        self._record_event(
            StateWritten(
                topic,
                partition,
                znodes.TopicNode.decode(topic_data).topic_id,
                None if not before else StateNode.decode(before),
                StateNode.decode(data),
                session_id,
                int(epoch or b"-1"),
            )
        )


def _is_state(path: str) -> bool:
    return path.endswith(_STATE) and "/brokers/topics/" in path


class SimulatedRegistry(ABC):
    """The registry as a run, its nemesis and its witness see it."""

    prefix = ""
    """The chroot of the brokers."""

    @property
    @abstractmethod
    def tree(self) -> ZnodeTree:
        """Return the tree."""

    @abstractmethod
    def session(self, name: str, environment: SimEnvironment) -> Registry | None:
        """Return what a broker's process is given; None when its settings say where to connect."""

    @abstractmethod
    def cut(self, name: str) -> None:
        """Block all messages between a broker and the registry."""

    @abstractmethod
    def heal(self, name: str) -> None:
        """Undo `cut`."""

    @abstractmethod
    def slow(self, name: str, *, on: bool) -> None:
        """Make a broker's way to the registry slow, or as it was."""

    @abstractmethod
    def expire(self, name: str) -> None:
        """End a broker's session as silence does."""

    def data(self, path: str) -> bytes | None:
        """Return a node's data, below the chroot."""
        return self.tree.data(self.prefix + path)

    def children(self, path: str) -> list[str]:
        """Return the names of a node's children, below the chroot."""
        return self.tree.children(self.prefix + path) or []

    def owner(self, path: str) -> int:
        """Return the session that owns a node; 0 for none."""
        stat = self.tree.stat(self.prefix + path)
        return 0 if stat is None else stat.ephemeral_owner

    def registered_ms(self, broker: int) -> int | None:
        """Return when a broker has registered, by the registry's clock; None for one that is not registered."""
        stat = self.tree.stat(f"{self.prefix}{znodes.BROKER_IDS}/{broker}")
        return None if stat is None else stat.ctime_ms

    @property
    def controller(self) -> int:
        """Return the id of the elected controller, -1 for none."""
        data = self.data(znodes.CONTROLLER)
        return -1 if data is None else znodes.decode_controller(data)

    def session_of(self, name: str) -> int:
        """Return the session that a broker is registered with; 0 for none."""
        return self.owner(f"{znodes.BROKER_IDS}/{name.rpartition('-')[2]}")


class InProcessRegistry(SimulatedRegistry):
    """A znode server in memory, which never fails; each process of a broker has a session of its own."""

    def __init__(self, world: World, observe: Observe, timeout_ms: int, delay_ms: int) -> None:
        """Keep an empty tree; `observe` takes what is written."""
        clock = world.node(REGISTRY).clock
        self._znode_server = ObservedZnodeServer(clock, SimRandom(stream(world.seed, "keeper")))
        self._znode_server.observe = observe
        self._timeout_ms = timeout_ms
        self._delay_ms = delay_ms
        self._sessions: dict[str, FaultySession] = {}

    @property
    def tree(self) -> ZnodeTree:
        """Return the tree."""
        return self._znode_server.tree

    def session(self, name: str, environment: SimEnvironment) -> Registry | None:
        """Begin a session, which is cut when the process ends, as its connection would be."""
        session = self._sessions[name] = FaultySession(self._znode_server, self._timeout_ms)
        session.delay_ms = self._delay_ms

        def end() -> None:
            if self._sessions.get(name) is session:
                del self._sessions[name]  # it is not healed later
            if asyncio._get_running_loop() is not None:  # else the world is ending
                session.cut()

        environment.process.at_end.append(end)
        return session

    def cut(self, name: str) -> None:
        """Block all messages between a broker and the registry."""
        if name in self._sessions:
            self._sessions[name].cut()

    def heal(self, name: str) -> None:
        """Undo `cut`."""
        if name in self._sessions:
            self._sessions[name].heal()

    def slow(self, name: str, *, on: bool) -> None:
        """Delay messages by 300 ms."""
        if name in self._sessions:
            self._sessions[name].delay_ms = 300 if on else self._delay_ms

    def expire(self, name: str) -> None:
        """End a broker's session as silence does."""
        if name in self._sessions:
            self._znode_server.expire(self._sessions[name])


class RegistryServerNode(SimulatedRegistry):
    """A node with a process that serves the registry, with a journal on its disk."""

    prefix = "/kavka"

    def __init__(self, world: World, observe: Observe) -> None:
        """Serve nothing before `keep_running`; `observe` takes what is written."""
        self.node = world.node(REGISTRY)
        self.down_s = (0.05, 2.0)
        self._world = world
        self._observe = observe
        self._source = stream(world.seed, "keeper of the registry")
        self._znode_server: ObservedZnodeServer | None = None
        self._tree = ZnodeTree()

    async def keep_running(self) -> None:
        """Serve, and again after each death."""
        while True:
            process = self.node.start(self._serve)
            await process.ended
            await asyncio.sleep(self._source.uniform(*self.down_s))

    async def _serve(self, environment: SimEnvironment) -> None:
        environment.disk.make_directories("/registry")
        znode_server = await ObservedZnodeServer.open(
            environment.disk, "/registry", environment.clock, environment.random
        )
        assert isinstance(znode_server, ObservedZnodeServer)
        znode_server.prefix = self.prefix
        znode_server.observe = self._observe
        self._znode_server, self._tree = znode_server, znode_server.tree
        texts = {
            "dataDir": "/registry",
            "clientPortAddress": REGISTRY,
            "clientPort": str(REGISTRY_PORT),
            "tickTime": "500",
            "maxClientCnxns": "0",
        }
        server = RegistryServer(
            znode_server, RegistryServerConfig.parse(texts), environment.network
        )
        await server.start()
        await asyncio.get_running_loop().create_future()

    @property
    def tree(self) -> ZnodeTree:
        """Return the tree; while the process is down, its last state."""
        return self._tree

    def session(self, name: str, environment: SimEnvironment) -> Registry | None:
        """Leave it to the broker to connect."""
        return None

    def cut(self, name: str) -> None:
        """Cut the link."""
        self._world.network.cut(name, REGISTRY)

    def heal(self, name: str) -> None:
        """Heal the link."""
        self._world.network.link(name, REGISTRY).heal()
        self._world.network.link(REGISTRY, name).heal()

    def slow(self, name: str, *, on: bool) -> None:
        """Make the link slow, or as fast as the weather allows."""
        for link in (
            self._world.network.link(name, REGISTRY),
            self._world.network.link(REGISTRY, name),
        ):
            link.slowness = 30.0 if on else 1.0

    def expire(self, name: str) -> None:
        """End a broker's session as silence does."""
        session = self.session_of(name)
        if session and self._znode_server is not None and self.node.is_running:
            self._znode_server.expire(session)
