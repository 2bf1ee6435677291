"""Asks the coordinators of a transaction, again and again until there is an answer for good."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, NamedTuple

from kavka.client.backoff import backoff_ms
from kavka.client.cluster import Cluster
from kavka.client.coordinator import Coordinator
from kavka.client.producer.transaction_errors import ErrorClass, Stage, classify, refusal
from kavka.client.producer.transaction_requests import Codes
from kavka.client.producer.transaction_state import TransactionState, aborted_error
from kavka.errors import ErrorCode, KafkaError
from kavka.net.peer import Peer
from kavka.wire.codec import CorruptFrame

log = logging.getLogger(__name__)

_CONCURRENT_BACKOFF_MS = 20
"""First wait while the last transaction is being completed, which is soon over."""
_COORDINATOR_GONE = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.REQUEST_TIMED_OUT,
)


class CoordinatorRequest(NamedTuple):
    """One request to one coordinator."""

    stage: Stage
    coordinator: Coordinator
    build: Callable[[Peer], tuple[Any, int | None]]
    """Makes the request for a connection, and its version if it must be a certain one."""
    codes: Callable[[Any], Codes]


class CoordinatorRequests:
    """The repeats of one producer's transactions."""

    def __init__(
        self, cluster: Cluster, transaction: TransactionState, retry_backoff_ms: int
    ) -> None:
        """Requests that add to `transaction` fail once it has failed."""
        self._cluster = cluster
        self._transaction = transaction
        self._retry_backoff_ms = retry_backoff_ms

    async def send(self, ask: CoordinatorRequest) -> Any:
        """Ask until there is an answer. Raise AbortableError or FatalError for one that does not help."""
        attempt = 0
        while True:
            code: ErrorCode | None = None
            try:
                peer = await ask.coordinator.peer()
                request, version = ask.build(peer)
                answer = await peer.send(
                    request, version, timeout_ms=self._cluster.request_timeout_ms
                )
                code, detail = _most_severe(ask.stage, ask.codes(answer))
                if code is ErrorCode.NONE:
                    return answer
            except KafkaError as error:  # no coordinator is known, or it is too old
                code, detail = error.code, error.detail
            except (OSError, CorruptFrame) as error:
                detail = str(error)
            self._raise_unless_retriable(ask.stage, code, detail)
            if code is None or code in _COORDINATOR_GONE:
                ask.coordinator.forget()
            log.info("%s repeated attempt=%d reason=%s", ask.stage.value, attempt, code or detail)
            await self._back_off(code, attempt)
            attempt += 1

    def _raise_unless_retriable(
        self, stage: Stage, code: ErrorCode | None, detail: str | None
    ) -> None:
        if code is not None and classify(stage, code) is not ErrorClass.RETRIABLE:
            raise refusal(stage, code, detail)
        # Whether partitions were added must be known before the end: only an answer says so.
        may_give_up = stage is Stage.COMMIT_OFFSETS or code is not None
        adds = stage in (Stage.ADD_PARTITIONS, Stage.ADD_OFFSETS, Stage.COMMIT_OFFSETS)
        if adds and may_give_up and self._transaction.has_failed:
            raise aborted_error()

    async def _back_off(self, code: ErrorCode | None, attempt: int) -> None:
        if code is ErrorCode.CONCURRENT_TRANSACTIONS:
            longest_ms = max(self._retry_backoff_ms, _CONCURRENT_BACKOFF_MS)
            wait_ms = backoff_ms(
                attempt, _CONCURRENT_BACKOFF_MS, longest_ms, self._cluster.random.random()
            )
            await asyncio.sleep(wait_ms / 1000)
        else:
            await self._cluster.back_off(attempt)


def _most_severe(stage: Stage, codes: Codes) -> tuple[ErrorCode, str | None]:
    """Return the code that decides, and which partition has it. OPERATION_NOT_ATTEMPTED blames another one."""
    worst, topic_partition = ErrorCode.NONE, None
    for topic_partition, code in codes.items():
        if code is ErrorCode.NONE:
            continue
        if worst is ErrorCode.NONE or _severity(stage, code) > _severity(stage, worst):
            worst, topic_partition = code, topic_partition
    return worst, None if topic_partition is None else f"{topic_partition}: {worst.message}"


def _severity(stage: Stage, code: ErrorCode) -> int:
    return -1 if code is ErrorCode.OPERATION_NOT_ATTEMPTED else classify(stage, code).value
