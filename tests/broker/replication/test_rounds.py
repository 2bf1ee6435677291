"""Large requests of a producer that pipelines wait for one another before a follower gets them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from kavka.broker.partitions.replication_rounds import Pipeline, ReplicationRounds
from kavka.wire.records.header import walk_complete
from support.follower import fetch, led, only
from support.produce import batch, produce_request
from support.waiting import until

Play = Callable[..., None]
LARGE, SMALL = 32 << 10, 200


class Connection:
    """The state of a connection, as far as rounds use it."""

    def __init__(self) -> None:
        self.pipeline: Pipeline | None = None


def judged(
    connection: Connection, in_flight: Iterable[int], size: int = LARGE, ms_each: float = 0.1
) -> list[bool]:
    """Return of each request whether it may wait."""
    rounds = ReplicationRounds()
    found = []
    for number, count in enumerate(in_flight):
        rounds.begin(connection, count, size, int(number * ms_each))
        found.append(rounds.may_wait)
        rounds.end()
        assert not rounds.may_wait
    return found


def test_a_producer_that_waits_for_each_response_is_never_waited_for() -> None:
    assert not any(judged(Connection(), [1] * 300, ms_each=50))


def test_small_requests_are_never_waited_for() -> None:
    connection = Connection()
    assert not any(judged(connection, [1, 2, 3, 4, 5] * 60, SMALL, ms_each=50))
    assert connection.pipeline is None


def test_requests_wait_until_as_many_are_in_flight_as_lately() -> None:
    connection = Connection()
    assert judged(connection, [1, 2, 3, 4, 5]) == [False] * 5
    assert judged(connection, [1, 2, 3, 4, 5]) == [True] * 4 + [False]


def test_a_producer_that_pipelines_no_more_is_waited_for_no_more() -> None:
    connection = Connection()
    judged(connection, [1, 2, 3, 4, 5])
    assert not any(judged(connection, [1] * 200)[128:])


def test_the_last_request_in_flight_waits_where_responses_take_long() -> None:
    quick, slow = Connection(), Connection()
    # Five in flight, and one each 0.5 ms, or each millisecond: a response takes 2.5 ms, or five.
    assert not any(judged(quick, [5] * 200, ms_each=0.5))
    assert all(judged(slow, [5] * 200, ms_each=1)[65:])


def test_a_waiting_fetch_gets_the_batches_of_a_round_together(play: Play) -> None:
    async def story(cluster: Any) -> None:
        peer = await led(cluster, 1)
        session = (await peer.send(fetch(offset=1))).session_id
        waiting = peer.post(fetch(session=session, epoch=1, is_quiet=True, wait=20_000))
        (watched,) = cluster.replica(1).observers
        await until(lambda: watched._session.waiting is not None)
        manager = cluster.brokers[1].replica_manager
        manager.rounds.may_wait = True
        cluster.replica(1).append(memoryview(bytearray(batch(b"one"))), -1, 9)
        await asyncio.sleep(0)
        cluster.replica(1).append(memoryview(bytearray(batch(b"two"))), -1, 9)
        manager.rounds.end()
        async with asyncio.timeout(60):
            assert len(walk_complete(only(await waiting).records)) == 2

    play(story)


def test_the_requests_of_a_pipeline_are_judged_until_they_are_appended(play: Play) -> None:
    async def story(cluster: Any) -> None:
        peer = await led(cluster, 1)
        await peer.send(fetch(offset=1))
        rounds = cluster.brokers[1].replica_manager.rounds
        judgements: list[bool] = []

        class Observer:
            def notify(self, *, can_wait: bool = False) -> None:
                judgements.append(rounds.may_wait)

        cluster.replica(1).observers[Observer()] = None
        requests = [produce_request("t", [(0, batch(b"x" * 10_000))], acks=-1) for _ in range(3)]
        for turn in (1, 2):
            posted = [peer.post(request, 9) for request in requests]
            await until(lambda turn=turn: len(judgements) == 3 * turn)  # type: ignore[misc]
            end = cluster.replica(1).log.log_end_offset
            await peer.send(fetch(offset=end))
            await asyncio.gather(*posted)
        assert not rounds.may_wait
        assert True in judgements[3:]
        assert True not in judgements[:3]

    play(story)
