"""Lines of the console producer as records: `[headers TAB] [key TAB] value`, as its properties say. Pure.

Kafka's tool turns lines into text and back. Here bytes stay what they are, also where they are no UTF-8.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kavka.cli.arguments.client_properties import is_true
from kavka.values import frozen


class BadLine(Exception):
    """A line, or a property, that the reader refuses; the text is Kafka's."""


class ReadRecord(NamedTuple):
    """The record of a line."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


@frozen
class LineReader:
    """The format of lines; None for a part that lines do not have."""

    parses_key: bool
    parses_headers: bool
    ignores_errors: bool
    key_separator: bytes
    headers_delimiter: bytes
    headers_separator: bytes
    headers_key_separator: bytes
    null_marker: bytes | None

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> LineReader:
        """Return the reader that the properties ask for. Raise BadLine for separators that are empty or equal."""
        given = dict(properties)
        marker = given.get("null.marker")
        names = {
            "key.separator": given.get("key.separator", "\t"),
            "headers.delimiter": given.get("headers.delimiter", "\t"),
            "headers.separator": given.get("headers.separator", ","),
            "headers.key.separator": given.get("headers.key.separator", ":"),
        }
        _refuse_empty(names)
        _refuse_equal(names, marker)
        return cls(
            parses_key=is_true(given, "parse.key"),
            parses_headers=is_true(given, "parse.headers"),
            ignores_errors=is_true(given, "ignore.error"),
            key_separator=names["key.separator"].encode(),
            headers_delimiter=names["headers.delimiter"].encode(),
            headers_separator=names["headers.separator"].encode(),
            headers_key_separator=names["headers.key.separator"].encode(),
            null_marker=None if marker is None else marker.encode(),
        )

    @property
    def is_plain(self) -> bool:
        """Return whether a line is a value and nothing else."""
        return not (self.parses_key or self.parses_headers or self.null_marker is not None)

    def pairs(
        self, lines: list[bytes], number: int
    ) -> tuple[list[tuple[bytes | None, bytes | None]], BadLine | None]:
        """Return (key, value) of each line up to one that is refused, and why it is.

        The first line has the `number`. Only for readers that parse no headers.
        """
        assert not self.parses_headers
        if self.is_plain:
            return [(None, line) for line in lines], None
        found: list[tuple[bytes | None, bytes | None]] = []
        separator = self.key_separator
        is_simple = self.parses_key and self.null_marker is None
        try:
            for at, line in enumerate(lines, number):
                key, between, value = line.partition(separator)
                if is_simple and between:
                    found.append((key, value))
                else:
                    found.append(self.read(line, at)[:2])
        except BadLine as error:
            return found, error
        return found, None

    def read(self, line: bytes, number: int) -> ReadRecord:
        """Return the record of line `number`, which counts from 1. Raise BadLine."""
        start = 0
        headers: bytes | None = None
        key: bytes | None = None
        if self.parses_headers:
            headers = self._part(line, start, self.headers_delimiter, "headers delimiter", number)
            start += 0 if headers is None else len(headers) + len(self.headers_delimiter)
        if self.parses_key:
            key = self._part(line, start, self.key_separator, "key separator", number)
            start += 0 if key is None else len(key) + len(self.key_separator)
        value = line[start:]
        split = () if headers is None or self._is_null(headers) else self._split(headers, number)
        return ReadRecord(self._or_null(key), self._or_null(value), split)

    def _part(
        self, line: bytes, start: int, separator: bytes, name: str, number: int
    ) -> bytes | None:
        end = line.find(separator, start)
        if end >= 0:
            return line[start:end]
        if self.ignores_errors:
            return None
        raise BadLine(f"No {name} found on line number {number}: '{_text(line)}'")

    def _split(self, headers: bytes, number: int) -> tuple[tuple[str, bytes | None], ...]:
        pairs = headers.split(self.headers_separator)
        while len(pairs) > 1 and not pairs[-1]:
            pairs.pop()  # Java drops empty parts at the end
        return tuple(self._header(pair, number) for pair in pairs)

    def _header(self, pair: bytes, number: int) -> tuple[str, bytes | None]:
        name, separator, value = pair.partition(self.headers_key_separator)
        if not separator:
            if self.ignores_errors:
                return _text(pair), None
            raise BadLine(
                f"No header key separator found in pair '{_text(pair)}' on line number {number}"
            )
        if self._is_null(name):
            raise BadLine(
                f"Header keys should not be equal to the null marker '{_text(name)}' as they can't be null"
            )
        return _text(name), self._or_null(value)

    def _is_null(self, content: bytes) -> bool:
        return self.null_marker is not None and content == self.null_marker

    def _or_null(self, content: bytes | None) -> bytes | None:
        return None if content is None or self._is_null(content) else content


def _refuse_empty(names: dict[str, str]) -> None:
    for name, separator in names.items():
        if not separator:
            raise BadLine(f"{name} may not be empty")


def _refuse_equal(names: dict[str, str], marker: str | None) -> None:
    for name, separator in names.items():
        if separator == marker:
            raise BadLine(f"null.marker and {name} may not be equal")
    for one, other in (
        ("headers.delimiter", "headers.separator"),
        ("headers.delimiter", "headers.key.separator"),
        ("headers.separator", "headers.key.separator"),
    ):
        if names[one] == names[other]:
            raise BadLine(f"{one} and {other} may not be equal")


def _text(content: bytes) -> str:
    return content.decode(errors="replace")
