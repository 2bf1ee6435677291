"""The exactly-once sink without Spark: its drivers and tasks on our broker crash at random, and come back too late."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa
import pytest

from kavka.client.blocking import Admin, Producer
from kavka.spark.connection import Connection
from kavka.spark.errors import ConnectorError
from kavka.spark.exactly_once.commit_protocol import Done, Plan, decision_of
from kavka.spark.exactly_once.decisions import Batch, SinkNames
from kavka.spark.exactly_once.driver import Driver
from kavka.spark.exactly_once.task_writer import run_task
from kavka.spark.sink_options import SinkOptions, parse_sink
from kavka_compat.asking import until
from kavka_compat.killable import run_killable
from support.spark.crash_points import CrashingDriver, crash_points
from support.spark.killing import assert_each_once, committed
from support.spark.topic_filling import make_topic, make_topic_at
from support.waiting import wait_until

if TYPE_CHECKING:
    from kavka_compat.brokers import Broker

pytestmark = [pytest.mark.compat, pytest.mark.timeout(400)]

PARTITIONS = 2
ROWS = 12
SEEDS = 2
BATCHES = 20


T = TypeVar("T")


class Crash(Exception):
    """The crash of a process."""


@dataclass
class Query:
    """A query as Spark runs it: batches in order, each again until it is committed and that is written down."""

    bootstrap: str
    topic: str
    rng: random.Random
    next: int = 0
    steps_left: int = 1_000_000
    more: dict[str, str] = field(default_factory=dict)
    """Options."""
    unfinished: list[tuple[Plan, list[Done]]] = field(default_factory=list)
    """Commits that were not made when their driver was thought to be dead."""

    def options(self) -> SinkOptions:
        given = {"kafka.bootstrap.servers": self.bootstrap, "topic": self.topic}
        return parse_sink(
            given | {"deliveryGuarantee": "exactly-once", "sinkId": self.topic} | self.more
        )

    async def reach(self, step: str) -> None:
        self.steps_left -= 1
        if self.steps_left == 0:
            raise Crash(step)

    def drive(self, call: str, *arguments: object) -> Plan:
        async def work() -> Plan:
            names = SinkNames(self.topic)
            async with CrashingDriver(self.reach, self.options().client, names) as driver:
                found: Plan = await getattr(driver, call)(*arguments)
                return found

        return asyncio.run(work())

    def tasks(self, plan: Plan, number: int) -> list[Done]:
        """Write the rows of a batch, split again each time it is run."""
        rows = [str(number * ROWS + row) for row in range(ROWS)]
        split: list[list[str]] = [[] for _ in range(self.rng.randrange(1, 4))]
        for row in rows:
            self.rng.choice(split).append(row)
        return self.run_tasks(plan, number, split)

    def run_tasks(self, plan: Plan, number: int, split: list[list[str]]) -> list[Done]:
        batch = Batch("query", number)
        with crash_points(self.reach):
            return [
                run_task(pieces(part), self.options(), plan, batch, task)
                for task, part in enumerate(split)
            ]

    def run_batch(self) -> None:
        plan = self.drive("plan", False)
        if self.rng.random() < 0.2:
            self.tasks(plan, self.next)  # attempts with lost messages
        done = self.tasks(plan, self.next)
        if self.rng.random() < 0.15:
            self.unfinished.append((plan, done))
            raise Crash("the driver stands still")
        self.commit(plan, done)
        if self.rng.random() < 0.15:
            raise Crash("before Spark has noted it")
        self.next += 1

    def commit(self, plan: Plan, done: list[Done]) -> None:
        decision = decision_of(done)
        if decision is not None:
            self.drive("commit", plan, decision)


def pieces(values: list[str]) -> Iterator[pa.RecordBatch]:
    for first in range(0, len(values), 5):
        some = pa.array(values[first : first + 5])
        yield pa.record_batch([some], ["value"])


def open_transactions(broker: Broker, sink: str) -> list[str]:
    with Admin({"bootstrap.servers": broker.bootstrap}) as admin:
        found = admin.list_transactions(states=["Ongoing"])
    names = [one.transactional_id for listings in found.values() for one in listings]
    return [name for name in names if name.startswith(sink)]


@pytest.mark.parametrize("seed", range(SEEDS))
def test_each_row_is_there_once_after_any_crash_or_late_message(
    kavka_broker: Broker, fresh_name: str, seed: int
) -> None:
    make_topic(kavka_broker, fresh_name, PARTITIONS)
    query = Query(kavka_broker.bootstrap, fresh_name, random.Random(seed))
    crashes = 0
    while query.next < BATCHES:
        query.steps_left = query.rng.randrange(3, 60)
        try:
            query.run_batch()
        except* Crash:
            crashes += 1
        query.steps_left = 1_000_000
        if query.unfinished and query.rng.random() < 0.5:
            # At once it may still be the driver, and then it decides.
            with suppress(ConnectorError):
                query.commit(*query.unfinished.pop())
    assert crashes > BATCHES / 4
    query.drive("plan", False)
    assert open_transactions(kavka_broker, fresh_name) == []
    found = committed(kavka_broker.bootstrap, fresh_name, PARTITIONS)
    assert_each_once(found, [str(number) for number in range(BATCHES * ROWS)])


def test_planning_writing_and_committing_wait_for_a_broker_that_is_started_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with run_killable(tmp_path, 1, {}) as cluster, ThreadPoolExecutor(1) as pool:

        def while_it_is_away(step: Callable[[], T]) -> T:
            cluster.kill(0)
            caplog.clear()
            result = pool.submit(step)
            until(lambda: "could not be established" in caplog.text or result.done())
            cluster.start(0)
            return result.result(60)

        make_topic_at(cluster.bootstrap, "t", PARTITIONS)
        query = Query(cluster.bootstrap, "t", random.Random(0))
        plan = while_it_is_away(lambda: query.drive("plan", False))
        done = while_it_is_away(lambda: query.run_tasks(plan, 0, [["a", "b"], ["c"]]))
        while_it_is_away(lambda: query.commit(plan, done))
        servers = {"bootstrap.servers": cluster.bootstrap}
        while_it_is_away(lambda: Connection(servers, retries=True)).close()  # of a task that reads
        assert_each_once(committed(cluster.bootstrap, "t", PARTITIONS), ["a", "b", "c"])


def test_a_topic_with_other_records_is_refused(kavka_broker: Broker, fresh_name: str) -> None:
    make_topic(kavka_broker, f"{fresh_name}-decisions", 1)
    with Producer({"bootstrap.servers": kavka_broker.bootstrap}) as producer:
        producer.send(f"{fresh_name}-decisions", b"something else")
    query = Query(kavka_broker.bootstrap, fresh_name, random.Random(0))
    with pytest.raises(ConnectorError, match="is not of this sink"):
        query.drive("plan", False)


def test_a_topic_of_decisions_with_several_partitions_is_refused(
    kavka_broker: Broker, fresh_name: str
) -> None:
    make_topic(kavka_broker, f"{fresh_name}-decisions", 2)
    query = Query(kavka_broker.bootstrap, fresh_name, random.Random(0))
    with pytest.raises(ConnectorError, match="must have one partition"):
        query.drive("plan", False)


def test_a_batch_is_not_decided_when_a_part_has_timed_out(
    kavka_broker: Broker, fresh_name: str
) -> None:
    make_topic(kavka_broker, fresh_name, PARTITIONS)
    query = Query(kavka_broker.bootstrap, fresh_name, random.Random(0))
    plan = query.drive("plan", False)
    done = query.tasks(plan, 0)
    decision = decision_of(done)
    assert decision is not None
    query.drive("abort", list(decision.parts[:1]))  # as the broker does when the time is over
    with pytest.raises(ConnectorError, match=r"aborted before its batch was finished"):
        query.commit(plan, done)
    assert committed(kavka_broker.bootstrap, fresh_name, PARTITIONS) == []
    query.run_batch()
    found = committed(kavka_broker.bootstrap, fresh_name, PARTITIONS)
    assert_each_once(found, [str(number) for number in range(ROWS)])


def test_a_part_is_not_taken_for_aborted_by_a_coordinator_that_is_behind(
    kavka_broker: Broker, fresh_name: str
) -> None:
    make_topic(kavka_broker, fresh_name, PARTITIONS)
    query = Query(kavka_broker.bootstrap, fresh_name, random.Random(0))
    decision = decision_of(query.tasks(query.drive("plan", False), 0))
    assert decision is not None
    part = decision.parts[0]
    later = replace(part, state=part.state._replace(epoch=part.state.epoch + 1))
    query.more = {"kafka.max.block.ms": "1500"}
    with pytest.raises(ConnectorError, match="knows of no abort"):
        query.drive("_end", later)
    assert part.transactional_id in open_transactions(kavka_broker, fresh_name)


def torn(broker: Broker, topic: str) -> tuple[Query, list[list[str]]]:
    """Decide a batch of two tasks, lose one of them to its timeout, and return how the rows were split."""
    make_topic(broker, topic, PARTITIONS)
    query = Query(broker.bootstrap, topic, random.Random(0))
    query.more = {"kafka.transaction.timeout.ms": "5000"}
    split = [["a", "b"], ["c", "d"]]
    plan = query.drive("plan", False)
    done = query.run_tasks(plan, 0, split)
    decision = decision_of(done)
    assert decision is not None

    async def lose() -> None:
        driver = Driver(query.options().client, SinkNames(topic))
        async with driver, driver._driver() as producer:
            producer.resume_transactions(plan.driver)
            await driver._note(producer, decision)  # and there the driver dies, but for one part
            await driver._end(decision.parts[0])

    asyncio.run(lose())
    wait_until(lambda: not open_transactions(broker, topic), 60)
    assert_each_once(committed(broker.bootstrap, topic, PARTITIONS), split[0])
    return query, split


def test_a_part_that_timed_out_after_the_decision_is_written_again_by_the_same_batch(
    kavka_broker: Broker, fresh_name: str
) -> None:
    query, split = torn(kavka_broker, fresh_name)
    plan = query.drive("plan", False)
    query.commit(plan, query.run_tasks(plan, 0, split))
    found = committed(kavka_broker.bootstrap, fresh_name, PARTITIONS)
    assert_each_once(found, ["a", "b", "c", "d"])
    again = query.drive("plan", False)
    assert again.decided is not None
    assert again.decided.is_whole


@pytest.mark.parametrize(
    "split", [[["a", "c"], ["b", "d"]], [["a", "b"], ["c", "e"]], [["a", "b", "c", "d"]]]
)
def test_a_part_that_timed_out_after_the_decision_stops_another_batch(
    kavka_broker: Broker, fresh_name: str, split: list[list[str]]
) -> None:
    query, first = torn(kavka_broker, fresh_name)
    plan = query.drive("plan", False)
    with pytest.raises(ConnectorError, match="not the same when it is run again"):
        query.commit(plan, query.run_tasks(plan, 0, split))
    assert_each_once(committed(kavka_broker.bootstrap, fresh_name, PARTITIONS), first[0])
