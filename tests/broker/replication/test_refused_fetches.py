"""The log lines of a follower about fetches that its leader refuses."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from kavka.broker.replication.partition_fetch_state import PartitionFetchState
from kavka.errors import ErrorCode
from support.waiting import until

Play = Callable[..., None]
PASSING, LASTING = ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.CORRUPT_MESSAGE
MINUTE_MS = 60_000


def test_a_follower_that_is_notified_before_its_leader_logs_no_warning(
    play: Play, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(cluster: Any) -> None:
        await cluster.start(1, 2)
        with caplog.at_level(logging.DEBUG, "kavka"):
            await cluster.leader_and_isr(1, isr=[1, 2], replicas=[1, 2], to=[2])
            await until(lambda: "fetch refused" in caplog.text)
            await cluster.send_state(1)
            await cluster.produce(1, b"a")
            await cluster.until_equal(1, 2)
        refused = [one for one in caplog.records if "fetch refused" in one.getMessage()]
        assert {one.levelno for one in refused} == {logging.DEBUG}

    play(story)


@pytest.mark.parametrize(
    ("error", "asked_ms", "logged_ms"),
    [
        (PASSING, [0, 1000, 4999], []),
        (PASSING, [0, 5000, 6000, 64_999, 65_000], [5000, 65_000]),
        (LASTING, [0, 1000, 59_999, 60_000], [0, 60_000]),
    ],
)
def test_a_partition_that_is_refused_on_and_on_is_logged_once_a_minute(
    play: Play, error: ErrorCode, asked_ms: list[int], logged_ms: list[int]
) -> None:
    async def story(cluster: Any) -> None:
        await cluster.start(1, 2)
        await cluster.leader_and_isr(1, isr=[1, 2], replicas=[1, 2])
        followed = PartitionFetchState(cluster.replica(2), 1000)
        assert [at for at in asked_ms if followed.note_refusal(error, at)] == logged_ms
        followed.note_response()
        later = MINUTE_MS + asked_ms[-1]
        assert followed.note_refusal(error, later) is (error is LASTING)

    play(story)
