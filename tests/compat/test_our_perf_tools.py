"""Our performance tools: their lines have Kafka's form, and what they send and read is counted right."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from kavka_compat.apache import ApacheKafka, Finished
from kavka_compat.brokers import Broker
from kavka_compat.our_tools import our_tool

pytestmark = [pytest.mark.compat, pytest.mark.timeout(120)]


@pytest.fixture
def topic(any_broker: Broker, fresh_name: str) -> str:
    """A topic that is there."""
    admin = AdminClient({"bootstrap.servers": any_broker.bootstrap})
    admin.create_topics([NewTopic(fresh_name, 1, 1)])[fresh_name].result(30)
    return fresh_name


def _form(finished: Finished) -> list[str]:
    """Return the lines with every number replaced, whatever its digits before the point."""
    return [re.sub(r"\d+", "N", re.sub(r"\d+(\.\d+)", _decimals, line)) for line in finished.lines]


def _decimals(match: re.Match[str]) -> str:
    return "N." + "D" * (len(match[1]) - 1)


def test_lines_have_kafkas_form(any_broker: Broker, topic: str) -> None:
    kafka = ApacheKafka("4.1")
    produce = (
        *("--topic", topic, "--num-records", "200", "--record-size", "100", "--throughput", "200"),
        *("--producer-props", f"bootstrap.servers={any_broker.bootstrap}", "acks=1"),
    )
    theirs = kafka.check("kafka-producer-perf-test", *produce)
    ours = our_tool("producer-perf-test", *produce)
    assert _form(ours) == _form(theirs)
    assert ours.lines[-1].startswith("200 records sent, ")
    rate = float(ours.lines[-1].split()[3])
    assert 0 < rate < 210  # as was asked for, or less on a busy machine

    consume = ("--bootstrap-server", any_broker.bootstrap, "--topic", topic)
    theirs = kafka.check("kafka-consumer-perf-test", *consume, "--messages", "400")
    ours = our_tool("consumer-perf-test", *consume, "--messages", "400")
    assert _form(ours) == _form(theirs)
    ended = our_tool("consumer-perf-test", *consume, "--messages", "5000", "--timeout", "500")
    assert ended.lines[:2] == [
        ours.lines[0],
        "WARNING: Exiting before consuming the expected number of messages: timeout (500 ms) exceeded. You can "
        "use the --timeout option to increase the timeout.",
    ]
    for row in (ours.lines[-1].split(", "), ended.lines[-1].split(", ")):
        assert (row[2], row[4]) == (f"{400 * 100 / 2**20:.4f}", "400")


def test_details_add_up(any_broker: Broker, topic: str) -> None:
    our_tool(
        *("producer-perf-test", "--topic", topic, "--num-records", "200000", "--throughput", "-1"),
        *("--record-size", "50", "--warmup-records", "1000", "--print-metrics"),
        *("--producer-props", f"bootstrap.servers={any_broker.bootstrap}"),
    )
    read = our_tool(
        *("consumer-perf-test", "--bootstrap-server", any_broker.bootstrap, "--topic", topic),
        *("--messages", "200000", "--show-detailed-stats", "--reporting-interval", "1"),
    )
    rows = [line.split(", ") for line in read.lines[1:]]
    assert rows[-1][4] == "200000"
    assert all(row[1] == "0" and len(row) == 10 for row in rows)


def test_payloads_are_numbers_or_lines_of_a_file(
    any_broker: Broker, topic: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    at = ("--producer-props", f"bootstrap.servers={any_broker.bootstrap}")
    send = ("producer-perf-test", "--topic", topic, "--throughput", "-1", "--num-records")
    our_tool(*send, "5", "--payload-monotonic", *at)
    file = tmp_path_factory.mktemp("payloads") / "lines"
    file.write_text("one;two;")
    shown = our_tool(*send, "50", "--payload-file", str(file), "--payload-delimiter", ";", *at)
    assert shown.lines[:2] == [f"Reading payloads from: {file}", "Number of messages read: 2"]
    read = our_tool(
        *("console-consumer", "--bootstrap-server", any_broker.bootstrap, "--topic", topic),
        *("--from-beginning", "--max-messages", "55"),
    )
    assert read.lines[:5] == ["0", "1", "2", "3", "4"]
    assert set(read.lines[5:]) == {"one", "two"}


def test_consuming_shows_on_a_terminal_how_far_it_is(any_broker: Broker, topic: str) -> None:
    at = ("--producer-props", f"bootstrap.servers={any_broker.bootstrap}", "--throughput", "-1")
    our_tool(
        "producer-perf-test", "--topic", topic, "--num-records", "9", "--record-size", "1", *at
    )
    program = (  # the two seconds are over at once
        "import sys; import kavka.cli.text.progress as p; p._AFTER_S = -1; "
        "from kavka.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    reading = ("--bootstrap-server", any_broker.bootstrap, "--topic", topic, "--messages", "36")
    controller, terminal = pty.openpty()
    command = [sys.executable, "-c", program, "consumer-perf-test", *reading, "--timeout", "500"]
    done = subprocess.run(command, stdout=terminal, stderr=terminal, check=False)
    os.close(terminal)
    drawn = os.read(controller, 100_000).decode()
    os.close(controller)
    assert done.returncode == 0
    assert " 25% of 36 records" in drawn
