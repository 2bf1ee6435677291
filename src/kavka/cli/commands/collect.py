"""`kavka collect`: log files, metrics of this machine, and Prometheus pages into a topic."""

from __future__ import annotations

import argparse
import asyncio
import logging
import re
import socket
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from datetime import tzinfo
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kavka.cli.arguments.client_properties import read_properties
from kavka.cli.arguments.options import BadValue
from kavka.cli.arguments.tool_parser import ToolParser
from kavka.cli.text.times import current_time_ms
from kavka.client.config import ADMIN, CONSUMER, PRODUCER
from kavka.client.setting_names import effective_settings
from kavka.collect.delivery import (
    CollectorError,
    CollectorFenced,
    Delivery,
    SessionLost,
    fenced,
    run_sessions,
)
from kavka.collect.parsers.rules import NAMES, BadRules, ParserRules, parser_of
from kavka.collect.shutdown import ShutdownTimeout, run_until_signal
from kavka.collect.statistics import Reporter, Statistics
from kavka.metrics.server import MetricsServer
from kavka.settings.declaration import Catalogue, InvalidSetting

if TYPE_CHECKING:
    from kavka.collect.files.tailer import FileOptions

_PURPOSE = (
    "Collect log files, metrics of this machine, Prometheus pages and lag of groups into a topic."
)
_FENCED = 3
"""Exit code of a fenced collector: a supervisor must not restart it."""
POSITIONS_TOPIC = "kavka-collect-positions"


def main(argv: list[str]) -> int:
    """Run the command: 0 after a signal or with --once, 1 after a failure, 3 when another collector has replaced it."""
    try:
        chosen = _parser().parse_args(argv)
    except SystemExit as error:
        return 0 if error.code == 0 else 1
    _log_to_standard_error(verbose=chosen.verbose)
    try:
        asyncio.run(_run(chosen))
    except CollectorFenced as error:
        print(f"kavka collect: {error}", file=sys.stderr)
        return _FENCED
    except (CollectorError, ShutdownTimeout, BadRules, BadValue, InvalidSetting, OSError) as error:
        print(f"kavka collect: {error}", file=sys.stderr)
        return 1
    return 0


def _log_to_standard_error(*, verbose: bool) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logger = logging.getLogger("kavka")
    logger.handlers[:] = [handler]
    logger.propagate = False
    logger.setLevel(logging.INFO if verbose else logging.WARNING)


# Options


def _parser() -> ToolParser:
    parser = ToolParser(
        "kavka collect",
        description=_PURPOSE,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    kinds = parser.add_subparsers(dest="kind", required=True, metavar="files|host|metrics|groups")
    files = kinds.add_parser(
        "files",
        help="follow log files through rotation, each complete line exactly once",
        allow_abbrev=False,
    )
    _add_common(files)
    _add_file_options(files)
    host = kinds.add_parser(
        "host",
        help="CPU, memory, disks, network and processes of this machine",
        allow_abbrev=False,
    )
    _add_common(host)
    _add_interval(host)
    host.add_argument(
        "--processes", type=_count, default=10, metavar="COUNT",
        help="Samples of so many processes with most CPU and most memory (10).",
    )  # fmt: skip
    pages = kinds.add_parser(
        "metrics",
        help="pages of metrics for Prometheus: of kavka, of Kafka's JMX exporter, of node exporter",
        allow_abbrev=False,
    )
    _add_common(pages)
    _add_interval(pages)
    pages.add_argument(
        "url", nargs="+", metavar="URL", help="Pages; host:port is http://host:port/metrics."
    )
    pages.add_argument(
        "--scrape-timeout", type=_seconds, default=10.0, metavar="SECONDS",
        help="Time that a page may take (10).",
    )  # fmt: skip
    groups = kinds.add_parser(
        "groups",
        help="lag of consumer groups, in records and in seconds",
        allow_abbrev=False,
    )
    _add_common(groups)
    _add_interval(groups)
    groups.add_argument(
        "--of",
        metavar="SERVERS",
        help="Brokers of the groups (those of --bootstrap-server), with the same --command-config.",
    )
    groups.add_argument(
        "--group", type=_text_pattern, default=re.compile(".*"), metavar="PATTERN",
        help="A regular expression for the whole names of groups (all).",
    )  # fmt: skip
    parser.epilog = "\n".join(each.format_help() for each in (files, host, pages, groups))
    return parser


def _add_interval(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--interval",
        type=_interval,
        default=15.0,
        metavar="SECONDS",
        help="Interval of samples (15).",
    )


def _add_common(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--bootstrap-server",
        required=True,
        metavar="SERVERS",
        help="Brokers, as host:port,host:port.",
    )
    add("--topic", required=True, help="Topic of the records.")
    add("--command-config", metavar="FILE", help="A properties file with settings of the client.")
    add(
        "--name",
        help="Name of this collector, unique among the running ones (HOST-TOPIC, for samples HOST-TOPIC-KIND).",
    )
    add(
        "--host",
        default=socket.gethostname(),
        help="Machine named in the records (this one's name).",
    )
    add(
        "--label", action="append", default=[], metavar="KEY=VALUE", help="A label for all records."
    )
    add("--once", action="store_true", help="Collect once, and end.")
    add("--report-interval", type=_seconds, default=60.0, metavar="SECONDS",
        help="Interval of the line of statistics on standard error; 0 for the end only (60).")  # fmt: skip
    add("--metrics-port", type=int, metavar="PORT",
        help="Serve metrics of the collector for Prometheus on this port of 127.0.0.1.")  # fmt: skip
    add("--verbose", action="store_true", help="Log the state of each file.")


def _add_file_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("pattern", nargs="+", metavar="PATTERN",
        help="Paths, with *, ?, [] and ** for folders; quote them. Include the names of rotated files.")  # fmt: skip
    add(
        "--exclude", action="append", default=[], metavar="PATTERN", help="Paths that are left out."
    )
    add("--state", type=Path, metavar="DIR",
        help="Directory of a cache of compressed files' fingerprints; it may be lost.")  # fmt: skip
    add("--positions-topic", default=POSITIONS_TOPIC, metavar="TOPIC",
        help=f"Compacted topic of the positions ({POSITIONS_TOPIC}).")  # fmt: skip
    add("--start-at", choices=("beginning", "end"), default="beginning",
        help="Position in the files that exist at the very first start (beginning).")  # fmt: skip
    add(
        "--parser",
        choices=NAMES,
        help="Format of the events; without it they are sent as messages only.",
    )
    add("--regex", metavar="PATTERN", help="With --parser regex: an expression with named groups.")
    add(
        "--time-field",
        metavar="FIELD",
        help="Field with the time of the event (time, timestamp, @timestamp, ts).",
    )
    add(
        "--time-format",
        metavar="FORMAT",
        help="Format of that time for strptime (ISO 8601, or a number).",
    )
    add(
        "--time-zone",
        type=_zone,
        metavar="ZONE",
        help="Time zone of times without one (the machine's).",
    )
    add("--dead-letter-topic", metavar="TOPIC",
        help="Topic of events that cannot be parsed; without it they are in --topic, with an error.")  # fmt: skip
    add("--event-start", type=_pattern, metavar="PATTERN",
        help="Pattern of the first line of an event; the lines after it belong to it.")  # fmt: skip
    add("--event-timeout", type=_seconds, default=5.0, metavar="SECONDS",
        help="With --event-start: time without new lines after which a last event is sent (5).")  # fmt: skip
    add("--max-event-bytes", type=_event_bytes, default=100_000, metavar="BYTES",
        help="Longer events are sent in parts (100000).")  # fmt: skip
    add("--close-after", type=_seconds, default=10.0, metavar="SECONDS",
        help="Time without a change after which a deleted file is closed (10).")  # fmt: skip
    add("--poll-interval", type=_seconds, default=0.25, metavar="SECONDS",
        help="Interval of scans of the files (0.25); longer if a scan takes long.")  # fmt: skip


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < 86_400:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds between 0 and 86400")
    return seconds


def _interval(text: str) -> float:
    seconds = _seconds(text)
    if seconds < 0.1:
        raise argparse.ArgumentTypeError(f"{text!r} is below a tenth of a second")
    return seconds


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no number")
    return int(text)


def _event_bytes(text: str) -> int:
    if not text.isdecimal() or not 64 <= int(text) <= 8 << 20:
        raise argparse.ArgumentTypeError(f"{text!r} is no number between 64 and 8388608")
    return int(text)


def _pattern(text: str) -> re.Pattern[bytes]:
    try:
        return re.compile(text.encode())
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no regular expression: {error}") from error


def _text_pattern(text: str) -> re.Pattern[str]:
    return re.compile(_pattern(text).pattern.decode())


def _zone(text: str) -> tzinfo:
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(text)
    except (ValueError, OSError) as error:  # ZoneInfoNotFoundError is a KeyError
        raise argparse.ArgumentTypeError(f"{text!r} is no time zone: {error}") from error
    except KeyError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no time zone, such as UTC or Europe/Vienna"
        ) from None


def _labels(pairs: list[str]) -> dict[str, str]:
    labels: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not (key and equals):
            raise BadValue(f"--label {pair!r} is not KEY=VALUE")
        labels[key] = value
    return labels


def _settings(chosen: argparse.Namespace, catalogue: Catalogue) -> dict[str, Any]:
    """Return the settings of one kind of client: those of the file that it has."""
    properties = read_properties(chosen.command_config)
    supported = {name: value for name, value in properties.items() if name in catalogue}
    settings = effective_settings(catalogue, supported)
    return {**settings, "bootstrap.servers": chosen.bootstrap_server}


# Running


async def _run(chosen: argparse.Namespace) -> None:
    statistics = Statistics()
    reporter = Reporter(statistics, chosen.report_interval)
    effective_settings(PRODUCER, read_properties(chosen.command_config))  # logs what has no effect
    with ExitStack() as stack:
        if chosen.metrics_port is not None:
            server = MetricsServer(chosen.metrics_port, statistics.families)
            stack.enter_context(server)
            print(
                f"kavka collect: metrics at http://127.0.0.1:{server.port}/metrics", file=sys.stderr
            )
        run = _run_files if chosen.kind == "files" else _run_samples
        await run(chosen, statistics, reporter)
    reporter.report(is_last=True)


async def _run_files(
    chosen: argparse.Namespace, statistics: Statistics, reporter: Reporter
) -> None:
    from kavka.collect.files import positions
    from kavka.collect.files.tailer import FileTailer

    options = _file_options(chosen)
    topic, name = chosen.positions_topic, options.name
    consumer_settings: Mapping[str, Any] = _settings(chosen, CONSUMER)

    async def session(stop: asyncio.Event) -> None:
        delivery = Delivery(_settings(chosen, PRODUCER), name, statistics, topic)
        barrier = None
        try:
            await delivery.start()
            barrier = await delivery.barrier(*positions.barrier_record(name, current_time_ms()))
            contents = await positions.read_positions(consumer_settings, topic, name, barrier)
            tailer = FileTailer(options, delivery, contents, statistics, reporter)
            await tailer.run(stop, once=chosen.once)
        except SessionLost:
            if barrier is not None and await positions.was_replaced(
                consumer_settings, topic, name, barrier
            ):
                raise fenced(name) from None
            raise
        finally:
            await delivery.close()

    async def work(stop: asyncio.Event) -> None:
        await positions.ensure_topic(_settings(chosen, ADMIN), topic)
        await run_sessions(session, stop)

    await run_until_signal(work)


async def _run_samples(
    chosen: argparse.Namespace, statistics: Statistics, reporter: Reporter
) -> None:
    from kavka.collect.host import Host
    from kavka.collect.pages import check_url, parsers_or_error
    from kavka.collect.sampler import SampleOptions, Sampler, sample_host, sample_pages

    options = SampleOptions(chosen.topic, chosen.host, chosen.interval, _labels(chosen.label))
    name = chosen.name or f"{chosen.host}-{chosen.topic}-{chosen.kind}"
    if chosen.kind == "host":
        take = partial(sample_host, Host(chosen.processes))
    elif chosen.kind == "groups":
        from kavka.collect.groups import sample_groups

        settings = {
            **_settings(chosen, ADMIN),
            "bootstrap.servers": chosen.of or chosen.bootstrap_server,
        }
        take = partial(sample_groups, settings, chosen.group)
    else:
        urls = [check_url(url) for url in chosen.url]
        take = partial(sample_pages, urls, parsers_or_error(), chosen.scrape_timeout)

    async def session(stop: asyncio.Event) -> None:
        delivery = Delivery(_settings(chosen, PRODUCER), name, statistics)
        sampler = Sampler(options, delivery, statistics, reporter)
        try:
            await delivery.start()
            await sampler.run(take, stop, once=chosen.once)
        finally:
            await delivery.close()

    await run_until_signal(partial(run_sessions, session))


def _open_files() -> int:
    """Return the maximum number of open log files: the limit of this process, less some for connections."""
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(16, min(soft - 100, 8192))


def _file_options(chosen: argparse.Namespace) -> FileOptions:
    from kavka.collect.files.events import EventRules
    from kavka.collect.files.tailer import FileOptions

    parser = None
    if chosen.parser is not None or chosen.regex is not None:
        rules = ParserRules(
            chosen.parser or "",
            chosen.regex,
            chosen.time_field,
            chosen.time_format,
            chosen.time_zone,
        )
        parser = parser_of(rules)
    elif chosen.dead_letter_topic is not None or chosen.time_field is not None:
        raise BadRules("--dead-letter-topic and --time-field need a --parser")
    return FileOptions(
        name=chosen.name or f"{chosen.host}-{chosen.topic}",
        patterns=[str(Path(pattern).absolute()) for pattern in chosen.pattern],
        topic=chosen.topic,
        host=chosen.host,
        excluded=[str(Path(pattern).absolute()) for pattern in chosen.exclude],
        dead_letter_topic=chosen.dead_letter_topic,
        labels=_labels(chosen.label),
        rules=EventRules(chosen.max_event_bytes, chosen.event_start),
        parser=parser,
        state=chosen.state,
        poll_ms=int(chosen.poll_interval * 1000),
        close_ms=int(chosen.close_after * 1000),
        event_timeout_ms=int(chosen.event_timeout * 1000),
        starts_at_end=chosen.start_at == "end",
        max_open=_open_files(),
    )
