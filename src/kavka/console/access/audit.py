"""The audit of the console: one line of JSON for each login, change, statement of SQL and refusal.

A line has no values of records, no passwords and no tokens; JSON escapes line breaks, so no value makes a second line.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

log = logging.getLogger(__name__)

_SECRET: Final = ("password", "csrf_token", "code", "state")
_MOST_CHARACTERS: Final = 500
_MOST_OF: Final = {"statement": 20_000}
"""Characters of values that are longer than others: of a statement all, or it would be hidden behind a comment."""


def record(
    user: str, source: str, address: str, action: str, on: Mapping[str, str], result: str
) -> None:
    """Write a line; `on` are names and values of the request, `result` is ok or the reason of a failure."""
    log.info(
        "%s",
        json.dumps(
            {
                "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
                "user": user[:_MOST_CHARACTERS],
                "source": source,
                "address": address,
                "action": action,
                "on": {
                    name: _bounded(value, _MOST_OF.get(name, _MOST_CHARACTERS))
                    for name, value in on.items()
                    if name not in _SECRET and value
                },
                "result": result[:_MOST_CHARACTERS],
            }
        ),
    )


def _bounded(value: str, most: int) -> str:
    """Return a value, or its beginning and how long it is: what follows is known to be missing."""
    return value if len(value) <= most else f"{value[:most]}… ({len(value):,} characters)"
