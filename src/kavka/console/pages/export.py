"""Records of a topic as a file: what the page of messages finds, more of it at once, as JSON or CSV."""

from __future__ import annotations

import base64
import csv
import io
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from kavka.client.consumer.batches import ConsumerRecord
from kavka.client.schemas.errors import SchemaError
from kavka.console.formats import plain, utf8_of
from kavka.console.pages.messages import MESSAGES, find
from kavka.console.parameters import Arguments, Parameter
from kavka.console.registry import Registry
from kavka.console.subject import Download, File, Services
from kavka.console.views.messages import positions_text

_MOST_RECORDS: Final = 10_000
_MOST_BYTES: Final = 16_000_000
_MEDIA: Final = {"json": "application/json", "csv": "text/csv"}
COLUMNS: Final = (
    "topic", "partition", "offset", "timestamp_ms", "key", "key_encoding", "value", "value_encoding", "headers",
)  # fmt: skip

_SIGNS: Final = "=+\\-@\0\uff1d\uff0b\uff0d\uff20"
"""The characters by which spreadsheets know formulas; the wide ones are those of East Asian keyboards."""
_CELL: Final = re.compile(
    f'\\A[\t\r\n]|\\A[{_SIGNS}][^;\t\r\n]*|(?<=[;\t\r\n])"*[{_SIGNS}][^;\t\r\n]*'
)
"""The beginning of a text, or what may be a cell after one of other separators, where it may be a formula."""
_NUMBER: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def field_of(data: bytes | None, registry: Registry | None) -> tuple[Any, str]:
    """Return a key or value, and how it is written: utf-8, base64, null, or the schema that has decoded it."""
    if data is None:
        return None, "null"
    if registry is not None:
        try:
            found = registry.decode(data)
        except (SchemaError, ValueError, RecursionError):
            found = None
        if found is not None:
            return found.value, f"{found.kind} schema {found.schema_id}"
    try:
        return data.decode(), "utf-8"
    except UnicodeDecodeError:
        return base64.b64encode(data).decode(), "base64"


def row_of(record: ConsumerRecord, registry: Registry | None) -> dict[str, Any]:
    """Return a record as the files have it. It may block where there is a registry."""
    key, key_encoding = field_of(record.key, registry)
    value, value_encoding = field_of(record.value, registry)
    headers = [
        dict(zip(("value", "encoding"), field_of(data, None), strict=True)) | {"name": name}
        for name, data in record.headers
    ]
    cells = (
        record.topic,
        record.partition,
        record.offset,
        record.timestamp,
        key,
        key_encoding,
        value,
        value_encoding,
        headers,
    )
    return dict(zip(COLUMNS, cells, strict=True))


def safe_cell(text: str) -> str:
    """Return a text for a cell of CSV, with an apostrophe before what a spreadsheet would take for a formula.

    A spreadsheet knows one by its first character, whatever quotes stand around it. One of a locale that separates by
    `;` does not see the quotes of a field after a comma, and begins cells within it (OWASP, "CSV Injection").
    """

    def safe(found: re.Match[str]) -> str:
        part = found[0] if found.start() else text
        return found[0] if _NUMBER.fullmatch(part) else f"'{found[0]}"

    return _CELL.sub(safe, text)


def csv_of(rows: Sequence[dict[str, Any]]) -> bytes:
    """Return rows as CSV (RFC 4180), all fields in quotes: what is no text as JSON, null empty, nothing a formula."""
    out = io.StringIO()
    writer = csv.writer(out, quoting=csv.QUOTE_ALL)
    writer.writerow(COLUMNS)
    for row in rows:
        writer.writerow([_cell(row[name]) for name in COLUMNS])
    return utf8_of(out.getvalue())


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return safe_cell(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


async def _load(services: Services, arguments: Arguments) -> File:
    topic, kind = arguments.path["topic"], arguments.text("format")
    searched = await find(services, arguments, _MOST_BYTES)
    found, registry = searched.found, services.registry

    def rows() -> list[dict[str, Any]]:
        return [row_of(record, registry) for record in found.records]

    made = rows() if registry is None else await registry.in_thread(rows)
    if kind == "csv":
        data = csv_of(made)
    else:
        document = {
            "topic": topic,
            "reach": plain(found.reach),
            "next": positions_text(found.next),
            "records": made,
        }
        data = utf8_of(json.dumps(document, ensure_ascii=False, indent=1))
    reach = " ".join((found.reach.sentence, *(one.sentence for one in found.reach.unanswered)))
    return File(f"{topic}.{kind}", _MEDIA[kind], data, reach)


def _parameter(one: Parameter) -> Parameter:
    return replace(one, default="1000", maximum=_MOST_RECORDS) if one.name == "limit" else one


DOWNLOADS = (
    Download(
        path="/topics/{topic}/export",
        summary="Records that a bounded search finds, as a file; the header Kavka-Reach says how far it has looked.",
        media_types=tuple(_MEDIA.values()),
        load=_load,
        parameters=(
            Parameter("format", "choice", "The format of the file.", "json", tuple(_MEDIA)),
            *(_parameter(one) for one in MESSAGES.parameters),
        ),
        path_parameters=MESSAGES.path_parameters,
    ),
)
