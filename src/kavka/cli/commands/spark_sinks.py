"""`kavka spark-sinks`: list, describe and remove the exactly-once sinks that Spark queries have left in a cluster."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kavka.cli.admin.connection import FAILURES, client_settings, with_admin
from kavka.cli.arguments.options import Given
from kavka.cli.arguments.tool_parser import ToolParser
from kavka.cli.json_lines import shapes
from kavka.cli.json_lines.lines import (
    Row,
    print_error,
    print_failure,
    print_outcomes,
    print_rows,
)
from kavka.cli.text.java_errors import spelt_together
from kavka.cli.text.tab_table import tab_table
from kavka.cli.text.times import current_time_ms
from kavka.client.admin.admin import Admin

if TYPE_CHECKING:
    from kavka.spark.exactly_once.sinks import Sinks, SinkState

_PURPOSE = (
    "See the exactly-once sinks of Spark queries, each known by its topic <sinkId>-decisions, and remove those whose "
    "query is gone."
)
_LIST = ("SinkId", "Idle", "LastBatch", "OpenTransactions", "Removable")
_MIN_IDLE_HOURS = 168
"""A week: brokers forget transactional ids after as long (`transactional.id.expiration.ms`)."""
_HOUR_MS = 3_600_000


def main(argv: list[str]) -> int:
    """Run the command; 1 when it is not understood, or something is refused."""
    try:
        chosen = _parser().parse_args(argv)
    except SystemExit as error:
        return 0 if error.code == 0 else 1
    misuse = _misuse(chosen)
    if misuse is not None and chosen.json:
        return print_failure("BAD_USAGE", misuse)
    if misuse is not None:
        print(misuse, file=sys.stderr)
        return 1
    options = {"bootstrap-server": [chosen.bootstrap_server]}
    if chosen.command_config is not None:
        options["command-config"] = [chosen.command_config]
    if chosen.json:
        options["json"] = []
    given = Given(options)

    async def act(admin: Admin) -> int:
        from kavka.spark.errors import ConnectorError
        from kavka.spark.exactly_once.sinks import Sinks

        sinks = Sinks(admin, client_settings(given))
        try:
            return await _act(sinks, chosen)
        except ConnectorError as error:
            if chosen.json:
                return print_error(error)
            print(error, file=sys.stderr)
            return 1

    return with_admin(given, act, _failed)


def _failed(error: Exception) -> int:
    print(spelt_together(error), file=sys.stderr)
    return 1


def _parser() -> ToolParser:
    parser = ToolParser("kavka spark-sinks", description=_PURPOSE, allow_abbrev=False)
    parser.add_argument("--bootstrap-server", required=True, help="Where the cluster is.")
    parser.add_argument("--command-config", help="A properties file with settings of the client.")
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--list", action="store_true", help="Print a line for each sink.")
    action.add_argument(
        "--describe",
        action="store_true",
        help="Print what is known of the sinks that are named, or of all.",
    )
    action.add_argument(
        "--delete",
        action="store_true",
        help="Remove the sinks that are named. Only says what it would do without --execute.",
    )
    parser.add_argument(
        "--sink-id",
        action="append",
        default=[],
        help="A sink, by the sinkId of its query; may be given several times.",
    )
    parser.add_argument("--execute", action="store_true", help="Carry --delete out.")
    parser.add_argument(
        "--dry-run", action="store_true", help="Say what --delete would do; this is the default."
    )
    parser.add_argument(
        "--idle-hours",
        type=_hours,
        default=_MIN_IDLE_HOURS,
        help=f"How long a query must have written nothing to be taken for gone ({_MIN_IDLE_HOURS}).",
    )
    parser.add_argument(
        "--force",
        action="store_true",
        help="Remove a sink even if its query may be live or has open transactions: the query is fenced, what it has "
        "decided is committed, the rest aborted.",
    )
    parser.add_json()
    return parser


def _hours(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of hours")
    return int(text)


def _misuse(chosen: argparse.Namespace) -> str | None:
    if chosen.delete and not chosen.sink_id:
        return "Option --delete takes the option: --sink-id"
    if chosen.list and chosen.sink_id:
        return "Option --list does not take the option: --sink-id"
    if not chosen.delete and (chosen.execute or chosen.dry_run or chosen.force):
        return "Options --execute, --dry-run and --force are taken with --delete only"
    if chosen.execute and chosen.dry_run:
        return "Only one of --execute and --dry-run can be given"
    return None


async def _act(sinks: Sinks, chosen: argparse.Namespace) -> int:
    min_idle_ms = chosen.idle_hours * _HOUR_MS
    if chosen.delete:
        return await _delete(sinks, chosen, min_idle_ms)
    wanted = dict.fromkeys(chosen.sink_id)
    states = [await sinks.one(sink) for sink in wanted] if wanted else await sinks.all()
    now_ms = current_time_ms()
    if chosen.json:
        print_rows(shapes.SINK, (_object(state, now_ms, min_idle_ms) for state in states))
        return 0
    if chosen.list:
        rows = [_row(state, now_ms, min_idle_ms) for state in states]
        sys.stdout.write(tab_table(_LIST, rows))
        return 0
    for state in states:
        print("\n".join(described(state, now_ms, min_idle_ms)))
    return 0


# Printing


def _row(state: SinkState, now_ms: int, min_idle_ms: int) -> tuple[object, ...]:
    return (
        state.sink,
        _duration(state.idle_ms(now_ms)),
        "-" if state.decision is None else state.decision.batch.number,
        len(state.transactions),
        "no" if state.objections(now_ms, min_idle_ms) else "yes",
    )


def _object(state: SinkState, now_ms: int, min_idle_ms: int) -> Row:
    return {
        "sink_id": state.sink,
        "written_ms": state.written_ms,
        "last_batch": None if state.decision is None else state.decision.batch.number,
        "open_transactions": {name: str(at) for name, at in state.transactions.items()},
        "objections": list(state.objections(now_ms, min_idle_ms)),
    }


def described(state: SinkState, now_ms: int, min_idle_ms: int) -> list[str]:
    """Return the lines that describe a sink."""
    decision = state.decision
    written = "never"
    if state.written_ms is not None:
        moment = datetime.fromtimestamp(state.written_ms / 1000, UTC)
        written = f"{moment:%Y-%m-%dT%H:%M:%SZ} ({_duration(state.idle_ms(now_ms))} ago)"
    lines = [
        f"SinkId: {state.sink}",
        f"\tLast written: {written}",
        f"\tLast batch: {'none' if decision is None else decision.batch}",
        f"\tOpen transactions: {len(state.transactions)}",
    ]
    lines += [f"\t\t{name}\t{at}" for name, at in state.transactions.items()]
    objections = state.objections(now_ms, min_idle_ms)
    lines.append(f"\tRemovable: {'no' if objections else 'yes'}")
    return lines + [f"\t\t{sentence}" for sentence in objections]


def _duration(ms: int | None) -> str:
    """Return a duration in its two largest units."""
    if ms is None:
        return "-"
    minutes, seconds = divmod(ms // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days}d {hours}h"
    return f"{hours}h {minutes}m" if hours else f"{minutes}m {seconds}s"


# Removing


async def _delete(sinks: Sinks, chosen: argparse.Namespace, min_idle_ms: int) -> int:
    rows: list[Row] = []
    for sink in dict.fromkeys(chosen.sink_id):
        state = await sinks.one(sink)
        objections = state.objections(current_time_ms(), min_idle_ms)
        refusal = None
        if objections and not chosen.force:
            refusal = f"The sink {sink} is not removed without --force. {' '.join(objections)}"
        elif chosen.execute:
            refusal = await _refusal(sinks, state)
        if not chosen.json:
            _say(sink, [] if refusal else objections, refusal, executed=chosen.execute)
        error = None if refusal is None else {"code": "FAILED", "message": refusal}
        removed = chosen.execute and refusal is None
        rows.append({"sink_id": sink, "removed": removed, "error": error})
    if chosen.json:
        return print_outcomes(shapes.REMOVED_SINK, rows)
    return 1 if any(row["error"] for row in rows) else 0


def _say(sink: str, objections: Sequence[str], refusal: str | None, *, executed: bool) -> None:
    for sentence in objections:
        print(f"{sink}: {sentence}", file=sys.stderr)
    if refusal is not None:
        print(refusal, file=sys.stderr)
    elif executed:
        print(f"The sink {sink} was removed.")
    else:
        print(f"The sink {sink} would be removed; give --execute to remove it.")


async def _refusal(sinks: Sinks, state: SinkState) -> str | None:
    """Remove a sink, and return why that failed, if so."""
    from kavka.spark.errors import ConnectorError

    try:
        await sinks.remove(state)
    except (ConnectorError, *FAILURES) as error:
        reason = error if isinstance(error, ConnectorError) else spelt_together(error)
        return f"The sink {state.sink} was not removed. {reason}"
    return None
