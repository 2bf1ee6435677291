"""Pages that show a part say that there is more."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from kavka.client.consumer.batches import ConsumerRecord
from kavka.console.alerts import records
from kavka.console.alerts.book import Key, State
from kavka.console.alerts.records import NewDelivery
from kavka.console.history.file import HistoryFile
from kavka.console.rendering import NOUNS, environment
from kavka.console.views.messages import record_view
from kavka.core.incident import Phase
from support.console import Cluster, console

PAGING = """{% import "macros.html" as m with context %}{{ m.pages(paging, {}, noun) }}"""


def test_keys_and_headers_that_are_cut_say_so(cluster: Cluster, pages: TestClient) -> None:
    long = b"x" * 20_000
    view = record_view(ConsumerRecord("t", 0, 1, 2, 0, long, b"v", (("h", long), ("i", b"1"))))
    assert (view.key_is_whole, [one.is_whole for one in view.headers]) == (False, [False, True])
    cluster.create("long")
    cluster.write("long", [(long * 15, b"v")], headers=[("h", long), ("i", b"1")])
    assert "<code>1</code>" in pages.get("/topics/long/messages").text
    assert "x…</code>" in pages.get("/topics/long/messages").text
    assert "export the record for all of it" in pages.get("/topics/long/records/0/0").text
    shown = pages.get("/api/topics/long/records/0/0?hex=true").json()
    assert (shown["key_is_whole"], shown["value_is_whole"]) == (False, True)


def test_all_messages_that_wait_for_a_channel_are_counted() -> None:
    file = HistoryFile(None, 1 << 30, 10)
    new = [NewDelivery(name, str(n), "{}") for n in range(300) for name in ("a", "b")]
    records.write(file, {}, [], [records.waiting(0, one, 1) for one in new], {})
    records.write(file, None, [], [], {1: records.Result(records.DELIVERED, 1, 0, "HTTP 200")})
    found = records.of_channels(file)
    assert {name: waiting for name, (waiting, _) in found.items()} == {"a": 299, "b": 300}
    [tried] = [one for _, one in found.values() if one is not None]
    assert (tried.channel, tried.reason) == ("a", "HTTP 200")
    file.close()


def test_alerts_have_pages_and_the_worst_of_all_stands_above() -> None:
    with console("127.0.0.1:1", timeout_ms=200) as pages:
        states = pages.app.state.services.alerts.book.states
        for number in range(130):
            severity = "critical" if number == 7 else "warning"
            states[Key("Late", f"g{number}")] = State(Phase.FIRING, number, severity=severity)
        first, second = (pages.get(f"/api/alerts?page={page}").json() for page in (1, 2))
        assert (len(first["alerts"]), len(second["alerts"])) == (100, 30)
        assert first["alerts"][0]["subject"] == "g7"
        assert (second["firing"], second["worst"], second["paging"]["total"]) == (
            130,
            "critical",
            130,
        )
        assert "of 130 alerts" in pages.get("/alerts?page=2").text


def test_the_page_of_sql_says_that_there_are_more_topics(
    cluster: Cluster, pages: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kavka.console.pages.sql._LISTED_TOPICS", 1)
    for name in ("one", "two", "three"):
        cluster.create(name)
    pages.app.state.services.cluster.forget_topics()
    found = pages.get("/api/sql").json()
    assert (len(found["topics"]), found["more_topics"] >= 2) == (1, True)
    assert f"and {found['more_topics']} more" in pages.get("/sql").text


def test_lists_in_chinese_say_what_they_list() -> None:
    paging = {"page": 1, "pages": 1, "first": 1, "last": 2, "total": 2}
    template = environment("zh").from_string(PAGING)
    for noun in NOUNS:
        assert f"2 {noun}" not in template.render(paging=paging, noun=noun)
