"""A thousand transactional ids, each with an open transaction at the same time; then all are committed.

Asked for at the level of the protocol over a few connections, as clients of transaction version 2 do, so that it is the
brokers that are measured, and not a thousand producers in one process.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import count
from typing import Any

from apache.report import Line
from apache.rounds import run_rounds
from apache.topics import run_topic

from kavka.errors import ErrorCode
from kavka.net.network import TcpNetwork
from kavka.net.peer import Peer
from kavka.wire.messages.end_txn import EndTxnRequest
from kavka.wire.messages.find_coordinator import FindCoordinatorRequest
from kavka.wire.messages.init_producer_id import InitProducerIdRequest
from kavka.wire.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
)
from kavka.wire.messages.produce import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
)
from kavka.wire.records.batch import BatchBuilder
from kavka_compat.brokers import Broker
from transactions.pair import SIDES

_MIB = 1 << 20
_CONNECTIONS = 20
_PARTITIONS = 6
_TIMEOUT_MS = 60_000
_LATEST = -1
_PATIENCE_S = 60
_ALL = -1
_AGAIN = (
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)
_names = count()


@dataclass(frozen=True)
class Sample:
    """The result of one run."""

    opened_s: float
    """Until all had their producer id and a record in their transaction."""
    committed_s: float
    """Until all were committed and readers of committed records had everything."""
    cpu_seconds: float
    memory_mib: float
    """Resident while all were open."""
    growth_mib: float
    """Compared with before."""
    ids: int

    @property
    def records_per_second(self) -> float:
        """A record is a transaction."""
        return self.ids / (self.opened_s + self.committed_s)


def measure(brokers: dict[str, Broker], ids: int, rounds: int) -> list[Line]:
    """Return the lines of so many transactional ids."""
    about = f"{ids:,} transactional ids open at once"
    samples = run_rounds(about, SIDES, rounds, lambda side: asyncio.run(_run(brokers[side], ids)))

    def line(what: str, unit: str, goal: float | None, value: Callable[[Sample], float]) -> Line:
        taken = {side: [value(one) for one in samples[side]] for side in SIDES}
        return Line(f"{about}: {what}", unit, taken, goal=goal)

    return [
        line("to open all", "s", 1.0, lambda one: one.opened_s),
        line("to commit all", "s", 1.0, lambda one: one.committed_s),
        line("broker CPU", "s", 1.0, lambda one: one.cpu_seconds),
        line("memory", "MiB", 1 / 6, lambda one: one.memory_mib),
        line("memory that came with them", "MiB", None, lambda one: one.growth_mib),
    ]


async def _run(broker: Broker, ids: int) -> Sample:
    with run_topic(broker, "many", _PARTITIONS) as topic:
        connections = [
            await Peer.connect(TcpNetwork(), "127.0.0.1", broker.port) for _ in range(_CONNECTIONS)
        ]
        try:
            return await _Many(broker, topic, connections, ids).run()
        finally:
            for one in connections:
                one.close()


class _Producer:
    """One transactional id."""

    def __init__(self, transactional_id: str, peer: Peer, topic: str, partition: int) -> None:
        self._id = transactional_id
        self._peer = peer
        self._topic = topic
        self._partition = partition
        self._producer_id = self._epoch = -1

    async def open(self) -> None:
        """Get a producer id, and write a record in a transaction."""
        asked = InitProducerIdRequest(transactional_id=self._id, transaction_timeout_ms=_TIMEOUT_MS)
        granted = await self._answered(asked, None, lambda response: response.error_code)
        self._producer_id, self._epoch = granted.producer_id, granted.producer_epoch
        builder = BatchBuilder()
        builder.append(None, bytes(100), int(time.time() * 1000))
        batch = builder.build(
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            base_sequence=0,
            transactional=True,
        )
        part = ProduceRequestPartition(index=self._partition, records=memoryview(batch))
        produce = ProduceRequest(
            transactional_id=self._id,
            acks=_ALL,
            timeout_ms=_TIMEOUT_MS,
            topic_data=[ProduceRequestTopic(name=self._topic, partition_data=[part])],
        )
        await self._answered(
            produce, 12, lambda response: response.responses[0].partition_responses[0].error_code
        )

    async def commit(self) -> None:
        """Commit."""
        end = EndTxnRequest(
            transactional_id=self._id,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            committed=True,
        )
        await self._answered(end, 5, lambda response: response.error_code)

    async def _answered(
        self, request: Any, version: int | None, code_of: Callable[[Any], int]
    ) -> Any:
        """Ask until the response is none that asks to try again. Raise RuntimeError for a refusal."""
        while True:
            response = await self._peer.send(request, version)
            code = ErrorCode.of(code_of(response))
            if code is ErrorCode.NONE:
                return response
            if code not in _AGAIN:
                raise RuntimeError(f"{self._id}: {code.name}")
            await asyncio.sleep(0.02)


class _Many:
    """One run."""

    def __init__(self, broker: Broker, topic: str, connections: list[Peer], ids: int) -> None:
        self._broker = broker
        self._topic = topic
        self._connections = connections
        self._name = f"many-{next(_names)}"
        self._lanes = [
            [
                _Producer(f"{self._name}-{n}", peer, topic, n % _PARTITIONS)
                for n in range(lane, ids, len(connections))
            ]
            for lane, peer in enumerate(connections)
        ]
        self._ids = ids

    async def run(self) -> Sample:
        """Open all, then commit all."""
        await self._coordinator()
        process = self._broker.process
        memory, cpu = process.resident_bytes(), process.cpu_seconds()
        opened = await self._all(_Producer.open)
        resident = process.resident_bytes()
        started = time.perf_counter()
        await self._all(_Producer.commit)
        await self._visible()
        return Sample(
            opened,
            time.perf_counter() - started,
            process.cpu_seconds() - cpu,
            resident / _MIB,
            (resident - memory) / _MIB,
            self._ids,
        )

    async def _all(self, step: Callable[[_Producer], Awaitable[None]]) -> float:
        """Take the step for every id, one after the other on each connection; return the seconds."""

        async def work(lane: list[_Producer]) -> None:
            for producer in lane:
                await step(producer)

        started = time.perf_counter()
        await asyncio.gather(*map(work, self._lanes))
        return time.perf_counter() - started

    async def _coordinator(self) -> None:
        """Have the coordinators' topic made before the clock runs."""
        request = FindCoordinatorRequest(coordinator_keys=[self._name], key_type=1)
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            response = await self._connections[0].send(request, 4)
            if response.coordinators[0].error_code == 0:
                return
            if time.monotonic() > deadline:
                raise RuntimeError(f"no coordinator: {response}")
            await asyncio.sleep(0.1)

    async def _visible(self) -> None:
        """Wait until the last stable offset of each partition is its end."""
        deadline = time.monotonic() + _PATIENCE_S
        while await self._ends(0) != await self._ends(1):
            if time.monotonic() > deadline:
                raise RuntimeError(f"not committed within {_PATIENCE_S} s")
            await asyncio.sleep(0.01)

    async def _ends(self, isolation_level: int) -> list[int]:
        rows = [
            ListOffsetsRequestPartition(partition_index=n, timestamp=_LATEST)
            for n in range(_PARTITIONS)
        ]
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=isolation_level,
            topics=[ListOffsetsRequestTopic(name=self._topic, partitions=rows)],
        )
        response = await self._connections[0].send(request)
        return [row.offset for row in response.topics[0].partitions]
