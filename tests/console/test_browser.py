"""The console in a real browser, Debian's Chromium, driven by Playwright, beside three brokers.

With KAVKA_SCREENSHOTS=DIRECTORY it leaves a picture of each page, light and dark, wide and 360 px.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from kavka.client import blocking
from kavka.client.admin import NewTopic
from kavka.console.application import create_application
from kavka.console.options import ConsoleOptions
from kavka.console.server import address_of, listen
from kavka.testing.local_cluster import LocalCluster
from kavka_compat.programs import install_node
from support.console_access import access
from support.waiting import wait_until

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        shutil.which("chromium") is None, reason="no chromium: apt install chromium"
    ),
]

PATHS = {
    "overview": "/",
    "brokers": "/brokers",
    "broker": "/brokers/1",
    "topics": "/topics",
    "topic": "/topics/orders",
    "messages": "/topics/orders/messages",
    "record": "/topics/orders/records/0/0",
    "settings": "/topics/orders/settings?name=retention.ms",
    "new": "/create-topic",
    "delete": "/topics/orders/delete",
    "groups": "/groups",
    "group": "/group?id=billing",
    "reset": "/group/reset?id=billing&scenario=earliest",
    "reassign": "/reassign?topics=lone&brokers=1,2",
    "moves": "/moves",
    "elect": "/elect",
    "partitions": "/topics/orders/partitions",
    "produce": "/topics/orders/produce?from=0:0",
    "copy": "/topics/orders/records/0/0/copy",
    "hexadecimal": "/topics/orders/records/0/0?hex=true",
    "transactions": "/transactions",
    "hanging": "/transactions/hanging?find=true",
    "acls": "/acls",
    "acl": "/acls/new",
    "acl-removal": "/acls/remove?principal=User:alice&name=orders",
    "users": "/users",
    "password": "/users/password",
    "quotas": "/quotas",
    "quota": "/quotas/change",
    "schemas": "/schemas",
    "pipelines": "/pipelines",
    "audit": "/audit",
    "sql": "/sql?statement=select+*+from+orders+limit+5&seconds=60",
    "history": "/history?kind=group&name=billing&range=1h",
    "alerts": "/alerts",
    "rules": "/alerts/rules",
    "alert-history": "/alerts/history",
    "silence": "/alerts/silence",
    "api": "/api",
    "missing": "/topics/none",
}
STOPPED = ("htmx:afterRequest", "htmx:sendAbort")
"""htmx's messages about a request that the reader has stopped."""
ATTACK = (
    "<script>document.title='attacked'</script><img src=x onerror=\"document.title='attacked'\">"
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    started = LocalCluster(tmp_path_factory.mktemp("brokers"))
    try:
        settings = {"bootstrap.servers": started.bootstrap_servers}
        with blocking.Admin(settings) as admin:
            admin.create_topics(
                [NewTopic("orders", 6), NewTopic("fast", 2), NewTopic("lone", 2, 1)]
            )
        with blocking.Producer(settings) as producer:
            for n in range(300):
                body = {"order": n, "note": ATTACK}
                producer.send(
                    "orders",
                    json.dumps(body).encode(),
                    key=ATTACK.encode() if n % 7 == 0 else b"k%d" % n,
                    headers=[("trace", b"%032x" % n), (ATTACK, ATTACK.encode())],
                )
        with blocking.Admin(settings) as admin:
            offsets: dict[Any, int] = {("orders", partition): 5 for partition in range(6)}
            admin.alter_group_offsets("billing", offsets)
        yield started
    finally:
        elsewhere(started.close)


def elsewhere(call: Callable[..., object], *arguments: object) -> None:
    """Call in another thread: Playwright's loop runs in this one."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(call, *arguments).result()


@contextmanager
def serving(options: ConsoleOptions) -> Iterator[str]:
    """Serve a console on a thread."""
    with listen("127.0.0.1", 0) as listening:
        config = uvicorn.Config(
            create_application(options), log_config=None, timeout_graceful_shutdown=1
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        yield address_of(listening)
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="module")
def address(cluster: LocalCluster) -> Iterator[str]:
    with serving(ConsoleOptions(cluster.bootstrap_servers, sample_interval_ms=500)) as found:
        yield found


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        yield browser
        browser.close()


@pytest.fixture
def page(chromium: Any) -> Iterator[Any]:
    """A page whose errors, those of the Content-Security-Policy too, fail the test."""
    context = chromium.new_context(viewport={"width": 1280, "height": 800})
    made = context.new_page()
    faults: list[str] = []
    made.on("pageerror", lambda error: faults.append(str(error)))
    made.on(
        "console",
        lambda message: (
            faults.append(message.text)
            if message.type == "error"
            and "404" not in message.text
            and not message.text.startswith(STOPPED)
            else None
        ),
    )
    yield made
    context.close()
    assert faults == []


@pytest.mark.parametrize("width", [1280, 360])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_fit_and_run_nothing_of_the_records(
    page: Any, address: str, width: int, scheme: str
) -> None:
    directory = os.environ.get("KAVKA_SCREENSHOTS")
    page.set_viewport_size({"width": width, "height": 800})
    page.emulate_media(color_scheme=scheme)
    for name, path in PATHS.items():
        page.goto(address + path)
        # The overview's events never end.
        page.wait_for_load_state("load" if path == "/" else "networkidle")
        assert page.evaluate("document.documentElement.scrollWidth") == width, name
        assert "attacked" not in page.title()
        assert page.locator("main script, main img").count() == 0
        assert page.locator("h1").count() == 1
        if directory:
            page.screenshot(path=Path(directory) / f"{name}-{scheme}-{width}.png")


@pytest.mark.timeout(900)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(page: Any, address: str, scheme: str) -> None:
    found = subprocess.run(
        install_node(Path(__file__).parent / "axe", "console-axe"),
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    axe = Path(found.stdout.strip()).read_text("utf-8")
    page.emulate_media(color_scheme=scheme)
    findings: dict[tuple[str, str], list[str]] = {}
    for name, path in PATHS.items():
        page.goto(address + path)
        page.wait_for_load_state("networkidle")
        page.evaluate(axe)
        broken = page.evaluate("axe.run(document).then(result => result.violations)")
        findings |= {
            (name, one["id"]): [node["html"][:200] for node in one["nodes"]] for one in broken
        }
    assert findings == {}


def test_a_user_logs_in_and_out_with_the_keyboard(
    page: Any, cluster: LocalCluster, tmp_path: Path
) -> None:
    with serving(ConsoleOptions(cluster.bootstrap_servers, access=access(tmp_path))) as address:
        page.goto(f"{address}/topics?search=a")
        page.wait_for_url("**/login?next=*")
        directory = os.environ.get("KAVKA_SCREENSHOTS")
        if directory:
            page.screenshot(path=Path(directory) / "login.png")
        page.keyboard.type("ada")
        page.keyboard.press("Tab")
        page.keyboard.type("pw-ada")
        page.keyboard.press("Enter")
        page.wait_for_url("**/topics?search=a")
        page.get_by_role("button", name="Log out").click()
        page.wait_for_url("**/login")


def test_the_list_of_topics_is_searched_as_one_types(page: Any, address: str) -> None:
    page.goto(f"{address}/topics")
    page.keyboard.press("/")
    page.keyboard.type("ord")
    page.wait_for_url("**/topics?*search=ord*")
    page.wait_for_function("() => document.querySelectorAll('tbody tr').length === 1")
    page.reload()
    assert page.locator("tbody tr th a").all_inner_texts() == ["orders"]
    assert page.locator("input[type=search]").input_value() == "ord"
    page.locator("body").click(position={"x": 600, "y": 700})
    page.keyboard.press("g")
    page.keyboard.press("b")
    page.wait_for_url("**/brokers")


def test_a_chart_is_drawn_and_refreshed(page: Any, address: str) -> None:
    page.goto(f"{address}/")
    page.wait_for_selector("#live .chart canvas", timeout=30_000)
    before = page.locator("#live .chart").get_attribute("data-times")
    page.wait_for_function(
        "before => document.querySelector('#live .chart').dataset.times !== before",
        arg=before,
        timeout=30_000,
    )
    page.wait_for_selector("#live .chart canvas")


def test_a_topic_is_made_and_deleted_by_keyboard(page: Any, address: str) -> None:
    page.goto(f"{address}/create-topic")
    page.keyboard.type("typed")
    page.keyboard.press("Enter")
    page.wait_for_url("**/topics/typed?notice=*")
    assert page.locator(".alert.ok").inner_text() == "Topic typed was created."
    page.goto(f"{address}/topics/typed/delete")
    button = page.locator("[data-confirmed]")
    assert button.is_disabled()
    page.locator("[data-confirm]").fill("typed")
    assert button.is_enabled()
    page.keyboard.press("Enter")
    page.wait_for_url("**/topics?notice=*")


def test_offsets_are_reset_after_a_dry_run(page: Any, address: str, cluster: LocalCluster) -> None:
    page.goto(f"{address}/group?id=billing")
    page.get_by_text("Reset offsets").click()
    page.locator("select[name=scenario]").select_option("shift")
    page.locator("input[name=value]").fill("-2")
    page.get_by_role("button", name="Dry run").click()
    assert "12 records would be read again" in page.locator("main").inner_text()
    page.get_by_role("button", name="Set these offsets").click()
    page.wait_for_url("**/group?id=billing&notice=*")
    settings = {"bootstrap.servers": cluster.bootstrap_servers}
    with blocking.Admin(settings) as admin:
        assert {v.offset for v in admin.list_group_offsets("billing").values()} == {3}


def test_a_plan_is_looked_at_carried_out_and_followed(
    page: Any, address: str, cluster: LocalCluster
) -> None:
    page.goto(f"{address}/reassign")
    page.locator("input[name=topics]").fill("lone")
    page.locator("input[name=brokers]").fill("2")
    page.get_by_role("button", name="Plan").click()
    page.get_by_text("2. The plan").wait_for()
    page.locator("form[method=post] button").click()
    page.wait_for_url("**/moves?notice=*")
    page.get_by_text("No partition moves.").wait_for(timeout=60_000)
    page.goto(f"{address}/topics/lone")
    assert page.locator("tbody .replica").all_inner_texts()[0].startswith("2")


def test_a_statement_is_run_and_stopped(page: Any, address: str) -> None:
    page.goto(f"{address}/sql")
    page.locator("textarea").fill("select count(*) from range(1000000) a, range(1000000) b")
    page.locator("input[name=seconds]").fill("60")
    assert not page.locator("[data-abort]").is_visible()
    page.get_by_role("button", name="Run").click()
    page.locator("[data-abort]").click()
    page.locator("[data-abort]").wait_for(state="hidden")
    page.locator("textarea").fill("select count(*) n from orders")
    page.get_by_role("button", name="Run").click()
    page.get_by_text("Read 300 of 300 offsets").wait_for(timeout=60_000)
    page.wait_for_url("**/sql?statement=*")


def test_a_tail_of_ten_thousand_records_a_second_does_not_freeze_the_browser(
    page: Any, address: str, cluster: LocalCluster
) -> None:
    page.goto(f"{address}/topics/fast/messages")
    page.get_by_role("button", name="Follow live").click()
    page.wait_for_function(
        "() => document.querySelector('#reach').textContent.startsWith('Following')"
    )
    assert "live=on" in page.url
    sent = 0
    settings = {"bootstrap.servers": cluster.bootstrap_servers}
    pauses: list[float] = []
    with blocking.Producer(settings) as producer:
        began = time.monotonic()
        while sent < 50_000:
            producer.send_many("fast", [(None, b"%d" % n) for n in range(sent, sent + 2_000)])
            sent += 2_000
            asked = time.monotonic()
            page.evaluate("1 + 1")
            pauses.append(time.monotonic() - asked)
        took_s = time.monotonic() - began
    page.wait_for_function(
        "() => document.querySelector('#reach').textContent.includes('50,000 records')",
        timeout=60_000,
    )
    print(f"{sent / took_s:.0f} records/s; the browser answered in {max(pauses):.3f} s at most")
    assert 40 <= page.locator("#records tr.record").count() <= 300
    page.get_by_role("button", name="Pause").click()
    assert page.locator("#reach").inner_text().startswith("Paused.")
    assert "live=paused" in page.url


@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # a killed broker closes nothing
def test_a_page_that_is_open_while_the_cluster_goes_says_so(
    page: Any, address: str, cluster: LocalCluster
) -> None:
    page.goto(f"{address}/")
    elsewhere(cluster.kill, 3)
    page.get_by_text("Broker 3 is not in the cluster").wait_for(timeout=60_000)
    cluster.start(3)
    wait_until(lambda: cluster.in_sync("orders") == [1, 2, 3], timeout_s=60)
    page.get_by_text("Broker 3 is not in the cluster").wait_for(state="detached", timeout=60_000)
