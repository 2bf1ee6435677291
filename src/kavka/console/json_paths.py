"""Conditions on values that are JSON: a path, and what is there, such as `$.user.id = 42` or `items[*].price > 10`.

The paths are a part of JSONPath (RFC 9535): names, `["names"]`, `[0]`, `[-1]`, `[*]` and `.*`. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

_STEP: Final = re.compile(
    r"""\.?\[\s*(?P<index>-?\d+)\s*\] | \.?\[\s*(?P<quoted>"(?:[^"\\]|\\.)*"|'[^']*')\s*\] | \.?\[\s*(?P<any>\*)\s*\]
        | \.(?P<star>\*) | \.?(?P<name>[^\s.\[\]=!<>~"']+)""",
    re.VERBOSE,
)
_OPERATORS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "=": lambda found, wanted: _same(found, wanted),
    "==": lambda found, wanted: _same(found, wanted),
    "!=": lambda found, wanted: not _same(found, wanted),
    "<": lambda found, wanted: _ordered(found, wanted) and found < wanted,
    "<=": lambda found, wanted: _ordered(found, wanted) and found <= wanted,
    ">": lambda found, wanted: _ordered(found, wanted) and found > wanted,
    ">=": lambda found, wanted: _ordered(found, wanted) and found >= wanted,
    "~": lambda found, wanted: isinstance(found, str) and str(wanted).lower() in found.lower(),
}
_CONDITION: Final = re.compile(r"\s*(==|!=|<=|>=|=|<|>|~)\s*(.*)", re.DOTALL)
_MOST_STEPS: Final = 50

Step = str | int | None
"""A name, an index, or None for all."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A path and what must be at one of its ends; without an operator it is enough that something is there."""

    steps: tuple[Step, ...]
    operator: str
    wanted: Any

    def holds(self, value: Any) -> bool:
        """Return whether a value meets the condition."""
        ends = _ends(value, self.steps)
        if not self.operator:
            return next(ends, _NOTHING) is not _NOTHING
        compare = _OPERATORS[self.operator]
        return any(compare(found, self.wanted) for found in ends)


_NOTHING: Final = object()


def condition_of(text: str) -> Condition:
    """Return the condition of a text. Raise ValueError that says where it is not understood."""
    rest = text.strip()
    rest = rest[1:] if rest.startswith("$") else rest
    steps: list[Step] = []
    while rest and not _CONDITION.match(rest):
        found = _STEP.match(rest)
        is_joined = not steps or rest[0] in ".["
        if found is None or not is_joined or len(steps) == _MOST_STEPS:
            raise ValueError(f"the path is not understood at {rest[:30]!r}")
        steps.append(_step(found))
        rest = rest[found.end() :]
    if not rest:
        return Condition(tuple(steps), "", None)
    match = _CONDITION.fullmatch(rest)
    assert match is not None
    return Condition(tuple(steps), match[1], _literal(match[2].strip()))


def _step(found: re.Match[str]) -> Step:
    if found["index"] is not None:
        return int(found["index"])
    if found["quoted"] is not None:
        quoted = found["quoted"]
        return str(json.loads(quoted)) if quoted[0] == '"' else quoted[1:-1]
    return found["name"]  # None for `*`


def _literal(text: str) -> Any:
    """Return what a condition compares with: JSON, or else the text itself."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        if len(text) > 1 and text[0] == text[-1] == "'":
            return text[1:-1]
        return text


def _ends(value: Any, steps: tuple[Step, ...]) -> Iterator[Any]:
    if not steps:
        yield value
        return
    step, rest = steps[0], steps[1:]
    if step is None:
        inner = (
            value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        )
        for one in inner:
            yield from _ends(one, rest)
    elif isinstance(step, int):
        if isinstance(value, list) and -len(value) <= step < len(value):
            yield from _ends(value[step], rest)
    elif isinstance(value, dict) and step in value:
        yield from _ends(value[step], rest)


def _same(found: Any, wanted: Any) -> bool:
    if isinstance(found, bool) or isinstance(wanted, bool):
        return found is wanted
    if isinstance(found, str) and isinstance(wanted, int | float):
        return found == str(wanted)  # an id may be written as text
    return bool(found == wanted)


def _ordered(found: Any, wanted: Any) -> bool:
    """Return whether two values have an order: both numbers, or both texts."""
    numbers = (int, float)
    if isinstance(found, bool) or isinstance(wanted, bool):
        return False
    both_numbers = isinstance(found, numbers) and isinstance(wanted, numbers)
    return both_numbers or (isinstance(found, str) and isinstance(wanted, str))
