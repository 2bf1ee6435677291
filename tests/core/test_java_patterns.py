"""Patterns in Java's syntax; `tests/compat/test_java_patterns.py` has Java beside them."""

from __future__ import annotations

import pytest

from kavka.core.java_patterns import BadJavaPattern, java_pattern


@pytest.mark.parametrize(
    ("text", "wanted", "unwanted"),
    [
        (r"\p{Lower}+", "orders", "ORDERS"),
        (r"[a-z&&[^q]]+", "abc", "q"),
        (r"[[ab]c]+", "abc", "["),
        (r"(?i)orders", "Orders", "other"),
        (r"a(?i)b", "aB", "AB"),
        (r"\Qa.b\E.*", "a.b-1", "axb"),
        (r"(?<part>a+)-\k<part>", "aa-aa", "aa-a"),
        (r"orders\Z", "orders", "orders1"),
        (r"[^a&&[ab]]", "z", "a"),
    ],
)
def test_a_pattern_means_what_it_means_in_java(text: str, wanted: str, unwanted: str) -> None:
    pattern = java_pattern(text)
    assert pattern.fullmatch(wanted)
    assert not pattern.fullmatch(unwanted)


@pytest.mark.parametrize(
    "text", ["(?P<x>a)", "a{,2}", "*a", "a**", "[a", "(a", "a)", r"\y", r"\p{Nope}", "(?#a)", "\\"]
)
def test_what_java_refuses_is_refused(text: str) -> None:
    with pytest.raises(BadJavaPattern, match="near index"):
        java_pattern(text)
