"""Many seeds, in several processes: what failed, and which marks were hit."""

from __future__ import annotations

import multiprocessing
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from enum import Enum
from functools import partial

from kavka.simulation.brokers.run import ClusterRun
from kavka.simulation.marks import (
    BROKER_MARKS,
    CLUSTER_MARKS,
    STORAGE_MARKS,
    Mark,
    hits,
)
from kavka.simulation.report import Report
from kavka.simulation.run import BrokerRun
from kavka.simulation.storage_run import StorageRun


class Kind(Enum):
    """The kind of a seed's run."""

    BROKER = "one broker"
    CLUSTER = "a cluster"
    STORAGE = "one log on a bad disk"

    @property
    def marks(self) -> tuple[Mark, ...]:
        """Return the coverage marks that many seeds of this kind must hit."""
        match self:
            case Kind.BROKER:
                return BROKER_MARKS
            case Kind.CLUSTER:
                return CLUSTER_MARKS
            case Kind.STORAGE:
                return STORAGE_MARKS


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one seed, for statistics over many."""

    seed: int
    virtual_s: float
    cpu_s: float
    """CPU seconds, in a process that has run other seeds before."""
    marks: tuple[str, ...]
    failed: str = ""
    """The summary of a run that did not pass."""


@dataclass(slots=True)
class Batch:
    """The outcome of many seeds."""

    seeds: int = 0
    virtual_s: float = 0.0
    cpu_s: float = 0.0
    failed: dict[int, str] = field(default_factory=dict)
    """The summaries of the runs that did not pass."""
    marks: set[str] = field(default_factory=set)
    met: Counter[str] = field(default_factory=Counter)
    """The number of seeds that met each mark."""

    def add(self, outcome: Outcome) -> None:
        """Take the outcome of another seed."""
        self.seeds += 1
        self.virtual_s += outcome.virtual_s
        self.cpu_s += outcome.cpu_s
        self.marks.update(outcome.marks)
        self.met.update(outcome.marks)
        if outcome.failed:
            self.failed[outcome.seed] = outcome.failed


def play(seed: int, kind: Kind = Kind.BROKER, brokers: int | None = None) -> Report:
    """Run one seed; `brokers` overrules its choice of a cluster's size."""
    match kind:
        case Kind.BROKER:
            return BrokerRun(seed).run()
        case Kind.CLUSTER:
            return ClusterRun(seed, brokers=brokers).run()
        case Kind.STORAGE:
            return StorageRun(seed).run()


def outcome_of(seed: int, kind: Kind, brokers: int | None = None) -> Outcome:
    """Run one seed and sum it up."""
    started_s = time.process_time()
    report = play(seed, kind, brokers)
    cpu_s = time.process_time() - started_s
    marks = tuple(sorted(hits(kind.marks, report.trace.lines)))
    failed = "" if report.passed else report.summary()
    return Outcome(seed, report.virtual_s, cpu_s, marks, failed)


def run_batches(
    seeds: Sequence[int],
    kind: Kind = Kind.BROKER,
    *,
    brokers: int | None = None,
    processes: int = 2,
    done: Callable[[Outcome], None] = lambda outcome: None,
) -> Batch:
    """Run the seeds in several processes, which changes nothing but the time it takes.

    `done` is called with each, in the order of `seeds`; an exception of it ends the run.
    """
    total = Batch()
    for outcome in _outcomes(seeds, kind, brokers, processes):
        total.add(outcome)
        done(outcome)
    return total


def _outcomes(
    seeds: Sequence[int], kind: Kind, brokers: int | None, processes: int
) -> Iterator[Outcome]:
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(processes, mp_context=context)
    try:
        yield from pool.map(partial(outcome_of, kind=kind, brokers=brokers), seeds)
    finally:
        pool.shutdown(cancel_futures=True)
