"""The demo's report: a self-contained HTML page with plots, tables and the audit. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape
from itertools import pairwise
from typing import Any

from kavka.demo.audit import Check
from kavka.demo.plots import Series, bars, by_time, histogram
from kavka.demo.replay import Tally

Row = Mapping[str, Any]
_TOP_PAGES, _TOP_SEARCHES, _TOP_VISITORS = 15, 10, 12
_SESSION_MINUTES = (0, 1, 2, 5, 10, 20, 30, 60, 120)
_STYLE = """
:root { color-scheme: light dark; --back: #ffffff; --card: #f5f6f8; --text: #1c2330; --soft: #5b6472; --grid: #d9dde3;
  --all: #2f6fde; --errors: #c4341d; --crawlers: #8a5a00; --good: #1a7f37; --bad: #c4341d; }
@media (prefers-color-scheme: dark) { :root { --back: #14171c; --card: #1e232b; --text: #e7eaf0; --soft: #a5afbd;
  --grid: #39414d; --all: #6ea2ff; --errors: #ff7b66; --crawlers: #e2b04a; --good: #56c46f; --bad: #ff7b66; } }
body { margin: 0 auto; max-width: 980px; padding: 24px; background: var(--back); color: var(--text);
  font: 15px/1.5 system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
a { color: var(--all); } h1 { font-size: 26px; margin: 0 0 4px; } h2 { font-size: 19px; margin: 36px 0 8px; }
p { margin: 4px 0 12px; } .soft, .none { color: var(--soft); }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(130px, 1fr)); gap: 12px; margin: 20px 0; }
.figures div { background: var(--card); border-radius: 8px; padding: 12px 14px; color: var(--soft); font-size: 13px; }
.figures b { display: block; font-size: 22px; color: var(--text); font-variant-numeric: tabular-nums; }
.verdict { padding: 10px 14px; border-radius: 8px; background: var(--card); border-left: 5px solid var(--good); }
.verdict.wrong { border-color: var(--bad); }
svg { width: 100%; height: auto; display: block; }
svg text { fill: var(--soft); font-size: 12px; paint-order: stroke; stroke: var(--back); stroke-width: 3px; }
.grid { stroke: var(--grid); stroke-width: 1; } .tick { stroke: var(--soft); stroke-width: 1; }
.line { fill: none; stroke: var(--c); stroke-width: 1.6; stroke-linejoin: round; }
.area { fill: var(--c); opacity: .16; }
.bar { fill: var(--all); } .all { --c: var(--all); } .errors { --c: var(--errors); } .crawlers { --c: var(--crawlers); }
.legend span { margin-right: 20px; color: var(--soft); font-size: 13px; }
.legend i { display: inline-block; width: 14px; height: 4px; margin-right: 6px; vertical-align: middle;
  background: var(--c); }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: 14px; }
th, td { text-align: left; padding: 5px 10px; border-bottom: 1px solid var(--grid); overflow-wrap: anywhere; }
th { color: var(--soft); font-weight: 600; }
.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.good { color: var(--good); } .bad { color: var(--bad); font-weight: 700; }
"""


@dataclass(frozen=True, slots=True)
class Findings:
    """Results of the pipeline, as rows of its views and values of its topics."""

    minutes: Sequence[Row]
    pages: Sequence[tuple[str, int]]
    """Pages and their requests, the most first."""
    searches: Sequence[Row]
    days: Sequence[Row]
    sessions: Sequence[Row]
    alerts: Sequence[Row]
    limits: Sequence[Row]


@dataclass(frozen=True, slots=True)
class About:
    """Facts about the run."""

    source: str
    """Name of the site or the access log."""
    created: datetime
    seconds: float
    """From the start to the audit."""


def html_report(about: About, sent: Tally, findings: Findings, checks: Sequence[Check]) -> str:
    """Return the page. All strings of the log are escaped; the page fetches nothing, and forbids it."""
    parts = [
        _head(about),
        _figures(sent, findings),
        _verdict(checks),
        _section("Requests over time", _requests(findings.minutes)),
        _section("Top pages", bars(findings.pages[:_TOP_PAGES], "requests, of all visitors")),
        _section("Searches", bars(_searches(findings.searches), "searches, without crawlers'")),
        _section("Sessions", _sessions(findings.sessions)),
        _section("Alerts", _alerts(findings.alerts, findings.limits)),
        _section("Daily report", _days(findings.days)),
        _section("Audit", _audit(checks)),
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>kavka demo: {escape(about.source)}</title><style>{_STYLE}</style></head>\n<body>\n"
        + "\n".join(parts)
        + "\n</body></html>\n"
    )


def _head(about: About) -> str:
    date = f"{about.created:%Y-%m-%d %H:%M} UTC"
    return (
        f'<h1>Activity of a web site</h1><p class="soft">{escape(about.source)}, through a broker and a pipeline '
        f"on Spark in {about.seconds:.0f} s; <code>kavka demo</code>, {date}</p>"
    )


def _figures(sent: Tally, findings: Findings) -> str:
    figures = {
        "lines sent": sent.sent,
        "malformed": sent.malformed,
        "late": sent.too_late,
        "sessions that ended": len(findings.sessions),
        "alerts": len(findings.alerts),
        "limits": len(findings.limits),
    }
    tiles = "".join(f"<div><b>{count:,}</b>{escape(name)}</div>" for name, count in figures.items())
    return f'<div class="figures">{tiles}</div>'


def _verdict(checks: Sequence[Check]) -> str:
    wrong = sum(not check.agrees for check in checks)
    if wrong:
        text = f"{wrong} of {len(checks)} numbers of the audit do not agree."
        return f'<p class="verdict wrong"><b class="bad">{text}</b></p>'
    text = f'All {len(checks)} comparisons of the <a href="#audit">audit</a> agree: each line was counted once.'
    return f'<p class="verdict">{text}</p>'


def _section(title: str, content: str) -> str:
    name = title.lower().replace(" ", "-")
    return f'<section id="{name}"><h2>{escape(title)}</h2>{content}</section>'


def _requests(minutes: Sequence[Row]) -> str:
    def counts(column: str) -> dict[int, int]:
        return {int(row["minute"].timestamp()) // 60: row[column] for row in minutes}

    series = [
        Series("all requests", "all", counts("requests")),
        Series("of crawlers", "crawlers", counts("crawler_requests")),
        Series("errors (status 400 and above)", "errors", counts("errors")),
    ]
    return by_time(series, "requests")


def _searches(rows: Sequence[Row]) -> list[tuple[str, int]]:
    counts: Counter[str] = Counter()
    for row in rows:
        counts[row["search"]] += row["searches"]
    return sorted(counts.items(), key=lambda one: (-one[1], one[0]))[:_TOP_SEARCHES]


def _sessions(sessions: Sequence[Row]) -> str:
    bins = [0] * len(_SESSION_MINUTES)
    for row in sessions:
        lasted = datetime.fromisoformat(row["end"]) - datetime.fromisoformat(row["start"])
        minutes = lasted.total_seconds() / 60
        bins[sum(minutes >= start for start in _SESSION_MINUTES) - 1] += 1
    labels = [f"{start}\u2013{end}" for start, end in pairwise(_SESSION_MINUTES)]
    labels.append(f"{_SESSION_MINUTES[-1]}+")
    text = "Visits that ended with half an hour of silence; those that were still going on are not in it."
    plot = histogram(
        list(zip(labels, bins, strict=True)), "duration of a session, minutes", "sessions"
    )
    return f'<p class="soft">{text}</p>{plot}'


def _alerts(alerts: Sequence[Row], limits: Sequence[Row]) -> str:
    kinds = Counter((row["visitor"], row["kind"]) for row in alerts)
    limited = Counter(row["client"] for row in limits)
    last = {row["visitor"]: row for row in sorted(alerts, key=lambda row: str(row["minute"]))}
    rows = [
        (visitor, kind, f"{count:,}", f"{limited[visitor]:,}", last[visitor]["reason"])
        for (visitor, kind), count in kinds.most_common(_TOP_VISITORS)
    ]
    more = len(kinds) - len(rows)
    note = f'<p class="soft">and {more:,} more visitors</p>' if more > 0 else ""
    head = (
        "visitor",
        "kind",
        "minutes with an alert",
        "minutes above the limit",
        "the last reason",
    )
    return _table(head, rows, numbers=(2, 3)) + note


def _days(days: Sequence[Row]) -> str:
    names = {
        "date": "day", "requests": "requests", "crawler_requests": "of crawlers", "visitors": "visitors",
        "pages": "pages", "searches": "searches", "client_errors": "4xx", "server_errors": "5xx", "bytes": "MB sent",
        "late": "late",
    }  # fmt: skip
    rows = [[_day_cell(name, row[name]) for name in names] for row in days]
    return _table(list(names.values()), rows, numbers=range(1, len(names)))


def _day_cell(name: str, value: Any) -> str:
    if name == "date":
        return str(value)
    return f"{value / 1e6:,.1f}" if name == "bytes" else f"{value:,}"


def _audit(checks: Sequence[Check]) -> str:
    rows = []
    for check in checks:
        sign = (
            '<span class="good">agrees</span>'
            if check.agrees
            else '<span class="bad">differs</span>'
        )
        numbers = f"{check.expected:,} {check.relation} {check.actual:,}"
        rows.append(
            f'<tr><td>{escape(check.description)}</td><td class="n">{escape(numbers)}</td><td>{sign}</td></tr>'
        )
    return f'<div class="scroll"><table>{"".join(rows)}</table></div>'


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], numbers: Iterable[int]) -> str:
    if not rows:
        return '<p class="none">none</p>'
    right = set(numbers)

    def cells(tag: str, row: Sequence[str]) -> str:
        tags = (
            f"<{tag}{' class=n' if number in right else ''}>{escape(str(cell))}</{tag}>"
            for number, cell in enumerate(row)
        )
        return f"<tr>{''.join(tags)}</tr>"

    body = "".join(cells("td", row) for row in rows)
    return f'<div class="scroll"><table>{cells("th", head)}{body}</table></div>'
