r"""Masks: parts of records that are replaced before anything else of the console sees them. Pure.

A consumer's records are masked as they are read, so pages, exports, the tail and the JSON API have only masked ones,
and a filter compares with these: no search finds out what a mask covers. What cannot be taken apart is covered whole: a
value that is no JSON, where a mask names a field, and JSON in which a name stands twice.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kavka.client.consumer.batches import ConsumerRecord
from kavka.console.access.roles import ROLES, Role, User
from kavka.console.formats import utf8_of

REPLACEMENT: Final = "***"

_STEP: Final = re.compile(r"(\.\.|\.)([^.\[\]*'\"]+|\*)|\[(\d+|\*|'[^']*'|\"[^\"]*\")\]")


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a path: a name, an index, or any (None); at any depth below, if `is_deep`."""

    name: str | int | None
    is_deep: bool


def path_of(text: str) -> tuple[Step, ...]:
    """Return the steps of a JSON path: `$.card.number`, `$.items[*].email`, `$..password`. Raise ValueError."""
    at, steps = 1, []
    if not text.startswith("$"):
        raise ValueError(f"{text!r} is no JSON path: it begins with $, such as $.card.number")
    while at < len(text):
        found = _STEP.match(text, at)
        if found is None:
            raise ValueError(
                f"{text!r} is no JSON path that masks know, from character {at + 1} on: names ($.card.number), indices "
                "and all of them ($.items[0], $.items[*].email), any depth ($..password)"
            )
        dots, name, inside = found.groups()
        steps.append(Step(_name(name if name is not None else inside), dots == ".."))
        at = found.end()
    if not steps:
        raise ValueError(f"{text!r} is the whole value: name a field, or use value = true")
    return tuple(steps)


def _name(text: str) -> str | int | None:
    if text == "*":
        return None
    if text[0] in "'\"":
        return text[1:-1]
    return int(text) if text.isdecimal() else text


@dataclass(frozen=True, slots=True)
class Mask:
    """One mask, of topics with a prefix; users with the role `unmasked` on the topic see what it covers."""

    topics: tuple[str, ...] = ("",)
    field: tuple[Step, ...] = ()
    header: str = ""
    """The name of a header, in any case."""
    pattern: re.Pattern[str] | None = None
    """Text in key, value and headers."""
    key: bool = False
    value: bool = False
    replacement: str = REPLACEMENT
    unmasked: Role | None = None
    """None: it is covered for every user."""

    def holds(self, user: User, topic: str) -> bool:
        """Return whether the mask holds for a user and a topic."""
        is_free = self.unmasked is not None and user.may(self.unmasked, topic=topic)
        return topic.startswith(self.topics) and not is_free

    def apply(self, record: ConsumerRecord) -> ConsumerRecord:
        """Return a record with what the mask covers replaced."""
        key, value, headers = record.key, record.value, record.headers
        cover = self.replacement.encode()
        if self.header:
            wanted = self.header.lower()
            headers = tuple(
                (n, cover if n.lower() == wanted and v is not None else v) for n, v in headers
            )
        if self.field:
            # A key may hold the same object; one that is no JSON is no place of fields.
            key = self._in_json(key, otherwise=key)
            value = self._in_json(value, otherwise=cover)
        if self.pattern is not None:
            key, value = self._in_text(key), self._in_text(value)
            headers = tuple((name, self._in_text(data)) for name, data in headers)
        if self.key and key is not None:
            key = cover
        if self.value and value is not None:
            value = cover
        return record._replace(key=key, value=value, headers=headers)

    def _in_json(self, data: bytes | None, *, otherwise: bytes | None) -> bytes | None:
        if not data:
            return data
        try:
            found = json.loads(data, object_pairs_hook=_unique)
            changed = _covered(found, self.field, self.replacement)
            # What has no such field stays byte for byte.
            return data if changed == found else utf8_of(json.dumps(changed, ensure_ascii=False))
        except (json.JSONDecodeError, UnicodeDecodeError):
            return otherwise
        except (ValueError, RecursionError):  # a name twice, too deep, or a number that is too long
            return self.replacement.encode()

    def _in_text(self, data: bytes | None) -> bytes | None:
        if not data:
            return data
        try:
            text = data.decode()
        except UnicodeDecodeError:
            # Letters and digits of ASCII are the same in it; every byte is a character, so nothing else changes.
            return self._without_matches(data.decode("latin-1")).encode("latin-1", "replace")
        # Escapes first: what the pattern covers may leave no JSON.
        return utf8_of(self._without_matches(self._in_escapes(text) if "\\" in text else text))

    def _in_escapes(self, text: str) -> str:
        r"""Return JSON without matches that escapes hide: `\u0034` is the digit 4 when a page shows it."""
        try:
            found = json.loads(text, object_pairs_hook=_unique)
            changed = _in_strings(found, self._without_matches)
        except json.JSONDecodeError:
            return text
        except (ValueError, RecursionError):
            return self.replacement
        return text if changed == found else json.dumps(changed, ensure_ascii=False)

    def _without_matches(self, text: str) -> str:
        assert self.pattern is not None
        return self.pattern.sub(lambda found: self.replacement, text)


class _Twice(ValueError):
    """A name stands twice in an object: readers disagree about which counts."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise _Twice
    return made


def _covered(value: Any, steps: Sequence[Step], cover: str) -> Any:
    """Return a value of JSON with what a path leads to replaced."""
    if not steps:
        return cover
    step, rest = steps[0], steps[1:]
    if isinstance(value, dict):
        items: Any = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    else:
        return value
    made: dict[Any, Any] = {}
    for name, one in items:
        below = _covered(one, steps, cover) if step.is_deep else one
        is_meant = step.name is None or step.name == name or str(step.name) == name
        made[name] = _covered(below, rest, cover) if is_meant else below
    return made if isinstance(value, dict) else list(made.values())


def _in_strings(value: Any, change: Callable[[str], str]) -> Any:
    """Return a value of JSON with each of its strings changed, names too."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [_in_strings(one, change) for one in value]
    if isinstance(value, dict):
        return {change(name): _in_strings(one, change) for name, one in value.items()}
    return value


def masks_of(masks: Sequence[Mask], user: User) -> Callable[[str], Masks] | None:
    """Return what finds the masks of a topic for a user; None when none can hold for this user."""
    held = [mask for mask in masks if mask.unmasked is None or not user.may_on_all(mask.unmasked)]
    if not held:
        return None
    return lambda topic: Masks([mask for mask in held if mask.holds(user, topic)])


class Masks:
    """The masks that hold for one user and one topic."""

    def __init__(self, masks: Sequence[Mask]) -> None:
        """Take masks, which are applied in this order."""
        self._masks = tuple(masks)

    def __bool__(self) -> bool:
        """Return whether there is a mask at all."""
        return bool(self._masks)

    def apply(self, record: ConsumerRecord) -> ConsumerRecord:
        """Return a record as the user may see it."""
        for mask in self._masks:
            record = mask.apply(record)
        return record


def mask_of(given: Mapping[str, Any]) -> Mask:
    """Return the mask of a table of the file. Raise ValueError, with a sentence."""
    kinds = [name for name in ("field", "header", "pattern", "key", "value") if given.get(name)]
    if len(kinds) != 1:
        raise ValueError("a mask has one of field, header, pattern, key = true and value = true")
    try:
        pattern = re.compile(given["pattern"]) if "pattern" in given else None
    except re.error as error:
        raise ValueError(f"pattern {given['pattern']!r}: {error}") from None
    unmasked = given.get("unmasked-for")
    if unmasked is not None and unmasked not in ROLES:
        raise ValueError(f"unmasked-for is {unmasked!r}: it is viewer, operator or administrator")
    return Mask(
        topics=tuple(given.get("topics", [""])),
        field=path_of(given["field"]) if "field" in given else (),
        header=given.get("header", ""),
        pattern=pattern,
        key=bool(given.get("key", False)),
        value=bool(given.get("value", False)),
        replacement=given.get("replacement", REPLACEMENT),
        unmasked=None if unmasked is None else ROLES[unmasked],
    )
