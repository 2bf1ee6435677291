"""Transactional ids of one worker process: unique to it, and each used once in a plan.

A worker of Spark runs one task after the other. It may prepare several transactions of one batch, each with an id of
its own. When a task comes with another plan, the former plan's transactions are committed, or will never be, so its
ids serve again; that keeps the number of ids that coordinators remember to what one batch needs. A plan that comes
back after another one has come is a late one's: it gets ids that no other plan has.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable

from kavka.core.transactional_producer.state import PreparedTxnState
from kavka.spark.exactly_once.decisions import SinkNames


class TaskTransactionalIds:
    """The ids of one sink in this process."""

    def __init__(self, names: SinkNames, random_hex: Callable[[], str]) -> None:
        """`random_hex` gives 16 digits that no other process has."""
        self._names = names
        self._random_hex = random_hex
        self._process = random_hex()
        self._plan: PreparedTxnState | None = None
        self._next = 0
        self._expired_producers: set[int] = set()

    def allocate(self, plan: PreparedTxnState) -> str:
        """Return an id for one transaction of a driver's plan."""
        if self._is_past(plan):
            return self._names.task(self._random_hex(), 0)
        if plan != self._plan:
            if self._plan is not None and self._plan.producer_id != plan.producer_id:
                self._expired_producers.add(self._plan.producer_id)  # its epochs have run out
            self._plan = plan
            self._next = 0
        number = self._next
        self._next += 1
        return self._names.task(self._process, number)

    def _is_past(self, plan: PreparedTxnState) -> bool:
        if plan.producer_id in self._expired_producers:
            return True
        current = self._plan
        return (
            current is not None
            and plan.producer_id == current.producer_id
            and plan.epoch < current.epoch
        )


_own: dict[tuple[int, str], TaskTransactionalIds] = {}


def task_transactional_id(names: SinkNames, plan: PreparedTxnState) -> str:
    """Return an id for a transaction of this process; a process that was forked has other ids than its parent."""
    key = os.getpid(), names.sink
    ids = _own.get(key)
    if ids is None:
        ids = _own[key] = TaskTransactionalIds(names, lambda: secrets.token_hex(8))
    return ids.allocate(plan)
