"""The text of `sasl.jaas.config`: `<login module> <control flag> <option>="<value>" …;`, one login module.

A JAAS file has several of them, each in a section of its own: `<name> { <login module> … ; };`.

Words and quoted values are read as Apache Kafka's `JaasConfig` reads them, with Java's escapes within quotes. An error
never shows a value, which may be a password.
"""

from __future__ import annotations

import re
from typing import Final

from kavka.values import frozen

_SIGNS: Final = ("=", ";", "{", "}")
_FLAGS: Final = ("required", "requisite", "sufficient", "optional")
_TOKEN: Final = re.compile(
    r"""(?P<space>\s+|//[^\n]*|/\*.*?\*/)
    |(?P<quote>["'])(?P<quoted>(?:\\.|(?!(?P=quote))[^\\\n\r])*)(?P=quote)
    |(?P<word>[^\s="';/{}]+)
    |(?P<sign>[=;{}])""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\([0-3]?[0-7]{1,2}|.)", re.DOTALL)
_ESCAPED: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "a": "\a", "v": "\v"}


class JaasError(ValueError):
    """A text that is no JAAS configuration; the message holds none of its values."""


@frozen
class JaasLogin:
    """One login module with its options. Its text shows the names of options only."""

    module: str
    options: dict[str, str]

    def __repr__(self) -> str:
        """Show no value."""
        return f"JaasLogin({self.module}, options={sorted(self.options)})"

    def is_module(self, name: str) -> bool:
        """Return whether this is the login module of that class name, or of its last part alone."""
        return self.module.rpartition(".")[2] == name.rpartition(".")[2]


def parse_jaas(text: str) -> JaasLogin:
    """Return the login module that the text describes. Raise JaasError."""
    return _login(_tokens(text))


def _login(tokens: list[tuple[str, bool]]) -> JaasLogin:
    if len(tokens) < 3:
        raise JaasError('Expected: <login module> required <option>="<value>" ...;')
    (module, module_quoted), (flag, _), *rest = tokens
    if module_quoted or not module:
        raise JaasError("Login module not specified in JAAS config")
    if flag.lower() not in _FLAGS:
        raise JaasError(
            "Expected required, requisite, sufficient or optional after the login module"
        )
    if rest[-1] != (";", False):
        raise JaasError("JAAS config entry not terminated by semi-colon")
    del rest[-1]
    if (";", False) in rest:
        raise JaasError("Expected one login module, found more")
    return JaasLogin(module, _options(rest))


def parse_jaas_section(text: str, section: str) -> tuple[JaasLogin | None, list[str]]:
    """Return the login module of a section of a JAAS file, None without such a section; and the names of all sections.

    What is in other sections, which may have several login modules, is not looked at. Raise JaasError.
    """
    tokens = _tokens(text)
    found: JaasLogin | None = None
    names: list[str] = []
    at = 0
    while at < len(tokens):
        name, is_quoted = tokens[at]
        if (name in _SIGNS and not is_quoted) or tokens[at + 1 : at + 2] != [("{", False)]:
            raise JaasError(
                f"Expected the name of a section and a brace after {len(names)} sections"
            )
        if ("}", False) not in tokens[at:]:
            raise JaasError(f"Section {name} has no closing brace")
        end = tokens.index(("}", False), at)
        if tokens[end + 1 : end + 2] != [(";", False)]:
            raise JaasError(f"Section {name} is not terminated by semi-colon")
        if name == section:
            found = _login(tokens[at + 2 : end])
        names.append(name)
        at = end + 2
    return found, names


def _options(tokens: list[tuple[str, bool]]) -> dict[str, str]:
    options: dict[str, str] = {}
    for at in range(0, len(tokens), 3):
        name = tokens[at][0]
        if tokens[at][1] or tokens[at + 1 : at + 2] != [("=", False)] or len(tokens) < at + 3:
            raise JaasError(f"Expected name=value after {at // 3} options")
        value, is_quoted = tokens[at + 2]
        if not is_quoted and value in ("=", "{", "}"):
            raise JaasError(f"Value not specified for key '{name}' in JAAS config")
        options[name] = value
    return options


def _tokens(text: str) -> list[tuple[str, bool]]:
    """Return words, signs and the contents of quotes, each with whether it was quoted."""
    found: list[tuple[str, bool]] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise JaasError(
                f"Cannot be read from character {position} on: a quote without its end?"
            )
        position = match.end()
        if match["quote"] is not None:
            found.append((_ESCAPE.sub(_unescape, match["quoted"]), True))
        elif match["space"] is None:
            found.append((match["word"] or match["sign"], False))
    return found


def _unescape(match: re.Match[str]) -> str:
    escaped = match[1]
    if escaped[0] in "01234567":
        return chr(int(escaped, 8))
    return _ESCAPED.get(escaped, escaped)


def quoted(value: str) -> str:
    """Return a value as it stands in a JAAS text."""
    escaped = (
        value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    )
    return f'"{escaped}"'
