"""Environment of the failure table: brokers that can be killed, a source, a target, and Spark jobs between them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

from kavka.client.blocking import Admin
from kavka.spark.session import SHORT_LIVED_JVM
from kavka_compat.apache import SMALL, ApacheKafka
from kavka_compat.brokers import Broker
from kavka_compat.killable import run_killable
from support.spark.exactly_once_job import Job
from support.spark.killing import RunningJob, SparkProcess, Watch, assert_each_once, committed
from support.waiting import wait_until

PARTITIONS = 3
VALUES = [str(number) for number in range(1200)]
TWO_PHASE = {"transaction.two.phase.commit.enable": "true"}
_SETTINGS = {
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}
_EXECUTORS = {
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.executor.extraJavaOptions": SHORT_LIVED_JVM,
}
_SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.minTaskRuntime": "2s",
}


@dataclass(frozen=True)
class Master:
    """The place where a session runs its tasks."""

    url: str
    settings: Mapping[str, str]

    @classmethod
    def local(cls, attempts: int = 1) -> Master:
        """In the driver, two at a time."""
        return cls(f"local[2,{attempts}]", {})

    @classmethod
    def local_cluster(cls) -> Master:
        """In two executors that the driver starts."""
        return cls("local-cluster[2,1,1024]", _EXECUTORS)

    @classmethod
    def standalone(cls, url: str, speculation: bool = False) -> Master:
        """In two executors of a cluster."""
        return cls(
            url, _EXECUTORS | {"spark.cores.max": "2"} | (_SPECULATION if speculation else {})
        )


class Sessions:
    """The sessions of a run of tests: one is used again unless it was killed or runs a job."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._count = 0
        self._free: dict[str, list[SparkProcess]] = {}
        self.jobs: list[RunningJob] = []

    def start(self, master: Master, job: Job) -> RunningJob:
        """Start a job in a session that is free."""
        key = master.url + json.dumps(dict(master.settings))
        free = self._free.setdefault(key, [])
        busy = [running.spark for running in self.jobs if not running.is_over()]
        spark = next((one for one in free if one.is_alive() and one not in busy), None)
        if spark is None:
            self._count += 1
            directory = self._directory / f"session-{self._count}"
            spark = SparkProcess(directory, master.url, master.settings)
            free.append(spark)
        self.jobs.append(RunningJob(spark, job))
        return self.jobs[-1]

    def end_at(self, url: str) -> None:
        """Kill the sessions on a cluster: one that is idle keeps its executors, and others find no room."""
        for key in [key for key in self._free if key.startswith(url)]:
            for each in self._free.pop(key):
                if each.is_alive():
                    each.kill()

    def end_jobs(self) -> None:
        """Kill what still runs a job."""
        for running in self.jobs:
            if not running.is_over():
                running.kill()
        self.jobs.clear()

    def stop(self) -> None:
        """Kill all."""
        for each in chain(*self._free.values()):
            if each.is_alive():
                each.kill()


class Brokers(Protocol):
    """Brokers that are killed and come back: ours, or Apache Kafka's."""

    @property
    def bootstrap(self) -> str:
        """All of them."""

    def kill(self, number: int) -> None:
        """End one with SIGKILL."""

    def start(self, *numbers: int) -> None:
        """Start it again, and return when it is ready."""


class ApacheBroker:
    """One broker of Apache Kafka, with a controller of its own."""

    def __init__(self, release: str, directory: Path, settings: Mapping[str, str]) -> None:
        self._kafka = ApacheKafka(release)
        self._directory = directory
        self._port = self._kafka.format_kraft(directory, settings)
        self._broker: Broker | None = None

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self._port}"

    def kill(self, number: int) -> None:
        assert number == 0
        assert self._broker is not None
        self._broker.process.kill()

    def start(self, *numbers: int) -> None:
        self._broker = self._kafka.start_formatted(self._directory, self._port, SMALL)
        self._broker.process.wait_for("Kafka Server started (", 60)


@contextmanager
def _run_apache(release: str, directory: Path, settings: Mapping[str, str]) -> Iterator[Brokers]:
    broker = ApacheBroker(release, directory, settings)
    broker.start()
    try:
        yield broker
    finally:
        broker.kill(0)


def run_brokers(
    directory: Path, settings: Mapping[str, str], brokers: int, apache: str
) -> AbstractContextManager[Brokers]:
    """Run brokers of ours, or one of Apache Kafka's of the release `apache`."""
    directory.mkdir()
    chosen = {**_SETTINGS, **settings}
    if apache:
        return _run_apache(apache, directory, chosen)
    return run_killable(directory, brokers, chosen)


@dataclass
class Place:
    """Brokers with a source of VALUES, a target, and a job between them: three batches of two tasks."""

    cluster: Brokers
    directory: Path
    job: Job
    watch: Watch
    sessions: Sessions
    master: Master

    def start(self, **changes: Any) -> RunningJob:
        """Start the job, changed."""
        return self.sessions.start(self.master, replace(self.job, **changes))

    def run(self, **changes: Any) -> None:
        """Run the job to its good end."""
        running = self.start(**changes)
        assert running.finish() == 0, running.text()

    def found(self) -> list[tuple[bytes, bytes]]:
        """Return what may be read."""
        return committed(self.cluster.bootstrap, self.job.target, PARTITIONS)

    def assert_exact(self) -> None:
        """Insist on each record once."""
        assert_each_once(self.found(), VALUES)

    def open_transactions(self) -> list[str]:
        """Return the transactional ids with an open transaction."""
        with Admin({"bootstrap.servers": self.cluster.bootstrap}) as admin:
            found = admin.list_transactions(states=["Ongoing"])
        return [one.transactional_id for listings in found.values() for one in listings]

    def wait_until_aborted(self, most: int = 0) -> None:
        """Wait until the broker has aborted transactions by their timeouts."""
        wait_until(lambda: len(self.open_transactions()) <= most, 120, "transactions are aborted")

    def kill_between_two_ends(self, **changes: Any) -> None:
        """Kill the driver when the second batch is decided, one of its two parts committed and the other not."""
        self.watch.hold("ending-1", 2)
        job = self.start(**changes)
        job.wait_for("ending-1", 2)
        job.wait_for("ended-0", 2)
        job.kill()
        assert len(self.open_transactions()) == 1


MakePlace = Callable[..., Place]
