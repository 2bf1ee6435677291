"""The fuzzer's own parts: frames are what their recipes say, and a recipe gives the same frame each time."""

from __future__ import annotations

import struct
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from kavka.broker.requests.served_apis import SUPPORTED_APIS
from kavka.wire.apis import APIS, ApiKey
from kavka.wire.codec import CorruptFrame, decode
from kavka.wire.frame import decode_request_header
from kavka.wire.records.compression import Compression
from kavka.wire.records.header import walk_complete
from kavka_fuzz import batches
from kavka_fuzz.emitter import frame_of, varint
from kavka_fuzz.extremes import not_understood, understood
from kavka_fuzz.recipes import TAGS, Recipe, drawn, mutated, served_versions, systematic
from kavka_fuzz.vocabulary import TOPICS, Known

KNOWN = Known({name: bytes([number]) * 16 for number, name in enumerate(TOPICS, 1)}, "/data")
VERSIONS = served_versions()
KEYS = pytest.mark.parametrize("api", SUPPORTED_APIS, ids=lambda api: ApiKey(api).title)


def request(recipe: Recipe) -> Any:
    """Decode the frame of a recipe to its end."""
    frame = frame_of(recipe, KNOWN)
    header = decode_request_header(frame)
    assert (header.api_key, header.api_version) == (recipe.api, recipe.version)
    return decode(APIS[recipe.api].request(), recipe.version, frame, header.body_position)


def versions_of(api: int) -> range:
    return range(APIS[api].min_version, APIS[api].max_version + 1)


@KEYS
def test_plain_recipes_decode(api: int) -> None:
    for version in versions_of(api):
        for recipe in systematic(api, version, 2_000):
            request(recipe)


def test_every_api_that_has_an_array_has_recipes_that_fill_a_frame_with_it() -> None:
    for api in SUPPORTED_APIS:
        newest = APIS[api].max_version
        for recipe in systematic(api, newest, 100_000):
            if "records" not in recipe.fill:
                assert 90_000 < len(frame_of(recipe, KNOWN)) <= 105_000, recipe


def test_drawn_and_mutated_recipes_decode() -> None:
    random = Random(1)
    for _ in range(400):
        recipe = drawn(random, *random.choice(VERSIONS))
        for _ in range(3):
            recipe = mutated(random, replace(recipe, size=min(recipe.size, 3_000)))
            request(replace(recipe, size=3_000))


@KEYS
def test_extremes_decode_and_damaged_ones_do_not(api: int) -> None:
    for version in versions_of(api):
        for extreme in understood(api, version):
            request(extreme.recipe)
        for extreme in not_understood(api, version):
            with pytest.raises(CorruptFrame):
                request(extreme.recipe)


def test_seed_gives_the_same_recipes() -> None:
    def recipes(seed: int) -> list[Recipe]:
        random = Random(seed)
        first = [drawn(random, *random.choice(VERSIONS)) for _ in range(20)]
        return [*first, *(mutated(random, recipe) for recipe in first)]

    assert recipes(5) == recipes(5)
    assert recipes(5) != recipes(6)


def test_recipe_survives_json() -> None:
    recipe = drawn(Random(3), ApiKey.FETCH, 17)
    assert Recipe.load(recipe.dump()) == recipe


def test_what_counts_differs_in_each_element() -> None:
    genes: dict[str, str | int] = {"topics.name": "count", "topics.partitions": 1}
    found = request(Recipe(ApiKey.LIST_OFFSETS, 5, 5_000, "topics", genes))
    names = [topic.name for topic in found.topics]
    assert len(names) > 100
    assert len(set(names)) == len(names)
    genes = {"topics": 2, "topics.partitions.partition_index": "count"}
    found = request(Recipe(ApiKey.LIST_OFFSETS, 5, 5_000, "topics.partitions", genes))
    for topic in found.topics:
        assert [p.partition_index for p in topic.partitions] == list(range(len(topic.partitions)))


def test_unknown_tags_fill_a_frame() -> None:
    frame = frame_of(Recipe(ApiKey.HEARTBEAT, 4, 10_000, TAGS), KNOWN)
    assert 9_900 < len(frame) <= 10_010


def test_bombs_unpack_to_much_more_than_they_weigh() -> None:
    for name in ("zstd", "gzip"):
        (header, *_) = walk_complete(batches.records(f"bomb-{name}", 1))
        assert header.compression is Compression[name.upper()]
        assert header.size < 100_000


def test_batches_are_whole() -> None:
    for choice in ("many-batches", "many-records", "many-tiny-records", "many-headers"):
        records = batches.records(choice, 20_000)
        assert sum(header.size for header in walk_complete(records)) == len(records)


def test_varint_has_seven_bits_a_byte() -> None:
    assert [varint(n) for n in (0, 127, 128, 300)] == [b"\0", b"\x7f", b"\x80\x01", b"\xac\x02"]


def test_literal_stands_for_itself() -> None:
    found = request(Recipe(ApiKey.HEARTBEAT, 0, 0, genes={"group_id": "=mine"}))
    assert found.group_id == "mine"


def test_frame_begins_with_the_header_of_its_api() -> None:
    frame = frame_of(Recipe(ApiKey.CONTROLLED_SHUTDOWN, 0, 0), KNOWN)
    assert struct.unpack_from(">hhi", frame) == (7, 0, 7)
    assert len(frame) == 12
