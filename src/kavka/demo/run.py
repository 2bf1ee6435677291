"""The demo from start to end: broker, topics, traffic, Spark, live view, audit, report. Only the report remains."""

from __future__ import annotations

import os
import tempfile
import time
from collections import deque
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from kavka.demo.audit import Check, audit
from kavka.demo.broker import EmbeddedBroker
from kavka.demo.replay import Replay, Tally, replay_of_file, replay_of_site
from kavka.demo.report import About, html_report
from kavka.demo.view import PlainView, Snapshot, rich_view
from kavka.pipelines.project import require_pipelines
from kavka.pipelines.view import View, open_view
from kavka.spark.session import check_spark
from kavka.termination import termination_as_interrupt

if TYPE_CHECKING:
    from kavka.demo.pipeline import DemoPipeline
    from kavka.demo.topics import TopicReader
    from kavka.demo.traffic import Traffic

REPORT = Path("kavka-demo-report.html")
_POLL_INTERVAL_S = 0.25
_WARM_UP_S = 20.0
"""Maximum time for which the traffic waits for Spark's first batches."""
_REFRESH_S = 5.0
_SITE_HOURS = 4.0
_TOP, _ALERTS = 8, 10


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """Options of the command line."""

    access_log: Path | None = None
    duration_s: float = 40.0
    """Duration of the traffic in seconds."""
    seed: int = 1
    keep: bool = False
    """Leave the broker running until Ctrl-C."""
    report: Path = REPORT
    """Path of the report; an existing file is replaced."""


def run_demo(options: DemoOptions) -> int:
    """Run the demo and return the exit code: 0 if all numbers of the audit agree, else 1.

    Raise SparkMissing, PipelineError, PipelineFailed, BrokerFailed, OSError, ValueError and Spark's errors; in any
    case broker and Spark are stopped and their files removed.
    """
    check_spark()
    require_pipelines()
    _require_writable(options.report)
    if options.access_log is not None:
        replay = replay_of_file(options.access_log)
    else:
        replay = replay_of_site(options.seed, _SITE_HOURS)
    with ExitStack() as stack:
        stack.enter_context(termination_as_interrupt())
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kavka-demo-")))
        broker = stack.enter_context(EmbeddedBroker(directory / "broker"))
        print(f"broker ready at {broker.bootstrap}; traffic from {replay.name}", flush=True)
        with ExitStack() as parts:
            agrees = _Demo(options, replay, broker, directory, parts).play()
        if options.keep:
            print(_attach(broker.bootstrap), flush=True)
            _wait_for_interrupt(broker)
        else:
            print(_HOW_TO_KEEP, flush=True)
    return 0 if agrees else 1


def _require_writable(report: Path) -> None:
    """Raise OSError unless the report can be written, before a minute is spent on it."""
    if report.is_dir():
        raise IsADirectoryError(
            f"{report} is a folder: give the report a file's name with --report"
        )
    if not os.access(report if report.exists() else report.absolute().parent, os.W_OK):
        raise PermissionError(f"{report} cannot be written: name another file with --report")


class _Demo:
    """The parts of a demo except the broker; the caller stops those in `parts`."""

    def __init__(
        self,
        options: DemoOptions,
        replay: Replay,
        broker: EmbeddedBroker,
        directory: Path,
        parts: ExitStack,
    ) -> None:
        self._options = options
        self._replay = replay
        self._broker = broker
        self._directory = directory
        self._parts = parts
        self._records: dict[str, list[bytes]] = {"alerts": [], "limits": [], "sessions": []}
        self._shown_alerts: deque[str] = deque(maxlen=_ALERTS)
        self._started = time.monotonic()
        self._rate = _Rate()

    def play(self) -> bool:
        """Send the traffic, wait for the pipeline, print the audit, write the report; return whether all agrees."""
        from kavka.demo.pipeline import ACCESS, TOPICS, DemoPipeline
        from kavka.demo.topics import TopicReader, create_topics
        from kavka.demo.traffic import Traffic

        bootstrap = self._broker.bootstrap
        create_topics(bootstrap, TOPICS)
        topics = TopicReader(bootstrap)
        self._parts.callback(topics.close)
        with open_view(PlainView, rich_view, transient=True) as view:
            view.show(Snapshot("starting Spark", self._elapsed_s))
            demo_pipeline = DemoPipeline(bootstrap, self._directory, view.print_message, _REFRESH_S)
            pipeline = self._parts.enter_context(demo_pipeline)
            self._warm_up(view, pipeline)
            traffic = Traffic(bootstrap, ACCESS, self._replay, self._options.duration_s)
            self._parts.callback(traffic.stop)
            traffic.start()
            self._watch(view, pipeline, traffic, topics)
        return self._conclude(pipeline, topics, traffic.tally())

    @property
    def _elapsed_s(self) -> float:
        return time.monotonic() - self._started

    def _warm_up(self, view: View[Snapshot], pipeline: DemoPipeline) -> None:
        """Wait for the first batches, so that the view shows Spark's work while the traffic is sent."""
        deadline = time.monotonic() + _WARM_UP_S
        while True:
            self._broker.check()
            pipeline.step()
            view.show(Snapshot("warming up", self._elapsed_s, flows=pipeline.flows))
            if pipeline.is_warm() or time.monotonic() > deadline:
                return
            time.sleep(_POLL_INTERVAL_S)

    def _watch(
        self, view: View[Snapshot], pipeline: DemoPipeline, traffic: Traffic, topics: TopicReader
    ) -> None:
        """Show progress until every flow has processed all lines, then refresh the views once more."""
        while True:
            self._broker.check()
            pipeline.step()
            sent = traffic.tally()
            is_done = traffic.is_done
            phase = "finishing" if is_done else "playing"
            view.show(self._snapshot(phase, sent, pipeline, traffic, topics))
            if is_done and pipeline.has_processed(sent.sent, sent.sent - sent.malformed):
                break
            time.sleep(_POLL_INTERVAL_S)
        pipeline.finish()
        view.show(self._snapshot("done", sent, pipeline, traffic, topics))

    def _snapshot(
        self, phase: str, sent: Tally, pipeline: DemoPipeline, traffic: Traffic, topics: TopicReader
    ) -> Snapshot:
        from kavka.demo.pipeline import NAME
        from kavka.demo.topics import alert_text

        for topic, values in self._records.items():
            new_values = topics.new_values(f"{NAME}-{topic}")
            values += new_values
            if topic == "alerts":
                self._shown_alerts.extend(alert_text(value) for value in new_values)
        window, pages = pipeline.top_pages(_TOP)
        now = time.monotonic()
        return Snapshot(
            phase=phase,
            elapsed_s=now - self._started,
            site_time_ms=traffic.site_time_ms,
            sent=sent.sent,
            sent_per_second=self._rate.update(now, sent.sent),
            flows=pipeline.flows,
            window_start_s=window,
            top_pages=pages,
            alerts=list(self._shown_alerts),
            alert_count=len(self._records["alerts"]),
            session_count=len(self._records["sessions"]),
            limit_count=len(self._records["limits"]),
        )

    def _conclude(self, pipeline: DemoPipeline, topics: TopicReader, sent: Tally) -> bool:
        """Print the audit, write the report; return whether all numbers agree."""
        from kavka.demo.pipeline import FEED
        from kavka.demo.results import counted, findings

        results = findings(pipeline, self._records)
        feed_records = len(topics.new_values(FEED))
        checks = audit(sent, counted(pipeline, topics, results, self._replay.count(), feed_records))
        agrees = _print_audit(sent, checks)
        about = About(self._replay.name, datetime.now(UTC), self._elapsed_s)
        report = self._options.report
        report.write_text(html_report(about, sent, results, checks), encoding="utf-8")
        print(f"Report: {report.absolute()}", flush=True)
        return agrees


class _Rate:
    """Records per second over the last seconds."""

    def __init__(self) -> None:
        self._points: deque[tuple[float, int]] = deque(maxlen=int(3 / _POLL_INTERVAL_S))

    def update(self, now: float, count: int) -> float:
        self._points.append((now, count))
        first, before = self._points[0]
        return (count - before) / (now - first) if now > first else 0.0


def _print_audit(sent: Tally, checks: list[Check]) -> bool:
    """Print the audit; return whether all numbers agree."""
    print(
        f"\nAudit of {sent.sent:,} records ({sent.malformed:,} malformed, {sent.too_late:,} too late):"
    )
    for check in checks:
        sign = "ok  " if check.agrees else "FAIL"
        print(f"  {sign} {check.description}: {check.expected:,} {check.relation} {check.actual:,}")
    agrees = all(check.agrees for check in checks)
    print("Everything agrees." if agrees else "The numbers do not agree.")
    return agrees


_HOW_TO_KEEP = (
    "Run `kavka demo --keep` to leave the broker running and attach your own clients to it."
)


def _attach(bootstrap: str) -> str:
    return f"""
The broker is at {bootstrap} until Ctrl-C. Attach with
  kcat:     kcat -C -b {bootstrap} -t demo-alerts -o beginning
  Kafka:    kafka-console-consumer.sh --bootstrap-server {bootstrap} --topic demo-quarantine --from-beginning \\
              --property print.headers=true
  flows:    kavka pipelines status --bootstrap-server {bootstrap}
  PySpark:  spark.read.format("kavka").option("kafka.bootstrap.servers", "{bootstrap}") \\
              .option("subscribe", "demo-access").load().show()"""


def _wait_for_interrupt(broker: EmbeddedBroker) -> None:
    try:
        while True:
            broker.check()
            time.sleep(_POLL_INTERVAL_S)
    except KeyboardInterrupt:
        print("\nstopped", flush=True)
