"""Objects of `kavka pipelines`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from kavka.cli.json_lines.lines import Row
from kavka.cli.json_lines.pipeline_shapes import FLOW, INCIDENT

if TYPE_CHECKING:
    from kavka.pipelines.definitions import Finding
    from kavka.pipelines.redrive import Outcome, Redriven, Selection
    from kavka.pipelines.reset import Reset
    from kavka.spark.queries.flow_progress import FlowProgress

LOST = "lost"


def finding_row(finding: Finding) -> Row:
    """Return a finding of a check."""
    return {
        "file": finding.at.file,
        "line": finding.at.line or None,
        "severity": "error" if finding.is_error else "warning",
        "message": finding.text,
    }


def flow_row(flow: FlowProgress, *, is_lost: bool = False) -> Row:
    """Return the progress of a flow."""
    fields = asdict(flow)
    if is_lost:
        fields["state"] = LOST
    return {name: fields[name] for name in FLOW.fields}


def reset_row(found: Reset) -> Row:
    """Return what a reset has done, or would do."""
    return {
        "name": found.name,
        "kind": found.kind,
        "executed": found.executed,
        "checkpoint": found.checkpoint,
        "readers": list(found.readers),
    }


def letter_row(one: Redriven) -> Row:
    """Return a dead letter that would be sent."""
    return {
        "kind": "letter",
        "topic": one.at.topic,
        "partition": one.at.partition,
        "offset": one.offset,
        "timestamp_ms": one.timestamp_ms,
        "to_topic": one.target,
        "from_topic": one.letter.topic,
        "from_partition": one.letter.partition,
        "from_offset": one.letter.offset,
        "reason": one.letter.reason,
    }


def redriven_row(selection: Selection, outcome: Outcome, *, dry_run: bool) -> Row:
    """Return the counts of a redrive."""
    return {
        "kind": "total",
        "topic": selection.topic,
        "group": selection.group,
        "dry_run": dry_run,
        "sent": dict(sorted(outcome.sent.items())),
        "left": outcome.left,
        "unknown": outcome.unknown,
    }


def incident_row(event: Mapping[str, Any]) -> Row:
    """Return an open incident; what another program wrote into the topic in another form is a text, or null."""
    row: dict[str, Any] = {}
    for name, field in INCIDENT.fields.items():
        value = event.get(name)
        if field.type == "number?":
            is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
            row[name] = value if is_number else None
        elif field.type == "{string}":
            found = value if isinstance(value, dict) else {}
            row[name] = {str(label): str(text) for label, text in found.items()}
        elif value is None:
            row[name] = None if field.type.endswith("?") else ""
        else:
            row[name] = str(value)
    return row
