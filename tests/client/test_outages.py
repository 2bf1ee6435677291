"""Warnings of clients whose broker is away: at once, and then now and then."""

import asyncio
import logging
from typing import Any

import pytest

from kavka.client import Consumer, Producer, TopicPartition
from kavka.client.outage_warnings import OutageWarnings
from support.faulty_broker import HOST, FaultyBroker
from support.waiting import until

log = logging.getLogger("kavka.client.test")


class ManualClock:
    """A clock that is set."""

    ms = 0

    def now_ms(self) -> int:
        return self.ms

    def tick_ms(self) -> int:
        return self.ms

    def work_ns(self) -> int:
        return 0


def test_a_failure_is_said_at_once_and_its_repetitions_are_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = ManualClock()
    warnings = OutageWarnings(clock)
    for clock.ms in (0, 500, 9_999, 10_000, 10_500, 30_000, 60_000):
        warnings.warn(log, "broker not reached broker=1", "refused")
    warnings.warn(log, "broker not reached broker=2", "refused")
    assert [record.getMessage() for record in caplog.records] == [
        "broker not reached broker=1 reason=refused",
        "broker not reached broker=1 reason=refused not_logged_since_last=2",
        "broker not reached broker=1 reason=refused not_logged_since_last=1",
        "broker not reached broker=1 reason=refused",
        "broker not reached broker=2 reason=refused",
    ]


@pytest.mark.parametrize("client_class", [Producer, Consumer])
def test_attempts_in_an_outage_are_no_warning_each(
    broker: FaultyBroker,
    settings: dict[str, Any],
    client_class: type[Producer | Consumer],
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        async with client_class(settings, network=broker) as client:
            if isinstance(client, Producer):
                await client.send("t", b"before")
                client.append("t", b"meanwhile")
            else:
                client.assign([TopicPartition("t", 0)])
            refused = broker.refused
            broker.kill(HOST)
            await until(lambda: broker.refused > refused + 20)
            broker.is_down = False

    asyncio.run(scenario())
    warned = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert warned
    assert len(warned) == len({text.split(" reason=")[0] for text in warned}), warned
