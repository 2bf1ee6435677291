"""Pages of metrics in Prometheus' text format or OpenMetrics: ours, Kafka's JMX exporter, node exporter.

They are parsed by prometheus-client, Prometheus' own library for Python.
"""

from __future__ import annotations

import http.client
import time
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from kavka.collect.delivery import CollectorError
from kavka.collect.host import Sample

_ACCEPT = "text/plain;version=0.0.4;q=1,application/openmetrics-text;version=1.0.0;q=0.5,*/*;q=0.1"
_MAX_BYTES = 64 << 20
_PIECE_BYTES = 1 << 16
_GZIP = 16 + zlib.MAX_WBITS
_MAX_TIME_MS = 253_402_300_800_000
"""The year 10000."""

Parse = Callable[[str], Any]


class PageFailed(Exception):
    """A page was not fetched, or is no page of metrics; the message says why."""


class TimedSample(NamedTuple):
    """A sample and its own time in milliseconds, if the page has one."""

    sample: Sample
    time_ms: int | None


class Parsers(NamedTuple):
    """The parsers of both formats."""

    text: Parse
    openmetrics: Parse


def parsers_or_error() -> Parsers:
    """Return the parsers. Raise CollectorError when prometheus-client is not installed."""
    try:
        from prometheus_client.openmetrics.parser import (
            text_string_to_metric_families as openmetrics,
        )
        from prometheus_client.parser import text_string_to_metric_families as text
    except ImportError as error:
        raise CollectorError(
            "Pages of metrics need prometheus-client: pip install 'kavka[collect]'"
        ) from error
    return Parsers(text, openmetrics)


def check_url(url: str) -> str:
    """Return a URL that can be fetched; `host:port` is completed. Raise CollectorError."""
    full = url if "://" in url else f"http://{url}"
    try:
        parts = urlsplit(full)
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # of the port, or of brackets
        is_good = False
    if not is_good or not full.isprintable() or " " in full:
        raise CollectorError(f"{url!r} is no URL of a page, such as http://127.0.0.1:9100/metrics")
    if parts.username is not None:
        # It is not repeated, and would be the source of all records.
        raise CollectorError("The URL of a page has a user, and pages with a login are not read.")
    return full if parts.path else f"{full}/metrics"


def fetch(url: str, timeout_s: float) -> tuple[str, bool]:
    """Return the text of a page, and whether it is OpenMetrics; `timeout_s` is for all of it. Raise PageFailed."""
    deadline_s = time.monotonic() + timeout_s
    request = urllib.request.Request(url, headers={"Accept": _ACCEPT, "Accept-Encoding": "gzip"})
    try:
        with urllib.request.urlopen(request, timeout=timeout_s) as response:
            body = _read(response, deadline_s)
            kind = response.headers.get("Content-Type") or ""
            if response.headers.get("Content-Encoding") == "gzip":
                body = _unzipped(body)
    except urllib.error.HTTPError as error:
        raise PageFailed(f"HTTP {error.code} {error.reason}") from error
    except (OSError, http.client.HTTPException, zlib.error) as error:
        raise PageFailed(str(getattr(error, "reason", error)) or type(error).__name__) from error
    if len(body) > _MAX_BYTES:
        raise PageFailed(f"the page is larger than {_MAX_BYTES} bytes")
    try:
        return body.decode(), "openmetrics" in kind
    except UnicodeDecodeError as error:
        raise PageFailed("the page is not UTF-8") from error


def _read(response: http.client.HTTPResponse, deadline_s: float) -> bytes:
    """Read a body, up to a byte more than it may have. Raise PageFailed, OSError and HTTPException."""
    found = bytearray()
    while len(found) <= _MAX_BYTES:
        if time.monotonic() > deadline_s:
            raise PageFailed("the page was not complete in time")
        piece = response.read1(_PIECE_BYTES)
        if not piece:
            break
        found += piece
    if not piece and response.length:
        raise PageFailed("the connection was closed within the page")
    return bytes(found)


def _unzipped(body: bytes) -> bytes:
    """Return the content of gzip, up to a byte more than a page may have. Raise PageFailed, zlib.error."""
    found = b""
    while body and len(found) <= _MAX_BYTES:
        member = zlib.decompressobj(_GZIP)
        found += member.decompress(body, _MAX_BYTES + 1 - len(found))
        if not member.eof and len(found) <= _MAX_BYTES:
            raise PageFailed("the page is compressed, and not complete")
        body = member.unused_data
    return found


def samples_of(text: str, parse: Parse) -> list[TimedSample]:
    """Return the samples of a page. Raise PageFailed for one that is no page of metrics."""
    try:
        return list(_samples(text, parse))
    except (ValueError, KeyError, IndexError) as error:
        raise PageFailed(f"the page is not in Prometheus' format: {error}") from error


def _samples(text: str, parse: Parse) -> Iterator[TimedSample]:
    for family in parse(text):
        for sample in family.samples:
            value = Sample(sample.name, float(sample.value), sample.labels)
            yield TimedSample(value, _own_ms(sample.timestamp))


def _own_ms(timestamp: Any) -> int | None:
    """Return a sample's own time; None without one, and for one that no calendar has: it is that of the page then."""
    if timestamp is None:
        return None
    time_ms = float(timestamp) * 1000
    return int(time_ms) if 0 <= time_ms < _MAX_TIME_MS else None
