"""Parsers of named fields: JSON objects, logfmt, and regular expressions with named groups. Pure."""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

from kavka.collect.parsers.parsed import Parsed, Parser, Unparsable
from kavka.collect.parsers.times import FieldTime


def json_parser(times: FieldTime) -> Parser:
    """Return the parser of events that are JSON objects."""
    decode = json.JSONDecoder(parse_constant=_refuse_constant).decode

    def parse(text: str, now_ms: int) -> Parsed:
        try:
            fields = decode(text)
        except (ValueError, RecursionError) as error:
            raise Unparsable(f"the line is no JSON: {error}") from error
        if not isinstance(fields, dict):
            raise Unparsable("the line is JSON, but no object")
        return _with_time(fields, times)

    return parse


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


def _with_time(fields: dict[str, Any], times: FieldTime) -> Parsed:
    try:
        return Parsed(times.of(fields), fields)
    except ValueError as error:
        raise Unparsable(f"no time: {error}") from error


_PAIR = re.compile(r'\s*([^\s="]+)(?:=(?:"((?:[^"\\]|\\.)*)"|([^\s"]*)))?(?=\s|$)')
_ESCAPE = re.compile(r"\\(.)")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r"}


def logfmt_parser(times: FieldTime) -> Parser:
    """Return the parser of `key=value key="a text" key`; a key alone is true. At least one has a value."""

    def parse(text: str, now_ms: int) -> Parsed:
        fields: dict[str, Any] = {}
        position, has_value = 0, False
        end = len(text.rstrip())
        while position < end:
            match = _PAIR.match(text, position)
            if match is None:
                raise Unparsable(f"the line is no logfmt at character {position + 1}")
            key, quoted, plain = match.groups()
            if quoted is not None:
                fields[key] = _unescaped(quoted) if "\\" in quoted else quoted
            else:
                fields[key] = True if plain is None else plain
            has_value = has_value or fields[key] is not True
            position = match.end()
        if not has_value:
            raise Unparsable("the line has no key=value")
        return _with_time(fields, times)

    return parse


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda match: _ESCAPED.get(match[1], match[1]), text)


def regex_parser(pattern: re.Pattern[str], times: FieldTime) -> Parser:
    """Return the parser of events that a pattern matches as a whole; groups without a match are left out."""

    def parse(text: str, now_ms: int) -> Parsed:
        match = pattern.fullmatch(text)
        if match is None:
            raise Unparsable("the line does not match the regular expression")
        fields = {name: value for name, value in match.groupdict().items() if value is not None}
        return _with_time(fields, times)

    return parse
