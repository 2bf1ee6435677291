"""`kavka sql`: query topics with SQL, once, continuously, or in a shell."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from kavka.cli.arguments.client_properties import read_properties
from kavka.cli.arguments.options import BadValue
from kavka.cli.arguments.tool_parser import ToolParser
from kavka.cli.text.standard_streams import is_reader_gone
from kavka.client.config import CONSUMER
from kavka.client.setting_names import effective_settings
from kavka.errors import KafkaError
from kavka.settings.text_files import MAX_SETTINGS, decoded
from kavka.termination import termination_as_interrupt

if TYPE_CHECKING:
    from kavka.sql.on_spark import SparkEngine
    from kavka.sql.output import Output
    from kavka.sql.session import Rows, Session, SessionOptions

_FORMATS = ("table", "csv", "json", "parquet", "arrow")
_BINARY = ("parquet", "arrow")
_MODULES = ("duckdb", "pyarrow", "prompt_toolkit", "rich", "wcwidth")


class _Misuse(Exception):
    """The options do not go together, or a value is wrong; the sentence is for the user."""


def _typed() -> str:
    """Return the statements of standard input. Raise ValueError when these are no text, or have no end."""
    content = sys.stdin.buffer.read(MAX_SETTINGS + 1)
    if len(content) > MAX_SETTINGS:
        raise ValueError(
            f"standard input has more than {MAX_SETTINGS} bytes, which are no statements"
        )
    return decoded(content)


def main(argv: list[str]) -> int:
    """Run the command: 0 done, 1 failed or not understood, 130 after Ctrl-C and SIGTERM."""
    try:
        given = _parser().parse_args(argv)
    except SystemExit as error:
        return 0 if error.code == 0 else 1
    try:
        with termination_as_interrupt():
            return _Command(given).run()
    except BrokenPipeError:
        raise
    except ModuleNotFoundError as error:
        library, _, part = (error.name or "").partition(".")
        if library not in _MODULES:
            raise
        found = f"this release of {library} does not fit" if part else f"{library} is missing"
        return _failed(f"{found}: install it with `pip install 'kavka[sql]'`")
    except OSError as error:
        if (
            not error.filename
            and error.errno is not None
            and not isinstance(error, ConnectionError)
        ):
            raise  # of standard output: the disk is full
        return _failed(str(error))
    except (KafkaError, BadValue, _Misuse, ValueError) as error:
        return _failed(str(error))


def _failed(sentence: str) -> int:
    print(f"kavka sql: {sentence}", file=sys.stderr)
    return 1


class _Command:
    """One call."""

    def __init__(self, given: argparse.Namespace) -> None:
        self._given = given
        self._stack = ExitStack()
        self._session: Session
        self._spark: SparkEngine | None = None
        self._hide: Callable[[], None] = _nothing

    def run(self) -> int:
        """Run what was asked for. Raise as `main` catches."""
        from kavka.sql.errors import SqlError

        self._check()
        try:
            with self._stack:
                self._open()
                statements = self._statements()
                if statements is None:
                    return self._shell()
                with self._sink() as sink:
                    for statement in statements:
                        self._act(statement, sink, self._given.output)
                return 0
        except SqlError as error:
            self._hide()
            return _failed(str(error))

    def _check(self) -> None:
        given = self._given
        if given.follow and given.spark:
            raise _Misuse("--follow and --spark do not go together: Spark's way is a pipeline")
        if given.from_beginning and not given.follow:
            raise _Misuse("--from-beginning goes with --follow; without it a statement reads all")
        if given.follow and given.statement is None:
            raise _Misuse("--follow needs a statement")
        if given.output in _BINARY and given.output_file is None and sys.stdout.isatty():
            raise _Misuse(f"{given.output} is not for a terminal: give --output-file, or a pipe")
        if given.output_file is not None and given.statement is None and sys.stdin.isatty():
            raise _Misuse("--output-file needs a statement")

    def _open(self) -> None:
        from kavka.sql.session import Session

        options = _session_options(self._given)
        watch = None
        if sys.stderr.isatty() and not self._given.no_progress:
            from kavka.sql.progress import ScanProgress

            watch = ScanProgress()
            self._hide = watch.hide
            self._stack.callback(watch.hide)
        self._session = self._stack.enter_context(Session(options, watch))

    def _statements(self) -> list[str] | None:
        """Return the statements to run, None for a shell."""
        given = self._given
        if given.statement is None and sys.stdin.isatty():
            return None
        text = _typed() if given.statement is None else given.statement
        if given.spark or given.follow:
            return [text.strip().rstrip(";")]
        statements = self._session.statements(text)
        if not statements:
            raise _Misuse("there is no statement")
        return statements

    @contextmanager
    def _sink(self) -> Iterator[BinaryIO]:
        """Open the output; a file has its name only once it is complete."""
        path: Path | None = self._given.output_file
        if path is None:
            yield sys.stdout.buffer
            return
        is_file = path.is_file() or not path.exists()  # and no device or pipe
        written = path.with_name(f".{path.name}.{os.getpid()}") if is_file else path
        try:
            file = written.open("wb")
        except OSError as error:
            raise _Misuse(f"{path} cannot be written: {error.strerror}") from error
        try:
            with file:
                yield file
            if is_file:
                written.replace(path)
        except BaseException:
            if is_file:
                written.unlink(missing_ok=True)
            raise

    def _act(self, statement: str, sink: BinaryIO, kind: str) -> None:
        """Run one statement, write its rows, and warn of what they lack."""
        from kavka.sql.output import output_to

        is_terminal = sink is sys.stdout.buffer and sys.stdout.isatty()
        output = output_to(sink, kind, is_terminal=is_terminal)
        try:
            if self._given.follow:
                # `head` ends when it has its lines, and no further record may come.
                is_over = is_reader_gone if sink is sys.stdout.buffer else _never
                self._follow(statement, output, is_over)
            else:
                rows = self._execute(statement)
                if rows is not None:
                    self._write(output, rows)
            output.close()
        finally:
            self._hide()
            for sentence in self._session.warnings:
                print(f"kavka sql: {sentence}", file=sys.stderr)

    def _execute(self, statement: str) -> Rows | None:
        if not self._given.spark:
            return self._session.execute(statement)
        from kavka.sql.on_spark import SparkEngine

        if self._spark is None:
            self._spark = SparkEngine(self._session, self._given.master)
            self._stack.callback(self._spark.close)
        return self._spark.execute(statement)

    def _write(self, output: Output, rows: Rows) -> None:
        rows.before_batch = self._hide
        output.write(rows)

    def _follow(self, statement: str, output: Output, is_over: Callable[[], bool]) -> None:
        from kavka.sql.follow import Follower, followed

        plan = followed(self._session, statement)
        follower = Follower(self._session, plan, self._given.from_beginning)
        try:
            if plan.limit == 0:
                return
            for rows in follower.pieces(is_over):
                rows.limit = None if plan.limit is None else plan.limit - output.row_count
                output.write(rows)
                if plan.limit is not None and output.row_count >= plan.limit:
                    return
        finally:
            follower.close()

    def _shell(self) -> int:
        from kavka.sql.shell import Shell

        def follow(statement: str, kind: str) -> None:
            self._given.follow = True
            try:
                self._act(statement, sys.stdout.buffer, kind)
            finally:
                self._given.follow = False

        return Shell(
            self._session,
            lambda statement, kind: self._act(statement, sys.stdout.buffer, kind),
            follow,
        ).loop()


def _nothing() -> None:
    pass


def _never() -> bool:
    return False


def _session_options(given: argparse.Namespace) -> SessionOptions:
    """Return the session's options. Raise BadValue, _Misuse, ValueError."""
    from kavka.sql.session import SessionOptions
    from kavka.sql.value_formats import FormatOptions

    settings: dict[str, Any] = effective_settings(CONSUMER, read_properties(given.command_config))
    for name in ("key.deserializer", "value.deserializer", "group.id", "group.instance.id"):
        settings.pop(name, None)  # of the program that shares the file
    settings["bootstrap.servers"] = given.bootstrap_server
    settings.setdefault("client.id", "kavka-sql")
    settings["isolation.level"] = given.isolation_level
    return SessionOptions(
        settings,
        FormatOptions(
            given.value_format,
            given.key_format,
            _schema_files(given.schema),
            _registry_settings(given),
            given.sample,
        ),
        is_strict=given.strict,
        max_disorder_ms=None if given.max_disorder is None else int(given.max_disorder * 1000),
        memory_limit=given.memory_limit,
    )


def _schema_files(words: list[str]) -> dict[str, str]:
    files: dict[str, str] = {}
    for word in words:
        topic, equals, file = word.rpartition("=")
        files[topic if equals else ""] = file
    return files


def _registry_settings(given: argparse.Namespace) -> dict[str, str]:
    """Return the settings of the registry. Raise BadValue, _Misuse, ValueError."""
    from kavka.client.schemas.registry import SchemaRegistry

    if given.schema_registry is None:
        if given.schema_registry_config is not None:
            raise _Misuse("--schema-registry-config goes with --schema-registry")
        return {}
    settings = {**read_properties(given.schema_registry_config), "url": given.schema_registry}
    SchemaRegistry(settings)
    return settings


def _parser() -> ToolParser:
    parser = ToolParser(
        "kavka sql",
        description="Query topics with SQL: each topic is a table with the columns topic, partition, offset, "
        "timestamp, key, value, headers and the fields of its values. Without a statement, a shell.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("statement", nargs="?", help="what to run; without it a shell, or what standard input has")
    add(
        "--bootstrap-server",
        required=True,
        metavar="SERVERS",
        help="brokers, as host:port,host:port",
    )
    add("--command-config", metavar="FILE", help="a properties file with settings of the consumer")
    add("--isolation-level", choices=("read_committed", "read_uncommitted"), default="read_committed",
        help="whether records of open and aborted transactions are seen (default read_committed)")  # fmt: skip
    _add_formats(parser)
    add("--strict", action="store_true",
        help="end at the first value that cannot be decoded, and when records are removed meanwhile")  # fmt: skip
    add("--max-disorder", type=float, metavar="SECONDS",
        help="how much older than a record before it a record may be: then a scan ends at a time in WHERE")  # fmt: skip
    add("--memory-limit", default="1GB", metavar="SIZE",
        help="memory of the engine, beyond which it uses temporary files (default 1GB)")  # fmt: skip
    add("--output", choices=_FORMATS, default="table", help="form of the rows (default table)")
    add("--output-file", type=Path, metavar="FILE", help="write there and not to standard output")
    add("--follow", action="store_true",
        help="go on with records as they arrive; for filters and projections of one topic")  # fmt: skip
    add("--from-beginning", action="store_true", help="with --follow: begin with the first record")
    add("--spark", action="store_true", help="run the statement on Spark (extra spark)")
    add("--master", default="local[2]", help="Spark's master (default local[2])")
    add("--no-progress", action="store_true", help="no progress bar on a terminal")
    return parser


def _add_formats(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--schema", action="append", default=[], metavar="[TOPIC=]FILE",
        help="schema of the values of a topic, or of every topic that has none of its own: a JSON Schema (.json), "
        "an Avro schema (.avsc), a Protobuf file (.proto, with #Message for another than its first)")  # fmt: skip
    add(
        "--schema-registry",
        metavar="URL",
        help="the schema registry of values that Confluent's serializers wrote",
    )
    add("--schema-registry-config", metavar="FILE",
        help="a properties file with its settings: basic.auth.user.info, ssl.ca.location and the like")  # fmt: skip
    add("--value-format", choices=("auto", "json", "text", "bytes"), default="auto",
        help="what values are (default auto: found out from a sample)")  # fmt: skip
    add("--key-format", choices=("auto", "text", "bytes"), default="auto",
        help="what keys are (default auto)")  # fmt: skip
    add("--sample", type=_count, default=1000, metavar="RECORDS",
        help="records from which fields are inferred (default 1000)")  # fmt: skip


def _count(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() else 0
    if not 0 < number <= 1_000_000:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 to 1000000")
    return number
