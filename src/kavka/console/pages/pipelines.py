"""Pipelines on Spark: the flows that the topic of progress names, read as `kavka pipelines status` reads it."""

from __future__ import annotations

import time
from dataclasses import dataclass

from kavka.console.pages.brokers import SEARCH
from kavka.console.pages.topics import PAGE, describe
from kavka.console.parameters import Arguments, Parameter
from kavka.console.sentences import NOTHING, Sentence, say
from kavka.console.subject import Page, Services
from kavka.console.views.paging import Paging, paged, searched
from kavka.errors import ErrorCode, KafkaError
from kavka.spark.queries.flow_progress import FlowProgress, expectation_lines
from kavka.spark.queries.topic import PROGRESS_TOPIC, is_lost, progress_read_by

_TIMEOUT_SHARE = 0.75
_FLOWS_OF_A_PAGE = 50


@dataclass(frozen=True, slots=True)
class PartitionLagView:
    """The lag of a flow in one partition."""

    partition: str
    records: int
    seconds: float | None


@dataclass(frozen=True, slots=True)
class FlowView:
    """A flow of a pipeline; counts are totals since its start, null where the flow has none."""

    pipeline: str
    flow: str
    kind: str
    state: str
    """running, waiting, failed, stopped, done, or lost: it should run and was not heard of for a minute."""
    batch_id: int | None
    rows_in: int | None
    rows_out: int | None
    rows_per_second: float | None
    batch_ms: int
    phases_ms: dict[str, int]
    lag_records: int | None
    lag_seconds: float | None
    lag: list[PartitionLagView]
    watermark_delay_s: float | None
    late_rows: int
    failed_rows: int | None
    expectations: list[str]
    state_rows: int
    state_bytes: int
    restarts: int
    last_error: str
    updated_ms: int


@dataclass(frozen=True, slots=True)
class PipelineList:
    """One page of the flows that match, those that failed or are lost first; `note` says why there are none."""

    topic: str
    note: Sentence
    rows: list[FlowView]
    paging: Paging
    total: int
    failing: int
    """Flows that do not run and should, on all pages."""
    search: str


def flow_view(flow: FlowProgress, now_ms: int) -> FlowView:
    """Return a flow as the page shows it."""
    is_stream = flow.kind == "stream"
    return FlowView(
        pipeline=flow.pipeline,
        flow=flow.flow,
        kind=flow.kind,
        state="lost" if is_lost(flow, now_ms) else flow.state,
        batch_id=flow.batch_id if flow.batch_id >= 0 else None,
        rows_in=flow.rows_in if is_stream else None,
        rows_out=flow.rows_out,
        rows_per_second=flow.rows_per_second if is_stream else None,
        batch_ms=flow.batch_ms,
        phases_ms=dict(flow.phases_ms),
        lag_records=flow.lag_records if flow.lag else None,
        lag_seconds=flow.lag_seconds,
        lag=[
            PartitionLagView(name, lag.records, lag.seconds)
            for name, lag in sorted(flow.lag.items())
        ],
        watermark_delay_s=flow.watermark_delay_s,
        late_rows=flow.late_rows,
        failed_rows=flow.failed_rows,
        expectations=expectation_lines(flow),
        state_rows=flow.state_rows,
        state_bytes=flow.state_bytes,
        restarts=flow.restarts,
        last_error=flow.last_error,
        updated_ms=flow.updated_ms,
    )


_URGENCY = {"failed": 0, "lost": 1, "waiting": 2, "running": 3}


async def _load(services: Services, arguments: Arguments) -> PipelineList:
    topic = arguments.text("topic").strip() or PROGRESS_TOPIC
    search, page = arguments.text("search"), arguments.number("page")
    timeout_s = services.cluster.options.timeout_ms / 1000 * _TIMEOUT_SHARE
    try:
        await describe(services, topic)
        # The page's consumer, not one of its own: any topic can be named, and masks may hold in it.
        async with services.cluster.consumer(isolation_level="read_committed") as consumer:
            found = await progress_read_by(consumer, topic, timeout_s)
    except KafkaError as error:
        if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        note = say(
            "The cluster has no topic {topic}: no pipeline has reported to it. `kavka pipelines run` reports, "
            "unless it runs with --no-progress-topic.",
            topic=topic,
        )
        _, paging = paged([], page, _FLOWS_OF_A_PAGE)
        return PipelineList(topic, note, [], paging, 0, 0, search)
    now_ms = time.time_ns() // 1_000_000
    has_words = searched(search)
    rows = [flow_view(flow, now_ms) for flow in found]
    rows.sort(key=lambda row: (_URGENCY.get(row.state, 9), row.pipeline, row.flow))
    failing = sum(row.state in ("failed", "lost") for row in rows)
    matching = [row for row in rows if has_words(f"{row.pipeline}/{row.flow}")]
    shown, paging = paged(matching, page, _FLOWS_OF_A_PAGE)
    return PipelineList(topic, NOTHING, list(shown), paging, len(rows), failing, search)


PAGES = (
    Page(
        path="/pipelines",
        summary="The flows of Spark pipelines with rates, lag, watermark, errors and restarts.",
        template="pipelines.html",
        view=PipelineList,
        load=_load,
        parameters=(
            Parameter("topic", "text", "The topic of progress.", PROGRESS_TOPIC),
            SEARCH,
            PAGE,
        ),
    ),
)
ACTIONS = ()
