"""Dead letters of a flow, as a decorator: rows with an error go to a topic, exactly once, the others on.

    @dp.table
    @dead_letter("click.error", topic="clicks-dead", bootstrap_servers="localhost:9092", select=["click.value.*"])
    def clicks():
        topic = spark.readStream.format("kavka").option("includeHeaders", "true")...
        return topic.select("*", decode("value", schema).alias("click"))

Late rows are dead letters too: `dead_letter(lateness("at", "10 minutes"), stage="late", ...)` before an aggregation.

It is a quarantine whose records are the original ones: `kavka pipelines redrive` sends them back. They are counted as
the expectation `quarantine:STAGE`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any

from kavka.pipelines.expectations import Decorator, Destination, Expectation, set_aside
from kavka.spark.dead_letters import dead_letters


def dead_letter(
    error: Any,
    *,
    topic: str,
    bootstrap_servers: str,
    stage: str = "decode",
    select: Sequence[str] = ("*",),
    headers: bool = True,
    sink: str | None = None,
    options: Mapping[str, str] | None = None,
) -> Decorator:
    """Exclude rows with an error from a flow and write their source records to a topic.

    `error` is a column such as `decode` gives, or its name. The function returns the source's columns too, with
    `headers` unless that is false; `select` are the columns of the rows that go on. The records go through a flow and
    a sink of their own, both named `sink` (default: the function's name with `_dead_letter` or, of another stage,
    `_STAGE_letter`), exactly once; `options` are more options of that sink. The source is read a second time for it.
    """
    condition = f"{error} IS NULL" if isinstance(error, str) else error.isNull()
    destination = Destination(topic, bootstrap_servers, sink, None, options or {})
    quarantine = set_aside(
        [Expectation(stage, condition, "quarantine")],
        destination,
        lambda frame: dead_letters(frame, error, stage=stage, headers=headers),
        "dead_letter" if stage == "decode" else f"{stage}_letter",
    )

    def decorate(target: Callable[..., Any]) -> Callable[..., Any]:
        changed = quarantine(target)

        @wraps(target)
        def selected(*arguments: Any, **keywords: Any) -> Any:
            return changed(*arguments, **keywords).select(*select)

        return selected

    return decorate
