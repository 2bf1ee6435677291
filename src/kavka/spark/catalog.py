"""The topics of a cluster as tables of a Spark session, by name.

    register_topics(spark, "localhost:9092", registry="http://localhost:8081")
    spark.sql("SELECT user, sum(ms) FROM clicks GROUP BY user")
    spark.sql("SELECT * FROM clicks_stream")    # a streaming frame

Each topic becomes two temporary views, one that reads what is there and one that streams. A data source in Python
cannot be a catalogue of Spark, which would list topics by itself: views are made for the topics that exist now, belong
to the session, and have no database before their names. With a schema a view has the columns that the topic has in
`kavka sql`, and `value_error`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kavka.client.admin import Admin
from kavka.client.schemas.errors import SchemaNotFound
from kavka.client.schemas.framed_columns import RECORD_COLUMNS, column_names
from kavka.client.schemas.pinned import PinnedSchema, pin_subject
from kavka.spark.errors import ConnectorError, one_sentence
from kavka.spark.functions import decode, schema_sentences, value_type

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

ERROR_COLUMN: Final = "value_error"
_INTERNAL: Final = "__"


@dataclass(frozen=True, slots=True)
class TopicView:
    """The views of a topic."""

    topic: str
    table: str
    """The view that reads what the topic has when a query starts."""
    stream: str
    schema: PinnedSchema | None = None
    """Of its values; None: they are bytes."""


def register_topics(
    spark: SparkSession,
    brokers: str | Mapping[str, str],
    *,
    registry: str | Mapping[str, Any] | None = None,
    schemas: Mapping[str, PinnedSchema] | None = None,
    pattern: str | None = None,
    prefix: str = "",
    options: Mapping[str, str] | None = None,
) -> list[TopicView]:
    """Make temporary views `PREFIX TOPIC` and `PREFIX TOPIC _stream` of topics, and return what was made.

    `brokers` are `host:port,...`, or settings of the client. Values are decoded by `schemas`, by topic, else by the
    latest version of the subject `TOPIC-value` of the registry, else not at all. Topics whose names begin with `__` are
    left out, unless the whole name matches `pattern`, as those must that are wanted. `options` are more options of the
    reads. Call it again for topics and versions that are new. Raise ConnectorError.
    """
    settings = {"bootstrap.servers": brokers} if isinstance(brokers, str) else dict(brokers)
    with one_sentence():
        topics = _matching(asyncio.run(_topics(settings)), pattern)
    reading = {f"kafka.{name}": str(value) for name, value in settings.items()}
    reading |= {"includeHeaders": "true", **(options or {})}
    _require_different(topics, prefix)
    views = []
    for topic in topics:
        schema = (schemas or {}).get(topic) or _latest(registry, topic)
        view = TopicView(topic, f"{prefix}{topic}", f"{prefix}{topic}_stream", schema)
        _make(spark.read, view, view.table, reading)
        _make(spark.readStream, view, view.stream, {"startingOffsets": "earliest", **reading})
        views.append(view)
    return views


def _require_different(topics: list[str], prefix: str) -> None:
    """Raise ConnectorError when two views would have one name, which Spark takes without regard to case."""
    seen: dict[str, str] = {}
    for topic in topics:
        for name in (f"{prefix}{topic}", f"{prefix}{topic}_stream"):
            other = seen.setdefault(name.lower(), topic)
            if other != topic:
                raise ConnectorError(
                    f"The topics {other} and {topic} both have a view {name}: choose topics with `pattern`."
                )


async def _topics(settings: Mapping[str, str]) -> list[str]:
    async with Admin(settings) as admin:
        return await admin.list_topics()


def _matching(topics: list[str], pattern: str | None) -> list[str]:
    if pattern is None:
        return [topic for topic in topics if not topic.startswith(_INTERNAL)]
    try:
        regex = re.compile(pattern)
    except re.error as error:
        raise ConnectorError(
            f"The pattern {pattern!r} is no regular expression: {error}."
        ) from None
    return [topic for topic in topics if regex.fullmatch(topic)]


def _latest(registry: str | Mapping[str, Any] | None, topic: str) -> PinnedSchema | None:
    if registry is None:
        return None
    with schema_sentences():
        try:
            return pin_subject(registry, f"{topic}-value")
        except SchemaNotFound:
            return None


def _make(reader: Any, view: TopicView, name: str, options: Mapping[str, str]) -> None:
    rows: DataFrame = reader.format("kavka").options(**options, subscribe=view.topic).load()
    rows.select(*columns_of(view.schema, rows)).createOrReplaceTempView(in_backticks(name))


def columns_of(schema: PinnedSchema | None, rows: DataFrame) -> list[Column]:
    """Return the columns of a view over the source's rows."""
    from pyspark.sql import functions as F

    record = [F.col(name) for name in RECORD_COLUMNS]
    if schema is None:
        return record
    decoded = decode(rows["value"], schema)
    names = column_names(value_type(schema).names, ERROR_COLUMN)
    fields = [decoded["value"][field].alias(name) for name, field in names.items()]
    *first, value, headers = record
    return [*first, *fields, value, headers, decoded["error"]["message"].alias(ERROR_COLUMN)]


def in_backticks(name: str) -> str:
    """Return a name as SQL takes it whatever is in it."""
    escaped = name.replace("`", "``")
    return f"`{escaped}`"
