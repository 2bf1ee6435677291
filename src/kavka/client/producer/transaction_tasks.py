"""The tasks in which a producer's transactions run: one operation at a time, and what adds to the transaction."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

from kavka.core.transactional_producer.dialogue import Dialogue
from kavka.errors import KafkaError

log = logging.getLogger(__name__)


class _Operation(NamedTuple):
    name: str
    task: asyncio.Task[None]


class TransactionTasks:
    """Runs dialogues with the coordinator. An operation that outlasts `max_block_ms` continues."""

    def __init__(
        self,
        run: Callable[[Dialogue], Coroutine[Any, Any, None]],
        max_block_ms: int,
        on_added: Callable[[], None],
        on_failure: Callable[[Exception], None],
    ) -> None:
        """`run` performs a dialogue; `on_added` is called when one that adds to the transaction has ended.

        `on_failure` is called with what it raises unless that is a KafkaError, which `run` keeps.
        """
        self._run = run
        self._max_block_ms = max_block_ms
        self._on_added = on_added
        self._on_failure = on_failure
        self._operation: _Operation | None = None
        self._adding: set[asyncio.Task[None]] = set()

    @property
    def has_operation(self) -> bool:
        """True while an operation has not given its result."""
        return self._operation is not None

    def require_no_operation(self) -> None:
        """Raise RuntimeError while an operation has not given its result."""
        if self._operation is not None:
            raise RuntimeError(f"{self._operation.name} is not over: call it again to wait for it")

    async def operate(
        self, name: str, begin: Callable[[], None], dialogue: Callable[[], Dialogue]
    ) -> None:
        """Begin an operation, or wait for the one of this name that was begun before, and raise what it raises.

        Raise TimeoutError after `max_block_ms`, RuntimeError while another operation is not over or after `stop`.
        """
        if self._operation is None:
            begin()
            task = asyncio.get_running_loop().create_task(self._run(dialogue()))
            self._operation = _Operation(name, task)
        elif self._operation.name != name:
            self.require_no_operation()
        task = self._operation.task
        if not await self._is_done(task):
            raise TimeoutError(
                f"{name} is not over after {self._max_block_ms} ms: call it again, or close the producer"
            )
        self._operation = None
        _require_finished(task)
        task.result()

    def add(self, dialogue: Dialogue) -> asyncio.Task[None]:
        """Run a dialogue that adds to the transaction; its failure fails the transaction, and is raised from there."""

        async def guarded() -> None:
            try:
                await self._run(dialogue)
            except KafkaError:
                pass  # `run` has kept it
            except Exception as error:  # the transaction must not be committed without it
                log.exception("adding to a transaction failed")
                self._on_failure(error)
            self._on_added()

        task = asyncio.get_running_loop().create_task(guarded())
        self._adding.add(task)
        task.add_done_callback(self._adding.discard)
        return task

    async def add_and_wait(self, dialogue: Dialogue) -> bool:
        """Run a dialogue that adds to the transaction; return whether it ended within `max_block_ms`.

        Raise RuntimeError after `stop`.
        """
        task = self.add(dialogue)
        if not await self._is_done(task):
            return False
        _require_finished(task)
        return True

    async def wait_until_added(self) -> None:
        """Wait until nothing is being added to the transaction."""
        while self._adding:
            await asyncio.wait(set(self._adding))

    async def wait_for_operation(self) -> None:
        """Wait for the end of the operation, if there is one; its failure is not raised."""
        if self._operation is not None:
            await asyncio.wait({self._operation.task})

    async def stop(self) -> None:
        """Cancel all tasks, and wait for their end."""
        tasks: list[asyncio.Task[None]] = [*self._adding]
        if self._operation is not None:
            tasks.append(self._operation.task)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _is_done(self, task: asyncio.Task[None]) -> bool:
        done, _ = await asyncio.wait({task}, timeout=self._max_block_ms / 1000)
        return bool(done)


def _require_finished(task: asyncio.Task[None]) -> None:
    if task.cancelled():  # by `stop`
        raise RuntimeError("the producer is closed")
