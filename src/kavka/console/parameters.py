"""Parameters of pages and actions: declared once, parsed from a query, a form or JSON, described by OpenAPI. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal

from kavka.console.failures import bad_request
from kavka.console.formats import is_text
from kavka.console.sentences import Sentence, say

Kind = Literal["text", "integer", "flag", "choice", "time", "secret"]
"""A `secret` is taken from a form or a body alone, and no page shows it."""

_TRUE: Final = ("1", "true", "on", "yes")
_FALSE: Final = ("", "0", "false", "off", "no")
_MOST_CHARACTERS: Final = 20_000
_MOST_BYTES: Final = 32_000
"""Of a part of a path, and of a text without a bound of its own: a string of Kafka has at most 32,767."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One value that a request may have."""

    name: str
    kind: Kind
    summary: str
    default: str = ""
    choices: tuple[str, ...] = ()
    minimum: int | None = None
    maximum: int | None = None
    """Of an integer; of a text its characters, 20,000 and 32,000 bytes without it."""
    required: bool = False
    is_content: bool = False
    """It is part of a record, which the audit does not have."""


class Arguments:
    """The values of one request. Each is checked when it is read; Refused says which is wrong, and why."""

    def __init__(
        self,
        declared: Sequence[Parameter],
        given: Mapping[str, Any],
        path: Mapping[str, str] | None = None,
    ) -> None:
        """Take what was given; names that are not declared are passed over. `path` are parts of the address.

        Raise Refused for a part that is too long.
        """
        self._declared = {parameter.name: parameter for parameter in declared}
        self._given = given
        self._hidden: set[str] = set()
        self.path = dict(path or {})
        for name, part in self.path.items():
            _require_short(name, part)

    def text(self, name: str) -> str:
        """Return a value as text, its default without one."""
        parameter = self._declared[name]
        value = self._given.get(name)
        text = parameter.default if value is None else _as_text(value)
        if isinstance(value, dict | list):
            raise bad_request(
                say("{name} is an object or a list of JSON, not one value.", name=name)
            )
        if not is_text(text):
            raise bad_request(say("{name} has half of a character (a lone surrogate).", name=name))
        own = parameter.maximum if parameter.kind == "text" else None
        most = own or _MOST_CHARACTERS
        if len(text) > most:
            raise bad_request(say("{name} has more than {most} characters.", name=name, most=most))
        if own is None:
            _require_short(name, text)
        if parameter.required and not text.strip():
            raise bad_request(
                say("{name} is missing: {summary}", name=name, summary=parameter.summary)
            )
        if parameter.kind == "choice" and text not in parameter.choices:
            listed = ", ".join(parameter.choices)
            raise bad_request(
                say(
                    "{name} is {text!r}, and can be one of: {listed}.",
                    name=name,
                    text=text[:100],
                    listed=listed,
                )
            )
        return text

    def is_given(self, name: str) -> bool:
        """Return whether the request has a value, which may be empty."""
        return self._given.get(name) is not None

    def hide(self, name: str) -> None:
        """Keep a value off pages and out of the audit: it is a secret, or may be one."""
        self._hidden.add(name)

    def show(self, name: str) -> None:
        """Take back `hide`: it is no secret."""
        self._hidden.discard(name)

    def integer(self, name: str) -> int | None:
        """Return a whole number within the bounds, None where the field is empty."""
        parameter = self._declared[name]
        text = self.text(name).strip()
        if not text:
            return None
        try:
            number = int(text)
        except ValueError:
            raise bad_request(
                say("{name} is {text!r}, not a whole number.", name=name, text=text[:100])
            ) from None
        low, high = parameter.minimum, parameter.maximum
        if (low is not None and number < low) or (high is not None and number > high):
            bounds = (
                say("from {low}", low=low)
                if high is None
                else say("to {high}", high=high)
                if low is None
                else say("from {low} to {high}", low=low, high=high)
            )
            raise bad_request(
                say(
                    "{name} is {number}, and can be {bounds}.",
                    name=name,
                    number=number,
                    bounds=bounds,
                )
            )
        return number

    def number(self, name: str) -> int:
        """Return a whole number that has a default."""
        found = self.integer(name)
        return int(self._declared[name].default) if found is None else found

    def flag(self, name: str) -> bool:
        """Return whether a box is ticked."""
        text = self.text(name).strip().lower()
        if text in _TRUE:
            return True
        if text in _FALSE:
            return False
        raise bad_request(
            say("{name} is {text!r}, and can be true or false.", name=name, text=text[:100])
        )

    def time_ms(self, name: str) -> int | None:
        """Return a time in milliseconds since 1970; ISO 8601 without an offset is UTC."""
        text = self.text(name).strip()
        if not text:
            return None
        if text.isdecimal():
            if len(text) > 18:  # more than a record's time can be
                raise bad_request(
                    say(
                        "{name} is {text}, not a time in milliseconds.",
                        name=name,
                        text=text[:100],
                    )
                )
            return int(text)
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            raise bad_request(
                say(
                    "{name} is {text!r}, not a time such as 2026-11-26T14:00 or milliseconds since "
                    "1970.",
                    name=name,
                    text=text[:100],
                )
            ) from None
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        found = round(moment.timestamp() * 1000)
        if found < 0:
            raise bad_request(say("{name} is before 1970.", name=name))
        return found

    def confirm(self, wanted: str, refusal: Sentence, act: Sentence) -> None:
        """Raise Refused for a change whose `confirm` is another text; the advice is to type it for the act."""
        if self.text("confirm") != wanted:
            raise bad_request(refusal, say("Type {wanted} to {act}.", wanted=wanted, act=act))

    def values(self) -> dict[str, str]:
        """Return what forms show: each declared value as it was given, or its default."""
        return {
            name: parameter.default
            if self._given.get(name) is None
            else _as_text(self._given[name])
            for name, parameter in self._declared.items()
            if parameter.kind != "secret" and name not in self._hidden
        }

    def audited(self) -> dict[str, str]:
        """Return what the audit has: `values` without parts of records."""
        return {n: value for n, value in self.values().items() if not self._declared[n].is_content}

    @property
    def has_content(self) -> bool:
        """True when parts of records were asked for, so that a reason may quote them."""
        return any(parameter.is_content for parameter in self._declared.values())


def _require_short(name: str, text: str) -> None:
    if len(text.encode()) > _MOST_BYTES:
        raise bad_request(say("{name} has more than {most} bytes.", name=name, most=_MOST_BYTES))


def _as_text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | list):  # `text` refuses it; it may be too deep to be written
        return "…"
    return str(value)
