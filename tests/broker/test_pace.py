"""The pace of a request and the memory of all large ones, on a clock of the test's own."""

from __future__ import annotations

import asyncio

import pytest

from kavka.broker.pace import UNPACED, Pace
from kavka.broker.repetitions import Repetitions, size_of
from kavka.broker.request_memory import (
    RequestMemory,
    RequestTooLarge,
    api_bound,
    check_count,
    request_bound,
)
from kavka.wire.apis import ApiKey
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
        pace = Pace(clock.tick_ms)
        assert not any(pace.is_over() for _ in range(1000))
        clock.now_ms += 2
        assert any(pace.is_over() for _ in range(32))
        await pace.rest()
        assert not any(pace.is_over() for _ in range(1000))
        assert pace.rests == 1

    asyncio.run(story())


def test_the_clock_is_read_once_in_many_steps() -> None:
    clock = HandClock()
    pace = Pace(clock.tick_ms)
    before = clock.reads
    for _ in range(3200):
        pace.is_over()
    assert clock.reads - before == 100


def test_a_rest_lets_others_run() -> None:
    async def story() -> None:
        ran = []
        asyncio.get_running_loop().call_soon(lambda: ran.append(1))
        await Pace(HandClock().tick_ms).rest()
        assert ran

    asyncio.run(story())


def test_what_is_small_never_rests() -> None:
    assert not any(UNPACED.is_over(1000) for _ in range(1000))


def test_a_frame_may_take_twenty_times_its_size_and_no_more_than_the_setting() -> None:
    metadata = api_bound(ApiKey.METADATA, 64 << 20)
    assert request_bound(0, metadata).most == 8 << 20
    assert request_bound(1 << 20, metadata).most == 28 << 20
    assert request_bound(100 << 20, metadata) == metadata
    assert metadata.most == 64 << 20
    assert api_bound(ApiKey.UPDATE_METADATA, 64 << 20).most == 256 << 20
    assert api_bound(ApiKey.FETCH, 64 << 20).most == 24 << 20
    assert api_bound(ApiKey.FETCH, 16 << 20).most == 16 << 20
    assert api_bound(ApiKey.PRODUCE, 64 << 20).most == 4 << 20


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


def test_counts_are_bounded() -> None:
    check_count("JOIN_GROUP", "protocols", 10, 10)
    with pytest.raises(RequestTooLarge, match="a JOIN_GROUP names 11 protocols, allowed are 10"):
        check_count("JOIN_GROUP", "protocols", 11, 10)
