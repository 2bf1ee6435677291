"""Advice about statements that the engine refuses, for people who know SQL and not this command. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final

_WRITES: Final = re.compile(r"is not an? table|Can only (?:update|delete from) base table")
SHOW_TABLES: Final = re.compile(r"\s*show\s+(?:all\s+)?tables\s*;?\s*", re.IGNORECASE)
"""The statement that asks for the tables, which are the topics here."""


def advice_on(
    refusal: str, text: str, topics: Iterable[str], quoted: Callable[[str], str]
) -> str | None:
    """Return what to do about a refused statement; None when the engine's own words say all."""
    if text.lstrip().startswith("\\"):
        return (
            "Commands such as \\d are for the shell on a terminal: `show tables` lists the topics, "
            "`describe TOPIC` the columns of one."
        )
    if _WRITES.search(refusal):
        return "Statements only read topics: `kavka console-producer` writes into them."
    if "Parser Error" not in refusal:
        return None
    for topic in sorted(topics, key=len, reverse=True):
        if quoted(topic) != topic and _stands_without_quotes(topic, text):
            return f"Put the topic's name in double quotes: {quoted(topic)}."
    return None


def _stands_without_quotes(topic: str, text: str) -> bool:
    name = re.escape(topic)
    return re.search(rf"(?<![\w.\-\"']){name}(?![\w.\-\"'])", text, re.IGNORECASE) is not None


def show_tables(topics: Iterable[str]) -> str:
    """Return a query whose rows are the topics, and the tables and views that statements have made."""
    # A topic's name has letters, digits, dots, dashes and underscores.
    names = ", ".join(f"'{topic}'" for topic in topics)
    return (
        f"select distinct name from (select unnest([{names}]::varchar[]) as name union all "
        "select table_name from information_schema.tables) order by name"
    )
