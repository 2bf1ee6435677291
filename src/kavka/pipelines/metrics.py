"""Progress as Prometheus metrics, and the port that serves them."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from kavka.metrics.families import (
    CONTENT_TYPE,
    Family,
    Sample,
    counter,
    gauge,
    labelled,
    lines,
)
from kavka.pipelines.progress import RUNNING, FlowProgress

_PREFIX = "kavka_pipeline"


def families(flows: Iterable[FlowProgress]) -> Iterator[Family]:
    """Yield the families of metrics of flows."""
    known = list(flows)

    def each(field: str) -> list[Sample]:
        found = [(_labels(flow), getattr(flow, field)) for flow in known]
        return [(labels, value) for labels, value in found if value is not None]

    def total(field: str, help: str) -> Family:
        return counter(f"{_PREFIX}_{field}_total", help, each(field))

    yield total("rows_in", "Rows that a flow has read.")
    yield total("rows_out", "Rows that a flow has written, as far as its target counts them.")
    yield total("late_rows", "Rows dropped because they were behind the watermark.")
    yield total("restarts", "Starts of a flow after a failure.")
    running = [(_labels(flow), int(flow.state == RUNNING)) for flow in known]
    yield gauge(f"{_PREFIX}_running", "1 while the flow runs, else 0.", running)
    yield gauge(f"{_PREFIX}_batch_id", "The last batch of a flow.", each("batch_id"))
    help = "Rows a second that a flow has read in its last batch."
    yield gauge(f"{_PREFIX}_rows_per_second", help, each("rows_per_second"))
    yield gauge(f"{_PREFIX}_batch_ms", "Milliseconds of the last batch by phase.", _phases(known))
    yield gauge(f"{_PREFIX}_state_rows", "Rows in the state of a flow.", each("state_rows"))
    yield gauge(f"{_PREFIX}_state_bytes", "Bytes of the state of a flow.", each("state_bytes"))
    yield from _lags(known)
    yield from _expectations(known)
    delays = [
        (_labels(flow), flow.watermark_delay_s)
        for flow in known
        if flow.watermark_delay_s is not None
    ]
    help = "Seconds from the watermark to the end of the last batch."
    yield gauge(f"{_PREFIX}_watermark_delay_seconds", help, delays)
    help = "When a flow was last heard of, in seconds since 1970."
    heard = [(_labels(flow), flow.updated_ms / 1000) for flow in known]
    yield gauge(f"{_PREFIX}_updated_timestamp_seconds", help, heard)


def _labels(flow: FlowProgress, **more: object) -> str:
    return labelled(pipeline=flow.pipeline, flow=flow.flow, **more)


def _phases(flows: Iterable[FlowProgress]) -> list[Sample]:
    return [
        (_labels(flow, phase=phase), ms) for flow in flows for phase, ms in flow.phases_ms.items()
    ]


def _lags(flows: list[FlowProgress]) -> Iterator[Family]:
    records: list[Sample] = []
    seconds: list[Sample] = []
    for flow in flows:
        for name, lag in flow.lag.items():
            topic, _, partition = name.rpartition("-")
            labels = _labels(flow, topic=topic, partition=partition)
            records.append((labels, lag.records))
            if lag.seconds is not None:
                seconds.append((labels, lag.seconds))
    yield gauge(f"{_PREFIX}_lag_records", "Records that a flow has not read yet.", records)
    yield gauge(
        f"{_PREFIX}_lag_seconds", "Age of the first record that a flow has not read.", seconds
    )


def _expectations(flows: list[FlowProgress]) -> Iterator[Family]:
    for outcome, what in (("passed", "met"), ("failed", "did not meet")):
        samples: list[Sample] = []
        for flow in flows:
            for metric, counts in flow.expectations.items():
                action, _, name = metric.partition(":")
                labels = _labels(flow, expectation=name, action=action)
                samples.append((labels, getattr(counts, outcome)))
        help = f"Rows that {what} an expectation of a flow."
        yield counter(f"{_PREFIX}_expectation_{outcome}_total", help, samples)


def page(flows: Iterable[FlowProgress]) -> bytes:
    """Return the metrics in Prometheus' text format."""
    return "".join(line for family in families(flows) for line in lines(family)).encode()


class MetricsServer:
    """Serves the metrics on a port until it is closed."""

    def __init__(self, port: int, flows: Iterable[FlowProgress], host: str = "127.0.0.1") -> None:
        """Listen; port 0 takes a free one. Raise OSError when the port is taken."""

        class Handler(BaseHTTPRequestHandler):
            """Answers a scrape."""

            def do_GET(self) -> None:
                """Answer with the page."""
                if self.path.partition("?")[0] not in ("/", "/metrics"):
                    self.send_error(404)
                    return
                body = page(flows)
                self.send_response(200)
                self.send_header("Content-Type", CONTENT_TYPE)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Write no line for a scrape."""

        self._server = ThreadingHTTPServer((host, port), Handler)
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="metrics", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Close the port."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
