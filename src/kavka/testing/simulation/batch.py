"""Many seeds, in several processes: what failed, and which marks were hit."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

from kavka.testing.simulation.marks import BROKER_MARKS, STORAGE_MARKS, hits
from kavka.testing.simulation.report import Report
from kavka.testing.simulation.run import BrokerRun
from kavka.testing.simulation.storage_run import StorageRun

_SLICE = 10


@dataclass(slots=True)
class Batch:
    """The outcome of many seeds."""

    seeds: int = 0
    virtual_s: float = 0.0
    failed: dict[int, str] = field(default_factory=dict)
    """The summaries of the runs that did not pass."""
    marks: set[str] = field(default_factory=set)

    def add(self, other: Batch) -> None:
        """Take the outcome of other seeds."""
        self.seeds += other.seeds
        self.virtual_s += other.virtual_s
        self.failed |= other.failed
        self.marks |= other.marks


def play(seed: int, *, storage: bool = False) -> Report:
    """Run one seed: of the whole broker, or of one log on a bad disk."""
    return StorageRun(seed).run() if storage else BrokerRun(seed).run()


def run_batch(seeds: Sequence[int], storage: bool) -> Batch:
    """Run the seeds one after the other."""
    batch = Batch()
    for seed in seeds:
        report = play(seed, storage=storage)
        batch.seeds += 1
        batch.virtual_s += report.virtual_s
        marks = STORAGE_MARKS if storage else BROKER_MARKS
        batch.marks |= hits(marks, report.story.lines)
        if not report.passed:
            batch.failed[seed] = report.summary()
    return batch


def run_batches(seeds: Sequence[int], *, storage: bool = False, processes: int = 2) -> Batch:
    """Run the seeds in several processes, which changes nothing but the time it takes."""
    total = Batch()
    for batch in _batches(seeds, storage, processes):
        total.add(batch)
    return total


def _batches(seeds: Sequence[int], storage: bool, processes: int) -> Iterable[Batch]:
    slices = [seeds[start : start + _SLICE] for start in range(0, len(seeds), _SLICE)]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context) as pool:
        yield from pool.map(run_batch, slices, [storage] * len(slices))
