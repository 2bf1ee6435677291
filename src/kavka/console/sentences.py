"""Sentences that Python makes for people, with values in them: English now, another language when a page is rendered.

A sentence is a `str`, its English text: JSON, the log, the audit and messages of alerts have that. It remembers the
template that it was made of, which is the key of its translation, and its values, which are never translated unless
they are sentences themselves. So a text of others, which may say anything, stays what it is; as does a sentence that
was changed or joined, or whose template has no translation. A file keeps the text and, beside it, `parts_of`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Sentence(str):
    """A text for people; made by `say`, or by `as_is` of a text of others."""

    template: str = ""
    values: Mapping[str, object] = {}

    def translated(self, table: Mapping[str, str]) -> str:
        """Return the sentence by a table of templates; in English where that does not have it."""
        template = table.get(self.template) if self.template else None
        if template is None:
            return str(self)
        values = {
            name: value.translated(table) if isinstance(value, Sentence) else value
            for name, value in self.values.items()
        }
        return template.format(**values) if values else template


def say(template: str, /, **values: object) -> Sentence:
    """Return a sentence. The template is a literal, with the names of all values in braces, as `str.format` has them.

    Without values nothing is formatted, and braces are braces. Of two forms that English has for one and for many, the
    ending is a value with a name that begins with `s`, which a translation may leave out.
    """
    made = Sentence(template.format(**values) if values else template)
    made.template, made.values = template, values
    return made


def as_is(text: str) -> Sentence:
    """Return a text of others, such as a broker's reason, which stays as it is in each language."""
    return text if isinstance(text, Sentence) else Sentence(text)


NOTHING = as_is("")
"""No sentence."""


def parts_of(text: str) -> dict[str, Any] | None:
    """Return what a file keeps beside the text of a sentence, as JSON has it; None for a text of others."""
    if not isinstance(text, Sentence) or not text.template:
        return None
    return {
        "template": text.template,
        "values": {name: _kept(value) for name, value in text.values.items()},
    }


def _kept(value: object) -> object:
    if isinstance(value, bool | int | float):
        return value
    return parts_of(value) or str(value) if isinstance(value, Sentence) else str(value)


def restored(text: str, parts: object) -> Sentence:
    """Return the sentence of a text that was kept with its parts; the text as it is where they do not give it."""
    try:
        made = _made(parts)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):  # of another release
        return as_is(text)
    return made if made == text else as_is(text)


def _made(parts: Any) -> Sentence:
    values = {
        name: _made(value) if isinstance(value, dict) else value
        for name, value in parts["values"].items()
    }
    return say(parts["template"], **values)  # the template was a literal when it was kept
