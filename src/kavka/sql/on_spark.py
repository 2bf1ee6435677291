"""The same statement on Spark: topics as views over `format("kavka")`, with the columns that they have here."""

from __future__ import annotations

import logging
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kavka.spark.catalog import in_backticks
from kavka.spark.session import SparkMissing, local_session
from kavka.sql.errors import SqlError
from kavka.sql.session import Rows, Session
from kavka.sql.topic_table import TopicTable

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

_BATCH_ROWS: Final = 10_000
_NO_RELATION: Final = "TABLE_OR_VIEW_NOT_FOUND"
_LINE: Final = re.compile(r"\n(JVM stacktrace|== Physical Plan ==)")


class SparkEngine:
    """A local session of Spark, in which topics become views when a statement names them."""

    def __init__(self, session: Session, master: str) -> None:
        """Start Spark. Raise SqlError when it is not installed."""
        self._session = session
        self._directory = tempfile.TemporaryDirectory(prefix="kavka-sql-spark-")
        # Spark logs a name that it does not know as an error, and that is how topics become views.
        logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
        settings = {"spark.sql.ansi.doubleQuotedIdentifiers": "true"}
        try:
            self._spark: SparkSession = local_session(
                "kavka sql",
                Path(self._directory.name),
                master=master,
                settings=settings,
                short_lived=True,
            )
        except SparkMissing as error:
            self._directory.cleanup()
            raise SqlError(f"{error}.") from error

    def close(self) -> None:
        """Stop Spark."""
        self._spark.stop()
        self._directory.cleanup()

    def execute(self, statement: str) -> Rows:
        """Run a statement. Raise SqlError in Spark's words."""
        import pyarrow as pa
        from pyspark.sql.pandas.types import to_arrow_schema

        frame = self._planned(statement)
        schema = to_arrow_schema(frame.schema, timezone="UTC")
        return self._session.rows_of(
            pa.RecordBatchReader.from_batches(schema, self._batches(frame, schema))
        )

    def _planned(self, statement: str) -> DataFrame:
        from pyspark.errors import AnalysisException, PySparkException

        tried: set[str] = set()
        while True:
            try:
                return self._spark.sql(statement)
            except AnalysisException as error:
                name = _missing(error)
                if name is None or name in tried:
                    raise SqlError(_sentence(error)) from error
                tried.add(name)
                self._add_view(name)
            except PySparkException as error:
                raise SqlError(_sentence(error)) from error

    def _add_view(self, name: str) -> None:
        table = self._session.table(self._session.topic_of(name))
        options = {
            f"kafka.{key}": str(value) for key, value in self._session.brokers.settings.items()
        }
        rows = (
            self._spark.read.format("kavka")
            .options(**options)
            .option("subscribe", table.topic)
            .option("includeHeaders", "true")
            .load()
        )
        rows.select(*_columns(table)).createOrReplaceTempView(in_backticks(name))

    def _batches(self, frame: DataFrame, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        from pyspark.errors import PySparkException

        rows: list[dict[str, Any]] = []
        try:
            for row in frame.toLocalIterator(prefetchPartitions=True):
                rows.append(row.asDict(recursive=True))
                if len(rows) >= _BATCH_ROWS:
                    yield pa.RecordBatch.from_pylist(rows, schema=schema)
                    rows = []
        except PySparkException as error:
            failure = SqlError(_sentence(error))
            self._session.fail(failure)
            raise failure from error
        if rows:
            yield pa.RecordBatch.from_pylist(rows, schema=schema)


def _columns(table: TopicTable) -> list[Column]:
    """Return the expressions of a view's columns over the source's. Raise SqlError for values that are no JSON."""
    from pyspark.sql import functions
    from pyspark.sql.pandas.types import from_arrow_type
    from pyspark.sql.types import StructField, StructType

    if not table.has_json_values:
        raise SqlError(f"--spark decodes JSON only, and {table.topic} has values of another kind.")
    fields = [StructField(one.name, from_arrow_type(one.type)) for one in table.values_schema]
    parsed = functions.from_json(functions.col("value").cast("string"), StructType(fields))
    columns = []
    for field in table.schema:
        source = table.field_of(field.name)
        column = (
            functions.col(in_backticks(field.name)) if source is None else parsed.getField(source)
        )
        if field.name in ("key", "value") and field.type == "string":
            column = column.cast("string")
        elif field.name == "headers":
            column = functions.coalesce(column, functions.array())
        columns.append(column.alias(field.name))
    return columns


def _missing(error: Any) -> str | None:
    """Return the name of the relation that Spark does not know."""
    if not str(error.getCondition() or "").startswith(_NO_RELATION):
        return None
    name = error.getMessageParameters().get("relationName", "")
    return name.strip("`").replace("``", "`") or None


def _sentence(error: Exception) -> str:
    text = str(error)
    match = _LINE.search(text)
    return text[: match.start()].strip() if match else text.strip()
