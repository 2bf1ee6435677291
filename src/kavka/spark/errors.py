"""Errors of the connector as one sentence, also after their way through Spark's JVM."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

from kavka.errors import KafkaError
from kavka.wire.codec import CorruptFrame
from kavka.wire.records.corrupt import CorruptBatch


class ConnectorError(Exception):
    """The connector cannot do what was asked; the message is one sentence on one line."""


_MARK = f"{ConnectorError.__module__}.{ConnectorError.__qualname__}: "
_SENTENCE = re.compile(re.escape(_MARK) + r"(.+)")
_CLASS = re.compile(r"^(?:[a-z_][\w$]*\.)+[A-Z][\w$]*(?:Exception|Error)?:\s*")
"""`org.apache.spark.SomeException: ` before a message."""
_PARENTHESES = re.compile(r"^\((?:[a-z_][\w$]*\.)+[A-Z][\w$]*\)\s*")
_QUERY_FAILED = re.compile(r"^\[STREAM_FAILED\] Query \[id = [^]]*\] terminated with exception: ")
_RAISED = re.compile(r"^\[USER_RAISED_EXCEPTION\] ")
"""Before what an expression of the flow itself has raised, such as an expectation."""
_STACK = re.compile(r"\n\s+at |\nJVM stacktrace|\n=== Streaming Query ===|\n\nJVM|\n== SQL")
_SQL_STATE = re.compile(r"(\s*SQLSTATE: \w+)+(?: \(line \d+, pos \d+\))?$")
_LIMIT = 600


@contextmanager
def one_sentence() -> Iterator[None]:
    """Turn what the caller, the broker or the network got wrong into a ConnectorError without a stack trace.

    Spark puts the trace of its own worker loop in front of every exception of a data source, unless
    SPARK_HIDE_TRACEBACK is set in the worker; the worker ends after an exception, so setting it here reaches no other.
    """
    try:
        yield
    except ConnectorError:
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise
    except (KafkaError, OSError, ValueError, CorruptBatch, CorruptFrame) as error:
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        text = " ".join(str(error).split()) or type(error).__name__
        raise ConnectorError(text) from None


def sentence_of(error: BaseException) -> str | None:
    """Return the connector's sentence inside an exception of PySpark or of py4j; None when there is none."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, ConnectorError):
            return str(seen)
        match = _SENTENCE.search(str(seen))
        if match is not None:
            return _SQL_STATE.sub("", match[1].strip())
        seen = seen.__cause__ or seen.__context__
    return None


def message_of(text: str) -> str:
    """Return what an exception of Spark says as one line: its message without classes and stack."""
    head = _STACK.split(text, maxsplit=1)[0].strip()
    before = None
    while before != head:
        before = head
        head = _PARENTHESES.sub("", _CLASS.sub("", head))
        head = _RAISED.sub("", _QUERY_FAILED.sub("", head))
    line = _SQL_STATE.sub("", " ".join(head.split()))
    return f"{line[:_LIMIT]}..." if len(line) > _LIMIT else line
