"""Schemas of a registry, and pipelines on Spark."""

from __future__ import annotations

import html
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from kavka.client import blocking
from kavka.client.schemas import AvroSerializer, SchemaRegistry
from kavka.spark.queries.flow_progress import FlowProgress, PartitionLag
from support.console import Cluster, console
from support.console_access import access, browsers
from support.schema_registry import RegistryServer, serve_registry

FIRST = '{"type": "record", "name": "R", "fields": [{"name": "n", "type": "long"}]}'
SECOND = json.dumps({"type": "record", "name": "R", "fields": [
    {"name": "n", "type": "long"}, {"name": "t", "type": "string", "default": "none"},
]})  # fmt: skip


@pytest.fixture(scope="module")
def server() -> Iterator[RegistryServer]:
    with serve_registry() as made:
        yield made


@pytest.fixture(scope="module")
def with_schemas(cluster: Cluster, server: RegistryServer) -> Iterator[TestClient]:
    cluster.create("clicks")
    writes = AvroSerializer(SchemaRegistry(server.url), FIRST, "clicks-value")
    with blocking.Producer(cluster.settings | {"value.serializer": writes}) as producer:
        for n in range(3):
            producer.send("clicks", {"n": n})
    with console(cluster.bootstrap, registry={"url": server.url}) as client:
        yield client


def test_values_with_a_schema_are_decoded_found_and_written_again(
    with_schemas: TestClient,
) -> None:
    pages = with_schemas
    found = pages.get("/api/topics/clicks/messages?path=n>0&start=oldest").json()["records"]
    assert [json.loads(record["value"]) for record in found] == [{"n": 1}, {"n": 2}]
    assert (found[0]["value_schema"], found[0]["line"]) == ("AVRO, schema 1", '{ "n": 1 }')
    rows = pages.get("/topics/clicks/export?start=oldest").json()["records"]
    assert (rows[2]["value"], rows[2]["value_encoding"]) == ({"n": 2}, "AVRO schema 1")
    form = pages.get("/api/topics/clicks/produce?from=0:1").json()
    assert (json.loads(form["value"]), form["value_format"]) == ({"n": 1}, "schema")
    body = {"value": '{"n": 7}', "value_format": "schema"}
    written = pages.post("/api/topics/clicks/produce", json=body)
    assert written.status_code == 200, written.text
    record = pages.get(f"/api{written.json()['location']}").json()
    assert json.loads(record["value"]) == {"n": 7}
    assert pages.get(f"{written.json()['location']}/value").content == b"\0\0\0\0\x01\x0e"
    wrong = pages.post("/api/topics/clicks/produce", json={**body, "value": '{"n": "text"}'})
    assert (wrong.status_code, wrong.json()["title"]) == (422, "The schema registry refuses this")


def test_a_subject_has_versions_differences_and_a_level(
    with_schemas: TestClient, server: RegistryServer
) -> None:
    pages = with_schemas
    new = {"name": "clicks-value", "kind": "AVRO", "schema": SECOND}
    assert pages.post("/api/schema/new", json={**new, "check": True}).status_code == 200
    assert pages.post("/api/schema/new", json=new).status_code == 200
    [row] = pages.get("/api/schemas?search=click").json()["rows"]
    assert (row["name"], row["version"], row["versions"]) == ("clicks-value", 2, 2)
    view = pages.get("/api/schema?name=clicks-value").json()
    assert (view["version"], view["compared"]) == (2, 1)
    added = [line["text"].strip() for line in view["diff"] if line["kind"] == "added"]
    assert '"name": "t",' in added
    assert not [
        line for line in view["diff"] if line["kind"] == "removed" and '"n"' in line["text"]
    ]
    assert "clicks-value" in pages.get("/schemas").text
    assert pages.get("/schema?name=clicks-value&version=1").status_code == 200
    change = {"name": "clicks-value", "level": "FULL"}
    assert pages.post("/api/schema", json=change).status_code == 200
    assert pages.get("/api/schema?name=clicks-value").json()["compatibility"] == "FULL"
    server.incompatible.add("clicks-value")
    refused = pages.post("/api/schema/new", json={**new, "schema": '"string"'})
    assert refused.status_code == 409
    gone = {"name": "clicks-value", "do": "delete"}
    assert pages.post("/api/schema", json=gone).status_code == 400
    assert pages.post("/api/schema", json={**gone, "confirm": "clicks-value"}).status_code == 200
    assert pages.get("/api/schemas").json()["rows"] == []


def test_a_registry_that_does_not_answer_is_named(cluster: Cluster) -> None:
    with console(cluster.bootstrap, registry={"url": "http://127.0.0.1:9"}) as pages:
        answer = pages.get("/schemas")
        assert answer.status_code == 503
        assert "Check that one runs at http://127.0.0.1:9." in answer.text
        assert pages.get("/topics").status_code == 200


def test_a_console_without_a_registry_says_how_to_have_one(pages: TestClient) -> None:
    assert "--schema-registry" in pages.get("/schemas").text
    assert pages.get("/schema?name=s").status_code == 404


def test_flows_of_pipelines_are_shown_those_that_fail_first(
    cluster: Cluster, pages: TestClient
) -> None:
    assert "no pipeline has reported" in pages.get("/pipelines").text
    cluster.create("__kavka_pipelines", cleanup__policy="compact")
    now_ms = time.time_ns() // 1_000_000
    well = FlowProgress("shop", "clicks", state="running", batch_id=3, rows_in=5, updated_ms=now_ms)
    well.lag["clicks-0"] = PartitionLag(7, 1.5)
    broken = FlowProgress("shop", "orders", state="failed", restarts=2, last_error="<b>boom</b>")
    lost = FlowProgress("shop", "views", state="running")
    rows: list[tuple[bytes | None, bytes | None]] = [
        (f"shop/{flow.flow}".encode(), flow.to_json().encode()) for flow in (well, broken)
    ]
    cluster.write("__kavka_pipelines", rows)
    cluster.write(
        "__kavka_pipelines",
        [(b"shop/views", lost.to_json().encode())],
        timestamp_ms=now_ms - 120_000,
    )
    view = pages.get("/api/pipelines").json()
    assert [(row["flow"], row["state"]) for row in view["rows"]] == [
        ("orders", "failed"),
        ("views", "lost"),
        ("clicks", "running"),
    ]
    assert view["failing"] == 2
    assert (view["rows"][2]["lag_records"], view["rows"][2]["lag_seconds"]) == (7, 1.5)
    page = pages.get("/pipelines").text
    assert "&lt;b&gt;boom" in page
    assert "<b>boom" not in page
    few = pages.get("/api/pipelines?search=shop/cl").json()
    assert ([row["flow"] for row in few["rows"]], few["total"], few["failing"]) == (
        ["clicks"],
        3,
        2,
    )


def test_flows_of_pipelines_have_pages(cluster: Cluster, pages: TestClient) -> None:
    cluster.create("many-flows")
    flows = [FlowProgress("shop", f"f{number:02}", state="stopped") for number in range(60)]
    cluster.write(
        "many-flows", [(f"shop/{one.flow}".encode(), one.to_json().encode()) for one in flows]
    )
    view = pages.get("/api/pipelines?topic=many-flows&page=2").json()
    assert [row["flow"] for row in view["rows"]] == [f"f{number:02}" for number in range(50, 60)]
    assert (view["total"], view["paging"]["pages"]) == (60, 2)
    page = html.unescape(pages.get("/pipelines?topic=many-flows").text)
    assert 'href="?topic=many-flows&page=2"' in page
    assert "50 of 60 flows" in page


def test_a_cluster_without_an_audit_says_so(pages: TestClient) -> None:
    assert "write no audit into a topic" in pages.get("/audit").text


def test_pipelines_are_read_through_the_masks(cluster: Cluster, tmp_path: Path) -> None:
    cluster.create("flows")
    failed = FlowProgress("shop", "orders", state="failed", last_error="no call to 555-123")
    cluster.write("flows", [(b"shop/orders", failed.to_json().encode())])
    masks = [{"pattern": r"\d{3}-\d{3}"}]
    with browsers(cluster.bootstrap, access(tmp_path, masks=masks)) as opened:
        ada = opened(user="ada")
        [row] = ada.get("/api/pipelines?topic=flows").json()["rows"]
        assert row["last_error"] == "no call to ***"
        assert "555-123" not in ada.get("/pipelines?topic=flows").text
