"""`--workers N`: what each of the brokers has for itself."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from kavka.cli.main import main
from kavka.cli.server.workers import WorkerSettings, as_overrides
from kavka.settings.declaration import InvalidSetting


def test_workers_have_numbers_ports_and_directories_of_their_own() -> None:
    settings = {
        "broker.id": "10",
        "listeners": "PLAINTEXT://:9092,INSIDE://[::1]:9192",
        "log.dirs": "/a, /b/",
    }
    own = WorkerSettings(settings, 3).of(2, "127.0.0.1:4711")
    assert own == {
        "broker.id": "12",
        "listeners": "PLAINTEXT://:9094,INSIDE://[::1]:9194",
        "log.dirs": "/a/worker-2,/b/worker-2",
        "broker.rack": socket.gethostname(),
        "zookeeper.connect": "127.0.0.1:4711",
        "kavka.transaction.version": "2",
        "offsets.topic.replication.factor": "3",
        "transaction.state.log.replication.factor": "3",
    }


@pytest.mark.parametrize(("workers", "factor"), [(1, "1"), (2, "2"), (3, "3"), (5, "3")])
def test_internal_topics_have_as_many_replicas_as_there_are_workers(
    workers: int, factor: str
) -> None:
    name = "offsets.topic.replication.factor"
    assert WorkerSettings({}, workers).of(0, "127.0.0.1:4711")[name] == factor
    assert name not in WorkerSettings({name: "2"}, workers).of(0, "127.0.0.1:4711")
    assert name not in WorkerSettings({"zookeeper.connect": "a"}, workers).of(0, None)


def test_each_worker_serves_its_metrics_on_a_port_of_its_own() -> None:
    workers = WorkerSettings({"kavka.metrics.port": "9404"}, 3)
    assert [workers.of(i, None)["kavka.metrics.port"] for i in range(3)] == ["9404", "9405", "9406"]
    assert "kavka.metrics.port" not in WorkerSettings({"kavka.metrics.port": "0"}, 3).of(1, None)


def test_metrics_too_near_to_a_listener_are_refused() -> None:
    settings = {"listeners": "PLAINTEXT://:9092", "kavka.metrics.port": "9094"}
    with pytest.raises(InvalidSetting, match="9092 and 9094 are too near"):
        WorkerSettings(settings, 3)


def test_without_settings_worker_0_is_where_a_lone_broker_would_be() -> None:
    workers = WorkerSettings({}, 2)
    own = workers.of(0, None)
    assert (own["broker.id"], own["listeners"]) == ("0", "PLAINTEXT://127.0.0.1:9092")
    assert own["log.dirs"] == "/tmp/kafka-logs/worker-0"
    assert workers.has_own_registry
    assert workers.registry_directory == "/tmp/kafka-logs/registry"


def test_a_path_with_a_placeholder_has_the_number_there() -> None:
    workers = WorkerSettings({"log.dirs": "/disk{worker}/kafka,/slow"}, 2)
    assert workers.of(1, None)["log.dirs"] == "/disk1/kafka,/slow/worker-1"
    assert workers.registry_directory == "/disk0/kafka-registry"


def test_log_dir_serves_where_log_dirs_is_not_set() -> None:
    assert (
        WorkerSettings({"log.dir": "/a,/b"}, 2).of(1, None)["log.dirs"] == "/a/worker-1,/b/worker-1"
    )


def test_advertised_ports_move_with_the_listeners() -> None:
    settings = {"advertised.listeners": "PLAINTEXT://kafka.example.com:19092"}
    own = WorkerSettings(settings, 2).of(1, None)
    assert own["advertised.listeners"] == "PLAINTEXT://kafka.example.com:19093"


def test_free_ports_are_kept_when_a_worker_starts_again() -> None:
    settings = {
        "listeners": "A://127.0.0.1:0,b://127.0.0.1:0,C://127.0.0.1:9092",
        "listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT,C:PLAINTEXT",
    }
    workers = WorkerSettings(settings, 2)
    assert workers.of(1, None)["listeners"] == "A://127.0.0.1:0,b://127.0.0.1:0,C://127.0.0.1:9093"
    before = "A://127.0.0.1:41000,B://127.0.0.1:41001,C://127.0.0.1:9093"
    own = workers.of(1, None, before)
    assert own["listeners"] == "A://127.0.0.1:41000,b://127.0.0.1:41001,C://127.0.0.1:9093"


def test_a_rack_that_is_set_stays() -> None:
    assert "broker.rack" not in WorkerSettings({"broker.rack": "here"}, 2).of(1, None)


def test_workers_of_a_given_registry_without_a_number_get_generated_ones() -> None:
    workers = WorkerSettings({"zookeeper.connect": "one:2181,two:2181/chroot"}, 2)
    assert not workers.has_own_registry
    own = workers.of(1, None)
    assert "broker.id" not in own
    assert "zookeeper.connect" not in own


@pytest.mark.parametrize(
    ("listeners", "reason"),
    [
        ("A://:9092,B://:9093", "9092 and 9093 are too near"),
        ("A://:65535", "3 workers need ports up to 65537"),
    ],
)
def test_listeners_whose_ports_would_meet_are_refused(listeners: str, reason: str) -> None:
    with pytest.raises(InvalidSetting, match=reason):
        WorkerSettings({"listeners": listeners}, 3)


def test_the_directory_of_a_lone_broker_is_refused_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=0\n")
    with pytest.raises(InvalidSetting) as refused:
        WorkerSettings({"log.dirs": str(tmp_path)}, 2)
    assert f"move it to {tmp_path}/worker-0, and kavka-registry.* to {tmp_path}/registry" in str(
        refused.value
    )


def test_the_registry_of_a_lone_broker_is_not_left_behind(tmp_path: Path) -> None:
    (tmp_path / "worker-0").mkdir()
    (tmp_path / "worker-0" / "kavka-registry.journal").write_bytes(b"")
    with pytest.raises(
        InvalidSetting, match=r"move it away, and kavka-registry\.\* to .*/registry"
    ):
        WorkerSettings({"log.dirs": str(tmp_path)}, 2)


def test_overrides_are_arguments_of_server_start() -> None:
    assert list(as_overrides({"a": "1", "b": "x=y"})) == [
        "--override",
        "a=1",
        "--override",
        "b=x=y",
    ]


@pytest.mark.parametrize("words", [["--workers"], ["--workers=0"], ["--workers", "two"]])
def test_a_number_of_workers_that_makes_no_sense_is_refused(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["server-start", *words]) == 1
    assert "--workers needs a number from 1 to 1000" in capsys.readouterr().err
