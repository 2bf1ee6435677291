"""Errors of Spark as sentences for people who run pipelines. Pure."""

from __future__ import annotations

import re

from kavka.spark.errors import sentence_of

_CLASS = re.compile(r"^(?:[a-z_][\w$]*\.)+[A-Z][\w$]*(?:Exception|Error)?:\s*")
"""`org.apache.spark.SomeException: ` before a message."""
_PARENTHESES = re.compile(r"^\((?:[a-z_][\w$]*\.)+[A-Z][\w$]*\)\s*")
_QUERY_FAILED = re.compile(r"^\[STREAM_FAILED\] Query \[id = [^]]*\] terminated with exception: ")
_RAISED = re.compile(r"^\[USER_RAISED_EXCEPTION\] ")
"""Before what an expression of the flow itself has raised, such as an expectation."""
_STACK = re.compile(r"\n\s+at |\nJVM stacktrace|\n=== Streaming Query ===|\n\nJVM|\n== SQL")
_SQL_STATE = re.compile(r"(\s*SQLSTATE: \w+)+$")
_LIMIT = 600

_HINTS = (
    (
        "LOCATION_ALREADY_EXISTS",
        "the table was made by a run whose catalogue was forgotten with it. Keep tables in a catalogue that stays: "
        "spark.sql.catalogImplementation hive, with spark.sql.warehouse.dir, in spark-defaults.conf beside the "
        "specification (`kavka pipelines init` writes one). Then remove the folder of the table and the checkpoint of "
        "its flows, which fill it again",
    ),
    (
        "CANNOT_MODIFY_STATIC_CONFIG",
        "Spark takes this setting at the driver's start only: move it from the specification's `configuration` to "
        "spark-defaults.conf beside it",
    ),
    (
        "Another instance of Derby may have already booted the database",
        "another process has this project's catalogue open: stop that run first, or use a metastore that several can "
        "share (spark.hadoop.hive.metastore.uris)",
    ),
    (
        "SessionHiveMetaStoreClient",
        "the catalogue of tables cannot be opened: has another process this project open? spark.log in the storage "
        "says more",
    ),
    (
        "INCOMPATIBLE_CHECKPOINT",
        "the flow's code does not fit to its checkpoint: `kavka pipelines reset FLOW` begins from the start",
    ),
    (
        "CANNOT_LOAD_STATE_STORE",
        "the flow's state is not readable with this code: `kavka pipelines reset FLOW` begins from the start",
    ),
)
"""What stands in a message, and what to do then."""


def query_failure(text: str) -> str:
    """Return what went wrong as one line: the connector's sentence, or Spark's message without classes and stack."""
    sentence = sentence_of(Exception(text))
    if sentence is not None:
        return sentence
    head = _STACK.split(text, maxsplit=1)[0].strip()
    before = None
    while before != head:
        before = head
        head = _PARENTHESES.sub("", _CLASS.sub("", head))
        head = _RAISED.sub("", _QUERY_FAILED.sub("", head))
    line = _SQL_STATE.sub("", " ".join(head.split()))
    if len(line) > _LIMIT:
        line = f"{line[:_LIMIT]}..."
    hint = hint_of(text)
    return f"{line}: {hint}" if hint and line else line or "an error without a message"


def hint_of(text: str) -> str | None:
    """Return what to do about an error, None when nothing better is known than its message."""
    return next((hint for mark, hint in _HINTS if mark in text), None)
