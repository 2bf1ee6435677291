"""Starts that fail change nothing, and starts that succeed know what the last stop was."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from kavka.broker.broker import Broker
from kavka.broker.environment import OsEnvironment
from kavka.broker.lifecycle.identity import IdentityError
from kavka.ids import TopicPartition
from kavka.net.clock import SystemClock, SystemRandom
from kavka.net.connection import Connection, Limits
from kavka.registry.interface import Registry, ensure_path
from kavka.registry.journal import CorruptRegistry
from kavka.registry.local_session import LocalSession
from kavka.registry.znode_server import ZnodeServer
from kavka.settings.properties import parse_properties
from kavka.storage.disk.os_disk import OsDisk
from kavka.wire.frame import encode_request
from kavka.wire.messages.api_versions import ApiVersionsRequest
from kavka.wire.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestConfig,
    CreateTopicsRequestTopic,
)
from kavka.wire.stored.znodes import encode_cluster_id
from support.one_broker import Run, Served
from support.waiting import until

MARKER = ".kafka_cleanshutdown"
HIGH_WATERMARKS = "replication-offset-checkpoint"


async def nothing(served: Served) -> None:
    """Start and stop."""


async def some_records(served: Served) -> None:
    await served.topic("t")
    await served.produce("t", b"a", b"b")


def damage_registry(directory: Path) -> None:
    snapshot = directory / "kavka-registry.snapshot"
    data = bytearray(snapshot.read_bytes())
    data[-1] ^= 1
    snapshot.write_bytes(data)


@pytest.mark.parametrize("was_clean", [True, False])
def test_a_failed_start_leaves_the_marker_as_it_was(
    run: Run, tmp_path: Path, was_clean: bool
) -> None:
    run(some_records)
    marker = tmp_path / "data" / MARKER
    if not was_clean:
        marker.unlink()
    damage_registry(tmp_path / "data")
    with pytest.raises(CorruptRegistry):
        run(nothing)
    assert marker.exists() is was_clean


def test_a_clean_stop_leaves_the_epoch_of_the_broker_in_the_marker(
    run: Run, tmp_path: Path
) -> None:
    epochs = []

    async def story(served: Served) -> None:
        epochs.append(served.broker.context.broker_epoch)

    for _ in range(2):
        run(story)
        marker = json.loads((tmp_path / "data" / MARKER).read_bytes())
        assert marker == {"version": 0, "brokerEpoch": epochs[-1]}
    assert 0 <= epochs[0] < epochs[1]


def test_a_port_that_is_taken_is_named(run: Run, tmp_path: Path) -> None:
    async def story(served: Served) -> None:
        from kavka.broker.broker import Broker
        from kavka.broker.environment import OsEnvironment

        settings = {
            "listeners": f"PLAINTEXT://127.0.0.1:{served.port}",
            "log.dirs": str(tmp_path / "other"),
        }
        with pytest.raises(OSError, match=str(served.port)):
            await Broker(settings, OsEnvironment()).start()

    run(story)


@pytest.mark.parametrize("was_clean", [True, False])
def test_a_start_that_finds_its_port_taken_leaves_the_marker_as_it_was(
    run: Run, tmp_path: Path, was_clean: bool
) -> None:
    run(some_records)
    marker, offsets = tmp_path / "data" / MARKER, tmp_path / "data" / HIGH_WATERMARKS
    before = offsets.read_bytes()
    if not was_clean:
        marker.unlink()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=str(port)):
            run(nothing, listeners=f"PLAINTEXT://127.0.0.1:{port}")
    assert marker.exists() is was_clean
    assert offsets.read_bytes() == before


def test_a_directory_in_use_is_refused(run: Run, tmp_path: Path) -> None:
    async def story(served: Served) -> None:
        from kavka.broker.broker import Broker
        from kavka.broker.environment import OsEnvironment

        settings = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(tmp_path / "data")}
        with pytest.raises(BlockingIOError):
            await Broker(settings, OsEnvironment()).start()
        assert (await served.produce("t", b"a")).error_code == 3  # it serves on
        await some_records(served)

    run(story)
    assert (tmp_path / "data" / MARKER).exists()


@pytest.mark.parametrize("was_clean", [True, False])
def test_a_broker_without_its_identity_does_not_serve_as_another(
    run: Run, tmp_path: Path, was_clean: bool
) -> None:
    async def still_there(served: Served) -> None:
        assert [record.value for record in await served.read("t")] == [b"a", b"b"]

    run(some_records)
    (tmp_path / "data" / "meta.properties").unlink()
    if not was_clean:
        (tmp_path / "data" / MARKER).unlink()
    with pytest.raises(IdentityError, match=r"set broker\.id=0"):
        run(nothing)
    run(still_there, broker__id="0")
    run(still_there)


def test_a_broker_of_a_cluster_refuses_a_registry_without_one(run: Run, tmp_path: Path) -> None:
    """A mistyped chroot must not make a new cluster, in which these logs are strays; Kafka refuses as well."""

    async def start_on(registry: Registry) -> None:
        settings = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(tmp_path / "data")}
        broker = Broker(settings, OsEnvironment(), registry)
        await broker.start()
        await broker.stop()

    async def story() -> None:
        znode_server = ZnodeServer(SystemClock(), SystemRandom())
        session = LocalSession(znode_server)
        with pytest.raises(IdentityError, match=f"has the Cluster ID {cluster_id}"):
            await start_on(session)
        empty = LocalSession(znode_server)
        assert await empty.stat("/cluster/id") is None
        await ensure_path(empty, "/cluster")
        await empty.create("/cluster/id", encode_cluster_id(cluster_id))
        await start_on(empty)

    run(some_records)
    texts = parse_properties((tmp_path / "data" / "meta.properties").read_text())
    cluster_id = texts["cluster.id"]
    asyncio.run(story())


def test_a_start_after_a_clean_stop_writes_nothing_for_an_empty_partition(
    run: Run, tmp_path: Path
) -> None:
    async def create_only(served: Served) -> None:
        await served.topic("t")

    def files() -> dict[str, tuple[int, int, int]]:
        found = {path: path.stat() for path in (tmp_path / "data" / "t-0").iterdir()}
        return {path.name: (at.st_ino, at.st_size, at.st_mtime_ns) for path, at in found.items()}

    run(create_only)
    before = files()
    assert {"00000000000000000000.log", "partition.metadata"} <= before.keys()
    run(nothing)
    assert files() == before


def test_files_that_are_named_like_partitions_are_left_alone(run: Run, tmp_path: Path) -> None:
    run(some_records)
    (tmp_path / "data" / "t-5").write_text("a file")
    run(nothing)
    assert (tmp_path / "data" / "t-5").read_text() == "a file"


def test_the_leader_epoch_grows_only_after_an_unclean_stop(run: Run, tmp_path: Path) -> None:
    epochs: list[int] = []

    async def note(served: Served) -> None:
        await served.topic("t")
        replica = served.broker.replica_manager.find(TopicPartition("t", 0))
        epochs.append(replica.partition.leader_epoch)

    run(note)
    run(note)
    (tmp_path / "data" / MARKER).unlink()
    run(note)
    assert epochs == [0, 0, 1]


def test_logs_are_opened_with_their_topics_settings(run: Run, tmp_path: Path) -> None:
    async def before(served: Served) -> None:
        config = CreateTopicsRequestConfig(name="index.interval.bytes", value="100")
        topic = CreateTopicsRequestTopic(
            name="t", num_partitions=1, replication_factor=1, configs=[config]
        )
        await served.send(CreateTopicsRequest(topics=[topic], timeout_ms=5000))
        for _ in range(20):
            await served.produce("t", b"x" * 200)

    run(before)
    index = tmp_path / "data" / "t-0" / "00000000000000000000.index"
    written = index.read_bytes()
    assert len(written) > 8 * 10
    (tmp_path / "data" / MARKER).unlink()
    run(nothing)
    assert index.read_bytes() == written


class CountingDisk(OsDisk):
    """Counts the calls that run at one time."""

    running = most = 0

    async def run(self, work: Callable[..., Any], *args: Any) -> Any:
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            return await super().run(work, *args)
        finally:
            self.running -= 1


@pytest.mark.parametrize("threads", [1, 3])
def test_as_many_logs_are_opened_at_one_time_as_the_setting_says(
    run: Run, tmp_path: Path, threads: int
) -> None:
    async def before(served: Served) -> None:
        await served.topic("t")

    async def start_again() -> int:
        environment = OsEnvironment()
        environment.disk = disk = CountingDisk(threads)
        settings = {
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": str(tmp_path / "data"),
            "num.recovery.threads.per.data.dir": str(threads),
        }
        broker = Broker(settings, environment)
        await broker.start()
        await broker.stop()
        return disk.most

    run(before, num__partitions="100")  # some dozens are opened in one call
    assert asyncio.run(start_again()) == threads


class Sent:
    """A transport that keeps what is sent."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"peername": ("127.0.0.1", 1234)}.get(name, default)

    def writelines(self, parts: Sequence[bytes]) -> None:
        self.frames += parts

    def get_write_buffer_size(self) -> int:
        return 0

    def call_when_sent(
        self, callback: Callable[[], None], before: Callable[[], None] | None = None
    ) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def is_closing(self) -> bool:
        return False

    def close(self) -> None: ...


def test_requests_that_come_while_a_broker_starts_are_served_when_it_has(tmp_path: Path) -> None:
    async def story() -> None:
        settings = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(tmp_path / "data")}
        broker = Broker(settings, OsEnvironment())
        connection, transport = Connection(broker.dispatcher, "PLAINTEXT", Limits(1000, 10)), Sent()
        connection.connection_made(transport)  # type: ignore[arg-type]
        for correlation_id in (1, 2):
            parts = encode_request(ApiVersionsRequest(), 0, correlation_id, "c")
            frame = b"".join(bytes(part) for part in parts)  # type: ignore[arg-type]
            connection.get_buffer(-1)[: len(frame)] = frame
            connection.buffer_updated(len(frame))
        assert not transport.frames
        await broker.start()
        await until(lambda: len(transport.frames) == 2)
        assert [int.from_bytes(frame[4:8]) for frame in transport.frames] == [1, 2]
        await broker.stop()

    asyncio.run(story())
