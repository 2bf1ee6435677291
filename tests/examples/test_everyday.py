"""The programs of everyday use, beside a broker; those that promise each record once are killed in the middle."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from kavka.client import NewTopic, TopicPartition
from kavka.client.blocking import Admin, Consumer, Producer
from kavka.client.dead_letters import dead_letter_of
from kavka_compat.brokers import Broker
from kavka_compat.ours import run_kavka
from support.waiting import wait_until

EVERYDAY = Path(__file__).resolve().parents[2] / "examples" / "everyday"
COUNT = 60
AT_ONCE = {"group.initial.rebalance.delay.ms": "0"}

pytestmark = pytest.mark.compat


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker with some orders, which no program changes."""
    with run_kavka(tmp_path_factory.mktemp("broker"), AT_ONCE) as broker:
        write_orders(broker, "orders", partitions=2)
        yield broker


def write_orders(broker: Broker, topic: str, partitions: int, count: int = COUNT) -> None:
    settings = {"bootstrap.servers": broker.bootstrap}
    with Admin(settings) as admin, Producer(settings) as producer:
        admin.create_topics([NewTopic(topic, partitions, 1)])
        for number in range(count):
            producer.append(topic, b"order %d" % number, partition=number % partitions)


def environment(broker: Broker) -> dict[str, str]:
    return {
        **os.environ,
        "KAVKA_BOOTSTRAP_SERVERS": broker.bootstrap,
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def start(broker: Broker, program: str, *words: str, **more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(EVERYDAY / program), *words],
        env=environment(broker) | more,
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def run(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., list[str]]:
    """Run a program in this process, which saves its start, with a shorter wait for its end; return its lines."""
    monkeypatch.setenv("KAVKA_BOOTSTRAP_SERVERS", broker.bootstrap)

    def run_program(program: str, *words: str) -> list[str]:
        module = load(program)
        outcome = module["main"](*words)
        if asyncio.iscoroutine(outcome):
            asyncio.run(outcome)
        return capsys.readouterr().out.splitlines()

    return run_program


def load(program: str) -> dict[str, Any]:
    """Return a program's names; its idle time is a twentieth: no test waits five seconds for nothing."""
    source = (EVERYDAY / program).read_text(encoding="utf-8").replace("poll(5000", "poll(1000")
    names: dict[str, Any] = {"__name__": program.removesuffix(".py")}
    exec(compile(source, str(EVERYDAY / program), "exec"), names)
    return names


ORDERS = {f"order {number}" for number in range(COUNT)}


def values_of(broker: Broker, topic: str, count: int) -> list[Any]:
    reading = {"bootstrap.servers": broker.bootstrap, "auto.offset.reset": "earliest"}
    with Consumer(reading) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        return [next(consumer) for _ in range(count)]


def test_a_file_is_written_line_by_line(broker: Broker, run: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("ann,1 tea\nbob,2 cups\n")
    assert run("produce_file.py", str(tmp_path / "file"), "from-file") == ["written 2"]
    found = [(record.key, record.value) for record in values_of(broker, "from-file", 2)]
    assert found == [(b"ann", b"ann,1 tea"), (b"bob", b"bob,2 cups")]


def test_what_was_processed_is_committed(broker: Broker, run: Any) -> None:
    assert {line.split(" ", 2)[2] for line in run("manual_commit.py")} == ORDERS
    with Admin({"bootstrap.servers": broker.bootstrap}) as admin:
        offsets = admin.list_group_offsets("billing")
    assert sum(one.offset for one in offsets.values()) == COUNT


def test_bad_records_go_aside_with_their_reason(broker: Broker, run: Any) -> None:
    with Producer({"bootstrap.servers": broker.bootstrap}) as producer:
        for value in (b'{"number": 1}', b"no JSON", b'{"name": 2}', b'{"number": 3}'):
            producer.append("orders-mixed", value, headers={"kept": b"1"})
    assert run("dead_letters.py") == ["order of 1", "order of 3"]
    letters = values_of(broker, "orders-dead", 2)
    assert [record.value for record in letters] == [b"no JSON", b'{"name": 2}']
    assert [record.headers[0] for record in letters] == [("kept", b"1")] * 2
    letters_read = [dead_letter_of(record.headers) for record in letters]
    assert [(one.offset, one.stage, one.class_name) for one in letters_read] == [
        (1, "decode", "JSONDecodeError"),
        (2, "process", "KeyError"),
    ]


def test_records_since_a_time_are_printed(broker: Broker, run: Any) -> None:
    with Producer({"bootstrap.servers": broker.bootstrap}) as producer:
        for hour in range(4):
            producer.append("hours", b"%d" % hour, timestamp_ms=hour * 3_600_000)
    since = "1970-01-01T01:30+00:00"
    assert run("since_a_time.py", "hours", since) == ["7200000 2", "10800000 3"]


@pytest.mark.long
def test_a_slow_sink_gets_all(run: Any) -> None:
    assert set(run("slow_sink.py")) == {f"stored {order}" for order in ORDERS}


@pytest.mark.long
def test_workers_share_the_records(broker: Broker) -> None:
    lines = start(broker, "several_workers.py").communicate(timeout=100)[0].splitlines()
    assert Counter(line.partition(": ")[2] for line in lines) == Counter(ORDERS)


def test_a_signal_ends_a_program_after_its_record(broker: Broker) -> None:
    with Admin({"bootstrap.servers": broker.bootstrap}) as admin:
        admin.delete_groups(["graceful"])  # a second try of this test reads from the start as well
    with start(broker, "graceful_stop.py") as program:
        assert program.stdout is not None
        try:
            assert program.stdout.readline().startswith("done")
            program.send_signal(signal.SIGTERM)
            # `communicate` would lose the lines that came with the first one: they are in the buffer of `stdout`.
            rest = program.stdout.read().splitlines()
            assert program.wait(100) == 0
        finally:
            program.kill()
    assert rest[-1] == "left the group"
    with Admin({"bootstrap.servers": broker.bootstrap}) as admin:
        assert admin.describe_groups(["graceful"])["graceful"].members == []
        offsets = admin.list_group_offsets("graceful")
    done = [line for line in rest if line.startswith("done")]
    assert sum(one.offset for one in offsets.values()) == 1 + len(done)


def test_a_web_handler_answers_when_the_record_is_written(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAVKA_BOOTSTRAP_SERVERS", broker.bootstrap)
    app = load("web_handler.py")["app"]

    async def request(body: bytes) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = [
            {"type": "http.request", "body": body[:3], "more_body": True},
            {"type": "http.request", "body": body[3:]},
        ]
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return messages.pop(0)

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        await app({"type": "http", "path": "/clicks"}, receive, send)
        return sent

    async def main() -> list[list[dict[str, Any]]]:
        lifespan: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        said: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        server = asyncio.create_task(app({"type": "lifespan"}, lifespan.get, said.put))
        lifespan.put_nowait({"type": "lifespan.startup"})
        assert (await said.get())["type"] == "lifespan.startup.complete"
        responses = await asyncio.gather(*(request(b"click %d" % n) for n in range(3)))
        lifespan.put_nowait({"type": "lifespan.shutdown"})
        await server
        return responses

    responses = asyncio.run(main())
    assert [start["status"] for start, _ in responses] == [201] * 3
    offsets = [json.loads(body["body"])["offset"] for _, body in responses]
    records = values_of(broker, "events", 3)
    assert {records[offsets[n]].value for n in range(3)} == {b"click 0", b"click 1", b"click 2"}
    assert records[0].headers == (("path", b"/clicks"),)


def test_a_topic_becomes_a_parquet_file(run: Any, tmp_path: Path) -> None:
    assert run("to_parquet.py", "orders", str(tmp_path / "file")) == [f"rows {COUNT}"]
    column = parquet.read_table(tmp_path / "file").column("value").to_pylist()
    assert {value.decode() for value in column} == ORDERS


def rows(path: Path) -> list[str]:
    database = sqlite3.connect(path, timeout=60)
    try:
        return [text for (text,) in database.execute("SELECT text FROM orders")]
    except sqlite3.OperationalError:  # the program has not made the table yet
        return []
    finally:
        database.close()


def lines(directory: Path) -> list[str]:
    return [
        line for path in directory.glob("*.txt") for line in path.read_text().split("\n") if line
    ]


ONCE = [
    pytest.param("rows_once.py", rows, id="rows"),
    pytest.param("files_once.py", lines, id="files", marks=pytest.mark.long),
]


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker with so many orders that a program is killed among them."""
    with run_kavka(tmp_path_factory.mktemp("many"), AT_ONCE) as broker:
        write_orders(broker, "orders", partitions=4, count=MANY)
        yield broker


MANY = 4000


@pytest.mark.parametrize(("program", "found"), ONCE)
def test_kill_9_in_the_middle_loses_and_doubles_nothing(
    many: Broker, program: str, found: Callable[[Path], list[str]], tmp_path: Path
) -> None:
    place = tmp_path / "place"
    for goal in (100, 1000):
        running = start(many, program, str(place))
        wait_until(lambda: len(found(place)) >= goal)  # noqa: B023  called before the next turn
        running.kill()
        running.communicate()
        assert goal <= len(found(place)) < MANY, "it was killed in the middle"
    running = start(many, program, str(place))
    wait_until(lambda: len(found(place)) >= MANY)
    running.send_signal(signal.SIGTERM)
    running.communicate(timeout=60)
    assert running.returncode == 0
    assert Counter(found(place)) == Counter(f"order {number}" for number in range(MANY))


@pytest.mark.long
@pytest.mark.parametrize(("program", "found"), ONCE)
def test_two_workers_that_are_killed_in_turns_write_each_record_once(
    many: Broker, program: str, found: Callable[[Path], list[str]], tmp_path: Path
) -> None:
    place = tmp_path / "place"
    group = program.removesuffix(".py").replace("_", "-")
    with Admin({"bootstrap.servers": many.bootstrap}) as admin:
        admin.remove_members(group, [f"{group}-1"])
    running = {name: start(many, program, str(place), WORKER=name) for name in ("a", "b")}
    for turn, goal in enumerate((300, 700, 1100, 1500, 1900, 2300)):
        wait_until(lambda: len(found(place)) >= goal)  # noqa: B023  called before the next turn
        name = "ab"[turn % 2]
        running[name].kill()
        running[name].communicate()
        running[name] = start(many, program, str(place), WORKER=name)
    wait_until(lambda: len(found(place)) >= MANY)
    for worker in running.values():
        worker.send_signal(signal.SIGTERM)
        worker.communicate(timeout=60)
    assert Counter(found(place)) == Counter(f"order {number}" for number in range(MANY))
