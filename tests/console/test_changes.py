from __future__ import annotations

import html
import re
import time
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from kavka.client import blocking
from support.console import Cluster
from support.console_access import audited
from support.waiting import wait_until

GROUP = "g/1 <b>&"
"""A group may have any name."""


def token(pages: TestClient, path: str) -> str:
    """Open the page of a form, and return the token in it."""
    found = re.search(r'name="csrf_token" value="(\w+)"', pages.get(path).text)
    assert found is not None
    return found[1]


def submit(pages: TestClient, path: str, page: str = "", **fields: str):
    """Fill a form and send it as a browser does."""
    return pages.post(
        path,
        data={"csrf_token": token(pages, page or path), **fields},
        headers={"Origin": "http://127.0.0.1:8080", "Sec-Fetch-Site": "same-origin"},
    )


def test_a_topic_is_created_changed_and_deleted(pages: TestClient) -> None:
    made = submit(
        pages,
        "/create-topic",
        name="made",
        partitions="3",
        settings="retention.ms=60000\n\ncleanup.policy = compact\n",
    )
    assert made.status_code == 200, made.text
    assert made.url.path == "/topics/made"
    assert "Topic made was created." in made.text
    assert "Topic made was created." not in pages.get("/topics/made").text
    settings = {
        row["name"]: row
        for row in pages.get("/api/topics/made/settings?changed=true").json()["settings"]
    }
    assert {name: row["value"] for name, row in settings.items()} == {
        "retention.ms": "60000",
        "cleanup.policy": "compact",
    }
    assert settings["retention.ms"]["source"] == "topic"
    assert settings["cleanup.policy"]["inherited"] == "delete (default)"
    assert settings["retention.ms"]["documentation"]

    changed = submit(pages, "/topics/made/settings", "/topics/made/settings?name=retention.ms",
                     name="retention.ms", value="70000")  # fmt: skip
    assert "retention.ms of made is now '70000'." in html.unescape(changed.text)
    submit(pages, "/topics/made/settings", "/topics/made/settings?name=retention.ms",
           name="retention.ms", reset="true")  # fmt: skip
    left = pages.get("/api/topics/made/settings?changed=true").json()["settings"]
    assert [row["name"] for row in left] == ["cleanup.policy"]

    kept = submit(pages, "/topics/made/delete", confirm="Made")
    assert kept.status_code == 400
    assert "The topic was not deleted" in kept.text
    assert pages.get("/topics/made").status_code == 200
    deleted = submit(pages, "/topics/made/delete", confirm="made")
    assert "Topic made was deleted" in deleted.text
    assert "made" not in [row["name"] for row in pages.get("/api/topics").json()["rows"]]


@pytest.mark.parametrize(
    ("fields", "status", "sentence"),
    [
        ({"name": "a b"}, 422, "INVALID_TOPIC_EXCEPTION"),
        ({"name": "many", "replicas": "5"}, 422, "INVALID_REPLICATION_FACTOR"),
        ({"name": "t", "settings": "retention.ms"}, 400, "no setting such as"),
        ({"name": "t", "settings": "retention.ms=soon"}, 422, "INVALID_CONFIG"),
        ({"name": "t", "partitions": "0"}, 400, "can be from 1"),
        ({"name": " "}, 400, "name is missing"),
    ],
)
def test_a_refused_form_keeps_its_values_and_says_why(
    pages: TestClient, fields: dict[str, str], status: int, sentence: str
) -> None:
    answer = submit(pages, "/create-topic", **{"settings": "a=b", **fields})
    assert answer.status_code == status
    text = html.unescape(answer.text)
    assert sentence in text
    assert f'value="{fields["name"]}"' in text
    assert pages.get("/api/topics/t").status_code == 404


def test_a_creation_can_be_checked_only(pages: TestClient) -> None:
    assert (
        "Topic checked could be created."
        in submit(pages, "/create-topic", name="checked", check="true").text
    )
    assert pages.get("/topics/checked").status_code == 404


@pytest.fixture(scope="module")
def reset_topic(cluster: Cluster) -> str:
    cluster.create("reset", 2)
    now_ms = time.time_ns() // 1_000_000
    for partition in range(2):
        for age_s in (3600, 60):
            rows: list[tuple[bytes | None, bytes | None]] = [(None, b"x")] * 5
            cluster.write("reset", rows, partition, timestamp_ms=now_ms - age_s * 1000)
    return "reset"


def test_a_group_has_its_lag_in_records_and_in_seconds(
    cluster: Cluster, pages: TestClient, reset_topic: str
) -> None:
    cluster.commit(GROUP, {(reset_topic, 0): 2, (reset_topic, 1): 10})
    group = pages.get("/api/group", params={"id": GROUP}).json()
    assert (group["state"], group["lag_records"], group["can_be_reset"]) == ("Empty", 8, True)
    assert 3600 <= group["lag_seconds"] < 4000
    assert [row["lag_records"] for row in group["partitions"]] == [8, 0]
    assert [row["lag_seconds"] for row in group["partitions"]][1] == 0
    rows = {row["group_id"]: row for row in pages.get("/api/groups").json()["rows"]}
    assert (rows[GROUP]["lag_records"], rows[GROUP]["topics"]) == (8, ["reset"])
    page = pages.get("/group", params={"id": GROUP}).text
    assert html.escape(GROUP) in page
    assert "<b>" not in page
    assert "No member reads, and records wait." in page


@pytest.mark.parametrize(
    ("query", "expected", "again", "skipped"),
    [
        ({"scenario": "earliest"}, [0, 0], 12, 0),
        ({"scenario": "latest"}, [10, 10], 0, 8),
        ({"scenario": "offset", "value": "99"}, [10, 10], 0, 8),
        ({"scenario": "shift", "value": "-1"}, [1, 9], 2, 0),
        ({"scenario": "shift", "value": "-100"}, [0, 0], 12, 0),
    ],
)
def test_a_dry_run_changes_nothing_and_the_reset_does_what_it_said(
    cluster: Cluster,
    pages: TestClient,
    reset_topic: str,
    query: dict[str, str],
    expected: list[int],
    again: int,
    skipped: int,
) -> None:
    before = {(reset_topic, 0): 2, (reset_topic, 1): 10}
    cluster.commit("moved", before)
    plan = pages.get("/api/group/reset", params={"id": "moved", **query}).json()
    assert [row["new"] for row in plan["rows"]] == expected
    assert (plan["again"], plan["skipped"]) == (again, skipped)
    assert cluster.committed("moved") == before
    done = submit(
        pages, "/group/reset", "/group/reset?id=moved&scenario=latest", id="moved", **query
    )
    assert done.status_code == 200, done.text
    assert "2 offsets of moved were set" in done.text
    assert list(cluster.committed("moved").values()) == expected


def test_a_reset_to_a_time_takes_the_first_record_since(
    cluster: Cluster, pages: TestClient, reset_topic: str
) -> None:
    cluster.commit("timed", {(reset_topic, 0): 0})
    at_ms = time.time_ns() // 1_000_000 - 600_000
    query = {"id": "timed", "scenario": "time", "time": str(at_ms)}
    plan = pages.get("/api/group/reset", params=query).json()
    assert [row["new"] for row in plan["rows"]] == [5]
    young = {**query, "time": str(at_ms + 86_400_000)}
    late = pages.get("/api/group/reset", params=young).json()
    assert [(row["new"], row["note"]) for row in late["rows"]] == [
        (10, "no record is that young: the end")
    ]


def test_a_group_with_members_is_not_reset(
    cluster: Cluster, pages: TestClient, reset_topic: str
) -> None:
    settings = {**cluster.settings, "group.id": "busy", "auto.offset.reset": "earliest"}
    with blocking.Consumer(settings) as consumer:
        consumer.subscribe([reset_topic])
        while not consumer.poll(200):
            pass
        consumer.commit()
        group = pages.get("/api/group?id=busy").json()
        assert (group["state"], len(group["members"])) == ("Stable", 1)
        assert group["members"][0]["partitions"] == ["reset-0", "reset-1"]
        body = {"id": "busy", "scenario": "earliest"}
        refused = pages.post("/api/group/reset", json=body)
        kept = pages.post("/api/group/delete", json={"id": "busy", "confirm": "busy"})
    assert (refused.status_code, refused.json()["title"]) == (409, "The group has members")
    assert (kept.status_code, kept.json()["title"]) == (409, "The group has members")
    assert "was not deleted: it is Stable" in kept.json()["detail"]


def test_a_group_is_deleted_when_its_id_was_typed(
    cluster: Cluster, pages: TestClient, reset_topic: str
) -> None:
    cluster.commit(GROUP, {(reset_topic, 0): 2})
    page = f"/group/delete?id={quote(GROUP)}"
    wrong = submit(pages, "/group/delete", page, id=GROUP, confirm="b")
    assert "not its id" in wrong.text
    assert cluster.committed(GROUP)
    done = submit(pages, "/group/delete", page, id=GROUP, confirm=GROUP)
    assert f"Group {html.escape(GROUP)} was deleted, with its offsets." in done.text
    assert pages.get("/api/group", params={"id": GROUP}).status_code == 404
    gone = pages.post("/api/group/delete", json={"id": GROUP, "confirm": GROUP})
    assert gone.status_code == 404


@pytest.mark.parametrize(
    ("headers", "with_token"),
    [
        ({}, False),
        ({"Origin": "http://evil.example"}, True),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, True),
        ({"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "navigate"}, True),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "http://127.0.0.1:9"}, True),
    ],
)
def test_a_change_from_another_site_is_refused(
    pages: TestClient, headers: dict[str, str], with_token: bool
) -> None:
    fields = {"name": "forged"}
    if with_token:
        fields["csrf_token"] = token(pages, "/create-topic")
    answer = pages.post("/create-topic", data=fields, headers=headers)
    assert answer.status_code == 403
    assert "It did not come from a page of this console" in answer.text
    assert pages.get("/api/topics/forged").status_code == 404


def test_a_token_is_of_one_browser(pages: TestClient) -> None:
    stolen = token(pages, "/create-topic")
    pages.cookies.clear()
    assert pages.post("/create-topic", data={"name": "x", "csrf_token": stolen}).status_code == 403


def test_the_api_changes_with_json_alone(pages: TestClient) -> None:
    path, fields = "/api/create-topic", {"name": "by-api"}
    assert pages.post(path, data=fields).status_code == 403
    plain = {"Content-Type": "text/plain"}
    assert pages.post(path, content='{"name": "by-api"}', headers=plain).status_code == 403
    foreign = {"Origin": "http://evil.example"}
    assert pages.post(path, json=fields, headers=foreign).status_code == 403
    assert pages.post(path, json=["by-api"]).status_code == 400
    assert pages.post(path, json=fields).json() == {
        "message": "Topic by-api was created.",
        "location": "/topics/by-api",
    }
    again = pages.post(path, json=fields)
    assert (again.status_code, again.json()["title"]) == (409, "The cluster refuses this now")


def test_a_setting_of_a_broker_is_planned_changed_and_removed(
    cluster: Cluster, pages: TestClient
) -> None:
    path, name = "/brokers/1/settings", "log.cleaner.backoff.ms"
    plan = pages.get(f"/api{path}?name={name}&value=20000").json()
    assert plan["plan"] == [
        {
            "broker_id": 1,
            "before": "15000",
            "source": "default",
            "after": "20000",
            "is_changed": True,
            "note": "",
        }
    ]
    refused = pages.get(f"{path}?name={name}&value=soon").text
    assert "The broker does not take it: INVALID_REQUEST: Invalid value soon for " in refused
    # The value goes with the setting that it is of, not with another that is chosen.
    choice = refused[refused.index("<select name=") :]
    assert 'name="value"' not in choice[: choice.index("</form>")]
    assert 'name="confirm"' not in refused
    wrong = submit(pages, path, f"{path}?name={name}&value=1", name=name, value="20000")
    assert (wrong.status_code, "the confirmation is not 1" in wrong.text) == (400, True)
    page = f"{path}?name={name}&value=20000"
    changed = submit(pages, path, page, name=name, value="20000", confirm="1")
    assert "log.cleaner.backoff.ms of broker 1 is now &#39;20000&#39;." in changed.text
    [setting] = pages.get(f"/api/brokers/1?search={name}").json()["settings"]
    assert (setting["value"], setting["source"]) == ("20000", "broker, dynamic")
    kept = pages.get(f"/api/brokers/all/settings?name={name}&value=30000").json()["plan"]
    assert (kept[0]["after"], kept[0]["note"]) == ("20000", "it keeps the value of its own")
    below = pages.get(f"/api{path}?name={name}&reset=true").json()["plan"]
    assert below[0]["after"] == "15000"
    made = pages.post(f"/api{path}", json={"name": name, "reset": True, "confirm": "1"})
    assert made.json()["message"].endswith("was removed: what is below it holds.")


def test_a_setting_of_all_brokers_and_a_secret_are_changed(
    cluster: Cluster, pages: TestClient
) -> None:
    path, name = "/api/brokers/all/settings", "log.cleaner.backoff.ms"
    answer = pages.post(path, json={"name": name, "value": "25000", "confirm": "all"})
    assert answer.status_code == 200, answer.text
    wait_until(lambda: pages.get(path).json()["defaults"] != [])
    assert [(one["name"], one["value"]) for one in pages.get(path).json()["defaults"]] == [
        (name, "25000")
    ]
    for_one = pages.post(path, json={"name": "broker.id", "value": "2", "confirm": "all"})
    assert (for_one.status_code, "broker.id" in for_one.json()["detail"]) == (422, True)
    secret = "listener.name.plaintext.ssl.keystore.password"
    shown = pages.get(f"/brokers/1/settings?name={secret}&value=x").text
    assert 'type="password"' in shown
    with audited() as lines:
        for where in (path, "/api/brokers/7/settings"):
            refused = pages.post(where, json={"name": secret, "value": "hush", "confirm": "all"})
            assert refused.status_code in (400, 404)
            assert "hush" not in refused.text
        assert [line["on"]["name"] for line in lines] == [secret, secret]
        assert "hush" not in str(lines)
        unknown = pages.post(path, json={"name": "of.a.plugin", "value": "hush", "confirm": "all"})
        assert (unknown.status_code, "hush" in str(lines)) == (400, False)
        for empty in (secret, "log.retention.ms"):
            none = pages.post(path, json={"name": empty, "confirm": "all"})
            assert (none.status_code, "no new value" in none.json()["detail"]) == (400, True)
    with audited() as lines:
        given = {"name": secret, "secret": "hush-hush", "confirm": "all"}
        answer = pages.post(path, json=given)
    assert answer.status_code == 422
    assert "hush-hush" not in answer.text + str(lines)
    pages.post(path, json={"name": name, "reset": True, "confirm": "all"})
