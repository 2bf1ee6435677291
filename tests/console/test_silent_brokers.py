"""A broker that Metadata names and that does not answer: pages show what the others say, and name it.

It is a row of the registry with a port that takes connections and is never read, as that of a broker that stands still.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from kavka.cli.main import main
from kavka.client import blocking
from kavka.client.admin import NewTopic
from kavka.testing.local_cluster import LocalCluster
from kavka.wire.stored.znodes import BrokerNode
from support.console import Cluster, console
from support.waiting import wait_until

pytestmark = pytest.mark.slow  # each page waits for the silent broker as long as it may

SILENT = 2
TIMEOUT_MS = 1200


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    directory = tmp_path_factory.mktemp("broker")
    settings = {
        "kavka.audit.log": str(directory / "audit.log"),
        "kavka.audit.topic": "audit",
        "kavka.audit.topic.replication.factor": "1",
    }
    with (
        LocalCluster(directory, brokers=1, settings=settings) as started,
        socket.create_server(("127.0.0.1", 0)) as silent,
    ):
        cluster = Cluster(started.bootstrap_servers)
        cluster.create("audit")  # by a broker that answers
        cluster.create("whole")
        cluster.write("whole", [(b"k", b"v")])
        cluster.commit("readers", {("whole", 0): 0})
        port = silent.getsockname()[1]
        node = BrokerNode(
            [f"PLAINTEXT://127.0.0.1:{port}"],
            {"PLAINTEXT": "PLAINTEXT"},
            None,
            time.time_ns() // 1_000_000,
            "127.0.0.1",
            port,
        )
        create = ["create", f"/brokers/ids/{SILENT}", node.encode().decode()]
        assert main(["zookeeper-shell", started.zookeeper_connect, *create]) == 0
        with blocking.Admin(cluster.settings) as admin:
            wait_until(lambda: len(admin.describe_cluster().brokers) == 2)
            made = admin.create_topics([NewTopic("halved", assignments={0: [1], 1: [SILENT]})])
            assert not isinstance(made["halved"], Exception), made
        cluster.write("halved", [(b"k", b"first"), (b"k", b"second")])
        with console(cluster.bootstrap, timeout_ms=TIMEOUT_MS) as client:
            yield client


def answer(pages: TestClient, path: str) -> Any:
    found = pages.get(f"/api{path}")
    assert found.status_code == 200, found.text
    return found.json()


def missing_of(view: Any) -> str:
    [one] = view["unanswered"]
    assert one["broker_id"] == SILENT
    assert "450 ms" in one["reason"]
    return one["sentence"]


def test_groups_of_the_brokers_that_answer_are_shown(pages: TestClient) -> None:
    view = answer(pages, "/groups")
    assert [row["group_id"] for row in view["rows"]] == ["readers"]
    assert [row["lag_records"] for row in view["rows"]] == [1]
    assert missing_of(view).startswith(
        "Broker 2 gave no answer, so the groups that it coordinates are missing: no answer in"
    )
    page = pages.get("/groups", headers={"Accept-Language": "zh"}).text
    assert "缺少由它协调的消费组" in page


@pytest.mark.parametrize("path", ["/transactions", "/topics", "/topics/halved"])
def test_a_list_names_the_broker_whose_part_is_missing(pages: TestClient, path: str) -> None:
    sentence = missing_of(answer(pages, path))
    assert sentence.startswith("Broker 2 gave no answer, so the ")
    assert sentence in pages.get(path).text


def test_other_pages_show_what_is_known_beside_a_silent_broker(pages: TestClient) -> None:
    brokers = answer(pages, "/brokers")["rows"]
    assert [bool(row["note"]) for row in brokers] == [False, True]
    one = answer(pages, f"/brokers/{SILENT}")
    assert (one["settings"], "450 ms" in one["settings_note"]) == ([], True)
    assert answer(pages, "/brokers/1")["settings"]
    assert f"broker {SILENT}: no answer" in answer(pages, "/moves")["throttle_note"]
    findings = [finding["sentence"] for finding in answer(pages, "/overview")["findings"]]
    assert any(text.startswith("Broker 2: no answer in 450 ms") for text in findings)


def test_the_audit_is_shown_where_one_broker_names_its_topic(pages: TestClient) -> None:
    assert answer(pages, "/audit")["topic"] == "audit"


def test_the_history_has_the_groups_and_rates_of_the_brokers_that_answer(
    pages: TestClient,
) -> None:
    history = pages.app.state.services.history
    assert pages.portal is not None
    for _ in range(2):
        pages.portal.call(history.look)
    assert (history.note, list(history.latest.groups)) == ("", ["readers"])
    assert history.latest.topics["whole"].records_in == 0.0


def test_messages_of_the_partitions_that_answer_are_shown(pages: TestClient) -> None:
    view = answer(pages, "/topics/halved/messages")
    assert [record["value"] for record in view["records"]] == ["second", "first"]
    reach = view["reach"]
    assert (reach["ended"], [part["partition"] for part in reach["partitions"]]) == (
        "unanswered",
        [0],
    )
    [silent] = reach["unanswered"]
    assert (silent["leader"], silent["partitions"]) == (SILENT, [1])
    assert silent["sentence"].startswith("Nothing came from partition 1, led by broker 2: no ")
    assert silent["sentence"] in pages.get("/topics/halved/messages?text=nothing").text
    export = pages.get("/topics/halved/export?start=oldest")
    assert "Nothing came from partition 1" in export.headers["Kavka-Reach"]
    alone = pages.get("/api/topics/halved/messages?partition=1")
    assert (alone.status_code, "halved-1" in alone.json()["detail"]) == (504, True)
