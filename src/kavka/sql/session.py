"""A session: one connection to the brokers, one in-process engine, and the topics that statements have named.

The engine works in a thread of its own, so that Ctrl-C and progress need not wait for it.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import suppress
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kavka.client.schemas.errors import SchemaError
from kavka.errors import KafkaError
from kavka.sql.advice import SHOW_TABLES, advice_on, show_tables
from kavka.sql.brokers import Brokers
from kavka.sql.errors import SqlError
from kavka.sql.scan_state import Feed, Scan, ScanState
from kavka.sql.topic_table import TopicTable
from kavka.sql.value_formats import FormatOptions, TopicFormats, formats_of
from kavka.values import frozen

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

T = TypeVar("T")

_MISSING_TABLE: Final = re.compile(
    r'Table with name (?:"([^"\n]+)"|(\S+)) does not exist( because schema)?'
)
_POLL_S: Final = 0.1
_PLAIN_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NESTED: Final = ("STRUCT", "MAP", "UNION", "VARIANT")

Watch = Callable[[ScanState], None]
"""Called ten times a second while a statement runs."""


@frozen
class SessionOptions:
    """The options of a session."""

    settings: Mapping[str, Any]
    """A consumer's."""
    formats: FormatOptions = FormatOptions()
    is_strict: bool = False
    max_disorder_ms: int | None = None
    memory_limit: str = "1GB"
    is_confined: bool = False
    """Statements reach no file and no address, and change no setting of the engine."""


class Rows:
    """The result of a statement. It is read once, in one of three forms, before the next statement."""

    def __init__(self, session: Session, relation: duckdb.DuckDBPyRelation) -> None:
        """Wrap a statement that the engine has planned and not run yet."""
        self._session = session
        self._relation = relation
        self.names: list[str] = list(relation.columns)
        self.types: list[str] = [str(kind) for kind in relation.types]
        self.limit: int | None = None
        """Number of rows after which there are no more, None for no such."""
        self.before_batch: Callable[[], None] = _nothing
        """Called before rows are handed on."""
        self.while_waiting: Callable[[], None] = _nothing
        """Called ten times a second while the engine looks for more rows."""

    def arrow(self) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """Return the columns, and the rows with the engine's types."""
        schema, batches = self._session.read(self._relation, self.while_waiting)
        return schema, self._limited(batches)

    def _limited(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        remaining = self.limit
        for batch in batches:
            self.before_batch()
            yield batch if remaining is None else batch.slice(0, remaining)
            if remaining is not None:
                remaining -= min(remaining, batch.num_rows)
                if not remaining:
                    return

    def texts(self) -> Iterator[pa.RecordBatch]:
        """Yield rows of text, nested values as JSON; null stays null."""
        columns = [f"c{number}" for number in range(len(self.names))]
        shown = ", ".join(map(_as_text, columns, self.types))
        relation = self._relation.query("r", f"select {shown} from r as r({', '.join(columns)})")
        return self._limited(self._session.read(relation, self.while_waiting)[1])

    def json_lines(self) -> Iterator[pa.RecordBatch]:
        """Yield rows with one column, the JSON object of each row."""
        name = "r"
        while name in {one.lower() for one in self.names}:  # a column comes before a table
            name += "r"
        query = f"select to_json({name})::varchar from {name}"
        relation = self._relation.query(name, query)
        return self._limited(self._session.read(relation, self.while_waiting)[1])


def _nothing() -> None:
    pass


def _as_text(column: str, kind: str) -> str:
    is_nested = kind.startswith(_NESTED) or kind.endswith("]")
    return f"to_json({column})::varchar" if is_nested else f"{column}::varchar"


class Session:
    """SQL over the topics of a cluster. Not for several threads."""

    def __init__(self, options: SessionOptions, watch: Watch | None = None) -> None:
        """Connect. Raise ValueError for a wrong setting, ConnectionError when no broker answers."""
        self.options = options
        self.watch = watch
        self.brokers = Brokers({"isolation.level": "read_committed", **options.settings})
        self._directory = tempfile.TemporaryDirectory(prefix="kavka-sql-")
        self._engine: duckdb.DuckDBPyConnection | None = None
        self._tables: dict[str, TopicTable] = {}
        self._formats: dict[str, TopicFormats] = {}
        self._state = ScanState(self.brokers)
        self._reserved: set[str] | None = None
        self._reader: pa.RecordBatchReader | None = None
        self._for_one_statement: set[str] = set()
        """Tables whose names are those of other topics, but for upper and lower case."""
        self._worker = ThreadPoolExecutor(1, "kavka-sql-engine")

    def __enter__(self) -> Session:
        """Return itself; it is connected already."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close."""
        self.close()

    def close(self) -> None:
        """Close the engine and the connections."""
        self._end_reading()
        self._worker.shutdown()
        if self._engine is not None:
            self._engine.close()
        self.brokers.close()
        self._directory.cleanup()

    @property
    def engine(self) -> duckdb.DuckDBPyConnection:
        """The engine, started when it is first needed."""
        if self._engine is None:
            import duckdb

            self._engine = duckdb.connect(
                config={
                    # A variable of this program is no table, and nothing is fetched from the net unasked.
                    "python_enable_replacements": False,
                    "autoinstall_known_extensions": False,
                    "memory_limit": self.options.memory_limit,
                    "enable_external_access": not self.options.is_confined,
                    "temp_directory": self._directory.name,
                }
            )
            self._engine.execute("set TimeZone = 'UTC'")
            # Rows are handed on as they are found, not by the megabyte.
            self._engine.execute("set streaming_buffer_size = '16KB'")
            if self.options.is_confined:
                self._engine.execute("set lock_configuration = true")
        return self._engine

    # Topics

    def table(self, topic: str) -> TopicTable:
        """Return the table of a topic. Raise SqlError when it does not exist or its schema cannot be read."""
        if topic not in self._tables:
            try:
                formats = formats_of(topic, self.brokers, self.options.formats)
            except SchemaError as error:
                raise SqlError(str(error)) from error
            self._formats[topic] = formats
            self._tables[topic] = TopicTable(
                topic,
                self.brokers,
                formats.values,
                key_is_text=formats.key_is_text,
                value_is_text=formats.value_is_text,
                max_disorder_ms=self.options.max_disorder_ms,
            )
        return self._tables[topic]

    def quoted(self, name: str) -> str:
        """Return a name as a statement must have it."""
        if self._reserved is None:
            words = "select keyword_name from duckdb_keywords() where keyword_category = 'reserved'"
            rows = self._translated(lambda: self.engine.execute(words).fetchall())
            self._reserved = {word for (word,) in rows}
        if _PLAIN_NAME.fullmatch(name) and name.lower() not in self._reserved:
            return name
        escaped = name.replace('"', '""')
        return f'"{escaped}"'

    def known_columns(self, name: str) -> list[str]:
        """Return the columns of a topic, none when it does not exist or cannot be read."""
        with suppress(SqlError, KafkaError, OSError):
            return list(self.table(self.topic_of(name)).schema.names)
        return []

    def words(self) -> list[tuple[str, str]]:
        """Return the engine's keywords and functions, each with its kind."""
        query = (
            "select keyword_name, 'keyword' from duckdb_keywords() union all select distinct function_name, "
            "'function' from duckdb_functions() where function_name ~ '^[a-z][a-z0-9_]*$' order by 1"
        )
        rows: list[tuple[str, str]] = self._translated(
            lambda: self.engine.execute(query).fetchall()
        )
        return rows

    def note(self, topic: str) -> str:
        """Return where the columns of a topic come from."""
        self.table(topic)
        return self._formats[topic].note

    def topic_of(self, name: str) -> str:
        """Return the topic that a statement names. Raise SqlError when there is none."""
        topics = self.brokers.topics()
        topic = name if name in topics else _without_case(name, topics)
        if topic is None:
            raise SqlError(f"There is no topic {name}{self._hint(name, topics)}")
        return topic

    def _add_table(self, name: str, is_qualified: bool, statement: str) -> None:
        """Register a topic that a statement names with the engine. Raise SqlError when there is none."""
        topic = self.topic_of(name)
        if is_qualified:
            raise SqlError(f"The topic {topic} is to be quoted: {self.quoted(topic)}.")
        for other in _same_but_for_case(topic, self.brokers.topics()):
            if re.search(rf"(?<![\w.-]){re.escape(other)}(?![\w.-])", statement):
                raise SqlError(f"A statement can read only one of the topics {topic} and {other}.")
            self._for_one_statement.add(topic)
        source = self.table(topic).source(lambda: self._state)
        self.engine._register_arrow_source(topic, source)

    def _hint(self, name: str, topics: list[str]) -> str:
        """Return the end of a sentence about a topic that does not exist: those that may be meant, quoted if needed."""
        near = (
            get_close_matches(name, topics, 3)
            or [one for one in topics if one.startswith(name)][:3]
        )
        if near:
            return f"; did you mean {' or '.join(map(self.quoted, near))}?"
        shown = [one for one in topics if not one.startswith("__")][:10]
        return f". The topics are: {', '.join(shown)}." if shown else ". The cluster has no topics."

    # Statements

    def statements(self, text: str) -> list[str]:
        """Return the statements of a text. Raise SqlError when they cannot be parsed."""
        self._end_reading()
        self._state = self.new_state()  # what has ended the last statement is not this one's
        try:
            return self._translated(
                lambda: [one.query.strip() for one in self.engine.extract_statements(text)]
            )
        except SqlError as error:
            raise self._advised(error, text) from error

    def _advised(self, refusal: SqlError, text: str) -> SqlError:
        """Return a refusal with what to do about it, where that is known."""
        with suppress(KafkaError, OSError):
            advice = advice_on(str(refusal), text, self.brokers.topics(), self.quoted)
            if advice is not None:
                return SqlError(f"{refusal}\n{advice}")
        return refusal

    def execute(self, statement: str, feed: Feed | None = None) -> Rows | None:
        """Plan a statement; None for one without rows, which is done. Raise SqlError, KafkaError, OSError.

        With a `feed`, it reads those records in place of its topic's, and warnings count on.
        """
        self._end_reading()
        while self._for_one_statement:
            name = self._for_one_statement.pop()
            self._run(lambda name=name: self.engine.unregister(name))  # type: ignore[misc]
        state = self.new_state(feed)
        if feed:
            state.add_counts(self._state)
        self._state = state
        relation = self._planned(statement)
        if relation is None or not self._has_rows(statement):
            return None
        return Rows(self, relation)

    def _has_rows(self, statement: str) -> bool:
        """Return whether a statement gives more than the number of rows that it has changed."""
        import duckdb

        parsed = self._translated(lambda: self.engine.extract_statements(statement))
        return bool(parsed[0].expected_result_type[0] == duckdb.ExpectedResultType.QUERY_RESULT)

    def new_state(self, feed: Feed | None = None) -> ScanState:
        """Return the state of a statement that begins now."""
        return ScanState(self.brokers, is_strict=self.options.is_strict, feed=feed)

    @property
    def progress(self) -> ScanState:
        """The state of the last statement: how much its scans read."""
        return self._state

    @property
    def scans(self) -> list[Scan]:
        """The scans that the last statement has begun."""
        return self._state.scans

    def explain(self, statement: str) -> list[dict[str, Any]]:
        """Return the operators of a statement's plan, as the engine's JSON has them."""
        import json

        rows = self._translated(
            lambda: self.engine.execute(f"explain (format json) {statement}").fetchall()
        )
        plans: list[dict[str, Any]] = json.loads(rows[0][1])
        return plans

    def rows_of(self, reader: pa.RecordBatchReader) -> Rows:
        """Return rows that another engine made."""
        return Rows(self, self._translated(lambda: self.engine.from_arrow(reader)))

    def fail(self, failure: Exception) -> None:
        """Record the error that ended the rows of another engine."""
        self._state.failure = failure

    @property
    def warnings(self) -> list[str]:
        """Sentences about what the rows of the last statement lack."""
        return self._state.warnings()

    def _planned(self, statement: str) -> duckdb.DuckDBPyRelation | None:
        import duckdb

        tried: set[str] = set()
        if SHOW_TABLES.fullmatch(statement):
            statement = show_tables(self.brokers.topics())
        while True:
            try:
                return self._run(lambda: self.engine.sql(statement))
            except duckdb.CatalogException as error:
                missing = _MISSING_TABLE.search(str(error))
                name = missing and (missing[1] or missing[2])
                if not missing or not name or name in tried:
                    raise self._advised(SqlError(str(error)), statement) from error
                tried.add(name)
                self._add_table(name, missing[3] is not None, statement)
            except duckdb.Error as error:
                cause = self._cause(error)
                if isinstance(cause, SqlError):
                    cause = self._advised(cause, statement)
                raise cause from error

    def read(
        self, relation: duckdb.DuckDBPyRelation, while_waiting: Callable[[], None]
    ) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """Run what was planned, and call `while_waiting` now and then.

        The iterator raises SqlError, KafkaError, OSError and KeyboardInterrupt.
        """
        self._end_reading()
        self._reader = reader = self._translated(relation.to_arrow_reader)
        return reader.schema, self._batches(reader, while_waiting)

    def _batches(
        self, reader: pa.RecordBatchReader, while_waiting: Callable[[], None]
    ) -> Iterator[pa.RecordBatch]:
        try:
            while True:
                batch = self._translated(lambda: next(reader, None), while_waiting)
                if batch is None:
                    return
                yield batch
        finally:
            if self._reader is reader:
                self._end_reading()

    def _end_reading(self) -> None:
        """End a statement of which not all rows may have been read."""
        reader, self._reader = self._reader, None
        if reader is not None:
            self._state.cancel()
            self._run(reader.close)

    def _translated(
        self, work: Callable[[], T], while_waiting: Callable[[], None] | None = None
    ) -> T:
        """Run engine work; its errors become what has caused them."""
        import duckdb
        import pyarrow as pa

        try:
            return self._run(work, while_waiting)
        except (duckdb.Error, pa.ArrowException, OSError) as error:  # Arrow has OSErrors, too
            raise self._cause(error) from error

    def _cause(self, error: Exception) -> BaseException:
        """Return what has ended a scan, else the engine's error as a SqlError."""
        failure = self._state.failure
        if isinstance(failure, SqlError | KafkaError | OSError):
            return failure
        if failure is not None:
            raise failure
        return SqlError(_sentence(error))

    def _run(self, work: Callable[[], T], while_waiting: Callable[[], None] | None = None) -> T:
        """Run work in the engine's thread, and watch it; Ctrl-C ends it."""
        future: Future[T] = self._worker.submit(work)
        try:
            while True:
                try:
                    return future.result(_POLL_S)
                except FutureTimeout:
                    if future.done():
                        raise  # the work's own
                    if while_waiting is not None:
                        while_waiting()
                    if self.watch is not None:
                        self.watch(self._state)
        except KeyboardInterrupt:
            self._state.cancel()
            self.engine.interrupt()
            future.exception()
            raise


def _sentence(error: Exception) -> str:
    return str(error).strip() or type(error).__name__


def _same_but_for_case(topic: str, topics: list[str]) -> list[str]:
    return [one for one in topics if one != topic and one.lower() == topic.lower()]


def _without_case(name: str, topics: list[str]) -> str | None:
    """Return the only topic with a name in upper or lower case. Raise SqlError when there are several."""
    matches = [topic for topic in topics if topic.lower() == name.lower()]
    if len(matches) > 1:
        raise SqlError(
            f"There are topics {' and '.join(matches)}, and none is {name}: write one of them as it is."
        )
    return matches[0] if matches else None
