"""The pace of a request and the memory of all large ones, on a clock of the test's own."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from kavka.broker.api import alter_client_quotas
from kavka.broker.requests.memory import (
    RequestMemory,
    RequestTooLarge,
    api_bound,
    check_count,
    request_bound,
)
from kavka.broker.requests.pace import UNPACED, Slices
from kavka.broker.requests.repetitions import Repetitions, size_of
from kavka.errors import ErrorCode
from kavka.wire.apis import ApiKey
from kavka.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntity,
    AlterClientQuotasRequestEntry,
)
from kavka.wire.messages.describe_groups import (
    DescribeGroupsResponseGroup,
    DescribeGroupsResponseMember,
)


class HandClock:
    def __init__(self) -> None:
        self.now_ms = 0
        self.reads = 0

    def tick_ms(self) -> int:
        self.reads += 1
        return self.now_ms


def test_time_is_over_after_two_milliseconds_and_begins_again_with_a_rest() -> None:
    async def story() -> None:
        clock = HandClock()
        pace = Slices(clock.tick_ms).pace()
        assert not any(pace.is_over() for _ in range(1000))
        clock.now_ms += 2
        assert any(pace.is_over() for _ in range(32))
        await pace.rest()
        assert not any(pace.is_over() for _ in range(1000))
        assert pace.rests == 1

    asyncio.run(story())


def test_the_clock_is_read_once_in_many_steps() -> None:
    async def story() -> None:
        clock = HandClock()
        pace = Slices(clock.tick_ms).pace()
        before = clock.reads
        for _ in range(3200):
            pace.is_over()
        assert clock.reads - before == 100

    asyncio.run(story())


def test_a_rest_lets_others_run() -> None:
    async def story() -> None:
        ran = []
        asyncio.get_running_loop().call_soon(lambda: ran.append(1))
        await Slices(HandClock().tick_ms).pace().rest()
        assert ran

    asyncio.run(story())


class Iterations:
    """The work that paced requests do in each iteration of a loop; a step of work takes a millisecond."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.slices = Slices(self.clock.tick_ms)
        self.worked: list[list[str]] = [[]]
        self._is_over = False

    def count(self) -> None:
        """Begin a list for each iteration."""
        self.worked.append([])
        if not self._is_over:
            asyncio.get_running_loop().call_soon(self.count)

    async def work(self, name: str, steps: int) -> None:
        pace = self.slices.pace()
        for _ in range(steps):
            self.worked[-1].append(name)
            self.clock.now_ms += 1
            if pace.is_over(32):
                await pace.rest()

    def run(self, *requests: tuple[str, int]) -> list[list[str]]:
        """Return the work of each iteration in which there was any, of requests that arrive together."""

        async def main() -> None:
            self.count()
            await asyncio.gather(*(self.work(*request) for request in requests))
            self._is_over = True

        asyncio.run(main())
        return [worked for worked in self.worked if worked]


def test_requests_that_arrive_together_share_the_time_of_an_iteration() -> None:
    worked = Iterations().run(*((str(number), 4) for number in range(20)))
    first, *others = worked
    assert len(first) == 2 + 19  # each does a step before it learns that the time is over
    assert all(len(each) <= 3 for each in others)
    assert sum(map(len, worked)) == 80


def test_requests_are_resumed_in_turn() -> None:
    order = [name for each in Iterations().run(("a", 7), ("b", 7), ("c", 3))[1:] for name in each]
    assert "".join(order) == "aabbccaabbabb"


def test_a_request_that_is_given_up_while_it_rests_does_not_hold_up_others() -> None:
    async def story() -> None:
        slices = Slices(HandClock().tick_ms)
        rests = [asyncio.ensure_future(slices.rest()) for _ in range(4)]
        await asyncio.sleep(0)
        rests[0].cancel()
        rests[2].cancel()
        done, _ = await asyncio.wait(rests)
        assert [rest.cancelled() for rest in rests] == [True, False, True, False]
        assert len(done) == 4

    asyncio.run(story())


def test_a_request_that_is_given_up_when_it_is_resumed_does_not_hold_up_others() -> None:
    async def story() -> None:
        slices = Slices(HandClock().tick_ms)
        first, second = (asyncio.ensure_future(slices.rest()) for _ in range(2))
        await asyncio.sleep(0)  # both rest
        await asyncio.sleep(0)  # the first is resumed, and does not run before it is given up
        first.cancel()
        await second
        assert first.cancelled()

    asyncio.run(story())


def test_what_is_small_never_rests() -> None:
    assert not any(UNPACED.is_over(1000) for _ in range(1000))


def test_a_frame_may_take_twenty_times_its_size_and_no_more_than_the_setting() -> None:
    metadata = api_bound(ApiKey.METADATA, 64 << 20)
    assert request_bound(0, metadata).max_bytes == 8 << 20
    assert request_bound(1 << 20, metadata).max_bytes == 28 << 20
    assert request_bound(100 << 20, metadata) == metadata
    assert metadata.max_bytes == 64 << 20
    assert api_bound(ApiKey.UPDATE_METADATA, 64 << 20).max_bytes == 256 << 20
    assert api_bound(ApiKey.FETCH, 64 << 20).max_bytes == 24 << 20
    assert api_bound(ApiKey.FETCH, 16 << 20).max_bytes == 16 << 20
    assert api_bound(ApiKey.PRODUCE, 64 << 20).max_bytes == 4 << 20
    assert api_bound(ApiKey.DESCRIBE_PRODUCERS, 64 << 20).max_bytes == 8 << 20


def test_large_requests_wait_for_memory_in_the_order_in_which_they_came() -> None:
    async def story() -> None:
        memory = RequestMemory(100)
        await memory.take(60)
        order: list[str] = []

        async def take(name: str, size: int) -> None:
            await memory.take(size)
            order.append(name)

        first = asyncio.ensure_future(take("first", 50))
        second = asyncio.ensure_future(take("second", 10))
        await asyncio.sleep(0)
        assert order == []  # the second would fit, and waits behind the first
        memory.give(60)
        await asyncio.gather(first, second)
        assert order == ["first", "second"]
        assert memory.in_use == 60

    asyncio.run(story())


def test_a_request_that_is_given_up_while_it_waits_takes_nothing() -> None:
    async def story() -> None:
        memory = RequestMemory(100)
        await memory.take(100)
        waiting = asyncio.ensure_future(memory.take(50))
        after = asyncio.ensure_future(memory.take(100))
        await asyncio.sleep(0)
        waiting.cancel()
        memory.give(100)
        await after
        assert memory.in_use == 100

    asyncio.run(story())


def test_a_request_that_is_larger_than_all_memory_has_it_alone() -> None:
    async def story() -> None:
        memory = RequestMemory(100)
        await memory.take(500)
        other = asyncio.ensure_future(memory.take(1))
        await asyncio.sleep(0)
        assert not other.done()
        memory.give(500)
        await other

    asyncio.run(story())


def test_rows_that_are_answered_again_and_again_are_bounded() -> None:
    member = DescribeGroupsResponseMember(member_metadata=bytes(1 << 20))
    group = DescribeGroupsResponseGroup(group_id="g", members=[member])
    assert 1 << 20 < size_of(group) < (1 << 20) + 200
    repetitions = Repetitions("DESCRIBE_GROUPS")
    for _ in range(15):
        repetitions.add(group)
    with pytest.raises(RequestTooLarge, match="a DESCRIBE_GROUPS names repeatedly"):
        repetitions.add(group)


def test_the_parts_of_one_quota_entity_are_bounded() -> None:
    async def story(parts: int) -> int:
        named = [AlterClientQuotasRequestEntity(entity_type="", entity_name="")] * parts
        request = AlterClientQuotasRequest(entries=[AlterClientQuotasRequestEntry(entity=named)])
        context: Any = SimpleNamespace(pace=UNPACED)
        registry: Any = None  # which is not asked
        (row,) = (await alter_client_quotas.handle(registry, context, request)).entries
        return row.error_code

    assert asyncio.run(story(100)) == ErrorCode.INVALID_REQUEST
    with pytest.raises(RequestTooLarge, match="names 101 parts of one entity, allowed are 100"):
        asyncio.run(story(101))


def test_counts_are_bounded() -> None:
    check_count("JOIN_GROUP", "protocols", 10, 10)
    with pytest.raises(RequestTooLarge, match="a JOIN_GROUP names 11 protocols, allowed are 10"):
        check_count("JOIN_GROUP", "protocols", 11, 10)
