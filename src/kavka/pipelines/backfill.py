"""`kavka pipelines backfill`: flows process a range of time of their topics once more.

For each flow that reads topics: its checkpoint is set back to the offsets of the range's start, it runs once over the
records of the range that it has processed before, and its checkpoint is set to where it was: what it has not processed
yet is left to the next run. The batches in between go on counting, so that tables and exactly-once sinks take them as
new ones. Where each flow was is written into the storage first: a backfill that died is continued by the same command.

    batch 7 ends at P --set back--> 7 ends at FROM --run--> 8, 9 (rows of the range) --set to P--> 9 ends at P
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from kavka.files import replace_file
from kavka.ids import TopicPartition
from kavka.pipelines.checkpoints import (
    BACKFILL_STATE,
    Checkpoints,
    last_number,
    replace_batch,
    topic_offsets,
    uncommitted,
    with_sources,
)
from kavka.pipelines.definitions import Definitions, FlowDefinition
from kavka.pipelines.errors import query_failure
from kavka.pipelines.observer import Observer
from kavka.pipelines.project import PipelineError, Project
from kavka.pipelines.run import (
    ProgressOptions,
    Refresh,
    Update,
    observe_run,
    register,
    require_flows,
)
from kavka.pipelines.session import Session, SparkOptions, open_session
from kavka.pipelines.view import FlowsView
from kavka.spark.offsets import Offsets, ids_from_json, to_json
from kavka.spark.queries.flow_progress import unqualified
from kavka.spark.queries.watch import client_settings, now_ms
from kavka.spark.topics import BrokerTopics


@dataclass(frozen=True, slots=True)
class Range:
    """A range of time, in milliseconds since 1970; the end does not belong to it, None is now."""

    start_ms: int
    end_ms: int | None


def parse_range(start: str, end: str | None) -> Range:
    """Read the times of the command line. Raise PipelineError."""
    start_ms = moment_ms("--from", start)
    end_ms = None if end is None else moment_ms("--to", end)
    if end_ms is not None and end_ms <= start_ms:
        raise PipelineError("--to is not after --from")
    if start_ms >= now_ms():
        raise PipelineError("--from lies in the future")
    return Range(start_ms, end_ms)


def moment_ms(option: str, text: str) -> int:
    """Return a time of the command line in milliseconds since 1970. Raise PipelineError."""
    if text.isdigit():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise PipelineError(
            f"{option} {text!r} is no time: write 2026-11-25T14:00:00Z, or milliseconds since 1970"
        ) from None
    if moment.tzinfo is None:
        raise PipelineError(f"{option} {text!r} has no time zone: add Z for UTC, or +02:00")
    return round(moment.timestamp() * 1000)


def run_backfill(
    project: Project,
    spark_options: SparkOptions,
    names: Sequence[str],
    time_range: Range,
    progress_options: ProgressOptions,
    view: FlowsView,
) -> None:
    """Backfill flows and show how far each is. Raise PipelineError for a flow that cannot be filled so."""
    storage = project.storage_path
    if storage is None:
        raise PipelineError(
            f"checkpoints in {project.storage} cannot be set back from here: a backfill needs a storage of this machine"
        )
    with open_session(project, spark_options) as session:
        definitions = Definitions()
        register(session, project, definitions)
        require_flows(definitions, names)
        flows = chosen_flows(definitions, names)
        state = _BackfillState(storage / BACKFILL_STATE, Checkpoints(storage))
        ends = state.ends(time_range, flows)
        groups = _by_target(flows)
        limits = [limits_of(together, definitions, ends) for together in groups]
        state.begin(time_range, flows, definitions, ends)
        view.print_message(f"backfill of {', '.join(unqualified(flow.name) for flow in flows)}")
        with observe_run(session, project, definitions, progress_options, view) as observer:
            for flow in flows:
                observer.table.waits(flow.name, now_ms())
            for together, limit in zip(groups, limits, strict=True):
                _run(session, project, together, time_range, limit, observer, view)
        state.finish(flows, ends)
    view.print_message(
        "done: the flows continue where they were; views are refreshed by the next run"
    )


def chosen_flows(definitions: Definitions, names: Sequence[str]) -> list[FlowDefinition]:
    """Return the flows to fill. Raise PipelineError for one whose rows cannot be computed a second time."""
    chosen = {unqualified(name) for name in names}
    flows = []
    for flow in definitions.flows:
        output = definitions.output(flow.target)
        if output is None or output.kind not in ("table", "sink"):
            continue
        is_meant = not chosen or {unqualified(flow.name), unqualified(flow.target)} & chosen
        reads = definitions.topic_reads(flow)
        if not is_meant or (not reads and not chosen):
            continue
        if not reads:
            raise PipelineError(
                f"{unqualified(flow.name)} reads no topic: it takes what a backfill adds to its tables in the next run"
            )
        if definitions.keeps_state(flow):
            raise PipelineError(
                f"{unqualified(flow.name)} keeps state, in which old records would count twice or come too late: "
                f"`kavka pipelines reset {unqualified(flow.name)}` computes it from the start"
            )
        flows.append(flow)
    if not flows:
        raise PipelineError("no flow of this project reads topics without state")
    _require_whole_targets(definitions, flows)
    return flows


def _require_whole_targets(definitions: Definitions, flows: Sequence[FlowDefinition]) -> None:
    """Raise PipelineError for a target with a flow that is not chosen: an update runs all flows of a target."""
    names = {flow.name for flow in flows}
    for target in dict.fromkeys(flow.target for flow in flows):
        others = [
            unqualified(flow.name)
            for flow in definitions.flows
            if unqualified(flow.target) == unqualified(target)
            and flow.name not in names
            and definitions.topic_reads(flow)
        ]
        if others:
            raise PipelineError(
                f"{', '.join(others)} writes into {unqualified(target)} as well, and runs with it: "
                f"give --flow {unqualified(target)}"
            )


def _by_target(flows: Sequence[FlowDefinition]) -> list[list[FlowDefinition]]:
    """Return the flows of each target, which one update runs together."""
    found: dict[str, list[FlowDefinition]] = {}
    for flow in flows:
        found.setdefault(unqualified(flow.target), []).append(flow)
    return list(found.values())


def limits_of(
    flows: Sequence[FlowDefinition], definitions: Definitions, ends: Mapping[str, Sequence[str]]
) -> dict[str, Offsets]:
    """Return how far each flow has processed its topics, and each temporary view that it reads. Raise PipelineError."""
    limits: dict[str, Offsets] = {}
    for flow in flows:
        limit: Offsets = {}
        for source in ends[flow.name]:
            for at, offset in (topic_offsets(source) or {}).items():
                limit[at] = min(offset, limit.get(at, offset))
        for one in (flow, *definitions.views(flow)):
            if limits.setdefault(unqualified(one.name), limit) != limit:
                raise PipelineError(
                    f"{unqualified(flow.name)} has read another part of its topics than the other flows into "
                    f"{unqualified(flow.target)}: run the pipeline once first, and produce nothing meanwhile"
                )
    return limits


def _run(
    session: Session,
    project: Project,
    flows: Sequence[FlowDefinition],
    time_range: Range,
    limits: Mapping[str, Offsets],
    observer: Observer,
    view: FlowsView,
) -> None:
    """Run the flows of one target once, over records of the range only that they have processed before."""

    def rewrite(name: str, plan: Any) -> Any:
        limit = limits.get(unqualified(name))
        return plan if limit is None else with_filter(plan, condition(time_range, limit))

    graph_id = register(session, project, Definitions(), rewrite)
    refresh = Refresh(refresh=[flows[0].target])
    one = Update(session, project, graph_id, refresh, observer, view)
    one.run()
    if one.error is not None:
        raise PipelineError(
            f"the backfill stopped: {query_failure(str(one.error))}; give the same command again to go on"
        ) from one.error


def with_filter(plan: Any, condition: str) -> Any:
    """Return a plan of Spark Connect in which each streaming read of topics gives rows that meet a condition only."""
    changed = type(plan)()
    changed.CopyFrom(plan)
    _filter_reads(changed, condition)
    return changed


def _filter_reads(message: Any, condition: str) -> None:
    if message.DESCRIPTOR.name == "Relation" and _is_topic_stream(message):
        inner = type(message)()
        inner.CopyFrom(message)
        message.Clear()
        message.common.CopyFrom(inner.common)
        message.common.plan_id = inner.common.plan_id
        message.filter.input.CopyFrom(inner)
        message.filter.input.common.ClearField("plan_id")
        message.filter.condition.expression_string.expression = condition
        return
    for descriptor, value in message.ListFields():
        if descriptor.message_type is None or descriptor.message_type.GetOptions().map_entry:
            continue
        for child in [value] if hasattr(value, "DESCRIPTOR") else value:
            _filter_reads(child, condition)


def _is_topic_stream(relation: Any) -> bool:
    if relation.WhichOneof("rel_type") != "read":
        return False
    read = relation.read
    return bool(
        read.is_streaming and read.HasField("data_source") and read.data_source.format == "kavka"
    )


def condition(time_range: Range, limit: Offsets) -> str:
    """Return a range, and the offsets at which it ends at the latest, as a condition of Spark's SQL.

    It is on the columns of the source; partitions without a limit have no row that meets it.
    """
    parts = [f"timestamp >= timestamp_millis({time_range.start_ms})"]
    if time_range.end_ms is not None:
        parts.append(f"timestamp < timestamp_millis({time_range.end_ms})")
    ends = ", ".join(f"'{at}', {offset}L" for at, offset in sorted(limit.items()))
    name = "concat(topic, '-', partition)"
    parts.append(f"offset < coalesce(try_element_at(map({ends}), {name}), 0L)" if ends else "false")
    return " AND ".join(parts)


class _BackfillState:
    """The stored state of a backfill in progress: the position of each flow before it."""

    def __init__(self, path: Path, checkpoints: Checkpoints) -> None:
        self._path = path
        self._checkpoints = checkpoints

    def ends(self, time_range: Range, flows: Sequence[FlowDefinition]) -> dict[str, list[str]]:
        """Return where the flows were before the backfill: the ends of their sources, by name. Raise PipelineError."""
        if not self._path.exists():
            return {flow.name: self._sources(flow) for flow in flows}
        noted = json.loads(self._path.read_text(encoding="utf-8"))
        found: dict[str, list[str]] = noted["flows"]
        if noted["range"] != _range_json(time_range) or set(found) != {flow.name for flow in flows}:
            raise PipelineError(
                f"another backfill was not finished ({self._path}): repeat it with its own times and flows first"
            )
        return found

    def begin(
        self,
        time_range: Range,
        flows: Sequence[FlowDefinition],
        definitions: Definitions,
        ends: Mapping[str, Sequence[str]],
    ) -> None:
        """Note where the flows are and set them back; after a crash do what is missing. Raise PipelineError."""
        if not self._path.exists():
            self._write({"range": _range_json(time_range), "flows": ends, "rewound": []})
        noted = json.loads(self._path.read_text(encoding="utf-8"))
        for flow in flows:
            if flow.name not in noted["rewound"]:
                self._move(flow, _rewound(ends[flow.name], flow, definitions, time_range))
                noted["rewound"].append(flow.name)
                self._write(noted)

    def finish(self, flows: Sequence[FlowDefinition], ends: Mapping[str, Sequence[str]]) -> None:
        """Set the flows to where they were, and forget the state."""
        for flow in flows:
            self._move(flow, ends[flow.name])
        self._path.unlink()

    def _write(self, value: Mapping[str, Any]) -> None:
        replace_file(self._path, json.dumps(value).encode(), self._path.with_suffix(".new"))

    def _folder(self, flow: FlowDefinition) -> Path:
        folder = self._checkpoints.of(flow)
        if folder is None or last_number(folder / "offsets") is None:
            raise PipelineError(
                f"{unqualified(flow.name)} has not run yet: set startingTimestamp at its source and run it"
            )
        if uncommitted(folder):
            raise PipelineError(
                f"the last batch of {unqualified(flow.name)} is not complete: run the pipeline once first"
            )
        return folder

    def _sources(self, flow: FlowDefinition) -> list[str]:
        batch = self._checkpoints.last_batch(self._folder(flow))
        assert batch is not None, "it has run"
        return list(batch.sources)

    def _move(self, flow: FlowDefinition, sources: Sequence[str]) -> None:
        """Set the end of the last batch to `sources`, from which the flow continues."""
        folder = self._folder(flow)
        batch = self._checkpoints.last_batch(folder)
        assert batch is not None, "it has run"
        replace_batch(folder, with_sources(batch, sources))


def _range_json(time_range: Range) -> list[int | None]:
    return [time_range.start_ms, time_range.end_ms]


def _rewound(
    sources: Sequence[str], flow: FlowDefinition, definitions: Definitions, time_range: Range
) -> list[str]:
    """Return the ends of sources with topics set back to the start of the range; a later start is not set forward."""
    settings = client_settings(definitions.topic_reads(flow)[0].options)
    rewound = []
    with BrokerTopics(settings) as topics:
        for source in sources:
            offsets = topic_offsets(source)
            if not offsets:
                rewound.append(source)
                continue
            starts = _starts(topics, offsets, time_range.start_ms)
            ids = ids_from_json(json.loads(source))
            rewound.append(json.dumps(to_json(starts, ids)))
    return rewound


def _starts(topics: BrokerTopics, offsets: Offsets, start_ms: int) -> Offsets:
    at_time = topics.at_time(dict.fromkeys(offsets, start_ms))
    starts: dict[TopicPartition, int] = {}
    for at, offset in offsets.items():
        entry = at_time.get(at)
        starts[at] = offset if entry is None else min(entry, offset)
    return starts
