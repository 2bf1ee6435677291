"""One log on a bad disk: append, flush, roll, delete; crash; recover; compare; again.

A life is a process: it opens the log directory as a broker does, compares what it finds with the model, and works
until it is killed, its host loses power, its disk fails, or it stops cleanly. A seed picks settings, faults and work.
"""

from __future__ import annotations

import asyncio
import logging
import random
from dataclasses import dataclass

from kavka.ids import TopicPartition
from kavka.storage.checkpoint import LOG_START_OFFSETS, RECOVERY_POINTS
from kavka.storage.failures import LogDirectoryFailed
from kavka.storage.log import Log
from kavka.storage.log_config import NEVER, LogConfig
from kavka.storage.log_directory import LogDirectory
from kavka.testing.simulation.chance import stream
from kavka.testing.simulation.disk import DiskFaults
from kavka.testing.simulation.host import SimHost
from kavka.testing.simulation.invariants.invariant import Violation
from kavka.testing.simulation.log_model import LogModel, read_bytes
from kavka.testing.simulation.report import Report
from kavka.testing.simulation.world import Node, World

PARTITION = TopicPartition("t", 0)
DATA = "/data"


@dataclass(frozen=True, slots=True)
class StorageScenario:
    """What a seed chose."""

    lives: int
    power: bool
    """Whether hosts lose power; else only processes die."""
    flips: bool
    """Whether bits flip on the medium while nobody runs."""
    disk_fails: bool
    """Whether writes and syncs fail now and then. Never with `power`: on Linux a sync that failed forgets what was
    dirty, so a process that starts again finds it in the page cache, syncs nothing, and loses it with the power."""
    config: LogConfig

    @classmethod
    def of(cls, seed: int) -> StorageScenario:
        """Return the scenario of a seed."""
        source = stream(seed, "storage scenario")
        config = LogConfig(
            segment_bytes=source.choice([300, 1_000, 4_000, 20_000]),
            index_interval_bytes=source.choice([0, 100, 1_000]),
            segment_index_bytes=source.choice([60, 1_000]),
            flush_messages=source.choice([NEVER, NEVER, 1, 7]),
            file_delete_delay_ms=source.choice([0, 200]),
        )
        power = source.random() < 0.6
        return cls(
            lives=source.randint(3, 6),
            power=power,
            flips=source.random() < 0.15,
            disk_fails=not power and source.random() < 0.5,
            config=config,
        )


class StorageRun:
    """A run of one seed; `run` plays it."""

    def __init__(self, seed: int) -> None:
        """Build the world of `seed`."""
        self.world = World(seed)
        self.scenario = StorageScenario.of(seed)
        self._source = stream(seed, "storage work")
        self._model = LogModel(stream(seed, "storage batches"))
        self._node: Node = self.world.node("disk-1")
        self._power_was_lost = False
        self._broken: list[str] = []

    def run(self) -> Report:
        """Live all lives. Return what was found."""
        self.world.story.tell("scenario", str(self.scenario))
        self.world.run(self._play(), limit_s=3600)
        return Report.of(self.world, self._broken)

    async def _play(self) -> None:
        for life in range(self.scenario.lives):
            is_last = life == self.scenario.lives - 1
            self._node.disk.faults = self._faults(is_last)
            process = self._node.start(self._live)
            death = asyncio.ensure_future(self._death(is_last))
            await process.ended
            death.cancel()
            if self._broken or self.world.failures:
                return
            self._between_lives()

    def _faults(self, is_last: bool) -> DiskFaults:
        fails = self.scenario.disk_fails and not is_last
        return DiskFaults(
            write_error=0.002 if fails else 0.0,
            sync_error=0.01 if fails else 0.0,
            cold=self._source.choice([0.0, 0.3]),
            delay_s=self._source.choice([0.0005, 0.02]),
            stall=self._source.choice([0.0, 0.05]),
            capacity_bytes=self._capacity() if fails else 1 << 30,
        )

    def _capacity(self) -> int:
        room = self._source.choice([1 << 30, 1 << 30, 3_000, 20_000])
        return self._node.disk.used_bytes + room

    async def _death(self, is_last: bool) -> None:
        """End the life, if it does not end by itself."""
        await asyncio.sleep(self._source.uniform(0.01, 1.5))
        if is_last:
            return
        if self.scenario.power and self._source.random() < 0.7:
            self._power_was_lost = True
            self._node.lose_power()
        elif self._source.random() < 0.5:
            self._node.kill_in_write(self._source.randrange(12))
        else:
            self._node.kill()

    def _between_lives(self) -> None:
        if self.scenario.flips and self._source.random() < 0.5:
            self._flip()

    def _flip(self) -> None:
        """Damage a batch that recovery must check: one above the recovery point."""
        model = self._model
        doubtful = [batch for batch in model.batches if batch.base_offset >= model.recovery_point]
        if not doubtful:
            return
        victim = self._source.choice(doubtful)
        for path, inode in sorted(self._node.disk.names.items()):
            if inode is None or not path.endswith(".log"):
                continue
            at = bytes(inode.cached).find(victim.content)
            if at >= 0:
                inode.flip(
                    at + self._source.randrange(17, len(victim.content)), self._source.randrange(8)
                )
                model.flipped_from = min(
                    victim.base_offset, model.flipped_from or victim.base_offset
                )
                self.world.story.tell(
                    "nemesis", f"flips a bit of offset {victim.base_offset} in {path}"
                )

    # -- a life

    async def _live(self, host: SimHost) -> None:
        directory = LogDirectory(host.disk, host.clock, host.chance, DATA, slow_write_ms=50)
        work: _Work | None = None
        try:
            await directory.open()
            log = await self._open(directory)
            await self._check(log)
            work = _Work(self, host, directory, log, self._source)
            await work.run()
        except Violation as violation:
            self._broken.append(str(violation))
            self.world.story.tell("invariant", f"BROKEN: {violation}")
        except OSError as error:
            self.world.story.tell("log", f"gives up: {error}")
            if work is not None:
                await work.give_up()
            await directory.close(is_clean=False)

    async def _open(self, directory: LogDirectory) -> Log:
        recovery_points = await directory.read_offsets(RECOVERY_POINTS)
        starts = await directory.read_offsets(LOG_START_OFFSETS)
        log = await Log.open(
            directory,
            PARTITION,
            self.scenario.config,
            recovery_point=recovery_points.get(PARTITION, 0),
            log_start_offset=starts.get(PARTITION, 0),
            is_clean=directory.was_clean,
        )
        self.world.story.tell(
            "log", f"opens {log.log_start_offset} to {log.log_end_offset}, {log.recovery}"
        )
        return log

    async def _check(self, log: Log) -> None:
        model = self._model
        model.check(log, power_was_lost=self._power_was_lost)
        if (
            model.flipped_from is not None
            and log.log_end_offset > model.flipped_from >= log.log_start_offset
        ):
            raise Violation(f"the damage at offset {model.flipped_from} was not found")
        lost = model.end - log.log_end_offset
        if lost:
            self.world.story.tell("log", f"lost the last {lost} offsets")
        model.flipped_from = None
        model.cut(log.log_end_offset)
        model.check_producers(log)
        self._power_was_lost = False

    @property
    def model(self) -> LogModel:
        """The truth."""
        return self._model


class _Work:
    """What one life does with its open log."""

    def __init__(
        self,
        run: StorageRun,
        host: SimHost,
        directory: LogDirectory,
        log: Log,
        source: random.Random,
    ) -> None:
        self._run = run
        self._host = host
        self._directory = directory
        self._log = log
        self._source = source
        self._epoch = run.world.node("disk-1").starts
        self._tasks: list[asyncio.Task[None]] = []

    async def run(self) -> None:
        for _ in range(self._source.randint(10, 120)):
            match self._source.choices(range(7), [60, 12, 4, 4, 3, 3, 14])[0]:
                case 0:
                    self._append()
                case 1:
                    await self._flush()
                case 2:
                    self._log.roll()
                case 3:
                    self._delete()
                case 4:
                    await self._write_checkpoints()
                case 5:
                    await self._directory.remove_due()
                case _:
                    self._read()
            await asyncio.sleep(self._source.choice([0, 0, 0.001, 0.05]))
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._run.model.check_content(self._log)
        await self._stop()

    async def give_up(self) -> None:
        """End after the directory has failed."""
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._log.close()

    def _append(self) -> None:
        model = self._run.model
        content, header = model.next_batch(
            self._host.clock.now_ms(), self._epoch, self._log.log_end_offset
        )
        model.add(content, header)
        appended = self._log.append(bytearray(content), [header], self._epoch)
        end = appended.last_offset + 1
        if appended.written is None:
            model.safe_end = max(model.safe_end, end)
        else:
            self._tasks.append(asyncio.ensure_future(self._wait_written(appended.written, end)))

    async def _wait_written(self, written: asyncio.Future[None], end: int) -> None:
        try:
            await written
        except LogDirectoryFailed:
            return
        model = self._run.model
        model.safe_end = max(model.safe_end, end)
        if self._run.scenario.config.flush_messages == 1:
            model.synced_end = max(model.synced_end, end)

    async def _flush(self) -> None:
        model, end = self._run.model, self._run.model.safe_end
        await self._log.flush()
        if end <= model.end:
            model.synced_end = max(model.synced_end, end)

    def _delete(self) -> None:
        offset = self._source.randint(self._log.log_start_offset, self._log.written_offset)
        model = self._run.model
        model.start_floor = max(model.start_floor, offset)
        self._log.delete_before(offset, self._log.written_offset)
        self._log.delete_old_segments(self._log.written_offset)

    async def _write_checkpoints(self) -> None:
        self._run.model.recovery_point = self._log.recovery_point
        await self._directory.write_offsets(RECOVERY_POINTS, {PARTITION: self._log.recovery_point})
        await self._directory.write_offsets(
            LOG_START_OFFSETS, {PARTITION: self._log.log_start_offset}
        )

    def _read(self) -> None:
        log = self._log
        if log.log_start_offset < log.written_offset:
            offset = self._source.randrange(log.log_start_offset, log.written_offset)
            try:
                read_bytes(log, offset)
            except Violation as violation:
                raise Violation(f"while reading offset {offset}: {violation}") from violation

    async def _stop(self) -> None:
        """Stop as a broker does."""
        await self._log.close()
        self._run.model.synced_end = max(self._run.model.synced_end, self._run.model.safe_end)
        await self._write_checkpoints()
        await self._directory.close(is_clean=True)
        logging.getLogger("kavka.storage").info("log was closed cleanly")
