"""Declared classes as Python sees them."""

from __future__ import annotations

from typing import Any

import pytest

from kavka.wire.schema import (
    boolean,
    field,
    fields_of,
    i32,
    message,
    records,
    schema_of,
    string,
    struct,
    uuid,
    version_range,
)


@struct
class Part:
    number: i32 = field(default=-1)


@message(api_key=900, versions="0-4", flexible="2+")
class Whole:
    """A message of these tests."""

    name: string = field()
    parts: list[Part] = field()
    part: Part = field()
    other: Part | None = field(nullable="0+", default=None)
    note: string | None = field("3+", nullable="3+", default=None)
    flag: boolean = field()
    id: uuid = field()
    data: records | None = field(nullable="0+", default=None)


def test_what_is_not_given_takes_kafkas_default() -> None:
    made = Whole()
    assert (made.name, made.parts, made.flag, made.id) == ("", [], False, bytes(16))
    assert (made.part, made.other, made.note) == (Part(number=-1), None, None)


def test_defaults_that_can_change_are_not_shared() -> None:
    first, second = Whole(), Whole()
    first.parts.append(Part())
    first.part.number = 7
    assert second == Whole()


def test_objects_are_equal_when_all_fields_are() -> None:
    assert Whole(name="a", parts=[Part(number=1)]) == Whole(name="a", parts=[Part(number=1)])
    assert Whole(name="a") != Whole(name="b")
    assert Whole() != Part()  # type: ignore[comparison-overlap]


def test_unknown_arguments_and_attributes_are_refused() -> None:
    unknown: dict[str, Any] = {"nmae": "a"}
    with pytest.raises(TypeError, match="nmae"):
        Whole(**unknown)
    with pytest.raises(AttributeError):
        Whole().nmae = "a"  # type: ignore[attr-defined]


def test_the_representation_shows_values_but_no_payload() -> None:
    shown = repr(Whole(name="a", data=b"secret"))
    assert "name='a'" in shown
    assert "data=<6 bytes>" in shown
    assert "secret" not in shown


def test_the_docstring_and_the_schema_survive() -> None:
    assert Whole.__doc__ == "A message of these tests."
    schema = schema_of(Whole)
    assert (schema.api_key, schema.versions, 1 in schema.flexible) == (900, range(5), False)
    assert [each.name for each in fields_of(Whole)][:2] == ["name", "parts"]


def test_a_class_that_is_not_declared_has_no_schema() -> None:
    with pytest.raises(TypeError, match="not declared"):
        schema_of(int)


def test_a_field_without_declaration_is_refused() -> None:
    with pytest.raises(TypeError, match=r"Bare\.name"):

        @struct
        class Bare:
            name: string = "text"


@pytest.mark.parametrize(
    ("text", "expected"),
    [("3", range(3, 4)), ("0-4", range(5)), ("3+", range(3, 32768)), ("none", range(0))],
)
def test_versions_are_written_as_in_kafka(text: str, expected: range) -> None:
    assert version_range(text) == expected


@pytest.mark.parametrize("text", ["", "+", "a-b", "-"])
def test_other_words_for_versions_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        version_range(text)
