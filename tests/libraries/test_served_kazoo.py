"""The registry server as a process, under kazoo: another project's client and its recipes."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError, RolledBackError
from kazoo.protocol.states import EventType, KazooState
from kazoo.retry import KazooRetry

from kavka_compat.served import Served, run_served

_names = count()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with run_served(tmp_path_factory.mktemp("served")) as registry:
        yield registry


def connected(served: Served, chroot: str, timeout_s: float = 6) -> Any:
    client = KazooClient(
        served.connect + chroot,
        timeout=timeout_s,
        connection_retry=KazooRetry(max_tries=-1, delay=0.02, max_delay=0.1),
    )
    client.start(10)
    return client


@pytest.fixture
def chroot(served: Served) -> str:
    """A part of the tree that no other test uses."""
    client = connected(served, "")
    path = f"/chroot-{next(_names)}"
    client.create(path)
    finish(client)
    return path


@pytest.fixture
def client(served: Served, chroot: str) -> Iterator[Any]:
    client = connected(served, chroot)
    yield client
    finish(client)


@pytest.fixture
def other(served: Served, chroot: str) -> Iterator[Any]:
    client = connected(served, chroot)
    yield client
    finish(client)


def finish(client: Any) -> None:
    client.stop()
    client.close()


def test_nodes_are_made_changed_and_removed(client: Any) -> None:
    assert client.create("/a", b"one") == "/a"
    assert client.create("/a/s-", sequence=True) == "/a/s-0000000000"
    path, stat = client.create("/a/s-", b"xyz", sequence=True, include_data=True)
    assert (path, stat.dataLength) == ("/a/s-0000000001", 3)
    assert client.set("/a", b"two", version=0).version == 1
    with pytest.raises(BadVersionError):
        client.set("/a", b"three", version=0)
    with pytest.raises(NodeExistsError):
        client.create("/a")
    data, stat = client.get("/a")
    assert (data, stat.version, stat.numChildren, stat.cversion) == (b"two", 1, 2, 2)
    client.delete("/a", recursive=True)
    with pytest.raises(NoNodeError):
        client.get("/a")


def test_a_transaction_happens_whole_or_not_at_all(client: Any) -> None:
    client.create("/epoch", b"1")
    transaction = client.transaction()
    transaction.create("/a")
    transaction.check("/epoch", 7)
    first, second = transaction.commit()
    assert isinstance(first, RolledBackError)
    assert isinstance(second, BadVersionError)
    transaction = client.transaction()
    transaction.create("/a-", sequence=True)
    transaction.set_data("/epoch", b"2", 0)
    transaction.delete("/epoch")
    path, stat, deleted = transaction.commit()
    assert (path, stat.version, deleted) == ("/a-0000000001", 1, True)


def test_watches_fire_once(client: Any, other: Any) -> None:
    seen: queue.Queue[Any] = queue.Queue()
    client.create("/a")
    client.get("/a", watch=seen.put)
    client.get_children("/a", watch=seen.put)
    client.exists("/later", watch=seen.put)
    other.set("/a", b"x")
    other.set("/a", b"y")
    other.create("/a/b")
    other.create("/later")
    events = [seen.get(timeout=5) for _ in range(3)]
    assert [(event.type, event.path) for event in events] == [
        (EventType.CHANGED, "/a"),
        (EventType.CHILD, "/a"),
        (EventType.CREATED, "/later"),
    ]
    client.exists("/")  # whatever was sent before this response has come
    assert seen.empty()


def test_ephemerals_go_with_the_session(served: Served, chroot: str, other: Any) -> None:
    passing = connected(served, chroot)
    passing.create("/here", ephemeral=True)
    gone = threading.Event()
    assert other.exists("/here", watch=lambda _event: gone.set()) is not None
    finish(passing)
    assert gone.wait(60)
    assert other.exists("/here") is None


def test_election_lock_and_barrier_work(client: Any, other: Any) -> None:
    led: list[str] = []
    for candidate, name in ((client, "first"), (other, "second")):
        candidate.Election("/election", name).run(led.append, name)
    assert led == ["first", "second"]
    with client.Lock("/lock", "a"):
        assert not other.Lock("/lock", "b").acquire(blocking=False)
    barrier = client.Barrier("/barrier")
    barrier.create()
    barrier.remove()
    assert other.Barrier("/barrier").wait(60)


def test_a_session_survives_the_death_of_the_server_with_its_ephemerals(tmp_path: Path) -> None:
    with run_served(tmp_path) as served:
        client = connected(served, "")
        states: queue.Queue[str] = queue.Queue()
        client.add_listener(states.put)
        client.create("/here", b"x", ephemeral=True)
        session, _password = client.client_id
        changed = threading.Event()
        client.get("/here", watch=lambda _event: changed.set())
        served.process.kill()
        assert states.get(timeout=10) == KazooState.SUSPENDED
        served.start()
        assert states.get(timeout=20) == KazooState.CONNECTED
        assert client.client_id[0] == session
        assert client.get("/here")[1].ephemeralOwner == session
        finish(client)
        assert served.process.stop() == 0


def test_many_changes_of_many_clients_all_arrive(served: Served, chroot: str, client: Any) -> None:
    others = [connected(served, chroot) for _ in range(4)]
    client.create("/q")
    waiting = [one.create_async("/q/n-", b"x", sequence=True) for one in others for _ in range(250)]
    paths = {result.get(timeout=20) for result in waiting}
    assert len(paths) == 1000
    assert len(client.get_children("/q")) == 1000
    for one in others:
        finish(one)
