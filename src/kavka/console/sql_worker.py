"""One statement of the engine of `kavka sql`, in a process of its own.

The question is on standard input, the answer on standard output.

The console kills the process to end a statement. It ends by itself, too: after its time, whatever the console does.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Mapping
from contextlib import closing
from typing import Any, Final

from kavka.errors import KafkaError
from kavka.sql.errors import SqlError
from kavka.sql.scan_state import ScanState
from kavka.sql.session import Session, SessionOptions
from kavka.sql.value_formats import FormatOptions

_MOST_BYTES: Final = 8_000_000
_GRACE_S: Final = 10


class _Late(Exception):
    """The time is over."""


class _Deadline:
    """Ends a statement that takes too long; what it has found until then is kept."""

    def __init__(self, seconds: float) -> None:
        self._at = time.monotonic() + seconds

    def check(self, _state: ScanState | None = None) -> None:
        if time.monotonic() >= self._at:
            raise _Late


def session_for(question: Mapping[str, Any]) -> Session:
    """Return a session that reaches no file. Raise as `Session`."""
    options = SessionOptions(
        question["settings"],
        FormatOptions(registry=question["registry"]),
        memory_limit=question["memory"],
        is_confined=True,
    )
    return Session(options)


def answer_of(session: Session, question: Mapping[str, Any]) -> dict[str, Any]:
    """Return the rows of a statement as texts, the reason of its end, and what was read.

    Raise SqlError, KafkaError, OSError.
    """
    deadline = _Deadline(question["seconds"])
    session.watch = deadline.check
    answer: dict[str, Any] = {"names": [], "types": [], "rows": [], "ended": "end"}
    try:
        _run(session, question, answer, deadline)
    except _Late:
        answer["ended"] = "time"
    state = session.progress
    warnings = [text.replace(" (--strict ends at the first)", "") for text in session.warnings]
    return {
        **answer,
        "offsets": state.offsets_done,
        "of": state.offsets_total,
        "warnings": warnings,
    }


def _run(
    session: Session, question: Mapping[str, Any], answer: dict[str, Any], deadline: _Deadline
) -> None:
    statements = session.statements(question["statement"])
    if len(statements) != 1:
        raise SqlError(f"These are {len(statements)} statements: give one.")
    rows = session.execute(statements[0])
    if rows is None:
        return
    answer["names"], answer["types"] = rows.names, rows.types
    size = 0
    with closing(rows.texts()) as batches:  # type: ignore[type-var]
        for batch in batches:
            found = list(zip(*(column.to_pylist() for column in batch.columns), strict=True))
            for row in found:
                if len(answer["rows"]) == question["rows"]:
                    answer["ended"] = "rows"
                    return
                size += sum(len(cell) for cell in row if cell)
                answer["rows"].append(row)
                if size > _MOST_BYTES:
                    answer["ended"] = "bytes"
                    return
            deadline.check()


def main() -> None:
    """Answer one question."""
    question = json.load(sys.stdin)
    signal.alarm(int(question["seconds"]) + _GRACE_S)
    try:
        answer = answer_of(session_for(question), question)
    except (SqlError, KafkaError, OSError, ValueError) as error:
        answer = {"error": str(error)}
    sys.stdout.write(json.dumps(answer))
    sys.stdout.flush()
    os._exit(0)  # threads of the engine may still be at work


if __name__ == "__main__":
    main()
