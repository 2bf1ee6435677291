"""First connections wait for a broker that is started again, and say at last that there is none."""

from __future__ import annotations

import asyncio

import pytest

from kavka.spark.connection_retries import connect_with_retries


def test_a_connection_is_tried_until_it_is_made() -> None:
    refusals = iter([ConnectionError("away"), ConnectionError("still away")])

    async def connect() -> str:
        for refusal in refusals:
            raise refusal
        return "connected"

    assert asyncio.run(connect_with_retries(connect, 60_000)) == "connected"


def test_the_last_reason_is_told_when_the_time_is_over() -> None:
    async def connect() -> None:
        raise ConnectionError("away")

    with pytest.raises(ConnectionError, match="away"):
        asyncio.run(connect_with_retries(connect, 20))


def test_what_is_no_matter_of_time_is_told_at_once() -> None:
    async def connect() -> None:
        raise ValueError("a wrong setting")

    with pytest.raises(ValueError, match="a wrong setting"):
        asyncio.run(connect_with_retries(connect, 60_000))
