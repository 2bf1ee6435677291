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
        found = _SENTENCE.search(str(seen))
        if found is not None:
            return found[1].strip()
        seen = seen.__cause__ or seen.__context__
    return None
