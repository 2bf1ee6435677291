"""The page of consumer groups while a broker is silent."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from kavka.client import Consumer, TopicPartition
from kavka.collect import groups
from kavka.collect.group_page import GroupPage
from support.moving_leaders import MovingLeaders

QUICK = {"request.timeout.ms": 50, "socket.connection.setup.timeout.ms": 50}


@pytest.mark.slow
def test_a_silent_broker_leaves_the_groups_of_the_others_on_the_page(
    tmp_path: Path, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "_TIMEOUT_MS", 2000)
    three = MovingLeaders(tmp_path / "data", 3)
    three.create("t")
    failures: list[str] = []

    async def story() -> dict[str, Any]:
        given = settings | {"group.id": "g"}
        async with Consumer(given, network=three) as consumer:
            await consumer.commit({TopicPartition("t", 0): 0})
        three.silent.add("b2")
        page = GroupPage(settings | QUICK, re.compile("g"), failures.append, three)
        await page.read()
        return {family.name: family for family in page.families()}

    try:
        families = asyncio.run(story())
    finally:
        three.close()
    lag = ('{consumergroup="g",topic="t",partition="0"}', 0)
    assert list(families["kafka_consumergroup_lag"].samples) == [lag]
    assert list(families["kavka_groups_up"].samples) == [("", 1)]
    assert list(families["kavka_groups_failures_total"].samples) == [("", 1)]
    assert failures == ["groups of broker 2: no answer in 2000 ms"]
