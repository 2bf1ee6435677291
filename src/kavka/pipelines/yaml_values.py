"""Checks of values in YAML files: rules of alerts and cases of tests. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def mapping_of(
    value: Any, name: str, allowed: Sequence[str] = (), *, error: type[ValueError] = ValueError
) -> Mapping[str, Any]:
    """Return a mapping with texts as keys; `name` is the value's name in messages.

    Raise `error` for another type, and for keys other than `allowed`, if any are given.
    """
    if not isinstance(value, Mapping):
        raise error(f"{name} is not a mapping, but {type(value).__name__}")
    for key in value:
        if allowed and key not in allowed:
            raise error(f"{name} has no {key!r}; it may have {', '.join(allowed)}")
    return {str(key): item for key, item in value.items()}


def list_of(value: Any, name: str, *, error: type[ValueError] = ValueError) -> Sequence[Any]:
    """Return a list; `name` is the value's name in messages. Raise `error` for another type."""
    if not isinstance(value, list):
        raise error(f"{name} is no list, but {type(value).__name__}")
    return value
