"""Expectations: conditions that the rows of a flow should meet, as decorators of the functions of transformations.

    @dp.table
    @expect("has a user", "user IS NOT NULL")              counted
    @expect_or_drop("known page", "page LIKE '/%'")        counted and dropped
    @expect_or_fail("status", "status BETWEEN 100 AND 599")    the flow fails
    def events(): ...

A row passes where the condition is true: one that is null fails. Counts are observed metrics of the query, named
`<action>:<name>` with the columns `passed` and `failed`; Spark reports them with each batch of a stream. All of it is
plain Spark, so that it runs with the stock `spark-pipelines`, too. Names are those of Databricks' expectations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from inspect import unwrap
from typing import Any

from kavka.spark.queries.flow_progress import FAILED_ROWS, PASSED_ROWS, Action

_SHOWN_CHARACTERS = 400
"""Of a row in the message of an expectation that fails its flow."""
_counts: ContextVar[bool] = ContextVar("counts", default=True)
"""False while the flow into a quarantine topic is planned: its rows are counted by the flow that they are kept from."""


class ExpectationError(Exception):
    """An expectation is declared wrongly; the message is one sentence that says what to do."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """A condition on the rows of a flow: SQL that is true for a good row, or a column of Spark."""

    name: str
    condition: Any
    action: Action

    def __post_init__(self) -> None:
        """Refuse what is no name and no condition."""
        if not isinstance(self.name, str) or not self.name.strip():
            raise ExpectationError(
                f'{self.action} needs a name as its first argument: @{self.action}("has a user", "user IS NOT NULL")'
            )
        if isinstance(self.condition, str) and not self.condition.strip():
            raise ExpectationError(f"the condition of {self.action} {self.name!r} is empty")
        if not isinstance(self.condition, str) and not hasattr(self.condition, "isNotNull"):
            kind = type(self.condition).__name__
            raise ExpectationError(
                f"the condition of {self.action} {self.name!r} is a {kind}: write SQL such as "
                '"user IS NOT NULL", or a column'
            )

    @property
    def metric(self) -> str:
        """Return the name of its observed metric."""
        return f"{self.action}:{self.name}"

    def passes(self) -> Any:
        """Return the column that is true for rows that pass, false for all others."""
        from pyspark.sql import functions as F

        given = self.condition
        condition = F.expr(f"({given})") if isinstance(given, str) else given
        return F.coalesce(condition.cast("boolean"), F.lit(False))

    def __call__(self, target: Any) -> Any:
        """Decorate a function that returns a data frame, or apply the expectation to a data frame."""
        return _applied(target, self.action, self.apply)

    def apply(self, frame: Any) -> Any:
        """Return the frame's rows, counted, without those that the action takes away."""
        from pyspark.sql import functions as F

        passes = self.passes()
        if _counts.get():
            counts = (F.count_if(passes).alias(PASSED_ROWS), F.count_if(~passes).alias(FAILED_ROWS))
            frame = frame.observe(self.metric, *counts)
        if self.action in ("expect_or_drop", "quarantine"):
            return frame.where(passes)
        if self.action == "expect_or_fail":
            failure = F.raise_error(self._message()).cast("boolean")
            return frame.where(F.when(passes, F.lit(True)).otherwise(failure))
        return frame

    def _message(self) -> Any:
        from pyspark.sql import functions as F

        condition = self.condition if isinstance(self.condition, str) else "its condition"
        row = F.substring(F.to_json(F.struct("*")), 1, _SHOWN_CHARACTERS)
        text = (
            f"the expectation {self.name!r} ({' '.join(condition.split())}) is not met by the row "
        )
        return F.concat(F.lit(text), row)


def _applied(target: Any, action: str, apply: Callable[[Any], Any]) -> Any:
    """Return a function whose frame is changed, or the changed frame."""
    if target is None:
        raise ExpectationError(
            f"put @{action} below @dp.table, @dp.materialized_view or @dp.append_flow: those take the function as it is"
        )
    if hasattr(target, "observe"):
        return apply(target)
    if not callable(target):
        raise ExpectationError(
            f"{action} decorates a function that returns a data frame, not a {type(target).__name__}"
        )

    @wraps(target)
    def changed(*arguments: Any, **keywords: Any) -> Any:
        return apply(target(*arguments, **keywords))

    return changed


def expect(name: str, condition: Any) -> Expectation:
    """Count the rows that do not meet a condition; they stay."""
    return Expectation(name, condition, "expect")


def expect_or_drop(name: str, condition: Any) -> Expectation:
    """Drop the rows that do not meet a condition, and count them."""
    return Expectation(name, condition, "expect_or_drop")


def expect_or_fail(name: str, condition: Any) -> Expectation:
    """Fail the flow, before it writes the batch, at a row that does not meet a condition."""
    return Expectation(name, condition, "expect_or_fail")


Decorator = Callable[[Any], Any]


def expect_all(expectations: Mapping[str, Any]) -> Decorator:
    """Count the rows that do not meet conditions, given by name."""
    return _all(expectations, "expect")


def expect_all_or_drop(expectations: Mapping[str, Any]) -> Decorator:
    """Drop the rows that do not meet all of the conditions; each is counted."""
    return _all(expectations, "expect_or_drop")


def expect_all_or_fail(expectations: Mapping[str, Any]) -> Decorator:
    """Fail the flow at a row that does not meet all of the conditions."""
    return _all(expectations, "expect_or_fail")


def _all(expectations: Mapping[str, Any], action: Action) -> Decorator:
    checks = _expectations(expectations, action)

    def apply(frame: Any) -> Any:
        for check in checks:
            frame = check.apply(frame)
        return frame

    return lambda target: _applied(target, action, apply)


def _expectations(given: Mapping[str, Any], action: Action) -> list[Expectation]:
    if not isinstance(given, Mapping) or not given:
        raise ExpectationError(
            f'{action} of several wants conditions by name: {{"has a user": "user IS NOT NULL"}}'
        )
    return [Expectation(name, condition, action) for name, condition in given.items()]


# Quarantine


@dataclass(frozen=True, slots=True)
class Destination:
    """The topic of bad rows."""

    topic: str
    bootstrap_servers: str
    name: str | None
    key: str | None
    options: Mapping[str, str]


Records = Callable[[Any], Any]
"""Makes the records of a topic, for the rows of a frame that do not meet expectations."""


def quarantine(
    name: str,
    condition: Any,
    *,
    topic: str,
    bootstrap_servers: str,
    sink: str | None = None,
    key: str | None = None,
    options: Mapping[str, str] | None = None,
) -> Decorator:
    """Exclude rows that do not meet a condition from a flow and write them to a topic; as `quarantine_all`."""
    destination = Destination(topic, bootstrap_servers, sink, key, options or {})
    return _quarantine(_expectations({name: condition}, "quarantine"), destination)


def quarantine_all(
    expectations: Mapping[str, Any],
    *,
    topic: str,
    bootstrap_servers: str,
    sink: str | None = None,
    key: str | None = None,
    options: Mapping[str, str] | None = None,
) -> Decorator:
    """Exclude rows that do not meet all conditions from a flow and write them to a topic.

    The rows go through a flow and a sink of their own, both named `sink` (default: the function's name with
    `_quarantine`), exactly once; `options` are more options of that sink. The source is read a second time for it. The
    value of a record is a JSON object: `failed` (names of the conditions), `topic`, `partition`, `offset` (of the row's
    columns with those names, else null) and `row`, with all columns. The key is the column `key`, or null.
    """
    destination = Destination(topic, bootstrap_servers, sink, key, options or {})
    return _quarantine(_expectations(expectations, "quarantine"), destination)


def _quarantine(expectations: list[Expectation], destination: Destination) -> Decorator:
    return set_aside(
        expectations,
        destination,
        lambda frame: quarantined(frame, expectations, destination.key),
        "quarantine",
    )


def set_aside(
    expectations: list[Expectation], destination: Destination, records: Records, word: str
) -> Decorator:
    """Return what keeps rows that do not meet expectations from a flow, and adds a flow that writes them into a topic.

    `word` ends the name of that flow and is in sentences about it, unless `destination` has a name.
    """
    for option in ("topic", "bootstrap_servers"):
        if not getattr(destination, option):
            raise ExpectationError(f"{word} wants {option}=, where the rows go")

    def good(frame: Any) -> Any:
        for expectation in expectations:
            frame = expectation.apply(frame)
        return frame

    def decorate(target: Any) -> Any:
        changed = _applied(target, word, good)
        if hasattr(target, "observe"):
            raise ExpectationError(
                f"{word} adds a flow: it decorates the function of one, and is not applied to a data frame"
            )
        _register(target, destination, records, word)
        return changed

    return decorate


def _register(
    target: Callable[[], Any], destination: Destination, records: Records, word: str
) -> None:
    """Add the sink and the flow to the graph, at the line of the decorator."""
    from pyspark.pipelines.flow import Flow
    from pyspark.pipelines.graph_element_registry import get_active_graph_element_registry
    from pyspark.pipelines.output import Sink
    from pyspark.pipelines.source_code_location import SourceCodeLocation

    name = destination.name or f"{target.__name__}_{word}"
    code = unwrap(target).__code__
    at = SourceCodeLocation(filename=code.co_filename, line_number=code.co_firstlineno)
    options = {
        "kafka.bootstrap.servers": destination.bootstrap_servers,
        "topic": destination.topic,
        "deliveryGuarantee": "exactly-once",
        "sinkId": f"{destination.topic}-{name}",
        **destination.options,
    }

    def bad() -> Any:
        with _uncounted():
            frame = target()
        return records(frame)

    registry = get_active_graph_element_registry()
    registry.register_output(Sink(name, None, at, "kavka", options))
    registry.register_flow(Flow(name, name, {}, at, bad))


@contextmanager
def _uncounted() -> Iterator[None]:
    token = _counts.set(False)
    try:
        yield
    finally:
        _counts.reset(token)


def quarantined(frame: Any, expectations: list[Expectation], key: str | None = None) -> Any:
    """Return the records of a quarantine topic: the rows that do not meet all expectations, with the reason.

    Which columns a frame has is not asked, since that would analyse it, which Spark refuses in a function of a flow.
    """
    from pyspark.sql import functions as F

    options = {"ignoreNullFields": "false"}
    failed = F.filter(
        F.array(*(F.when(~one.passes(), F.lit(one.name)) for one in expectations)),
        lambda name: name.isNotNull(),
    )
    row = F.to_json(F.struct("*"), options)
    record = F.struct(
        failed.alias("failed"),
        F.get_json_object(row, "$.topic").alias("topic"),
        F.get_json_object(row, "$.partition").cast("int").alias("partition"),
        F.get_json_object(row, "$.offset").cast("long").alias("offset"),
        F.struct("*").alias("row"),
    )
    keyed = F.col(key).cast("string") if key else F.lit(None).cast("string")
    return frame.where(F.size(failed) > 0).select(
        keyed.alias("key"), F.to_json(record, options).alias("value")
    )
