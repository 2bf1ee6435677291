"""Rows of tables and records of topics, sorted and compared with what a test expects. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

Row = dict[str, Any]


def sorted_rows(rows: Iterable[Row]) -> list[Row]:
    """Return rows sorted by their columns in order, None first."""
    return sorted(rows, key=lambda row: [_sort_key(value) for value in row.values()])


def _sort_key(value: Any) -> tuple[int, Any]:
    if value is None:
        return (0, 0)
    if isinstance(value, (int, float, Decimal)):
        return (1, value)
    if isinstance(value, datetime):
        return (2, _utc(value))
    return (3, value if isinstance(value, str) else repr(value))


def _utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def plain(value: Any) -> Any:
    """Return a value as JSON has it, so that what Spark and what a file says are compared.

    A time without a zone counts as UTC; bytes are text; numbers of equal value are equal.
    """
    if isinstance(value, Mapping):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    if isinstance(value, datetime):
        return _utc(value).isoformat()
    if isinstance(value, (date, time)):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return value


def differences(expected: Sequence[Any], actual: Sequence[Any]) -> list[str]:
    """Return lines that say which expected rows are missing and which rows are there besides; none when all fit.

    The order does not count. Of objects only the fields are compared that the expected ones name, in any of them.
    """
    wanted = [plain(row) for row in expected]
    names = {name for row in wanted if isinstance(row, dict) for name in row}
    unexpected = [_narrowed(plain(row), names) for row in actual]
    missing = []
    for row in wanted:
        padded = dict.fromkeys(names) | row if isinstance(row, dict) else row
        if padded in unexpected:
            unexpected.remove(padded)
        else:
            missing.append(row)
    lines = [f"  missing:    {_shown(row)}" for row in missing]
    return lines + [f"  unexpected: {_shown(row)}" for row in unexpected]


def _narrowed(row: Any, names: set[str]) -> Any:
    if not isinstance(row, dict) or not names:
        return row
    return {name: row.get(name) for name in names}


def _shown(row: Any) -> str:
    return json.dumps(row, ensure_ascii=False, default=str, sort_keys=True)
