"""Patterns for topics beside Java's own `Pattern`: the same names are found and matched, the same patterns refused."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from kavka.core.java_patterns import BadJavaPattern, java_pattern

pytestmark = [pytest.mark.compat, pytest.mark.timeout(120)]

HERE = Path(__file__).parent / "java"
NAMES = [
    "everything", "ever", "a", "A", "ab", "aB", "b.c", "x-1", "t_0", "orders.EU", "orders.eu", "topic1", "aa", "aba",
    "0", "9z", "-.", "__x", "Zed", "q1-q2", "foo.bar.baz", "aaa", "AAA", "a-b-c", "A1b2", "ab12AB",
]  # fmt: skip
PIECES = [
    *"abAB019.-_", "[", "]", "[^", "(", "(?:", ")", "|", "*", "+", "?", "{2}", "{1,2}", "^", "$", "a-c", "&&", "(?i)",
    "(?i:", "(?=", "(?!", "(?>", r"\d", r"\w", r"\W", r"\p{Lower}", r"\P{Lu}", r"\p{Punct}", r"\pL", r"\Q", r"\E",
    r"\.", r"\1", r"\b", r"\Z", r"\x41",
]  # fmt: skip
UNUSABLE = "refused"


def java_results(patterns: list[str]) -> list[str]:
    ran = subprocess.run(
        ["java", "-XX:TieredStopAtLevel=1", str(HERE / "FindNames.java")],
        input="\n".join([" ".join(NAMES), *patterns, ""]),
        capture_output=True,
        text=True,
        check=True,
    )
    return ran.stdout.splitlines()


def our_result(text: str) -> str:
    try:
        pattern = java_pattern(text)
    except BadJavaPattern:
        return UNUSABLE
    found = [(pattern.search(name), pattern.fullmatch(name)) for name in NAMES]
    return "".join("01"[one is not None] for pair in found for one in pair)


def test_patterns_that_people_write_find_and_match_what_they_do_in_java() -> None:
    patterns = (HERE / "patterns.txt").read_text().splitlines()
    assert len(patterns) >= 140
    differing = [
        (text, java, ours)
        for text, java in zip(patterns, java_results(patterns), strict=True)
        if (ours := our_result(text)) != java
    ]
    assert differing == []


def test_a_pattern_of_random_pieces_is_refused_or_finds_what_it_finds_in_java() -> None:
    rng = random.Random(17)
    patterns = ["".join(rng.choices(PIECES, k=rng.randint(1, 8))) for _ in range(20_000)]
    usable = 0
    differing = []
    for text, java in zip(patterns, java_results(patterns), strict=True):
        ours = our_result(text)
        usable += UNUSABLE not in (ours, java)
        if ours not in (java, UNUSABLE):
            differing.append((text, java, ours))
    assert differing == []
    assert usable > 3000
