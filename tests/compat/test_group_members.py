"""Members of a group as processes: they share partitions, and one takes over when the other is killed."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from kavka_compat.brokers import Broker
from kavka_compat.clients import Librdkafka, Message
from kavka_compat.processes import Running
from support.waiting import wait_until

pytestmark = pytest.mark.compat

_PARTITIONS = 4
_SOURCES = Path(__file__).parent


class Member:
    """One `kavka_compat.member` process and what it said so far."""

    def __init__(self, client: str, broker: Broker, topic: str, output: Path) -> None:
        """Start it; the group is called as the topic."""
        command = [sys.executable, "-m", "kavka_compat.member", client, broker.bootstrap]
        quiet = {"PYTHONPATH": str(_SOURCES), "PYTHONWARNINGS": "ignore"}
        self.process = Running([*command, topic, topic], output, quiet)

    def events(self, name: str) -> list[Any]:
        """Return the values of all events called `name`, in order."""
        lines = (line for line in self.process.text().splitlines(keepends=True))
        events = [json.loads(x) for x in lines if x.startswith("{") and x.endswith("\n")]
        return [event[name] for event in events if name in event]

    def owned(self) -> list[int]:
        """Return its partitions after the last rebalance."""
        assigned = self.events("assigned")
        return list(assigned[-1]) if assigned else []


@contextmanager
def _members(client: str, broker: Broker, topic: str, directory: Path) -> Iterator[list[Member]]:
    members = [Member(client, broker, topic, directory / f"member-{n}.out") for n in range(2)]
    try:
        yield members
    finally:
        for member in members:
            member.process.kill()


def _wait_until(condition: Callable[[], bool], members: list[Member], seconds: float = 90) -> None:
    wait_until(condition, seconds, lambda: "\n".join(m.process.text()[-1500:] for m in members))


@pytest.mark.parametrize(
    "client", ["confluent-kafka", pytest.param("kafka-python", marks=pytest.mark.long), "aiokafka"]
)
def test_two_members_share_partitions_and_one_takes_over_when_the_other_is_killed(
    client: str, any_broker: Broker, fresh_name: str, tmp_path: Path
) -> None:
    admin = AdminClient({"bootstrap.servers": any_broker.bootstrap})
    admin.create_topics([NewTopic(fresh_name, _PARTITIONS, 1)])[fresh_name].result(30)
    everything = set(range(_PARTITIONS))

    def produce(count: int) -> None:
        messages = [Message(b"v", b"key %d" % n) for n in range(count)]
        Librdkafka().produce(any_broker.bootstrap, fresh_name, messages, "none", True)

    with _members(client, any_broker, fresh_name, tmp_path) as members:
        first, second = members

        def shared() -> bool:
            one, two = first.owned(), second.owned()
            return len(one) == len(two) == 2 and set(one) | set(two) == everything

        def read() -> set[tuple[int, int]]:
            return {(p, o) for m in members for p, o in m.events("read")}

        _wait_until(shared, members)
        produce(200)
        _wait_until(lambda: len(read()) == 200, members)
        both = [(p, o) for m in members for p, o in m.events("read")]
        assert len(both) == 200, "a record was read by both"

        first.process.kill()
        _wait_until(lambda: set(second.owned()) == everything, members)
        produce(100)
        _wait_until(lambda: len(read()) == 300, members)
        described = admin.describe_consumer_groups([fresh_name])[fresh_name].result(30)
        assert len(described.members) == 1
        assert len(described.members[0].assignment.topic_partitions) == _PARTITIONS
