"""The console with Apache Kafka 3.9 and 4.1, and with 10,000 partitions."""

from __future__ import annotations

import html
import time
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from kavka.client import TopicPartition, blocking
from kavka.testing.local_cluster import LocalCluster
from kavka_compat.apache import ApacheKafka
from support.console import Cluster, console
from support.waiting import wait_until

pytestmark = pytest.mark.long


@pytest.mark.parametrize("release", ["3.9", "4.1"])
def test_each_page_shows_a_cluster_of_apache_kafka(release: str, tmp_path: Path) -> None:
    with ApacheKafka(release).run_broker(tmp_path) as broker:
        cluster = Cluster(broker.bootstrap)
        cluster.create("orders", 3, retention__ms="3600000")
        cluster.write("orders", [(b"k%d" % n, b'{"n": %d}' % n) for n in range(30)])
        cluster.commit("billing", {("orders", 0): 10})
        with console(broker.bootstrap) as pages:
            check_pages(pages)
            check_changes(cluster, pages)
            check_more_pages(cluster, pages)


def check_pages(pages: TestClient) -> None:
    overview = pages.get("/api/overview").json()
    assert (overview["state"], len(overview["brokers"])) == ("ok", 1)
    assert overview["usable_bytes"] > 0
    paths = ("/", "/brokers", "/topics", "/topics/orders", "/topics/orders/messages")
    for path in (*paths, "/groups", "/group?id=billing", "/topics/orders/settings"):
        assert pages.get(path).status_code == 200, path
    broker_id = overview["brokers"][0]["broker_id"]
    broker = pages.get(f"/api/brokers/{broker_id}").json()
    assert broker["log_dirs"][0]["state"] == "ok"
    assert any(setting["documentation"] for setting in broker["settings"])
    topic = pages.get("/api/topics/orders").json()
    assert [part["end_offset"] for part in topic["partitions"]] == [30, 0, 0]
    assert topic["size_bytes"] > 0
    changed = pages.get("/api/topics/orders/settings?search=retention.ms&changed=true").json()
    assert [row["value"] for row in changed["settings"] if row["name"] == "retention.ms"] == [
        "3600000"
    ]
    found = pages.get("/api/topics/orders/messages?key=k2&limit=500").json()["records"]
    assert sorted(row["offset"] for row in found) == [2, *range(20, 30)]
    group = pages.get("/api/group?id=billing").json()
    assert (group["lag_records"], group["partitions"][0]["note"]) == (20, "")
    assert group["lag_seconds"] > 0


def check_changes(cluster: Cluster, pages: TestClient) -> None:
    body = {"id": "billing", "scenario": "shift", "value": -4}
    assert pages.post("/api/group/reset", json=body).status_code == 200
    assert cluster.committed("billing") == {TopicPartition("orders", 0): 6}
    assert pages.post("/api/create-topic", json={"name": "made"}).status_code == 200
    change = {"name": "retention.ms", "value": "1000"}
    assert pages.post("/api/topics/made/settings", json=change).status_code == 200
    wrong = {"name": "retention.ms", "value": "soon"}
    assert pages.post("/api/topics/made/settings", json=wrong).status_code == 422
    assert pages.post("/api/topics/made/delete", json={"confirm": "made"}).status_code == 200


def check_more_pages(cluster: Cluster, pages: TestClient) -> None:
    for path in (
        *(
            "/reassign?topics=*",
            "/moves",
            "/elect",
            "/elect?kind=unclean",
            "/topics/orders/partitions",
        ),
        *(
            "/transactions",
            "/transactions/hanging?find=true&minutes=0",
            "/acls/new",
            "/users",
            "/quotas",
        ),
        *(
            "/schemas",
            "/pipelines",
            "/topics/orders/produce?from=0:0",
            "/topics/orders/export?format=csv",
        ),
    ):
        assert pages.get(path).status_code == 200, (path, pages.get(path).text)
    assert pages.get("/api/reassign?topics=orders").json()["moves"] == 0
    # What this cluster has not is said by name.
    assert "The brokers have no authorizer" in pages.get("/acls").text
    assert "Apache Kafka's have none" in html.unescape(pages.get("/audit").text)

    def change(path: str, body: dict[str, object], status: int = 200) -> str:
        answer = pages.post(f"/api{path}", json=body)
        assert answer.status_code == status, (path, answer.text)
        return answer.text

    change("/topics/orders/partitions", {"total": 4})
    both = {"user": "bob", "password": "hunter2-hunter2", "again": "hunter2-hunter2"}
    assert "hunter2" not in change("/users/password", dict(both))
    assert [row["name"] for row in pages.get("/api/users").json()["rows"]] == ["bob"]
    change("/users/remove", {"user": "bob", "confirm": "bob"})
    quota = {"user": "bob", "key": "producer_byte_rate"}
    change("/quotas/change", {**quota, "value": "1048576"})
    assert [row["value"] for row in pages.get("/api/quotas").json()["rows"]] == [1048576.0]
    change("/quotas/change", {**quota, "remove": True})
    change(
        "/topics/orders/produce", {"key": "k", "key_format": "text", "value": "v", "partition": 3}
    )
    assert pages.get("/topics/orders/records/3/0/value").content == b"v"
    name = "pay"
    with blocking.Producer({**cluster.settings, "transactional.id": name}) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("orders", b"v")
        assert pages.get(f"/api/transaction?id={name}").json()["is_open"]
        assert pages.get("/api/transactions/hanging?find=true&minutes=0").json()["rows"] == []
        change("/transaction", {"id": name, "confirm": name})
        wait_until(lambda: not pages.get(f"/api/transaction?id={name}").json()["is_open"])
    statement = "select count(*) n from orders where partition = 0"
    found = pages.get("/api/sql", params={"statement": statement, "seconds": 60}).json()
    assert found["rows"] == [["30"]]


def test_pages_of_ten_thousand_partitions(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, brokers=1) as started:
        cluster = Cluster(started.bootstrap_servers)
        for number in range(100):
            cluster.create(f"topic-{number:03}", 100)
        with blocking.Admin(cluster.settings) as admin:
            found = admin.describe_topics().values()
            assert sum(len(getattr(t, "partitions", ())) for t in found) >= 10_000
        took: dict[str, float] = {}
        with console(started.bootstrap_servers) as pages:
            for path in (
                "/",
                "/topics",
                "/topics?page=2",
                "/topics?search=99",
                "/topics/topic-050",
            ):
                began = time.perf_counter()
                assert pages.get(path).status_code == 200
                took[path] = time.perf_counter() - began
                began = time.perf_counter()
                pages.get(path)
                took[f"{path} again"] = time.perf_counter() - began
    print({path: f"{seconds:.2f} s" for path, seconds in took.items()})
