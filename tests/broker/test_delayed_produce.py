"""Responses to a producer with acks=all: `Produce` over partitions with high watermarks that the test moves."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable, Coroutine, Sequence
from types import SimpleNamespace
from typing import Any, NoReturn, cast

import pytest

from kavka.broker.api import produce
from kavka.broker.lazy import Lazy
from kavka.broker.partitions.current_leaders import CurrentLeaders
from kavka.broker.partitions.replica import AppendOutcome
from kavka.broker.partitions.traffic import TopicTraffic
from kavka.broker.produce.delayed_produce import DelayedProduce
from kavka.broker.requests.context import RequestContext
from kavka.broker.requests.purgatory import Purgatory
from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.net.clock import SystemClock
from kavka.wire.codec import decode
from kavka.wire.frame import RequestHeader
from kavka.wire.messages.produce import (
    ProduceResponse,
)
from support.produce import produce_request
from support.waiting import until

_VERSION = 8
_HEAD_BYTES = 8  # length and correlation id


class Replica:
    """A leader's replica in which a batch ends at 1: `verdict` is what the in-sync set says of it."""

    def __init__(self, number: int, verdict: ErrorCode | None) -> None:
        self.topic_partition = TopicPartition("t", number)
        self.verdict = verdict
        self.is_offline = False
        self.traffic = TopicTraffic()
        mark = 0 if verdict is None else 1
        self.partition = SimpleNamespace(high_watermark=mark, acknowledged=self._acknowledged)

    def begin_append(self, *_: Any) -> AppendOutcome:
        return AppendOutcome(ErrorCode.NONE, 0, -1, 0, 1, leader_epoch=7)

    def _acknowledged(self, end_offset: int, leader_epoch: int) -> ErrorCode | None:
        assert (end_offset, leader_epoch) == (1, 7)
        return self.verdict


def _missing(part: str) -> NoReturn:
    raise AssertionError(f"nothing here needs {part}")


def handle(
    replicas: Sequence[Replica], purgatory: Purgatory, verifier: Any = None, **changes: Any
) -> Any:
    """Give one request with a batch for each of two partitions to the handler."""
    replica_manager: Any = SimpleNamespace(
        rounds=None,
        find=lambda topic_partition: replicas[topic_partition.partition],
    )
    metadata: Any = SimpleNamespace()
    handler = produce.Handler(
        replica_manager,
        purgatory,
        Lazy(lambda: _missing("batch checks")),
        Lazy(lambda: verifier),
        Lazy(lambda: CurrentLeaders(metadata, replica_manager)),
    )
    batches = [(index, memoryview(b"batch")) for index in (0, 1)]
    request = produce_request("t", batches, **{"timeout_ms": 0} | changes)
    header = RequestHeader(0, _VERSION, 5, "test", 0)
    context = SimpleNamespace(
        version=_VERSION, header=header, listener_name="PLAINTEXT", authorizer=None
    )
    return handler.handle(cast(RequestContext, context), request)


class Leader:
    """A broker that leads two partitions, and one request to both."""

    def __init__(
        self,
        *,
        timeout_ms: int = 60_000,
        room: int = 10,
        verdicts: tuple[ErrorCode | None, ErrorCode | None] = (None, None),
        disk_fails: bool = False,
    ) -> None:
        self.replicas = [Replica(number, verdict) for number, verdict in enumerate(verdicts)]
        self.purgatory = Purgatory(SystemClock(), room)
        if disk_fails:
            self.replicas[1].begin_append = self._fail  # type: ignore[method-assign]
        response = handle(self.replicas, self.purgatory, timeout_ms=timeout_ms)
        assert isinstance(response, DelayedProduce)
        self.deferred = response
        self.woken: list[None] = []
        self.deferred.call_on_wake(lambda _deferred: self.woken.append(None))

    def _fail(self, *_: Any) -> AppendOutcome:
        """Append to the second partition: both are in the directory that fails by it, and waiting requests fail."""
        for replica in self.replicas:
            replica.is_offline = True
            self.purgatory.check_and_complete(replica.topic_partition)
        return AppendOutcome(ErrorCode.KAFKA_STORAGE_ERROR)

    def settle(self, number: int, verdict: ErrorCode) -> None:
        self.replicas[number].verdict = verdict
        self.purgatory.check_and_complete(TopicPartition("t", number))

    def outcomes(self) -> list[tuple[ErrorCode, int, str | None]]:
        """Return error, base offset and message of each partition."""
        made = self.deferred.take()
        if isinstance(made, bytearray):
            made = decode(ProduceResponse, _VERSION, memoryview(made)[_HEAD_BYTES:])
        (topic,) = made.responses
        return [
            (ErrorCode.of(p.error_code), p.base_offset, p.error_message)
            for p in topic.partition_responses
        ]


def play(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(story())


_WRITTEN = (ErrorCode.NONE, 0, None)


@pytest.mark.parametrize("first", [0, 1])
def test_answered_when_all_partitions_are_replicated(first: int) -> None:
    async def story() -> None:
        leader = Leader()
        leader.settle(first, ErrorCode.NONE)
        assert not leader.woken
        leader.settle(1 - first, ErrorCode.NONE)
        assert leader.woken
        assert leader.outcomes() == [_WRITTEN, _WRITTEN]
        assert len(leader.purgatory) == 0

    play(story)


@pytest.mark.parametrize(
    "code", [ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.NOT_LEADER_OR_FOLLOWER]
)
def test_a_refused_batch_is_reported_beside_an_acknowledged_one(
    code: ErrorCode,
) -> None:
    async def story() -> None:
        leader = Leader()
        leader.settle(0, ErrorCode.NONE)
        leader.settle(1, code)
        assert leader.woken
        assert leader.outcomes() == [_WRITTEN, (code, -1, code.message)]

    play(story)


@pytest.mark.parametrize("first", [0, 1])
def test_what_became_of_a_batch_is_settled_once(first: int) -> None:
    async def story() -> None:
        leader = Leader()
        leader.settle(first, ErrorCode.NONE)
        leader.settle(first, ErrorCode.NOT_LEADER_OR_FOLLOWER)  # another leads; it has the batch
        leader.settle(1 - first, ErrorCode.NONE)
        assert leader.outcomes() == [_WRITTEN, _WRITTEN]

    play(story)


def test_a_partition_that_had_all_replicas_at_once_is_not_waited_for() -> None:
    """One replica, or a batch that came twice: what becomes of its partition later is nothing to this request."""

    async def story() -> None:
        leader = Leader(verdicts=(None, ErrorCode.NONE))
        leader.replicas[1].verdict = ErrorCode.NOT_LEADER_OR_FOLLOWER
        leader.purgatory.check_and_complete(TopicPartition("t", 1))
        assert not leader.woken
        leader.settle(0, ErrorCode.NONE)
        assert leader.outcomes() == [_WRITTEN, _WRITTEN]

    play(story)


def test_a_disk_that_fails_under_the_second_batch_of_a_request_is_reported_at_once() -> None:
    async def story() -> None:
        leader = Leader(disk_fails=True)
        assert leader.woken
        assert [error for error, _, _ in leader.outcomes()] == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
        assert len(leader.purgatory) == 0

    play(story)


def test_a_batch_that_was_cut_off_while_another_was_verified_is_not_acknowledged() -> None:
    """Its offset is below the high watermark by then, of others' records."""

    async def story() -> None:
        replicas = [Replica(0, None), Replica(1, None)]
        verified: asyncio.Future[AppendOutcome] = asyncio.get_running_loop().create_future()

        def append(
            replica: Replica, name: str, header: Any, batch: tuple[Any, int, int], *, is_only: bool
        ) -> Any:
            assert not is_only
            return verified if replica is replicas[1] else replica.begin_append(*batch)

        verifier = SimpleNamespace(append=append, flush=lambda: None)
        purgatory = Purgatory(SystemClock(), 10)
        waiting = asyncio.ensure_future(
            handle(replicas, purgatory, verifier, transactional_id="x", timeout_ms=60_000)
        )
        await asyncio.sleep(0)
        replicas[0].verdict = ErrorCode.NOT_LEADER_OR_FOLLOWER
        replicas[0].partition.high_watermark = 1
        verified.set_result(AppendOutcome(ErrorCode.NOT_ENOUGH_REPLICAS))
        rows = (await waiting).take().responses[0].partition_responses
        codes = [ErrorCode.of(row.error_code) for row in rows]
        assert codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS]

    play(story)


def test_a_response_that_was_given_leaves_nothing_to_the_garbage_collector() -> None:
    async def story() -> None:
        leader = Leader()
        gc.collect()
        gc.disable()
        try:
            kept = weakref.ref(leader.deferred._respond)  # and with it what the response is made of
            leader.settle(0, ErrorCode.NONE)
            leader.settle(1, ErrorCode.NONE)
            leader.outcomes()
            del leader.deferred
            assert kept() is None
        finally:
            gc.enable()

    play(story)


def test_what_waits_still_when_its_time_is_over_timed_out() -> None:
    async def story() -> None:
        leader = Leader(timeout_ms=1)
        leader.replicas[1].verdict = ErrorCode.NONE
        await until(lambda: leader.woken)
        late = ErrorCode.REQUEST_TIMED_OUT
        assert leader.outcomes() == [(late, -1, late.message), _WRITTEN]

    play(story)


def test_one_more_than_may_wait_is_answered_at_once() -> None:
    async def story() -> None:
        leader = Leader(room=0)
        assert leader.woken
        assert [error for error, _, _ in leader.outcomes()] == [ErrorCode.REQUEST_TIMED_OUT] * 2
        leader.deferred.cancel()

    play(story)


def test_nothing_waits_for_a_client_that_is_gone() -> None:
    async def story() -> None:
        leader = Leader()
        leader.deferred.cancel()
        assert len(leader.purgatory) == 0
        leader.settle(0, ErrorCode.NONE)
        leader.settle(1, ErrorCode.NONE)
        assert not leader.woken

    play(story)
