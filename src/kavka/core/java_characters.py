"""Character classes of Java's regular expressions, as sets of ASCII characters. Pure.

The names of topics are ASCII, so a class is what it has among 128 characters.
"""

from __future__ import annotations

import string
import unicodedata
from typing import Final

ASCII: Final = frozenset(map(chr, range(128)))
DIGITS: Final = frozenset(string.digits)
WORDS: Final = frozenset(string.ascii_letters + string.digits + "_")
SPACES: Final = frozenset(" \t\n\v\f\r")
HORIZONTAL: Final = frozenset(" \t")
VERTICAL: Final = frozenset("\n\v\f\r")

_LETTERS = frozenset(string.ascii_letters)
_LOWER = frozenset(string.ascii_lowercase)
_UPPER = frozenset(string.ascii_uppercase)
_PUNCTUATION = frozenset(string.punctuation)
_CONTROLS = frozenset(map(chr, [*range(32), 127]))
_WHITE = SPACES | frozenset("\x1c\x1d\x1e\x1f")
_HEX = frozenset(string.hexdigits)

_POSIX: Final = {
    "Lower": _LOWER, "Upper": _UPPER, "ASCII": ASCII, "Alpha": _LETTERS, "Digit": DIGITS,
    "Alnum": _LETTERS | DIGITS, "Punct": _PUNCTUATION, "Graph": _LETTERS | DIGITS | _PUNCTUATION,
    "Print": _LETTERS | DIGITS | _PUNCTUATION | {" "}, "Blank": HORIZONTAL, "Cntrl": _CONTROLS,
    "XDigit": _HEX, "Space": SPACES, "L1": ASCII, "all": ASCII,
    "javaLowerCase": _LOWER, "javaUpperCase": _UPPER, "javaAlphabetic": _LETTERS, "javaLetter": _LETTERS,
    "javaDigit": DIGITS, "javaLetterOrDigit": _LETTERS | DIGITS, "javaWhitespace": _WHITE,
    "javaSpaceChar": frozenset(" "), "javaISOControl": _CONTROLS, "javaDefined": ASCII,
    "javaMirrored": frozenset("()<>[]{}"), "javaTitleCase": frozenset[str](),
}  # fmt: skip
_BINARY: Final = {
    "alphabetic": _LETTERS, "letter": _LETTERS, "lowercase": _LOWER, "uppercase": _UPPER, "digit": DIGITS,
    "white_space": SPACES, "whitespace": SPACES, "hex_digit": _HEX, "hexdigit": _HEX, "control": _CONTROLS,
    "assigned": ASCII, "titlecase": frozenset[str](), "ideographic": frozenset[str](),
    "punctuation": frozenset(one for one in ASCII if unicodedata.category(one)[0] == "P"),
    "latin": _LETTERS,
}  # fmt: skip
_CATEGORIES: Final = frozenset(
    {
        "L", "Lu", "Ll", "Lt", "Lm", "Lo", "LC", "LD", "M", "Mn", "Me", "Mc", "N", "Nd", "Nl", "No", "Z", "Zs", "Zl",
        "Zp", "C", "Cc", "Cf", "Co", "Cs", "Cn", "P", "Pd", "Ps", "Pe", "Pc", "Po", "Pi", "Pf", "S", "Sm", "Sc", "Sk",
        "So",
    }
)  # fmt: skip


def named_class(name: str) -> frozenset[str] | None:
    r"""Return what `\p{name}` stands for; None for a name that is unknown here."""
    if name in _POSIX:
        return _POSIX[name]
    key, equals, value = name.partition("=")
    if equals:
        return _keyed_class(key.lower(), value)
    if name.startswith("Is"):
        found = _BINARY.get(name[2:].lower())
        return _category(name[2:]) if found is None else found
    if name.startswith("In"):
        return _block(name[2:])
    return _category(name)


def _keyed_class(key: str, value: str) -> frozenset[str] | None:
    if key in ("gc", "general_category"):
        return _category(value)
    if key in ("sc", "script"):
        return _LETTERS if value.lower() in ("latin", "latn") else None
    if key in ("blk", "block"):
        return _block(value)
    return None


def _block(name: str) -> frozenset[str] | None:
    return ASCII if name.lower().replace(" ", "").replace("_", "") == "basiclatin" else None


def _category(name: str) -> frozenset[str] | None:
    if name not in _CATEGORIES:
        return None
    if name == "LC":
        return _LETTERS
    if name == "LD":
        return _LETTERS | DIGITS
    return frozenset(one for one in ASCII if unicodedata.category(one).startswith(name))
