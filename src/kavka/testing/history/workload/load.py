"""The whole workload: its threads from the first record to the final scan."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from threading import Event, Thread
from typing import IO, Protocol, Self

from kavka.ids import TopicPartition
from kavka.testing.history.check import Verdict, check
from kavka.testing.history.lines import write_header
from kavka.testing.history.promises import Promises
from kavka.testing.history.recorder import Recorder
from kavka.testing.history.workload.client import ClientFailed, WorkloadClient
from kavka.testing.history.workload.confluent import Confluent
from kavka.testing.history.workload.consumers import AssigningReader, GroupMemberWorker, scan
from kavka.testing.history.workload.kafka_python import KafkaPython
from kavka.testing.history.workload.kavka_client import KavkaClient
from kavka.testing.history.workload.producers import ProducerWorker, TransactionalWorker
from kavka.testing.history.workload.settings import Settings

CLIENTS: dict[str, Callable[[str, float, Mapping[str, str]], WorkloadClient]] = {
    "kavka": KavkaClient,
    "confluent": Confluent,
    "kafka-python": KafkaPython,
}
"""Libraries by name: made of the bootstrap servers, a timeout in seconds, and `Settings.config`."""

_CLOSE_SECONDS = 120.0
"""Seconds beyond those for a record in which clients send all, end a transaction and close."""


class _Worker(Protocol):
    def run(self, stop: Event) -> None: ...


class Load:
    """A running workload: enter it to start, do to the brokers what is to be done, then `finish`."""

    def __init__(
        self,
        settings: Settings,
        sink: IO[str] | None = None,
        client: WorkloadClient | None = None,
    ) -> None:
        """Create the topic. Events also go to `sink`. Raise ClientFailed, ModuleNotFoundError.

        `client` makes the clients in place of the library that the settings name.
        """
        self.settings = settings
        self.promises = Promises()
        if sink is not None:
            write_header(sink, self.promises.as_fields())
        self.recorder = Recorder(sink=sink)
        self.acknowledged = 0
        self._client = client or CLIENTS[settings.client](
            settings.bootstrap, settings.timeout_seconds, settings.config
        )
        self._partitions = [TopicPartition(settings.topic, n) for n in range(settings.partitions)]
        self._failures: list[BaseException] = []
        self._lock = threading.Lock()
        self._is_stopped = False
        self._producers_stop, self._consumers_stop = Event(), Event()
        self._create_topic()
        self._producers = [
            self._thread(name, worker, self._producers_stop) for name, worker in self._writers()
        ]
        self._consumers = [
            self._thread(name, worker, self._consumers_stop) for name, worker in self._readers()
        ]

    def __enter__(self) -> Self:
        """Start."""
        for thread in self._consumers + self._producers:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Stop all threads; `finish` has done so if all went well. Raise ClientFailed when one does not end."""
        self._stop()

    def wait_for(self, acknowledged: int, seconds: float = 60) -> None:
        """Wait until so many more records are acknowledged. Raise TimeoutError, and what ended a thread."""
        goal, deadline = self.acknowledged + acknowledged, time.monotonic() + seconds
        while self.acknowledged < goal:
            self._raise_failure()
            if time.monotonic() > deadline:
                raise TimeoutError(f"fewer than {acknowledged} records acknowledged in {seconds} s")
            time.sleep(0.01)

    def finish(self) -> Verdict:
        """Stop writing and reading, read all that is left, and judge. The brokers must be well by now."""
        self._stop()
        self._raise_failure()
        scan(self._client, self.recorder, self._partitions, self.settings.timeout_seconds)
        return check(self.recorder.events, self.promises)

    def _stop(self) -> None:
        """Stop producers, then consumers, once. Raise ClientFailed for those whose library does not return."""
        if self._is_stopped:
            return
        self._is_stopped = True
        seconds = self.settings.timeout_seconds + _CLOSE_SECONDS
        deadline = time.monotonic() + seconds
        for stop, threads in (
            (self._producers_stop, self._producers),
            (self._consumers_stop, self._consumers),
        ):
            stop.set()
            started = [thread for thread in threads if thread.ident is not None]
            for thread in started:
                thread.join(max(deadline - time.monotonic(), 0))
            hanging = ", ".join(thread.name for thread in started if thread.is_alive())
            if hanging:
                library = self.settings.client
                raise ClientFailed(f"{library} does not return in {seconds:g} s: {hanging}")

    def _raise_failure(self) -> None:
        if self._failures:
            raise self._failures[0]

    def _create_topic(self) -> None:
        configs = {}
        if self.settings.min_insync_replicas is not None:
            configs["min.insync.replicas"] = str(self.settings.min_insync_replicas)
        settings = self.settings
        self._client.create_topic(
            settings.topic, settings.partitions, settings.replication_factor, configs
        )
        self._wait_for_leaders()

    def _wait_for_leaders(self) -> None:
        """Return when each partition's leader has answered a reader. Raise ClientFailed.

        Clients may learn of a leader before it knows that it leads. When it then refuses an idempotent producer's
        first batch and takes the second, which is in progress already, it believes that the sequence begins there: the
        first is refused as out of order when it comes again, and librdkafka reports it as delivered. Apache Kafka's
        brokers allow that (seen with 3.9), so a load begins when it cannot happen.
        """
        scan(self._client, Recorder(), self._partitions, self.settings.timeout_seconds)

    def _writers(self) -> list[tuple[str, _Worker]]:
        own = self.settings
        names = [(f"producer-{n}", ProducerWorker) for n in range(own.producers)]
        names += [(f"transactor-{n}", TransactionalWorker) for n in range(own.transactional)]
        return [
            (name, kind(name, self._client, self.recorder, self._partitions, own.rate, f"{own.seed} {name}",
                        self._count))
            for name, kind in names
        ]  # fmt: skip

    def _readers(self) -> list[tuple[str, _Worker]]:
        settings = self.settings
        workers: list[tuple[str, _Worker]] = []
        for number in range(settings.readers):
            name = f"reader-{number}"
            reading = AssigningReader(
                name, self._client, self.recorder, self._partitions, f"{settings.seed} {name}"
            )
            workers.append((name, reading))
        for number in range(settings.members):
            name = f"member-{number}"
            joining = GroupMemberWorker(
                name, self._client, self.recorder, settings.topic, f"{settings.seed} {name}"
            )
            workers.append((name, joining))
        return workers

    def _thread(self, name: str, worker: _Worker, stop: Event) -> Thread:
        def work() -> None:
            try:
                worker.run(stop)
            except BaseException as error:  # noqa: BLE001  any error fails the run
                self._failures.append(error)

        return Thread(target=work, name=name, daemon=True)

    def _count(self) -> None:
        with self._lock:
            self.acknowledged += 1


def run(
    settings: Settings,
    disturb: Callable[[Load], None] | None = None,
    sink: IO[str] | None = None,
) -> Verdict:
    """Run a workload for its seconds, `disturb` the brokers meanwhile, read everything, and judge.

    When `disturb` takes longer than the workload's seconds, the load continues until it returns. Raise ClientFailed
    when the cluster is not healthy in the end, and any error that ended a thread.
    """
    with Load(settings, sink) as load:
        end = time.monotonic() + settings.seconds
        if disturb is not None:
            disturb(load)
        while time.monotonic() < end:
            with suppress(TimeoutError):
                load.wait_for(1 << 62, min(1.0, max(end - time.monotonic(), 0.0)))
        return load.finish()
