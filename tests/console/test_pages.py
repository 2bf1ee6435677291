from __future__ import annotations

import html
import re
import socket
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from kavka.cli.main import main
from kavka.console import application
from kavka.console.access.permissions import NEEDS
from kavka.console.openapi import document
from kavka.console.security import HEADERS
from kavka.testing.local_cluster import LocalCluster
from support.access import AUTHORIZER
from support.console import Cluster, console
from support.console_pages import ADDRESSES, FOLLOWED

PATHS = (
    "/",
    "/brokers",
    "/brokers/1",
    "/brokers/1?search=log&changed=true",
    "/brokers/1/settings?name=log.retention.ms&value=60000",
    "/brokers/all/settings",
    "/topics",
    "/topics?search=s&sort=state&internal=true",
    "/topics/shown",
    "/topics/shown/messages",
    "/topics/shown/settings",
    "/topics/shown/delete",
    "/create-topic",
    "/groups",
    "/group/reset?id=readers",
    "/group?id=readers",
    "/group/delete?id=readers",
    "/history",
    "/history?kind=group&name=readers&range=30d",
    "/alerts",
    "/alerts/rules",
    "/alerts/rule",
    "/alerts/rule/delete?rule=GroupStuck",
    "/alerts/history",
    "/alerts/silence",
    "/alerts/end-silence?id=none",
    "/alerts/test?channel=none",
    "/topics/shown/partitions",
    "/reassign",
    "/reassign?topics=shown&variant=2",
    "/moves",
    "/elect",
    "/elect?kind=unclean&topics=shown",
    "/transactions",
    "/transactions?search=none&state=Ongoing",
    "/transactions/hanging",
    "/transactions/hanging?find=true&minutes=0",
    "/acls",
    "/acls/new",
    "/acls/remove?principal=User:alice&name=shown",
    "/users",
    "/users/password?user=alice",
    "/quotas",
    "/quotas/change?user=alice",
    "/topics/shown/produce?from=0:0",
    "/topics/shown/records/0/0",
    "/topics/shown/records/0/0/copy",
    "/schemas",
    "/pipelines",
    "/audit",
    "/sql",
)

ELSEWHERE = {"/transaction", "/transactions/abort", "/users/remove", "/schema", "/schema/new"}
"""Pages about what first has to be made: test_admin_pages.py and test_more_pages.py open them."""


@pytest.fixture(scope="module", autouse=True)
def shown(cluster: Cluster) -> None:
    cluster.create("shown", 3)
    cluster.write("shown", [(b"k", b"v")])
    cluster.commit("readers", {("shown", 0): 0})


@pytest.mark.parametrize("path", PATHS)
def test_a_page_and_the_api_have_the_same_answer(pages: TestClient, path: str) -> None:
    page = pages.get(path)
    assert page.status_code == 200, page.text
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    data = pages.get(f"/api{'/overview' if path == '/' else path}")
    assert data.status_code == 200, data.text
    assert pages.get(path, headers={"Accept-Language": "zh"}).status_code == 200
    name = path.partition("?")[0].split("/")[-1]
    assert {HEADERS[k] for k in HEADERS} <= set(page.headers.values())
    if name == "shown":
        assert [part["end_offset"] for part in data.json()["partitions"]] == [1, 0, 0]


def test_each_page_is_opened_by_a_test() -> None:
    opened = {path.partition("?")[0] for path in PATHS} | ELSEWHERE
    for page in application.PAGES:
        pattern = re.sub(r"\{\w+\}", "[^/]+", page.path)
        assert any(re.fullmatch(pattern, path) for path in opened), page.path


def test_each_page_is_opened_with_apache_kafka_and_in_a_browser() -> None:
    wanted = {
        path for (verb, path), need in NEEDS.items() if verb == "GET" if need.scope != "public"
    }
    assert ADDRESSES.keys() == wanted - FOLLOWED


def test_no_page_has_inline_script_or_style(pages: TestClient) -> None:
    for path in (*PATHS, "/api", "/none"):
        text = pages.get(path).text
        assert not re.findall(r"<style|\sstyle=|\son\w+=|javascript:", text), path
        assert all('src="/assets/' in tag for tag in re.findall(r"<script[^>]*>", text))
        assert not re.findall(r'(?:src|href)="(?:https?:)?//', text), path


def test_what_a_page_loads_is_there(pages: TestClient) -> None:
    text = pages.get("/").text
    loaded = re.findall(r'(?:src|href)="(/assets/[^"]+)"', text)
    assert len(set(loaded)) == 6
    assert {pages.get(path).status_code for path in loaded} == {200}


def test_another_host_is_refused(pages: TestClient) -> None:
    for host in ("evil.example", "127.0.0.1.evil.example:8080", "", "192.168.0.1"):
        answer = pages.get("/topics", headers={"Host": host})
        assert answer.status_code == 421
        assert "/topics/shown" not in answer.text
    for host in ("localhost:8080", "127.0.0.1", "[::1]:8080", "LOCALHOST"):
        assert pages.get("/topics/shown", headers={"Host": host}).status_code == 200


def test_another_site_may_link_here_and_embed_nothing(pages: TestClient) -> None:
    for site in ("cross-site", "same-site"):
        link = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate"}
        assert pages.get("/topics/shown", headers=link).status_code == 200
        for mode in ("no-cors", "cors"):
            embedded = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode}
            for path in ("/topics/shown/tail", "/api/topics/shown/messages"):
                assert pages.get(path, headers=embedded).status_code == 403


def test_the_api_is_described(pages: TestClient) -> None:
    described = pages.get("/api/openapi.json").json()
    assert described == document(application.PAGES, application.ACTIONS, application.DOWNLOADS)
    assert described["openapi"] == "3.1.0"
    posts = [path for path, methods in described["paths"].items() if "post" in methods]
    assert posts == [
        "/api/brokers/{broker}/settings",
        "/api/create-topic",
        "/api/topics/{topic}/settings",
        "/api/topics/{topic}/delete",
        "/api/reassign",
        "/api/moves",
        "/api/elect",
        "/api/topics/{topic}/partitions",
        "/api/topics/{topic}/produce",
        "/api/topics/{topic}/records/{partition}/{offset}/copy",
        "/api/group/reset",
        "/api/group/delete",
        "/api/alerts/silence",
        "/api/alerts/end-silence",
        "/api/alerts/test",
        "/api/alerts/rule",
        "/api/alerts/rule/delete",
        "/api/transaction",
        "/api/transactions/abort",
        "/api/acls/new",
        "/api/acls/remove",
        "/api/users/password",
        "/api/users/remove",
        "/api/quotas/change",
        "/api/schema",
        "/api/schema/new",
    ]
    schemas = described["components"]["schemas"]
    for path in PATHS:
        name = "/api" + ("/overview" if path == "/" else path)
        template = re.sub(
            "/shown|/1|/all", lambda m: "/{topic}" if m[0] == "/shown" else "/{broker}", name
        ).partition("?")[0]
        template = template.replace("/0/0", "/{partition}/{offset}")
        ref = described["paths"][template]["get"]["responses"]["200"]
        schema = ref["content"]["application/json"]["schema"]
        conforms(pages.get(name).json(), schema, schemas)


def conforms(value: Any, schema: dict[str, Any], schemas: dict[str, Any]) -> None:
    """Check an answer against the part of JSON Schema that the document uses."""
    if "$ref" in schema:
        schema = schemas[schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema:
        types = {one.get("type", "object") for one in schema["anyOf"]}
        assert (value is None) == ("null" in types and value is None)
        if value is None:
            return
        schema = next(one for one in schema["anyOf"] if one.get("type") != "null")
        conforms(value, schema, schemas)
        return
    kinds = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int}
    expected = kinds.get(schema["type"], (int, float))
    assert isinstance(value, expected), (value, schema)
    if isinstance(value, list):
        for one in value:
            conforms(one, schema["items"], schemas)
    elif isinstance(value, dict) and "properties" in schema:
        assert value.keys() == schema["properties"].keys()
        for name, one in value.items():
            conforms(one, schema["properties"][name], schemas)


def test_missing_pages_say_so(pages: TestClient) -> None:
    for path, sentence in (
        ("/nothing", "The console has no page /nothing."),
        ("/topics/absent", "UNKNOWN_TOPIC_OR_PARTITION"),
        ("/brokers/99", "The cluster has no broker 99."),
        ("/group?id=absent", "There is no group 'absent'."),
        ("/group", "id is missing"),
    ):
        page = pages.get(path)
        assert page.status_code in (400, 404), path
        assert sentence in html.unescape(page.text)
    assert pages.put("/topics").status_code == 405


@pytest.mark.slow
def test_without_a_broker_a_page_says_what_to_do() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        servers = f"127.0.0.1:{closed.getsockname()[1]}"
        with console(servers, timeout_ms=2000) as pages:
            page = pages.get("/")
            assert page.status_code == 503
            assert "No broker can be reached" in page.text
            assert f"Check that a broker runs at {servers}" in page.text


def test_a_console_that_was_first_connects_when_its_broker_comes(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    with console(f"127.0.0.1:{port}", timeout_ms=300) as pages:
        assert pages.get("/api/topics").status_code in (503, 504)
        settings = {"listeners": f"PLAINTEXT://127.0.0.1:{port}"}
        with LocalCluster(tmp_path, brokers=1, settings=settings) as started:
            started.until(lambda: pages.get("/api/topics").status_code == 200)


@pytest.mark.long
def test_a_killed_broker_and_its_partitions_show(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, brokers=2) as started:
        cluster = Cluster(started.bootstrap_servers)
        cluster.create("t", 2)
        with console(started.bootstrap_servers, timeout_ms=400) as pages:
            started.until(lambda: pages.get("/api/overview").json().get("state") == "ok")
            started.kill(2)
            # Until its session has ended the cluster names it, and it is one that does not answer.
            started.until(lambda: "Broker 2 is not in the cluster, and " in pages.get("/").text)
            overview = pages.get("/api/overview").json()
            sentences = [finding["sentence"] for finding in overview["findings"]]
            assert sentences[0].startswith("Broker 2 is not in the cluster, and ")
            assert any("no leader, in " in sentence for sentence in sentences)
            assert [row["is_live"] for row in overview["brokers"]] == [True, False]


def test_a_cluster_that_stands_still_is_said_to_be_slow(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, brokers=1) as started:
        Cluster(started.bootstrap_servers).create("t")
        with console(started.bootstrap_servers, timeout_ms=400) as pages:
            started.until(lambda: pages.get("/topics/t").status_code == 200)
            started.pause(1)
            slow = pages.get("/topics/t")
            assert (slow.status_code, "answers too slowly" in slow.text) == (504, True)
            started.resume(1)
            started.until(lambda: pages.get("/topics/t").status_code == 200)


@pytest.mark.long
def test_a_topic_is_shown_without_what_one_leader_does_not_answer(tmp_path: Path) -> None:
    session = {"zookeeper.session.timeout.ms": "60000"}  # its leader stays leader meanwhile
    with LocalCluster(tmp_path, brokers=2, settings=session) as started:
        Cluster(started.bootstrap_servers).create("t", 2)
        with console(started.bootstrap_servers) as pages:
            started.until(lambda: pages.get("/topics/t").status_code == 200)
            other = 3 - started.controller()
            started.pause(other)
            answer = pages.get("/api/topics/t")
            started.resume(other)
    assert answer.status_code == 200, answer.text
    parts = {part["leader"]: part for part in answer.json()["partitions"]}
    assert (parts[3 - other]["end_offset"], parts[3 - other]["note"]) == (0, "")
    assert parts[other]["end_offset"] is None
    assert "in 3000 ms" in parts[other]["note"]


def test_a_console_without_acls_says_so(tmp_path: Path) -> None:
    settings = {"authorizer.class.name": AUTHORIZER, "super.users": "User:admin"}
    with (
        LocalCluster(tmp_path, brokers=1, settings=settings) as started,
        console(started.bootstrap_servers) as pages,
    ):
        assert pages.get("/").status_code in (200, 403)
        refused = pages.get("/topics/t/messages")
        assert refused.status_code == 403
        assert "The console is not authorised for this" in refused.text
        assert "TOPIC_AUTHORIZATION_FAILED" in refused.text


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.4", "example.org"])
def test_without_login_and_tls_the_command_listens_on_the_loopback_only(
    host: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["console", "--bootstrap-server", "localhost:9092", "--host", host]
    assert main(words) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert "needs a login: --access FILE" in said.err
    assert "TLS: --tls-certificate" in said.err


def test_the_command_says_what_is_wrong(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "client").write_text("security.protocol=NONE\n", encoding="utf-8")
    (tmp_path / "reader").write_text("isolation.level=some\n", encoding="utf-8")
    words = ["console", "--bootstrap-server", "localhost:9092"]
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        for more, sentence in (
            (["--command-config", str(tmp_path / "client"), "--port", "0"], "security.protocol"),
            (["--command-config", str(tmp_path / "reader"), "--port", "0"], "isolation.level"),
            (["--command-config", str(tmp_path / "none")], "cannot read"),
            (["--port", "70000"], "--port 70000 is no port"),
            (["--port", port], "cannot listen: Address already in use"),
        ):
            assert main([*words, *more]) == 1
            assert sentence in capsys.readouterr().err
