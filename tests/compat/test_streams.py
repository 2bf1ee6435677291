"""Kafka Streams with `exactly_once_v2` on our brokers: counts stay exact whatever is killed while it runs."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kavka.client.blocking import Admin
from kavka_compat.killable import KillableCluster, run_killable
from kavka_compat.word_count import Application, Books

pytestmark = [pytest.mark.compat, pytest.mark.timeout(300)]

_WORDS = 1200
"""Number of words that are counted between two faults: twice those in progress."""
_SETTINGS = {
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
}


class Stage:
    """A cluster, an application on it, and the books about it."""

    def __init__(
        self, directory: Path, cluster: KillableCluster, brokers: int, release: str
    ) -> None:
        self._directory = directory
        self.cluster = cluster
        self.replication_factor = min(3, brokers)
        self.name = "wc"
        self._release = release
        self.books = Books(cluster.bootstrap, self.name, self.replication_factor, seed=5)
        self.application = self.instance("first")

    def instance(self, name: str) -> Application:
        """Start an instance of the application."""
        directory = self._directory / name
        started = Application(self._release, directory, self.cluster.bootstrap, self.name)
        started.start(self.replication_factor)
        return started

    def kill_application(self) -> None:
        """Kill the application, and start it again."""
        self.application.process.kill()
        self.application.start(self.replication_factor)

    def kill_broker(self, number: int) -> None:
        """Kill a broker, have some words counted without it, and start it again."""
        self.cluster.kill(number)
        if self.replication_factor > 1:
            self.books.count_more(_WORDS)
        self.cluster.start(number)

    def kill_coordinator_of_transactions(self) -> None:
        """Kill the broker that decides about one of the application's transactions."""
        with Admin({"bootstrap.servers": self.cluster.bootstrap}) as admin:
            listed = [
                one.transactional_id for some in admin.list_transactions().values() for one in some
            ]
        (first, *_) = sorted(one for one in listed if one.startswith(self.name))
        self.kill_broker(self.cluster.coordinator_of_transactions(first))

    def kill_coordinator_of_group(self) -> None:
        """Kill the broker that has the application's group and offsets."""
        self.kill_broker(self.cluster.coordinator_of_group(self.name))

    def go_on(self) -> None:
        """Have more words counted."""
        self.books.count_more(_WORDS)

    def end(self) -> None:
        """Let everything be counted, stop the application, and check the books."""
        self.books.finish()
        self.application.stop()
        self.books.assert_exact()


@contextmanager
def _stage(directory: Path, brokers: int, release: str) -> Iterator[Stage]:
    replicas = str(min(3, brokers))
    settings = {
        **_SETTINGS,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": "2" if brokers > 1 else "1",
        "min.insync.replicas": "2" if brokers > 1 else "1",
    }
    with run_killable(directory, brokers, settings) as cluster:
        stage = Stage(directory, cluster, brokers, release)
        try:
            stage.go_on()
            yield stage
        finally:
            if stage.application.process.alive():
                stage.application.process.kill()
            stage.books.close()


_RELEASES = ["4.1", pytest.param("3.9", marks=pytest.mark.long)]


@pytest.mark.parametrize("release", _RELEASES)
def test_counts_are_exact_when_application_and_coordinator_are_killed(
    release: str, tmp_path: Path
) -> None:
    with _stage(tmp_path, 3, release) as stage:
        stage.kill_application()
        stage.go_on()
        stage.kill_coordinator_of_transactions()
        stage.go_on()
        stage.end()


@pytest.mark.long
@pytest.mark.parametrize("release", ["3.9", "4.1"])
def test_counts_are_exact_when_the_only_broker_is_killed(release: str, tmp_path: Path) -> None:
    with _stage(tmp_path, 1, release) as stage:
        stage.kill_broker(0)
        stage.go_on()
        stage.end()


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("release", ["3.9", "4.1"])
def test_counts_are_exact_whatever_is_killed_again_and_again(release: str, tmp_path: Path) -> None:
    with _stage(tmp_path, 3, release) as stage:
        for turn in range(4):
            stage.kill_application()
            stage.go_on()
            stage.kill_coordinator_of_transactions()
            stage.kill_application()  # while the former life's transaction is with a new coordinator
            stage.go_on()
            stage.kill_coordinator_of_group()
            stage.go_on()
            stage.kill_broker(turn % 3)
            stage.go_on()
        stage.end()


@pytest.mark.long
@pytest.mark.parametrize("release", ["3.9", "4.1"])
def test_an_instance_that_was_paused_is_fenced_by_the_one_that_took_over(
    release: str, tmp_path: Path
) -> None:
    with _stage(tmp_path, 3, release) as stage:
        second = stage.instance("second")
        try:
            for paused in (stage.application, second, stage.application):
                stage.go_on()
                paused.process.signal(signal.SIGSTOP)
                try:
                    stage.go_on()  # the other has all partitions after the session's timeout
                finally:
                    paused.process.signal(signal.SIGCONT)
            stage.go_on()
            stage.books.finish()
            second.stop()
        finally:
            if second.process.alive():
                second.process.kill()
        stage.end()
