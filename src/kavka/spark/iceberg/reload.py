"""Reload: a range of topics, read again and transformed, in place of the rows that came from it, in one commit.

The range is one of offsets, found by the broker's index of time; it ends where the load is, so the load goes on beside
it. Rows of records that the topics do not have any more stay.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kavka.client.consumer import Consumer
from kavka.core.topic_partitions import nest_by_topic, partitions_by_topic
from kavka.lake.catalogs import open_catalog, parse_identifier
from kavka.lake.errors import lake_errors
from kavka.lake.tables import load_table
from kavka.lake.topic_offsets import Bounds, loaded_ends, loaded_ranges
from kavka.spark.errors import ConnectorError

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyspark.sql import DataFrame, SparkSession

Transform = Callable[["DataFrame"], "DataFrame"]

_SOURCE = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
_RENAMED = {"event_time": "timestamp"}
"""Columns of tables that are columns of the source by another name."""


@dataclass(frozen=True, slots=True)
class Reload:
    """A reload that was planned: what to read and what to replace."""

    ranges: Bounds

    @property
    def rows(self) -> int:
        """Return the number of offsets."""
        return sum(end - start for start, end in self.ranges.values())

    @property
    def assign(self) -> str:
        """Return the source's option of this name."""
        return json.dumps(partitions_by_topic(sorted(self.ranges)))

    @property
    def starting_offsets(self) -> str:
        """Return the source's option of this name."""
        return self._nested(lambda bounds: bounds[0])

    @property
    def ending_offsets(self) -> str:
        """Return the source's option of this name."""
        return self._nested(lambda bounds: bounds[1])

    @property
    def replace_offsets(self) -> str:
        """Return the sink's option of this name."""
        return self._nested(list)

    def _nested(self, of: Callable[[tuple[int, int]], object]) -> str:
        return json.dumps(nest_by_topic((at, of(bounds)) for at, bounds in self.ranges.items()))


def plan_reload(
    table: str,
    catalog: Mapping[str, str],
    client: Mapping[str, str],
    from_ms: int,
    to_ms: int | None = None,
) -> Reload:
    """Find the range of a table that is of a time, by the timestamps of its records.

    Raise LakeError, KafkaError, OSError.
    """
    loaded = load_table(open_catalog(catalog, makes=False), parse_identifier(table))
    with lake_errors():
        ends = loaded_ends(loaded)

    async def found() -> Bounds:
        async with Consumer({**client, "enable.auto.commit": "false"}) as consumer:
            return await loaded_ranges(consumer, ends, from_ms, to_ms)

    return Reload(asyncio.run(found()))


def run_reload(
    session: SparkSession,
    plan: Reload,
    table: str,
    catalog: Mapping[str, str],
    client: Mapping[str, str],
    transform: Transform | None = None,
) -> None:
    """Read the range of a plan, and commit its rows in place of what the table has of it.

    `transform` makes the rows of the table from those of the source, as the load does; without, columns are taken by
    their names, and `event_time` is the record's timestamp. Raise ConnectorError, and what Spark raises.
    """
    servers = {f"kafka.{name}": value for name, value in client.items()}
    source = (
        session.read.format("kavka")
        .options(**servers)
        .option("assign", plan.assign)
        .option("startingOffsets", plan.starting_offsets)
        .option("endingOffsets", plan.ending_offsets)
    )
    if transform is None:
        schema = load_table(open_catalog(catalog, makes=False), parse_identifier(table)).schema()
        columns = columns_by_name(schema)
        rows = source.option("includeHeaders", "true").load().selectExpr(*columns)
    else:
        rows = transform(source.load())
    options = {f"catalog.{name}": value for name, value in catalog.items()}
    (
        rows.write.format("kavka-iceberg")
        .mode("overwrite")
        .option("table", table)
        .options(**options)
        .option("createTable", "false")
        .option("replaceOffsets", plan.replace_offsets)
        .save()
    )


def columns_by_name(schema: Schema) -> list[str]:
    """Return the expressions that make a table's columns from the source's. Raise ConnectorError for others. Pure."""
    expressions = []
    for column in schema.fields:
        source = _RENAMED.get(column.name, column.name)
        if source not in _SOURCE:
            raise ConnectorError(
                f"The column {column.name} is not one of the topic's: give the function that makes the rows, as the "
                "load does (--transform FILE.py:FUNCTION)."
            )
        is_text = source in ("key", "value") and str(column.field_type) == "string"
        expression = f"CAST({source} AS STRING)" if is_text else f"`{source}`"
        expressions.append(f"{expression} AS `{column.name}`")
    return expressions
