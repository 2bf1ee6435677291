"""The driver of an exactly-once sink: plans, decides and ends transactions over our client; `commit_protocol` says why.

Spark calls the driver's side in several short-lived processes, so nothing is kept between calls but what brokers have.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Self

from kavka.client.admin import Admin, NewTopic
from kavka.client.config import PRODUCER, Config
from kavka.client.producer import FatalError, Producer
from kavka.core.transactional_producer.state import PreparedTxnState
from kavka.errors import ErrorCode, KafkaError
from kavka.spark.errors import ConnectorError
from kavka.spark.exactly_once.commit_protocol import (
    Plan,
    outcome_of,
    undecided_transactions,
    was_aborted,
    with_outcomes,
)
from kavka.spark.exactly_once.decision_log import read_last_decision
from kavka.spark.exactly_once.decisions import Decision, Outcome, Part, SinkNames, encode

log = logging.getLogger(__name__)

_ONGOING = "Ongoing"
_DRIVER_TIMEOUT_MS = 60_000
_LIST_MS = 5_000
_AT_ONCE = 32
"""Maximum number of transactions that are described or ended concurrently."""
_ASK_MS = 1000
"""Minimum milliseconds for a coordinator's response, however little time is left."""
_BEHIND_S = 0.5
"""Seconds to wait for a broker with outdated metadata before the request is repeated."""
TOPIC_SETTINGS = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.1",
    "segment.ms": "3600000",
}
"""Of a decision topic that is made here."""


class Driver:
    """The connections of one call. Use as an asynchronous context manager."""

    def __init__(self, client: Mapping[str, str], names: SinkNames) -> None:
        """`client` are settings of a producer; nothing is opened yet."""
        self._names = names
        self._plain = {n: v for n, v in client.items() if not n.startswith("transaction")}
        self._timeout_ms = Config(PRODUCER, self._plain).integer("max.block.ms")
        self._connection = {n: v for n, v in client.items() if n in _OF_CONNECTIONS}
        self._limit = asyncio.Semaphore(_AT_ONCE)

    async def __aenter__(self) -> Self:
        """Connect; wait `max.block.ms` for brokers that are away. Raise ConnectionError."""
        self._admin = Admin(self._connection | {"default.api.timeout.ms": str(self._timeout_ms)})
        await self._admin.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close."""
        await self._admin.close()

    # Before the tasks

    async def plan(self, accepts_other_writes: bool) -> Plan:
        """Become the only driver, finish what the last one has decided, abort what it has not."""
        await self._require_topic()
        listed = await self._open_transactions()
        while True:
            async with self._driver() as producer:
                await self._fence(producer)
                decided = await read_last_decision(
                    self._connection, self._names.topic, self._timeout_ms
                )
                if decided is None or decided.is_settled:
                    identity = producer.transaction_identity
                    break
                # The next round has another epoch: in this one, sequence numbers are used up by the note.
                await self._roll_forward(producer, decided)
        await self._abort(undecided_transactions(listed, decided))
        return Plan(identity, decided, accepts_other_writes)

    # After the tasks

    async def commit(self, plan: Plan, decision: Decision) -> None:
        """Decide, and commit every part. Raise ConnectorError when another driver has planned, or a part is gone."""
        undecided = await self._check(decision)
        async with self._driver() as producer:
            producer.resume_transactions(plan.driver)
            await self._decide(producer, decision)
            settled = await self._settled(decision)
            await self._finish(producer, settled, undecided)
        if not settled.is_whole:
            raise ConnectorError(
                f"A part of {decision.batch} was aborted by its timeout after it was decided; it is written again "
                "when the query is started again."
            )

    async def abort(self, parts: list[Part]) -> None:
        """Abort transactions that were prepared and will never be decided."""
        await self._abort({part.transactional_id: part.state for part in parts})

    # Steps: a crash between any two of them must leave what the next plan finds

    async def _open_transactions(self) -> dict[str, PreparedTxnState]:
        """Return the open transactions of this sink's tasks."""
        return await self._states(await self._listed())

    async def _fence(self, producer: Producer) -> None:
        """Become the only driver: an older one can write no decision any more."""
        await producer.init_transactions()

    async def _roll_forward(self, producer: Producer, decided: Decision) -> None:
        """Carry out what the last driver has decided, and note that."""
        await self._note(producer, await self._settled(decided))

    async def _check(self, decision: Decision) -> dict[str, PreparedTxnState]:
        """Return the open transactions that are no parts. Raise ConnectorError when a part is not open any more."""
        listed = await self._listed()
        gone = [p for p in decision.parts if p.outcome is Outcome.OPEN and not _has(listed, p)]
        await self._require_open(gone)
        return await self._states(_without(listed, decision))

    async def _decide(self, producer: Producer, decision: Decision) -> None:
        """Write the decision: from here on the batch is committed. Raise ConnectorError when another driver plans."""
        try:
            await self._note(producer, decision)
        except FatalError as error:
            raise ConnectorError(
                f"{decision.batch} was not committed: another run of this query, or another query with sinkId "
                f"{self._names.sink}, has taken over ({error.code.name})."
            ) from error

    async def _finish(
        self, producer: Producer, settled: Decision, undecided: Mapping[str, PreparedTxnState]
    ) -> None:
        """Abort what is no part of the batch, and note the outcomes of its parts."""
        await self._abort(undecided)
        await self._note(producer, settled)

    @asynccontextmanager
    async def _driver(self) -> AsyncIterator[Producer]:
        own = {
            "client.id": "kavka-spark-sink",
            "transactional.id": self._names.driver,
            "transaction.timeout.ms": str(_DRIVER_TIMEOUT_MS),
        }
        async with Producer(self._plain | own) as producer:
            yield producer

    async def _require_topic(self) -> None:
        """Create the decision topic where there is none. Raise ConnectorError, KafkaError."""
        topic = self._names.topic
        deadline = time.monotonic() + self._timeout_ms / 1000
        while True:
            description = (await self._admin.describe_topics([topic]))[topic]
            if not isinstance(description, Exception):
                if len(description.partitions) != 1:
                    raise ConnectorError(
                        f"The topic {topic} must have one partition, and has {len(description.partitions)}."
                    )
                return
            if not isinstance(description, KafkaError) or (
                description.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            ):
                raise description
            result = (
                await self._admin.create_topics([NewTopic(topic, 1, configs=TOPIC_SETTINGS)])
            )[topic]
            if isinstance(result, KafkaError) and result.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise result
            if time.monotonic() >= deadline:
                raise ConnectorError(f"The topic {topic} was created, and is not there.")
            if isinstance(result, Exception):
                await asyncio.sleep(_BEHIND_S)  # until the broker that is asked has learned of it

    async def _listed(self) -> dict[str, int]:
        """Return the open transactions of this sink's tasks, with their producer ids.

        While a broker is away, none are known: those of a decision are asked about one by one then, others wait.
        """
        try:
            transactions = await self._admin.list_transactions(
                states=[_ONGOING], timeout_ms=_LIST_MS
            )
        except (KafkaError, OSError) as error:
            if getattr(error, "code", None) is ErrorCode.UNSUPPORTED_VERSION:
                raise
            log.warning("open transactions not listed sink=%s reason=%s", self._names.sink, error)
            return {}
        return {
            one.transactional_id: one.producer_id
            for listings in transactions.values()
            for one in listings
            if self._names.is_task(one.transactional_id)
        }

    async def _states(self, listed: Mapping[str, int]) -> dict[str, PreparedTxnState]:
        """Return the epochs, too, of what is still open. Raise the error of a coordinator that does not answer."""
        if not listed:
            return {}
        states = {}
        for name, description in (await self._admin.describe_transactions(listed)).items():
            if isinstance(description, Exception):
                if getattr(description, "code", None) is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                    continue
                raise description
            if description.state == _ONGOING:
                states[name] = PreparedTxnState(description.producer_id, description.producer_epoch)
        return states

    async def _require_open(self, missing: list[Part]) -> None:
        """Refuse to decide about a part that is no longer open; a list may miss one while its coordinator moves."""
        states = await self._states({p.transactional_id: p.state.producer_id for p in missing})
        for part in missing:
            if states.get(part.transactional_id) != part.state:
                raise ConnectorError(
                    f"The transaction of task {part.task} was aborted before its batch was finished: set "
                    "kafka.transaction.timeout.ms above the longest batch. Nothing was committed."
                )

    async def _note(self, producer: Producer, decision: Decision) -> None:
        """Write a record in a transaction. Raise FatalError when another driver has planned."""
        async with producer.transaction():
            await producer.send(self._names.topic, encode(decision), b"decision", partition=0)

    async def _settled(self, decision: Decision) -> Decision:
        """Commit the open parts, and return the decision with their outcomes."""
        parts = [part for part in decision.parts if part.outcome is Outcome.OPEN]
        outcomes = await asyncio.gather(*(self._end(part) for part in parts))
        by_task = {part.task: outcome for part, outcome in zip(parts, outcomes, strict=True)}
        settled = with_outcomes(decision, by_task)
        if not settled.is_whole:
            log.warning("part of a decided batch was aborted sink=%s", self._names.sink)
        return settled

    async def _end(self, part: Part) -> Outcome:
        async with self._limit:
            return await self._ended(part)

    async def _ended(self, part: Part) -> Outcome:
        """Commit a part. Raise ConnectorError when its outcome is unknown after `max.block.ms`."""
        deadline = time.monotonic() + self._timeout_ms / 1000
        while True:
            left_ms = max(_ASK_MS, round((deadline - time.monotonic()) * 1000))
            outcome = outcome_of(await self._commit_code(part, left_ms), part)
            if outcome is not None:
                return outcome
            name = part.transactional_id
            description = (await self._admin.describe_transactions([name], timeout_ms=left_ms))[
                name
            ]
            if not isinstance(description, Exception) and was_aborted(description, part):
                return Outcome.ABORTED
            if time.monotonic() >= deadline:
                raise ConnectorError(
                    f"The transaction {name} {part.state} is refused, and its coordinator knows of no abort: it is "
                    "behind, or another run of this query has taken over; start the query again."
                )
            log.warning("refusal contradicts the coordinator id=%s found=%s", name, description)
            await asyncio.sleep(_BEHIND_S)

    async def _commit_code(self, part: Part, timeout_ms: int) -> ErrorCode:
        name = part.transactional_id
        try:
            await self._admin.end_transaction(
                name, part.state, committed=True, timeout_ms=timeout_ms
            )
        except (KafkaError, TimeoutError) as error:
            if isinstance(error, KafkaError) and not error.retriable:
                return error.code
            raise ConnectorError(
                f"No coordinator returned the outcome of the transaction {name} {part.state}: it cannot be reached, or "
                "is behind; start the query again."
            ) from error
        return ErrorCode.NONE

    async def _abort(self, transactions: Mapping[str, PreparedTxnState]) -> None:
        """Abort undecided transactions. One that cannot be aborted only blocks readers, until it can."""

        async def one(name: str, state: PreparedTxnState) -> None:
            async with self._limit:
                try:
                    await self._admin.end_transaction(name, state, committed=False)
                    log.info("undecided transaction aborted id=%s", name)
                except (KafkaError, OSError) as error:
                    log.warning("undecided transaction not aborted id=%s reason=%s", name, error)

        await asyncio.gather(*(one(name, state) for name, state in transactions.items()))


def _has(listed: Mapping[str, int], part: Part) -> bool:
    return listed.get(part.transactional_id) == part.state.producer_id


def _without(listed: Mapping[str, int], decision: Decision) -> dict[str, int]:
    parts = {part.transactional_id for part in decision.parts}
    return {name: producer_id for name, producer_id in listed.items() if name not in parts}


_OF_CONNECTIONS = frozenset(
    {
        "bootstrap.servers", "request.timeout.ms", "retry.backoff.ms", "retry.backoff.max.ms", "metadata.max.age.ms",
        "connections.max.idle.ms", "reconnect.backoff.ms", "reconnect.backoff.max.ms", "send.buffer.bytes",
        "receive.buffer.bytes", "socket.connection.setup.timeout.ms", "socket.connection.setup.timeout.max.ms",
    }
)  # fmt: skip
"""Settings that all clients have."""
