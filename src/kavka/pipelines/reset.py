"""`kavka pipelines reset`: a flow begins from the start.

A table is emptied and computed from the beginning, by Spark's own full refresh. A flow into a sink forgets its
checkpoint: it begins with another one, at the source's starting offsets, which an exactly-once sink must accept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kavka.pipelines.checkpoints import Checkpoints
from kavka.pipelines.definitions import Definitions, FlowDefinition
from kavka.pipelines.project import PipelineError, Project
from kavka.pipelines.run import Refresh, register, require_flows, update
from kavka.pipelines.session import SparkOptions, open_session
from kavka.spark.queries.flow_progress import unqualified


@dataclass(frozen=True, slots=True)
class Reset:
    """A reset that was done, or would be."""

    name: str
    """The table, or the flow into a sink."""
    kind: str
    """`table` or `sink`."""
    executed: bool
    checkpoint: str | None = None
    """The new one of a flow into a sink."""
    readers: tuple[str, ...] = ()
    """Streams that read the table."""

    def lines(self) -> list[str]:
        """Return it in sentences."""
        if self.kind == "sink" and self.executed:
            begins = f"begins from the start with the checkpoint {self.checkpoint}"
            return [f"{self.name} {begins}; the old one stays"]
        if self.kind == "sink":
            begun = f"would begin the checkpoint {self.checkpoint}"
            return [f"{begun}; the old one stays; --execute does it"]
        effect = f"{self.name} is emptied and computed from the beginning"
        lines = [effect if self.executed else f"{effect}, with --execute"]
        if self.readers:
            lines.append(
                "streams that read it keep their checkpoints, which do not fit to the new table: "
                f"reset them too ({', '.join(self.readers)})"
            )
        return lines


def reset_flow(
    project: Project,
    spark_options: SparkOptions,
    name: str,
    *,
    execute: bool,
    on_event: Callable[[str], None],
) -> Reset:
    """Reset a flow or a table, or find what would be done; `on_event` gets Spark's events. Raise PipelineError."""
    definitions = Definitions()
    with open_session(project, spark_options) as session:
        graph_id = register(session, project, definitions)
        require_flows(definitions, [name])
        flow = definitions.flow(name)
        output = definitions.output(name if flow is None else flow.target)
        if output is not None and output.kind == "sink":
            if flow is None:
                flow = _only_flow_into(definitions, name)
            return _reset_sink(project, flow, output.options, execute=execute)
        table = output.name if output is not None else name
        if execute:
            refresh = Refresh(full_refresh=[table])
            for message in update(session, project, graph_id, refresh, dry=False):
                on_event(message)
    readers = streaming_readers(definitions, table)
    return Reset(unqualified(table), "table", execute, readers=tuple(readers))


def streaming_readers(definitions: Definitions, table: str) -> list[str]:
    """Return the flows into other tables and sinks that read a table; views are computed from all of it anyway."""
    readers = []
    for flow in definitions.flows:
        output = definitions.output(flow.target)
        is_stream = output is None or output.kind in ("table", "sink")
        if is_stream and unqualified(table) in map(unqualified, flow.tables):
            readers.append(unqualified(flow.name))
    return readers


def _only_flow_into(definitions: Definitions, sink: str) -> FlowDefinition:
    flows = [flow for flow in definitions.flows if unqualified(flow.target) == unqualified(sink)]
    if len(flows) != 1:
        names = ", ".join(unqualified(flow.name) for flow in flows) or "none"
        raise PipelineError(f"name the flow into {sink} that shall begin from the start: {names}")
    return flows[0]


def _reset_sink(
    project: Project, flow: FlowDefinition, options: Mapping[str, str], *, execute: bool
) -> Reset:
    """Create another checkpoint of a flow into a sink; Spark uses the folder with the highest number."""
    folder = Checkpoints(project.storage_path).of(flow)
    if folder is None:
        raise PipelineError(
            f"the flow {unqualified(flow.name)} has no checkpoint below {project.storage}: it begins "
            "from the start by itself"
        )
    given = {name.lower(): value for name, value in options.items()}
    is_exactly_once = given.get("deliveryguarantee") == "exactly-once"
    if is_exactly_once and given.get("onnewcheckpoint") != "reset":
        raise PipelineError(
            f"the sink of {unqualified(flow.name)} is exactly-once and refuses another checkpoint, by which its rows "
            "would be written twice: set its onNewCheckpoint to reset, or give it a new sinkId and reset again"
        )
    new = folder.with_name(str(int(folder.name) + 1))
    if execute:
        new.mkdir()
    return Reset(unqualified(flow.name), "sink", execute, str(new))
