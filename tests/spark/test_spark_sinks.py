"""`kavka spark-sinks` on a broker of this process; drivers and tasks are the sink's own, without Spark."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

import pytest

from kavka.cli.main import main
from kavka.client import Admin, Consumer, NewTopic, Producer
from kavka.ids import TopicPartition
from kavka.spark.errors import ConnectorError
from kavka.spark.exactly_once.commit_protocol import Plan
from kavka.spark.exactly_once.decisions import Batch, Decision, Outcome, Part, SinkNames
from kavka.spark.exactly_once.driver import Driver
from kavka.testing.local_cluster import LocalCluster
from support.spark.crash_points import CrashingDriver
from support.waiting import eventually

Tool = Callable[..., str]
T = TypeVar("T")
PROCESS = "0123456789abcdef"
GONE = ("--idle-hours", "0")
PATIENCE_S = 30


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    settings = {"transaction.state.log.num.partitions": "1"}
    directory = tmp_path_factory.mktemp("cluster")
    with LocalCluster(directory, brokers=1, settings=settings) as running:
        asyncio.run(
            _with_admin(running, lambda admin: admin.create_topics([NewTopic("out", 1, 1)]))
        )
        yield running


@pytest.fixture
def tool(cluster: LocalCluster, capsys: pytest.CaptureFixture[str]) -> Tool:
    """Run the tool, insist on its exit code, return what it wrote."""

    def run(*arguments: str, code: int = 0) -> str:
        capsys.readouterr()
        done = main(["spark-sinks", "--bootstrap-server", cluster.bootstrap_servers, *arguments])
        out, err = capsys.readouterr()
        assert done == code, f"{arguments}: {out}{err}"
        return f"{out}{err}"

    return run


class Died(Exception):
    """A driver that is killed raises this."""


class Query:
    """An exactly-once query that writes batches of one record with one task."""

    def __init__(self, cluster: LocalCluster, sink: str) -> None:
        self.names = SinkNames(sink)
        self.client = {"bootstrap.servers": cluster.bootstrap_servers}
        self.dies_at = ""

    async def reach(self, step: str) -> None:
        if step == self.dies_at:
            raise Died(step)

    def driver(self) -> Driver:
        return CrashingDriver(self.reach, self.client, self.names)

    def run_batch(self, number: int, dies_at: str = "") -> None:
        """Plan, write, decide and commit; or die on the way."""
        self.dies_at = dies_at
        try:
            asyncio.run(self._run_batch(number))
        except Died:
            assert dies_at

    async def _run_batch(self, number: int) -> None:
        async with self.driver() as driver:
            plan = await driver.plan(accepts_other_writes=False)
        part = await self._write(number)
        await self.commit(plan, part, number)

    async def commit(self, plan: Plan, part: Part, number: int) -> None:
        async with self.driver() as driver:
            await driver.commit(plan, Decision(Batch("query", number), 1, (part,)))

    async def _write(self, number: int) -> Part:
        """Leave the transaction of a task prepared."""
        name = self.names.task(PROCESS, 0)
        async with Producer(self.client | {"transactional.id": name}) as producer:
            await producer.init_transactions()
            producer.begin_transaction()
            await producer.send("out", b"%s %d" % (self.names.sink.encode(), number))
            state = await producer.prepare_transaction()
        assert state is not None
        return Part(0, name, state, 1, "", Outcome.OPEN)


async def _with_admin(cluster: LocalCluster, call: Callable[[Admin], Awaitable[T]]) -> T:
    async with Admin({"bootstrap.servers": cluster.bootstrap_servers}) as admin:
        return await call(admin)


def ongoing(cluster: LocalCluster) -> list[str]:
    """Return the transactional ids of open transactions."""
    found = asyncio.run(_with_admin(cluster, lambda a: a.list_transactions(states=["Ongoing"])))
    return [one.transactional_id for listed in found.values() for one in listed]


def topics(cluster: LocalCluster) -> list[str]:
    return asyncio.run(_with_admin(cluster, lambda admin: admin.list_topics()))


def committed(cluster: LocalCluster, sink: str) -> list[bytes]:
    """Return what readers see of a sink."""

    async def read() -> list[bytes]:
        settings = {
            "bootstrap.servers": cluster.bootstrap_servers,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
        }
        topic_partition, found = TopicPartition("out", 0), []
        async with Consumer(settings) as consumer:
            consumer.assign([topic_partition])
            async with asyncio.timeout(PATIENCE_S):
                end = await until_stable(cluster, consumer, topic_partition)
                while await consumer.position(topic_partition) < end:
                    for batch in await consumer.poll(100):
                        found += [bytes(record.value or b"") for record in batch.records()]
        return [value for value in found if value.startswith(sink.encode() + b" ")]

    return asyncio.run(read())


async def until_stable(
    cluster: LocalCluster, consumer: Consumer, topic_partition: TopicPartition
) -> int:
    """Return the last stable offset, once it has passed all that is written: no transaction is open."""
    async with Consumer({"bootstrap.servers": cluster.bootstrap_servers}) as other:
        written = (await other.end_offsets([topic_partition]))[topic_partition]

    async def end() -> int:
        return (await consumer.end_offsets([topic_partition]))[topic_partition]

    return await eventually(end, lambda found: found >= written)


def test_no_sinks_are_an_empty_table(tool: Tool) -> None:
    assert re.fullmatch(r"SinkId\tIdle\tLastBatch\tOpenTransactions\tRemovable\t\n", tool("--list"))
    assert tool("--describe") == ""


def test_a_sink_is_listed_and_described(cluster: LocalCluster, tool: Tool) -> None:
    query = Query(cluster, "listed")
    query.run_batch(0)
    query.run_batch(1)
    row = next(line for line in tool("--list").splitlines() if line.startswith("listed"))
    cells = [cell.strip() for cell in row.split("\t")]
    assert cells[0] == "listed"
    assert re.fullmatch(r"0m \d+s", cells[1])
    assert cells[2:5] == ["1", "0", "no"]
    described = tool("--describe", "--sink-id", "listed")
    assert re.search(r"^\tLast written: 20\d\d-\d\d-\d\dT.*Z \(0m \d+s ago\)$", described, re.M)
    assert "\tLast batch: batch 1 of query\n" in described
    assert "may be live" in described


def test_a_topic_that_only_ends_like_one_of_a_sink_is_none(
    cluster: LocalCluster, tool: Tool
) -> None:
    async def make() -> None:
        client = {"bootstrap.servers": cluster.bootstrap_servers}
        async with Admin(client) as admin, Producer(client) as producer:
            await admin.create_topics(
                [NewTopic("board-decisions", 1, 1), NewTopic("new-decisions", 1, 1)]
            )
            await producer.send("board-decisions", b"we go on")

    asyncio.run(make())
    listed = tool("--list")
    assert "board" not in listed
    assert "new" not in listed
    for sink in ("board", "new", "nowhere"):
        refused = tool("--delete", "--sink-id", sink, "--execute", "--force", code=1)
        assert f"There is no exactly-once sink {sink}:" in refused
    assert {"board-decisions", "new-decisions"} <= set(topics(cluster))


def test_a_sink_whose_query_wrote_lately_is_kept(cluster: LocalCluster, tool: Tool) -> None:
    Query(cluster, "lively").run_batch(0)
    refused = tool("--delete", "--sink-id", "lively", "--execute", code=1)
    assert refused.startswith("The sink lively is not removed without --force. Its query wrote ")
    assert "lively-decisions" in topics(cluster)


def test_a_sink_that_is_gone_is_removed_when_that_is_said(
    cluster: LocalCluster, tool: Tool
) -> None:
    Query(cluster, "gone").run_batch(0)
    asked = ("--delete", "--sink-id", "gone", *GONE)
    assert tool(*asked) == "The sink gone would be removed; give --execute to remove it.\n"
    assert tool(*asked, "--dry-run") == tool(*asked)
    assert "gone-decisions" in topics(cluster)
    assert tool(*asked, "--execute") == "The sink gone was removed.\n"
    assert "gone-decisions" not in topics(cluster)
    assert committed(cluster, "gone") == [b"gone 0"]


@pytest.mark.parametrize(
    ("step", "reason", "seen"),
    [
        ("checked", r"Its transactions are open: {sink}-0123456789abcdef-0 \(Ongoing\)", 1),
        ("decided", r"batch 1 of query is decided and 1 transaction of it", 2),
    ],
)
def test_a_sink_with_open_transactions_is_removed_by_force_and_leaves_none(
    cluster: LocalCluster, tool: Tool, step: str, reason: str, seen: int
) -> None:
    sink = f"died-{step}"
    query = Query(cluster, sink)
    query.run_batch(0)
    query.run_batch(1, dies_at=step)
    refused = tool("--delete", "--sink-id", sink, *GONE, "--execute", code=1)
    assert re.search(reason.format(sink=sink), refused)
    assert query.names.task(PROCESS, 0) in ongoing(cluster)
    removed = tool("--delete", "--sink-id", sink, *GONE, "--execute", "--force")
    assert f"The sink {sink} was removed.\n" in removed
    assert query.names.task(PROCESS, 0) not in ongoing(cluster)
    assert query.names.topic not in topics(cluster)
    assert committed(cluster, sink) == [b"%s %d" % (sink.encode(), n) for n in range(seen)]


def test_a_query_that_was_overlooked_is_fenced(cluster: LocalCluster, tool: Tool) -> None:
    query = Query(cluster, "overlooked")
    query.run_batch(0)

    async def plan() -> Plan:
        async with query.driver() as driver:
            return await driver.plan(accepts_other_writes=False)

    planned = asyncio.run(plan())
    tool("--delete", "--sink-id", "overlooked", "--execute", "--force")
    part = asyncio.run(query._write(1))
    with pytest.raises(ConnectorError, match="has taken over"):
        asyncio.run(query.commit(planned, part, 1))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--delete",), "Option --delete takes the option: --sink-id"),
        (
            ("--list", "--execute"),
            "Options --execute, --dry-run and --force are taken with --delete only",
        ),
        (
            ("--delete", "--sink-id", "a", "--execute", "--dry-run"),
            "Only one of --execute and --dry-run can be given",
        ),
        (("--list", "--delete"), "argument --delete: not allowed with argument --list"),
        (("--list", "--idle-hours", "-1"), "'-1' is not a number of hours"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    tool: Tool, arguments: tuple[str, ...], sentence: str
) -> None:
    assert sentence in tool(*arguments, code=1)
