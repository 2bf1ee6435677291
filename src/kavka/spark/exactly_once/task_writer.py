"""The tasks' side of the exactly-once sink: writes rows in a transaction and leaves it prepared."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import chain

import pyarrow as pa

from kavka.client.producer import FatalError, Producer
from kavka.errors import ErrorCode, KafkaError
from kavka.spark.exactly_once.commit_protocol import (
    Done,
    Plan,
    Repair,
    Skip,
    check_repair,
    plan_task,
)
from kavka.spark.exactly_once.decisions import Batch, Part, SinkNames
from kavka.spark.exactly_once.digest import Digest
from kavka.spark.exactly_once.task_transactional_ids import task_transactional_id
from kavka.spark.sink import DEFAULTS, RECORD_COLUMNS, send_rows
from kavka.spark.sink_options import ExactlyOnceOptions, SinkOptions

log = logging.getLogger(__name__)

Check = Callable[[int, str], None]
"""Takes the count and the digest of the rows, and raises when they are not the wanted ones."""

_MAX_TIMEOUT_MS = 15 * 60_000
"""The brokers' default of `transaction.max.timeout.ms`."""
_CLOSE_MS = 5_000
_NOT_OFFERED = (ErrorCode.UNSUPPORTED_VERSION, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
_without_two_phase_commit: set[str] = set()
"""Brokers that do not offer it, as far as this process knows."""


def run_task(
    rows: Iterator[pa.RecordBatch],
    options: SinkOptions,
    plan: Plan,
    batch: Batch,
    task: int,
) -> Done:
    """Write the rows of a task as the commit protocol requires. Raise ConnectorError, KafkaError, OSError.

    Rows are consumed even where nothing is written: operators before the sink keep their state while they are read.
    """
    course = plan_task(plan, batch, task)
    if isinstance(course, Skip):
        return Done(plan, batch, course, sum(piece.num_rows for piece in rows), None)
    if isinstance(course, Repair) and not course.must_write:
        count, digest = _consume(rows)
        check_repair(plan, course, count, digest)
        return Done(plan, batch, course, count, None)

    def check(count: int, digest: str) -> None:
        if isinstance(course, Repair):
            check_repair(plan, course, count, digest)

    first = next((piece for piece in rows if piece.num_rows), None)
    if first is None:
        check(0, "")
        return Done(plan, batch, course, 0, None)
    writer = TaskWriter(options, plan, task, isinstance(course, Repair), check)
    part = asyncio.run(writer.write(chain([first], rows)))
    return Done(plan, batch, course, part.rows, part)


def _consume(rows: Iterator[pa.RecordBatch]) -> tuple[int, str]:
    count, digest = 0, Digest()
    for piece in _digested(rows, digest):
        count += piece.num_rows
    return count, digest.text()


def _digested(rows: Iterator[pa.RecordBatch], digest: Digest) -> Iterator[pa.RecordBatch]:
    for piece in rows:
        names = [name for name in (*RECORD_COLUMNS, "topic") if name in piece.schema.names]
        digest.add(piece.select(names))
        yield piece


class TaskWriter:
    """Writes a task's rows in one transaction."""

    def __init__(
        self,
        options: SinkOptions,
        plan: Plan,
        task: int,
        is_repair: bool,
        check: Check,
    ) -> None:
        """`check` takes the rows' count and digest before the transaction is prepared; a repair needs the digest."""
        assert options.exactly_once is not None
        self._options = options
        self._exactly_once: ExactlyOnceOptions = options.exactly_once
        self._task = task
        self._is_repair = is_repair
        self._check = check
        self._id = task_transactional_id(SinkNames(self._exactly_once.sink_id), plan.driver)

    async def write(self, rows: Iterator[pa.RecordBatch]) -> Part:
        """Write rows, and return the transaction that is prepared."""
        producer, has_timeout = await self._begun()
        digest = Digest()
        try:
            digested = _digested(rows, digest) if has_timeout or self._is_repair else rows
            count = await self._send(producer, digested)
            self._check(count, digest.text())
            state = await producer.prepare_transaction()
        except BaseException:
            # Spark runs the task again, or gives the batch up: the transaction is aborted if that is quickly done.
            with suppress(KafkaError, OSError):
                await producer.close(timeout_ms=_CLOSE_MS)
            raise
        await producer.close()
        assert state is not None, "rows were written"
        return Part(self._task, self._id, state, count, digest.text() if has_timeout else "")

    async def _send(self, producer: Producer, rows: Iterator[pa.RecordBatch]) -> int:
        """Send the rows, and return their number."""
        return await send_rows(producer, rows, self._options)

    async def _begun(self) -> tuple[Producer, bool]:
        """Return a producer in a transaction, and whether brokers abort that after some time."""
        is_two_phase = self._exactly_once.two_phase_commit
        servers = self._options.client["bootstrap.servers"]
        if is_two_phase or (is_two_phase is None and servers not in _without_two_phase_commit):
            try:
                return await self._started(self._settings(two_phase_commit=True)), False
            except FatalError as error:
                if is_two_phase or error.code not in _NOT_OFFERED:
                    raise
                log.info(
                    "two-phase commit is not offered, as by most brokers. Prepared transactions are aborted after "
                    "transaction.timeout.ms. servers=%s",
                    servers,
                )
                _without_two_phase_commit.add(servers)
        return await self._started(self._settings(two_phase_commit=False)), True

    def _settings(self, two_phase_commit: bool) -> dict[str, str]:
        settings = DEFAULTS | self._options.client | {"transactional.id": self._id}
        if two_phase_commit:
            settings.pop("transaction.timeout.ms", None)
            settings["transaction.two.phase.commit.enable"] = "true"
        else:
            settings.setdefault("transaction.timeout.ms", str(_MAX_TIMEOUT_MS))
        return settings

    async def _started(self, settings: dict[str, str]) -> Producer:
        producer = Producer(settings)
        await producer.start()
        try:
            await producer.init_transactions()
            producer.begin_transaction()
        except BaseException:
            with suppress(KafkaError, OSError):
                await producer.close(timeout_ms=0)
            raise
        return producer
