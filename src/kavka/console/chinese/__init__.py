"""The texts of pages in Simplified Chinese, a module for each subject. `languages` says where texts come from."""

from __future__ import annotations

from typing import Final

from kavka.console.chinese.access import ACCESS
from kavka.console.chinese.alerts import ALERTS
from kavka.console.chinese.findings import FINDINGS
from kavka.console.chinese.moves import MOVES
from kavka.console.chinese.outcomes import OUTCOMES
from kavka.console.chinese.pages import PAGES
from kavka.console.chinese.programs import PROGRAMS
from kavka.console.chinese.records import RECORDS
from kavka.console.chinese.refusals import REFUSALS
from kavka.console.chinese.rules import RULES
from kavka.console.chinese.transactions import TRANSACTIONS

CHINESE: Final[dict[str, str]] = {
    **PAGES,
    **RECORDS,
    **MOVES,
    **TRANSACTIONS,
    **ACCESS,
    **PROGRAMS,
    **ALERTS,
}

CHINESE_SENTENCES: Final[dict[str, str]] = {**REFUSALS, **FINDINGS, **OUTCOMES, **RULES}
"""By templates of `kavka.console.sentences`."""

SAME: Final = frozenset(
    {
        "kavka", "· kavka",
        # Words of HTTP.
        "Content-Type: application/json", "GET", "POST",
        # Examples of what can be typed.
        "User:alice", "name: value", "name=value", "orders-value", "$.user.id = 42",
        "select key, count(*) from orders group by key order by 2 desc limit 20",
        "retention.ms=604800000&#10;cleanup.policy=compact",
        # States of groups, which are Kafka's own words.
        "CompletingRebalance", "Dead", "Empty", "PreparingRebalance", "Stable",
        # What a form sends, or asks to be typed.
        "Allow", "Deny", "unclean", "&lt;default&gt;",
        # Names of formats, and of what schemas belong to in a registry.
        "CSV", "JSON", "SQL", "null", "Schema", "Subject",
    }
)  # fmt: skip
"""Texts that are the same in Chinese."""
