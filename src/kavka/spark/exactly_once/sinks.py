"""The exactly-once sinks of a cluster: which there are, whether their queries may be live, and how one is removed.

A sink is known by its topic `<sinkId>-decisions`; nothing else remains of a query that is not running. Between two
batches a live query holds no connection and no transaction, so that it is live cannot be seen: what is seen is when it
wrote last. A removal therefore first takes the place of the sink's driver, which fences a run that was overlooked, and
completes what is decided.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kavka.client.admin import Admin, ConfigResource, ResourceType
from kavka.errors import ErrorCode, KafkaError
from kavka.spark.errors import ConnectorError
from kavka.spark.exactly_once.decision_log import read_last_with_time
from kavka.spark.exactly_once.decisions import CorruptDecision, Decision, Outcome, SinkNames
from kavka.spark.exactly_once.driver import TOPIC_SETTINGS, Driver
from kavka.spark.sink_options import is_sink_id

_SUFFIX = "-decisions"
_UNDECIDED = ("Ongoing",)
_OPEN = ("Ongoing", "PrepareCommit", "PrepareAbort")
_TIMEOUT_MS = 30_000
_RETRY_S = 0.1
_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class SinkState:
    """The state of a sink, as seen from outside of its query."""

    sink: str
    decision: Decision | None
    """The last one that is committed; None when no batch was committed yet."""
    written_ms: int | None
    """Time of its query's last write; None without one."""
    transactions: Mapping[str, str]
    """The open transactions of its tasks and of its driver: the state of each transactional id."""

    @property
    def open_parts(self) -> int:
        """Return the number of parts of the last batch that are decided and not known to be committed."""
        if self.decision is None:
            return 0
        return sum(part.outcome is Outcome.OPEN for part in self.decision.parts)

    @property
    def is_inconsistent(self) -> bool:
        """Return whether a part of the last batch was aborted after its decision: the query has to write it again."""
        decision = self.decision
        return decision is not None and any(
            part.outcome is Outcome.ABORTED for part in decision.parts
        )

    def idle_ms(self, now_ms: int) -> int | None:
        """Return for how long the query has written nothing; None when it never wrote."""
        return None if self.written_ms is None else max(now_ms - self.written_ms, 0)

    def objections(self, now_ms: int, min_idle_ms: int) -> list[str]:
        """Return what speaks against removing the sink, in sentences."""
        sentences = []
        idle_ms = self.idle_ms(now_ms)
        if idle_ms is not None and idle_ms < min_idle_ms:
            idle_time, min_idle_time = f"{idle_ms // 1000} s", f"{min_idle_ms // 1000} s"
            sentences.append(
                f"Its query wrote {idle_time} ago and may be live: that takes {min_idle_time} to rule out."
            )
        if self.transactions:
            listed = ", ".join(f"{name} ({state})" for name, state in self.transactions.items())
            sentences.append(f"Its transactions are open: {listed}.")
        if self.open_parts:
            assert self.decision is not None
            parts = f"{self.open_parts} transactions" if self.open_parts > 1 else "1 transaction"
            sentences.append(
                f"{self.decision.batch} is decided and {parts} of it may not be committed."
            )
        if self.is_inconsistent:
            assert self.decision is not None
            sentences.append(
                f"{self.decision.batch} is committed in part only; its query would write the rest again."
            )
        return sentences


class Sinks:
    """Lists, reads and removes the sinks of a cluster."""

    def __init__(self, admin: Admin, client: Mapping[str, str]) -> None:
        """`client` are the settings with which `admin` is connected."""
        self._admin = admin
        self._client = dict(client)

    async def all(self) -> list[SinkState]:
        """Return the state of each sink; topics that only end like a decision topic are left out."""
        topics = await self._admin.list_topics()
        sinks = map(_sink_of, topics)
        return await self._read(sink for sink in sinks if sink is not None)

    async def one(self, sink: str) -> SinkState:
        """Return the state of a sink. Raise ConnectorError when there is none of this id, KafkaError, OSError."""
        states = await self._read([sink])
        if not states:
            raise ConnectorError(
                f"There is no exactly-once sink {sink}: the topic {sink}{_SUFFIX} is not there, or is not of a sink."
            )
        return states[0]

    async def remove(self, seen: SinkState) -> None:
        """Fence the sink's query, commit what it has decided, abort the rest, and delete its topic.

        Raise ConnectorError, KafkaError, OSError when something is in the way: then the topic stays.
        """
        names = SinkNames(seen.sink)
        async with Driver(self._client | {"max.block.ms": str(_TIMEOUT_MS)}, names) as driver:
            plan = await driver.plan(accepts_other_writes=True)
        batches = [None if d is None else d.batch for d in (seen.decision, plan.decided)]
        if batches[0] != batches[1]:
            raise ConnectorError(
                f"The query of the sink {seen.sink} is live: it has committed a batch just now."
            )
        await self._wait_until_decided(names)
        refused = (await self._admin.delete_topics([names.topic]))[names.topic]
        if refused is not None:
            raise refused

    # Reading

    async def _read(self, sinks: Iterable[str]) -> list[SinkState]:
        names = list(sinks)
        if not names:
            return []
        listed = await self._listed(_OPEN)
        limit = asyncio.Semaphore(_AT_ONCE)

        async def read(sink: str) -> SinkState | None:
            async with limit:
                return await self._read_one(SinkNames(sink), listed)

        states = await asyncio.gather(*map(read, names))
        return [state for state in states if state is not None]

    async def _read_one(self, names: SinkNames, listed: Mapping[str, str]) -> SinkState | None:
        """Return the state of a sink; None when its topic is not there or not of a sink."""
        description = (await self._admin.describe_topics([names.topic]))[names.topic]
        if isinstance(description, KafkaError):
            if description.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                return None
            raise description
        if isinstance(description, Exception):
            raise description
        if len(description.partitions) != 1:
            return None
        try:
            seen = await read_last_with_time(self._client, names.topic, _TIMEOUT_MS)
        except CorruptDecision:
            return None
        if seen.written_ms is None and not await self._is_made_by_a_driver(names.topic):
            return None
        own = {
            name: state
            for name, state in sorted(listed.items())
            if names.is_task(name) or name == names.driver
        }
        return SinkState(names.sink, seen.decision, seen.written_ms, own)

    async def _is_made_by_a_driver(self, topic: str) -> bool:
        """Return whether an empty topic has the settings with which drivers make theirs."""
        at = ConfigResource(ResourceType.TOPIC, topic)
        described = (await self._admin.describe_configs([at]))[at]
        if isinstance(described, Exception):
            raise described
        values = {entry.name: entry.value for entry in described}
        return all(values.get(name) == value for name, value in TOPIC_SETTINGS.items())

    async def _listed(self, states: Iterable[str]) -> dict[str, str]:
        listings = await self._admin.list_transactions(states=list(states))
        return {one.transactional_id: one.state for each in listings.values() for one in each}

    async def _wait_until_decided(self, names: SinkNames) -> None:
        """Wait until the transactions of the tasks have ended. Raise ConnectorError when they do not."""
        undecided: list[str] = []
        for _ in range(round(_TIMEOUT_MS / 1000 / _RETRY_S)):
            listed = await self._listed(_UNDECIDED)
            undecided = sorted(name for name in listed if names.is_task(name))
            if not undecided:
                return
            await asyncio.sleep(_RETRY_S)
        raise ConnectorError(
            f"Transactions of the sink {names.sink} do not end: {', '.join(undecided)}."
        )


def _sink_of(topic: str) -> str | None:
    """Return the id of the sink of a decision topic."""
    sink = topic.removesuffix(_SUFFIX)
    return sink if sink != topic and is_sink_id(sink) else None
