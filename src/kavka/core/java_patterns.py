r"""Regular expressions of Java's `Pattern`, translated into those of Python for the names of topics. Pure.

Users write patterns for topics in Java's syntax, because Kafka's tools and Spark's connector take it. Python's
differs: `\p{Lower}` and `[a-z&&[^q]]` are not in it, `[[ab]c]` and `\Z` mean something else, and it takes what Java
refuses. So a pattern is parsed as Java parses it. Classes become the sets of their characters, flags are applied to
each part, and what remains means the same in both. A subject is ASCII, on one line, as the names of topics are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from kavka.core.java_characters import (
    ASCII,
    DIGITS,
    HORIZONTAL,
    SPACES,
    VERTICAL,
    WORDS,
    named_class,
)

_CLASSES: Final = {"d": DIGITS, "w": WORDS, "s": SPACES, "h": HORIZONTAL, "v": VERTICAL}
_CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_ANCHORS: Final = {"A": r"\A", "G": r"\A", "z": r"\Z", "Z": r"\Z", "b": r"\b", "B": r"\B"}
_LOOKS: Final = ("?:", "?=", "?!", "?<=", "?<!", "?>")
_FLAGS: Final = frozenset("idmsuxU")


class BadJavaPattern(ValueError):
    """A text is not a pattern of Java, or is one that cannot be translated."""

    def __init__(self, reason: str, position: int) -> None:
        """`position` counts characters from 0."""
        super().__init__(f"{reason} near index {position}")
        self.reason = reason
        self.position = position


def java_pattern(text: str) -> re.Pattern[str]:
    """Return a pattern that matches the names of topics that Java's `Pattern.compile(text)` matches.

    Raise BadJavaPattern.
    """
    translated = _Parser(text).pattern()
    try:
        return re.compile(translated, re.ASCII | re.DOTALL)
    except (re.error, OverflowError) as error:
        raise BadJavaPattern(f"The pattern is not supported: {error}", 0) from error


class _Parser:
    """Goes through a pattern once, by recursive descent."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._flags: frozenset[str] = frozenset()
        self._groups = 0
        self._names: dict[str, int] = {}

    def pattern(self) -> str:
        """Return the translation of all of the text."""
        found = self._alternatives()
        if self._at < len(self._text):
            raise self._bad("Unmatched closing ')'")
        return found

    def _bad(self, reason: str) -> BadJavaPattern:
        return BadJavaPattern(reason, max(min(self._at, len(self._text) - 1), 0))

    # The text

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _next(self) -> str:
        one = self._peek()
        if not one:
            raise self._bad("Unexpected end of the pattern")
        self._at += 1
        return one

    def _take(self, wanted: str) -> bool:
        if not self._text.startswith(wanted, self._at):
            return False
        self._at += len(wanted)
        return True

    def _until(self, end: str, what: str) -> str:
        found = self._text.find(end, self._at)
        if found < 0:
            raise self._bad(f"Unclosed {what}")
        taken, self._at = self._text[self._at : found], found + len(end)
        return taken

    def _skip_comments(self) -> None:
        """Pass over white space and comments where the flag x is on."""
        while "x" in self._flags and self._peek():
            if self._take("#"):
                while self._peek() and self._next() not in "\n\r":
                    pass
            elif self._peek() in SPACES:
                self._at += 1
            else:
                return

    # Groups

    def _alternatives(self) -> str:
        """Translate up to a closing parenthesis; flags set inside end with it."""
        outer = self._flags
        branches = [self._sequence()]
        while self._take("|"):
            branches.append(self._sequence())
        self._flags = outer
        return "|".join(branches)

    def _sequence(self) -> str:
        parts: list[str] = []
        while True:
            self._skip_comments()
            if self._peek() in ("", "|", ")"):
                return "".join(parts)
            if self._take(r"\Q"):
                parts.append(self._quoted())
                continue
            atom = self._atom()
            parts.append(atom + self._quantifier() if atom else "")

    def _atom(self) -> str:
        one = self._next()
        match one:
            case "(":
                return self._group()
            case "[":
                return _one_of(self._class())
            case "\\":
                return self._escape()
            case ".":
                return "."
            case "^":
                return r"\A"
            case "$":
                return r"\Z"
            case "*" | "+" | "?":
                self._at -= 1
                raise self._bad(f"Dangling meta character '{one}'")
            case "{":
                self._at -= 1
                raise self._bad("Illegal repetition")
            case _:
                return self._literal(one)

    def _group(self) -> str:
        if self._peek() != "?":
            self._groups += 1
            return f"({self._closed()})"
        for look in _LOOKS:
            if self._take(look):
                return f"({look}{self._closed()})"
        if self._take("?<"):
            return self._named_group()
        self._at += 1
        before = self._flags
        self._read_flags()
        if self._take(")"):
            return ""
        if not self._take(":"):
            raise self._bad("Unknown inline modifier")
        inside = self._closed()
        self._flags = before
        return f"(?:{inside})"

    def _named_group(self) -> str:
        name = self._until(">", "name of a group")
        if re.fullmatch("[a-zA-Z][a-zA-Z0-9]*", name) is None:
            raise self._bad("A name of a group is letters and digits, beginning with a letter")
        if name in self._names:
            raise self._bad(f"Named capturing group <{name}> is already defined")
        self._groups += 1
        self._names[name] = self._groups
        return f"({self._closed()})"

    def _closed(self) -> str:
        inside = self._alternatives()
        if not self._take(")"):
            raise self._bad("Unclosed group")
        return inside

    def _read_flags(self) -> None:
        adding = True
        while self._peek() not in (":", ")"):
            one = self._next()
            if one == "-" and adding:
                adding = False
            elif one in _FLAGS:
                self._flags = self._flags | {one} if adding else self._flags - {one}
            else:
                raise self._bad("Unknown inline modifier")

    def _quantifier(self) -> str:
        self._skip_comments()
        one = self._peek()
        if one in ("*", "+", "?") and one:
            self._at += 1
            found = one
        elif one == "{":
            self._at += 1
            count = self._until("}", "counted closure")
            if re.fullmatch(r"[0-9]+(,[0-9]*)?", count) is None:
                raise self._bad("Illegal repetition")
            least, _, most = count.partition(",")
            if most and int(most) < int(least):
                raise self._bad("Illegal repetition range")
            found = f"{{{count}}}"
        else:
            return ""
        return found + (self._next() if self._peek() in ("?", "+") and self._peek() else "")

    # Characters

    def _literal(self, one: str) -> str:
        if "i" in self._flags and one.isascii() and one.isalpha():
            return f"[{one.lower()}{one.upper()}]"
        return re.escape(one)

    def _quoted(self) -> str:
        r"""Translate what stands between \Q and \E; a quantifier belongs to its last character."""
        end = self._text.find(r"\E", self._at)
        stop = len(self._text) if end < 0 else end
        characters = [self._literal(one) for one in self._text[self._at : stop]]
        self._at = stop if end < 0 else end + 2
        if not characters:
            return ""
        return "".join(characters) + self._quantifier()

    def _escape(self) -> str:
        one = self._next()
        if one in _ANCHORS:
            if one == "b" and self._peek() == "{":
                raise self._bad("The boundary \\b{g} is not supported")
            return _ANCHORS[one]
        if one == "R":
            return r"(?:\r\n|[\n\v\f\r])"
        if one == "X":
            return r"(?:\r\n|.)"
        if one == "k":
            return self._named_reference()
        if one in "123456789":
            return self._reference(one)
        self._at -= 1
        found = self._escaped_class()
        return self._literal(self._escaped_character()) if found is None else _one_of(found)

    def _reference(self, digits: str) -> str:
        while self._peek() in tuple("0123456789") and int(digits + self._peek()) <= self._groups:
            digits += self._next()
        if int(digits) > self._groups:
            raise self._bad(f"There is no group {digits} before this reference")
        return self._to_group(int(digits))

    def _named_reference(self) -> str:
        if not self._take("<"):
            raise self._bad("\\k is not followed by '<' for named capturing group")
        name = self._until(">", "name of a group")
        if name not in self._names:
            raise self._bad(f"named capturing group <{name}> does not exist")
        return self._to_group(self._names[name])

    def _to_group(self, number: int) -> str:
        ignores_case = "i" in self._flags
        return f"(?i:\\{number})" if ignores_case else f"(?:\\{number})"

    def _escaped_class(self) -> frozenset[str] | None:
        r"""Take a class such as d of \d or p{Lower}; None, and take nothing, where there is none."""
        one = self._peek()
        if one in ("p", "P"):
            self._at += 1
            named = self._until("}", "character family") if self._take("{") else self._next()
            found = named_class(named)
            if found is None:
                raise self._bad(f"Unknown or unsupported character property {{{named}}}")
            found = self._folded(found)
        elif one and one.lower() in _CLASSES:
            self._at += 1
            found = _CLASSES[one.lower()]
        else:
            return None
        return ASCII - found if one.isupper() else found

    def _escaped_character(self) -> str:
        one = self._next()
        if one in _CONTROLS:
            return _CONTROLS[one]
        if one == "c":
            return chr(ord(self._next()) ^ 64)
        if one == "0":
            return self._number(r"[0-3]?[0-7]{1,2}", 8)
        if one == "x":
            if self._take("{"):
                return self._code(self._until("}", "hexadecimal escape sequence"), 16)
            return self._number(r"[0-9a-fA-F]{2}", 16)
        if one == "u":
            return self._number(r"[0-9a-fA-F]{4}", 16)
        if one.isascii() and one.isalnum():
            raise self._bad(f"Illegal or unsupported escape sequence \\{one}")
        return one

    def _number(self, form: str, base: int) -> str:
        found = re.compile(form).match(self._text, self._at)
        if found is None:
            raise self._bad("Illegal escape sequence")
        self._at = found.end()
        return self._code(found[0], base)

    def _code(self, digits: str, base: int) -> str:
        try:
            return chr(int(digits, base))
        except (ValueError, OverflowError):
            raise self._bad("Illegal escape sequence") from None

    # Classes

    def _class(self) -> frozenset[str]:
        """Take a class behind its opening bracket: a union of items, or an intersection of such."""
        negated = self._take("^")
        found: frozenset[str] | None = None
        has_items = False
        union: frozenset[str] = frozenset()
        while True:
            self._skip_comments()
            if self._peek() == "":
                raise self._bad("Unclosed character class")
            if self._peek() == "]" and (has_items or found is not None):
                self._at += 1
                break
            if self._take("&&"):
                if has_items:
                    found = union if found is None else found & union
                union, has_items = frozenset(), False
                continue
            union |= self._class_item()
            has_items = True
        if has_items:
            found = union if found is None else found & union
        whole = found or frozenset()
        return ASCII - whole if negated else whole

    def _class_item(self) -> frozenset[str]:
        if self._take("["):
            return self._class()
        if self._take(r"\Q"):
            return self._folded(self._until(r"\E", "quotation in a character class"))
        if self._take("\\"):
            found = self._escaped_class()
            if found is not None:
                return found
            first = self._escaped_character()
        else:
            first = self._next()
        if self._peek() != "-" or self._text[self._at + 1 : self._at + 2] in ("]", "[", ""):
            return self._folded([first])
        self._at += 1
        last = self._escaped_character() if self._take("\\") else self._next()
        if last < first:
            raise self._bad("Illegal character range")
        return self._folded(one for one in ASCII if first <= one <= last)

    def _folded(self, characters: Iterable[str]) -> frozenset[str]:
        """Return the ASCII characters, with their other case where the flag i is on."""
        found = frozenset(characters) & ASCII
        if "i" not in self._flags:
            return found
        return found | {one.lower() for one in found} | {one.upper() for one in found}


def _one_of(characters: frozenset[str]) -> str:
    if not characters:
        return "(?!)"
    return "[" + "".join(re.escape(one) for one in sorted(characters)) + "]"
