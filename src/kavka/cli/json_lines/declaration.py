"""The declaration of the objects that commands print: keys, their types and what they mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Field(NamedTuple):
    """A key of an object."""

    type: str
    meaning: str


class Shape(NamedTuple):
    """The objects that some calls print; `parts` are the shapes of objects within."""

    calls: str
    fields: Mapping[str, Field]
    parts: Mapping[str, Mapping[str, Field]] = {}


def fields_of(text: str) -> dict[str, Field]:
    """Return the fields of lines such as `topic string its name`."""
    rows = (line.split(maxsplit=2) for line in text.strip().splitlines())
    return {name: Field(kind, meaning) for name, kind, meaning in rows}


def shape(calls: str, text: str, **parts: str) -> Shape:
    """Return a shape; each of `text` and `parts` has a field in a line, as `fields_of` takes them."""
    return Shape(calls, fields_of(text), {name: fields_of(each) for name, each in parts.items()})
