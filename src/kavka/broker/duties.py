"""What a broker does from time to time: retention, flushing, checkpoints, expiry, idle connections.

Each duty is a loop of its own that sleeps between its turns; a failure is logged and does not end the others.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from typing import NamedTuple

from kavka.broker.config import BrokerConfig
from kavka.broker.replicas import Replicas
from kavka.doors import Clock
from kavka.net.connection import Connection
from kavka.net.event_loop import turns_of

log = logging.getLogger(__name__)

_REMOVAL_MS = 1000
_INDEXES_MS = 1000
_IDLE_CHECK_MS = 10_000
_LONGEST_SLEEP_MS = 24 * 3600 * 1000


class DutyRound(NamedTuple):
    """One round of a duty, up to where it first waits."""

    name: str
    began_ms: int


class Duties:
    """The periodic work of one broker."""

    def __init__(
        self,
        config: BrokerConfig,
        replicas: Replicas,
        connections: Collection[Connection],
        clock: Clock,
    ) -> None:
        """Do nothing before `start`; `connections` are those that are open, at any time."""
        self._config = config
        self._replicas = replicas
        self._connections = connections
        self._clock = clock
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin all duties."""
        replicas, config = self._replicas, self._config

        def every(name: str) -> int:
            return max(1, config.integer(name))

        self._begin(every("log.retention.check.interval.ms"), replicas.delete_old_segments)
        checkpoint_ms = min(
            every("log.flush.offset.checkpoint.interval.ms"),
            every("log.flush.start.offset.checkpoint.interval.ms"),
        )
        self._begin(checkpoint_ms, replicas.write_checkpoints)
        self._begin(
            every("replica.high.watermark.checkpoint.interval.ms"), replicas.write_high_watermarks
        )
        self._begin(_REMOVAL_MS, replicas.remove_due_files)
        self._begin(_INDEXES_MS, replicas.store.write_lagging_indexes)
        self._begin(_IDLE_CHECK_MS, self._close_idle)
        self._begin(every("producer.id.expiration.check.interval.ms"), replicas.expire_producers)
        interval = min(every("log.flush.scheduler.interval.ms"), _REMOVAL_MS)
        self._begin(interval, replicas.flush_due)

    def _begin(self, interval_ms: int, work: Callable[[], Awaitable[None]]) -> None:
        interval_s = min(interval_ms, _LONGEST_SLEEP_MS) / 1000

        note_work = turns_of(asyncio.get_running_loop()).works.append

        async def loop() -> None:
            while True:
                await asyncio.sleep(interval_s)
                note_work(DutyRound(work.__name__, self._clock.tick_ms()))
                try:
                    await work()
                except OSError as error:  # the directory is offline now, and has said so
                    log.warning("duty failed duty=%s reason=%s", work.__name__, error)
                except Exception:
                    # A fault of ours in one round must not end the duty: the next round tries again.
                    log.exception("duty failed duty=%s", work.__name__)

        self._tasks.append(asyncio.get_running_loop().create_task(loop()))

    async def _close_idle(self) -> None:
        """Close connections on which nothing moved for `connections.max.idle.ms`; as in Kafka also those that wait."""
        longest = self._config.integer("connections.max.idle.ms")
        if longest < 0:
            return
        now = self._clock.tick_ms()
        for connection in list(self._connections):
            if connection.silent_ms(now) > longest:
                connection.abort()

    async def stop(self) -> None:
        """End all duties."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
