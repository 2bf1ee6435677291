"""Makes the parser that the options of a command describe. Pure."""

from __future__ import annotations

import re
from datetime import tzinfo

from kavka.collect.parsers import access, named_fields, syslog
from kavka.collect.parsers.parsed import Parser
from kavka.collect.parsers.times import FieldTime, TimeRules
from kavka.values import frozen


@frozen
class ParserRules:
    """The options of a command for parsing."""

    name: str
    regex: str | None = None
    time_field: str | None = None
    time_format: str | None = None
    zone: tzinfo | None = None
    """Time zone of times without one; None is the machine's."""


NAMES = ("combined", "json", "logfmt", "syslog", "regex")


class BadRules(Exception):
    """The options of a parser contradict each other; the message says what to change."""


def parser_of(rules: ParserRules) -> Parser:
    """Return a parser. Raise BadRules."""
    if (rules.name == "regex") != (rules.regex is not None):
        raise BadRules("--parser regex and --regex are given together")
    times = FieldTime(TimeRules(rules.time_field, rules.time_format, rules.zone))
    if rules.name == "regex":
        assert rules.regex is not None
        return named_fields.regex_parser(_compiled(rules.regex), times)
    if rules.name == "json":
        return named_fields.json_parser(times)
    if rules.name == "logfmt":
        return named_fields.logfmt_parser(times)
    if rules.time_field is not None or rules.time_format is not None:
        raise BadRules(
            f"--parser {rules.name} has its own time: leave out --time-field and --time-format"
        )
    return access.parse if rules.name == "combined" else syslog.Syslog(rules.zone).parse


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise BadRules(f"--regex {pattern!r} is no regular expression: {error}") from error
    if not compiled.groupindex:
        raise BadRules(f"--regex {pattern!r} has no named group, such as (?P<status>\\d+)")
    return compiled
