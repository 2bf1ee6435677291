"""`kavka lake`: the state of lake tables, their maintenance, their audit against topics, and the reload of a range."""

from __future__ import annotations

import argparse
import asyncio
import json
import runpy
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kavka.cli.arguments.client_properties import read_properties
from kavka.cli.arguments.options import BadValue
from kavka.cli.arguments.tool_parser import ToolParser
from kavka.cli.text.tab_table import tab_table
from kavka.cli.text.times import current_time_ms, moment_ms
from kavka.errors import KafkaError
from kavka.settings.durations import duration_ms

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

    from kavka.lake.audit import Audit, HourCount
    from kavka.lake.catalogs import Identifier

_PURPOSE = (
    "Lake tables that Spark loads from topics with format kavka-iceberg: see, maintain, audit and reload them. "
    "Needs `pip install 'kavka[lake]'`."
)
_COMMANDS = {
    "status": "print what tables have: rows, files, snapshots, and how far each load is",
    "maintain": "compact small files, expire old snapshots, remove files of failed attempts, beside a running load",
    "audit": "compare tables with their topics, offset by offset: missing, doubled and late, by hour; 1 if not exact",
    "reload": "read a range of time again, and replace what the table has of it, in one commit; needs Spark",
}
_HEADERS = ("Hour", "Topic", "Table", "Missing", "Doubled", "Late")
_DAY_MS = 86_400_000


def main(argv: list[str]) -> int:
    """Run the command; 1 when it is not understood, something is refused, or an audit finds a difference."""
    try:
        chosen = _parser().parse_args(argv)
    except SystemExit as error:
        return 0 if error.code == 0 else 1
    from kavka.lake.errors import LakeError, require_pyiceberg

    try:
        require_pyiceberg()
        act: Callable[[argparse.Namespace], int] = _ACTIONS[chosen.command]
        return act(chosen)
    except (LakeError, BadValue, KafkaError, OSError, ValueError) as error:
        print(f"kavka lake: {error}", file=sys.stderr)
        return 1


# Options


def _parser() -> ToolParser:
    parser = ToolParser("kavka lake", description=_PURPOSE, allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    made = {
        name: commands.add_parser(name, help=about, description=about, allow_abbrev=False)
        for name, about in _COMMANDS.items()
    }
    for command in made.values():
        command.add_argument(
            "--table",
            action="append",
            required=True,
            metavar="NAME",
            help="a table, as lake.clicks, or all of a namespace, as 'lake.*'; may be given several times",
        )
        command.add_argument(
            "--warehouse", metavar="DIR", help="the directory of the embedded catalogue"
        )
        command.add_argument(
            "--catalog",
            action="append",
            default=[],
            metavar="KEY=VALUE",
            type=_pair,
            help="a property of another catalogue, as type=rest or uri=http://...; the load's options without catalog.",
        )
    _add_maintenance(made["maintain"])
    for name in ("audit", "reload"):
        _add_topics(made[name])
    _add_audit(made["audit"])
    _add_reload(made["reload"])
    return parser


def _add_maintenance(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--only",
        action="append",
        choices=("compact", "expire", "orphans"),
        help="do this and not the rest; may be given several times",
    )
    command.add_argument(
        "--min-files", type=int, default=5, help="small files that are worth a rewrite (5)"
    )
    command.add_argument(
        "--snapshots-older-than",
        type=_duration,
        default=5 * _DAY_MS,
        metavar="AGE",
        help="age of snapshots that go, as 12h or 5d (5d)",
    )
    command.add_argument(
        "--keep-snapshots", type=int, default=1, help="snapshots that stay, however old (1)"
    )
    command.add_argument(
        "--orphans-older-than",
        type=_duration,
        default=3 * _DAY_MS,
        metavar="AGE",
        help="age of files that no snapshot needs and no batch explains (3d); longer than a batch takes",
    )
    command.add_argument("--dry-run", action="store_true", help="count, and change nothing")
    command.add_argument(
        "--every", type=_duration, metavar="TIME", help="go on, with this pause, until it is ended"
    )


def _add_topics(command: argparse.ArgumentParser) -> None:
    command.add_argument("--bootstrap-server", required=True, help="where the topics are")
    command.add_argument("--command-config", metavar="FILE", help="settings of the client")
    needs_start = command.prog.endswith("reload")
    command.add_argument(
        "--from",
        dest="from_ms",
        type=_moment,
        required=needs_start,
        metavar="TIME",
        help="the first record, by its timestamp, as 2026-01-31T12:00:00 (UTC)",
    )
    command.add_argument(
        "--to", dest="to_ms", type=_moment, metavar="TIME", help="the end, which is not included"
    )


def _add_audit(command: argparse.ArgumentParser) -> None:
    command.add_argument("--event-column", metavar="NAME", help="the column of events' times")
    command.add_argument(
        "--late-after",
        type=_duration,
        default=3_600_000,
        metavar="TIME",
        help="how much older than its record an event must be to count as late (1h)",
    )
    command.add_argument("--json", action="store_true", help="print JSON")


def _add_reload(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--transform",
        metavar="FILE.py:FUNCTION",
        help="what makes the table's rows from the topic's, as the load does; without, columns are taken by name",
    )
    command.add_argument("--master", default="local[2]", help="Spark's master (local[2])")
    command.add_argument("--dry-run", action="store_true", help="print the range and stop")


def _pair(text: str) -> tuple[str, str]:
    name, found, value = text.partition("=")
    if not found or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return name.removeprefix("catalog."), value


def _moment(text: str) -> int:
    try:
        return moment_ms(text)
    except BadValue:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a time such as 2026-01-31T12:00:00"
        ) from None


def _duration(text: str) -> int:
    """Return milliseconds."""
    try:
        return duration_ms(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 30m, 12h or 5d") from None


def _catalog_properties(chosen: argparse.Namespace) -> dict[str, str]:
    properties = dict(chosen.catalog)
    if chosen.warehouse is not None:
        properties["warehouse"] = chosen.warehouse
    return properties


def _tables(catalog: Catalog, names: list[str]) -> Iterator[Identifier]:
    from kavka.lake.catalogs import parse_identifier
    from kavka.lake.errors import LakeError, lake_errors

    for name in names:
        if not name.endswith(".*"):
            yield parse_identifier(name)
            continue
        with lake_errors():
            found = sorted(catalog.list_tables(tuple(name.removesuffix(".*").split("."))))
        if not found:
            raise LakeError(f"There is no table in {name.removesuffix('.*')}.")
        yield from found


def _opened(chosen: argparse.Namespace) -> tuple[Catalog, list[Identifier]]:
    from kavka.lake.catalogs import open_catalog

    catalog = open_catalog(_catalog_properties(chosen))
    return catalog, list(_tables(catalog, chosen.table))


def _client(chosen: argparse.Namespace) -> dict[str, str]:
    return {**read_properties(chosen.command_config), "bootstrap.servers": chosen.bootstrap_server}


# Status


def _status(chosen: argparse.Namespace) -> int:
    catalog, tables = _opened(chosen)
    for identifier in tables:
        print("\n".join(_described(catalog, identifier)))
    return 0


def _described(catalog: Catalog, identifier: Identifier) -> Iterator[str]:
    from kavka.lake.errors import lake_errors
    from kavka.lake.offset_ranges import ends_to_json
    from kavka.lake.sink_state import sinks_of
    from kavka.lake.tables import display, load_table

    table = load_table(catalog, identifier)
    with lake_errors():
        files = [task.file for task in table.scan().plan_files()]
    rows = sum(file.record_count for file in files)
    size = sum(file.file_size_in_bytes for file in files)
    partitioning = ", ".join(
        f"{one.transform}({table.schema().find_column_name(one.source_id)})"
        for one in table.spec().fields
    )
    yield f"Table: {display(identifier)}"
    yield f"\tLocation: {table.location()}"
    yield f"\tMetadata: {table.metadata_location}"
    yield f"\tPartitioned by: {partitioning or 'nothing'}"
    yield f"\tRows: {rows}"
    mean = f", {size / len(files) / 1e6:.3f} MB each" if files else ""
    yield f"\tFiles: {len(files)}, {size / 1e6:.3f} MB{mean}"
    yield f"\tSnapshots: {len(table.snapshots())}"
    for sink, state in sinks_of(table.properties).items():
        yield f"\tSink {sink}: {state.batch}"
        yield f"\t\tstartingOffsets: {json.dumps(ends_to_json(state.ends))}"


# Maintenance


def _maintain(chosen: argparse.Namespace) -> int:
    while True:
        catalog, tables = _opened(chosen)
        for identifier in tables:
            for line in _maintained(catalog, identifier, chosen):
                print(line, flush=True)
        if chosen.every is None:
            return 0
        time.sleep(chosen.every / 1000)


def _maintained(
    catalog: Catalog, identifier: Identifier, chosen: argparse.Namespace
) -> Iterator[str]:
    from kavka.lake.compaction import compact
    from kavka.lake.expiry import expire
    from kavka.lake.orphans import remove_orphans
    from kavka.lake.tables import display

    name, dry = display(identifier), chosen.dry_run
    would = "would be " if dry else ""
    steps = chosen.only or ("compact", "expire", "orphans")
    now_ms = current_time_ms()
    if "compact" in steps:
        done = compact(catalog, identifier, chosen.min_files, dry)
        text = f"{name}: {done.files_before} small files, {done.bytes_before / 1e6:.3f} MB, {would}compacted"
        if not dry and done.files_before:
            text += f" into {done.files_after}, {done.bytes_after / 1e6:.3f} MB"
        yield text + (f"; {done.given_up} groups left to another writer" * bool(done.given_up))
    if "expire" in steps:
        before_ms = now_ms - chosen.snapshots_older_than
        gone = expire(catalog, identifier, before_ms, chosen.keep_snapshots, dry)
        yield f"{name}: {gone.snapshots} snapshots {would}expired, {gone.files} files {would}removed"
    if "orphans" in steps:
        before_ms = now_ms - chosen.orphans_older_than
        orphans = remove_orphans(catalog, identifier, before_ms, dry)
        yield (
            f"{name}: {orphans.files} orphans, {orphans.size / 1e6:.3f} MB, {would}removed; {orphans.younger} files "
            "that no snapshot needs may still be committed"
        )


# Audit


def _audit(chosen: argparse.Namespace) -> int:
    from kavka.lake.audit import audit
    from kavka.lake.tables import load_table

    catalog, tables = _opened(chosen)
    code = 0
    for identifier in tables:
        found = asyncio.run(
            audit(
                load_table(catalog, identifier),
                _client(chosen),
                from_ms=chosen.from_ms,
                to_ms=chosen.to_ms,
                event_column=chosen.event_column,
                late_after_ms=chosen.late_after,
            )
        )
        sys.stdout.write(
            _as_json(identifier, found) if chosen.json else _as_text(identifier, found)
        )
        code = code if found.is_exact else 1
    return code


def _as_text(identifier: Identifier, found: Audit) -> str:
    from kavka.lake.tables import display

    rows = [_row(_hour(one.hour_ms), one) for _, one in sorted(found.hours.items())]
    rows.append(_row("all", found.total))
    lines = [f"{display(identifier)}: {'exact' if found.is_exact else 'NOT exact'}"]
    lines += tab_table(_HEADERS, rows).splitlines()
    for what in ("missing", "doubled"):
        for topic_partition, first, last in getattr(found, f"{what}_ranges"):
            lines.append(f"{what}: {topic_partition} offsets {first} to {last}")
    if found.only_in_table:
        lines.append(f"rows whose records the topic does not have any more: {found.only_in_table}")
    for topic_partition, count in sorted(found.behind.items()):
        lines.append(f"not loaded yet: {topic_partition} {count} offsets")
    return "\n".join(lines) + "\n"


def _row(name: str, one: HourCount) -> tuple[object, ...]:
    return name, one.topic, one.table, one.missing, one.doubled, one.late


def _hour(hour_ms: int) -> str:
    return f"{datetime.fromtimestamp(hour_ms / 1000, UTC):%Y-%m-%dT%H:%MZ}"


def _as_json(identifier: Identifier, found: Audit) -> str:
    from kavka.lake.tables import display

    def counts(one: HourCount) -> dict[str, int]:
        return {name.lower(): getattr(one, name.lower()) for name in _HEADERS[1:]}

    value = {
        "table": display(identifier),
        "exact": found.is_exact,
        "hours": {_hour(ms): counts(one) for ms, one in sorted(found.hours.items())},
        "total": counts(found.total),
        "missing": [
            [str(topic_partition), first, last]
            for topic_partition, first, last in found.missing_ranges
        ],
        "doubled": [
            [str(topic_partition), first, last]
            for topic_partition, first, last in found.doubled_ranges
        ],
        "only_in_table": found.only_in_table,
        "not_loaded": {
            str(topic_partition): count for topic_partition, count in sorted(found.behind.items())
        },
    }
    return json.dumps(value) + "\n"


# Reload


def _reload(chosen: argparse.Namespace) -> int:
    from kavka.lake.errors import LakeError
    from kavka.spark.iceberg.reload import plan_reload, run_reload
    from kavka.spark.session import SparkMissing, local_session

    if len(chosen.table) != 1 or chosen.table[0].endswith("*"):
        raise LakeError("Reload takes one table.")
    transform = None if chosen.transform is None else _function(chosen.transform)
    name, catalog, client = chosen.table[0], _catalog_properties(chosen), _client(chosen)
    plan = plan_reload(name, catalog, client, chosen.from_ms, chosen.to_ms)
    if not plan.ranges:
        print(f"{name}: the topics have nothing of that time that was loaded; nothing to reload.")
        return 0
    print(f"{name}: replaceOffsets {plan.replace_offsets}, {plan.rows} offsets", flush=True)
    if chosen.dry_run:
        return 0
    with tempfile.TemporaryDirectory(prefix="kavka-reload-") as directory:
        try:
            session = local_session("kavka lake reload", Path(directory), chosen.master, {}, "off")
        except SparkMissing as error:
            raise LakeError(str(error)) from None
        try:
            run_reload(session, plan, name, catalog, client, transform)
        except Exception as error:  # noqa: BLE001  Spark wraps everything; its sentence is what the user needs
            return _failed(error)
        finally:
            session.stop()
    print(f"{name}: replaced.")
    return 0


def _failed(error: Exception) -> int:
    from kavka.spark.errors import sentence_of

    text = sentence_of(error) or str(error).strip().partition("\n")[0]
    print(f"kavka lake: nothing was replaced. {text}", file=sys.stderr)
    return 1


def _function(text: str) -> Any:
    from kavka.lake.errors import LakeError

    path, _, name = text.rpartition(":")
    if not path:
        raise LakeError(f"--transform is FILE.py:FUNCTION, and not {text!r}.")
    found = runpy.run_path(path).get(name)
    if not callable(found):
        raise LakeError(f"There is no function {name} in {path}.")
    return found


_ACTIONS = {"status": _status, "maintain": _maintain, "audit": _audit, "reload": _reload}
