"""Errors of Spark as sentences for people who run pipelines. Pure."""

from __future__ import annotations

import re

from kavka.spark.errors import message_of, sentence_of

_ERROR_OF_EVENT = re.compile(r"\s+Error:\s+")
_LATE_WORKER = "Python worker failed to connect back"
_HINTS = (
    (
        "Failed to resolve flows in the pipeline",
        "`kavka pipelines check` says why, with file and line",
    ),
    (
        _LATE_WORKER,
        "a process of Python did not start within Spark's ten seconds, because the machine was busy, or "
        "PYSPARK_PYTHON names no Python with PySpark. The next start continues where this one ended",
    ),
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
"""Parts of Spark's messages, and the advice for each."""


def query_failure(text: str) -> str:
    """Return what went wrong as one line, with what to do about it where that is known."""
    sentence = sentence_of(Exception(text))
    if sentence is not None:
        return sentence
    line, hint = message_of(text), hint_of(text)
    return f"{line.rstrip('.')}: {hint}" if hint and line else line or "an error without a message"


def event_and_error(message: str) -> tuple[str, str]:
    """Return an event of an update, such as `Flow x has FAILED. Error: ...`, and its error as a sentence, if any."""
    event, *error = _ERROR_OF_EVENT.split(message, maxsplit=1)
    return " ".join(event.split()), query_failure(error[0]) if error else ""


def hint_of(text: str) -> str | None:
    """Return what to do about an error, None when nothing better is known than its message."""
    return next((hint for mark, hint in _HINTS if mark in text), None)


def is_late_worker(text: str) -> bool:
    """Return whether Spark gave up on a process of Python that started too slowly: a failure of a busy machine."""
    return _LATE_WORKER in text
