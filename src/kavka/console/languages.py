"""The languages of pages: texts of templates are translated as these are loaded, from a table of each language.

Only what a template itself says is translated, never a value that it shows: a topic may be called Topics. Texts are
between tags, in the attributes that people read, and labels that a template has as strings. `chinese` has a table;
`texts_of` returns what a template says, so that a test finds what is missing. What Python makes for people is a
`Sentence`, and is translated as it is rendered.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from jinja2 import Environment
from jinja2.ext import Extension
from jinja2.lexer import Token

from kavka.console.chinese import CHINESE, CHINESE_SENTENCES

LANGUAGES: Final[Mapping[str, tuple[str, Mapping[str, str]]]] = {
    "en": ("English", {}),
    "zh": ("中文", CHINESE),
}
"""By code: the language's own name, and its table of what templates say."""
SENTENCES: Final[Mapping[str, Mapping[str, str]]] = {"en": {}, "zh": CHINESE_SENTENCES}
"""By code: the table of the sentences that Python makes, by their templates."""
COOKIE: Final = "kavka_language"
PARAMETER: Final = "language"

_READ: Final = ("placeholder", "title", "aria-label")
_TAG: Final = re.compile(r"(<[^>]*>?)")
_ATTRIBUTE: Final = re.compile(rf'(\b(?:{"|".join(_READ)})=")([^"]*)')
_WORD: Final = re.compile(r"[A-Za-z]{2,}")


def language_of(chosen: str, kept: str, accepted: str) -> str:
    """Return the language of a request: chosen now, kept by the browser, else the first of Accept-Language."""
    for one in (chosen, kept):
        if one in LANGUAGES:
            return one
    wanted: list[tuple[float, int, str]] = []
    for place, part in enumerate(accepted[:500].split(",")):
        name, _, quality = part.strip().partition(";q=")
        try:
            weight = float(quality or 1)
        except ValueError:
            continue
        wanted.append((-weight, place, name.partition("-")[0].strip().lower()))
    return next(
        (name for weight, _, name in sorted(wanted) if name in LANGUAGES and weight < 0), "en"
    )


def _changed(data: str, change: Callable[[str], str], *, in_tag: bool) -> tuple[str, bool]:
    """Return a piece of a template with its texts changed, and whether it ends within a tag."""
    if in_tag:
        rest, close, data = data.partition(">")
        head = _ATTRIBUTE.sub(lambda found: found[1] + change(found[2]), rest) + close
        if not close:
            return head, True
    else:
        head = ""
    parts = _TAG.split(data)
    for place, part in enumerate(parts):
        if part.startswith("<"):
            parts[place] = _ATTRIBUTE.sub(lambda found: found[1] + change(found[2]), part)
        else:
            parts[place] = _kept_spaces(part, change)
    tags = [part for part in parts if part.startswith("<")]
    return head + "".join(parts), bool(tags) and not tags[-1].endswith(">") and parts[-1] == ""


def _kept_spaces(text: str, change: Callable[[str], str]) -> str:
    inner = text.strip()
    if not _WORD.search(inner):
        return text
    lead = text[: len(text) - len(text.lstrip())]
    return lead + change(inner) + text[len(text.rstrip()) :]


class Translation(Extension):  # type: ignore[misc]  # jinja2 has no types here
    """Translates the templates of an environment that has a table as its global `translations`."""

    def filter_stream(self, stream: Any) -> Iterable[Token]:
        """Change the texts of a template's tokens."""
        table: Mapping[str, str] = self.environment.globals["translations"]
        return _tokens(stream, lambda text: table.get(" ".join(text.split()), text))


def _tokens(stream: Iterable[Token], change: Callable[[str], str]) -> Iterator[Token]:
    """Return the tokens with changed texts; the string `s` is the ending of a plural."""
    in_tag = False
    for token in stream:
        if token.type == "data":
            text, in_tag = _changed(token.value, change, in_tag=in_tag)
            yield Token(token.lineno, token.type, text)
        elif token.type == "string" and (token.value == "s" or _is_label(token.value)):
            yield Token(token.lineno, token.type, change(token.value))
        else:
            yield token


def _is_label(text: str) -> bool:
    """Return whether a string of a template is a label: it has a space or begins with a capital, and is no HTML."""
    is_sentence = " " in text.strip() or text[:1].isupper()
    return bool(_WORD.search(text)) and is_sentence and not re.search(r'[<>=/{}"]|^ ', text)


def texts_of(environment: Environment, template: str) -> set[str]:
    """Return what a template says."""
    found: set[str] = set()

    def note(text: str) -> str:
        if _WORD.search(text):
            found.add(" ".join(text.split()))
        return text

    assert environment.loader is not None
    source, _, _ = environment.loader.get_source(environment, template)
    for _ in _tokens(environment.lexer.tokenize(source, template), note):
        pass
    return found
