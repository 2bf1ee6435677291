"""The console in a real browser, Debian's Chromium, driven by Playwright, beside three brokers.

With KAVKA_SCREENSHOTS=DIRECTORY it leaves a picture of each page, light and dark, wide and 360 px.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kavka.client import blocking
from kavka.client.admin import NewTopic
from kavka.console.options import ConsoleOptions
from kavka.testing.local_cluster import LocalCluster
from support.access import AUTHORIZER
from support.browser import NEEDS_CHROMIUM, axe_script, elsewhere, opened, serving
from support.console import Cluster, console
from support.console_access import access
from support.console_pages import ADDRESSES, NO_PAGE, RULES, fill, open_transactions
from support.schema_registry import RegistryServer, serve_registry
from support.waiting import wait_until

pytestmark = [
    pytest.mark.long,
    NEEDS_CHROMIUM,
]

PATHS = {
    address.partition("?")[0].strip("/").replace("/", "-") or "overview": address
    for path, address in ADDRESSES.items()
    if path not in NO_PAGE and not path.endswith("/value")
} | {
    "history": "/history?range=1h",
    "group-history": "/history?kind=group&name=billing&range=1h",
    "hexadecimal": "/topics/orders/records/0/0?hex=true",
    "plan": "/reassign",
    "missing": "/topics/none",
}
LOOKS = [("light", 1280, "en"), ("dark", 360, "en"), ("dark", 1280, "zh"), ("light", 360, "zh")]
"""Each two of colours, width and language are together once."""
ATTACK = (
    "<script>document.title='attacked'</script><img src=x onerror=\"document.title='attacked'\">"
)


@pytest.fixture(scope="module")
def registry() -> Iterator[RegistryServer]:
    with serve_registry() as server:
        yield server


@pytest.fixture(scope="module")
def cluster(
    tmp_path_factory: pytest.TempPathFactory, registry: RegistryServer
) -> Iterator[LocalCluster]:
    directory = tmp_path_factory.mktemp("brokers")
    settings = {
        "authorizer.class.name": AUTHORIZER,
        "super.users": "User:ANONYMOUS",
        "kavka.audit.topic": "audit",
        "kavka.audit.log": str(directory / "audit.log"),
    }
    started = LocalCluster(directory, settings=settings)
    try:
        elsewhere(fill_cluster, started.bootstrap_servers, registry.url)
        yield started
    finally:
        elsewhere(started.close)


def fill_cluster(bootstrap: str, registry: str) -> None:
    filled = Cluster(bootstrap)
    with console(bootstrap, registry={"url": registry}) as pages:

        def act(path: str, **body: object) -> None:
            answer = pages.post(f"/api{path}", json=body)
            assert answer.status_code == 200, answer.text

        fill(filled, act)
    with blocking.Admin(filled.settings) as admin:
        admin.create_topics([NewTopic("fast", 2), NewTopic("lone", 2, 1)])
        offsets: dict[Any, int] = {("orders", partition): 5 for partition in range(3)}
        admin.alter_group_offsets("billing", offsets)
    with blocking.Producer(filled.settings) as producer:
        for n in range(300):
            body = {"order": n, "note": ATTACK}
            producer.send(
                "orders",
                json.dumps(body).encode(),
                key=ATTACK.encode() if n % 7 == 0 else b"k%d" % n,
                headers=[("trace", b"%032x" % n), (ATTACK, ATTACK.encode())],
            )


@pytest.fixture(scope="module")
def address(
    cluster: LocalCluster, registry: RegistryServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    rules = tmp_path_factory.mktemp("rules") / "rules.yml"
    rules.write_text(RULES)
    options = ConsoleOptions(
        cluster.bootstrap_servers,
        sample_interval_ms=500,
        history_interval_ms=1000,
        rules=rules,
        registry={"url": registry.url},
    )
    with serving(options) as found:
        yield found


@pytest.fixture
def page(chromium: Any) -> Iterator[Any]:
    with opened(chromium) as made:
        yield made


def paths(start_offset: int) -> dict[str, str]:
    """Return the addresses of pages, with that of the open transaction in the topic `hung`."""
    return {
        name: path.replace("start_offset=0", f"start_offset={start_offset}")
        for name, path in PATHS.items()
    }


@pytest.mark.timeout(1500)
@pytest.mark.parametrize(("scheme", "width", "language"), LOOKS)
def test_pages_fit_run_nothing_of_the_records_and_axe_finds_nothing(
    chromium: Any, cluster: LocalCluster, address: str, scheme: str, width: int, language: str
) -> None:
    axe = axe_script()
    directory = os.environ.get("KAVKA_SCREENSHOTS")
    findings: dict[tuple[str, str], list[str]] = {}
    look: dict[str, Any] = {
        "viewport": {"width": width, "height": 800},
        "color_scheme": scheme,
        "locale": {"en": "en-GB", "zh": "zh-CN"}[language],
    }
    filled = Cluster(cluster.bootstrap_servers)
    with opened(chromium, **look) as page, open_transactions(filled) as start_offset:
        for name, path in paths(start_offset).items():
            answer = page.goto(address + path)
            assert answer.status == (404 if name == "missing" else 200), path
            # The overview's events never end.
            page.wait_for_load_state("load" if path == "/" else "networkidle")
            assert page.locator("html").get_attribute("lang") == language
            if directory:
                page.screenshot(path=Path(directory) / f"{name}-{scheme}-{width}-{language}.png")
            assert page.evaluate("document.documentElement.scrollWidth") == width, path
            assert "attacked" not in page.title()
            assert page.locator("main script, main img").count() == 0
            assert page.locator("h1").count() == 1
            page.evaluate(axe)
            broken = page.evaluate(
                "axe.run(document, {resultTypes: ['violations']}).then(result => result.violations)"
            )
            findings |= {
                (path, one["id"]): [node["html"][:200] for node in one["nodes"]] for one in broken
            }
    assert findings == {}


@pytest.mark.timeout(900)
def test_each_link_and_field_is_reached_with_the_keyboard_and_shows_it(
    page: Any, cluster: LocalCluster, address: str
) -> None:
    name = """element => [element.tagName, element.getAttribute('href') || element.name || element.id,
        element.tagName === 'A' || element.tagName === 'BUTTON' ? element.textContent.trim() : ''].join(' ')"""
    unreached: dict[str, set[str]] = {}
    unseen: dict[str, set[str]] = {}
    with open_transactions(Cluster(cluster.bootstrap_servers)) as start_offset:
        for path in paths(start_offset).values():
            page.goto(address + path)
            page.wait_for_load_state("load")
            # The link stands there until the charts have come.
            page.get_by_role("link", name="Charts of the history").wait_for(state="detached")
            wanted = page.evaluate(
                f"""() => [...document.querySelectorAll(`a[href], button:enabled, select, textarea, summary,
                    input:enabled:not([type=hidden]), [tabindex="0"]`)]
                    .filter(element => element.checkVisibility()).map({name})"""
            )
            reached = set()
            page.evaluate("document.activeElement.blur()")
            for _ in range(len(wanted) + 3):
                page.keyboard.press("Tab")
                at, is_seen = page.evaluate(
                    f"""() => {{ const element = document.activeElement;
                        return [({name})(element), getComputedStyle(element).outlineStyle !== 'none'] }}"""
                )
                reached.add(at)
                if not is_seen and not at.startswith("BODY"):
                    unseen.setdefault(path, set()).add(at)
            if set(wanted) - reached:
                unreached[path] = set(wanted) - reached
    assert (unreached, unseen) == ({}, {})


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
    assert "6 records would be read again" in page.locator("main").inner_text()
    page.get_by_role("button", name="Set these offsets").click()
    page.wait_for_url("**/group?id=billing&notice=*")
    settings = {"bootstrap.servers": cluster.bootstrap_servers}
    with blocking.Admin(settings) as admin:
        assert {v.offset for v in admin.list_group_offsets("billing").values()} == {3}


def test_a_group_is_deleted_by_keyboard(page: Any, address: str, cluster: LocalCluster) -> None:
    Cluster(cluster.bootstrap_servers).commit("leaves", {("lone", 0): 0})
    page.goto(f"{address}/group?id=leaves")
    page.get_by_role("link", name="Delete").click()
    page.locator("[data-confirm]").fill("leave")
    assert page.locator("[data-confirmed]").is_disabled()
    page.keyboard.press("End")
    page.keyboard.type("s")
    page.keyboard.press("Enter")
    page.wait_for_url("**/groups?notice=*")
    assert page.locator(".alert.ok").inner_text() == "Group leaves was deleted, with its offsets."


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
    page.get_by_text(re.compile(r"Read (\d+) of \1 offsets")).wait_for(timeout=60_000)
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
    wait_until(lambda: cluster.in_sync("fast") == [1, 2, 3], timeout_s=60)
    page.get_by_text("Broker 3 is not in the cluster").wait_for(state="detached", timeout=60_000)
