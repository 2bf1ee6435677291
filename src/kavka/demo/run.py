"""The demo from start to end: broker, topics, traffic, Spark, live view, audit; and nothing left behind."""

from __future__ import annotations

import tempfile
import time
from collections import deque
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kavka.demo.audit import Check, Counted, audit
from kavka.demo.broker import EmbeddedBroker
from kavka.demo.replay import Replay, Tally, replay_of_file, replay_of_site
from kavka.demo.view import Snapshot, View, open_view
from kavka.spark.session import check_spark, local_session, standard_error_into
from kavka.termination import termination_as_interrupt

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kavka.demo.queries import Queries
    from kavka.demo.topics import TopicCounter
    from kavka.demo.traffic import Traffic

_LOOK_EVERY_S = 0.25
_DRAIN_S = 60.0
"""Maximum seconds for the queries to finish after the last line."""
_WARM_UP_S = 20.0
"""Maximum seconds for which the traffic waits for Spark's first batches: on a busy machine it starts without them."""
_SITE_HOURS = 4.0
_TOP, _ALERTS = 8, 10


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """Options of the command line."""

    access_log: Path | None = None
    duration_s: float = 40.0
    """Seconds in which the traffic is played."""
    seed: int = 1
    keep: bool = False
    """Leave the broker running until Ctrl-C."""


def run_demo(options: DemoOptions) -> int:
    """Run it and return the exit code: 0 when every number of the audit agrees, else 1.

    Raise SparkMissing, BrokerFailed, OSError, ValueError and what Spark raises; in any case all is stopped and removed.
    """
    check_spark()
    if options.access_log is not None:
        replay = replay_of_file(options.access_log)
    else:
        replay = replay_of_site(options.seed, _SITE_HOURS)
    with ExitStack() as stack:
        stack.enter_context(termination_as_interrupt())
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kavka-demo-")))
        broker = stack.enter_context(EmbeddedBroker(directory / "broker"))
        print(f"broker ready at {broker.bootstrap}; traffic from {replay.name}", flush=True)
        with _Demo(options, replay, broker, directory) as demo:
            agrees = demo.play()
        if options.keep:
            _wait_for_interrupt(broker)
    return 0 if agrees else 1


class _Demo:
    """The parts of a demo beside the broker."""

    def __init__(
        self, options: DemoOptions, replay: Replay, broker: EmbeddedBroker, directory: Path
    ) -> None:
        self._options = options
        self._replay = replay
        self._broker = broker
        self._directory = directory
        self._stack = ExitStack()
        self._alerts: deque[str] = deque(maxlen=_ALERTS)
        self._alert_count = 0
        self._started = time.monotonic()
        self._rate = _Rate()

    def __enter__(self) -> _Demo:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def play(self) -> bool:
        """Play the traffic through the pipeline and print the audit; return whether it agrees."""
        from kavka.demo.queries import TOPICS
        from kavka.demo.topics import TopicCounter, create_topics
        from kavka.demo.traffic import Traffic

        create_topics(self._broker.bootstrap, TOPICS)
        counter = TopicCounter(self._broker.bootstrap)
        self._stack.callback(counter.close)
        with open_view() as view:
            view.show(Snapshot("starting Spark", time.monotonic() - self._started))
            queries = self._start_queries()
            self._warm_up(view, queries)
            traffic = Traffic(
                self._broker.bootstrap, TOPICS[0], self._replay, self._options.duration_s
            )
            self._stack.callback(traffic.stop)
            traffic.start()
            self._watch(view, queries, traffic, counter)
        sent = traffic.tally()
        checks = audit(sent, self._count(queries, counter))
        return _report(sent, checks, self._broker.bootstrap, keep=self._options.keep)

    def _start_queries(self) -> Queries:
        from kavka.demo.queries import Queries

        with standard_error_into(self._directory / "spark.log"):
            session: SparkSession = local_session(
                "kavka demo",
                self._directory / "spark",
                settings={"spark.sql.adaptive.enabled": "false"},
                short_lived=True,
            )
        self._stack.callback(session.stop)
        queries = Queries(session, self._broker.bootstrap, self._directory)
        self._stack.callback(queries.stop)
        return queries

    def _warm_up(self, view: View, queries: Queries) -> None:
        """Wait for the first batches, so that the view has something of Spark to show while the traffic plays."""
        deadline = time.monotonic() + _WARM_UP_S
        while not queries.are_warm() and time.monotonic() < deadline:
            self._broker.check()
            queries.check()
            view.show(Snapshot("warming up", time.monotonic() - self._started))
            time.sleep(_LOOK_EVERY_S)

    def _watch(self, view: View, queries: Queries, traffic: Traffic, counter: TopicCounter) -> None:
        """Show what happens until all that was sent has gone through every query."""
        done_at = None
        while True:
            self._broker.check()
            queries.check()
            sent = traffic.tally()
            if traffic.is_done:
                done_at = done_at or time.monotonic()
                if queries.have_taken(sent.sent) or time.monotonic() - done_at > _DRAIN_S:
                    break
            phase = "playing" if done_at is None else "finishing"
            view.show(self._snapshot(phase, sent, queries, traffic, counter))
            time.sleep(_LOOK_EVERY_S)
        queries.finish()
        view.show(self._snapshot("done", sent, queries, traffic, counter))

    def _snapshot(
        self, phase: str, sent: Tally, queries: Queries, traffic: Traffic, counter: TopicCounter
    ) -> Snapshot:
        from kavka.demo.queries import ALERTS, SESSIONS
        from kavka.demo.topics import alert_text

        news = counter.new_values(ALERTS)
        self._alert_count += len(news)
        self._alerts.extend(alert_text(value) for value in news)
        window, pages = queries.pages.top(_TOP)
        now = time.monotonic()
        return Snapshot(
            phase=phase,
            elapsed_s=now - self._started,
            site_time_ms=traffic.site_time_ms,
            sent=sent.sent,
            sent_per_second=self._rate.of(now, sent.sent),
            queries={
                name: (max(sent.sent - one.taken, 0), one.rows_per_second)
                for name, one in queries.progress().items()
            },
            window_start_s=window,
            top_pages=pages,
            alerts=list(self._alerts),
            alert_count=self._alert_count,
            session_count=counter.count(SESSIONS),
        )

    def _count(self, queries: Queries, counter: TopicCounter) -> Counted:
        """Count each number of the audit in its own place."""
        import pyarrow.compute as pc
        import pyarrow.dataset as ds

        from kavka.demo.queries import ACCESS, DEAD_LETTERS
        from kavka.spark.pipelines.activity import WINDOWS_PER_EVENT

        columns = ["partition", "offset", "late"]
        rows = ds.dataset(queries.parquet, format="parquet", partitioning="hive").to_table(columns)
        in_files = set(zip(rows["partition"].to_pylist(), rows["offset"].to_pylist(), strict=True))
        dead = set(counter.origins(DEAD_LETTERS))
        return Counted(
            lines=self._replay.count(),
            records_in_log=counter.count(ACCESS),
            rows_in_parquet=rows.num_rows,
            distinct_rows=len(in_files),
            late_rows=pc.sum(rows["late"], min_count=0).as_py(),
            counted_in_windows=queries.pages.total,
            windows_per_event=WINDOWS_PER_EVENT,
            dead_letters=counter.count(DEAD_LETTERS),
            distinct_dead_letters=len(dead),
            distinct_records=len(in_files | dead),
        )


class _Rate:
    """Records per second over the last seconds."""

    def __init__(self) -> None:
        self._points: deque[tuple[float, int]] = deque(maxlen=int(3 / _LOOK_EVERY_S))

    def of(self, now: float, count: int) -> float:
        self._points.append((now, count))
        first, before = self._points[0]
        return (count - before) / (now - first) if now > first else 0.0


def _report(sent: Tally, checks: list[Check], bootstrap: str, *, keep: bool) -> bool:
    """Print the audit and how to continue; return whether all numbers agree."""
    print(
        f"\nAudit of {sent.sent:,} records ({sent.malformed:,} malformed, {sent.too_late:,} too late):"
    )
    for check in checks:
        sign = "ok  " if check.agrees else "FAIL"
        print(f"  {sign} {check.what}: {check.expected:,} {check.relation} {check.found:,}")
    agrees = all(check.agrees for check in checks)
    print("Everything agrees." if agrees else "The numbers do not agree.")
    if keep:
        print(_attach(bootstrap), flush=True)
    else:
        print(
            "Run `kavka demo --keep` to leave the broker running and attach your own clients to it.",
            flush=True,
        )
    return agrees


def _attach(bootstrap: str) -> str:
    return f"""
The broker is at {bootstrap} until Ctrl-C. Attach with
  kcat:     kcat -C -b {bootstrap} -t alerts -o beginning
  Kafka:    kafka-console-consumer.sh --bootstrap-server {bootstrap} --topic dead-letters --from-beginning \\
              --property print.headers=true
  lag:      kafka-consumer-groups.sh --bootstrap-server {bootstrap} --describe --all-groups
  PySpark:  spark.read.format("kavka").option("kafka.bootstrap.servers", "{bootstrap}") \\
              .option("subscribe", "access").load().show()"""


def _wait_for_interrupt(broker: EmbeddedBroker) -> None:
    try:
        while True:
            broker.check()
            time.sleep(_LOOK_EVERY_S)
    except KeyboardInterrupt:
        print("\nstopped", flush=True)
