"""A page as Prometheus reads it: whatever it would refuse fails the test."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable

import pytest

from kavka.broker.broker import Broker

_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
_SAMPLE = re.compile(rf"({_NAME})(\{{{_LABEL}(?:,{_LABEL})*\}})? (-?[0-9.]+(?:e[-+]?\d+)?)")
_SUFFIXES = {"summary": ("", "_sum", "_count"), "counter": ("",), "gauge": ("",)}

Page = dict[str, float]


def parse_page(text: str) -> Page:
    """Return the series of a page. Insist on what the format asks for: heads, groups, names, no series twice."""
    assert text.endswith("\n")
    series: Page = {}
    kinds: dict[str, str] = {}
    helped: set[str] = set()
    current = ""
    for line in text.splitlines():
        if line.startswith("# HELP "):
            current = line.split(" ", 3)[2]
            assert re.fullmatch(_NAME, current), line
            assert current not in helped, f"{current} stands in two places"
            helped.add(current)
        elif line.startswith("# TYPE "):
            _hash, _type, name, kind = line.split(" ")
            assert name == current, line
            assert name not in kinds, line
            kinds[name] = kind
            assert (kind == "counter") == name.endswith("_total"), line
        else:
            sample = _SAMPLE.fullmatch(line)
            assert sample is not None, f"not a sample: {line!r}"
            name, labels, value = sample[1], sample[2] or "", float(sample[3])
            suffixes = _SUFFIXES[kinds[current]]
            assert name in {current + suffix for suffix in suffixes}, f"{line!r} under {current}"
            assert name + labels not in series, f"twice: {line!r}"
            assert kinds[current] != "counter" or value >= 0, line
            series[name + labels] = value
    return series


class Scraper:
    """One HTTP connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def of(cls, broker: Broker) -> Scraper:
        assert broker.exposition is not None
        return cls(*await asyncio.open_connection("127.0.0.1", broker.exposition.port))

    async def ask(
        self, request: bytes, *, has_body: bool = True
    ) -> tuple[int, dict[str, str], bytes]:
        """Send bytes; return status, headers and body of one response."""
        self.writer.write(request)
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        first, *others = head.strip().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in others)
        length = int(headers["content-length"]) if has_body else 0
        return int(first.split(" ")[1]), headers, await self.reader.readexactly(length)

    async def is_closed(self) -> bool:
        try:
            return await self.reader.read(1) == b""
        except ConnectionError:
            return True

    def close(self) -> None:
        self.writer.close()


async def scrape(broker: Broker) -> Page:
    """Ask a broker for its page."""
    scraper = await Scraper.of(broker)
    try:
        status, headers, body = await scraper.ask(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
    finally:
        scraper.close()
    assert status == 200
    assert headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return parse_page(body.decode())


@pytest.fixture
def page() -> Callable[..., object]:
    return scrape


@pytest.fixture
def scraper() -> type[Scraper]:
    return Scraper
