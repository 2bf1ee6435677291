"""Periodic tasks of a broker: retention, flushing, checkpoints, expiry, idle connections.

Each task is a loop of its own that sleeps between its runs; a failure is logged and does not end the others.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from typing import NamedTuple

from kavka.broker.configs.broker_config import BrokerConfig
from kavka.broker.partitions.replica_manager import ReplicaManager
from kavka.io import Clock
from kavka.net.connection import Connection
from kavka.net.event_loop import iterations_of

log = logging.getLogger(__name__)

_REMOVAL_MS = 1000
_INDEXES_MS = 1000
_IDLE_CHECK_MS = 10_000
_MAX_SLEEP_MS = 24 * 3600 * 1000


class TaskRun(NamedTuple):
    """A run of a periodic task, up to its first wait."""

    name: str
    began_ms: int


class PeriodicTasks:
    """The periodic work of one broker."""

    def __init__(
        self,
        config: BrokerConfig,
        replica_manager: ReplicaManager,
        connections: Collection[Connection],
        clock: Clock,
    ) -> None:
        """Create the tasks that `start` starts; `connections` are those that are open, at any time."""
        self._config = config
        self._replica_manager = replica_manager
        self._connections = connections
        self._clock = clock
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start all tasks."""
        replica_manager, config = self._replica_manager, self._config

        def every(name: str) -> int:
            return max(1, config.integer(name))

        self.run_every(
            every("log.retention.check.interval.ms"), replica_manager.delete_old_segments
        )
        checkpoint_ms = min(
            every("log.flush.offset.checkpoint.interval.ms"),
            every("log.flush.start.offset.checkpoint.interval.ms"),
        )
        self.run_every(checkpoint_ms, replica_manager.write_checkpoints)
        self.run_every(
            every("replica.high.watermark.checkpoint.interval.ms"),
            replica_manager.write_high_watermarks,
        )
        self.run_every(_REMOVAL_MS, replica_manager.remove_due_files)
        self.run_every(_INDEXES_MS, replica_manager.store.write_lagging_indexes)
        self.run_every(_IDLE_CHECK_MS, self._close_idle)
        self.run_every(
            every("producer.id.expiration.check.interval.ms"), replica_manager.expire_producers
        )
        interval = min(every("log.flush.scheduler.interval.ms"), _REMOVAL_MS)
        self.run_every(interval, replica_manager.flush_due)

    def run_every(self, interval_ms: int, work: Callable[[], Awaitable[None]]) -> None:
        """Run `work` at this interval until `stop`."""
        interval_s = min(interval_ms, _MAX_SLEEP_MS) / 1000

        note_work = iterations_of(asyncio.get_running_loop()).works.append

        async def loop() -> None:
            while True:
                await asyncio.sleep(interval_s)
                note_work(TaskRun(work.__name__, self._clock.tick_ms()))
                try:
                    await work()
                except OSError as error:  # the directory is offline now, and has said so
                    log.warning("periodic task failed task=%s reason=%s", work.__name__, error)
                except Exception:
                    # A bug in one run must not end the task: the next run tries again.
                    log.exception("periodic task failed task=%s", work.__name__)

        self._tasks.append(asyncio.get_running_loop().create_task(loop()))

    async def _close_idle(self) -> None:
        """Close connections on which nothing moved for `connections.max.idle.ms`; as in Kafka also those that wait."""
        longest = self._config.integer("connections.max.idle.ms")
        if longest < 0:
            return
        now = self._clock.tick_ms()
        for connection in list(self._connections):
            if connection.idle_ms(now) > longest:
                connection.abort()

    async def stop(self) -> None:
        """Stop all tasks."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
