"""`kavka pipelines`: make, check, test, run and watch pipelines on Spark; a project is Spark's own kind."""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from kavka.cli.arguments.client_properties import read_properties
from kavka.cli.arguments.options import BadValue
from kavka.cli.pipelines.alerts import add_alerts, alerts
from kavka.errors import KafkaError
from kavka.pipelines.project import (
    PipelineError,
    Project,
    load_project,
    make_project,
    template_names,
)
from kavka.spark.session import SparkMissing

if TYPE_CHECKING:
    from kavka.pipelines.run import ProgressOptions
    from kavka.pipelines.session import SparkOptions

_CONTINUOUS = "for --continuous: "


def main(arguments: list[str]) -> int:
    """Run a subcommand; 1 when a finding, a flow or the command failed, 130 after a second Ctrl-C."""
    given = _parser().parse_args(arguments)
    act: Callable[[argparse.Namespace], int] = given.act
    try:
        return act(given)
    except KeyboardInterrupt:
        print("\nkavka pipelines: stopped", file=sys.stderr)
        return 130
    except (PipelineError, SparkMissing, BadValue, KafkaError, OSError, ValueError) as error:
        print(f"kavka pipelines: {error}", file=sys.stderr)
        return 1
    except Exception as error:
        if not _is_sparks(error):
            raise
        from kavka.pipelines.errors import query_failure

        print(f"kavka pipelines: {query_failure(str(error))}", file=sys.stderr)
        return 1


def _is_sparks(error: Exception) -> bool:
    return type(error).__module__.partition(".")[0] in ("pyspark", "py4j", "grpc")


# Subcommands


def _init(given: argparse.Namespace) -> int:
    written = make_project(given.directory, given.template, given.bootstrap_server)
    print(f"{given.directory}: a pipeline from the template {given.template}")
    for path in written:
        print(f"  {path}")
    print(f"next: cd {given.directory} && kavka pipelines check")
    return 0


def _check(given: argparse.Namespace) -> int:
    from kavka.pipelines.check import check_project

    findings = check_project(_project(given), _spark_options(given))
    for finding in findings:
        print(finding)
    errors = sum(finding.is_error for finding in findings)
    if not findings:
        print("no findings")
    return 1 if errors else 0


def _run(given: argparse.Namespace) -> int:
    project, spark_options, progress_options = (
        _project(given),
        _spark_options(given),
        _progress_options(given),
    )
    if given.continuous:
        from kavka.pipelines.continuous import run_continuously
        from kavka.pipelines.live_run import LiveRunOptions

        if given.refresh or given.full_refresh or given.full_refresh_all:
            raise PipelineError(
                "--refresh and --full-refresh are for single updates: leave --continuous out"
            )
        run_options = LiveRunOptions(
            given.trigger_interval, given.refresh_interval, given.stop_timeout
        )
        return run_continuously(project, spark_options, progress_options, run_options)
    from kavka.pipelines.run import Refresh, run_once

    if given.full_refresh_all and (given.refresh or given.full_refresh):
        raise PipelineError(
            "--full-refresh-all includes every table: leave the other selections out"
        )
    refresh = Refresh(given.refresh, given.full_refresh, given.full_refresh_all)
    return run_once(project, spark_options, refresh, progress_options)


def _status(given: argparse.Namespace) -> int:
    from kavka.spark.queries.topic import forget_flows, is_over, read_progress, status_table
    from kavka.spark.queries.watch import now_ms

    settings = read_properties(given.command_config)
    settings["bootstrap.servers"] = given.bootstrap_server
    try:
        found = asyncio.run(read_progress(settings, given.progress_topic))
    except KafkaError as error:
        raise PipelineError(
            f"no progress of pipelines at {given.bootstrap_server}: {error}; "
            "a run writes it to the cluster of its first source"
        ) from error
    flows = [one for one in found if given.pipeline in (None, one.pipeline)]
    if given.forget_ended:
        ended = [one for one in flows if is_over(one, now_ms())]
        asyncio.run(forget_flows(settings, ended, given.progress_topic))
        flows = [one for one in flows if one not in ended]
    if given.json:
        for one in flows:
            print(one.to_json())
    else:
        print(status_table(flows, now_ms()))
    return 0


def _backfill(given: argparse.Namespace) -> int:
    from kavka.pipelines.backfill import run_backfill

    return run_backfill(_project(given), _spark_options(given), given.flow, given.start, given.end)


def _reset(given: argparse.Namespace) -> int:
    from kavka.pipelines.reset import reset_flow

    return reset_flow(_project(given), _spark_options(given), given.flow, execute=given.execute)


def _redrive(given: argparse.Namespace) -> int:
    from kavka.pipelines.backfill import moment_ms
    from kavka.pipelines.redrive import Selection, redrive

    settings = read_properties(given.command_config)
    settings["bootstrap.servers"] = given.bootstrap_server
    selection = Selection(
        given.topic,
        given.group or f"kavka-redrive-{given.topic}",
        given.to_topic,
        given.reason,
        given.from_topic,
        None if given.start is None else moment_ms("--from", given.start),
        None if given.end is None else moment_ms("--to", given.end),
    )
    return redrive(settings, selection, dry_run=given.dry_run, print_line=print)


def _test(given: argparse.Namespace) -> int:
    from kavka.pipelines.testing.commands import run_tests

    options = list(given.pytest)
    if given.keyword:
        options += ["-k", given.keyword]
    if given.exit_first:
        options.append("-x")
    return run_tests(given.project, options)


def _record(given: argparse.Namespace) -> int:
    from kavka.pipelines.backfill import moment_ms
    from kavka.pipelines.testing.commands import Slice, record_slice

    settings = read_properties(given.command_config)
    settings["bootstrap.servers"] = given.bootstrap_server
    wanted = Slice(
        given.topic,
        given.partition,
        None if given.start is None else moment_ms("--from", given.start),
        None if given.end is None else moment_ms("--to", given.end),
        given.max_records,
    )
    count = record_slice(settings, wanted, given.output)
    print(f"{given.output}: {count} records of {given.topic}")
    if count == given.max_records:
        print("there may be more: --max-records bounds them")
    return 0


# Options


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="kavka pipelines",
        description="Make, check, test, run and watch pipelines on Spark. A project is a folder with "
        "spark-pipeline.yml and transformations in Python and SQL; Spark's own spark-pipelines runs it as well.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, (about, act, add_options) in SUBCOMMANDS.items():
        command = commands.add_parser(name, help=about)
        command.set_defaults(act=act)
        add_options(command)
    return parser


def _add_init(init: argparse.ArgumentParser) -> None:
    init.add_argument(
        "directory", type=Path, metavar="NAME", help="the new folder; its name is the pipeline's"
    )
    init.add_argument(
        "--template", default="blank", help=f"one of {', '.join(template_names())} (default blank)"
    )
    init.add_argument(
        "--bootstrap-server",
        default="127.0.0.1:9092",
        metavar="BROKERS",
        help="the brokers that the project reads and writes (default 127.0.0.1:9092)",
    )


def _add_reset(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("flow", metavar="FLOW", help="a flow, or the table that it fills")
    parser.add_argument(
        "--execute", action="store_true", help="do it; without, only print what would be done"
    )
    _add_project(parser)


def _add_project(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--project",
        type=Path,
        default=Path(),
        metavar="PATH",
        help="the project's folder or specification (default: the current folder, or one above it)",
    )
    location = parser.add_mutually_exclusive_group()
    location.add_argument(
        "--master",
        default="local[*]",
        metavar="URL",
        help="local[*] (default), spark://host:port, ...",
    )
    location.add_argument(
        "--remote", default="", metavar="URL", help="a Spark Connect server, sc://host:port"
    )
    parser.add_argument(
        "--conf",
        action="append",
        default=[],
        type=_setting,
        metavar="NAME=VALUE",
        help="a setting of Spark; wins over the specification's",
    )
    parser.add_argument(
        "--archive",
        default="",
        metavar="FILE",
        help="the archive of `kavka spark-package`, for workers without kavka",
    )
    parser.add_argument(
        "--log-level",
        default="error",
        choices=("off", "error", "warn", "info"),
        help="Spark's log (default error)",
    )


def _add_run(parser: argparse.ArgumentParser) -> None:
    _add_project(parser)
    parser.add_argument(
        "--continuous", action="store_true", help="keep flows live and views fresh until SIGTERM"
    )
    parser.add_argument(
        "--refresh",
        type=_names,
        action="extend",
        default=[],
        metavar="TABLES",
        help="update these only",
    )
    parser.add_argument(
        "--full-refresh",
        type=_names,
        action="extend",
        default=[],
        metavar="TABLES",
        help="empty these and compute them from the beginning",
    )
    parser.add_argument("--full-refresh-all", action="store_true", help="the same for all tables")
    parser.add_argument(
        "--trigger-interval",
        type=int,
        default=200,
        metavar="MS",
        help=f"{_CONTINUOUS}least milliseconds between two batches of a flow (default 200)",
    )
    parser.add_argument(
        "--refresh-interval",
        type=float,
        default=5.0,
        metavar="SECONDS",
        help=f"{_CONTINUOUS}seconds between two refreshes of the views (default 5)",
    )
    parser.add_argument(
        "--stop-timeout",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help=f"{_CONTINUOUS}seconds for the last batches at the end (default 60)",
    )
    parser.add_argument(
        "--metrics-port",
        type=int,
        metavar="PORT",
        help="serve Prometheus metrics on this port of 127.0.0.1",
    )
    parser.add_argument("--no-progress-topic", action="store_true", help="do not publish progress")
    parser.add_argument(
        "--progress-bootstrap-server",
        default="",
        metavar="BROKERS",
        help="where the topic of progress is (default: the cluster of the first source)",
    )
    _add_progress_topic(parser)


def _add_progress_topic(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--progress-topic",
        default="__kavka_pipelines",
        metavar="TOPIC",
        help="the topic of progress (default __kavka_pipelines)",
    )


def _add_status(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "pipeline", nargs="?", metavar="PIPELINE", help="one pipeline (default: all)"
    )
    parser.add_argument("--bootstrap-server", required=True, metavar="BROKERS")
    parser.add_argument("--command-config", metavar="FILE", help="settings of the client")
    parser.add_argument("--json", action="store_true", help="a line of JSON for each flow")
    parser.add_argument(
        "--forget-ended",
        action="store_true",
        help="remove flows that do not run from the topic first: renamed ones, pipelines that are gone",
    )
    _add_progress_topic(parser)


def _add_backfill(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--from",
        dest="start",
        required=True,
        metavar="TIME",
        help="2026-11-25T14:00:00Z, or milliseconds since 1970",
    )
    parser.add_argument(
        "--to", dest="end", metavar="TIME", help="the end, without it (default: all up to now)"
    )
    parser.add_argument(
        "--flow",
        action="append",
        default=[],
        metavar="FLOW",
        help="this flow; may be repeated (default: all that read topics)",
    )
    _add_project(parser)


def _add_test(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "project",
        type=Path,
        nargs="?",
        default=Path(),
        metavar="PROJECT",
        help="the project's folder, or a file or folder of its tests (default: the current folder)",
    )
    parser.add_argument(
        "-k", dest="keyword", metavar="EXPRESSION", help="only tests with such names"
    )
    parser.add_argument(
        "-x", dest="exit_first", action="store_true", help="end at the first test that fails"
    )
    parser.add_argument(
        "--pytest",
        action="append",
        default=[],
        metavar="OPTION",
        help="another option of pytest, as in --pytest=--pdb; may be repeated",
    )


def _add_record(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument("--bootstrap-server", required=True, metavar="BROKERS")
    parser.add_argument("--command-config", metavar="FILE", help="settings of the client")
    parser.add_argument(
        "--output", required=True, type=Path, metavar="FILE", help="the new file, of JSON lines"
    )
    parser.add_argument(
        "--from",
        dest="start",
        metavar="TIME",
        help="2026-11-25T14:00:00Z, or milliseconds since 1970 (default: the first record)",
    )
    parser.add_argument(
        "--to", dest="end", metavar="TIME", help="the end, without it (default: all up to now)"
    )
    parser.add_argument(
        "--partition",
        type=int,
        action="append",
        default=[],
        metavar="NUMBER",
        help="this partition; may be repeated (default: all)",
    )
    parser.add_argument(
        "--max-records",
        type=int,
        default=1000,
        metavar="COUNT",
        help="records at most, partition by partition (default 1000)",
    )


def _add_redrive(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topic", metavar="TOPIC", help="the dead-letter topic")
    parser.add_argument("--bootstrap-server", required=True, metavar="BROKERS")
    parser.add_argument("--command-config", metavar="FILE", help="settings of the clients")
    parser.add_argument(
        "--group",
        metavar="GROUP",
        help="the group that remembers how far the topic is read, with what is not selected (default "
        "kavka-redrive-TOPIC)",
    )
    parser.add_argument(
        "--reason",
        type=_pattern,
        metavar="REGEX",
        help="only with this in the reason: stage, class and message of the error",
    )
    parser.add_argument("--from-topic", metavar="TOPIC", help="only records of this topic")
    parser.add_argument(
        "--from",
        dest="start",
        metavar="TIME",
        help="only dead letters since 2026-11-25T14:00:00Z, or milliseconds since 1970",
    )
    parser.add_argument("--to", dest="end", metavar="TIME", help="only dead letters before then")
    parser.add_argument(
        "--to-topic", metavar="TOPIC", help="send them there (default: the topic of each)"
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="print what would be sent; nothing is sent or committed",
    )


def _project(given: argparse.Namespace) -> Project:
    return load_project(given.project)


def _spark_options(given: argparse.Namespace) -> SparkOptions:
    from kavka.pipelines.session import SparkOptions, with_archive

    conf = dict(given.conf)
    if given.archive:
        conf = with_archive(conf, given.archive)
    return SparkOptions(given.master, given.remote, conf, given.log_level)


def _progress_options(given: argparse.Namespace) -> ProgressOptions:
    from kavka.pipelines.run import ProgressOptions

    return ProgressOptions(
        given.metrics_port,
        not given.no_progress_topic,
        given.progress_topic,
        given.progress_bootstrap_server,
    )


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no regular expression: {error}") from None


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


SUBCOMMANDS: dict[
    str, tuple[str, Callable[[argparse.Namespace], int], Callable[[argparse.ArgumentParser], None]]
] = {
    "init": ("make a project from a template", _init, _add_init),
    "check": (
        "find mistakes before a run: Spark's dry run, then brokers and topics",
        _check,
        _add_project,
    ),
    "run": ("update once, or keep running", _run, _add_run),
    "test": (
        "run the tests of a project, each between a broker and tables of its own",
        _test,
        _add_test,
    ),
    "record": ("write records of a topic into a file, for tests", _record, _add_record),
    "status": ("the progress of pipelines, read from their topic", _status, _add_status),
    "alerts": (
        "open incidents of a topic of alerts, or their delivery to a webhook",
        alerts,
        add_alerts,
    ),
    "backfill": ("let flows process a range of time once more", _backfill, _add_backfill),
    "redrive": (
        "send dead letters back to their topics, in transactions",
        _redrive,
        _add_redrive,
    ),
    "reset": (
        "begin a flow from the start: forget its checkpoint, empty its table",
        _reset,
        _add_reset,
    ),
}
"""The help of each, its function, and the function that declares its options."""
