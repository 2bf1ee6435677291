"""Rows of a statement as Python has them."""

from __future__ import annotations

import json
from typing import Any

from kavka.sql.session import Session


def rows(session: Session, statement: str) -> list[dict[str, Any]]:
    """Run a statement and return its rows, by column."""
    found = session.execute(statement)
    assert found is not None, "the statement has no rows"
    return [
        json.loads(line) for batch in found.json_lines() for line in batch.column(0).to_pylist()
    ]


def values(session: Session, statement: str) -> list[Any]:
    """Run a statement and return its first column."""
    return [next(iter(row.values())) for row in rows(session, statement)]
