"""The schema of the records of all collectors: a JSON object for each log event and for each sample of a metric.

    time       text    time of the event: RFC 3339, UTC, milliseconds; time of the collection if the event has none
    collected  text    time of the collection, in the same format
    kind       text    `log` or `metric`
    host       text    the machine of the collector, or what `--host` says
    source     text    the first path of the file; `host`; the URL of the page; or `groups of SERVERS`
    labels     object  texts: those of the metric, and those of `--label`; absent without any
  of logs only:
    message    text    the event as it was written, without its line end
    fields     object  the parsed fields, with JSON's types; absent without a parser
    position   number  of the event's first byte in its file, uncompressed
    part       text    `first`, `middle` or `last`: the event is longer than --max-event-bytes
    error      text    why the parser could not read it; then there are no fields
    raw        text    base64 of the event's bytes where they are not UTF-8
  of metrics only:
    name       text    of the metric
    value      number  null where it is not a finite number
    error      text    why a page could not be read, beside `up` with the value 0; or the number that JSON cannot show

The key is `host:source`, so that the events of one file are in one partition and in order. The record's timestamp is
the time of collection, so that the topic's retention does not delete old logs at once.
"""

from __future__ import annotations

import json
import math
from base64 import b64encode
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Any

_encoder = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
_encode_ascii = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


def _make_encode() -> Callable[[Any], str]:
    """Return `encode` with one encoder in C; `JSONEncoder.encode` makes one at each call."""
    make_encoder = getattr(json.encoder, "c_make_encoder", None)
    if make_encoder is None:
        return _encoder.encode
    encode = make_encoder(
        None, _encoder.default, encode_basestring, None, ":", ",", False, False, False
    )
    return lambda value: "".join(encode(value, 0))


_encode = _make_encode()


@lru_cache(maxsize=4096)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()[:19]


def time_text(time_ms: int) -> str:
    """Return a time in RFC 3339. Raise ValueError for one outside of the calendar."""
    seconds, ms = divmod(time_ms, 1000)
    try:
        text = _second(seconds)
    except (OverflowError, OSError) as error:
        raise ValueError(f"{time_ms} is no time") from error
    return f"{text}.{ms:03d}Z"


def json_bytes(value: Any) -> bytes:
    """Return JSON in UTF-8. Raise ValueError for numbers that JSON has not."""
    try:
        return _encode(value).encode()
    except UnicodeEncodeError:
        # Half a surrogate pair, which JSON may escape and UTF-8 cannot encode.
        return _encode_ascii(value).encode()


def record_key(host: str, source: str) -> bytes:
    """Return the key of all records of a source."""
    return f"{host}:{source}".encode("utf-8", "replace")


class LogRecords:
    """Encodes the records of one source."""

    def __init__(self, host: str, source: str, labels: Mapping[str, str]) -> None:
        """Set the fields that all records of the source have."""
        text = source.encode("utf-8", "replace").decode()  # names of files are any bytes
        constant = {"kind": "log", "host": host, "source": text}
        if labels:
            constant["labels"] = dict(labels)  # type: ignore[assignment]
        self._constant = json_bytes(constant)[1:-1].decode()
        self.key = record_key(host, source)

    def value(
        self,
        event: bytes,
        position: int,
        collected: str,
        *,
        time_ms: int | None = None,
        fields: Mapping[str, Any] | None = None,
        error: str | None = None,
        part: str | None = None,
    ) -> bytes:
        """Return the value of one event's record; `collected` is a text of `time_text`."""
        time = collected if time_ms is None else time_text(time_ms)
        optional = ""
        try:
            message = event.decode()
        except UnicodeDecodeError:
            message = event.decode(errors="replace")
            optional = f',"raw":"{b64encode(event).decode()}"'
        if part is not None:
            optional += f',"part":"{part}"'
        if error is not None:
            optional += f',"error":{_encode(error)}'
        head = (
            f'{{"time":"{time}","collected":"{collected}",{self._constant},"position":{position},'
            f'"message":{encode_basestring(message)}{optional}'
        )
        if fields is None:
            return f"{head}}}".encode()
        return b'%b,"fields":%b}' % (head.encode(), json_bytes(fields))


def metric_value(
    constant: Mapping[str, Any],
    name: str,
    value: float,
    labels: Mapping[str, str],
    error: str | None = None,
) -> bytes:
    """Return the value of a sample's record; `constant` has time, collected, kind, host and source."""
    record: dict[str, Any] = {**constant, "name": name}
    if labels:
        record["labels"] = dict(labels)
    is_finite = math.isfinite(value)
    record["value"] = value if is_finite else None
    if not is_finite and error is None:
        error = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if error is not None:
        record["error"] = error
    return json_bytes(record)
