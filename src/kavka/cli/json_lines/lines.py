"""The two streams of a command with `--json`: an object per answer on standard output, one failure on standard error.

Exit code 0 means that nothing failed. With any other there is exactly one object with `error` on standard error, and
what was done before the failure is on standard output. Objects with `warning` may come before it.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from kavka.cli.json_lines.declaration import Shape
from kavka.errors import KafkaError

Row = Mapping[str, Any]

OPTION: Final = "json"
"""The name of the option that asks for JSON."""


def print_rows(shape: Shape, rows: Iterable[Row]) -> None:
    """Print objects of a shape, each in its line; the text is ASCII, for terminals of any encoding."""
    for row in rows:
        sys.stdout.write(json_line(shape, row))
    sys.stdout.flush()


def json_line(shape: Shape, row: Row) -> str:
    """Return the line of an object of a shape."""
    assert row.keys() == shape.fields.keys(), (shape.calls, sorted(row))
    return _line(row)


def print_outcomes(shape: Shape, rows: Iterable[Row]) -> int:
    """Print objects that have an `error` where something was refused, and return 1, after one failure, if any has."""
    printed = list(rows)
    print_rows(shape, printed)
    errors = [row["error"] for row in printed if row["error"] is not None]
    if not errors:
        return 0
    first = errors[0]
    if len(printed) == 1:
        return print_failure(first["code"], first["message"])
    return print_failure(
        first["code"], f"{len(errors)} of {len(printed)} failed, first: {first['message']}"
    )


def print_failure(code: str, message: str, exit_code: int = 1) -> int:
    """Print why a command ends with an exit code, and return that."""
    sys.stdout.flush()
    error = {"code": code, "message": message}
    sys.stderr.write(_line({"error": error, "exit_code": exit_code}))
    return exit_code


def print_error(error: BaseException) -> int:
    """Print an exception as the failure of a command, and return 1."""
    found = error_object(error)
    return print_failure(found["code"], found["message"])


def print_warning(message: str) -> None:
    """Print what a user should know about a command that goes on."""
    sys.stdout.flush()
    sys.stderr.write(_line({"warning": message}))


def error_object(error: BaseException) -> dict[str, str]:
    """Return `code`, Kafka's name of a refusal or one of this command's, and `message`."""
    if isinstance(error, KafkaError):
        return {"code": error.code.name, "message": error.detail or error.code.message}
    return {"code": _code_of(error), "message": str(error).strip() or type(error).__name__}


def error_or_none(outcome: object) -> dict[str, str] | None:
    """Return the error of an outcome that may be an exception, None for any other."""
    return error_object(outcome) if isinstance(outcome, BaseException) else None


def wants_json(argv: Iterable[str]) -> bool:
    """Return whether a command line asks for JSON, even one that cannot be understood."""
    return any(word in (f"--{OPTION}", f"-{OPTION}") for word in argv)


@contextmanager
def logged_as_warnings() -> Iterator[None]:
    """Print what the client logs meanwhile as objects, too."""
    handler = _Handler(logging.WARNING)
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)


class _Handler(logging.Handler):
    """Prints records as warnings."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print one."""
        print_warning(record.getMessage())


def _code_of(error: BaseException) -> str:
    named: str | None = getattr(error, "json_code", None)
    if named is not None:
        return named
    if isinstance(error, TimeoutError):
        return "REQUEST_TIMED_OUT"
    if isinstance(error, OSError):
        return "NETWORK_EXCEPTION"
    return "BAD_VALUE" if isinstance(error, ValueError) else "FAILED"


def _line(row: Row) -> str:
    return json.dumps(row, separators=(",", ":")) + "\n"
