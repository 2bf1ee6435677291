"""`kavka pipelines alerts`: the open incidents of a topic of alerts, or their delivery to a webhook."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import sys
from contextlib import aclosing
from pathlib import Path
from typing import Any

from kavka.cli.arguments.client_properties import read_properties
from kavka.cli.json_lines.lines import Row, print_rows
from kavka.cli.json_lines.pipeline_shapes import INCIDENT
from kavka.cli.json_rows.pipelines import incident_row
from kavka.cli.text.tab_table import tab_table
from kavka.errors import KafkaError
from kavka.pipelines.project import PipelineError
from kavka.sql.output import printable_lines

_TITLES = ("SINCE", "SEVERITY", "ALERT", "HOST", "SOURCE", "LABELS", "VALUE", "INCIDENT")
_FOR_WEBHOOK = "with --webhook: "


def add_alerts(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add = parser.add_argument
    add("--topic", required=True, metavar="TOPIC", help="the topic of alerts of a pipeline")
    add("--bootstrap-server", required=True, metavar="BROKERS")
    add("--command-config", metavar="FILE", help="settings of the clients")
    add(
        "--webhook",
        metavar="URL",
        help="POST each alert to this URL until SIGTERM, at least once and in order; without it open incidents are "
        "printed",
    )
    add(
        "--header", action="append", default=[], metavar="'NAME: VALUE'",
        help=f"{_FOR_WEBHOOK}a header of each request; may be repeated",
    )  # fmt: skip
    add(
        "--header-file", type=Path, metavar="FILE",
        help=f"{_FOR_WEBHOOK}such headers, one a line, for those that are secrets",
    )  # fmt: skip
    add(
        "--group", metavar="GROUP",
        help=f"{_FOR_WEBHOOK}the consumer group whose offsets say what was delivered (default TOPIC-webhook)",
    )  # fmt: skip
    add(
        "--timeout", type=_seconds, default=10.0, metavar="SECONDS",
        help=f"{_FOR_WEBHOOK}for one attempt (default 10)",
    )  # fmt: skip
    add(
        "--retry-for", type=_seconds, default=900.0, metavar="SECONDS",
        help=f"{_FOR_WEBHOOK}how long an alert is tried to which the endpoint answers with an error, before it is "
        "a dead letter (default 900); an endpoint that cannot be reached is tried without end",
    )  # fmt: skip
    add(
        "--dead-letter-topic", metavar="TOPIC",
        help=f"{_FOR_WEBHOOK}alerts that were refused (default TOPIC-dead-letters)",
    )  # fmt: skip
    add(
        "--once", action="store_true", help=f"{_FOR_WEBHOOK}end when all that is there is delivered"
    )


def alerts(given: argparse.Namespace) -> int:
    """Print open incidents, or deliver alerts."""
    settings: dict[str, Any] = dict(read_properties(given.command_config))
    settings["bootstrap.servers"] = given.bootstrap_server
    if given.webhook is None:
        incidents = asyncio.run(_open_incidents(settings, given.topic))
        _print(incidents, as_json=given.json)
        return 0
    return _deliver(given, settings)


# Open incidents


async def _open_incidents(settings: dict[str, Any], topic: str) -> list[dict[str, Any]]:
    """Return the last events of incidents that are firing, the oldest first."""
    from kavka.pipelines.testing.topics import read_records

    firing: dict[str, dict[str, Any]] = {}
    resolved: set[str] = set()
    """Dead letters come again behind the end of their incident."""
    try:
        async with aclosing(read_records(settings, topic)) as records:
            async for record in records:
                event = _event(record.value)
                if event is None:
                    continue
                incident = str(event["incident"])
                if event["event"] == "firing" and incident not in resolved:
                    firing[incident] = event
                elif event["event"] == "resolved":
                    resolved.add(incident)
                    firing.pop(incident, None)
    except KafkaError as error:
        raise PipelineError(f"no alerts in the topic {topic}: {error}") from error
    return sorted(firing.values(), key=lambda event: str(event["since"]))


def _event(value: Any) -> dict[str, Any] | None:
    """Return a record's event, None for one that is of something else."""
    try:
        found = json.loads(value)
    except (TypeError, ValueError, RecursionError):
        return None
    is_event = isinstance(found, dict) and {"event", "incident", "since", "alert"} <= found.keys()
    return found if is_event else None


def _print(incidents: list[dict[str, Any]], *, as_json: bool) -> None:
    rows = list(map(incident_row, incidents))
    if as_json:
        print_rows(INCIDENT, rows)
    elif not rows:
        print("no open incidents")
    else:
        print(printable_lines(tab_table(_TITLES, map(_row, rows))), end="")


def _row(event: Row) -> tuple[str, ...]:
    labels = ",".join(f"{name}={value}" for name, value in event["labels"].items())
    value = event["value"]
    return (
        event["since"],
        event["severity"],
        event["alert"],
        event["host"],
        event["source"],
        labels or "-",
        "-" if value is None else f"{value:.6g}",
        event["incident"],
    )


# Delivery


def _deliver(given: argparse.Namespace, settings: dict[str, Any]) -> int:
    from kavka.collect.shutdown import ShutdownTimeout, run_until_signal
    from kavka.net.webhook import Endpoint, InvalidWebhook, read_headers
    from kavka.pipelines.operations.delivery import AlertDelivery, DeliveryOptions

    lines = list(given.header)
    if given.header_file is not None:
        text = given.header_file.read_text(encoding="utf-8")
        lines += [line for line in text.splitlines() if line.strip()]
    options = DeliveryOptions(
        given.topic,
        given.group or f"{given.topic}-webhook",
        given.dead_letter_topic or f"{given.topic}-dead-letters",
        given.retry_for,
        is_once=given.once,
    )
    try:
        endpoint = Endpoint(given.webhook, read_headers(lines), given.timeout)
    except InvalidWebhook as error:
        raise PipelineError(str(error)) from error
    delivery = AlertDelivery(settings, options, endpoint)
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.WARNING)
    try:
        asyncio.run(run_until_signal(delivery.run))
    except ShutdownTimeout:
        print("kavka pipelines: the brokers did not answer in time at the end", file=sys.stderr)
        return 1
    finally:
        print(f"alerts {delivery.counts.line()}", file=sys.stderr)
    return 0


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds <= 86_400 * 7:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds above 0")
    return seconds
