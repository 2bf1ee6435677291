"""A browser that looks at a cluster in trouble: brokers that are gone or stand still, no controller, large topics."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kavka.client import blocking
from kavka.client.admin import NewTopic
from kavka.console.options import ConsoleOptions
from kavka.testing.local_cluster import REGISTRY, LocalCluster
from support.browser import NEEDS_CHROMIUM, elsewhere, opened, serving
from support.console import Cluster

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(600),
    NEEDS_CHROMIUM,
]

LONG_MS = 60_000
WIDTHS = (1280, 360)
FAILED = ("404", "503", "504", "ERR_INCOMPLETE_CHUNKED_ENCODING")
"""Errors of the browser that the cluster's trouble causes."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    started = LocalCluster(tmp_path_factory.mktemp("brokers"))
    try:
        with blocking.Admin({"bootstrap.servers": started.bootstrap_servers}) as admin:
            admin.create_topics([NewTopic("orders", 6, 3), NewTopic("gone", 1, 3)])
            admin.create_topics([NewTopic("big", 2, 3, {"max.message.bytes": "2000000"})])
        Cluster(started.bootstrap_servers).write("orders", [(b"k", b"v")])
        yield started
    finally:
        elsewhere(started.close)


@pytest.fixture(scope="module")
def address(cluster: LocalCluster) -> Iterator[str]:
    options = ConsoleOptions(
        cluster.bootstrap_servers,
        sample_interval_ms=500,
        history_interval_ms=1000,
    )
    with serving(options) as found:
        yield found


@pytest.fixture
def page(chromium: Any) -> Iterator[Any]:
    with opened(chromium, FAILED) as made:
        yield made


def fits(page: Any) -> None:
    """Compare the page with its window, wide and narrow."""
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 800})
        # Charts are drawn again a moment later.
        page.wait_for_function(
            "width => document.documentElement.scrollWidth === width", arg=width, timeout=5000
        )
    page.set_viewport_size({"width": WIDTHS[0], "height": 800})


def test_a_topic_that_is_deleted_while_one_looks(
    chromium: Any, page: Any, address: str, cluster: LocalCluster
) -> None:
    page.goto(f"{address}/topics/gone")
    with opened(chromium, FAILED) as tail:
        tail.goto(f"{address}/topics/gone/messages?live=on")
        tail.wait_for_function(
            "() => document.querySelector('#reach').textContent.startsWith('Following')"
        )
        with blocking.Admin({"bootstrap.servers": cluster.bootstrap_servers}) as admin:
            admin.delete_topics(["gone"])
        page.get_by_text("UNKNOWN_TOPIC_OR_PARTITION").wait_for(timeout=LONG_MS)
        assert page.locator("main").get_by_role("link", name="Overview").is_visible()
        tail.get_by_text("UNKNOWN_TOPIC").wait_for(timeout=LONG_MS)
        assert tail.get_by_role("button", name="Follow live").is_visible()


@pytest.mark.parametrize("kind", ["text", "binary"])
def test_records_of_a_megabyte_and_binary_keys(
    page: Any, address: str, cluster: LocalCluster, kind: str
) -> None:
    partition = 0 if kind == "text" else 1
    value = {
        "text": b'{"text": "' + b"a" * 1_000_000 + b'"}',
        "binary": bytes(range(256)) * 4_000,
    }[kind]
    records: list[tuple[bytes | None, bytes | None]] = [
        (bytes([n, 0, 255, 254]) * 50, value) for n in range(20)
    ]
    settings = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "max.request.size": 2_000_000,
    }
    with blocking.Producer(settings) as producer:
        for key, body in records:
            producer.send("big", body, key=key, partition=partition)
    page.goto(f"{address}/topics/big/messages?partition={partition}&start=oldest")
    assert page.locator("#records tr.record").count() == 20
    assert "20 records" in page.locator("#reach").inner_text()
    fits(page)
    page.locator("#records summary").first.click()
    page.locator("#records details[open] pre").first.wait_for()
    fits(page)
    sent = len(page.content())
    print(f"{kind}: the page of 20 records of 1 MB has {sent:,} characters")
    assert sent < 2_000_000
    for path in ("", "?hex=true"):
        page.goto(f"{address}/topics/big/records/{partition}/0{path}")
        assert "The beginning of 1.0" in page.locator("main").inner_text()
        fits(page)
    with page.expect_download() as download:
        page.get_by_role("link", name="Save value").click()
    assert Path(download.value.path()).read_bytes() == value


def test_a_cluster_that_stands_still_is_said_to_be_slow_and_comes_back(
    page: Any, address: str, cluster: LocalCluster
) -> None:
    page.goto(f"{address}/topics/orders")
    for number in (1, 2, 3):
        cluster.pause(number)
    try:
        page.locator("#stale").wait_for(state="visible", timeout=LONG_MS)
        # What was shown stays.
        assert page.locator("tbody td.replicas").count() == 6
        page.goto(f"{address}/topics")
        assert "answers too slowly" in page.locator("main").inner_text()
        fits(page)
    finally:
        for number in (1, 2, 3):
            cluster.resume(number)
    cluster.until(lambda: len(cluster.in_sync("orders")) == 3, timeout_s=60)
    page.goto(f"{address}/topics/orders")
    page.locator("tbody tr").first.wait_for(timeout=LONG_MS)
    assert page.locator("#stale").is_hidden()


def test_ten_thousand_partitions(chromium: Any, tmp_path: Path) -> None:
    started = LocalCluster(tmp_path, brokers=1)
    try:
        filled = Cluster(started.bootstrap_servers)
        for number in range(100):
            filled.create(f"topic-{number:03}", 100)
        options = ConsoleOptions(started.bootstrap_servers, timeout_ms=30_000)
        with serving(options) as address, opened(chromium) as page:
            look_at_many(page, address)
    finally:
        elsewhere(started.close)


def look_at_many(page: Any, address: str) -> None:
    for path, most in {
        "/": 50,
        "/topics": 50,
        "/topics?search=99": 1,
        "/topics/topic-050": 150,
        "/brokers/1": 1000,
        "/reassign?topics=*": 200,
        "/elect": 200,
        "/topics/topic-050/messages": 100,
    }.items():
        began = time.monotonic()
        page.goto(address + path)
        took_s = time.monotonic() - began
        rows = page.locator("tbody tr").count()
        print(f"{path}: {took_s:.2f} s, {rows} rows, {len(page.content()):,} characters")
        assert page.locator("h1").count() == 1
        assert rows <= most, path
        fits(page)
    page.goto(f"{address}/topics")
    page.get_by_role("link", name="Next").click()
    page.wait_for_url("**page=2*")


@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # a killed broker closes nothing
def test_without_a_controller_each_page_shows_what_the_others_know(
    page: Any, address: str, cluster: LocalCluster
) -> None:
    """Without a registry no broker becomes the controller, and the others still name the one that is gone."""
    page.goto(f"{address}/")
    for number in (1, 2, 3):
        cluster.cut(number, REGISTRY)
    try:
        gone = cluster.controller()
        elsewhere(cluster.kill, gone)
        page.get_by_text(f"Broker {gone}: no answer in ").wait_for(timeout=LONG_MS)
        for path in ("/brokers", "/topics", "/topics/orders", "/elect", "/alerts"):
            answer = page.goto(address + path)
            assert answer.status == 200, path
            fits(page)
        page.goto(f"{address}/topics/orders")
        assert page.locator("tbody td.replicas").count() == 6
        page.goto(f"{address}/create-topic")
        page.locator("input[name=name]").fill("never")
        page.keyboard.press("Enter")
        page.get_by_text("No broker can be reached").wait_for(timeout=LONG_MS)
    finally:
        cluster.heal()
