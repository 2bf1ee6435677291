"""The steps of an exactly-once sink as crash points: subclasses of its driver and task writer that stop between them.

The names are `listed`, `fenced`, `rolled-forward`, `planned` of a plan, `checked`, `decided`, `ended`, `noted` of a
commit, `ending-N` and `ended-N` of the end of part N, and `begun-N`, `written-N`, `prepared-N` of task N.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

import pyarrow as pa

from kavka.client.producer import PreparedTxnState, Producer
from kavka.spark.exactly_once import task_writer, writers
from kavka.spark.exactly_once.commit_protocol import Plan
from kavka.spark.exactly_once.decisions import Decision, Outcome, Part, SinkNames
from kavka.spark.exactly_once.driver import Driver
from kavka.spark.exactly_once.task_writer import TaskWriter

CrashPoint = Callable[[str], Awaitable[None]]
"""Called with each step that is done. It may wait, raise, or end the process."""


class CrashingDriver(Driver):
    """A driver with a crash point after each of its steps."""

    def __init__(
        self, crash_point: CrashPoint, client: Mapping[str, str], names: SinkNames
    ) -> None:
        """Take the crash point before what a driver takes."""
        super().__init__(client, names)
        self._crash_point = crash_point

    async def plan(self, accepts_other_writes: bool) -> Plan:
        """Plan."""
        plan = await super().plan(accepts_other_writes)
        await self._crash_point("planned")
        return plan

    async def _open_transactions(self) -> dict[str, PreparedTxnState]:
        found = await super()._open_transactions()
        await self._crash_point("listed")
        return found

    async def _fence(self, producer: Producer) -> None:
        await super()._fence(producer)
        await self._crash_point("fenced")

    async def _roll_forward(self, producer: Producer, decided: Decision) -> None:
        await super()._roll_forward(producer, decided)
        await self._crash_point("rolled-forward")

    async def _check(self, decision: Decision) -> dict[str, PreparedTxnState]:
        strangers = await super()._check(decision)
        await self._crash_point("checked")
        return strangers

    async def _decide(self, producer: Producer, decision: Decision) -> None:
        await super()._decide(producer, decision)
        await self._crash_point("decided")

    async def _finish(
        self, producer: Producer, settled: Decision, strangers: Mapping[str, PreparedTxnState]
    ) -> None:
        await self._crash_point("ended")
        await super()._finish(producer, settled, strangers)
        await self._crash_point("noted")

    async def _ended(self, part: Part) -> Outcome:
        await self._crash_point(f"ending-{part.task}")
        outcome = await super()._ended(part)
        await self._crash_point(f"ended-{part.task}")
        return outcome


class CrashingTaskWriter(TaskWriter):
    """A task writer with a crash point after each of its steps."""

    def __init__(self, crash_point: CrashPoint, *arguments: Any) -> None:
        """Take the crash point before what a task writer takes."""
        super().__init__(*arguments)
        self._crash_point = crash_point

    async def write(self, rows: Iterator[pa.RecordBatch]) -> Part:
        """Write the rows."""
        part = await super().write(rows)
        await self._crash_point(f"prepared-{self._task}")
        return part

    async def _send(self, producer: Producer, rows: Iterator[pa.RecordBatch]) -> int:
        await self._crash_point(f"begun-{self._task}")
        count = await super()._send(producer, rows)
        await self._crash_point(f"written-{self._task}")
        return count


@contextmanager
def crash_points(crash_point: CrashPoint) -> Iterator[None]:
    """Have the sinks and tasks of this process pass crash points."""
    with (
        patch.object(writers, "Driver", partial(CrashingDriver, crash_point)),
        patch.object(task_writer, "TaskWriter", partial(CrashingTaskWriter, crash_point)),
    ):
        yield
