"""Two-phase commit (KIP-939): the producer prepares, an arbiter decides, and the holder of the id carries it out.

the producer prepares and announces it --> the arbiter decides, soon or late --> that producer, or the one that took
                                                                 the id over with the prepared transaction, ends it
"""

from __future__ import annotations

import asyncio
import contextvars
from typing import NamedTuple

from kavka.client import AbortableError
from kavka.client.producer import Producer
from kavka.core.transactional_producer.state import PreparedTxnState
from kavka.simulation.brokers.scenario import ClusterScenario
from kavka.simulation.brokers.transactional_clients import TransactionNode, group_of
from kavka.simulation.checker import Checker
from kavka.simulation.events import (
    CommitRequested,
    Decided,
    Prepared,
    ProducerInitialized,
    Resumed,
    TransactionEnded,
)
from kavka.simulation.random_streams import stream
from kavka.simulation.world import World

_LATE_S = 4.0
"""Average seconds of a late decision: longer than transaction timeouts."""


class _Name(NamedTuple):
    """The identity of one prepared transaction."""

    transactional_id: str
    state: PreparedTxnState


class Arbiter:
    """Decides about prepared transactions, as a database would that commits together with them.

    It belongs to no node, so it never fails, and its decisions are final. A transaction that is not announced yet when
    its outcome is requested is to be aborted, also if it is announced later.
    """

    def __init__(self, world: World, checker: Checker) -> None:
        """Begin without announcements and decisions."""
        self._world = world
        self._checker = checker
        self._source = stream(world.seed, "arbiter")
        self._announced: dict[_Name, CommitRequested] = {}
        self._decisions: dict[_Name, bool] = {}
        self._waiting: dict[_Name, list[asyncio.Future[None]]] = {}

    def announce(self, name: _Name, wanted_outcome: CommitRequested) -> None:
        """Note that a transaction is prepared; its outcome is decided some time from now."""
        self._checker.observe(Prepared(wanted_outcome.transaction, *name))
        self._announced[name] = wanted_outcome
        if name in self._decisions:
            return
        delay_s = self._source.expovariate(1 / _LATE_S) if self._source.random() < 0.1 else 0.02
        # Not in the context of the announcing process, which may be dead by then.
        self._world.loop.call_later(delay_s, self._decide, name, context=contextvars.Context())

    def transaction(self, name: _Name) -> str | None:
        """Return the name that the announcement has for a transaction."""
        wanted_outcome = self._announced.get(name)
        return None if wanted_outcome is None else wanted_outcome.transaction

    async def outcome(self, name: _Name) -> bool:
        """Wait for the decision; return whether it is to commit."""
        if name not in self._announced:
            self._note(name, committed=False)
        while name not in self._decisions:
            waiting = asyncio.get_running_loop().create_future()
            self._waiting.setdefault(name, []).append(waiting)
            await waiting
        return self._decisions[name]

    def _decide(self, name: _Name) -> None:
        committed = self._source.random() < 0.8
        if committed:
            self._checker.observe(self._announced[name])
        self._note(name, committed)
        for waiting in self._waiting.pop(name, ()):
            if not waiting.done():
                waiting.set_result(None)

    def _note(self, name: _Name, committed: bool) -> None:
        if name not in self._decisions:
            self._decisions[name] = committed
            self._checker.observe(Decided(*name, committed))
            what = "committed" if committed else "aborted"
            decision = f"decides that {name.state} of {name.transactional_id} is to be {what}"
            self._world.trace.add("arbiter", decision)


class TwoPhaseNode(TransactionNode):
    """A transaction node whose prepared transactions are ended by the arbiter's decision, also after a restart."""

    def __init__(
        self,
        world: World,
        name: str,
        scenario: ClusterScenario,
        checker: Checker,
        number: int,
        arbiter: Arbiter,
    ) -> None:
        """Create the client of transactional id `number`, which does what `arbiter` decides."""
        super().__init__(world, name, scenario, checker, number)
        self._arbiter = arbiter

    @property
    def settings(self) -> dict[str, str]:
        """Transactions have no timeout."""
        shared = {k: v for k, v in super().settings.items() if k != "transaction.timeout.ms"}
        return shared | {"transaction.two.phase.commit.enable": "true"}

    async def _take_over(self, producer: Producer) -> None:
        """Take the id over, and with it the transaction that an earlier process has left open; end that."""
        left = await producer.init_transactions(keep_prepared=True)
        identity = producer.transaction_identity
        self.checker.observe(
            ProducerInitialized(self.transactional_id, self._incarnation, *identity)
        )
        self.checker.observe(Resumed(self.transactional_id, identity, left))
        if left is not None:
            self._trace(f"finds {left} open")
            await self._complete(producer, left)

    async def _finish(self, producer: Producer, transaction: str, position: int, end: int) -> int:
        """Prepare, and carry the decision out, or leave that to another life."""
        try:
            state = await producer.prepare_transaction()
        except AbortableError as error:
            return await self._abort(producer, transaction, position, error)
        assert state is not None, "something was sent"
        wanted_outcome = CommitRequested(transaction, group_of(self.transactional_id), end)
        self._arbiter.announce(_Name(self.transactional_id, state), wanted_outcome)
        self._trace(f"prepares {transaction} up to {end} as {state}")
        if self.source.random() < 0.25:
            await self._hold()
            raise ConnectionError("it leaves its prepared transaction to the next producer")
        return end if await self._complete(producer, state) else position

    async def _complete(self, producer: Producer, state: PreparedTxnState) -> bool:
        """End the prepared transaction as decided; return the decision."""
        name = _Name(self.transactional_id, state)
        committed = await self._arbiter.outcome(name)
        decided = state if committed else None
        transaction = self._arbiter.transaction(name)
        await self._retry_until_done(lambda: producer.complete_transaction(decided), f"{state}")
        if transaction is not None:
            self.checker.observe(TransactionEnded(transaction, committed))
        ended = f"{'commits' if committed else 'aborts'} {transaction or 'what was not announced'}"
        self._trace(f"{ended} as decided")
        return committed
