"""Many seeds, in several processes: what failed, and which marks were hit."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from enum import Enum
from functools import partial

from kavka.testing.simulation.brokers.run import ClusterRun
from kavka.testing.simulation.marks import (
    BROKER_MARKS,
    CLUSTER_MARKS,
    STORAGE_MARKS,
    Mark,
    hits,
)
from kavka.testing.simulation.report import Report
from kavka.testing.simulation.run import BrokerRun
from kavka.testing.simulation.storage_run import StorageRun

_SLICE = 10


class Kind(Enum):
    """What a seed plays."""

    BROKER = "one broker"
    CLUSTER = "a cluster"
    STORAGE = "one log on a bad disk"

    @property
    def marks(self) -> tuple[Mark, ...]:
        """What many seeds of this kind must meet."""
        match self:
            case Kind.BROKER:
                return BROKER_MARKS
            case Kind.CLUSTER:
                return CLUSTER_MARKS
            case Kind.STORAGE:
                return STORAGE_MARKS


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


def play(seed: int, kind: Kind = Kind.BROKER, brokers: int | None = None) -> Report:
    """Run one seed; `brokers` overrules its choice of a cluster's size."""
    match kind:
        case Kind.BROKER:
            return BrokerRun(seed).run()
        case Kind.CLUSTER:
            return ClusterRun(seed, brokers=brokers).run()
        case Kind.STORAGE:
            return StorageRun(seed).run()


def run_batch(seeds: Sequence[int], kind: Kind, brokers: int | None = None) -> Batch:
    """Run the seeds one after the other."""
    batch = Batch()
    for seed in seeds:
        report = play(seed, kind, brokers)
        batch.seeds += 1
        batch.virtual_s += report.virtual_s
        batch.marks |= hits(kind.marks, report.story.lines)
        if not report.passed:
            batch.failed[seed] = report.summary()
    return batch


def run_batches(
    seeds: Sequence[int],
    kind: Kind = Kind.BROKER,
    *,
    brokers: int | None = None,
    processes: int = 2,
    progress: Callable[[Batch], None] = lambda batch: None,
) -> Batch:
    """Run the seeds in several processes, which changes nothing but the time it takes.

    `progress` is told the sum so far, every ten seeds.
    """
    total = Batch()
    for batch in _batches(seeds, kind, brokers, processes):
        total.add(batch)
        progress(total)
    return total


def _batches(
    seeds: Sequence[int], kind: Kind, brokers: int | None, processes: int
) -> Iterable[Batch]:
    slices = [seeds[start : start + _SLICE] for start in range(0, len(seeds), _SLICE)]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context) as pool:
        yield from pool.map(partial(run_batch, kind=kind, brokers=brokers), slices)
