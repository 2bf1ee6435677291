"""Recipes of requests: which API and version, what stands in each field, and what fills the frame.

A recipe is small, can be written as JSON, and gives the same frame each time. `systematic` lists the plain ones,
`drawn` draws one, `mutated` changes one a little.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from random import Random

from kavka.broker.requests.served_apis import SUPPORTED_APIS
from kavka.wire.apis import APIS, ApiKey
from kavka.wire.schema import Kind, ListOf, fields_of
from kavka_fuzz import batches, vocabulary

TAGS = "<tags>"
"""Stands for unknown tagged fields at the end of the message, as what fills a frame."""
FORCED_NULL = "null, though not allowed"
_COUNTS = (0, 1, 1, 1, 2, 10, 100)
_SIZES = (1_000, 10_000, 100_000, 1_000_000)

Gene = str | int


@dataclass(frozen=True)
class Recipe:
    """The parts of a request; fields without a gene hold a plausible value, arrays are empty."""

    api: int
    version: int
    size: int
    fill: str = ""
    """The path of the array, the bytes or the records that make the frame as long as `size`; `TAGS` for tags."""
    genes: dict[str, Gene] = field(default_factory=dict)
    """By path: the name of a value, or the count of an array. `path[]` is the value of a plain element."""
    client_id: int = 4
    correlation_id: int = 7

    @property
    def title(self) -> str:
        """The API's name and version."""
        return f"{ApiKey(self.api).title} v{self.version}"

    def dump(self) -> str:
        """Return it as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def load(cls, text: str) -> Recipe:
        """Return the recipe that `dump` wrote."""
        return cls(**json.loads(text))

    def __str__(self) -> str:
        """Show it in a line."""
        genes = " ".join(f"{path}={gene}" for path, gene in sorted(self.genes.items()))
        return f"{self.title} size={self.size} fill={self.fill or 'nothing'} {genes}".rstrip()


@dataclass(frozen=True)
class Place:
    """A field of a request in one version."""

    path: str
    type: Kind | ListOf
    is_nullable: bool
    parents: tuple[str, ...]
    """The arrays around it, outermost first."""

    @property
    def can_fill(self) -> bool:
        """Return whether it can be made as long as one likes."""
        return isinstance(self.type, ListOf) or self.type.name in ("records", "bytes")

    def choices(self) -> tuple[Gene, ...]:
        """Return what may stand there."""
        null: tuple[Gene, ...] = ("null",) if self.is_nullable else ()
        if isinstance(self.type, ListOf):
            return (*_COUNTS, *null)
        if self.type.name == "records":
            return (*batches.CHOICES, *null)
        return (*vocabulary.choices(self.type), *(f"valid{n}" for n in range(1, 6)), *null)


@cache
def places(api: int, version: int) -> tuple[Place, ...]:
    """Return the fields of a request in a version; the elements of plain arrays have a place `path[]`."""
    return tuple(_places(APIS[api].request(), version, "", ()))


def _places(cls: type, version: int, path: str, parents: tuple[str, ...]) -> Iterator[Place]:
    for each in fields_of(cls):
        if version not in each.versions:
            continue
        where = f"{path}.{each.name}" if path else each.name
        nullable = version in each.nullable
        if isinstance(each.type, Kind):
            if each.type.name != "float64":
                yield Place(where, each.type, nullable, parents)
        elif isinstance(each.type, ListOf):
            yield Place(where, each.type, nullable, parents)
            inside = (*parents, where)
            if isinstance(each.type.item, Kind):
                yield Place(where + "[]", each.type.item, False, inside)
            else:
                yield from _places(each.type.item, version, where, inside)
        else:
            yield from _places(each.type, version, where, parents)


def served_versions() -> list[tuple[int, int]]:
    """Return every API with every version that the broker serves."""
    return [
        (int(key), version)
        for key in SUPPORTED_APIS
        for version in range(APIS[key].min_version, APIS[key].max_version + 1)
    ]


def systematic(api: int, version: int, size: int) -> Iterator[Recipe]:
    """Yield the plain recipes: each array, and each field of bytes, fills the frame once in each of a few ways."""
    for place in places(api, version):
        if not place.can_fill or place.path.endswith("[]"):
            continue
        around: dict[str, Gene] = dict.fromkeys(place.parents, 1)
        if isinstance(place.type, Kind):
            choices = batches.CHOICES if place.type.name == "records" else ("long",)
            for choice in choices:
                yield Recipe(api, version, size, place.path, {**around, place.path: choice})
            continue
        for value in ("valid", "count", "empty"):
            yield Recipe(
                api, version, size, place.path, {**around, **_inside(api, version, place, value)}
            )
    if APIS[api].is_flexible(version):
        yield Recipe(api, version, size, TAGS)


def _inside(api: int, version: int, array: Place, value: str) -> dict[str, Gene]:
    """Return genes that put a value into everything in an array, one element into each array inside of it."""
    genes: dict[str, Gene] = {}
    for place in places(api, version):
        if array.path not in place.parents:
            continue
        if isinstance(place.type, ListOf):
            genes[place.path] = 0 if value == "empty" else 1
        elif value in vocabulary.choices(place.type):
            genes[place.path] = value
    return genes


def plain(api: int, version: int) -> dict[str, Gene]:
    """Return the genes of a small request with one element in each array."""
    return {place.path: 1 for place in places(api, version) if isinstance(place.type, ListOf)}


def drawn(random: Random, api: int, version: int) -> Recipe:
    """Return a recipe drawn at random."""
    found = places(api, version)
    genes: dict[str, Gene] = {}
    for place in found:
        if random.random() < 0.6:
            genes[place.path] = random.choice(place.choices())
    filling = [place.path for place in found if place.can_fill and not place.path.endswith("[]")]
    if APIS[api].is_flexible(version):
        filling.append(TAGS)
    fill = random.choice(filling) if filling else ""
    return _consistent(Recipe(api, version, random.choice(_SIZES), fill, genes))


def mutated(random: Random, recipe: Recipe) -> Recipe:
    """Return a recipe that differs a little."""
    genes = dict(recipe.genes)
    found = places(recipe.api, recipe.version)
    for _ in range(random.choice((1, 1, 2, 4))):
        if found:
            place = random.choice(found)
            genes[place.path] = random.choice(place.choices())
    changed = replace(recipe, genes=genes)
    if random.random() < 0.2:
        changed = replace(changed, fill=drawn(random, recipe.api, recipe.version).fill)
    if random.random() < 0.1:
        api = APIS[recipe.api]
        return drawn(random, recipe.api, random.randint(api.min_version, api.max_version))
    if random.random() < 0.1:
        changed = replace(changed, size=random.choice(_SIZES))
    return _consistent(changed)


def _consistent(recipe: Recipe) -> Recipe:
    """Give the arrays around what fills the frame an element, and keep the counts of nested arrays from multiplying."""
    genes = dict(recipe.genes)
    by_path = {place.path: place for place in places(recipe.api, recipe.version)}
    filling = by_path.get(recipe.fill)
    for path in filling.parents if filling else ():
        if not isinstance(genes.get(path), int) or not genes[path]:
            genes[path] = 1
    for path, place in by_path.items():
        count = genes.get(path)
        if isinstance(place.type, ListOf) and isinstance(count, int) and place.parents:
            genes[path] = min(count, 10)
        if path == recipe.fill and isinstance(place.type, Kind) and place.type.name == "records":
            genes.setdefault(path, "many-batches")
            if genes[path] not in batches.CHOICES:
                genes[path] = "one"
    return replace(recipe, genes=genes)
