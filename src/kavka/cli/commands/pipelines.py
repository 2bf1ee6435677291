"""`kavka pipelines`: make, check, test, run and watch pipelines on Spark; a project is Spark's own kind."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING

from kavka.cli.arguments.client_properties import read_properties
from kavka.cli.arguments.options import BadValue
from kavka.cli.arguments.tool_parser import ToolParser
from kavka.cli.json_lines.lines import (
    error_object,
    logged_as_warnings,
    print_failure,
    print_rows,
)
from kavka.cli.json_lines.pipeline_shapes import (
    FINDING,
    FLOW,
    LETTER,
    PROJECT,
    REDRIVEN,
    RESET,
    SLICE,
)
from kavka.cli.pipelines.alerts import add_alerts, alerts
from kavka.cli.pipelines.options import (
    add_backfill,
    add_init,
    add_project,
    add_record,
    add_redrive,
    add_reset,
    add_run,
    add_status,
    add_test,
)
from kavka.cli.pipelines.run_view import open_run_view
from kavka.errors import KafkaError
from kavka.pipelines.project import (
    PipelineError,
    Project,
    load_project,
    make_project,
)
from kavka.spark.session import SparkMissing
from kavka.sql.output import printable, printable_lines

if TYPE_CHECKING:
    from kavka.pipelines.run import ProgressOptions
    from kavka.pipelines.session import SparkOptions


def main(arguments: list[str]) -> int:
    """Run a subcommand; 1 when a finding, a flow or the command failed, 130 after a second Ctrl-C."""
    try:
        given = _parser().parse_args(arguments)
    except SystemExit as error:
        return 0 if error.code == 0 else 1
    act: Callable[[argparse.Namespace], int] = given.act
    try:
        with logged_as_warnings() if given.json else nullcontext():
            return act(given)
    except KeyboardInterrupt:
        return _failed(given, RuntimeError("stopped"), exit_code=130)
    except (PipelineError, SparkMissing, BadValue, KafkaError, OSError, ValueError) as error:
        return _failed(given, error)
    except Exception as error:
        if not _is_sparks(error):
            raise
        from kavka.pipelines.errors import query_failure

        return _failed(given, PipelineError(query_failure(str(error))))


def _failed(given: argparse.Namespace, error: Exception, exit_code: int = 1) -> int:
    if given.json:
        found = error_object(error)
        return print_failure(found["code"], found["message"], exit_code)
    print(f"kavka pipelines: {error}", file=sys.stderr)
    return exit_code


def _is_sparks(error: Exception) -> bool:
    return type(error).__module__.partition(".")[0] in ("pyspark", "py4j", "grpc")


# Subcommands


def _init(given: argparse.Namespace) -> int:
    written = make_project(given.directory, given.template, given.bootstrap_server)
    if given.json:
        row = {"directory": str(given.directory), "template": given.template}
        print_rows(PROJECT, [row | {"files": list(map(str, written))}])
        return 0
    print(f"{given.directory}: a pipeline from the template {given.template}")
    for path in written:
        print(f"  {path}")
    print(f"next: cd {given.directory} && kavka pipelines check")
    return 0


def _check(given: argparse.Namespace) -> int:
    from kavka.cli.json_rows.pipelines import finding_row
    from kavka.pipelines.check import check_project

    findings = check_project(_project(given), _spark_options(given))
    errors = sum(finding.is_error for finding in findings)
    if given.json:
        print_rows(FINDING, map(finding_row, findings))
        return print_failure("FAILED", f"{errors} errors were found") if errors else 0
    for finding in findings:
        print(finding)
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
        with open_run_view(as_json=given.json) as view:
            run_continuously(project, spark_options, progress_options, run_options, view)
        return 0
    from kavka.pipelines.run import Refresh, run_once

    if given.full_refresh_all and (given.refresh or given.full_refresh):
        raise PipelineError(
            "--full-refresh-all includes every table: leave the other selections out"
        )
    refresh = Refresh(given.refresh, given.full_refresh, given.full_refresh_all)
    with open_run_view(as_json=given.json) as view:
        run_once(project, spark_options, refresh, progress_options, view)
    return 0


def _status(given: argparse.Namespace) -> int:
    from kavka.cli.json_rows.pipelines import flow_row
    from kavka.spark.queries.topic import (
        forget_flows,
        is_lost,
        is_over,
        read_progress,
        status_table,
    )
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
        print_rows(FLOW, (flow_row(one, is_lost=is_lost(one, now_ms())) for one in flows))
    else:
        print(printable_lines(status_table(flows, now_ms())))
    return 0


def _backfill(given: argparse.Namespace) -> int:
    from kavka.pipelines.backfill import parse_range, run_backfill

    time_range = parse_range(given.start, given.end)
    project, spark_options, progress_options = (
        _project(given),
        _spark_options(given),
        _progress_options(given),
    )
    with open_run_view(as_json=given.json) as view:
        run_backfill(project, spark_options, given.flow, time_range, progress_options, view)
    return 0


def _reset(given: argparse.Namespace) -> int:
    from kavka.cli.json_rows.pipelines import reset_row
    from kavka.pipelines.reset import reset_flow

    def show(event: str) -> None:
        if not given.json:
            print(event, flush=True)

    found = reset_flow(
        _project(given), _spark_options(given), given.flow, execute=given.execute, on_event=show
    )
    if given.json:
        print_rows(RESET, [reset_row(found)])
    else:
        print("\n".join(found.lines()))
    return 0


def _redrive(given: argparse.Namespace) -> int:
    from kavka.cli.json_rows.pipelines import letter_row, redriven_row
    from kavka.pipelines.backfill import moment_ms
    from kavka.pipelines.redrive import Redriven, Selection, redrive

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

    def show(one: Redriven) -> None:
        if given.json:
            print_rows(LETTER, [letter_row(one)])
        else:
            print(printable(str(one)))

    outcome = redrive(settings, selection, dry_run=given.dry_run, on_letter=show)
    if given.json:
        print_rows(REDRIVEN, [redriven_row(selection, outcome, dry_run=given.dry_run)])
    else:
        print(printable_lines("\n".join(outcome.lines(selection, dry_run=given.dry_run))))
    return 0


def _test(given: argparse.Namespace) -> int:
    from kavka.pipelines.testing.commands import run_tests

    options = list(given.pytest)
    if given.keyword:
        options += ["-k", given.keyword]
    if given.exit_first:
        options.append("-x")
    return run_tests(given.project, options, keeps_classes=given.keep_classes)


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
    is_whole = count < given.max_records
    if given.json:
        row = {"file": str(given.output), "topic": given.topic, "records": count}
        print_rows(SLICE, [row | {"complete": is_whole}])
        return 0
    print(f"{given.output}: {count} records of {given.topic}")
    if not is_whole:
        print("there may be more: --max-records bounds them")
    return 0


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


SUBCOMMANDS: dict[
    str, tuple[str, Callable[[argparse.Namespace], int], Callable[[argparse.ArgumentParser], None]]
] = {
    "init": ("make a project from a template", _init, add_init),
    "check": (
        "find mistakes before a run: Spark's dry run, then brokers and topics",
        _check,
        add_project,
    ),
    "run": ("update once, or keep running", _run, add_run),
    "test": (
        "run the tests of a project, each between a broker and tables of its own",
        _test,
        add_test,
    ),
    "record": ("write records of a topic into a file, for tests", _record, add_record),
    "status": ("the progress of pipelines, read from their topic", _status, add_status),
    "alerts": (
        "open incidents of a topic of alerts, or their delivery to a webhook",
        alerts,
        add_alerts,
    ),
    "backfill": ("let flows process a range of time once more", _backfill, add_backfill),
    "redrive": (
        "send dead letters back to their topics, in transactions",
        _redrive,
        add_redrive,
    ),
    "reset": (
        "begin a flow from the start: forget its checkpoint, empty its table",
        _reset,
        add_reset,
    ),
}
"""The help of each, its function, and the function that declares its options."""


def _parser() -> ToolParser:
    parser = ToolParser(
        "kavka pipelines",
        description="Make, check, test, run and watch pipelines on Spark. A project is a folder with "
        "spark-pipeline.yml and transformations in Python and SQL; Spark's own spark-pipelines runs it as well.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, (about, act, add_options) in SUBCOMMANDS.items():
        command = commands.add_parser(name, help=about)
        command.set_defaults(act=act)
        add_options(command)
        if name != "test":  # pytest has reports of its own
            parser.add_json(command)
    return parser
