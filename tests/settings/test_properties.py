"""Java's properties files."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.settings.properties import parse_properties


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", {"a": "b"}),
        ("a = b ", {"a": "b "}),
        ("a:b\nc d\ne", {"a": "b", "c": "d", "e": ""}),
        ("# comment\n! too\n\n  a=1", {"a": "1"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=one,\\\n   two", {"a": "one,two"}),
        ("path=c:\\\\kafka", {"path": "c:\\kafka"}),
        ("a\\=b=c", {"a=b": "c"}),
        ("u=\\u00e4\\t", {"u": "ä\t"}),
        ("listeners=PLAINTEXT://127.0.0.1:9092", {"listeners": "PLAINTEXT://127.0.0.1:9092"}),
        ("a=b\r\nc=d\r\n", {"a": "b", "c": "d"}),
    ],
)
def test_files_read_as_java_reads_them(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


def test_a_broken_escape_is_refused() -> None:
    with pytest.raises(ValueError, match="Malformed"):
        parse_properties("a=\\u12")


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parse_properties(text)
    except ValueError as refused:
        if "Malformed" not in str(refused):
            raise


def test_only_the_line_ends_of_java_end_a_line() -> None:
    text = "a=1\u20282\x852\x0b3\x1c4\rb=2\r\n\x0cc = 3\n"
    assert parse_properties(text) == {"a": "1\u20282\x852\x0b3\x1c4", "b": "2", "c": "3"}


def test_a_character_beyond_16_bits_has_two_escapes() -> None:
    assert parse_properties(r"a=\ud83d\ude00") == {"a": "\U0001f600"}
    assert parse_properties(r"a=\ud83d!") == {"a": "\ufffd!"}
