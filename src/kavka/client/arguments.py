"""Checks of arguments before anything is sent, so that errors name the argument and what belongs there. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")


def timeout(given: int) -> int:
    """Return a time in milliseconds. Raise TypeError for what is no number, ValueError for less than 0."""
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise TypeError(f"timeout_ms is milliseconds, not {given!r:.80}")
    if not given >= 0:
        raise ValueError(f"timeout_ms is {given}: it must be 0 or more")
    return given


def timeout_s(given: int | None) -> float | None:
    """Return a time in milliseconds as seconds, None for None. Raise as `timeout`."""
    return None if given is None else timeout(given) / 1000


def names(what: str, given: Iterable[str]) -> list[str]:
    """Return names in their order, each once. Raise TypeError for one text and for what is no text."""
    if isinstance(given, str | bytes):
        raise TypeError(f"{what} is a list of names, not one text")
    if not isinstance(given, Iterable):
        raise TypeError(f"{what} is a list of names, not {given!r:.80}")
    found = list(given)
    for name in found:
        if not isinstance(name, str):
            raise TypeError(f"{what} is a list of names (str): {name!r:.80} is {_type(name)}")
    return list(dict.fromkeys(found))


def name(what: str, given: str) -> str:
    """Return one name. Raise TypeError for what is no text."""
    if not isinstance(given, str):
        raise TypeError(f"{what} is a name (str), not {given!r:.80}")
    return given


def number(what: str, given: int, *, least: int) -> int:
    """Return a number. Raise TypeError for what is none, ValueError for less than `least`."""
    if not hasattr(given, "__index__"):
        raise TypeError(f"{what} is a number (int), not {given!r:.80}")
    if given < least:
        raise ValueError(f"{what} is {given}: it must be {least} or more")
    return given


def numbers(what: str, given: Iterable[int]) -> list[int]:
    """Return numbers. Raise TypeError for one in the place of a list, and for what is none."""
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise TypeError(f"{what} is a list of numbers, not {given!r:.80}")
    found = list(given)
    for number in found:
        if not hasattr(number, "__index__"):  # which numbers of numpy have
            raise TypeError(f"{what} is a list of numbers (int): {number!r:.80} is {_type(number)}")
    return found


def each(what: str, given: Iterable[T], *types: type[Any]) -> list[T]:
    """Return values of these types. Raise TypeError for one in the place of a list, and for others."""
    if isinstance(given, (str, bytes, *types)) or not isinstance(given, Iterable):
        raise TypeError(f"{what} is a list of {_names(types)}, not {given!r:.80}")
    found = list(given)
    for one in found:
        if not isinstance(one, types):
            raise TypeError(f"{what} is a list of {_names(types)}: {one!r:.80} is {_type(one)}")
    return found


def one(what: str, given: T, *types: type[Any]) -> T:
    """Return a value of these types. Raise TypeError for another."""
    if not isinstance(given, types):
        raise TypeError(f"{what} is {_names(types)}, not {given!r:.80}")
    return given


def by(what: str, given: Mapping[K, V], kind: type[Any]) -> dict[K, V]:
    """Return a dictionary with keys of one type. Raise TypeError for a list, and for other keys."""
    if not isinstance(given, Mapping):
        raise TypeError(f"{what} is a dictionary by {kind.__name__}, not {given!r:.80}")
    for key in given:
        if not isinstance(key, kind):
            raise TypeError(
                f"{what} is a dictionary by {kind.__name__}: {key!r:.80} is {_type(key)}"
            )
    return dict(given)


def _names(types: tuple[type[Any], ...]) -> str:
    return " or ".join(kind.__name__ for kind in types)


def _type(given: object) -> str:
    return type(given).__name__


def setting(name: str, value: object) -> str | None:
    """Return the value of a setting as brokers take it: numbers, true and false as text. Raise TypeError for others."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    raise TypeError(f"the value of {name} is {type(value).__name__}, not text or a number")
