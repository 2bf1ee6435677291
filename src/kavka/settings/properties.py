"""Java's `.properties` files, as Kafka's configuration is written."""

from __future__ import annotations

import re

# `str.splitlines` knows many more ends of lines than Java, form feeds and U+2028 among them.
_LINE_END = re.compile(r"\r\n|\r|\n")
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> dict[str, str]:
    """Return the names and values of a properties file; a later line wins.

    Understands comments (`#`, `!`), the separators `=`, `:` and white space, continued lines, and the escapes
    of `java.util.Properties`. Raise ValueError on a broken unicode escape.
    """
    found: dict[str, str] = {}
    for line in _logical_lines(text):
        name, value = _split(line)
        found[_unescape(name)] = _unescape(value)
    return found


def _logical_lines(text: str) -> list[str]:
    lines: list[str] = []
    pending = ""
    for raw in _LINE_END.split(text):
        line = raw.lstrip(" \t\f")
        if not pending and (not line or line[0] in "#!"):
            continue
        pending += line
        slashes = len(pending) - len(pending.rstrip("\\"))
        if slashes % 2:
            pending = pending[:-1]
            continue
        lines.append(pending)
        pending = ""
    if pending:
        lines.append(pending)
    return lines


def _split(line: str) -> tuple[str, str]:
    match = re.match(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*", line)
    assert match is not None  # every part of the pattern may be empty
    return match.group(1), line[match.end() :]


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text

    def one(match: re.Match[str]) -> str:
        code, letter = match.group(1), match.group(2)
        if code is not None:
            return chr(int(code, 16))
        if letter == "u":
            raise ValueError("Malformed \\uxxxx encoding.")
        return _ESCAPES.get(letter, letter)

    found = re.sub(r"\\(?:u([0-9a-fA-F]{4})|(.))", one, text)
    # Beyond 16 bits a character is written as two escapes.
    return found.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
