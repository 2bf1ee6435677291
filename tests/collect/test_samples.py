"""Metrics of the host and of Prometheus pages: what is sampled, and the records of it."""

from __future__ import annotations

import gzip
import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from kavka.collect.delivery import Batch, CollectorError
from kavka.collect.host import Host
from kavka.collect.pages import (
    PageFailed,
    check_url,
    fetch,
    parsers_or_error,
    samples_of,
)
from kavka.collect.statistics import Statistics
from kavka.metrics.families import gauge, labelled, lines
from kavka.metrics.server import MetricsServer
from kavka_compat.apache import SMALL, ApacheKafka
from kavka_compat.brokers import Broker
from kavka_compat.jmx import agent_option
from kavka_compat.ours import run_kavka
from support.collectors import collect_once, collector, reader


@contextmanager
def served(body: bytes, kind: str = "text/plain", status: int = 200, **more: str) -> Iterator[str]:
    """Serve one page in the body of a `with`, with more headers; the value is its URL."""
    headers = {"Content_Type": kind, "Content_Length": str(len(body)), **more}

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            self.wfile.write(body)
            self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:
            """Log no request."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/metrics"
        finally:
            server.shutdown()
            thread.join()


def test_memory_and_processors_are_those_of_proc() -> None:
    found = list(Host(processes=3).samples())

    def labels(name: str, label: str) -> set[str]:
        return {sample.labels[label] for sample in found if sample.name == name}

    meminfo = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    total = int(meminfo["MemTotal"].split()[0]) * 1024
    (memory,) = (s for s in found if s.name == "host_memory_bytes" and s.labels["kind"] == "total")
    assert memory.value == total
    count = Path("/proc/stat").read_text().count("\ncpu")
    assert len(labels("host_cpu_seconds_total", "cpu")) == count
    assert sum(s.value for s in found if s.name == "host_processes") >= 1
    assert 1 <= len(labels("host_process_resident_bytes", "pid")) <= 6
    names = {sample.name for sample in found}
    assert names >= {"host_load1", "host_network_received_bytes_total", "host_swap_bytes"}


def test_this_process_is_among_those_with_most_memory_when_all_are_wanted() -> None:
    found = list(Host(processes=100_000).samples())
    own = [s for s in found if s.labels.get("pid") == str(os.getpid())]
    assert {s.name for s in own} >= {"host_process_cpu_percent", "host_process_resident_bytes"}


def test_a_page_of_our_own_metrics_comes_back_as_it_was() -> None:
    samples = [(labelled(topic='a"b\\c\nd', n=1), 2.5), (labelled(topic="t", n=2), 1e18)]
    text = "".join(lines(gauge("kavka_x", "Help.", samples)))
    found = samples_of(text, parsers_or_error().text)
    assert [(s.sample.name, s.sample.value) for s in found] == [("kavka_x", 2.5), ("kavka_x", 1e18)]
    assert found[0].sample.labels == {"topic": 'a"b\\c\nd', "n": "1"}


def test_histograms_own_times_and_openmetrics() -> None:
    parsers = parsers_or_error()
    text = '# TYPE h histogram\nh_bucket{le="+Inf"} 2\nh_sum 3\nh_count 2\nold 1 1700000000123\n'
    found = samples_of(text, parsers.text)
    assert [s.sample.name for s in found] == ["h_bucket", "h_sum", "h_count", "old"]
    assert found[-1].time_ms == 1_700_000_000_123
    opened = "# TYPE a counter\na_total 3\n# EOF\n"
    assert samples_of(opened, parsers.openmetrics)[0].sample.name == "a_total"
    with pytest.raises(PageFailed, match="not in Prometheus' format"):
        samples_of("a_total 3\n", parsers.openmetrics)  # its end is missing


@pytest.mark.parametrize("text", ["<html>\n<body>Not found</body>", "hello world today\n"])
def test_what_is_no_page_of_metrics_is_refused(text: str) -> None:
    with pytest.raises(PageFailed, match="not in Prometheus' format"):
        samples_of(text, parsers_or_error().text)


@pytest.mark.slow
def test_pages_that_cannot_be_fetched_say_why() -> None:
    with served(b"a 1\n", status=503) as url, pytest.raises(PageFailed, match="HTTP 503"):
        fetch(url, 5)
    with served(b"\xff") as url, pytest.raises(PageFailed, match="UTF-8"):
        fetch(url, 5)
    with served(b"a 1\n", "application/openmetrics-text") as url:
        assert fetch(url, 5) == ("a 1\n", True)
    with pytest.raises(PageFailed, match="refused"):
        fetch("http://127.0.0.1:9/metrics", 5)


@pytest.mark.slow
def test_pages_that_are_compressed_are_read_and_broken_ones_refused() -> None:
    whole = gzip.compress(b"a 1\n") + gzip.compress(b"b 2\n")
    with served(whole, Content_Encoding="gzip") as url:
        assert fetch(url, 5) == ("a 1\nb 2\n", False)
    broken = whole[:12] + b"\xff" + whole[13:]
    for body, said in (
        (whole[:-9], "not complete"),
        (broken, "incorrect data"),
        (b"a 1\n", "header"),
        (gzip.compress(bytes(65 << 20)), "larger than"),
    ):
        with (
            served(body, Content_Encoding="gzip") as url,
            pytest.raises(PageFailed, match=said),
        ):
            fetch(url, 20)


@pytest.mark.slow
def test_a_page_that_ends_early_or_never_is_refused() -> None:
    with (
        served(b"a 1\n", Content_Length="10") as url,
        pytest.raises(PageFailed, match="closed within"),
    ):
        fetch(url, 5)
    with dribbling() as url, pytest.raises(PageFailed, match="in time"):
        fetch(url, 0.3)


@contextmanager
def dribbling() -> Iterator[str]:
    """Serve a page of which a byte comes now and then."""
    is_over = threading.Event()

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            with suppress(OSError):
                while not is_over.wait(0.02):
                    self.wfile.write(b"#")

        def log_message(self, format: str, *args: object) -> None:
            """Log no request."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/metrics"
        finally:
            is_over.set()
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("time", ["1e300", "1e700", "-5", "nan"])
def test_a_sample_whose_time_is_none_has_that_of_its_page(time: str) -> None:
    [found] = samples_of(f"a 1 {time}\n", parsers_or_error().text)
    assert found.time_ms is None


def test_urls_are_completed_or_refused() -> None:
    assert check_url("host:9100") == "http://host:9100/metrics"
    assert check_url("https://host/actuator") == "https://host/actuator"
    bad = (
        "ftp://host/x",
        "http://",
        "file:///etc/passwd",
        "host:99999",
        "host:x",
        "http://[::1",
        "a b",
    )
    for url in bad:
        with pytest.raises(CollectorError, match="is no URL"):
            check_url(url)
    with pytest.raises(CollectorError, match="has a user") as refused:
        check_url("http://ann:secret@host/metrics")
    assert "secret" not in str(refused.value)


def test_the_collectors_own_page_is_read_by_prometheus_parser() -> None:
    statistics = Statistics(records=7, gauges={"lag_bytes": 3.0}, states={"followed": 2})
    with MetricsServer(0, statistics.families) as server:
        text, _ = fetch(f"http://127.0.0.1:{server.port}/metrics", 5)
    found = {
        (s.sample.name, *s.sample.labels.values()): s.sample.value
        for s in samples_of(text, parsers_or_error().text)
    }
    assert found["kavka_collect_records_total",] == 7
    assert found["kavka_collect_lag_bytes",] == 3
    assert found["kavka_collect_files", "followed"] == 2


def test_a_batch_counts_what_is_added() -> None:
    batch = Batch()
    batch.add("t", b"k", [b"a", b"bc"])
    batch.add("t", b"k", [b"d"])
    assert batch.records == {("t", b"k"): [(b"k", b"a"), (b"k", b"bc"), (b"k", b"d")]}
    assert (batch.count, batch.size) == (3, 4)


@pytest.mark.compat
def test_pages_of_prometheus_own_client_and_of_a_broker_become_records(
    fresh_name: str, tmp_path: Path
) -> None:
    from prometheus_client import CollectorRegistry, Counter, Histogram, start_http_server

    registry = CollectorRegistry()
    Counter("shop_orders", "Orders.", ["site"], registry=registry).labels("b").inc(3)
    Histogram("shop_wait", "Wait.", buckets=[1, 2], registry=registry).observe(1.5)
    server, thread = start_http_server(0, "127.0.0.1", registry)
    with run_kavka(tmp_path / "broker", {"kavka.metrics.port": "0"}) as broker:
        urls = (f"127.0.0.1:{server.server_port}", broker.metrics_url, "127.0.0.1:9")
        arguments = (*urls, "--label", "env=test", "--host", "h")
        code, said = collect_once(
            tmp_path / "out", "metrics", broker.bootstrap, fresh_name, *arguments
        )
        assert code == 0, said
        with reader(broker.bootstrap, fresh_name) as topic:
            records = topic.read_rest()
    server.shutdown()
    thread.join()
    server.server_close()
    shop = {r["name"]: r for r in records if r["name"].startswith("shop_")}
    assert shop["shop_orders_total"]["value"] == 3
    assert shop["shop_orders_total"]["labels"] == {"site": "b", "env": "test"}
    assert shop["shop_wait_sum"]["value"] == 1.5
    ups = {r["source"]: (r["value"], r.get("error")) for r in records if r["name"] == "up"}
    assert [value for value, _ in ups.values()] == [1, 1, 0]
    assert "refused" in str(ups["http://127.0.0.1:9/metrics"])
    of_broker = {r["name"] for r in records if r["source"] == broker.metrics_url}
    assert "kafka_server_replicamanager_partitioncount" in of_broker
    assert {(r["kind"], r["host"]) for r in records} == {("metric", "h")}


@pytest.mark.compat
def test_samples_of_the_host_come_at_their_interval(
    kavka_broker: Broker, fresh_name: str, tmp_path: Path
) -> None:
    at, arguments = kavka_broker.bootstrap, ("--interval", "0.2", "--processes", "2", "--host", "h")
    with (
        collector(tmp_path / "out", "host", at, fresh_name, *arguments) as process,
        reader(at, fresh_name) as topic,
    ):
        while len({r["time"] for r in topic.records}) < 3:
            topic.read_until(len(topic.records) + 1, 30)
        assert process.stop() == 0, process.text()
        rest = topic.read_rest()
    by_time: dict[str, list[str]] = {}
    for record in rest:
        by_time.setdefault(record["time"], []).append(record["name"])
    assert all("host_load1" in names for names in by_time.values())
    assert set(topic.keys) == {b"h:host"}
    assert json.dumps(rest)  # all of it is JSON without NaN


@pytest.mark.compat
@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_page_of_kafkas_jmx_exporter_becomes_records(fresh_name: str, tmp_path: Path) -> None:
    """Metrics of an Apache Kafka broker come into one of its own topics."""
    option, url = agent_option(tmp_path)
    options = (*SMALL, option)
    with ApacheKafka("3.9").run_broker(tmp_path / "apache", "zookeeper", options=options) as broker:
        code, said = collect_once(tmp_path / "out", "metrics", broker.bootstrap, fresh_name, url)
        assert code == 0, said
        with reader(broker.bootstrap, fresh_name) as topic:
            records = {record["name"]: record for record in topic.read_rest()}
    assert records["up"]["value"] == 1
    assert records["kafka_server_replicamanager_partitioncount"]["value"] >= 0
    assert records["scrape_samples"]["value"] == pytest.approx(len(topic.records) - 3)
