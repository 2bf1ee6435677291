"""Headers of dead letters: where a record came from, and why it could not be processed. Pure.

Names are those of Kafka Connect with another prefix, and Connect's own are read too. Values are text in UTF-8.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kavka.values import frozen

HEADER_PREFIX: Final = "__kavka.errors."
_CONNECT_PREFIX: Final = "__connect.errors."
TOPIC: Final = HEADER_PREFIX + "topic"
PARTITION: Final = HEADER_PREFIX + "partition"
OFFSET: Final = HEADER_PREFIX + "offset"
TIMESTAMP: Final = HEADER_PREFIX + "timestamp"
STAGE: Final = HEADER_PREFIX + "stage"
CLASS_NAME: Final = HEADER_PREFIX + "exception.class.name"
MESSAGE: Final = HEADER_PREFIX + "exception.message"
STACKTRACE: Final = HEADER_PREFIX + "exception.stacktrace"

Headers = Iterable[tuple[str, bytes | None]]


@frozen
class DeadLetter:
    """The content of a dead letter's headers; None for what they do not have."""

    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    timestamp_ms: int | None = None
    stage: str = ""
    class_name: str = ""
    message: str = ""

    @property
    def reason(self) -> str:
        """Return stage, class and message in one line."""
        kind = self.class_name.rpartition(".")[2]
        parts = [self.stage, f"{kind}: {self.message}" if kind else self.message]
        return " ".join(" ".join(part for part in parts if part).split())


def dead_letter_of(headers: Headers) -> DeadLetter:
    """Return what headers say; a header that is there twice counts as it is last."""
    found: dict[str, str] = {}
    for name, value in headers:
        for prefix in (HEADER_PREFIX, _CONNECT_PREFIX):
            if name.startswith(prefix) and value is not None:
                found[name.removeprefix(prefix)] = value.decode("utf-8", "replace")
    return DeadLetter(
        found.get("topic"),
        _number(found.get("partition")),
        _number(found.get("offset")),
        _number(found.get("timestamp")),
        found.get("stage", ""),
        found.get("exception.class.name", ""),
        found.get("exception.message", ""),
    )


def dead_letter_headers(letter: DeadLetter, headers: Headers) -> list[tuple[str, bytes | None]]:
    """Return a record's own headers, and after them those of its dead letter; what is not known has none."""
    facts = {
        TOPIC: letter.topic,
        PARTITION: letter.partition,
        OFFSET: letter.offset,
        TIMESTAMP: letter.timestamp_ms,
        STAGE: letter.stage or None,
        CLASS_NAME: letter.class_name or None,
        MESSAGE: letter.message or None,
    }
    added = [(name, str(fact).encode()) for name, fact in facts.items() if fact is not None]
    return [*original_headers(headers), *added]


def original_headers(headers: Headers) -> tuple[tuple[str, bytes | None], ...]:
    """Return headers without those of dead letters."""
    prefixes = (HEADER_PREFIX, _CONNECT_PREFIX)
    return tuple((name, value) for name, value in headers if not name.startswith(prefixes))


def _number(text: str | None) -> int | None:
    try:
        return None if text is None else int(text)
    except ValueError:
        return None
