"""Sessions of Spark that tests share, one with Spark's own Kafka connector: a session costs six seconds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kavka.spark.session import local_session
from kavka_compat.ours import run_kavka

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kavka_compat.brokers import Broker
    from support.spark.places import MakePlace, Master, Place, Sessions


_HERE = Path(__file__).parent
_TIMEOUT_S = 300
_ON_BOTH_BROKERS = {
    "test_each_reads_what_the_others_sink_wrote",
    "test_streams_have_the_rows_and_the_offsets_of_sparks_source",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Set a timeout that has room for the start of a session, which takes 100 s beside a few busy programs.

    A timeout in a call of the JVM fails all later tests of the session as well: each takes the answer to the call
    before. Leave the exactly-once sink on Apache Kafka's broker to `make long`, and of the connector on it all but a
    source and a sink.
    """
    for item in items:
        if item.path.parent == _HERE and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(_TIMEOUT_S))
        parameters = getattr(getattr(item, "callspec", None), "params", {})
        is_second = item.path.name == "test_exactly_once.py" or (
            item.path.name == "test_connector.py"
            and getattr(item, "originalname", "") not in _ON_BOTH_BROKERS
        )
        if is_second and parameters.get("any_broker") == "apache":
            item.add_marker(pytest.mark.long)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local session with two slots."""
    from support.spark.spark_connector import connector_jars

    jars = ",".join(str(path) for path in connector_jars())
    directory = tmp_path_factory.mktemp("spark")
    # Tests provoke failures of queries, which Spark logs as errors.
    session = local_session(
        "tests", directory, settings={"spark.jars": jars}, log_level="off", short_lived=True
    )
    yield session
    session.stop()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """A broker of kavka in a process of its own."""
    with run_kavka(tmp_path / "broker") as running:
        yield running


@pytest.fixture(scope="package")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sessions]:
    """Sessions in processes of their own, which the tests of this folder share and kill."""
    from support.spark.places import Sessions

    made = Sessions(tmp_path_factory.mktemp("sessions"))
    yield made
    made.stop()


@pytest.fixture
def place(tmp_path: Path, sessions: Sessions) -> Iterator[MakePlace]:
    """Make the one place of a test; settings are the brokers'."""
    from support.spark.exactly_once_job import Job
    from support.spark.killing import Watch, fill
    from support.spark.places import PARTITIONS, VALUES, Master, Place, run_brokers
    from support.spark.topic_filling import make_topic_at

    with ExitStack() as stack:

        def make(
            settings: dict[str, str] | None = None,
            *,
            master: Master | None = None,
            brokers: int = 1,
            apache: str = "",
            **job: Any,
        ) -> Place:
            running = run_brokers(tmp_path / "brokers", settings or {}, brokers, apache)
            cluster = stack.enter_context(running)
            stack.callback(sessions.end_jobs)
            for name, partitions in (("in", 2), ("out", PARTITIONS)):
                make_topic_at(cluster.bootstrap, name, partitions, brokers)
            fill(cluster.bootstrap, "in", 2, VALUES)
            watch = Watch(tmp_path / "watch")
            checkpoint = str(tmp_path / "checkpoint")
            given = Job(cluster.bootstrap, "in", "out", checkpoint, str(watch.directory), **job)
            chosen = Master.local() if master is None else master
            return Place(cluster, tmp_path, given, watch, sessions, chosen)

        yield make
