"""Checks of arguments before anything is sent: a text in the place of a list would be taken letter by letter. Pure."""

from __future__ import annotations

from collections.abc import Iterable


def names(what: str, given: Iterable[str]) -> list[str]:
    """Return names in their order, each once. Raise TypeError for one text and for what is no text."""
    if isinstance(given, str | bytes):
        raise TypeError(f"{what} is a list of names, not one text")
    found = list(dict.fromkeys(given))
    for name in found:
        if not isinstance(name, str):
            raise TypeError(f"{what} is a list of names (str): {name!r} is {type(name).__name__}")
    return found


def setting(name: str, value: object) -> str | None:
    """Return the value of a setting as brokers take it: numbers, true and false as text. Raise TypeError for others."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    raise TypeError(f"the value of {name} is {type(value).__name__}, not text or a number")
