"""The table of what cost most, worst first."""

from __future__ import annotations

import math
from collections.abc import Sequence

from kavka_fuzz.search import Finding

_HEAD = (
    "API",
    "frame bytes",
    "loop CPU ms",
    "other client ms",
    "Apache Kafka ms",
    "growth MB",
    "total ms",
    "answer",
    "wrong",
    "replay",
)


def table(findings: Sequence[Finding], files: Sequence[str]) -> str:
    """Return the findings as a table; `files` are those to replay."""
    rows = [_HEAD, *(_row(each, file) for each, file in zip(findings, files, strict=True))]
    widths = [max(len(row[place]) for row in rows) for place in range(len(_HEAD))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    ]
    return "\n".join(line.rstrip() for line in lines)


def _row(finding: Finding, file: str) -> tuple[str, ...]:
    cost, apache = finding.cost, finding.apache_ms
    beside = "" if apache is None else "failed" if math.isnan(apache) else f"{apache:.0f}"
    wrong = "; ".join(finding.reasons) if finding.is_asserted else "larger than 1 MB: not judged"
    return (
        finding.recipe.title,
        str(cost.bytes),
        f"{cost.loop_ms:.0f}",
        f"{cost.wall_ms:.0f}",
        beside,
        f"{cost.growth_mb:.0f}",
        f"{cost.total_ms:.0f}",
        cost.outcome,
        wrong[:60] or "nothing",
        file,
    )
