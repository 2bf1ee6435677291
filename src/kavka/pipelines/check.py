"""`kavka pipelines check`: Spark's dry run, then what Spark does not look at: brokers, topics, offsets, sinks.

Each finding is a sentence with a file and a line. An error would end a run; a warning is what may surprise later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path

from kavka.pipelines.broker_checks import BrokerChecks
from kavka.pipelines.checkpoints import Checkpoints
from kavka.pipelines.definitions import (
    BadDefinition,
    Definitions,
    Finding,
    Location,
    with_class,
)
from kavka.pipelines.errors import query_failure
from kavka.pipelines.project import DEFAULTS_NAME, Project
from kavka.pipelines.run import Refresh, register, update
from kavka.pipelines.session import (
    Session,
    SparkOptions,
    open_session,
    static_settings,
    storage_failure,
)
from kavka.spark.errors import ConnectorError
from kavka.spark.options import parse_source
from kavka.spark.queries.flow_progress import unqualified
from kavka.spark.sink_options import parse_sink


def check_project(project: Project, spark_options: SparkOptions) -> list[Finding]:
    """Return the findings, in the order of files and lines. Raise SparkMissing, and as `open_session`."""
    definitions = Definitions()
    findings = storage_findings(project)
    if findings:
        return findings
    with open_session(project, spark_options) as session:
        findings += static_findings(project, static_settings(session))
        findings += _spark_findings(session, project, definitions)
    findings += option_findings(definitions)
    if not any(finding.is_error for finding in findings):
        checks = BrokerChecks(definitions, Checkpoints(project.storage_path))
        findings += asyncio.run(checks.run())
    return sorted(set(findings), key=lambda finding: (finding.at.file, finding.at.line))


def storage_findings(project: Project) -> list[Finding]:
    """Return what is wrong with the storage of checkpoints."""
    at = Location(project.spec_path.name)
    path = project.storage_path
    if path is None:
        return []
    if "://" not in project.storage and not project.storage.startswith("file:"):
        text = f"storage is {project.storage!r}, and Spark wants a URI: write {Path(path).absolute().as_uri()}"
        return [Finding(at, text)]
    reason = storage_failure(path)
    return [Finding(at, reason)] if reason else []


def static_findings(project: Project, static: Iterable[str]) -> list[Finding]:
    """Return the settings of the specification with which every flow would fail."""
    lines = project.spec_path.read_text(encoding="utf-8").splitlines()
    findings = []
    for name in sorted(set(static) & set(project.configuration)):
        line = next((number for number, text in enumerate(lines, 1) if name in text), 0)
        text = f"{name} is fixed when the driver starts: move it from `configuration` to {DEFAULTS_NAME}"
        findings.append(Finding(Location(project.spec_path.name, line), text))
    return findings


def _spark_findings(session: Session, project: Project, definitions: Definitions) -> list[Finding]:
    """Load the project and let Spark resolve its graph."""
    failed: list[str] = []
    try:
        graph_id = register(session, project, definitions)
        for message in update(session, project, graph_id, Refresh(), dry=True):
            if message.startswith("Failed to resolve flow:"):
                failed.append(message)
    except Exception as error:  # noqa: BLE001 - any exception of a file of the project is a finding
        return _failure_findings(error, failed, project, definitions)
    return []


def _failure_findings(
    error: Exception, failed: Iterable[str], project: Project, definitions: Definitions
) -> list[Finding]:
    """Return findings for what a file or Spark raised, at the flows that Spark names, or where it was raised."""
    if isinstance(error, BadDefinition):
        return [Finding(error.at, error.reason)]
    text = query_failure(str(error))
    findings = []
    for message in failed:
        flow = definitions.flow(message.partition("'")[2].rstrip(".'"))
        if flow is not None:
            findings.append(
                Finding(flow.at, f"Spark cannot resolve the flow {unqualified(flow.name)}: {text}")
            )
    if findings:
        return findings
    return [Finding(Location(project.spec_path.name), with_class(error, text))]


# Options


def option_findings(definitions: Definitions) -> list[Finding]:
    """Return wrong options of sources and sinks, and sinks that do not go together."""
    findings = []
    for flow in definitions.flows:
        for read in flow.reads:
            if read.format == "kavka":
                text = _refusal(read.options, is_sink=False, is_streaming=read.is_streaming)
                findings += (
                    [Finding(flow.at, f"the source of {unqualified(flow.name)}: {text}")]
                    if text
                    else []
                )
    names: dict[str, str] = {}
    for output in definitions.outputs:
        if output.kind != "sink" or output.format != "kavka":
            continue
        text = _refusal(output.options, is_sink=True, is_streaming=True)
        if text:
            findings.append(Finding(output.at, f"the sink {output.name}: {text}"))
            continue
        sink = parse_sink(_with_checkpoint(output.options))
        if sink.exactly_once is None:
            continue
        name = sink.exactly_once.sink_id
        if names.setdefault(name, output.name) != output.name:
            text = f"the sinks {names[name]} and {output.name} share the sinkId {name!r}: give each its own"
            findings.append(Finding(output.at, text))
        findings += _shared_sink(definitions, output.name, output.at)
        if not _has(output.options, "sinkId"):
            text = (
                f"the sink {output.name} has no sinkId: its name comes from the checkpoint's path, so that a moved "
                "project counts as another sink; add one"
            )
            findings.append(Finding(output.at, text, is_error=False))
    return findings


def _shared_sink(definitions: Definitions, sink: str, at: Location) -> list[Finding]:
    flows = [
        flow.name for flow in definitions.flows if unqualified(flow.target) == unqualified(sink)
    ]
    if len(flows) < 2:
        return []
    text = (
        f"the flows {', '.join(flows)} write into the exactly-once sink {sink}, and each would take the other's "
        "batches for its own: give each flow a sink with its own sinkId"
    )
    return [Finding(at, text)]


def _refusal(options: Mapping[str, str], *, is_sink: bool, is_streaming: bool) -> str:
    """Return why the connector refuses options, nothing when it does not."""
    try:
        if is_sink:
            parse_sink(_with_checkpoint(options), streaming=is_streaming)
        else:
            parse_source(options, streaming=is_streaming)
    except ConnectorError as error:
        return str(error)
    return ""


def _with_checkpoint(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options as Spark gives them to a sink: it adds the flow's checkpoint."""
    return {"checkpointLocation": "checkpoint", **options}


def _has(options: Mapping[str, str], name: str) -> bool:
    return name.lower() in (given.lower() for given in options)
