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
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kavka.cli.arguments.client_properties import read_properties
from kavka.cli.arguments.options import BadValue
from kavka.cli.arguments.tool_parser import ToolParser
from kavka.cli.json_lines.lines import (
    logged_as_warnings,
    print_error,
    print_failure,
    print_rows,
)
from kavka.cli.json_lines.pipeline_shapes import AUDIT, LAKE_TABLE, MAINTAINED, RELOADED
from kavka.cli.text.tab_table import tab_table
from kavka.cli.text.times import current_time_ms, moment_ms
from kavka.errors import KafkaError
from kavka.settings.durations import duration_ms

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

    from kavka.lake.audit import Audit, HourCount
    from kavka.lake.catalogs import Identifier
    from kavka.lake.compaction import Compacted
    from kavka.lake.table_facts import TableFacts
    from kavka.spark.iceberg.reload import Reload

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
        with logged_as_warnings() if chosen.json else nullcontext():
            return act(chosen)
    except (LakeError, BadValue, KafkaError, OSError, ValueError) as error:
        if chosen.json:
            return print_error(error)
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
    parser.add_json(*made.values())
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
    if not properties:
        raise BadValue(
            "no catalogue is named: --warehouse DIR for the embedded one of a folder, --catalog type=... and "
            "--catalog uri=... for one that runs, or --catalog name=... for one of pyiceberg's configuration"
        )
    return properties


def _tables(catalog: Catalog, names: list[str]) -> Iterator[Identifier]:
    from pyiceberg.exceptions import NoSuchNamespaceError

    from kavka.lake.catalogs import parse_identifier
    from kavka.lake.errors import LakeError, lake_errors

    for name in names:
        if not name.endswith(".*"):
            yield parse_identifier(name)
            continue
        namespace = name.removesuffix(".*")
        with lake_errors():
            try:
                found = sorted(catalog.list_tables(tuple(namespace.split("."))))
            except NoSuchNamespaceError:
                raise LakeError(f"There is no namespace {namespace} in the catalogue.") from None
        if not found:
            raise LakeError(f"There is no table in {namespace}.")
        yield from found


def _opened(chosen: argparse.Namespace) -> tuple[Catalog, list[Identifier]]:
    from kavka.lake.catalogs import open_catalog

    catalog = open_catalog(_catalog_properties(chosen), makes=False)
    return catalog, list(_tables(catalog, chosen.table))


def _client(chosen: argparse.Namespace) -> dict[str, str]:
    return {**read_properties(chosen.command_config), "bootstrap.servers": chosen.bootstrap_server}


# Status


def _status(chosen: argparse.Namespace) -> int:
    from kavka.cli.json_rows.lake import table_row
    from kavka.lake.table_facts import facts_of
    from kavka.lake.tables import display, load_table

    catalog, tables = _opened(chosen)
    for identifier in tables:
        name, facts = display(identifier), facts_of(load_table(catalog, identifier))
        if chosen.json:
            print_rows(LAKE_TABLE, [table_row(name, facts)])
        else:
            print("\n".join(_described(name, facts)))
    return 0


def _described(name: str, facts: TableFacts) -> Iterator[str]:
    from kavka.lake.offset_ranges import ends_to_json

    yield f"Table: {name}"
    yield f"\tLocation: {facts.location}"
    yield f"\tMetadata: {facts.metadata_location}"
    yield f"\tPartitioned by: {', '.join(facts.partitioned_by) or 'nothing'}"
    yield f"\tRows: {facts.rows}"
    mean = f", {facts.mean_size / 1e6:.3f} MB each" if facts.files else ""
    yield f"\tFiles: {facts.files}, {facts.size / 1e6:.3f} MB{mean}"
    yield f"\tSnapshots: {facts.snapshots}"
    for sink, state in facts.sinks.items():
        yield f"\tSink {sink}: {state.batch}"
        yield f"\t\tstartingOffsets: {json.dumps(ends_to_json(state.ends))}"


# Maintenance


def _maintain(chosen: argparse.Namespace) -> int:
    while True:
        catalog, tables = _opened(chosen)
        for identifier in tables:
            _maintain_table(catalog, identifier, chosen)
        if chosen.every is None:
            return 0
        time.sleep(chosen.every / 1000)


def _maintain_table(catalog: Catalog, identifier: Identifier, chosen: argparse.Namespace) -> None:
    """Do the steps that are chosen, and print each when it is done; as JSON all in one object."""
    from kavka.cli.json_rows.lake import maintained_row
    from kavka.lake.compaction import compact
    from kavka.lake.expiry import expire
    from kavka.lake.orphans import remove_orphans
    from kavka.lake.tables import display

    name, dry = display(identifier), chosen.dry_run
    steps = chosen.only or ("compact", "expire", "orphans")
    compacted = expired = orphans = None
    now_ms = current_time_ms()

    def say(text: str) -> None:
        if not chosen.json:
            print(f"{name}: {text}", flush=True)

    if "compact" in steps:
        compacted = compact(catalog, identifier, chosen.min_files, dry)
        say(_compacted_text(compacted, dry))
    if "expire" in steps:
        before_ms = now_ms - chosen.snapshots_older_than
        expired = expire(catalog, identifier, before_ms, chosen.keep_snapshots, dry)
        would = _would(dry)
        say(f"{expired.snapshots} snapshots {would}expired, {expired.files} files {would}removed")
    if "orphans" in steps:
        before_ms = now_ms - chosen.orphans_older_than
        orphans = remove_orphans(catalog, identifier, before_ms, dry)
        say(
            f"{orphans.files} orphans, {orphans.size / 1e6:.3f} MB, {_would(dry)}removed; {orphans.younger} files "
            "that no snapshot needs may still be committed"
        )
    if chosen.json:
        print_rows(MAINTAINED, [maintained_row(name, compacted, expired, orphans, dry_run=dry)])


def _would(dry: bool) -> str:
    return "would be " if dry else ""


def _compacted_text(done: Compacted, dry: bool) -> str:
    text = (
        f"{done.files_before} small files, {done.bytes_before / 1e6:.3f} MB, {_would(dry)}compacted"
    )
    if not dry and done.files_before:
        text += f" into {done.files_after}, {done.bytes_after / 1e6:.3f} MB"
    return text + (f"; {done.given_up} groups left to another writer" * bool(done.given_up))


# Audit


def _audit(chosen: argparse.Namespace) -> int:
    from kavka.cli.json_rows.lake import audit_row
    from kavka.lake.audit import audit
    from kavka.lake.tables import display, load_table

    catalog, tables = _opened(chosen)
    differing = []
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
        name = display(identifier)
        if chosen.json:
            print_rows(AUDIT, [audit_row(name, found)])
        else:
            sys.stdout.write(_as_text(name, found))
        if not found.is_exact:
            differing.append(name)
    if not differing:
        return 0
    if chosen.json:
        return print_failure("FAILED", f"records are missing or doubled in {', '.join(differing)}")
    return 1


def _as_text(name: str, found: Audit) -> str:
    from kavka.cli.json_rows.lake import hour_text

    rows = [_row(hour_text(one.hour_ms), one) for _, one in sorted(found.hours.items())]
    rows.append(_row("all", found.total))
    lines = [f"{name}: {'exact' if found.is_exact else 'NOT exact'}"]
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


# Reload


def _reload(chosen: argparse.Namespace) -> int:
    from kavka.cli.json_rows.lake import reloaded_row
    from kavka.lake.errors import LakeError
    from kavka.spark.iceberg.reload import plan_reload

    if len(chosen.table) != 1 or chosen.table[0].endswith("*"):
        raise LakeError("Reload takes one table.")
    transform = None if chosen.transform is None else _function(chosen.transform)
    name = chosen.table[0]
    plan = plan_reload(
        name, _catalog_properties(chosen), _client(chosen), chosen.from_ms, chosen.to_ms
    )
    if not plan.ranges and not chosen.json:
        print(f"{name}: the topics have nothing of that time that was loaded; nothing to reload.")
    if plan.ranges and not chosen.json:
        print(f"{name}: replaceOffsets {plan.replace_offsets}, {plan.rows} offsets", flush=True)
    replaces = bool(plan.ranges) and not chosen.dry_run
    if replaces:
        _replace(chosen, name, plan, transform)
    if chosen.json:
        print_rows(RELOADED, [reloaded_row(name, plan, replaced=replaces)])
    elif replaces:
        print(f"{name}: replaced.")
    return 0


def _replace(chosen: argparse.Namespace, name: str, plan: Reload, transform: Any) -> None:
    """Reload a planned range on Spark. Raise LakeError."""
    from kavka.lake.errors import LakeError
    from kavka.spark.errors import sentence_of
    from kavka.spark.iceberg.reload import run_reload
    from kavka.spark.session import SparkMissing, local_session

    with tempfile.TemporaryDirectory(prefix="kavka-reload-") as directory:
        try:
            session = local_session("kavka lake reload", Path(directory), chosen.master, {}, "off")
        except SparkMissing as error:
            raise LakeError(str(error)) from None
        try:
            run_reload(session, plan, name, _catalog_properties(chosen), _client(chosen), transform)
        except Exception as error:
            # Spark wraps everything; its sentence is what the user needs.
            text = sentence_of(error) or str(error).strip().partition("\n")[0]
            raise LakeError(f"nothing was replaced. {text}") from error
        finally:
            session.stop()


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
