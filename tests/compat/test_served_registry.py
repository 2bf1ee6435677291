"""The served registry under Apache's own programs: ZooKeeper's shell, and Kafka 3.9 brokers."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kavka_compat.apache import SMALL, ApacheKafka
from kavka_compat.artifacts import ZOOKEEPER, jars, java
from kavka_compat.processes import ProcessDied
from kavka_compat.served import Served, run_served

pytestmark = pytest.mark.compat

KAFKA = ApacheKafka("3.9")
_CLIENT_TIMEOUT = ("-Dzookeeper.request.timeout=20000",)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with run_served(tmp_path_factory.mktemp("served")) as registry:
        yield registry


def zookeeper_shell(release: str, connect: str, *commands: str) -> str:
    """Type commands into ZooKeeper's shell, and return what it writes."""
    if release == "3.8":
        command = KAFKA.command("zookeeper-shell", ["-server", connect], SMALL, "ERROR")
    else:
        class_path = ":".join(map(str, jars(ZOOKEEPER)))
        main = "org.apache.zookeeper.ZooKeeperMain"
        command = [java(), *SMALL, *_CLIENT_TIMEOUT, "-cp", class_path, main, "-server", connect]
    typed = "".join(f"{line}\n" for line in [*commands, "quit"])
    done = subprocess.run(
        command, input=typed, capture_output=True, text=True, timeout=60, check=False
    )
    return done.stdout + done.stderr


@pytest.mark.parametrize("release", ["3.8", "3.9"])
def test_zookeepers_shell_works(release: str, served: Served) -> None:
    root = f"/shell-{release}"
    said = zookeeper_shell(
        release,
        served.connect,
        f"create {root} first",
        f"create -s {root}/n- x",
        f"create -e {root}/e passing",
        f"get -w {root}",
        f"set -v 0 {root} second",
        f"get -s {root}",
        f"set -v 0 {root} third",
        f"ls {root}",
        f"stat {root}/e",
        f"getAcl {root}",
        f"getEphemerals {root}",
        f"getAllChildrenNumber {root}",
        f"addWatch -m PERSISTENT_RECURSIVE {root}",
        f"create {root}/later",
        f"removewatches {root}",
        f"sync {root}",
        "addauth digest user:secret",
        "whoami",
        f"delete {root}/later",
        f"delete {root}/missing",
        f"deleteall {root}",
        f"stat {root}",
    )
    for expected in (
        f"Created {root}\n",
        f"Created {root}/n-0000000000\n",
        f"Created {root}/e\n",
        "first\n",
        f"WatchedEvent state:SyncConnected type:NodeDataChanged path:{root}",
        "second\n",
        "dataVersion = 1\n",
        f"version No is not valid : {root}\n",
        "[e, n-0000000000]\n",
        "'world,'anyone\n: cdrwa\n",
        f"[{root}/e]\n",
        f"type:NodeCreated path:{root}/later",
        "Sync is OK\n",
        "digest: user",
        f"Node does not exist: {root}/missing\n",
        f"Node does not exist: {root}\n",
    ):
        assert expected in said, f"{expected!r} is not in:\n{said}"


def test_an_apache_kafka_broker_lives_on_the_served_registry(
    served: Served, tmp_path: Path
) -> None:
    with KAFKA.run_broker(tmp_path, "zookeeper", zookeeper=f"{served.connect}/one") as broker:
        KAFKA.check(
            "kafka-topics",
            *("--bootstrap-server", broker.bootstrap, "--create", "--topic", "t"),
            *("--partitions", "3", "--config", "retention.ms=1000000"),
        )
        lines = "".join(f"record {number}\n" for number in range(100))
        KAFKA.check(
            "kafka-console-producer",
            *("--bootstrap-server", broker.bootstrap, "--topic", "t"),
            stdin=lines,
        )
        read = KAFKA.check(
            "kafka-console-consumer",
            *("--bootstrap-server", broker.bootstrap, "--topic", "t", "--group", "g"),
            *("--from-beginning", "--max-messages", "100", "--timeout-ms", "30000"),
        )
        assert sorted(read.lines) == sorted(lines.splitlines())
        KAFKA.check(
            "kafka-configs",
            *("--bootstrap-server", broker.bootstrap, "--alter", "--entity-type", "topics"),
            *("--entity-name", "t", "--add-config", "retention.ms=2000000"),
        )
        said = zookeeper_shell(
            "3.8",
            f"{served.connect}/one",
            "get /config/topics/t",
            "get /controller",
            "ls /brokers/topics/t/partitions",
        )
        assert '{"version":1,"config":{"retention.ms":"2000000"}}' in said
        assert '"brokerid":0' in said
        assert "[0, 1, 2]" in said
        KAFKA.check(
            "kafka-topics",
            *("--bootstrap-server", broker.bootstrap, "--delete", "--topic", "t"),
        )
    said = zookeeper_shell("3.8", f"{served.connect}/one", "ls /brokers/ids")
    assert "\n[]\n" in said


def test_an_apache_kafka_broker_survives_the_death_of_its_registry(tmp_path: Path) -> None:
    with (
        run_served(tmp_path) as served,
        KAFKA.run_broker(
            tmp_path / "kafka",
            "zookeeper",
            {"zookeeper.session.timeout.ms": "18000"},
            zookeeper=served.connect,
        ) as broker,
    ):
        before = zookeeper_shell("3.8", served.connect, "stat /brokers/ids/0")
        served.process.kill()
        served.start()
        KAFKA.check(
            "kafka-topics", "--bootstrap-server", broker.bootstrap, "--create", "--topic", "t"
        )
        after = zookeeper_shell("3.8", served.connect, "stat /brokers/ids/0")
        assert owner(before) == owner(after)
        assert "Session expired" not in broker.process.text()


def owner(shown: str) -> str:
    (line,) = [line for line in shown.splitlines() if line.startswith("ephemeralOwner")]
    return line


def test_a_directory_is_served_by_one_process(tmp_path: Path) -> None:
    with run_served(tmp_path) as served:
        other = Served(tmp_path, {}, 0, starts=7)
        with pytest.raises(ProcessDied, match="another process uses the dataDir"):
            other.start()
        assert served.process.alive()


def test_zookeepers_own_data_is_not_taken_for_ours(tmp_path: Path) -> None:
    (tmp_path / "registry" / "version-2").mkdir(parents=True)
    with pytest.raises(ProcessDied, match="holds the data of Apache ZooKeeper"):
        Served(tmp_path, {}).start()
