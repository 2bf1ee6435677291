"""The driver of Spark's exactly-once sink reads the last decision, with any broker that claims to lead the topic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kavka.client.producer import Producer
from kavka.spark.errors import ConnectorError
from kavka.spark.exactly_once.decision_log import read_last_decision
from kavka.spark.exactly_once.decisions import Batch, Decision, encode
from support.waiting import until

Play = Callable[..., None]

PATIENCE_MS = 12_000
"""A sixth of it, two seconds, is for one attempt."""


def decision(number: int) -> Decision:
    return Decision(Batch("query", number), 1, ())


def by_way_of(cluster: Any, number: int) -> dict[str, str]:
    return {"bootstrap.servers": f"127.0.0.1:{cluster.ports[number]}"}


async def one_broker(cluster: Any) -> dict[str, str]:
    await cluster.start(1)
    await cluster.leader_and_isr(1, isr=[1], replicas=[1])
    return by_way_of(cluster, 1)


@pytest.mark.slow
@pytest.mark.parametrize("missed", [1, 40])
def test_a_driver_does_not_take_the_last_decision_from_a_deposed_leader(
    play: Play, missed: int
) -> None:
    async def story(cluster: Any) -> None:
        await cluster.start(1, 2)
        await cluster.leader_and_isr(1, isr=[1, 2], replicas=[1, 2])
        await cluster.produce(1, encode(decision(0)))
        await until(lambda: cluster.replica(2).log.log_end_offset == 1)
        await cluster.leader_and_isr(2, isr=[2], to=[2])  # broker 1 has not heard
        for number in range(missed):
            await cluster.produce(2, encode(decision(1 + number)))  # acknowledged: it is decided
        assert await read_last_decision(by_way_of(cluster, 1), "t", PATIENCE_MS) == decision(missed)

    play(story)


@pytest.mark.slow
def test_no_old_decision_is_returned_where_no_other_broker_is_known(play: Play) -> None:
    async def story(cluster: Any) -> None:
        await cluster.start(1, 2)
        await cluster.leader_and_isr(1, isr=[1, 2], replicas=[1, 2])
        await cluster.produce(1, encode(decision(0)))
        await until(lambda: cluster.replica(2).log.log_end_offset == 1)
        at = by_way_of(cluster, 1)
        await cluster.stop(2)
        with pytest.raises(TimeoutError, match="t-0 was not read in 1000 ms"):
            await read_last_decision(at, "t", 1000)

    play(story, replica__lag__time__max__ms="60000")


def test_a_log_without_barriers_is_read(play: Play) -> None:
    async def story(cluster: Any) -> None:
        at = await one_broker(cluster)
        assert await read_last_decision(at, "t", PATIENCE_MS) is None
        for number in range(3):
            await cluster.produce(1, encode(decision(number)))
        assert await read_last_decision(at, "t", PATIENCE_MS) == decision(2)

    play(story)


@pytest.mark.slow
def test_the_decision_is_found_behind_many_barriers(play: Play) -> None:
    async def story(cluster: Any) -> None:
        at = await one_broker(cluster)
        await cluster.produce(1, encode(decision(7)))
        for _ in range(18):  # more than the first window
            assert await read_last_decision(at, "t", PATIENCE_MS) == decision(7)

    play(story)


@pytest.mark.parametrize("value", [b"something else", None])
def test_a_record_that_is_no_decision_is_refused(play: Play, value: bytes | None) -> None:
    async def story(cluster: Any) -> None:
        at = await one_broker(cluster)
        await cluster.produce(1, encode(decision(7)))
        async with Producer(at) as producer:
            await producer.send("t", value, b"decision", partition=0)
        with pytest.raises(ConnectorError, match="is not of this sink"):
            await read_last_decision(at, "t", PATIENCE_MS)

    play(story)
