"""Writes docs/reference/benchmarks.md and its plots from the results in bench/published: `make bench-report`.

With files of `bench/results` as arguments it publishes these first: each takes the place of the one of its name.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "bench"))

from apache.report import between_table, floor_table, heading, lone_table, row  # noqa: E402

PUBLISHED = ROOT / "bench" / "published"
PAGE = ROOT / "docs" / "reference" / "benchmarks.md"
IMAGES = ROOT / "docs" / "images"

Result = Mapping[str, Any]
"""A file that a benchmark has written: what is known of the run, and `lines` with the samples of both sides."""


class Benchmark(NamedTuple):
    """A benchmark of the page."""

    title: str
    about: str
    reference: str = ""
    """The name of the release that kavka is compared with; empty where it is measured alone."""
    plot: str = ""
    """The name of the picture, without suffix; empty without one."""


BENCHMARKS: dict[str, Benchmark] = {
    "apache": Benchmark(
        "One broker",
        "`make bench`: one broker of each, driven in turns by Apache Kafka's own tools and by librdkafka.",
        "Apache Kafka 4.1",
        "speed",
    ),
    "load": Benchmark(
        "Sizes, backlogs and the floor",
        "`make bench-load`: one broker of each, driven in turns by Apache Kafka's own tools. The last table has the "
        "brokers' processor time beside a loop in C that makes the same system calls with the same batches.",
        "Apache Kafka 4.1",
        "speed-load",
    ),
    "cluster": Benchmark(
        "Three brokers",
        "`make bench-cluster`: three brokers of each on one ZooKeeper, with Apache Kafka's tools, all on the same "
        "machine. Records of 100 bytes where nothing is said.",
        "Apache Kafka 3.9",
        "speed-cluster",
    ),
    "transactions": Benchmark(
        "Transactions",
        "`make bench-transactions`: one broker of each; the clients are Java's 4.1, librdkafka and, for the thousand "
        "ids, requests over 20 connections. *Commit* is the call, when the record is acknowledged already.",
        "Apache Kafka 4.1",
        "speed-transactions",
    ),
    "security": Benchmark(
        "ACLs and quotas",
        "`make bench-security`, first part: three brokers of kavka work in turns, one of them with 10,000 ACLs, one "
        "with quotas that its client does not reach. Small requests over one connection, up to 200 in flight.",
        "a broker with neither",
        "speed-security",
    ),
    "tls": Benchmark(
        "TLS",
        "`make bench-security`, second part: one broker of each, plain text and TLS. librdkafka produces and consumes "
        "records of 1 KB over one connection, acks=1; processor time is the broker's.",
        "Apache Kafka 3.9",
        "speed-tls",
    ),
    "clients": Benchmark(
        "Python clients",
        "`make bench-clients`: kavka's client and the others on one broker of kavka, each in a process of its own, in "
        "turns; acks=1 and batches of 256 KiB, or each client's defaults. Processor time and memory are the client's.",
        "the other client",
        "speed-clients",
    ),
    "failover": Benchmark(
        "Failover",
        "`make bench-failover`: three brokers of each with ZooKeeper, one kind after the other. librdkafka sends a "
        "record a millisecond (acks=all) to three partitions with three replicas each; the time is the longest one "
        "without an acknowledgement. With 1,000 partitions it is the time until all have a leader again.",
        "Apache Kafka 3.9",
    ),
    "partitions": Benchmark(
        "Partitions",
        "`make bench-partitions`: one broker of kavka, from the creation of its partitions to their deletion, each "
        "round with a new broker. Processor time is the broker's.",
    ),
    "connections": Benchmark(
        "Connections",
        "`make bench-connections`: one broker of kavka, and one client whose requests are measured, alone and then "
        "beside more and more connections of others. Each round has a new broker.",
    ),
    "spark": Benchmark(
        "Spark",
        "`python bench/spark.py`: Spark's own Kafka connector and kavka's, both with a broker of kavka.",
        "Spark's connector",
        "speed-spark",
    ),
}

_WIDTH, _LABEL, _SCALE, _ROW, _TOP = 860, 390, 150, 30, 58
"""Width of a picture, of its labels, of a ratio of 1; height of a row, and of the title. In pixels."""
_MAX_RATIO = 2.4
"""Bars end here; the figure beside a bar is always the measured one."""
_AHEAD, _BEHIND = "#2a7f9e", "#c07a3a"


def results() -> dict[str, Result]:
    """Return the published results by their names, in the order of the page."""
    files = {name: PUBLISHED / f"{name}.json" for name in BENCHMARKS}
    return {
        name: json.loads(path.read_text(encoding="utf-8"))
        for name, path in files.items()
        if path.exists()
    }


def publish(path: Path) -> None:
    """Put a result in the place of the published one.

    Raise ValueError for a quick run, one that ended early, fewer than three rounds or an unknown benchmark.
    """
    result = json.loads(path.read_text(encoding="utf-8"))
    name = result.get("name")
    if name not in BENCHMARKS:
        raise ValueError(f"{path}: no benchmark of the page has the name {name!r}")
    if result.get("quick"):
        raise ValueError(f"{path}: a quick run is not published; run it without QUICK=1")
    if result.get("missing"):
        raise ValueError(f"{path}: a run that ended without {result['missing']} is not published")
    if result.get("rounds", 0) < 3:
        raise ValueError(f"{path}: a median of fewer than three rounds is not published")
    (PUBLISHED / f"{name}.json").write_text(path.read_text(encoding="utf-8"), encoding="utf-8")


def page(published: Mapping[str, Result]) -> str:
    """Return the page, a section for each benchmark."""
    return "\n".join(
        [
            "# Benchmarks",
            "",
            "`make bench-report` writes this page from the results in `bench/published`. How they are measured, and",
            "what they mean, is in [performance](../explanation/performance.md).",
            *_unpublished(published),
            *(part for name, result in published.items() for part in _section(BENCHMARKS[name], result)),
            "",
        ]
    )  # fmt: skip


def _unpublished(published: Mapping[str, Result]) -> Iterable[str]:
    missing = [benchmark.title for name, benchmark in BENCHMARKS.items() if name not in published]
    if missing:
        yield f"Without published figures yet: {', '.join(missing)}."


def _section(benchmark: Benchmark, result: Result) -> Iterable[str]:
    yield from ("", f"## {benchmark.title}", "", benchmark.about, "", _conditions(result), "")
    if benchmark.plot:
        yield f"![{benchmark.title}: kavka beside {benchmark.reference}](../images/{benchmark.plot}.svg)"
        yield ""
    if not benchmark.reference:
        yield lone_table(result["lines"])
        return
    yield from heading(benchmark.reference)
    for line in result["lines"]:
        yield row(line["name"], line["unit"], line, ratio_of(line), line["verdict"])
    if result.get("floor"):
        yield from ("", "Processor time beside that of a loop in C:", "")
        yield floor_table(result["floor"], benchmark.reference)
    if result.get("between"):
        yield from ("", "Ratios between lines, beside those that LinkedIn published:", "")
        yield between_table(result["between"], benchmark.reference)


def _conditions(result: Result) -> str:
    warm_up = " after a warm-up" if result.get("warm_up", True) else ""
    parts = [f"Measured {result['date']}", f"{result['rounds']} rounds{warm_up}"]
    if result.get("commit"):
        parts.append(f"commit {result['commit'][:12]}")
    if result.get("python"):
        parts.append(f"Python {result['python']}")
    parts.append(result["machine"] + (f", {result['cores']} cores" if "cores" in result else ""))
    if "load" in result:
        parts.append(f"machine load {result['load']:.1f}")
    note = f" {result['note']}" if result.get("note") else ""
    return "; ".join(parts) + f". Medians, with the range of all samples.{note}"


def ratio_of(line: Mapping[str, Any]) -> float | None:
    """Return kavka's median divided by the other's; None where it says nothing, as of a percentage or of zero."""
    if not line.get("apache") or not line.get("kavka"):
        return None
    apache = statistics.median(line["apache"])
    return statistics.median(line["kavka"]) / apache if apache and line["unit"] != "%" else None


def plot(benchmark: Benchmark, result: Result) -> str:
    """Return a bar chart of the ratios of all lines that are counted per second, as SVG."""
    lines = [line for line in result["lines"] if line["unit"].endswith("/s")]
    height = _TOP + _ROW * len(lines) + 16
    one = _LABEL + _SCALE
    bars = [part for place, line in enumerate(lines) for part in _bar(line, _TOP + _ROW * place)]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
            'font-family="sans-serif" font-size="13" role="img">',
            f"<title>{benchmark.title}: kavka beside {_escaped(benchmark.reference)}</title>",
            f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
            f'<text x="12" y="22" font-size="15" font-weight="bold">{benchmark.title}: '
            f"{_escaped(benchmark.reference)} = 1</text>",
            '<text x="12" y="42" fill="#555555">same run, same tools; more is better</text>',
            *bars,
            f'<line x1="{one}" x2="{one}" y1="{_TOP - 6}" y2="{height - 10}" stroke="#333333" '
            'stroke-dasharray="4 3"/>',
            "</svg>",
            "",
        ]
    )


def _bar(line: Mapping[str, Any], top: int) -> list[str]:
    ratio = ratio_of(line) or 0.0
    width = round(min(ratio, _MAX_RATIO) * _SCALE)
    colour = _AHEAD if ratio >= 1 else _BEHIND
    speed = f"{statistics.median(line['kavka']):,.0f}/s"
    return [
        f'<text x="{_LABEL - 8}" y="{top + 15}" text-anchor="end">{_escaped(line["name"])}</text>',
        f'<rect x="{_LABEL}" y="{top}" width="{width}" height="20" fill="{colour}"/>',
        f'<text x="{_LABEL + width + 6}" y="{top + 15}">{ratio:.2f} ({speed})</text>',
    ]


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")


def written(published: Mapping[str, Result]) -> dict[Path, str]:
    """Return the content of each file that this script writes."""
    plots = {
        IMAGES / f"{BENCHMARKS[name].plot}.svg": plot(BENCHMARKS[name], result)
        for name, result in published.items()
        if BENCHMARKS[name].plot
    }
    return {PAGE: page(published), **plots}


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        publish(Path(argument))
    for path, text in written(results()).items():
        path.write_text(text, encoding="utf-8")
        print(path.relative_to(ROOT))
