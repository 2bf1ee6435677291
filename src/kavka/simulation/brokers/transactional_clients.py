"""Transactional clients: read the next inputs, write a result for each, commit both or nothing.

The inputs of a transactional id are the numbers from 0 on; how many of them are done is the offset of its group, which
moves with the transactions. So after any failure, in the end each number must be among the results once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from kavka.client import AbortableError, FatalError, GroupMetadata
from kavka.client.consumer import Consumer
from kavka.client.producer import Producer
from kavka.client.producer.accumulator import BufferFull
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import TopicPartition
from kavka.simulation.brokers.readers import LeaderReader
from kavka.simulation.brokers.scenario import PAYMENTS, ClusterScenario
from kavka.simulation.checker import Checker
from kavka.simulation.environment import SimEnvironment
from kavka.simulation.events import (
    CommitRequested,
    CommittedRead,
    PositionSeen,
    ProducerInitialized,
    SentInTransaction,
    TransactionEnded,
    TransactionsAudited,
)
from kavka.simulation.load.client import ClientNode
from kavka.simulation.load.readers import LATEST
from kavka.simulation.world import World

_TIMEOUT_MS = 5000
_MAX_FENCED = 5
"""Number of fencings after which all rivals but the first stop: in a slow cluster none would finish."""


def group_of(transactional_id: str) -> str:
    """Return the group that remembers how far the work of a transactional id is."""
    return f"group-of-{transactional_id}"


class _InTransactions(ClientNode):
    """Base of the nodes that need the scenario of a cluster."""

    @property
    def cluster(self) -> ClusterScenario:
        """The choices of the seed."""
        assert isinstance(self.scenario, ClusterScenario)
        return self.scenario

    def consumer(self, environment: SimEnvironment, **more: str) -> Consumer:
        """Make a consumer of what is committed."""
        settings = {
            "bootstrap.servers": self.scenario.servers,
            "client.id": self.client_id,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": "false",
            "request.timeout.ms": "3000",
            "fetch.max.wait.ms": "300",
            "max.partition.fetch.bytes": self.scenario.consumer["max.partition.fetch.bytes"],
        }
        settings |= {name.replace("_", "."): value for name, value in more.items()}
        return environment.with_client(
            Consumer(
                settings,
                network=environment.network,
                clock=environment.clock,
                random=environment.random,
            )
        )

    async def committed(self, environment: SimEnvironment, group: str) -> int:
        """Return a group's offset, 0 when there is none, however often it takes to ask."""
        topic_partition = self.scenario.partitions[0]
        while True:
            consumer = self.consumer(environment, group_id=group)
            try:
                await consumer.start()
                found = (await consumer.committed([topic_partition], timeout_ms=_TIMEOUT_MS))[
                    topic_partition
                ]
                return 0 if found is None else found.offset
            except (KafkaError, OSError):
                await asyncio.sleep(0.2)
            finally:
                await consumer.close(timeout_ms=1000)


class TransactionNode(_InTransactions):
    """A producer with a transactional id, which its rivals have, too: they take it from one another."""

    def __init__(
        self, world: World, name: str, scenario: ClusterScenario, checker: Checker, number: int
    ) -> None:
        """Create the client of transactional id `number`."""
        super().__init__(world, name, scenario, checker)
        self.transactional_id = f"till-{number}"
        self._transactions = 0
        self._incarnations = 0
        self._fenced = 0
        self._is_first = name.endswith("-0")

    @property
    def settings(self) -> dict[str, str]:
        """Those of its producers."""
        return {
            **self.cluster.transactional,
            "compression.type": self.scenario.producer["compression.type"],
            "bootstrap.servers": self.scenario.servers,
            "client.id": self.client_id,
            "transactional.id": self.transactional_id,
        }

    async def work(self, environment: SimEnvironment) -> None:
        """Take the id over, work, and take it over again, until all inputs are done."""
        position = 0
        while position < self.cluster.inputs and (self._is_first or self._fenced < _MAX_FENCED):
            await asyncio.sleep(self.source.expovariate(1 / self._takeover_delay_s))
            self._incarnations += 1
            producer = environment.with_client(
                Producer(
                    self.settings,
                    network=environment.network,
                    clock=environment.clock,
                    random=environment.random,
                )
            )
            try:
                position = await self._run_producer(environment, producer)
            except FatalError as error:
                self._fenced += 1
                self._trace(f"is fenced: {error}")
            except (KafkaError, OSError) as error:
                self._trace(f"begins again after {error}")
            await self._close(producer)

    @property
    def _takeover_delay_s(self) -> float:
        """Return the delay before the id is taken over again: it grows each time, up to a bound."""
        return 0.5 + 2 * self._fenced if self._fenced < _MAX_FENCED else 0.5

    async def _run_producer(self, environment: SimEnvironment, producer: Producer) -> int:
        """Run one producer until all is done. Return how far it is."""
        await producer.start()
        await self._take_over(producer)
        position = await self.committed(environment, group_of(self.transactional_id))
        self.checker.observe(PositionSeen(group_of(self.transactional_id), position))
        while position < self.cluster.inputs:
            position = await self._transact(producer, position)
            await asyncio.sleep(self.source.expovariate(1 / self.scenario.pace_s))
        return position

    async def _take_over(self, producer: Producer) -> None:
        await producer.init_transactions()
        identity = producer.transaction_identity
        self.checker.observe(
            ProducerInitialized(self.transactional_id, self._incarnation, *identity)
        )

    async def _transact(self, producer: Producer, position: int) -> int:
        """Process the next inputs. Return how far the work is then: where it was after an abort."""
        self._transactions += 1
        transaction = f"{self.client_id}#{self._transactions}"
        end = min(position + self.source.randint(1, 5), self.cluster.inputs)
        group = group_of(self.transactional_id)
        producer.begin_transaction()
        try:
            for number in range(position, end):
                await self._send(producer, transaction, number)
            await self._hold()
            await producer.send_offsets_to_transaction(
                {self.scenario.partitions[0]: end}, GroupMetadata(group)
            )
            await self._hold()
            if self.source.random() < 0.15:
                raise AbortableError(ErrorCode.TRANSACTION_ABORTABLE, "on second thoughts")
        except (AbortableError, TimeoutError) as error:
            return await self._abort(producer, transaction, position, error)
        return await self._finish(producer, transaction, position, end)

    async def _finish(self, producer: Producer, transaction: str, position: int, end: int) -> int:
        """Commit. Return how far the work is then."""
        wanted_outcome = CommitRequested(transaction, group_of(self.transactional_id), end)
        self.checker.observe(wanted_outcome)
        try:
            await self._retry_until_done(producer.commit_transaction, transaction)
        except AbortableError as error:
            return await self._abort(producer, transaction, position, error)
        self.checker.observe(TransactionEnded(transaction, committed=True))
        self._trace(f"commits {transaction} up to {end}")
        return end

    async def _hold(self) -> None:
        """Pause now and then: others take over meanwhile, or the transaction's time runs out."""
        if self.source.random() < 0.1:
            await asyncio.sleep(self.source.expovariate(1 / 3.0))

    async def _send(self, producer: Producer, transaction: str, number: int) -> None:
        partition = self.source.choice(self.cluster.payments)
        padding = "x" * self.source.choice([0, 0, 50, 300])
        value = f"{self.transactional_id}/{number}/{transaction}/{padding}".encode()
        self.checker.observe(
            SentInTransaction(
                transaction, self.transactional_id, self._incarnation, partition, value
            )
        )
        while True:
            try:
                producer.append(PAYMENTS, value, partition=partition.partition)
                break
            except BufferFull:
                await producer.wait_for_memory()
        if self.source.random() < 0.3:
            await asyncio.sleep(self.source.expovariate(1 / self.scenario.pace_s))

    async def _retry_until_done(self, end: Callable[[], Awaitable[None]], transaction: str) -> None:
        """End a transaction; retry once, or give up, when the outcome is unknown."""
        while True:
            try:
                await end()
                return
            except TimeoutError:
                self._trace(f"does not know the outcome of {transaction}")
                if self.source.random() < 0.5:
                    raise

    async def _abort(
        self, producer: Producer, transaction: str, position: int, reason: Exception
    ) -> int:
        await producer.abort_transaction()
        self.checker.observe(TransactionEnded(transaction, committed=False))
        self._trace(f"aborts {transaction}: {reason}")
        return position

    async def _close(self, producer: Producer) -> None:
        try:
            await producer.close(timeout_ms=1000)
        except (KafkaError, OSError) as error:
            self._trace(f"closes with {error}")

    @property
    def _incarnation(self) -> str:
        """The name of the producer that is at work: one node has many, one after the other."""
        return f"{self.client_id}/{self._incarnations}"

    def _trace(self, what: str) -> None:
        self.world.trace.add(self.name, what)


class CommittedReaderNode(_InTransactions):
    """Reads what is committed with our consumer, from the start on, for as long as the run lasts."""

    async def work(self, environment: SimEnvironment) -> None:
        """Read until it is stopped."""
        consumer = self.consumer(environment, client_rack=self.cluster.rack)
        while True:
            try:
                await consumer.start()
                break
            except OSError:
                await asyncio.sleep(0.3)
        consumer.assign(self.cluster.payments)
        while not self.quits.is_set():
            try:
                batches = await consumer.poll(timeout_ms=500)
            except (KafkaError, OSError) as error:
                self.world.trace.add(self.name, f"goes on after {error}")
                await asyncio.sleep(0.1)
                continue
            for batch in batches:
                for record in batch.records():
                    self.checker.observe(
                        CommittedRead(
                            self.client_id,
                            batch.topic_partition,
                            record.offset,
                            record.value or b"",
                        )
                    )
        await consumer.close()


class TransactionAuditorNode(_InTransactions):
    """Reads all that is committed, at protocol level, once no transaction is open any more; asks for all offsets."""

    async def work(self, environment: SimEnvironment) -> None:
        """Audit; start over when the connection is lost."""
        records: dict[TopicPartition, tuple[bytes, ...]] = {}
        while len(records) < len(self.cluster.payments):
            reader = LeaderReader(
                environment, self.client_id, self.cluster, [PAYMENTS], read_committed=True
            )
            try:
                for partition in self.cluster.payments:
                    if partition not in records:
                        records[partition] = await self._audit(reader, partition)
            except OSError:
                await asyncio.sleep(0.1)
            finally:
                reader.close()
        groups = [group_of(f"till-{n}") for n in range(self.cluster.transactional_ids)]
        offsets = {group: await self.committed(environment, group) for group in groups}
        self.checker.observe(TransactionsAudited(records, offsets))

    async def _audit(self, reader: LeaderReader, partition: TopicPartition) -> tuple[bytes, ...]:
        values: list[bytes] = []
        position = 0
        end = await reader.offset(partition, LATEST)
        while end is None or position < end:
            fetched = (await reader.fetch({partition: position}))[partition]
            if fetched.error is ErrorCode.NONE and fetched.next_offset > position:
                values += [value for _, value in fetched.records]
                position = fetched.next_offset
            else:
                await asyncio.sleep(0.1)
            end = await reader.offset(partition, LATEST)
        return tuple(values)
