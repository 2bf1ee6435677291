"""Writes docs/images/speed.svg from the first table of the performance page: `make plot`, after it was changed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
(TABLE,) = (ROOT / "docs").rglob("performance.md")
PLOT = ROOT / "docs" / "images" / "speed.svg"

_WIDTH, _LABEL, _SCALE, _ROW, _TOP = 760, 250, 240, 30, 58
"""Width of the picture, of its labels, of a ratio of 1; height of a row, and of the title. In pixels."""
_AHEAD, _BEHIND = "#2a7f9e", "#c07a3a"


class Measurement(NamedTuple):
    """Records per second of both brokers in one run."""

    what: str
    apache: int
    kavka: int

    @property
    def ratio(self) -> float:
        """Records of kavka for one record of Apache Kafka."""
        return self.kavka / self.apache


def measurements(page: str) -> list[Measurement]:
    """Return the lines in records/s of the page's first table."""
    table = page.split("\n## ")[1]
    rows = re.findall(r"^\| ([^|]+) \| records/s \| ([\d,]+)[^|]* \| ([\d,]+)[^|]* \|", table, re.M)
    return [Measurement(what, *(int(n.replace(",", "")) for n in both)) for what, *both in rows]


def plot(measured: list[Measurement]) -> str:
    """Return a bar chart of the ratios as SVG."""
    height = _TOP + _ROW * len(measured) + 16
    one = _LABEL + _SCALE
    rows = [line for place, m in enumerate(measured) for line in _bar(m, _TOP + _ROW * place)]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
            'font-family="sans-serif" font-size="13" role="img">',
            "<title>Records per second of kavka beside Apache Kafka</title>",
            f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
            '<text x="12" y="22" font-size="15" font-weight="bold">'
            "Records per second, Apache Kafka 4.1 = 1</text>",
            '<text x="12" y="42" fill="#555555">one broker each, same run, same tools</text>',
            *rows,
            f'<line x1="{one}" x2="{one}" y1="{_TOP - 6}" y2="{height - 10}" stroke="#333333" '
            'stroke-dasharray="4 3"/>',
            "</svg>",
            "",
        ]
    )


def _bar(measured: Measurement, top: int) -> list[str]:
    width = round(measured.ratio * _SCALE)
    colour = _AHEAD if measured.ratio >= 1 else _BEHIND
    return [
        f'<text x="{_LABEL - 8}" y="{top + 15}" text-anchor="end">{measured.what}</text>',
        f'<rect x="{_LABEL}" y="{top}" width="{width}" height="20" fill="{colour}"/>',
        f'<text x="{_LABEL + width + 6}" y="{top + 15}">'
        f"{measured.ratio:.2f} ({measured.kavka:,}/s)</text>",
    ]


if __name__ == "__main__":
    PLOT.write_text(plot(measurements(TABLE.read_text(encoding="utf-8"))), encoding="utf-8")
