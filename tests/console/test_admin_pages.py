"""Pages that move partitions, elect leaders, end transactions, and change ACLs, users and quotas; two brokers."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from kavka.client import TopicPartition, blocking
from kavka.client.admin import NewTopic
from kavka.testing.local_cluster import LocalCluster
from support.access import AUTHORIZER
from support.console import Cluster, console

SETTINGS = {
    "authorizer.class.name": AUTHORIZER,
    "super.users": "User:ANONYMOUS",
    "kavka.audit.topic": "audit",
    "kavka.audit.topic.replication.factor": "1",
}


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    directory = tmp_path_factory.mktemp("two")
    settings = {**SETTINGS, "kavka.audit.log": str(directory / "audit.log")}
    with LocalCluster(directory, brokers=2, settings=settings) as started:
        yield started


@pytest.fixture(scope="module")
def cluster(brokers: LocalCluster) -> Cluster:
    return Cluster(brokers.bootstrap_servers)


@pytest.fixture(scope="module")
def pages(cluster: Cluster) -> Iterator[TestClient]:
    with console(cluster.bootstrap) as client:
        yield client


def ask(pages: TestClient, path: str, **params: object) -> dict[str, Any]:
    answer = pages.get(f"/api{path}", params=params)
    assert answer.status_code == 200, answer.text
    return answer.json()


def change(pages: TestClient, path: str, status: int = 200, **body: object) -> str:
    """Make a change, and return what the console says."""
    answer = pages.post(f"/api{path}", json=body)
    assert answer.status_code == status, answer.text
    given = answer.json()
    return given["message"] if status == 200 else given["detail"]


def test_a_plan_is_looked_at_and_then_carried_out(
    brokers: LocalCluster, cluster: Cluster, pages: TestClient
) -> None:
    cluster.create("moved", 4)
    cluster.write("moved", [(b"k", b"v" * 100)] * 10)
    assert ask(pages, "/reassign")["is_planned"] is False
    plan = ask(pages, "/reassign", topics="moved", brokers="2")
    again = ask(pages, "/reassign", topics="moved", brokers="2")
    # Brokers make the topic of the audit meanwhile.
    assert {**plan, "topics": again["topics"]} == again, "a reload shows the same"
    before = {
        part["partition"]: part["leader"] for part in ask(pages, "/topics/moved")["partitions"]
    }
    assert {row["partition"] for row in plan["rows"]} == {p for p, b in before.items() if b == 1}
    assert all(row["proposed"] == [2] and row["removing"] == [1] for row in plan["rows"])
    assert plan["copied_bytes"] >= 0
    loads = {load["broker_id"]: load for load in plan["loads"]}
    assert (loads[1]["replicas_after"], loads[2]["replicas_after"]) == (0, 4)
    assert not loads[1]["is_target"]

    wanted: dict[str, Any] = {"topics": "moved", "brokers": "2"}
    assert "not the one that was looked at" in change(pages, "/reassign", 409, **wanted, plan="x")
    said = change(pages, "/reassign", **wanted, plan=plan["plan_id"], throttle=50_000_000)
    assert f"{plan['moves']} partition" in said
    brokers.until(
        lambda: {part["leader"] for part in ask(pages, "/topics/moved")["partitions"]} == {2}
    )
    brokers.until(lambda: ask(pages, "/moves")["rows"] == [])
    assert ask(pages, "/moves")["throttled"] == [1, 2]
    change(pages, "/moves", do="unthrottle")
    assert ask(pages, "/moves")["throttled"] == []
    assert ask(pages, "/reassign", topics="moved", brokers="2")["moves"] == 0
    assert "moves nothing" in change(pages, "/reassign", 400, **wanted, plan=plan["plan_id"])


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"topics": "none"}, "There is no topic 'none'"),
        ({"topics": "*", "brokers": "9"}, "'9' is no broker of the cluster"),
        ({"topics": "both", "brokers": "1"}, "only 1 broker(s) are registered"),
        ({"topics": "*", "variant": "0"}, "variant is 0, and can be from 1"),
    ],
)
def test_a_plan_that_cannot_be_made_says_why(
    cluster: Cluster, pages: TestClient, given: dict[str, str], sentence: str
) -> None:
    with blocking.Admin(cluster.settings) as admin:
        admin.create_topics([NewTopic("both", 1, 2)])
    answer = pages.get("/reassign", params=given)
    assert answer.status_code in (400, 404)
    assert sentence in html.unescape(answer.text)


def test_the_preferred_replica_is_elected_and_partitions_are_added(
    brokers: LocalCluster, cluster: Cluster, pages: TestClient
) -> None:
    with blocking.Admin(cluster.settings) as admin:
        admin.create_topics([NewTopic("led", 1, 2)])
        brokers.until(lambda: admin.describe_topics(["led"])["led"].partitions[0].leader > 0)
        part = admin.describe_topics(["led"])["led"].partitions[0]
        turned = [int(broker) for broker in reversed(part.replicas)]
        admin.alter_partition_reassignments({TopicPartition("led", 0): turned})
    brokers.until(lambda: ask(pages, "/elect", topics="led")["possible"] == 1)
    row = ask(pages, "/elect", topics="led")["rows"][0]
    assert (row["leader"], row["candidate"]) == (part.leader, turned[0])
    assert ask(pages, "/elect", topics="led", kind="unclean")["rows"] == []
    assert "was not confirmed" in change(pages, "/elect", 400, kind="unclean")
    assert "1 partition has its leader" in change(pages, "/elect", topics="led")
    brokers.until(lambda: ask(pages, "/topics/led")["partitions"][0]["leader"] == turned[0])

    assert "could have 3" in change(pages, "/topics/led/partitions", total=3, check=True)
    change(pages, "/topics/led/partitions", total=3)
    assert len(ask(pages, "/topics/led")["partitions"]) == 3
    assert "3" in change(pages, "/topics/led/partitions", 422, total=2)


def test_an_open_transaction_is_seen_and_ended(
    brokers: LocalCluster, cluster: Cluster, pages: TestClient
) -> None:
    cluster.create("paid")
    name = "pay/1 <b>"
    with blocking.Producer({**cluster.settings, "transactional.id": name}) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("paid", b"v")
        row = ask(pages, "/transactions", search="pay")["rows"][0]
        assert (row["transactional_id"], row["is_open"], row["partitions"]) == (name, True, 1)
        one = ask(pages, "/transaction", id=name)
        assert one["partitions"] == [{"topic": "paid", "partition": 0}]
        # Its coordinator knows it, so it does not hang, however long it is open.
        assert ask(pages, "/transactions/hanging", find=True, minutes=0)["rows"] == []
        assert "was not ended" in change(pages, "/transaction", 400, id=name, confirm="pay")
        change(pages, "/transaction", id=name, confirm=name)
        brokers.until(lambda: ask(pages, "/transaction", id=name)["is_open"] is False)
        with pytest.raises(Exception, match=r"(?i)fenced|epoch|PRODUCER"):
            producer.send("paid", b"v")
    assert pages.get("/api/transaction", params={"id": "none"}).status_code == 404
    given: dict[str, Any] = {"topic": "paid", "partition": 0, "start_offset": 0}
    assert pages.get("/api/transactions/abort", params=given).status_code == 404


def test_an_open_transaction_is_aborted_in_one_partition(
    cluster: Cluster, pages: TestClient
) -> None:
    cluster.create("hung")
    with blocking.Producer({**cluster.settings, "transactional.id": "hang"}) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("hung", b"v")
        given: dict[str, Any] = {"topic": "hung", "partition": 0, "start_offset": 0}
        shown = ask(pages, "/transactions/abort", **given)
        assert shown["confirmation"] == "hung-0"
        assert "was not aborted" in change(pages, "/transactions/abort", 400, **given)
        change(pages, "/transactions/abort", **given, confirm="hung-0")
        assert pages.get("/api/transactions/abort", params=given).status_code == 404


def test_an_acl_is_added_and_removed(pages: TestClient) -> None:
    acl: dict[str, Any] = {
        "resource_type": "Topic",
        "name": "orders <i>",
        "pattern": "prefixed",
        "principal": "alice",
        "operation": "Write",
        "permission": "Deny",
    }
    assert "Deny Write on Topic orders <i>* for User:alice from *" in change(
        pages, "/acls/new", **acl
    )
    rows = ask(pages, "/acls", search="alice deny")["rows"]
    assert rows == [{**acl, "principal": "User:alice", "host": "*"}]
    page = pages.get("/acls")
    assert "orders &lt;i&gt;" in page.text
    assert "<i>" not in page.text
    link = html.unescape(re.findall(r'href="(/acls/remove[^"]+)"', page.text)[0])
    assert "prefix" in link
    assert pages.get(link).status_code == 200
    assert "was not removed" in change(pages, "/acls/remove", 400, **acl, confirm="alice")
    change(pages, "/acls/remove", **acl, confirm="User:alice")
    assert ask(pages, "/acls")["rows"] == []
    assert "There is no ACL" in change(pages, "/acls/remove", 404, **acl, confirm="User:alice")
    assert "principal is missing" in change(pages, "/acls/new", 400, name="t")
    assert "name is missing" in change(pages, "/acls/new", 400, principal="a")
    assert change(pages, "/acls/new", resource_type="Cluster", principal="a", operation="Alter")
    assert ask(pages, "/acls")["rows"][0]["name"] == "kafka-cluster"


def test_a_user_gets_a_password_that_no_page_shows(pages: TestClient) -> None:
    secret = "hunter2-hunter2"
    both: dict[str, Any] = {"user": "bob", "password": secret, "again": secret}
    assert secret not in pages.get("/users/password", params=both).text
    refused = change(pages, "/users/password", 400, user="bob", password=secret, again="other")
    assert secret not in refused
    token = re.search(r'csrf_token" value="(\w+)"', pages.get("/users/password").text)
    assert token is not None
    kept = pages.post("/users/password", data={**both, "again": "x", "csrf_token": token[1]})
    assert kept.status_code == 400
    assert secret not in kept.text
    assert secret not in change(pages, "/users/password", **both, mechanism="SCRAM-SHA-256")
    assert ask(pages, "/users")["rows"] == [
        {"name": "bob", "credentials": [{"mechanism": "SCRAM-SHA-256", "iterations": 8192}]}
    ]
    gone: dict[str, Any] = {"user": "bob", "mechanism": "SCRAM-SHA-256"}
    assert ask(pages, "/users/remove", **gone)["name"] == "bob"
    assert "was not removed" in change(pages, "/users/remove", 400, **gone)
    change(pages, "/users/remove", **gone, confirm="bob")
    assert ask(pages, "/users")["rows"] == []
    assert pages.get("/api/users/remove", params=gone).status_code == 404
    described = pages.get("/api/openapi.json").json()["paths"]["/api/users/password"]
    assert "password" not in {one["name"] for one in described["get"]["parameters"]}
    body = described["post"]["requestBody"]["content"]["application/json"]["schema"]["properties"]
    assert body["password"]["format"] == "password"


def test_a_quota_is_set_changed_and_removed(pages: TestClient) -> None:
    quota: dict[str, Any] = {"user": "bob", "client_id": "<default>", "key": "producer_byte_rate"}
    change(pages, "/quotas/change", **quota, value="1048576")
    row = ask(pages, "/quotas")["rows"][0]
    assert (row["user"], row["client_id"], row["ip"], row["value"]) == (
        "bob",
        "<default>",
        None,
        1048576.0,
    )
    assert 'value="1048576"' in pages.get("/quotas/change", params=quota).text
    change(pages, "/quotas/change", **quota, remove=True)
    assert ask(pages, "/quotas")["rows"] == []
    wrong: dict[str, Any]
    for wrong, sentence in (
        ({"value": "1"}, "Neither user nor client id nor address"),
        ({"ip": "127.0.0.1", "user": "a", "value": "1"}, "An address has quotas of its own"),
        ({"user": "a", "value": "many"}, "not a number"),
        ({"user": "a", "value": "-1"}, "a number above 0"),
    ):
        assert sentence in change(pages, "/quotas/change", 400, **wrong)


def test_the_audit_is_searched(brokers: LocalCluster, pages: TestClient) -> None:
    change(pages, "/create-topic", name="audited")
    brokers.until(lambda: ask(pages, "/audit", search="audited")["rows"])
    row = ask(pages, "/audit", search="audited", event="administrative")["rows"][0]
    assert row["what"].startswith("CreateTopics")
    assert "audited" in row["what"]
    assert (row["principal"], row["result"]) == ("User:ANONYMOUS", "done")
    assert ask(pages, "/audit", event="denied")["rows"] == []
    assert ask(pages, "/audit", principal="User:carol")["rows"] == []
    assert "CreateTopics" in pages.get("/audit").text
