"""Values behave like frozen dataclasses with slots, and are much cheaper to declare."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from typing import ClassVar, Generic, TypeVar

import pytest

from kavka.values import field, frozen, mutable, replace

T = TypeVar("T")


@frozen
class Place:
    """A place in a log."""

    topic: str
    partition: int = 0
    seen: list[int] = field(factory=list)
    kinds: ClassVar[int] = 3

    def next(self) -> Place:
        """Return the same place in the next partition."""
        return replace(self, partition=self.partition + 1)


@frozen
class NamedPlace(Place):
    name: str = "?"


@frozen
class Empty:
    pass


@frozen
class Box(Generic[T]):
    content: T


@frozen
class Rules:
    limit: int
    is_tight: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_tight", self.limit < 10)


@mutable
class Tally:
    count: int = 0
    names: dict[str, None] = field(factory=dict)


def test_fields_are_given_by_place_or_by_name() -> None:
    assert Place("t", 1) == Place(partition=1, topic="t")
    assert (Place("t").partition, Place("t").seen, Place("t").kinds) == (0, [], 3)
    for wrong in ({}, {"topic": "t", "offset": 1}):
        with pytest.raises(TypeError, match="__init__"):
            Place(**wrong)  # type: ignore[arg-type]


def test_each_object_gets_its_own_made_default() -> None:
    assert Place("t").seen is not Place("t").seen
    assert Tally().names is not Tally().names


def test_what_is_frozen_cannot_change() -> None:
    place = Place("t")
    with pytest.raises(AttributeError, match=r"Place\.topic"):
        place.topic = "u"  # type: ignore[misc]
    with pytest.raises(AttributeError, match=r"Place\.topic"):
        del place.topic
    with pytest.raises(AttributeError):
        place.other = 1  # type: ignore[attr-defined]
    assert not hasattr(place, "__dict__")


def test_values_are_equal_and_keys_by_their_fields() -> None:
    assert Rules(3) == Rules(3) != Rules(4)
    assert hash(Rules(3)) == hash(Rules(3))
    assert {Box("a"): 1}[Box("a")] == 1
    assert Empty() == Empty()
    assert hash(Empty()) == hash(Empty())
    assert Place("t") != NamedPlace("t")
    assert Rules(3) != 3  # type: ignore[comparison-overlap]


def test_what_is_mutable_is_no_key() -> None:
    tally = Tally()
    tally.count += 1
    assert tally == Tally(1)
    with pytest.raises(TypeError, match="unhashable"):
        hash(tally)


def test_a_subclass_has_its_bases_fields_first() -> None:
    place = NamedPlace("t", 1, [2], "n")
    assert repr(place) == "NamedPlace(topic='t', partition=1, seen=[2], name='n')"
    assert place.next() == NamedPlace("t", 2, [2], "n")


def test_a_pattern_takes_fields_by_place() -> None:
    match Place("t", 4):
        case Place(topic, partition):
            assert (topic, partition) == ("t", 4)


def test_replace_refuses_what_is_no_field() -> None:
    with pytest.raises(TypeError, match="offset"):
        replace(Place("t"), offset=1)


def test_what_follows_from_fields_is_set_again_in_a_copy() -> None:
    assert replace(Rules(3), limit=30).is_tight is False
    with pytest.raises(TypeError, match="is_tight"):
        Rules(3, is_tight=False)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    "value", [NamedPlace("t", 1, [2]), Rules(3), Empty(), Tally(3, {"a": None})]
)
def test_values_can_be_pickled_and_copied(value: object) -> None:
    assert copy.deepcopy(value) == value
    assert pickle.loads(pickle.dumps(value)) == value


def test_declaring_compiles_nothing() -> None:
    says = """
import builtins
from kavka.values import frozen
builtins.compile = builtins.exec = builtins.eval = None
@frozen
class Declared:
    field: int = 0
"""
    subprocess.run([sys.executable, "-c", says], check=True)
