"""Metrics of a source, computed from the progress of a query. Pure.

Spark's connector reports them as `sources[].metrics`. Spark 4.3 asks no source in Python for metrics or a description,
but the offsets from which they come are in the progress.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from kavka.spark.offsets import Offsets, from_json


def source_metrics(source: Mapping[str, Any]) -> dict[str, str]:
    """Return min, max and avgOffsetsBehindLatest as Spark's connector names and writes them.

    `source` is one of `progress["sources"]`: of a listener, of `lastProgress` or of its JSON. Nothing is returned
    before the query has seen where its topics end.
    """
    end, latest = _offsets(source.get("endOffset")), _offsets(source.get("latestOffset"))
    behind = [offset - end[one] for one, offset in latest.items() if one in end]
    if not behind:
        return {}
    return {
        "minOffsetsBehindLatest": str(min(behind)),
        "maxOffsetsBehindLatest": str(max(behind)),
        "avgOffsetsBehindLatest": _as_java(sum(behind) / len(behind)),
    }


def _offsets(report: Any) -> Offsets:
    """Read offsets, which PySpark gives as text and the JSON of a progress as an object."""
    value = json.loads(report) if isinstance(report, str) else report
    return from_json(value) if isinstance(value, dict) else {}


def _as_java(number: float) -> str:
    """Return a number as Java's `Double.toString`."""
    if number == 0 or 1e-3 <= abs(number) < 1e7:
        return str(number)
    sign, digits, exponent = Decimal(repr(number)).normalize().as_tuple()
    assert isinstance(exponent, int), "a lag is finite"
    fraction = "".join(map(str, digits[1:])) or "0"
    return f"{'-' if sign else ''}{digits[0]}.{fraction}E{exponent + len(digits) - 1}"
