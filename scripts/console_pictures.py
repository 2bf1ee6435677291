"""Takes the pictures of docs/how-to/console.md and console-alerts.md: `python scripts/console_pictures.py [NAME...]`.

It runs three brokers with the topics of a shop, a console, and Debian's Chromium. Look at each picture yourself.
"""

from __future__ import annotations

import http.server
import json
import math
import random
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote_plus

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "compat")]

from kavka.client import blocking  # noqa: E402
from kavka.client.admin import NewTopic  # noqa: E402
from kavka.client.admin.records import OffsetSpec  # noqa: E402
from kavka.console.history.file import HistoryFile  # noqa: E402
from kavka.console.history.series import Key  # noqa: E402
from kavka.console.options import ConsoleOptions  # noqa: E402
from kavka.ids import TopicPartition  # noqa: E402
from kavka.spark.queries.flow_progress import FlowProgress, PartitionLag  # noqa: E402
from kavka.spark.queries.topic import PROGRESS_TOPIC  # noqa: E402
from kavka.testing.local_cluster import LocalCluster  # noqa: E402
from support.access import AUTHORIZER  # noqa: E402
from support.browser import elsewhere, opened, run_chromium, serving  # noqa: E402
from support.console import console  # noqa: E402

IMAGES = ROOT / "docs" / "images"
MOST_BYTES: Final = 200_000
SECONDS_OF_RATES: Final = 75
"""So long the console runs before the first picture, so that the chart of rates is full."""
TOPICS = {"orders": 6, "payments": 6, "clicks": 12, "shipments": 3, "returns": 3}
STATES = ("paid", "packed", "shipped", "refunded")
RULES = """\
rules:
  - {{alert: BillingLate, watch: group_lag_seconds, groups: "billing*", above: 5m, severity: critical}}
  - {{alert: BrokerGone, watch: broker_gone, severity: critical}}
  - {{alert: DiskFull, watch: disk_full_in, below: 24h}}
channels:
  - channel: team
    webhook: {url}/services/T0/B0
    shape: slack
"""
SQL = """\
select status, count(*) orders, round(sum(amount), 2) revenue, max(timestamp) newest
from orders
group by status
order by revenue desc"""
PAGES: dict[str, tuple[str, str, int]] = {
    "overview": ("/", "light", 800),
    "topics": ("/topics", "light", 560),
    "messages": ("/topics/orders/messages?path=amount+%3E+200&scan=100000", "light", 640),
    "group": ("/group?id=billing", "dark", 1160),
    "history": ("/history?kind=group&name=billing&range=24h", "light", 760),
    "sql": ("/sql?seconds=60&statement={sql}", "light", 600),
    "pipelines": ("/pipelines", "light", 520),
    "access": ("/acls", "light", 520),
    "topic": ("/topics/orders", "light", 860),
    "alerts": ("/alerts", "light", 720),
}
"""Address, colours and height. A broker ends before the last two."""
WITHOUT_A_BROKER = ("topic", "alerts")


def main(names: list[str]) -> None:
    """Take the pictures, or those that are named."""
    chosen = {name: PAGES[name] for name in names or PAGES}
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        url = stack.enter_context(_webhook())
        settings = {"authorizer.class.name": AUTHORIZER, "super.users": "User:ANONYMOUS"}
        shop = LocalCluster(directory / "brokers", settings=settings)
        stack.callback(elsewhere, shop.close)
        _fill(shop.bootstrap_servers)
        _write_history(directory / "history.sqlite")
        rules = directory / "rules.yml"
        rules.write_text(RULES.format(url=url))
        stack.enter_context(_traffic(shop.bootstrap_servers))
        options = ConsoleOptions(
            shop.bootstrap_servers,
            sample_interval_ms=2_000,
            history_interval_ms=5_000,
            history=directory / "history.sqlite",
            rules=rules,
        )
        address = stack.enter_context(serving(options))
        browser = stack.enter_context(run_chromium())
        time.sleep(SECONDS_OF_RATES)
        for name, page in chosen.items():
            if name in WITHOUT_A_BROKER and 3 in shop.running:
                elsewhere(shop.kill, 3)
                time.sleep(20)
            _picture(browser, address, name, *page)


def _picture(browser: Any, address: str, name: str, path: str, scheme: str, height: int) -> None:
    look: dict[str, Any] = {
        "color_scheme": scheme,
        "viewport": {"width": 1240, "height": height},
        "locale": "en-GB",
        "timezone_id": "UTC",
    }
    with opened(browser, **look) as page:
        page.goto(address + path.format(sql=quote_plus(SQL)))
        page.wait_for_load_state("load" if path == "/" else "networkidle")
        page.wait_for_timeout(1000)
        if name == "messages":
            page.locator("#records summary").nth(1).click()
        target = IMAGES / f"console-{name}.png"
        page.screenshot(path=target)
    size = target.stat().st_size
    print(f"{target.relative_to(ROOT)}: {size:,} bytes")
    assert size < MOST_BYTES, f"{name} is too large"


@contextmanager
def _webhook() -> Iterator[str]:
    """Serve what takes each message."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def _order(chance: random.Random, number: int) -> bytes:
    return json.dumps({
        "order": 10_000 + number,
        "customer": f"c-{chance.randrange(400):03}",
        "amount": round(chance.expovariate(1 / 80), 2),
        "currency": "EUR",
        "status": chance.choices(STATES, (50, 25, 20, 5))[0],
        "items": [
            {"sku": f"sku-{chance.randrange(900)}", "quantity": chance.randint(1, 4)}
            for _ in range(chance.randint(1, 3))
        ],
    }).encode()  # fmt: skip


def _fill(bootstrap: str) -> None:
    chance = random.Random(22)
    settings = {"bootstrap.servers": bootstrap}
    now_ms = time.time_ns() // 1_000_000
    with blocking.Admin(settings) as admin:
        admin.create_topics([NewTopic(name, parts, 3) for name, parts in TOPICS.items()])
        admin.create_topics([NewTopic(PROGRESS_TOPIC, 1, 3, {"cleanup.policy": "compact"})])
    with blocking.Producer(settings) as producer:
        for name, count in (
            ("orders", 1500),
            ("payments", 1200),
            ("clicks", 4000),
            ("shipments", 500),
        ):
            rows = [
                (f"c-{chance.randrange(400):03}".encode(), _order(chance, number))
                for number in range(count)
            ]
            producer.send_many(name, rows)
        for number in range(600):
            producer.send(
                "orders",
                _order(chance, 1500 + number),
                key=f"c-{chance.randrange(400):03}".encode(),
                timestamp_ms=now_ms - 900_000 + number * 1_500,
                headers=[("trace-id", f"{chance.getrandbits(64):016x}".encode())],
            )
    with blocking.Admin(settings) as admin:
        keys = [TopicPartition("orders", part) for part in range(6)]
        ends = admin.list_offsets(dict.fromkeys(keys, OffsetSpec.LATEST))
        behind = {
            key: end.offset - 60 - 5 * key.partition
            for key, end in ends.items()
            if not isinstance(end, Exception)
        }
        admin.alter_group_offsets("billing", behind)
        admin.alter_group_offsets(
            "search-index", {TopicPartition("clicks", part): 300 for part in range(12)}
        )
    with console(bootstrap) as pages:
        for acl in _acls():
            answer = pages.post("/api/acls/new", json=acl)
            assert answer.status_code == 200, answer.text


def _flows(now_ms: int) -> list[FlowProgress]:
    bronze = FlowProgress(
        "shop",
        "bronze_orders",
        state="running",
        batch_id=812,
        rows_in=48_210,
        rows_per_second=412.5,
        updated_ms=now_ms,
        watermark_delay_s=12.0,
    )
    bronze.lag["orders-0"] = PartitionLag(118, 4.2)
    silver = FlowProgress(
        "shop",
        "silver_orders",
        state="running",
        batch_id=811,
        rows_in=47_990,
        rows_per_second=398.0,
        updated_ms=now_ms,
        watermark_delay_s=14.5,
        late_rows=3,
    )
    silver.lag["orders-1"] = PartitionLag(330, 9.8)
    gold = FlowProgress(
        "shop",
        "revenue_by_hour",
        kind="view",
        state="waiting",
        restarts=3,
        batch_id=96,
        rows_in=9_400,
        updated_ms=now_ms,
        last_error="AnalysisException: column `amout` cannot be resolved; did you mean `amount`?",
    )
    return [bronze, silver, gold]


def _acls() -> list[dict[str, str]]:
    return [
        {"principal": "User:billing", "resource_type": "Topic", "name": "orders", "operation": "Read"},
        {"principal": "User:billing", "resource_type": "Group", "name": "billing", "operation": "Read"},
        {"principal": "User:shop", "resource_type": "Topic", "name": "orders", "operation": "Write"},
        {"principal": "User:shop", "name": "pay", "pattern": "prefixed", "operation": "Write"},
        {"principal": "User:interns", "name": "*", "operation": "Delete", "permission": "Deny"},
    ]  # fmt: skip


def _write_history(path: Path) -> None:
    """Write a day of the group's history, with a peak in the morning and a time in which the console did not run."""
    chance = random.Random(22)
    file = HistoryFile(path, 1 << 30, 50_000)
    now_s = int(time.time())
    for at_s in range(now_s - 86_400, now_s - 20, 20):
        ago_h = (now_s - at_s) / 3600
        if 13.5 < ago_h < 15:
            continue
        peak = math.exp(-(((ago_h - 8) / 1.3) ** 2)) + 0.45 * math.exp(-(((ago_h - 20) / 1.6) ** 2))
        lag = 60 + 5200 * peak + chance.random() * 80
        if ago_h < 0.75:
            lag += (0.75 - ago_h) * 2600
        rate = 2 + math.sin(ago_h / 24 * 2 * math.pi) + chance.random() / 2
        file.add(at_s, {
            Key("group", "billing", "lag_records"): lag,
            Key("group", "billing", "lag_seconds"): lag / 2.4,
            Key("group", "billing", "records_out"): rate,
            Key("cluster", "", "records_in"): 35 * rate,
            Key("topic", "orders", "records_in"): 9 * rate,
        })  # fmt: skip
    file.close()


@contextmanager
def _traffic(bootstrap: str) -> Iterator[None]:
    """Write to the topics, and read as two groups, one of which is behind."""
    over = threading.Event()
    settings = {"bootstrap.servers": bootstrap}

    def write() -> None:
        chance = random.Random(23)
        with blocking.Producer(settings) as producer:
            number = 5000
            while not over.wait(0.25):
                for name, most in (
                    ("clicks", 24),
                    ("orders", 9),
                    ("payments", 6),
                    ("shipments", 2),
                ):
                    rows = [
                        (f"c-{chance.randrange(400):03}".encode(), _order(chance, number + n))
                        for n in range(chance.randint(1, most))
                    ]
                    producer.send_many(name, rows)
                    number += len(rows)

    def read(group: str, topic: str, most: int) -> None:
        asked = {
            **settings,
            "group.id": group,
            "client.id": f"{group}-1",
            "auto.offset.reset": "earliest",
            "max.poll.records": most,
        }
        with blocking.Consumer(asked) as consumer:
            consumer.subscribe([topic])
            while not over.wait(0.5):
                consumer.poll(100)
                consumer.commit()

    def report() -> None:
        with blocking.Producer(settings) as producer:
            while not over.wait(5):
                for flow in _flows(time.time_ns() // 1_000_000):
                    name = f"{flow.pipeline}/{flow.flow}".encode()
                    producer.send(PROGRESS_TOPIC, flow.to_json().encode(), key=name)

    threads = [
        threading.Thread(target=write),
        threading.Thread(target=report),
        threading.Thread(target=read, args=("billing", "orders", 1)),
        threading.Thread(target=read, args=("shipping", "shipments", 500)),
    ]
    for thread in threads:
        thread.start()
    yield
    over.set()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main(sys.argv[1:])
