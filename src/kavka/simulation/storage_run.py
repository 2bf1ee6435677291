"""A log on a bad disk: append, flush, roll, delete, truncate, move; crash; recover; compare; again.

A life is a process: it opens the log directories as a broker does, compares what it finds with the model, and works
until it is killed, its host loses power, its disk fails, or it stops cleanly. A seed picks settings, faults and work.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from dataclasses import dataclass

from kavka.ids import TopicId, TopicPartition
from kavka.simulation.disk import DiskFaults
from kavka.simulation.environment import SimEnvironment
from kavka.simulation.invariants.invariant import Violation
from kavka.simulation.log_model import LogModel, read_bytes
from kavka.simulation.random_streams import stream
from kavka.simulation.report import Report
from kavka.simulation.world import Node, World
from kavka.storage.directory.log_directory import LogDirectory
from kavka.storage.failures import LogDirectoryFailed, OffsetBelowEnd
from kavka.storage.log.log import Appended, Log
from kavka.storage.log_config import NEVER, LogConfig
from kavka.storage.store.log_store import LogStore

PARTITION = TopicPartition("t", 0)
TOPIC_ID = TopicId(bytes(range(16)))
DIRECTORIES = ("/data", "/more")


@dataclass(frozen=True, slots=True)
class StorageScenario:
    """The scenario of a seed."""

    restarts: int
    power: bool
    """True if hosts lose power; else only processes crash."""
    flips: bool
    """True if bits flip on the medium while no process runs."""
    disk_fails: bool
    """True if writes and syncs fail now and then. Never with `power`: on Linux a sync that failed forgets what was
    dirty, so a process that starts again finds it in the page cache, syncs nothing, and loses it with the power.
    """
    follows: bool
    """True if the log is a follower's, which is truncated now and then."""
    moves: bool
    """True if the log moves between the directories. Never with `flips`: the damage might be in a copy."""
    indexes_go: bool
    """True if index files are removed while no process runs, which must cost time only."""
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
        lives = source.randint(3, 6)
        flips = source.random() < 0.15
        return cls(
            restarts=lives,
            power=power,
            flips=flips,
            disk_fails=not power and source.random() < 0.5,
            follows=source.random() < 0.5,
            moves=not flips and source.random() < 0.4,
            indexes_go=source.random() < 0.1,
            config=config,
        )


class StorageRun:
    """A run of one seed; `run` plays it."""

    def __init__(self, seed: int) -> None:
        """Build the world of `seed`."""
        self.world = World(seed)
        self.scenario = StorageScenario.of(seed)
        self._source = stream(seed, "storage work")
        self._index_source = stream(seed, "storage indexes")
        self._model = LogModel(stream(seed, "storage batches"))
        self._node: Node = self.world.node("disk-1")
        self._power_was_lost = False
        self._broken: list[str] = []

    def run(self) -> Report:
        """Live all lives. Return what was found."""
        self.world.trace.add("scenario", str(self.scenario))
        self.world.run(self._play(), limit_s=3600)
        return Report.of(self.world, self._broken)

    async def _play(self) -> None:
        for life in range(self.scenario.restarts):
            is_last = life == self.scenario.restarts - 1
            self._node.disk.faults = self._faults(is_last)
            process = self._node.start(self._run_once)
            death = asyncio.ensure_future(self._choose_crash(is_last))
            await process.ended
            death.cancel()
            if self._broken or self.world.failures:
                return
            self._between_restarts()

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

    async def _choose_crash(self, is_last: bool) -> None:
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

    def _between_restarts(self) -> None:
        if self.scenario.flips and self._source.random() < 0.5:
            self._flip()
        if self.scenario.indexes_go and self._index_source.random() < 0.5:
            self._remove_index()

    def _remove_index(self) -> None:
        """Remove one index of a segment, durably."""
        disk = self._node.disk
        indexes = [path for path in sorted(disk.names) if path.endswith((".index", ".timeindex"))]
        if not indexes:
            return
        path = self._index_source.choice(indexes)
        disk.change(path, None, None)
        disk.commit_names(path.rpartition("/")[0])
        disk.count_used()
        self.world.trace.add("nemesis", f"removes {path}")

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
                self.world.trace.add(
                    "nemesis", f"flips a bit of offset {victim.base_offset} in {path}"
                )

    # -- a life

    async def _run_once(self, environment: SimEnvironment) -> None:
        directories = [
            LogDirectory(
                environment.disk, environment.clock, environment.random, path, slow_write_ms=50
            )
            for path in DIRECTORIES
        ]
        store = LogStore(directories, lambda topic: self.scenario.config)
        work: _Work | None = None
        try:
            log = await self._open(store)
            await self._check(log)
            work = _Work(self, environment, store, log, self._source)
            await work.run()
        except Violation as violation:
            self._broken.append(str(violation))
            self.world.trace.add("invariant", f"BROKEN: {violation}")
        except OSError as error:
            self.world.trace.add("log", f"gives up: {error}")
            if work is not None:
                await work.give_up()
            for directory in directories:
                await directory.close(is_clean=False)

    async def _open(self, store: LogStore) -> Log:
        await store.open()
        for directory in store.directories:
            directory.check()
        for unreadable in store.unreadable.values():
            raise Violation(f"the log cannot be opened: {unreadable}")
        log = store.get(PARTITION) or await store.create(PARTITION, TOPIC_ID, self.scenario.config)
        self.world.trace.add(
            "log",
            f"opens {log.log_start_offset} to {log.log_end_offset} in {log.path}, {log.recovery}",
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
            self.world.trace.add("log", f"lost the last {lost} offsets")
        model.flipped_from = None
        model.cut(log.log_end_offset)
        model.check_producers(log)
        model.check_epochs(log)
        self._power_was_lost = False

    @property
    def model(self) -> LogModel:
        """The truth."""
        return self._model


class _Work:
    """The work of one process with its open log."""

    def __init__(
        self,
        run: StorageRun,
        environment: SimEnvironment,
        store: LogStore,
        log: Log,
        source: random.Random,
    ) -> None:
        self._run = run
        self._environment = environment
        self._store = store
        self._log = log
        self._source = source
        self._epoch = run.world.node("disk-1").starts
        self._tasks: list[asyncio.Task[None]] = []

    async def run(self) -> None:
        for _ in range(self._source.randint(10, 120)):
            match self._source.choices(range(8), [60, 12, 4, 4, 3, 3, 14, 5])[0]:
                case 0 if self._run.scenario.follows:
                    self._append_fetched()
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
                    await self._remove_due()
                case 6:
                    self._read()
                case _:
                    await self._truncate_or_move()
            await asyncio.sleep(self._source.choice([0, 0, 0.001, 0.05]))
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._run.model.check_content(self._log)
        self._run.model.check_epochs(self._log)
        await self._stop()

    async def give_up(self) -> None:
        """End after the directory has failed."""
        if self._tasks:
            await asyncio.wait(self._tasks)
        for log in (self._log, self._store.future(PARTITION)):
            if log is not None:
                with contextlib.suppress(LogDirectoryFailed):  # its directory may fail only now
                    await log.close()

    def _append(self) -> None:
        model = self._run.model
        content, header = model.next_batch(
            self._environment.clock.now_ms(), self._epoch, self._log.log_end_offset
        )
        model.add(content, header)
        self._note(self._log.append(bytearray(content), [header], self._epoch))

    def _append_fetched(self) -> None:
        """Append what a leader might send: some batches and a part of another one."""
        model, offset, fetched = self._run.model, self._log.log_end_offset, bytearray()
        for _ in range(self._source.randint(1, 4)):
            content, header = model.next_batch(
                self._environment.clock.now_ms(), self._epoch, offset
            )
            model.add(content, header)
            fetched += content
            offset = model.end
        appended = self._log.append_fetched(fetched + fetched[: self._source.randrange(61)])
        assert appended is not None
        self._note(appended)

    def _note(self, appended: Appended) -> None:
        model, end = self._run.model, appended.last_offset + 1
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

    async def _truncate_or_move(self) -> None:
        scenario = self._run.scenario
        if self._tasks:
            await asyncio.wait(self._tasks)
        if scenario.moves and (not scenario.follows or self._source.random() < 0.3):
            await self._move()
        elif scenario.follows and self._source.random() < 0.1:
            await self._restart()
        elif scenario.follows:
            await self._truncate()

    async def _truncate(self) -> None:
        log, model = self._log, self._run.model
        offset = self._source.randint(log.log_start_offset, log.log_end_offset)
        end = model.cutting(offset)
        await log.truncate_to(offset)
        if log.log_end_offset != end:
            raise Violation(f"cut to {offset}, the log ends at {log.log_end_offset}, not at {end}")
        model.cut(end)
        self._check_facts()

    async def _restart(self) -> None:
        model = self._run.model
        model.restart_at = offset = self._source.randint(0, 2 * self._log.log_end_offset)
        model.synced_end = model.safe_end = 0
        await self._log.truncate_fully_and_start_at(offset)
        model.restarted(offset)
        self._check_facts()

    async def _move(self) -> None:
        """Move to the other directory, or continue with a move, or give it up."""
        (path,) = (path for path in DIRECTORIES if path != self._log.directory.path)
        future = await self._store.create_future(PARTITION, path)
        while future.log_end_offset < self._log.log_end_offset:
            offset = max(future.log_end_offset, self._log.log_start_offset)
            await self._copy(future, offset)
            if self._source.random() < 0.03:
                await self._store.abandon_future(PARTITION)
                return
        end = self._run.model.safe_end
        self._log = await self._store.swap_future(PARTITION)
        self._run.model.synced_end = end
        self._check_facts()

    async def _copy(self, future: Log, offset: int) -> None:
        content = read_bytes(self._log, offset)
        try:
            appended = future.append_fetched(content)
        except OffsetBelowEnd as refused:
            if not refused.may_restart:
                raise Violation(f"the copy does not follow the log: {refused}") from refused
            await future.truncate_fully_and_start_at(refused.base_offset)
            appended = future.append_fetched(content)
        if appended is not None and appended.written is not None:
            await appended.written

    def _check_facts(self) -> None:
        self._run.model.check_producers(self._log)
        self._run.model.check_epochs(self._log)

    async def _write_checkpoints(self) -> None:
        self._run.model.recovery_point = self._log.recovery_point
        await self._store.write_checkpoints()
        self._check_online()

    async def _remove_due(self) -> None:
        await self._store.remove_due()
        await self._store.write_lagging_indexes()
        self._check_online()

    def _check_online(self) -> None:
        for directory in self._store.directories:
            directory.check()

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
        self._run.model.recovery_point = self._log.log_end_offset
        await self._store.close({})
        self._check_online()
        self._run.model.synced_end = max(self._run.model.synced_end, self._run.model.safe_end)
        logging.getLogger("kavka.storage").info("log was closed cleanly")
