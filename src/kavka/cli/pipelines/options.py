"""The options of the sub-commands of `kavka pipelines`."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from kavka.pipelines.project import template_names

_CONTINUOUS = "for --continuous: "


def add_init(init: argparse.ArgumentParser) -> None:
    """Declare the options of a new project."""
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


def add_reset(parser: argparse.ArgumentParser) -> None:
    """Declare the options of a reset."""
    parser.add_argument("flow", metavar="FLOW", help="a flow, or the table that it fills")
    parser.add_argument(
        "--execute", action="store_true", help="do it; without, only print what would be done"
    )
    add_project(parser)


def add_project(parser: argparse.ArgumentParser) -> None:
    """Declare the options of a project and its Spark."""
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


def add_run(parser: argparse.ArgumentParser) -> None:
    """Declare the options of a run."""
    add_project(parser)
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
    _add_progress_options(parser)


def _add_progress_options(parser: argparse.ArgumentParser) -> None:
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


def add_status(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the status."""
    parser.add_argument(
        "pipeline", nargs="?", metavar="PIPELINE", help="one pipeline (default: all)"
    )
    parser.add_argument("--bootstrap-server", required=True, metavar="BROKERS")
    parser.add_argument("--command-config", metavar="FILE", help="settings of the client")
    parser.add_argument(
        "--forget-ended",
        action="store_true",
        help="remove flows that do not run from the topic first: renamed ones, pipelines that are gone",
    )
    _add_progress_topic(parser)


def add_backfill(parser: argparse.ArgumentParser) -> None:
    """Declare the options of a backfill."""
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
    add_project(parser)
    _add_progress_options(parser)


def add_test(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the tests."""
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
        "--keep-classes",
        action="store_true",
        help="after tests that passed keep an archive of Spark's classes in the user's cache (a quarter of a "
        "gigabyte), with which later tests start faster",
    )
    parser.add_argument(
        "--pytest",
        action="append",
        default=[],
        metavar="OPTION",
        help="another option of pytest, as in --pytest=--pdb; may be repeated",
    )


def add_record(parser: argparse.ArgumentParser) -> None:
    """Declare the options of a slice of a topic."""
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


def add_redrive(parser: argparse.ArgumentParser) -> None:
    """Declare the options of a redrive."""
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
