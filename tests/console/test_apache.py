"""The console with Apache Kafka 3.9 and 4.1, and with 10,000 partitions."""

from __future__ import annotations

import html
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from starlette.testclient import TestClient

from kavka.client import TopicPartition, blocking
from kavka.console.access.permissions import NEEDS
from kavka.testing.local_cluster import LocalCluster
from kavka_compat.apache import ApacheKafka
from kavka_compat.processes import free_port
from support.console import Cluster, console
from support.console_pages import (
    ACL,
    ADDRESSES,
    NO_PAGE,
    OPEN,
    RULES,
    USER,
    fill,
    open_transactions,
)
from support.schema_registry import serve_registry
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


MORE = (
    "/reassign?topics=*", "/moves", "/elect", "/elect?kind=unclean", "/topics/orders/partitions", "/transactions",
    "/transactions/hanging?find=true&minutes=0", "/acls/new", "/users", "/quotas", "/schemas", "/pipelines",
    "/topics/orders/produce?from=0:0", "/topics/orders/export?format=csv",
)  # fmt: skip


def check_more_pages(cluster: Cluster, pages: TestClient) -> None:
    for path in MORE:
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
    wait_until(lambda: [r["name"] for r in pages.get("/api/users").json()["rows"]] == ["bob"])
    change("/users/remove", {"user": "bob", "confirm": "bob"})
    quota = {"user": "bob", "key": "producer_byte_rate"}
    change("/quotas/change", {**quota, "value": "1048576"})
    # A broker knows what the controller has decided a moment later.
    wait_until(
        lambda: [row["value"] for row in pages.get("/api/quotas").json()["rows"]] == [1048576.0]
    )
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


AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@contextmanager
def two_brokers(release: str, directory: Path) -> Iterator[str]:
    """Run two brokers of Apache Kafka with its authorizer; yield their bootstrap servers."""
    apache = ApacheKafka(release)
    ports, controller = [free_port(), free_port()], free_port()
    started = []
    try:
        for number, port in enumerate(ports):
            listeners = f"PLAINTEXT://127.0.0.1:{port}"
            settings = {
                **AUTHORIZER,
                "node.id": str(number),
                "process.roles": "broker" if number else "broker,controller",
                "controller.quorum.voters": f"0@127.0.0.1:{controller}",
                "listeners": listeners
                if number
                else f"{listeners},CONTROLLER://127.0.0.1:{controller}",
            }
            broker = apache.start_kraft(directory / str(number), settings)
            started.append(broker.process)
            broker.process.wait_for("Kafka Server started (", 120)
        yield ",".join(f"127.0.0.1:{port}" for port in ports)
    finally:
        for process in reversed(started):
            process.stop()


@pytest.mark.timeout(900)
@pytest.mark.parametrize("release", ["3.9", "4.1"])
def test_every_page_and_every_action_works_with_brokers_of_apache_kafka(
    release: str, tmp_path: Path
) -> None:
    rules = tmp_path / "rules.yml"
    rules.write_text(RULES)
    with two_brokers(release, tmp_path) as bootstrap, serve_registry() as registry:
        cluster = Cluster(bootstrap)
        options: dict[str, Any] = {"rules": rules, "registry": {"url": registry.url}}
        with console(bootstrap, timeout_ms=30_000, **options) as pages:
            acts = Acts(cluster, pages)
            fill(cluster, acts.act)
            with open_transactions(cluster):
                walk(pages)
                acts.end_transactions()
            acts.move_and_elect()
            acts.change_topics_and_groups()
            acts.change_settings_of_brokers_and_rules()
            acts.change_the_rest()
            assert acts.done == {path for verb, path in NEEDS if verb == "POST"} - {
                "/login",
                "/logout",
            }


def walk(pages: TestClient) -> None:
    """Open each page of the console as HTML in two languages, and as JSON."""
    for path, address in ADDRESSES.items():
        if path in NO_PAGE or path.endswith("/value"):
            answer = pages.get(f"/api{address}" if path == "/openapi.json" else address)
            assert (answer.status_code, bool(answer.content)) == (200, True), address
            continue
        for language in ("en", "zh"):
            answer = pages.get(address, headers={"Accept-Language": language})
            assert answer.status_code == 200, (address, answer.text)
            main = answer.text.partition("<main")[2].partition("</main>")[0]
            assert main.count("<h1") == 1, address
            shown = html.unescape(re.sub(r"<[^>]*>|\s+", " ", main))
            assert len(shown.split()) >= 5, (address, shown)
            assert 'class="alert bad"' not in main, (address, shown)
        data = pages.get("/api/overview" if path == "/" else f"/api{address}")
        if path != "/api":
            assert (data.status_code, bool(data.json())) == (200, True), (address, data.text)


class Acts:
    """Every action of the console, through its JSON API; each is compared with what the cluster says."""

    def __init__(self, cluster: Cluster, pages: TestClient) -> None:
        self.cluster = cluster
        self.pages = pages
        self.done: set[str] = set()
        """Paths of `NEEDS`."""

    def act(self, path: str, status: int = 200, on: str = "", **body: Any) -> str:
        """Make a change at a path of `NEEDS`, and return what the console says."""
        address = path.replace("{topic}", on).replace("{partition}/{offset}", "0/0")
        address = address.replace("{broker}", on)
        answer = self.pages.post(f"/api{address}", json=body)
        assert answer.status_code == status, (path, answer.text)
        self.done.add(path)
        said: str = answer.json()["message"] if status == 200 else answer.json()["detail"]
        return said

    def ask(self, path: str, **query: object) -> Any:
        answer = self.pages.get(f"/api{path}", params={k: str(v) for k, v in query.items()})
        assert answer.status_code == 200, (path, answer.text)
        return answer.json()

    def end_transactions(self) -> None:
        rows = {row["transactional_id"]: row for row in self.ask("/transactions")["rows"]}
        assert (rows["pay"]["is_open"], rows["hang"]["is_open"]) == (True, True)
        # The coordinators know them, so that they do not hang.
        assert self.ask("/transactions/hanging", find=True, minutes=0)["rows"] == []
        assert "was not ended" in self.act("/transaction", 400, id="pay", confirm="no")
        self.act("/transaction", id="pay", confirm="pay")
        wait_until(lambda: not self.ask("/transaction", id="pay")["is_open"])
        self.act("/transactions/abort", **OPEN, confirm="hung-0")
        assert self.pages.get(f"/api/transactions/abort?{urlencode(OPEN)}").status_code == 404

    def move_and_elect(self) -> None:
        before = [part["leader"] for part in self.ask("/topics/moved")["partitions"]]
        target = 1 - before[0]
        wanted: dict[str, Any] = {"topics": "moved", "brokers": str(target)}
        plan = self.ask("/reassign", **wanted)
        assert "not the one that was looked at" in self.act("/reassign", 409, **wanted, plan="x")
        # So slow that it can be cancelled.
        self.act("/reassign", **wanted, plan=plan["plan_id"], throttle=1000)
        wait_until(lambda: {row["topic"] for row in self.ask("/moves")["rows"]} == {"moved"})
        self.act("/moves", do="cancel")
        wait_until(lambda: self.ask("/moves")["rows"] == [])
        self.act("/moves", do="unthrottle")
        wait_until(lambda: self.ask("/moves")["throttled"] == [])
        plan = self.ask("/reassign", **wanted)
        self.act("/reassign", **wanted, plan=plan["plan_id"])
        wait_until(
            lambda: {p["leader"] for p in self.ask("/topics/moved")["partitions"]} == {target}
        )
        wait_until(lambda: self.ask("/moves")["rows"] == [])
        part = self.ask("/topics/orders")["partitions"][0]
        turned = [1 - part["leader"], part["leader"]]
        with blocking.Admin(self.cluster.settings) as admin:
            admin.alter_partition_reassignments({TopicPartition("orders", 0): turned})
        wait_until(lambda: self.ask("/elect", topics="orders")["possible"] >= 1)
        assert "was not confirmed" in self.act("/elect", 400, kind="unclean")
        self.act("/elect", topics="orders")
        wait_until(lambda: self.ask("/topics/orders")["partitions"][0]["leader"] == turned[0])

    def changed(self, topic: str) -> list[str]:
        """Return the values of a topic's settings that are not the defaults."""
        return [
            one["value"] for one in self.ask(f"/topics/{topic}/settings", changed=True)["settings"]
        ]

    def change_topics_and_groups(self) -> None:
        assert "could be created" in self.act("/create-topic", name="made", check=True)
        self.act(
            "/create-topic", name="made", partitions=2, replicas=2, settings="retention.ms=60000"
        )
        self.act("/topics/{topic}/settings", on="made", name="retention.ms", value="1000")
        self.act("/topics/{topic}/settings", 422, on="made", name="retention.ms", value="soon")
        wait_until(lambda: "1000" in self.changed("made"))
        self.act("/topics/{topic}/partitions", on="made", total=3)
        wait_until(lambda: len(self.ask("/topics/made")["partitions"]) == 3)
        key: dict[str, Any] = {"key": "k", "key_format": "text"}
        self.act("/topics/{topic}/produce", on="made", **key, value="v", partition=2)
        assert self.pages.get("/topics/made/records/2/0/value").content == b"v"
        self.act("/topics/{topic}/records/{partition}/{offset}/copy", on="orders", to="copies")
        assert self.pages.get("/topics/copies/records/0/0/value").content == b'{"n": 0}'
        assert "not its name" in self.act("/topics/{topic}/delete", 400, on="made", confirm="x")
        self.act("/topics/{topic}/delete", on="made", confirm="made")
        wait_until(lambda: self.pages.get("/api/topics/made").status_code == 404)

        self.act("/group/reset", id="billing", scenario="shift", value=-4)
        assert self.cluster.committed("billing") == {TopicPartition("orders", 0): 6}
        assert "not its id" in self.act("/group/delete", 400, id="billing", confirm="b")
        self.act("/group/delete", id="billing", confirm="billing")
        assert self.pages.get("/api/group?id=billing").status_code == 404

    def change_settings_of_brokers_and_rules(self) -> None:
        path, name = "/brokers/{broker}/settings", "log.cleaner.backoff.ms"
        planned = self.ask("/brokers/all/settings", name=name, value="16000")
        assert [row["after"] for row in planned["plan"]] == ["16000", "16000"]
        assert planned["refused"] == ""
        assert "soon" in self.ask("/brokers/1/settings", name=name, value="soon")["refused"]
        self.act(path, on="all", name=name, value="16000", confirm="all")
        wait_until(lambda: self.setting(1, name) == ("16000", "all brokers, dynamic"))
        self.act(path, on="1", name=name, value="17000", confirm="1")
        wait_until(lambda: self.setting(1, name) == ("17000", "broker, dynamic"))
        plan = self.ask("/brokers/all/settings", name=name, value="18000")["plan"]
        assert [row["after"] for row in plan] == ["18000", "17000"]
        assert self.ask("/brokers/1/settings", name=name, reset=True)["plan"][0]["after"] == "16000"
        self.act(path, on="1", name=name, reset=True, confirm="1")
        self.act(path, on="all", name=name, reset=True, confirm="all")
        wait_until(lambda: self.setting(1, name) == ("15000", "default"))
        assert "is a secret" in self.act(
            path, 400, on="1", name="ssl.keystore.password", value="x", confirm="1"
        )

        rule: dict[str, Any] = {"alert": "Late", "watch": "group_lag_records", "above": "5"}
        self.act("/alerts/rule", version=self.ask("/alerts/rule")["version"], **rule)
        seen = self.ask("/alerts/rule", rule="Late")["version"]
        self.act("/alerts/rule/delete", version=seen, rule="Late", confirm="Late")

    def setting(self, broker: int, name: str) -> tuple[str, str]:
        """Return the value of a broker's setting, and its source."""
        [found] = self.ask(f"/brokers/{broker}", search=name)["settings"]
        return found["value"], found["source"]

    def change_the_rest(self) -> None:
        wait_until(
            lambda: [row["principal"] for row in self.ask("/acls")["rows"]] == ["User:alice"]
        )
        self.act("/acls/remove", **ACL, confirm="User:alice")
        wait_until(lambda: self.ask("/acls")["rows"] == [])
        self.act("/users/remove", **USER, confirm="carol")
        wait_until(lambda: self.ask("/users")["rows"] == [])
        self.act("/quotas/change", user="carol", key="consumer_byte_rate", remove=True)
        wait_until(lambda: self.ask("/quotas")["rows"] == [])
        self.act("/schema", name="orders-value", level="FULL")
        self.act("/schema", name="orders-value", do="delete", confirm="orders-value")
        wait_until(lambda: self.ask("/schemas")["rows"] == [])
        silenced: dict[str, Any] = {"alert": "Off*", "for": "1h"}
        self.act("/alerts/silence", **silenced)
        [silence] = self.ask("/alerts")["silences"]
        self.act("/alerts/end-silence", id=silence["id"])
        assert "127.0.0.1:9" in self.act("/alerts/test", 422, channel="hook")
        rows = self.ask("/sql", statement='select max("offset") n from orders', seconds=60)["rows"]
        assert rows == [["29"]]  # what the ended transaction wrote is not read


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
