"""Event loops, threads, signals and forks: several loops, asyncio.run twice, uvloop, a notebook's loop."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import uvloop

from kavka.client import Admin, Consumer, Producer, TopicPartition, blocking
from kavka.testing.local_cluster import LocalCluster

AT = TopicPartition("t", 0)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """A broker in this process, over real sockets."""
    with LocalCluster(tmp_path_factory.mktemp("broker")) as cluster:
        yield {"bootstrap.servers": cluster.bootstrap_servers}


async def write_and_read(servers: dict[str, Any], topic: str) -> list[bytes]:
    reading = servers | {"auto.offset.reset": "earliest"}
    async with (
        Producer(servers) as producer,
        Consumer(reading) as consumer,
        Admin(servers) as admin,
    ):
        await producer.send(topic, b"a")
        producer.append(topic, b"b")
        await producer.flush()
        assert topic in await admin.list_topics()
        consumer.assign([TopicPartition(topic, 0)])
        return [(await anext(consumer)).value for _ in range(2)]


def test_clients_run_in_uvloop(servers):
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(write_and_read(servers, "uvloop")) == [b"a", b"b"]


def test_each_asyncio_run_has_clients_of_its_own(servers):
    for number in range(2):
        assert asyncio.run(write_and_read(servers, f"run-{number}")) == [b"a", b"b"]


def test_loops_of_several_threads_have_clients_of_their_own(servers):
    found: dict[int, list[bytes]] = {}

    def work(number: int) -> None:
        found[number] = asyncio.run(write_and_read(servers, f"thread-{number}"))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == {number: [b"a", b"b"] for number in range(3)}


def test_a_client_is_started_again_in_another_loop(servers):
    producer = Producer(servers)

    async def once() -> int:
        async with producer:
            return (await producer.send("again", b"v")).offset

    assert [asyncio.run(once()), asyncio.run(once())] == [0, 1]


def test_a_client_of_another_loop_says_so(servers):
    producer, consumer, admin = Producer(servers), Consumer(servers), Admin(servers)
    clients: list[Any] = [producer, consumer, admin]
    calls = [
        lambda: producer.send("t", b"v"),
        lambda: producer.send_many("t", [(None, b"v")]),
        producer.flush,
        producer.close,
        consumer.poll,
        lambda: anext(consumer),
        lambda: consumer.position(AT),
        consumer.close,
        admin.list_topics,
        admin.close,
    ]

    async def refuse(call: Any) -> None:
        with pytest.raises(RuntimeError, match="started in another event loop"):
            await call()

    with asyncio.Runner() as first, asyncio.Runner() as second:
        for client in clients:
            first.run(client.start())
        for call in calls:
            second.run(refuse(call))
        for client in clients:
            first.run(client.close())


def test_a_notebooks_loop_takes_both_kinds_of_clients(servers):
    """A notebook awaits cell by cell in one loop that runs on; a blocking client has a loop of its own."""
    with asyncio.Runner() as notebook:
        producer = Producer(servers)
        notebook.run(producer.start())
        written = notebook.run(producer.send("cells", b"v"))

        async def cell() -> int:
            with blocking.Producer(servers) as other:  # holds up this loop, as any call that waits
                return other.send("cells", b"v").offset

        assert notebook.run(cell()) == written.offset + 1
        notebook.run(producer.close())


def test_one_blocking_client_serves_many_threads(servers):
    with blocking.Producer(servers) as producer:
        offsets: list[int] = []
        threads = [
            threading.Thread(
                target=lambda: offsets.extend(producer.send("many", b"v").offset for _ in range(20))
            )
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert sorted(offsets) == list(range(80))


WAITING = """
import sys
from kavka.client.blocking import Consumer
with Consumer({"bootstrap.servers": sys.argv[1], "group.id": "waiting"}) as consumer:
    consumer.subscribe(["t"])
    consumer.poll(1)
    print("waits", flush=True)
    for record in consumer:
        pass
"""


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, -signal.SIGINT), (signal.SIGTERM, -15)]
)
def test_a_signal_ends_a_program_that_waits(servers, number, code):
    at = servers["bootstrap.servers"]
    program = subprocess.Popen(
        [sys.executable, "-c", WAITING, at],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert program.stdout is not None
    assert program.stdout.readline() == "waits\n"
    program.send_signal(number)
    _, errors = program.communicate(timeout=60)
    assert program.returncode == code
    assert ("KeyboardInterrupt" in errors) is (number == signal.SIGINT)
    if number == signal.SIGINT:  # `with` has left the group; SIGTERM needs a handler
        with blocking.Admin(servers) as admin:
            assert admin.describe_groups(["waiting"])["waiting"].members == []


FORKING = """
import os, sys
from kavka.client.blocking import Producer
servers = {"bootstrap.servers": sys.argv[1]}
with Producer(servers) as producer:
    producer.send("forked", b"parent")
    child = os.fork()
    if child == 0:
        try:
            producer.send("forked", b"wrong")
        except RuntimeError as error:
            assert "after" not in str(error) and "forked" in str(error), error
            with Producer(servers) as own:
                own.send("forked", b"child")
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    print(producer.send("forked", b"parent again").offset)
"""


def test_a_forked_child_makes_a_client_of_its_own(servers):
    command = [sys.executable, "-c", FORKING, servers["bootstrap.servers"]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.returncode) == ("2\n", 0), done.stderr


def test_a_consumer_that_was_closed_reads_again_in_another_loop(servers: dict[str, Any]) -> None:
    reading = servers | {"group.id": "again", "auto.offset.reset": "earliest"}
    consumer = Consumer(reading)

    async def read() -> list[bytes | None]:
        async with Producer(servers) as producer, consumer:
            await producer.send("again", b"v")
            assert consumer.subscription() == []
            consumer.subscribe(["again"])
            return [(await anext(consumer)).value]

    assert asyncio.run(read()) == [b"v"]
    assert asyncio.run(read()) == [b"v"]
    with pytest.raises(RuntimeError, match="the consumer is not open"):
        consumer.assign([AT])


@pytest.mark.parametrize("client", [Producer, Consumer, Admin])
def test_a_client_that_is_open_is_not_started_again(servers: dict[str, Any], client: Any) -> None:
    async def start_twice() -> None:
        made = client(servers)
        both = await asyncio.gather(made.start(), made.start(), return_exceptions=True)
        assert [str(error) for error in both if error] == [
            f"the {client.__name__.lower()} was started already"
        ]
        with pytest.raises(RuntimeError, match="was started already"):
            async with made:
                pytest.fail("the body ran")
        await made.close()

    asyncio.run(start_twice())
