"""The log cleaner: which compacted log is next, how many at once, how fast; and what came of it.

A round checks all compacted logs and begins a pass over the dirtiest one that is due, as long as fewer than
`log.cleaner.threads` are in progress; when there is none, the next round comes after `log.cleaner.backoff.ms`. Leaders
and followers clean on their own: each replica has its own segments, and the same records survive. A log that cannot be
cleaned (a damaged batch) is left alone until the broker starts again or the log is another one, and counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging

from kavka.broker.configs.effective_configs import EffectiveConfigs
from kavka.broker.partitions.replica import Replica
from kavka.broker.partitions.replica_manager import ReplicaManager
from kavka.ids import TopicPartition
from kavka.io import Clock
from kavka.storage.compaction.cleanable_log import Dirtiness, dirtiest_log, log_dirtiness
from kavka.storage.compaction.cleaning_pass import (
    CleanerLimits,
    CleaningPass,
    PassEnded,
    PassReport,
    Uncleanable,
)
from kavka.storage.failures import LogDirectoryFailed
from kavka.storage.log.log import Log
from kavka.values import mutable

log = logging.getLogger(__name__)

_MAX_SLEEP_MS = 24 * 3600 * 1000
_SMALLEST_BLOCK = 16 * 1024
_LOGS_PER_SLICE = 64


@mutable
class CleanerCounts:
    """The cleaner's metrics; of the last pass, or round, unless stated otherwise."""

    passes: int = 0
    """Since the start."""
    read_bytes: int = 0
    """Since the start."""
    written_bytes: int = 0
    """Since the start."""
    last_pass_ms: int = 0
    recopy_percent: int = 0
    """Percentage of the bytes read that were written again."""
    map_use_percent: int = 0
    max_dirty_percent: int = 0
    max_compaction_delay_ms: int = 0
    last_round_ms: int = 0
    """Time of the last round, by `Clock.tick_ms`."""


class Cleaner:
    """Compacts the logs of one broker in the background. `start` once, `stop` once."""

    def __init__(
        self, effective_configs: EffectiveConfigs, replica_manager: ReplicaManager, clock: Clock
    ) -> None:
        """Create the cleaner that `start` starts."""
        self.counts = CleanerCounts(last_round_ms=clock.tick_ms())
        self.uncleanable: dict[TopicPartition, str] = {}
        """Logs that are left alone, and why."""
        self._effective_configs = effective_configs
        self._replica_manager = replica_manager
        self._clock = clock
        self._unclean_logs: dict[TopicPartition, Log] = {}
        self._passes: dict[TopicPartition, asyncio.Task[None]] = {}
        # Logs whose pass was given up: the others go first, or a full disk would stop the cleaning on all of them.
        self._failed: set[TopicPartition] = set()
        self._rounds: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        self._next_free_ms = 0.0
        # Of two passes that end together, the one that ended first writes its checkpoint first.
        self._checkpoint_lock = asyncio.Lock()

    def start(self) -> None:
        """Start the task that cleans one log after the other."""
        self._rounds = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """End the passes that are in progress at their next block, and wait for that: nothing is written afterwards."""
        self._stopping.set()
        if self._rounds is not None:
            await self._rounds
        if self._passes:
            await asyncio.wait(self._passes.values())

    # Rounds

    async def _run(self) -> None:
        while not self._stopping.is_set():
            has_begun = False
            try:
                has_begun = await self._clean_once()
            except OSError as error:  # the directory is offline now, and has said so
                log.warning("dirty logs not determined reason=%s", error)
            except Exception:
                # A bug in one round must not end the cleaning of all logs: the next round tries again.
                log.exception("cleaner failed")
            if not has_begun:
                await self._pause()

    async def _pause(self) -> None:
        """Wait for `log.cleaner.backoff.ms`, for a pass to end, or for the stop."""
        stopping = asyncio.ensure_future(self._stopping.wait())
        await asyncio.wait(
            [stopping, *self._passes.values()],
            timeout=self._backoff_s(),
            return_when=asyncio.FIRST_COMPLETED,
        )
        stopping.cancel()

    def _backoff_s(self) -> float:
        backoff_ms = self._effective_configs.broker_integer("log.cleaner.backoff.ms")
        return min(max(backoff_ms, 1), _MAX_SLEEP_MS) / 1000

    async def _clean_once(self) -> bool:
        """Begin a pass over the dirtiest log that is due; false when there is none, or enough are in progress."""
        if len(self._passes) >= self._effective_configs.broker_integer("log.cleaner.threads"):
            return False
        self._forget_replaced()
        measured = await self._measure()
        counts = self.counts
        counts.last_round_ms = self._clock.tick_ms()
        counts.max_dirty_percent = int(100 * max((d.ratio for _, d in measured), default=0))
        counts.max_compaction_delay_ms = max((d.delay_ms for _, d in measured), default=0)
        due = [(one, d) for one, d in measured if d.is_due(one.config)]
        fresh = ((one, d) for one, d in due if one.topic_partition not in self._failed)
        found = dirtiest_log(fresh) or dirtiest_log(due)
        if found is None or self._stopping.is_set():
            return False
        topic_partition = found[0].topic_partition
        task = asyncio.get_running_loop().create_task(self._clean(*found))
        self._passes[topic_partition] = task
        task.add_done_callback(lambda _: self._passes.pop(topic_partition))
        return True

    async def _measure(self) -> list[tuple[Log, Dirtiness]]:
        """Measure the compacted logs of which none is being cleaned.

        What was measured says nothing of the log that takes its place when it moves before the pass.
        """
        found: list[tuple[Log, Dirtiness]] = []
        for number, replica in enumerate(self._replica_manager):
            if number % _LOGS_PER_SLICE == _LOGS_PER_SLICE - 1:
                await asyncio.sleep(0)
            if self._is_cleanable(replica):
                measured = replica.log
                stable = min(replica.partition.last_stable_offset, measured.written_offset)
                found.append((measured, await log_dirtiness(measured, stable)))
        return found

    def _is_cleanable(self, replica: Replica) -> bool:
        """Return whether a log may be cleaned now; not one that moves: its copy must not miss a tombstone."""
        return (
            replica.log.config.is_compacted
            and replica.log.directory.failure is None
            and replica.topic_partition not in self._passes
            and replica.topic_partition not in self.uncleanable
            and self._replica_manager.store.future(replica.topic_partition) is None
        )

    def _forget_replaced(self) -> None:
        """Drop failures of logs that were deleted or moved: they do not concern the present log."""
        for topic_partition, unclean in list(self._unclean_logs.items()):
            if self._replica_manager.store.get(topic_partition) is not unclean:
                del self._unclean_logs[topic_partition], self.uncleanable[topic_partition]

    # A pass

    async def _clean(self, partition_log: Log, dirtiness: Dirtiness) -> None:
        topic_partition, started = partition_log.topic_partition, self._clock.tick_ms()
        try:
            report = await CleaningPass(partition_log, dirtiness, self._limits()).run()
            await self._note_clean(partition_log, report, self._clock.tick_ms() - started)
        except PassEnded as ended:
            self._failed.add(topic_partition)
            log.info("cleaning ended early log=%s reason=%s", topic_partition, ended)
            await self._sleep(self._backoff_s())
        except Uncleanable as fault:
            self._mark_uncleanable(partition_log, str(fault))
            log.error("log cannot be cleaned log=%s reason=%s", topic_partition, fault)
        except LogDirectoryFailed:
            pass  # said when it failed
        except Exception as fault:
            # A bug with one log must not end the cleaning of the others; this one is left alone.
            self._mark_uncleanable(partition_log, repr(fault))
            log.exception("log cannot be cleaned log=%s", topic_partition)

    def _mark_uncleanable(self, partition_log: Log, reason: str) -> None:
        topic_partition = partition_log.topic_partition
        self.uncleanable[topic_partition] = reason
        self._unclean_logs[topic_partition] = partition_log

    async def _note_clean(self, cleaned: Log, report: PassReport, took_ms: int) -> None:
        topic_partition, counts = cleaned.topic_partition, self.counts
        self._failed.discard(topic_partition)
        counts.passes += 1
        counts.read_bytes += report.read_bytes
        counts.written_bytes += report.written_bytes
        counts.last_pass_ms = took_ms
        counts.recopy_percent = 100 * report.written_bytes // max(1, report.rewritten_bytes)
        counts.map_use_percent = int(100 * report.map_use)
        cleaned.cleaner_offset = min(report.end_offset, cleaned.log_end_offset)
        log.info(
            "log was cleaned log=%s end_offset=%d bytes=%d to=%d ms=%d",
            topic_partition,
            report.end_offset,
            report.rewritten_bytes,
            report.written_bytes,
            took_ms,
        )
        async with self._checkpoint_lock:
            await self._replica_manager.store.write_cleaner_offsets(cleaned.directory)

    def _limits(self) -> CleanerLimits:
        values = self._effective_configs.broker_values()
        threads = max(1, self._effective_configs.broker_integer("log.cleaner.threads"))
        load_factor = values["log.cleaner.io.buffer.load.factor"]
        assert isinstance(load_factor, float | int)
        buffer_bytes = self._effective_configs.broker_integer("log.cleaner.io.buffer.size")
        return CleanerLimits(
            self._effective_configs.broker_integer("log.cleaner.dedupe.buffer.size") // threads,
            min(max(load_factor, 0.1), 0.99),
            max(buffer_bytes // threads // 2, _SMALLEST_BLOCK),
            self._throttle,
        )

    async def _throttle(self, count: int) -> bool:
        """Wait as long as `log.cleaner.io.max.bytes.per.second` wants for so many bytes; false when it is over."""
        rate = self._effective_configs.broker_values()["log.cleaner.io.max.bytes.per.second"]
        assert isinstance(rate, float | int)
        now = self._clock.tick_ms()
        self._next_free_ms = max(self._next_free_ms, now) + 1000 * count / max(rate, 1.0)
        wait_s = (self._next_free_ms - now) / 1000
        if wait_s >= 0.001 and not self._stopping.is_set():
            await self._sleep(wait_s)
        return not self._stopping.is_set()

    async def _sleep(self, seconds: float) -> None:
        """Wait, but not longer than until the stop."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), seconds)
