"""The audit in a topic: lines wait in memory, and a task appends them, one batch after the other, in their order.

    add -> waiting (bounded) -> batch -> leader of the topic's partition
                 '-> dropped: counted, said in the log, and in a line `dropped` before the next one

Nothing waits for it: neither a request, nor the file, which has all lines and is the record of truth. A batch that is
not acknowledged is sent again, so a line may be in the topic twice. A broker that ends takes what waits with it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, NamedTuple

from kavka.errors import ErrorCode, KafkaError
from kavka.registry.interface import RegistryRefused
from kavka.wire.codec import CorruptFrame

log = logging.getLogger(__name__)

_MAX_WAITING_BYTES: Final = 8 << 20
_BATCH_BYTES: Final = 64 << 10
_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 5.0
_REFUSED_PAUSE_S: Final = 60.0
"""After a refusal that only an operator ends: each attempt may be a line of the other broker's audit."""
_STOP_S: Final = 2.0
_TOO_LARGE: Final = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)
_REFUSALS: Final = (
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.SASL_AUTHENTICATION_FAILED,
)

Write = Callable[[Sequence[bytes]], Awaitable[ErrorCode]]
"""Append lines to the topic as one batch, or return why not. May raise OSError, KafkaError and CorruptFrame."""


class _Failure(NamedTuple):
    """The reason why a batch was not appended."""

    reason: str
    is_refusal: bool = False


class AuditTopic:
    """The lines that wait for the topic, and the task that appends them."""

    def __init__(self, name: str, write: Write, dropped_line: Callable[[int], str]) -> None:
        """Begin with none; `dropped_line` makes the line that says how many are missing before it."""
        self._name = name
        self._write = write
        self._dropped_line = dropped_line
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0  # Invariant: the sum of the lengths in _waiting
        self._unsaid = 0
        """Lines that were dropped since the last line that says so."""
        self._batch_bytes = _BATCH_BYTES
        self._task: asyncio.Task[None] | None = None
        self._failing = False
        self.written = 0
        """Lines that the topic has."""
        self.dropped = 0
        """Lines that it does not have, and never will."""

    @property
    def waiting(self) -> int:
        """Return the number of lines that wait."""
        return len(self._waiting)

    def add(self, lines: Iterable[str]) -> None:
        """Queue lines; those that are too many are dropped, and counted."""
        for line in lines:
            self._take(line.encode())
        if self._task is None and self._waiting:
            self._task = asyncio.get_running_loop().create_task(self._write_waiting())

    async def stop(self) -> None:
        """Append what waits, if that goes quickly."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()  # it may be in a pause
            await asyncio.gather(task, return_exceptions=True)
        try:
            async with asyncio.timeout(_STOP_S):
                while self._waiting and await self._attempt() is None:
                    pass
        except TimeoutError:
            pass
        left = self.waiting + self._unsaid
        if left:
            log.warning("audit lines dropped topic=%s lines=%d", self._name, left)

    # -- what waits

    def _take(self, line: bytes) -> None:
        said = self._dropped_line(self._unsaid).encode() if self._unsaid else b""
        if self._waiting_bytes + len(said) + len(line) > _MAX_WAITING_BYTES:
            self._drop()
            return
        if said:
            self._say_dropped(said)
        self._put(line)

    def _put(self, line: bytes) -> None:
        self._waiting.append(line)
        self._waiting_bytes += len(line)

    def _drop(self) -> None:
        self.dropped += 1
        self._unsaid += 1

    def _say_dropped(self, said: bytes) -> None:
        """Put a line in the place of those that were dropped."""
        log.warning("audit lines dropped topic=%s lines=%d", self._name, self._unsaid)
        self._unsaid = 0
        self._put(said)

    # -- the task

    async def _write_waiting(self) -> None:
        pause_s = _FIRST_PAUSE_S
        while self._waiting:
            failure = await self._attempt()
            if failure is None:
                pause_s = _FIRST_PAUSE_S
                if self._unsaid and not self._waiting:
                    self._say_dropped(self._dropped_line(self._unsaid).encode())
                await asyncio.sleep(0)
                continue
            if not self._failing:
                log.warning(
                    "audit topic not written topic=%s reason=%s", self._name, failure.reason
                )
                self._failing = True
            await asyncio.sleep(_REFUSED_PAUSE_S if failure.is_refusal else pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        self._task = None

    async def _attempt(self) -> _Failure | None:
        """Append the first lines; return why not, None when they are there."""
        batch = self._first_lines()
        try:
            code = await self._write(batch)
        except KafkaError as error:
            return _Failure(str(error), error.code in _REFUSALS)
        except (OSError, CorruptFrame, RegistryRefused) as error:
            return _Failure(str(error) or type(error).__name__)
        except Exception as error:
            # A bug in one attempt must not end the audit of this broker: the next attempt follows.
            log.exception("audit topic failed topic=%s", self._name)
            return _Failure(type(error).__name__)
        if code in _TOO_LARGE:
            self._shrink(batch)
            return None
        if code is not ErrorCode.NONE:
            return _Failure(code.name, code in _REFUSALS)
        if self._failing:
            log.info("audit topic written again topic=%s waiting=%d", self._name, self.waiting)
            self._failing = False
        self.written += len(batch)
        self._forget(len(batch))
        return None

    def _first_lines(self) -> list[bytes]:
        lines: list[bytes] = []
        size = 0
        for line in self._waiting:
            size += len(line)
            if lines and size > self._batch_bytes:
                break
            lines.append(line)
        return lines

    def _shrink(self, batch: Sequence[bytes]) -> None:
        """Make batches smaller that the topic does not take; a line that is too large alone is dropped."""
        if len(batch) > 1:
            self._batch_bytes = sum(map(len, batch)) // 2
        else:
            self._forget(1)
            self._drop()

    def _forget(self, count: int) -> None:
        for _ in range(count):
            self._waiting_bytes -= len(self._waiting.popleft())
