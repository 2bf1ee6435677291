"""The controller's reads of the registry, each with a watch: a changed node is read again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from typing import Any, NamedTuple, TypeVar

from kavka.core.controller.state import Endpoint, LiveBroker, TopicRead
from kavka.core.znodes import Event
from kavka.ids import TopicPartition
from kavka.registry.embedded import EmbeddedRegistry
from kavka.registry.interface import (
    Registry,
    RegistryRefused,
    Watch,
    decode_or_none,
    gathered,
    require_no_node,
)
from kavka.wire.stored import znodes
from kavka.wire.stored.znodes import BrokerNode, StateNode, TopicNode

K = TypeVar("K")
T = TypeVar("T")
_MAX_CONCURRENT_READS = 500
_LAST_PORT = 65535


class Source(Enum):
    """A part of the registry that may have changed."""

    BROKERS = "brokers"
    TOPICS = "topics"
    TOPIC = "topic"
    DELETIONS = "deletions"
    REASSIGNMENTS = "reassignments"
    PREFERRED_ELECTION = "preferred election"
    LOG_DIRS = "log directories"
    ISR_CHANGES = "in-sync sets"


class Changed(NamedTuple):
    """A source that is to be read again; `name` is the topic's, or nothing."""

    source: Source
    name: str = ""


class WatchedRegistry:
    """Reads with watches. A source is reported once after its watch fired, and watched again with the next read."""

    def __init__(
        self,
        registry: Registry,
        changed: Callable[[Changed], None],
        delete: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        """Call `changed` on the loop; `delete` removes notifications, if not through the registry."""
        self._registry = registry
        self._changed = changed
        self._delete = delete or registry.delete
        self.unreadable: set[str] = set()
        """Topics with a znode that cannot be decoded: they stay as they are until it is repaired."""
        self.written_at: dict[TopicPartition, int] = {}
        """The zxid that wrote a partition's state, of those read since this was cleared."""
        self._armed: set[tuple[str, Changed]] = set()
        self.watched_topics: set[str] = set()
        """The topics with watched assignments."""
        self._is_stopped = False
        self._at_once = 1 if isinstance(registry, EmbeddedRegistry) else _MAX_CONCURRENT_READS

    async def _read_all(
        self, read: Callable[[K], Coroutine[Any, Any, T]], keys: Sequence[K]
    ) -> list[T]:
        return await gathered(read, keys, self._at_once)

    def stop(self) -> None:
        """Report nothing more."""
        self._is_stopped = True

    @contextmanager
    def _watch(self, path: str, source: Source, name: str = "") -> Iterator[Watch | None]:
        """Yield the watch for the read in the body of a `with`, or None when one is set already.

        A read that fails sets no watch: the next one has to.
        """
        what = Changed(source, name)
        key = (path, what)
        if key in self._armed:
            yield None
            return
        self._arm(key)

        def on_change(_event: Event) -> None:
            self._disarm(key)
            if not self._is_stopped:
                self._changed(what)

        try:
            yield on_change
        except BaseException:
            self._disarm(key)
            raise

    def _arm(self, key: tuple[str, Changed]) -> None:
        self._armed.add(key)
        path, what = key
        if what.source is Source.TOPIC and path == znodes.topic_path(what.name):
            self.watched_topics.add(what.name)

    def _disarm(self, key: tuple[str, Changed]) -> None:
        self._armed.discard(key)
        path, what = key
        if what.source is Source.TOPIC and path == znodes.topic_path(what.name):
            self.watched_topics.discard(what.name)

    # -- brokers

    async def brokers(self) -> list[LiveBroker]:
        """Return the registered brokers."""
        path = znodes.BROKER_IDS
        with self._watch(path, Source.BROKERS) as watch:
            names = await self._registry.children(path, watch)
        found = await self._read_all(self._broker, [int(name) for name in names if name.isdigit()])
        return [live for live in found if live is not None]

    async def _broker(self, broker: int) -> LiveBroker | None:
        path = f"{znodes.BROKER_IDS}/{broker}"
        try:
            with self._watch(path, Source.BROKERS) as watch:
                data, stat = await self._registry.get(path, watch)
        except RegistryRefused as refused:
            require_no_node(refused)
            return None
        decoded = decode_or_none(data, decode_broker, path)
        return None if decoded is None else LiveBroker(broker, stat.czxid, *decoded)

    # -- topics

    async def topic_names(self) -> list[str]:
        """Return which topics there are."""
        path = znodes.TOPICS
        with self._watch(path, Source.TOPICS) as watch:
            return await self._registry.children(path, watch)

    async def topics(self, names: Iterable[str]) -> dict[str, TopicRead]:
        """Return those of the topics that exist and can be read, with the states of their partitions."""
        wanted = list(names)
        found = await self._read_all(self._topic, wanted)
        return {name: read for name, read in zip(wanted, found, strict=True) if read is not None}

    async def topic_version(self, name: str) -> int | None:
        """Watch a topic's assignment, and return the version of its znode."""
        path = znodes.topic_path(name)
        try:
            with self._watch(path, Source.TOPIC, name) as watch:
                _data, stat = await self._registry.get(path, watch)
        except RegistryRefused as refused:
            require_no_node(refused)
            return None
        return stat.version

    async def _topic(self, name: str) -> TopicRead | None:
        path = znodes.topic_path(name)
        self.unreadable.discard(name)
        try:
            with self._watch(path, Source.TOPIC, name) as watch:
                data, stat = await self._registry.get(path, watch)
        except RegistryRefused as refused:
            require_no_node(refused)
            return None
        node = decode_or_none(data, TopicNode.decode, path)
        if node is None:
            self.unreadable.add(name)
            return None
        try:
            nodes = await self._registry.children(f"{path}/partitions")
        except RegistryRefused as refused:
            require_no_node(refused)
            return TopicRead(node, stat.version, {}, has_partitions=False)
        present = {int(partition) for partition in nodes if partition.isdigit()}
        partitions = [p for p in sorted(node.assignment) if p in present]
        states = await self.states(TopicPartition(name, p) for p in partitions)
        if name in self.unreadable:
            return None
        return TopicRead(
            node,
            stat.version,
            {
                topic_partition.partition: state
                for topic_partition, state in states.items()
                if state is not None
            },
            partition_nodes=frozenset(present),
        )

    async def states(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, tuple[StateNode, int] | None]:
        """Return the states of partitions, with the versions of their znodes; None where there is none to be read."""
        wanted = list(partitions)
        found = await self._read_all(self._state, wanted)
        return dict(zip(wanted, found, strict=True))

    async def _state(self, topic_partition: TopicPartition) -> tuple[StateNode, int] | None:
        path = znodes.state_path(*topic_partition)
        try:
            data, stat = await self._registry.get(path)
            node = decode_or_none(data, StateNode.decode, path)
            if node is None:
                # Read again with a watch: a repair would not be noticed otherwise.
                with self._watch(path, Source.TOPIC, topic_partition.topic) as watch:
                    data, stat = await self._registry.get(path, watch)
                node = decode_or_none(data, StateNode.decode, path)
        except RegistryRefused as refused:
            require_no_node(refused)
            return None
        if node is None:
            self.unreadable.add(topic_partition.topic)
            return None
        self.written_at[topic_partition] = stat.mzxid
        return node, stat.version

    # -- what is asked for by znodes

    async def deletions(self) -> list[str]:
        """Return the topics that are marked."""
        path = znodes.DELETED_TOPICS
        with self._watch(path, Source.DELETIONS) as watch:
            return await self._registry.children(path, watch)

    async def reassignments(self) -> dict[TopicPartition, tuple[int, ...]] | None:
        """Return the moves that are asked for, or None."""
        data = await self._optional(znodes.REASSIGN_PARTITIONS, Source.REASSIGNMENTS)
        return _decoded(data, znodes.decode_reassignments, znodes.REASSIGN_PARTITIONS)

    async def preferred_elections(self) -> list[TopicPartition] | None:
        """Return the partitions with a requested preferred election, or None."""
        data = await self._optional(znodes.PREFERRED_ELECTION, Source.PREFERRED_ELECTION)
        return _decoded(data, znodes.decode_partitions, znodes.PREFERRED_ELECTION)

    async def _optional(self, path: str, source: Source) -> bytes | None:
        """Return the data of a node that comes and goes."""
        while True:
            with self._watch(path, source) as watch:
                stat = await self._registry.stat(path, watch)
            if stat is None:
                return None
            try:
                return (await self._registry.get(path))[0]
            except RegistryRefused as refused:
                require_no_node(refused)

    # -- notifications, which are taken away

    async def failed_log_dirs(self) -> list[int]:
        """Return the brokers that reported a failed log directory."""
        path = znodes.LOG_DIR_EVENTS
        nodes = await self._read_and_delete(path, Source.LOG_DIRS)
        brokers = [_decoded(data, znodes.decode_log_dir_event, path) for data in nodes]
        return list(dict.fromkeys(broker for broker in brokers if broker is not None))

    async def changed_isrs(self) -> list[TopicPartition]:
        """Return the partitions with leaders older than AlterPartition that wrote the in-sync set themselves."""
        path = znodes.ISR_CHANGES
        nodes = await self._read_and_delete(path, Source.ISR_CHANGES)
        found = [_decoded(data, znodes.decode_partitions, path) for data in nodes]
        return list(
            dict.fromkeys(topic_partition for each in found for topic_partition in each or ())
        )

    async def _read_and_delete(self, path: str, source: Source) -> list[bytes]:
        taken = []
        with self._watch(path, source) as watch:
            names = await self._registry.children(path, watch)
        for name in names:
            try:
                data, _stat = await self._registry.get(f"{path}/{name}")
                await self._delete(f"{path}/{name}")
            except RegistryRefused as refused:
                require_no_node(refused)
                continue  # a controller before this one took it
            taken.append(data)
        return taken


def _decoded(data: bytes | None, decode: Callable[[bytes], T], path: str) -> T | None:
    """Return what people and tools have asked for, if they have and it can be read."""
    return decode_or_none(data, decode, path) if data else None


def decode_broker(data: bytes) -> tuple[tuple[Endpoint, ...], str | None]:
    """Return where a registered broker listens, and its rack."""
    node = BrokerNode.decode(data)
    return tuple(endpoints_of(node)), node.rack


def endpoints_of(node: BrokerNode) -> Iterable[Endpoint]:
    """Return where a registered broker listens. Raise ValueError for what is no address."""
    for text in node.endpoints:
        listener, _separator, address = text.partition("://")
        host, _colon, port = address.rpartition(":")
        if not port.isdecimal() or int(port) > _LAST_PORT:
            raise ValueError(f"no address: {text!r}")
        protocol = node.protocols.get(listener, listener)
        yield Endpoint(listener, host.strip("[]"), int(port), protocol)
