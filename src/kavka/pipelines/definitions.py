"""Definitions of a project, collected while Spark's own registry takes them, with file and line.

A flow of Python is a plan of Spark Connect, a protobuf message; the reads of topics and tables are found in it. SQL is
parsed by Spark; of it only the names and lines are known here.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from dataclasses import replace as with_changes
from pathlib import Path
from typing import Any

from kavka.pipelines.errors import query_failure
from kavka.pipelines.project import PipelineError
from kavka.spark.queries.flow_progress import unqualified

TOPIC_FORMATS = ("kavka", "kafka")
"""Formats of which source and sink are topics: ours, and Spark's own connector with the same options."""


@dataclass(frozen=True, slots=True)
class Location:
    """A line of a file of the project; line 0 is the whole file."""

    file: str
    line: int = 0

    def __str__(self) -> str:
        """Return it as compilers write it."""
        return f"{self.file}:{self.line}" if self.line else self.file


@dataclass(frozen=True, slots=True)
class Finding:
    """A mistake or a surprise that `kavka pipelines check` found, with its place."""

    at: Location
    text: str
    is_error: bool = True

    def __str__(self) -> str:
        """Return it as compilers print it."""
        return f"{self.at}: {'error' if self.is_error else 'warning'}: {self.text}"


@dataclass(frozen=True, slots=True)
class TopicRead:
    """A read of topics in a flow."""

    format: str
    options: Mapping[str, str]
    is_streaming: bool


@dataclass(frozen=True, slots=True)
class OutputDefinition:
    """A table, view or sink."""

    name: str
    kind: str
    """`table`, `materialized view`, `temporary view` or `sink`."""
    at: Location
    format: str = ""
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FlowDefinition:
    """A flow and what it reads."""

    name: str
    target: str
    at: Location
    reads: tuple[TopicRead, ...] = ()
    tables: tuple[str, ...] = ()
    is_stateful: bool = False
    """True if it keeps state between batches: aggregates, joins, removes duplicates."""


@dataclass(slots=True)
class Definitions:
    """All outputs and flows of a project, in the order of their registration."""

    outputs: list[OutputDefinition] = field(default_factory=list)
    flows: list[FlowDefinition] = field(default_factory=list)

    def flow(self, name: str) -> FlowDefinition | None:
        """Return a flow by its name or by the last part of a qualified one."""
        return next(
            (flow for flow in self.flows if unqualified(flow.name) == unqualified(name)), None
        )

    def output(self, name: str) -> OutputDefinition | None:
        """Return an output by its name or by the last part of a qualified one."""
        return next(
            (one for one in self.outputs if unqualified(one.name) == unqualified(name)), None
        )

    def topic_reads(self, flow: FlowDefinition) -> list[TopicRead]:
        """Return the reads of topics of a flow, those of the temporary views that it reads too."""
        return [read for one in (flow, *self.views(flow)) for read in one.reads]

    def keeps_state(self, flow: FlowDefinition) -> bool:
        """Return whether a flow, or a temporary view that it reads, keeps state between batches."""
        return any(one.is_stateful for one in (flow, *self.views(flow)))

    def views(self, flow: FlowDefinition) -> list[FlowDefinition]:
        """Return the temporary views that a flow reads, and those that they read."""
        found: list[FlowDefinition] = []
        for name in flow.tables:
            output = self.output(name)
            source = self.flow(name)
            if output is not None and output.kind == "temporary view" and source is not None:
                found += [source, *self.views(source)]
        return found


Rewrite = Callable[[str, Any], Any]
"""Changes the plan of a flow, given its name, before Spark gets it."""
RewriteOutput = Callable[[Any], Any]
"""Changes an output, an object of `pyspark.pipelines.output`, before Spark gets it."""


def recording_registry(
    spark: Any,
    graph_id: str,
    directory: Path,
    definitions: Definitions,
    rewrite: Rewrite | None = None,
    rewrite_output: RewriteOutput | None = None,
) -> Any:
    """Return Spark's registry of graph elements that also fills `definitions`, with paths relative to `directory`."""
    from pyspark.errors import PySparkException
    from pyspark.pipelines.spark_connect_graph_element_registry import (
        SparkConnectGraphElementRegistry,
    )

    class RecordingRegistry(SparkConnectGraphElementRegistry):  # type: ignore[misc]
        """Spark's registry, which gets everything unchanged."""

        def register_output(self, output: Any) -> None:
            """Record an output."""
            definitions.outputs.append(_output(output, directory))
            super().register_output(rewrite_output(output) if rewrite_output else output)

        def register_flow(self, flow: Any) -> None:
            """Record a flow and the reads of its plan."""

            def planned() -> Any:
                frame = flow.func()
                plan = frame._plan.plan(spark.client)
                definitions.flows.append(_flow(flow, plan, directory))
                return _Planned(rewrite(flow.name, plan)) if rewrite else frame

            super().register_flow(with_changes(flow, func=planned))

        def register_auto_cdc_flow(self, flow: Any) -> None:
            """Record a flow of changes; it reads a table or view of the graph."""
            at = _location(flow.source_code_location, directory)
            name = flow.name or flow.target
            noted = FlowDefinition(name, flow.target, at, tables=(flow.source,), is_stateful=True)
            definitions.flows.append(noted)
            super().register_auto_cdc_flow(flow)

        def register_sql(self, sql_text: str, file_path: Path) -> None:
            """Record the names in a file of SQL."""
            outputs, flows = sql_definitions(sql_text, str(file_path))
            definitions.outputs += outputs
            definitions.flows += flows
            try:
                super().register_sql(sql_text, file_path)
            except PySparkException as error:
                raise BadDefinition(line_of_sql(str(error), str(file_path)), error) from error

    return RecordingRegistry(spark, graph_id)


def with_class(error: Exception, text: str) -> str:
    """Return the text of an error behind the name of its class; the text alone of one of Spark's."""
    is_sparks = type(error).__module__.startswith("pyspark")
    return text if is_sparks else f"{type(error).__name__}: {text}"


class BadDefinition(PipelineError):
    """A file of the project cannot be loaded, or Spark refuses what is in it; the cause has the stack."""

    def __init__(self, at: Location, error: Exception) -> None:
        """Say where it is, and the reason."""
        self.at = at
        text = error.msg if isinstance(error, SyntaxError) else query_failure(str(error))
        self.reason = with_class(error, text)
        super().__init__(f"{at}: {self.reason}")


@contextmanager
def located_errors(directory: Path) -> Iterator[None]:
    """Turn what files of a project raise while they are loaded into BadDefinition; other exceptions stay."""
    try:
        yield
    except BadDefinition:
        raise
    except Exception as error:
        at = location_of(error, directory)
        if at is None:
            raise
        raise BadDefinition(at, error) from error


def location_of(error: Exception, directory: Path) -> Location | None:
    """Return the last line of the project's files in a traceback."""
    if isinstance(error, SyntaxError) and error.filename:
        return _inside(error.filename, error.lineno or 0, directory)
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        location = _inside(frame.filename, frame.lineno or 0, directory)
        if location is not None:
            return location
    return None


def _inside(file: str, line: int, directory: Path) -> Location | None:
    path, root = Path(file).resolve(), directory.resolve()
    return Location(str(path.relative_to(root)), line) if path.is_relative_to(root) else None


_SQL_LINE = re.compile(r"\bline (\d+)\b")


def line_of_sql(error: str, file: str) -> Location:
    """Return the place that Spark names in an error of its parser; the whole file without one."""
    found = _SQL_LINE.search(error)
    return Location(file, int(found[1]) if found else 0)


class _Planned:
    """A stand-in for a data frame: Spark's registry asks for the plan and nothing else."""

    def __init__(self, relation: Any) -> None:
        self._relation = relation

    @property
    def _plan(self) -> _Planned:
        return self

    def plan(self, _client: Any) -> Any:
        return self._relation


def _output(output: Any, directory: Path) -> OutputDefinition:
    kinds = {
        "StreamingTable": "table",
        "MaterializedView": "materialized view",
        "TemporaryView": "temporary view",
        "Sink": "sink",
    }
    kind = kinds.get(type(output).__name__, type(output).__name__)
    at = _location(output.source_code_location, directory)
    options = dict(getattr(output, "options", {}))
    return OutputDefinition(output.name, kind, at, getattr(output, "format", "") or "", options)


def _flow(flow: Any, plan: Any, directory: Path) -> FlowDefinition:
    reads, tables, is_stateful = plan_reads(plan)
    at = _location(flow.source_code_location, directory)
    return FlowDefinition(flow.name, flow.target, at, tuple(reads), tuple(tables), is_stateful)


def _location(given: Any, directory: Path) -> Location:
    path = Path(given.filename)
    if path.is_absolute() and path.is_relative_to(directory):
        path = path.relative_to(directory)
    return Location(str(path), given.line_number or 0)


_STATEFUL = ("aggregate", "join", "deduplicate", "group_map", "apply_in_pandas_with_state")
"""Relations of Spark Connect that keep state in a stream; a join with a table does not, and counts nevertheless."""


def plan_reads(plan: Any) -> tuple[list[TopicRead], list[str], bool]:
    """Return the reads of topics and of tables in a plan, and whether it keeps state."""
    reads, tables = [], []
    is_stateful = False
    for message in messages(plan):
        name = message.DESCRIPTOR.name
        if name == "Relation":
            is_stateful = is_stateful or message.WhichOneof("rel_type") in _STATEFUL
        elif name == "Read" and message.HasField("data_source"):
            source = message.data_source
            if source.format in TOPIC_FORMATS:
                reads.append(TopicRead(source.format, dict(source.options), message.is_streaming))
        elif name == "Read" and message.HasField("named_table"):
            tables.append(message.named_table.unparsed_identifier)
    return reads, tables, is_stateful


def messages(message: Any) -> Iterator[Any]:
    """Yield a protobuf message and all messages in it."""
    yield message
    for descriptor, value in message.ListFields():
        if descriptor.message_type is None or descriptor.message_type.GetOptions().map_entry:
            continue
        # A repeated field has no fields of its own; a single message has a descriptor.
        for child in [value] if hasattr(value, "DESCRIPTOR") else value:
            yield from messages(child)


_SQL_OUTPUT = re.compile(
    r"^\s*CREATE\s+(?:OR\s+REFRESH\s+)?(?P<kind>STREAMING\s+TABLE|MATERIALIZED\s+VIEW|TEMPORARY\s+VIEW|VIEW|FLOW)"
    r"\s+(?:IF\s+NOT\s+EXISTS\s+)?(?P<name>[\w.`]+)",
    re.IGNORECASE | re.MULTILINE,
)
_SQL_KINDS = {"STREAMING TABLE": "table", "MATERIALIZED VIEW": "materialized view"}
_SQL_STATE = re.compile(
    r"\b(?:GROUP\s+BY|DISTINCT|JOIN|(?:COUNT|SUM|MIN|MAX|AVG)\s*\()", re.IGNORECASE
)
_SQL_TABLE = re.compile(r"\b(?:FROM|JOIN)\s+(?:STREAM\s*\(?\s*)?([\w.`]+)", re.IGNORECASE)


def sql_definitions(text: str, file: str) -> tuple[list[OutputDefinition], list[FlowDefinition]]:
    """Return what a file of SQL creates, with lines; flows have the tables after FROM and JOIN, and state by words."""
    outputs, flows = [], []
    matches = list(_SQL_OUTPUT.finditer(text))
    ends = [*(match.start() for match in matches[1:]), len(text)]
    # A file that creates nothing has an end, too.
    for match, end in zip(matches, ends, strict=False):
        kind = " ".join(match["kind"].upper().split())
        start = match.start() + len(match[0]) - len(match[0].lstrip())
        at = Location(file, text.count("\n", 0, start) + 1)
        body = text[match.end() : end]
        tables = tuple(table[1] for table in _SQL_TABLE.finditer(body))
        name = match["name"].strip("`")
        if kind != "FLOW":
            outputs.append(OutputDefinition(name, _SQL_KINDS.get(kind, "temporary view"), at))
        is_stateful = _SQL_STATE.search(body) is not None
        flows.append(FlowDefinition(name, name, at, tables=tables, is_stateful=is_stateful))
    return outputs, flows
