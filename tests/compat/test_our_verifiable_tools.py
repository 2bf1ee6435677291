"""Our verifiable tools and latency tool beside Apache Kafka's: the same events with the same fields."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from kavka_compat.apache import ApacheKafka, Finished
from kavka_compat.brokers import Broker
from kavka_compat.our_tools import our_tool

pytestmark = [pytest.mark.compat, pytest.mark.long, pytest.mark.timeout(180)]


def _events(finished: Finished) -> list[Any]:
    """Return the events without what differs between runs.

    The order of an event's fields is one of that: Jackson takes it from reflection, which promises none, and one JVM in
    some prints `partition` before `topic`.
    """
    found = []
    for line in finished.lines:
        event = json.loads(line)
        event["timestamp"] = 0
        if "avg_throughput" in event:
            event["avg_throughput"] = 0
        found.append(event)
    return found


def test_events_are_those_of_kafkas_tools(any_broker: Broker, fresh_name: str) -> None:
    kafka = ApacheKafka("3.9")
    produced, read = [], []
    for run in ("theirs", "ours"):
        here = ("--bootstrap-server", any_broker.bootstrap, "--topic", f"{fresh_name}-{run}")
        sending = (*here, "--max-messages", "4", "--value-prefix", "3", "--repeating-keys", "2")
        reading = (*here, "--max-messages", "4", "--group-id", f"{fresh_name}-{run}", "--verbose")
        if run == "theirs":
            produced.append(kafka.check("kafka-verifiable-producer", *sending))
            read.append(kafka.check("kafka-verifiable-consumer", *reading))
        else:
            produced.append(our_tool("verifiable-producer", *sending))
            read.append(our_tool("verifiable-consumer", *reading))
    for theirs, ours in (produced, read):
        renamed = json.loads(json.dumps(_events(ours)).replace("-ours", "-theirs"))
        assert renamed == _events(theirs)


def test_latencies_have_kafkas_form(any_broker: Broker, fresh_name: str) -> None:
    arguments = (any_broker.bootstrap, fresh_name, "3", "all", "10")
    theirs = ApacheKafka("3.9").check("kafka-e2e-latency", *arguments)
    ours = our_tool("e2e-latency", *arguments)
    shown = [
        [re.sub(r"[0-9]+(\.[0-9]+)?", "N", line) for line in finished.lines[-3:]]
        for finished in (theirs, ours)
    ]
    assert shown[0] == shown[1]


def test_refused_records_are_told_in_kafkas_words(any_broker: Broker, fresh_name: str) -> None:
    made = ("--create", "--topic", fresh_name, "--config", "cleanup.policy=compact")
    our_tool("topics", *made, "--bootstrap-server", any_broker.bootstrap)
    sending = ("--bootstrap-server", any_broker.bootstrap, "--topic", fresh_name)
    theirs = ApacheKafka("3.9").check("kafka-verifiable-producer", *sending, "--max-messages", "2")
    ours = our_tool("verifiable-producer", *sending, "--max-messages", "2")
    assert _events(ours) == _events(theirs)
