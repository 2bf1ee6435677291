"""An iteration of the loop that takes too long is counted and logged with the API's name."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from kavka.broker.lifecycle.periodic_tasks import TaskRun
from kavka.broker.requests.context import RequestContext, Responding
from kavka.broker.requests.stalls import StallWarnings
from kavka.net.connection import Connection, Limits
from kavka.net.event_loop import Stall
from kavka.wire.apis import ApiKey
from kavka.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from support.one_broker import Served
from support.request_contexts import request_context


class Clock:
    """Time that a test sets."""

    def __init__(self) -> None:
        self.ms = 5_000

    def now_ms(self) -> int:
        return self.ms

    def tick_ms(self) -> int:
        return self.ms

    def work_ns(self) -> int:
        return self.tick_ms() * 1_000_000


def request(api: ApiKey, version: int) -> RequestContext:
    connection = Connection(None, "PLAINTEXT", Limits(1, 1))  # type: ignore[arg-type]
    connection.peer_host = "10.0.0.7"
    connection.attachment = SimpleNamespace(authorizer=None)
    return request_context(connection, api, version, 1_000)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]


def test_stall_is_logged_with_the_api_that_took_longest(caplog: pytest.LogCaptureFixture) -> None:
    stalls = StallWarnings(list, Clock())
    stalls.stalled(Stall(7_600, 7_550, request(ApiKey.DESCRIBE_CONFIGS, 4)))
    assert warnings(caplog) == [
        "event loop stalled duration_ms=7600 cpu_ms=7550 api=DescribeConfigs version=4 peer=10.0.0.7"
    ]


def test_stall_of_a_response_or_a_periodic_task_names_it(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    stalls = StallWarnings(list, clock)
    stalls.stalled(Stall(300, 290, Responding(request(ApiKey.METADATA, 12), 1_000)))
    clock.ms += 10_000
    stalls.stalled(Stall(300, 290, TaskRun("expire_producers", 1_000)))
    one, other = warnings(caplog)
    assert "api=Metadata version=12" in one
    assert "task=expire_producers" in other


def test_stall_in_the_step_of_a_task_names_the_requests_that_tasks_work_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Clock()
    working = [request(ApiKey.OFFSET_FETCH, 9), request(ApiKey.CREATE_TOPICS, 7)]
    stalls = StallWarnings(lambda: working, clock)
    stalls.stalled(Stall(300, 290, None))
    working.clear()
    clock.ms += 10_000
    stalls.stalled(Stall(300, 290, None))
    one, other = warnings(caplog)
    assert "api=OffsetFetch version=9 peer=10.0.0.7 or api=CreateTopics version=7" in one
    assert other.endswith("api=none")


def test_stalls_within_ten_seconds_of_a_warning_are_counted_in_the_next(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Clock()
    stalls = StallWarnings(list, clock)
    for _ in range(4):
        stalls.stalled(Stall(300, 290, None))
        clock.ms += 2_000
    clock.ms += 2_000
    stalls.stalled(Stall(400, 390, None))
    one, other = warnings(caplog)
    assert "not_logged" not in one
    assert "duration_ms=400" in other
    assert other.endswith("not_logged_since_last=3")


def test_large_request_shows_as_a_turn_of_its_api(run: Any) -> None:
    stalls: list[Stall] = []

    async def story(served: Served) -> None:
        served.broker.iterations.watch(1, stalls.append)
        topics = [MetadataRequestTopic(name="unknown") for _ in range(20_000)]
        await served.send(MetadataRequest(topics=topics, allow_auto_topic_creation=False))

    run(story)
    found = [stall.work for stall in stalls if isinstance(stall.work, RequestContext)]
    assert ApiKey.METADATA in [work.header.api_key for work in found]


def test_stalls_show_on_the_page_of_metrics(run: Any) -> None:
    from kavka.broker.metrics.page import families
    from kavka.metrics.families import lines

    async def story(served: Served) -> None:
        served.broker.iterations.ended(0, 500_000_000, 400_000_000)
        text = "".join(
            line for f in families(served.broker.metrics_sources(), 1.0) for line in lines(f)
        )
        assert "kavka_event_loop_stalls_total 1\n" in text
        assert "kavka_event_loop_stalled_ms_total 500\n" in text
        assert "kavka_event_loop_longest_iteration_ms 500\n" in text
        assert 'kavka_event_loop_iterationtimems{quantile="0.999"}' in text

    run(story, kavka__event__loop__stall__warn__ms="499")
