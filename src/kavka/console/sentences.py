"""Sentences that Python makes for people, with values in them: English now, another language when a page is rendered.

A sentence is a `str`, its English text: JSON, the log, the audit and messages of alerts have that. It remembers the
template that it was made of, which is the key of its translation, and its values, which are never translated unless
they are sentences themselves. So a text of others, which may say anything, stays what it is; as does a sentence that
was changed, joined or kept in a file, or whose template has no translation.
"""

from __future__ import annotations

from collections.abc import Mapping


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
