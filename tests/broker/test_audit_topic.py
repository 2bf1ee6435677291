"""The audit in a topic: the file's lines, never more than memory allows, and none about the topic itself."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from kavka.broker.configs.broker_config import BrokerConfig
from kavka.broker.requests.session import Session
from kavka.broker.security.audit_topic import AuditTopic
from kavka.errors import ErrorCode, KafkaError
from kavka.settings.declaration import InvalidSetting
from kavka.simulation.loop import SimLoop
from support.access import SETTINGS, connected_as
from support.one_broker import Run, Served
from support.waiting import until


def simulated(work: Callable[[], Coroutine[Any, Any, None]]) -> float:
    """Run in virtual time; return how many seconds passed."""
    with closing(SimLoop()) as loop:
        loop.run(work())
        return loop.time()


class Log:
    """A stand-in for the leader: it refuses on request, and keeps what it takes."""

    def __init__(self, *responses: ErrorCode | Exception, most_bytes: int = 1 << 30) -> None:
        self.responses = list(responses)
        self.most_bytes = most_bytes
        self.lines: list[str] = []
        self.batches = 0

    async def write(self, lines: Sequence[bytes]) -> ErrorCode:
        response = self.responses.pop(0) if self.responses else ErrorCode.NONE
        if isinstance(response, Exception):
            raise response
        if response is not ErrorCode.NONE:
            return response
        if sum(map(len, lines)) > self.most_bytes:
            return ErrorCode.MESSAGE_TOO_LARGE
        self.batches += 1
        self.lines += [line.decode() for line in lines]
        return ErrorCode.NONE

    def topic(self) -> AuditTopic:
        return AuditTopic("audit", self.write, lambda count: f"{count} dropped")


async def drained(topic: AuditTopic) -> None:
    assert topic._task is not None
    await topic._task


def test_lines_wait_while_there_is_no_leader_and_keep_their_order() -> None:
    log = Log(*[ErrorCode.LEADER_NOT_AVAILABLE] * 3, ConnectionError("refused"), TimeoutError())

    async def work() -> None:
        topic = log.topic()
        topic.add(["a", "b"])
        topic.add(["c"])
        await drained(topic)
        assert log.lines == ["a", "b", "c"]
        assert (topic.written, topic.dropped) == (3, 0)

    assert simulated(work) < 10


def test_what_an_operator_must_allow_is_asked_for_rarely(caplog: pytest.LogCaptureFixture) -> None:
    refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    log = Log(refused, KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED))

    async def work() -> None:
        topic = log.topic()
        topic.add(["a"])
        await drained(topic)
        assert log.lines == ["a"]

    assert simulated(work) >= 120
    said = [m for m in caplog.messages if "audit topic not written" in m]
    assert said == ["audit topic not written topic=audit reason=TOPIC_AUTHORIZATION_FAILED"]


def test_memory_is_bounded_and_what_is_dropped_is_said(caplog: pytest.LogCaptureFixture) -> None:
    log = Log(ErrorCode.LEADER_NOT_AVAILABLE)
    line = "x" * 1_000_000

    async def work() -> None:
        topic = log.topic()
        topic.add([line] * 20)
        assert (topic.waiting, topic.dropped) == (8, 12)
        await drained(topic)
        assert log.lines == [line] * 8 + ["12 dropped"]

    simulated(work)
    assert "audit lines dropped topic=audit lines=12" in caplog.messages


def test_a_topic_with_a_small_limit_gets_smaller_batches_and_loses_what_is_too_large_alone() -> (
    None
):
    log = Log(most_bytes=1000)

    async def work() -> None:
        topic = log.topic()
        topic.add(["a" * 400] * 20)
        topic.add(["b" * 2000, "c"])
        await drained(topic)
        assert log.lines == ["a" * 400] * 20 + ["c", "1 dropped"]
        assert topic.dropped == 1

    simulated(work)


def test_a_stop_writes_what_waits_and_takes_no_longer_than_a_moment() -> None:
    log = Log(ErrorCode.LEADER_NOT_AVAILABLE)

    async def work() -> None:
        topic = log.topic()
        topic.add(["a"])
        await topic.stop()  # the first attempt fails
        await topic.stop()
        assert log.lines == ["a"]

    assert simulated(work) < 5


def test_a_bug_in_one_attempt_does_not_end_the_audit() -> None:
    log = Log(RuntimeError("a bug"))

    async def work() -> None:
        topic = log.topic()
        topic.add(["a"])
        await drained(topic)
        assert log.lines == ["a"]

    simulated(work)


def test_the_topic_has_the_lines_of_the_file_and_none_about_itself(
    run: Run, tmp_path: Path
) -> None:
    path = tmp_path / "audit.json"

    async def story(served: Served) -> None:
        audit = served.broker.security.access_control.audit
        await served.create("t")
        alice = await connected_as(served, "alice")
        await alice.fetch("t")
        await until(lambda: audit.topic.written == 2)
        session = Session("SASL", "SASL_PLAINTEXT", "10.0.0.1")
        audit.authentication_failed(session, "PLAIN", "wrong password")
        await until(lambda: audit.topic.written == 3)
        await until(lambda: path.read_text().count("\n") == 3)  # a thread writes the file
        lines = path.read_text().splitlines()
        assert [record.value.decode() for record in await served.read("audit")] == lines
        events = [json.loads(line)["event"] for line in lines]
        assert events == ["administrative", "denied", "authentication_failed"]
        assert {record.key for record in await served.read("audit")} == {b"0"}
        values = served.broker.context.effective_configs.topic("audit")
        assert values["cleanup.policy"] == ["delete"]
        assert values["retention.ms"] == 90 * 24 * 3600 * 1000
        assert len(served.broker.metadata.topics["audit"].partitions) == 1
        assert (await alice.fetch("audit")).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED

    run(story, kavka__audit__log=str(path), kavka__audit__topic="audit", broker__id="0", **SETTINGS)


def test_what_is_recorded_before_a_clean_stop_is_in_the_topic(run: Run, tmp_path: Path) -> None:
    settings = {
        "kavka__audit__log": str(tmp_path / "audit.json"),
        "kavka__audit__topic": "audit",
    }

    async def first(served: Served) -> None:
        await served.create("audit")

    async def second(served: Served) -> None:
        (record,) = await served.read("audit")
        assert json.loads(record.value or b"")["subjects"] == ["audit"]

    run(first, **settings)
    run(second, **settings)


def test_a_client_that_asks_for_the_topic_first_makes_it_as_the_broker_would(
    run: Run, tmp_path: Path
) -> None:
    async def story(served: Served) -> None:
        await served.topic("audit")
        await until(lambda: "audit" in served.broker.metadata.topics)
        assert (
            served.broker.context.effective_configs.topic("audit")["retention.ms"]
            == 90 * 24 * 3600 * 1000
        )

    run(
        story,
        kavka__audit__log=str(tmp_path / "audit.json"),
        kavka__audit__topic="audit",
        num__partitions="4",
    )


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"kavka.audit.topic": "audit"}, "needs kavka.audit.log as well"),
        ({"kavka.audit.topic": "a b", "kavka.audit.log": "/a"}, "must be the name of a topic"),
        (
            {"kavka.audit.topic": "__consumer_offsets", "kavka.audit.log": "/a"},
            "must be the name of a topic of its own",
        ),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, str], reason: str) -> None:
    with pytest.raises(InvalidSetting, match=reason):
        BrokerConfig(settings)
