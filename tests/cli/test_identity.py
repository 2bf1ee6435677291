"""`kavka server-start` on what is of another broker or another cluster: refused with the reason, and left alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from kavka.settings.properties import parse_properties
from kavka.storage.checkpoint.meta_properties import META_PROPERTIES, MetaProperties
from kavka.wire.messages.metadata import MetadataRequest
from kavka_compat.asking import ask
from kavka_compat.brokers import Broker
from kavka_compat.our_tools import our_tool
from kavka_compat.ours import start_kavka
from kavka_compat.served import Served, run_served

HERE, ELSEWHERE = "AAAAAAAAAAAAAAAAAAAAAA", "BBBBBBBBBBBBBBBBBBBBBB"
SHORT_SESSION = {"zookeeper.session.timeout.ms": "1000"}


def refused(directories: Sequence[Path], settings: Mapping[str, str]) -> str:
    """Start a broker that must not start, insist that its directories stay what they were, and return what it says."""
    names = [directory / META_PROPERTIES for directory in directories]
    before = [name.read_bytes() if name.exists() else None for name in names]
    chosen = {
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "log.dirs": ",".join(map(str, directories)),
        **settings,
    }
    overrides = [word for item in chosen.items() for word in ("--override", "=".join(item))]
    done = our_tool("server-start", *overrides, code=1)
    assert done.out == ""
    assert "Traceback" not in done.err
    assert [name.read_bytes() if name.exists() else None for name in names] == before
    (reason,) = [line for line in done.err.splitlines() if line.startswith("kavka server-start: ")]
    return reason.removeprefix("kavka server-start: ")


def belonging(directory: Path, broker_id: int, cluster_id: str) -> Path:
    """Make a directory that belongs to a broker of a cluster."""
    directory.mkdir()
    (directory / META_PROPERTIES).write_bytes(MetaProperties(broker_id, cluster_id).encode())
    return directory


def cluster_of(broker: Broker) -> str:
    """Return the cluster id that a broker has written down."""
    return parse_properties((broker.log_directory / META_PROPERTIES).read_text())["cluster.id"]


def test_another_broker_id_than_the_stored_one_is_refused(tmp_path: Path) -> None:
    logs = belonging(tmp_path / "logs", 4, HERE)
    assert refused([logs], {"broker.id": "7"}) == (
        "Configured broker.id 7 doesn't match stored broker.id 4 in meta.properties. "
        "Either the broker.id or log.dirs is wrong."
    )


def test_directories_of_two_brokers_are_refused(tmp_path: Path) -> None:
    both = [belonging(tmp_path / f"logs-{number}", number, HERE) for number in (4, 5)]
    assert refused(both, {}) == (
        "Stored broker ids differ between log.dirs: [4, 5]. They belong to different brokers."
    )


def test_directories_of_two_clusters_are_refused(tmp_path: Path) -> None:
    both = [belonging(tmp_path / cluster, 4, cluster) for cluster in (HERE, ELSEWHERE)]
    assert refused(both, {}) == (
        f"The Cluster ID {HERE} doesn't match stored clusterId Some({ELSEWHERE}) in meta.properties of {both[1]}. "
        "The broker is trying to join the wrong cluster: use another log.dirs."
    )


@pytest.mark.slow
def test_a_lone_broker_whose_registry_is_of_another_cluster_is_refused(tmp_path: Path) -> None:
    broker = start_kavka(tmp_path)
    assert broker.process.stop() == 0
    meta, logs = broker.log_directory / META_PROPERTIES, broker.log_directory
    cluster, before = cluster_of(broker), meta.read_bytes()
    meta.write_bytes(before.replace(cluster.encode(), ELSEWHERE.encode()))
    said = refused([logs], {})
    assert said.startswith(
        f"The Cluster ID {cluster} doesn't match stored clusterId Some({ELSEWHERE})"
    )
    meta.write_bytes(before)
    assert start_kavka(tmp_path).process.stop() == 0


def on(registry: Served, **settings: str) -> dict[str, str]:
    """Return settings of a broker on a registry; names have `__` for dots."""
    return {
        "zookeeper.connect": registry.connect,
        **{name.replace("__", "."): value for name, value in settings.items()},
    }


@pytest.mark.slow
def test_a_broker_of_another_cluster_is_refused_by_those_that_share_a_registry(
    tmp_path: Path,
) -> None:
    with run_served(tmp_path / "registry") as registry:
        broker = start_kavka(tmp_path / "one", on(registry))
        try:
            logs = belonging(tmp_path / "another", 7, ELSEWHERE)
            said = refused([logs], on(registry))
            assert f"The Cluster ID {cluster_of(broker)} doesn't match stored" in said
            assert ELSEWHERE in said
        finally:
            assert broker.process.stop() == 0


@pytest.mark.slow
def test_a_broker_id_in_use_is_refused_with_the_address_of_its_broker(tmp_path: Path) -> None:
    with run_served(tmp_path / "registry") as registry:
        broker = start_kavka(tmp_path / "one", on(registry, broker__id="7"))
        try:
            said = refused([tmp_path / "another" / "logs"], on(registry, broker__id="7"))
            assert said.startswith(
                "Error while creating ephemeral at /brokers/ids/7, node already exists and owner '0x"
            )
            assert said.endswith(
                f"a broker with broker.id=7 is running at PLAINTEXT://{broker.bootstrap}. "
                "Give this one another broker.id, or stop the other."
            )
            known = ask(broker.bootstrap, MetadataRequest(topics=[]))
            assert [(each.node_id, each.port) for each in known.brokers] == [(7, broker.port)]
            another = start_kavka(tmp_path / "another", on(registry, broker__id="8"))
            assert another.process.stop() == 0
        finally:
            assert broker.process.stop() == 0


@pytest.mark.slow
def test_a_broker_id_is_free_when_the_session_of_a_dead_process_is_over(tmp_path: Path) -> None:
    with run_served(tmp_path / "registry", {"tickTime": "500"}) as registry:
        settings = on(registry, broker__id="7") | SHORT_SESSION
        start_kavka(tmp_path / "one", settings).process.kill()
        late = start_kavka(tmp_path / "another", on(registry, broker__id="7"))
        try:
            known = ask(late.bootstrap, MetadataRequest(topics=[]))
            assert [(each.node_id, each.port) for each in known.brokers] == [(7, late.port)]
        finally:
            assert late.process.stop() == 0
