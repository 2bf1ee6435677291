"""`transaction.version` among others: Java's clients by either version, and brokers that know none."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kavka.client import FatalError, TransactionDescription
from kavka.client.admin import FeatureUpdate, NewTopic, UpgradeType
from kavka.client.blocking import Admin, Producer
from kavka.core.features import TRANSACTION_VERSION
from kavka.errors import ErrorCode
from kavka_compat.apache import SMALL, ApacheKafka
from kavka_compat.artifacts import cache_directory, jars, java
from kavka_compat.asking import until
from kavka_compat.clusters import run_kavka_cluster
from kavka_compat.mixed import Kind, MixedCluster, run_mixed
from kavka_compat.ours import run_kavka
from kavka_compat.word_count import compile_java

pytestmark = [pytest.mark.compat, pytest.mark.timeout(300)]

_SOURCE = Path(__file__).parent / "streams" / "Transactions.java"
_END_FIRST = Path(__file__).parent / "streams" / "EndBeforeProduce.java"
_LONE = {
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "2",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "2",
}
_QUICK = [f"q{number}" for number in range(30) if number % 3]
_VALUES = ["a", "c", *_QUICK, "d"]
_UP = {TRANSACTION_VERSION: FeatureUpdate(2)}
_DOWN = {TRANSACTION_VERSION: FeatureUpdate(0, UpgradeType.SAFE_DOWNGRADE)}


@contextmanager
def _brokers(kind: str, path: Path) -> Iterator[tuple[str, int]]:
    """Run brokers; give their address, and how many there are."""
    if kind == "apache-4.1":
        with ApacheKafka("4.1").run_broker(path, settings=_LONE) as broker:
            yield broker.bootstrap, 1
    elif kind == "three-at-2":
        settings = {"kavka.transaction.version": "2", "transaction.state.log.num.partitions": "2"}
        with run_kavka_cluster(path, settings=settings) as cluster:
            yield cluster.bootstrap, 3
    else:
        version = {"kavka.transaction.version": "0"} if kind == "lone-at-0" else {}
        with run_kavka(path, settings={**_LONE, **version}) as broker:
            yield broker.bootstrap, 1


@pytest.mark.parametrize("release", ["3.9", "4.1"])
@pytest.mark.parametrize(
    "kind",
    [
        "lone",
        pytest.param("lone-at-0", marks=pytest.mark.long),
        "three-at-2",
        pytest.param("apache-4.1", marks=pytest.mark.long),
    ],
)
def test_javas_producer_works_by_the_version_that_the_cluster_has(
    kind: str, release: str, tmp_path: Path
) -> None:
    with _brokers(kind, tmp_path) as (bootstrap, count):
        said = _java(release, bootstrap, f"t-{release}", count)
    # 3.9's client knows no version 2; 4.1's gets an epoch by each end.
    raises = release == "4.1" and kind != "lone-at-0"
    assert said == [
        f"after three: CompleteCommit epoch {3 if raises else 0}",
        f"after quick ones: CompleteCommit epoch {33 if raises else 0}",
        "fenced: yes",
        "read: {" + ", ".join(f"{at}=[{', '.join(_VALUES)}]" for at in range(3)) + "}",
        f"group: {ord('d')}",
        "done",
    ]


@pytest.mark.parametrize(
    ("kind", "release", "said"),
    [
        ("lone", "4.1", "INVALID_TXN_STATE"),
        pytest.param("apache-4.1", "4.1", "INVALID_TXN_STATE", marks=pytest.mark.long),
        pytest.param("lone-at-0", "4.1", "committed", marks=pytest.mark.long),
        ("lone", "3.9", "committed"),
    ],
)
def test_javas_client_of_version_2_may_end_a_transaction_before_it_has_sent_its_record(
    kind: str, release: str, said: str, tmp_path: Path
) -> None:
    """Its network thread looks for records first and for the end second; what comes in between is passed over.

    Below version 2 the partition is announced, which goes before the end. So it is at Apache Kafka, too.
    """
    with _brokers(kind, tmp_path) as (bootstrap, _count):
        with Admin({"bootstrap.servers": bootstrap}) as admin:
            assert admin.create_topics([NewTopic("t", 1, 1)]) is not None
        program = "org.apache.kafka.clients.producer.internals.EndBeforeProduce"
        assert _run(release, _END_FIRST, program, bootstrap, "t") == [said]


def _java(release: str, bootstrap: str, name: str, replicas: int) -> list[str]:
    return _run(release, _SOURCE, "Transactions", bootstrap, name, str(replicas))


def _run(release: str, source: Path, program: str, *arguments: str) -> list[str]:
    """Run a program, and return what it says."""
    libraries = f"streams-{release}"
    digest = hashlib.sha256(source.read_bytes()).hexdigest()[:16]
    classes = cache_directory(libraries) / f"{source.stem.lower()}-{digest}"
    if not classes.exists():
        compile_java(libraries, classes, source)
    path = ":".join([str(classes), *map(str, jars(libraries))])
    command = [java(), *SMALL, "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", path]
    done = subprocess.run(
        [*command, program, *arguments],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("release", "two_phase"),
    [("3.9", False), ("4.1", False), ("4.1", True)],  # 3.9 knows no two-phase commit
    ids=["3.9", "4.1", "4.1-two-phase"],
)
def test_our_client_prepares_and_ends_elsewhere_on_apache_kafka(
    release: str, two_phase: bool, tmp_path: Path
) -> None:
    # In 4.1 InitProducerId 6 is there for clients that ask for unstable versions; it keeps no transaction.
    allowed = {
        "unstable.api.versions.enable": "true",
        "transaction.two.phase.commit.enable": "true",
    }
    settings = _LONE | (allowed if two_phase else {})
    with ApacheKafka(release).run_broker(tmp_path, settings=settings) as broker:
        at = {"bootstrap.servers": broker.bootstrap}
        writing = at | {"transactional.id": "x", "transaction.two.phase.commit.enable": two_phase}
        with Admin(at) as admin:
            admin.create_topics([NewTopic("t", 1, 1)])
            for outcome in (True, False):
                with Producer(writing) as producer:
                    producer.init_transactions()
                    producer.begin_transaction()
                    producer.append("t", b"v")
                    state = producer.prepare_transaction()
                shown = admin.describe_transactions(["x"])["x"]
                assert isinstance(shown, TransactionDescription)
                assert state is not None
                assert (shown.state, shown.producer_id, shown.producer_epoch) == ("Ongoing", *state)
                assert (shown.timeout_ms == 2**31 - 1) is two_phase
                for _ in range(2):
                    admin.end_transaction("x", state, committed=outcome)
            with Producer(writing) as producer, pytest.raises(FatalError) as refused:
                producer.init_transactions(keep_prepared=True)
            assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION


def test_brokers_that_lack_the_version_keep_it_from_being_finalised_or_stop(tmp_path: Path) -> None:
    with run_mixed(tmp_path, {0: Kind.APACHE, 1: Kind.KAVKA, 2: Kind.KAVKA}) as cluster:
        cluster.make_controller(1)
        with Admin({"bootstrap.servers": cluster.address(1)}) as admin:
            refused = admin.update_features(_UP)[TRANSACTION_VERSION]
            assert refused is not None
            assert str(refused).endswith("incompatible versions for the feature: 0.")
            assert cluster.node("/feature")["features"] == {}
            cluster.stop(0)
            until(lambda: cluster.registered() == {1, 2}, what="it has left")
            assert admin.update_features(_UP) == {TRANSACTION_VERSION: None}
            cluster.launch(0)
            _wait_until_stopped(cluster, 0)
            assert cluster.registered() == {1, 2}
            assert admin.update_features(_DOWN) == {TRANSACTION_VERSION: None}
        cluster.start(0)
        cluster.make_controller(0)  # Apache Kafka reads what we wrote, and keeps it


def _wait_until_stopped(cluster: MixedCluster, number: int) -> None:
    until(lambda: not cluster.is_running(number), 90, f"broker {number} stops")
    assert TRANSACTION_VERSION in cluster.text(number)
