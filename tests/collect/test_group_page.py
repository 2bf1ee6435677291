"""`kavka group-metrics`: prometheus-client reads the page, librdkafka made the group."""

from __future__ import annotations

import asyncio
import re
import urllib.request
from pathlib import Path

import pytest

from kavka.cli.main import main
from kavka.collect.group_page import GroupPage
from kavka_compat.ours import kavka_command, run_kavka
from kavka_compat.processes import Running
from support.waiting import wait_until

pytestmark = pytest.mark.compat

Page = dict[tuple[str, str], float]


def read_page(url: str) -> Page:
    """Return the values by name and partition; the labels of each sample must be whole."""
    from prometheus_client.parser import text_string_to_metric_families

    with urllib.request.urlopen(url, timeout=30) as response:
        text = response.read().decode()
    return {
        (sample.name, sample.labels.get("partition", sample.labels.get("state", ""))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.labels.get("consumergroup", "slow") == "slow"
    }


def test_the_page_has_lag_members_and_state_and_nothing_old_when_the_cluster_is_away(
    tmp_path: Path,
) -> None:
    from confluent_kafka import Consumer, Producer, TopicPartition

    from support.spark.topic_filling import make_topic_at

    (tmp_path / "quick").write_text("default.api.timeout.ms=2000\nrequest.timeout.ms=1000\n")
    with run_kavka(tmp_path / "broker") as broker:
        make_topic_at(broker.bootstrap, "t", 1)
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        for number in range(5):
            producer.produce("t", b"x", timestamp=1000 * (number + 1))
        assert producer.flush(30) == 0
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "slow"})
        consumer.commit(offsets=[TopicPartition("t", 0, 2)], asynchronous=False)
        consumer.close()
        options = ("--port", "0", "--interval", "0.1", "--group", "s.*")
        where = (
            "--bootstrap-server",
            broker.bootstrap,
            "--command-config",
            str(tmp_path / "quick"),
        )
        served = Running(kavka_command("group-metrics", *options, *where), tmp_path / "out")
        try:
            found = re.search(r"http://\S+", served.wait_for("group metrics at", 60))
            assert found is not None
            url = found[0]
            wait_until(lambda: read_page(url)["kavka_groups_up", ""] == 1, 60)
            page = read_page(url)
            assert page["kafka_consumergroup_lag", "0"] == 3
            assert page["kafka_consumergroup_lag_seconds", "0"] > 1e9  # the record is of 1970
            assert page["kafka_consumergroup_members", ""] == 0
            assert page["kavka_consumergroup_state", "Empty"] == 1
            broker.process.stop()
            wait_until(lambda: read_page(url)["kavka_groups_up", ""] == 0, 60)
            assert ("kafka_consumergroup_lag", "0") not in read_page(url)
            assert read_page(url)["kavka_groups_failures_total", ""] >= 1
            assert "groups not read: " in served.text()
        finally:
            served.stop()


def test_a_reading_of_a_cluster_that_does_not_answer_ends_with_the_page() -> None:
    async def story() -> None:
        asked, stop = asyncio.Event(), asyncio.Event()

        async def be_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            asked.set()
            await stop.wait()
            writer.close()

        async with await asyncio.start_server(be_silent, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            settings = {"bootstrap.servers": f"127.0.0.1:{port}"}
            page = GroupPage(settings, re.compile(".*"), pytest.fail)
            running = asyncio.create_task(page.run(stop, 60))
            await asked.wait()
            stop.set()
            async with asyncio.timeout(10):
                await running

    asyncio.run(story())


def test_a_wrong_setting_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "settings").write_text("security.protocol=PLAIN\n")
    where = ("--bootstrap-server", "127.0.0.1:1", "--port", "0")
    assert main(["group-metrics", *where, "--command-config", str(tmp_path / "settings")]) == 1
    assert "security.protocol" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--group", "("), "is no regular expression"),
        (("--interval", "0"), "is no number of seconds"),
        (("--command-config", "/nowhere"), "cannot read /nowhere"),
        (("--host", "192.0.2.1"), "the page cannot be served"),
    ],
)
def test_wrong_options_are_said(
    options: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ("--bootstrap-server", "127.0.0.1:1", "--port", "0")
    assert main(["group-metrics", *where, *options]) == 1
    printed = capsys.readouterr()
    assert said in printed.err + printed.out
