"""The controller's work in large clusters: 10 to 100 brokers, 1,000 to 100,000 partitions with three replicas each.

    python bench/scale.py --points 10x1000,30x10000,100x100000 --json FILE --plot FILE

Nothing is sent: the controller's own parts (the reading of the registry, the machine, the writer, the builder of
control requests) work in one process on a registry in memory, whose responses take `--rtt-ms` of virtual time. Full
collections of garbage are put off as in a broker. So CPU times, counts and sizes are those of a real controller;
seconds of virtual time are what the round trips to the registry take, without CPU. The reading includes what the
virtual loop itself costs.

    failover   a new controller reads everything, and every broker is sent everything
    death      one broker dies: elections, writes, updates of all others
    return     it registers again
    in-sync    changes of one in-sync set, one after the other
    creation   topics of ten partitions, one after the other
    client     a broker takes in everything; a client asks for everything

The requests to all brokers are built and encoded as by a controller: the body of UpdateMetadata once for all of them.
Figures "per broker" are medians.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import math
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from kavka.broker.control.control_request_builder import ControlRequestBuilder
from kavka.broker.control.registry_writer import RegistryWriter
from kavka.broker.control.shared_updates import SharedBodies, SharedUpdateMetadata
from kavka.broker.control.topic_updates import updated_topic
from kavka.broker.control.watched_registry import WatchedRegistry
from kavka.broker.metadata.cache import LiveBroker as KnownBroker
from kavka.broker.metadata.cache import MetadataCache
from kavka.broker.metadata.encoded_topics import EncodedTopics, Form, pieces
from kavka.broker.requests.full_collections import FullCollections
from kavka.broker.requests.memory import RequestMemory
from kavka.core.controller.broker_updates import BrokerUpdate
from kavka.core.controller.events import (
    AlterPartitionRequested,
    BrokersChanged,
    CreateTopicRequested,
    Elected,
    Event,
    IsrChange,
    Snapshot,
    TopicToCreate,
)
from kavka.core.controller.machine import ControllerMachine
from kavka.core.controller.settings import ControllerSettings
from kavka.core.controller.state import Assignment, LiveBroker, topic_node
from kavka.core.znode_values import Stat
from kavka.ids import BrokerId, TopicId
from kavka.simulation.loop import SimLoop
from kavka.wire.codec import decode
from kavka.wire.frame import decode_request_header, encode_request
from kavka.wire.messages.leader_and_isr import LeaderAndIsrRequest
from kavka.wire.messages.stop_replica import StopReplicaRequest
from kavka.wire.messages.update_metadata import UpdateMetadataRequest
from kavka.wire.primitives import length_of
from kavka.wire.stored import znodes
from kavka.wire.stored.znodes import BrokerNode, StateNode

REPLICAS = 3
PARTITIONS_OF_A_TOPIC = 10
LISTENER = "PLAINTEXT"
_ORDERS = 500
_STAT = Stat(1, 1, 0, 0, 0, 0, 0, 0, 0, 1)
_LINEAR = 1.1
"""The exponent above which growth is taken for faster than linear: the noise of CPU times is some percent."""
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class MemoryRegistry:
    """Znodes in memory behind a round trip of virtual time; counts requests and bytes."""

    session_lost: Callable[[], None] | None = None
    session_id = 1

    def __init__(self, rtt_s: float) -> None:
        self._rtt_s = rtt_s
        self.data: dict[str, bytes] = {}
        self.below: dict[str, list[str]] = {}
        self.reads = self.multis = self.written_bytes = 0

    async def get(self, path: str, watch: Any = None) -> tuple[bytes, Stat]:
        """Return data and stat."""
        self.reads += 1
        await asyncio.sleep(self._rtt_s)
        return self.data[path], _STAT

    async def stat(self, path: str, watch: Any = None) -> Stat | None:
        """Return None for what is not there."""
        self.reads += 1
        await asyncio.sleep(self._rtt_s)
        return _STAT if path in self.data else None

    async def children(self, path: str, watch: Any = None) -> list[str]:
        """Return the names of the children."""
        self.reads += 1
        await asyncio.sleep(self._rtt_s)
        return self.below.get(path, [])

    async def delete(self, path: str, version: int = -1) -> None:
        """Refuse: nothing of these scenarios deletes."""
        raise AssertionError(path)

    async def multi(self, operations: Sequence[Any]) -> list[str]:
        """Count the operations; the machine remembers what they say."""
        self.multis += 1
        self.written_bytes += sum(len(getattr(each, "data", b"") or b"") for each in operations)
        await asyncio.sleep(self._rtt_s)
        return []


def fill(registry: MemoryRegistry, brokers: int, partitions: int) -> None:
    """Write the znodes of a cluster whose topics have ten partitions, with leaders and replicas spread evenly."""
    registry.below[znodes.BROKER_IDS] = [str(broker) for broker in range(brokers)]
    for broker in range(brokers):
        endpoint = [f"{LISTENER}://broker-{broker}.example:9092"]
        node = BrokerNode(endpoint, {LISTENER: LISTENER}, None, 0, None, -1)
        registry.data[f"{znodes.BROKER_IDS}/{broker}"] = node.encode()
    names = [f"topic-{number:05d}" for number in range(partitions // PARTITIONS_OF_A_TOPIC)]
    registry.below[znodes.TOPICS] = names
    for number, name in enumerate(names):
        assignments = {
            partition: Assignment(replicas_of(number * PARTITIONS_OF_A_TOPIC + partition, brokers))
            for partition in range(PARTITIONS_OF_A_TOPIC)
        }
        path = znodes.topic_path(name)
        topic_id = TopicId(number.to_bytes(16))
        registry.data[path] = topic_node(topic_id, assignments).encode()
        registry.below[f"{path}/partitions"] = [str(partition) for partition in assignments]
        for partition, assignment in assignments.items():
            state = StateNode(assignment.replicas[0], 0, 1, list(assignment.replicas))
            registry.data[znodes.state_path(name, partition)] = state.encode()


def replicas_of(number: int, brokers: int) -> tuple[int, ...]:
    """Return the replicas of a partition: each broker leads as many, with others as followers each time."""
    first, shift = number % brokers, number // brokers % (brokers - 1)
    step = 1 + shift
    second = (first + step) % brokers
    third = (first + step % (brokers - 1) + 1) % brokers
    others = [each for each in (second, third, *range(brokers)) if each != first]
    return (first, *dict.fromkeys(others))[:REPLICAS]


class Stopwatch:
    """CPU times and virtual times by name."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop
        self.figures: dict[str, float] = {}

    @contextmanager
    def measured(self, name: str, *, has_round_trips: bool = False) -> Iterator[None]:
        """Note the CPU time of the body, and the virtual time where it waits for the registry."""
        gc.collect()
        cpu_s, virtual_s = time.process_time(), self._loop.time()
        yield
        self.figures[f"{name} cpu s"] = round(time.process_time() - cpu_s, 6)
        if has_round_trips:
            self.figures[f"{name} virtual s"] = round(self._loop.time() - virtual_s, 6)


class Controller:
    """A controller's parts, put together as a controller term does."""

    def __init__(self, registry: Any, watch: Stopwatch) -> None:
        self.registry = registry  # a MemoryRegistry: it has what these parts call, and no more
        self._watch = watch
        self._memory = RequestMemory(0)
        self._memory.watch(FullCollections().large_requests)
        self.writer = RegistryWriter(self.registry, 1)
        self.machine = ControllerMachine(2, Snapshot(), ControllerSettings())

    def large_work(self) -> AbstractContextManager[None]:
        """Return the context in which full collections of garbage are put off."""
        return self._memory.large_work()

    async def elect(self) -> None:
        """Read everything and send every broker everything."""
        figures, resident = self._watch.figures, resident_bytes()
        with self._memory.large_work():
            with self._watch.measured("failover: read", has_round_trips=True):
                snapshot = await self._read()
            figures["failover: reads"] = self.registry.reads
            with self._watch.measured("failover: decide", has_round_trips=True):
                self.machine = ControllerMachine(2, snapshot, ControllerSettings())
                await self.handle(Elected())
        figures["failover: memory MiB"] = round((resident_bytes() - resident) / 2**20, 1)
        self.send("failover")

    async def _read(self) -> Snapshot:
        watched = WatchedRegistry(self.registry, lambda _: None)
        brokers = await watched.brokers()
        topics = await watched.topics(await watched.topic_names())
        return Snapshot(brokers, topics, await watched.deletions())

    async def handle(self, event: Event) -> int:
        """Take an event to its end, but for what brokers are sent; return the number of records."""
        decision = self.machine.handle(event, 0)
        await self.writer.write(decision.records, self.machine.apply)
        for effect in decision.effects:
            if isinstance(effect, BrokerUpdate):
                self.machine.outbox.add(effect)
        return len(decision.records)

    async def change_brokers(self, name: str, brokers: Sequence[LiveBroker]) -> None:
        """Have brokers go or come."""
        before = self.registry.multis
        with self._watch.measured(f"{name}: decide", has_round_trips=True):
            records = await self.handle(BrokersChanged(brokers))
        self._watch.figures[f"{name}: states written"] = records
        self._watch.figures[f"{name}: multis"] = self.registry.multis - before
        self.send(name)

    def send(self, name: str) -> None:
        """Build and encode the requests of all brokers."""
        costs: list[float] = []
        sizes: dict[str, list[int]] = {}
        requests = 0
        bodies = SharedBodies(self.machine)
        for broker in self.machine.outbox.waiting():
            pending = self.machine.outbox.take(broker)
            assert pending is not None
            epoch = self.machine.state.brokers[broker].epoch
            builder = ControlRequestBuilder(
                self.machine, 0, LISTENER, epoch, self._memory.large_work, bodies
            )
            started_s = time.process_time()
            frames = [encoded(request) for request in builder.requests(pending)]
            costs.append(time.process_time() - started_s)
            requests += len(frames)
            totals: dict[str, int] = {}
            for kind, frame in frames:
                totals[kind] = totals.get(kind, 0) + sum(map(length_of, frame))
            for kind, size in totals.items():
                sizes.setdefault(kind, []).append(size)
        figures = self._watch.figures
        figures[f"{name}: requests per broker"] = round(requests / max(1, len(costs)), 2)
        figures[f"{name}: build cpu s of the first broker"] = round((costs or [0.0])[0], 6)
        figures[f"{name}: build cpu s per broker"] = round(statistics.median(costs or [0.0]), 6)
        figures[f"{name}: build cpu s of all brokers"] = round(sum(costs), 6)
        for kind, each in sizes.items():
            figures[f"{name}: {kind} bytes per broker"] = statistics.median(each)


_VERSIONS = {LeaderAndIsrRequest: 7, StopReplicaRequest: 4}


def encoded(request: Any) -> tuple[str, Sequence[Any]]:
    """Return the name and the frame of a request of the builder."""
    if isinstance(request, SharedUpdateMetadata):
        return "UpdateMetadata", request.frame(8, 1, "0")
    kind = type(request)
    return kind.__name__.removesuffix("Request"), encode_request(request, _VERSIONS[kind], 1, "0")


def joined(frame: Sequence[Any]) -> bytes:
    """Return the bytes of a frame; control requests have no records, hence no ranges of files."""
    return b"".join(frame)


async def orders(controller: Controller, watch: Stopwatch, brokers: int) -> None:
    """Measure small orders, one after the other."""
    state = controller.machine.state
    # The partitions of the broker that died lack it in their in-sync sets.
    whole = [
        each
        for each in state.topic_partitions()
        if len(state.topics[each.topic].leadership[each.partition].node.in_sync_replicas)
        == REPLICAS
    ]
    chosen = whole[:_ORDERS]
    with watch.measured("in-sync"):
        for topic_partition in chosen:
            node, epoch = state.topics[topic_partition.topic].leadership[topic_partition.partition]
            rest = tuple(node.in_sync_replicas[:2])
            proposal = IsrChange(*topic_partition, node.leader_epoch, epoch, rest)
            live = state.brokers[node.leader]
            event = AlterPartitionRequested(1, node.leader, live.epoch, [proposal])
            assert await controller.handle(event) == 1
    watch.figures["in-sync: orders per cpu s"] = round(len(chosen) / watch.figures["in-sync cpu s"])
    controller.send("in-sync")
    with watch.measured("creation"):
        for number in range(_ORDERS // PARTITIONS_OF_A_TOPIC):
            assignment = {
                partition: replicas_of(number + partition, brokers)
                for partition in range(PARTITIONS_OF_A_TOPIC)
            }
            topic = TopicToCreate(
                f"new-{number:05d}", TopicId((1 << 100 | number).to_bytes(16)), assignment, {}
            )
            await controller.handle(CreateTopicRequested(1, topic))
    created = _ORDERS // PARTITIONS_OF_A_TOPIC
    watch.figures["creation: topics per cpu s"] = round(created / watch.figures["creation cpu s"])
    controller.send("creation")


def client(controller: Controller, watch: Stopwatch) -> None:
    """Have a broker take in everything, and a client of it ask for everything."""
    builder = ControlRequestBuilder(controller.machine, 0, LISTENER, 1)
    everything = list(controller.machine.state.topic_partitions())
    frame = joined(encode_request(builder.update_metadata(everything, {}), 8, 1, "0"))
    cache = MetadataCache("scale")
    # A broker takes in a frame of this size as a large request.
    with controller.large_work(), watch.measured("client: taken in by a broker"):
        start = decode_request_header(memoryview(frame)[4:]).body_position
        request = decode(UpdateMetadataRequest, 8, memoryview(frame)[4:], start)
        for topic in request.topic_states:
            topic_id = TopicId(bytes(topic.topic_id))
            known = updated_topic(topic.topic_name, topic_id, topic.partition_states, None)
            assert known is not None
            cache.put_topic(known)
    cache.brokers = {
        BrokerId(live.id): KnownBroker(BrokerId(live.id), (), None, -1)
        for live in request.live_brokers
    }
    encoded = EncodedTopics(cache)
    for name in ("first", "later"):
        with watch.measured(f"client: {name} Metadata"):
            topics = encoded.take(cache.topics.values(), Form(12, 0))
            for _ in pieces(topics):
                pass
    watch.figures["client: Metadata bytes"] = sum(len(topic.data or b"") for topic in topics)


def measure(brokers: int, partitions: int, rtt_s: float) -> dict[str, float]:
    """Return the figures of one size of cluster."""
    loop = SimLoop()
    watch = Stopwatch(loop)
    registry = MemoryRegistry(rtt_s)
    fill(registry, brokers, partitions)

    async def scenario() -> None:
        controller = Controller(registry, watch)
        await controller.elect()
        live = list(controller.machine.state.brokers.values())
        await controller.change_brokers("death", live[1:])
        await controller.change_brokers("return", [live[0]._replace(epoch=99), *live[1:]])
        await orders(controller, watch, brokers)
        client(controller, watch)

    loop.run(scenario())
    loop.close()
    return {
        "brokers": brokers,
        "partitions": partitions,
        **watch.figures,
        **computed(brokers, watch),
    }


def computed(brokers: int, watch: Stopwatch) -> dict[str, float]:
    """Return what follows for all brokers: until when the last one is sent its requests, and the bytes."""
    figures, found = watch.figures, dict[str, float]()
    for name, others in (("failover", brokers), ("death", brokers - 1)):
        parts = ("read cpu", "read virtual", "decide cpu", "decide virtual")
        before_s = sum(figures.get(f"{name}: {part} s", 0) for part in parts)
        build_s = figures[f"{name}: build cpu s of all brokers"]
        found[f"{name}: computed s until the last broker"] = round(before_s + build_s, 3)
        sent = figures[f"{name}: UpdateMetadata bytes per broker"]
        found[f"{name}: computed UpdateMetadata MB to all"] = round(sent * others / 1e6, 1)
    return found


def resident_bytes() -> int:
    """Return the memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_BYTES


def growth(points: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return by figure the exponent of its growth with partitions between the first point and the last."""
    first, last = points[0], points[-1]
    size = math.log(last["partitions"] / first["partitions"])
    return {
        name: round(math.log(last[name] / first[name]) / size, 2)
        for name in first
        if size and first[name] > 0 and last.get(name, 0) > 0
    }


# The plot

_WIDTH, _HEIGHT, _LEFT, _TOP, _RIGHT, _BOTTOM = 860, 420, 80, 60, 330, 50
_SHOWN = (
    ("failover: read cpu s", "failover: read and decode", "#1b6ca8"),
    ("failover: decide cpu s", "failover: decide", "#2a9d8f"),
    ("failover: build cpu s of all brokers", "failover: requests to all brokers", "#e9a23b"),
    ("death: decide cpu s", "a broker dies: elect and write", "#c8553d"),
    ("death: build cpu s of all brokers", "a broker dies: requests to all", "#8d6a9f"),
)
"""Figures of the plot: name, words, colour."""


def plot(points: Sequence[dict[str, float]]) -> str:
    """Return CPU seconds by number of partitions, both logarithmic, as SVG."""
    xs = [math.log10(point["partitions"]) for point in points]
    values = [p[name] for name, _, _ in _SHOWN for p in points if p.get(name, 0) > 0]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    x_low, x_high = min(xs), max(xs) if max(xs) > min(xs) else min(xs) + 1

    def x_of(partitions: float) -> float:
        share = (math.log10(partitions) - x_low) / (x_high - x_low)
        return round(_LEFT + share * (_WIDTH - _LEFT - _RIGHT), 1)

    def y_of(seconds: float) -> float:
        share = (math.log10(seconds) - low) / (high - low)
        return round(_HEIGHT - _BOTTOM - share * (_HEIGHT - _BOTTOM - _TOP), 1)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" '
        'font-size="13" role="img">',
        "<title>CPU of the controller by size of the cluster</title>",
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>',
        '<text x="12" y="22" font-size="15" font-weight="bold">CPU of the controller, seconds</text>',
        '<text x="12" y="42" fill="#555555">three replicas; both axes logarithmic; less is better</text>',
    ]
    for exponent in range(low, high + 1):
        y = y_of(10**exponent)
        parts.append(
            f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y}" y2="{y}" stroke="#dddddd"/>'
        )
        parts.append(
            f'<text x="{_LEFT - 8}" y="{y + 4}" text-anchor="end">{10.0**exponent:g} s</text>'
        )
    for point in points:
        x, y = x_of(point["partitions"]), _HEIGHT - _BOTTOM + 18
        words = f"{point['partitions']:,.0f}"
        parts.append(f'<text x="{x}" y="{y}" text-anchor="middle">{words}</text>')
        brokers = f"{point['brokers']:.0f} brokers"
        parts.append(
            f'<text x="{x}" y="{y + 16}" text-anchor="middle" fill="#555555">{brokers}</text>'
        )
    for place, (name, words, colour) in enumerate(_SHOWN):
        line = " ".join(
            f"{x_of(p['partitions'])},{y_of(p[name])}" for p in points if p.get(name, 0) > 0
        )
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        y = _TOP + 20 * place
        parts.append(
            f'<rect x="{_WIDTH - _RIGHT + 30}" y="{y - 9}" width="14" height="4" fill="{colour}"/>'
        )
        parts.append(f'<text x="{_WIDTH - _RIGHT + 52}" y="{y - 2}">{words}</text>')
    return "\n".join([*parts, "</svg>", ""])


def faster_than_linear(points: Sequence[dict[str, float]]) -> list[str]:
    """Return the figures that grow faster than the partitions, the fastest first.

    The last step counts as well as the whole: with few partitions a fixed cost hides how a figure grows.
    """
    exponents = growth(points)
    for name, exponent in growth(points[-2:]).items():
        exponents[name] = max(exponent, exponents.get(name, exponent))
    rates = [name for name in exponents if " per cpu s" not in name]
    return sorted(
        (name for name in rates if exponents[name] > _LINEAR), key=lambda name: -exponents[name]
    )


def report(points: Sequence[dict[str, float]]) -> Iterator[str]:
    """Yield a line for each figure: its values, and the exponent of its growth."""
    exponents = growth(points)
    for name in points[0]:
        values = "  ".join(f"{point.get(name, 0):>12,.6g}" for point in points)
        exponent = f"  ^{exponents[name]}" if name in exponents else ""
        yield f"{name:<48}{values}{exponent}"
    yield "faster than the partitions: " + (", ".join(faster_than_linear(points)) or "nothing")


def _point(text: str) -> tuple[int, int]:
    brokers, _, partitions = text.partition("x")
    if not brokers.isdigit() or not partitions.isdigit() or int(brokers) <= REPLICAS:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not BROKERSxPARTITIONS, with 4 brokers or more"
        )
    return int(brokers), int(partitions)


def main() -> None:
    """Measure the points that are asked for, and print them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    points = ("10x1000", "20x5000", "50x20000", "100x100000")
    parser.add_argument("--points", default=",".join(points), help="sizes, as BROKERSxPARTITIONS")
    parser.add_argument("--rtt-ms", type=float, default=1.0, help="round trip to the registry")
    parser.add_argument("--json", type=Path, help="write the figures")
    parser.add_argument("--plot", type=Path, help="write the plot")
    given = parser.parse_args()
    found: list[dict[str, float]] = []
    for brokers, partitions in map(_point, given.points.split(",")):
        found.append(measure(brokers, partitions, given.rtt_ms / 1000))
        print(f"{brokers} brokers, {partitions} partitions: done", flush=True)
    print("\n".join(report(found)))
    if given.json is not None:
        facts = {
            "name": "scale",
            "date": datetime.now().strftime("%Y-%m-%d %H:%M"),
            "rtt ms": given.rtt_ms,
            "points": found,
            "growth": growth(found),
            "faster than linear": faster_than_linear(found),
        }
        given.json.write_text(json.dumps(facts, indent=1) + "\n")
    if given.plot is not None:
        given.plot.write_text(plot(found))


if __name__ == "__main__":
    main()
