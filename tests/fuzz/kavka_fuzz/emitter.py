"""From a recipe to the bytes of a request: the fields of the schema in wire order, large arrays tiled from one element.

Nothing here uses the product's encoder, which would take a second for a mebibyte of small elements and cannot lie.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

import numpy

from kavka.wire.apis import APIS, ApiKey
from kavka.wire.schema import Field, Kind, ListOf, fields_of
from kavka_fuzz import batches
from kavka_fuzz.recipes import FORCED_NULL, TAGS, Recipe
from kavka_fuzz.vocabulary import Counter, Known, binary, integer, text, uuid

_WIDTHS = {"int8": 1, "int16": 2, "int32": 4, "int64": 8, "uint16": 2, "uint32": 4, "bool": 1}


@dataclass
class Piece:
    """Bytes, and what in them counts."""

    data: bytearray = field(default_factory=bytearray)
    counters: list[Counter] = field(default_factory=list)

    def add(self, other: Piece | bytes) -> None:
        """Append."""
        if isinstance(other, Piece):
            at = len(self.data)
            self.counters += [Counter(at + c.position, c.width, c.is_text) for c in other.counters]
            other = bytes(other.data)
        self.data += other


def frame_of(recipe: Recipe, known: Known) -> bytes:
    """Return a request without its four bytes of size."""
    base = len(_Emitter(recipe, known, 0).request())
    return _Emitter(recipe, known, max(0, recipe.size - base)).request()


class _Emitter:
    def __init__(self, recipe: Recipe, known: Known, room: int) -> None:
        """`room` bytes are for the array, the string or the records that fill the frame."""
        self._recipe = recipe
        self._known = known
        self._room = room
        self._version = recipe.version
        self._is_flexible = APIS[recipe.api].is_flexible(recipe.version)

    def request(self) -> bytes:
        recipe = self._recipe
        out = bytearray(struct.pack(">hhi", recipe.api, recipe.version, recipe.correlation_id))
        if not (recipe.api == ApiKey.CONTROLLED_SHUTDOWN and recipe.version == 0):
            client_id = b"c" * recipe.client_id
            out += struct.pack(">h", len(client_id)) + client_id
        if self._is_flexible:
            out.append(0)
        body = self._struct(APIS[recipe.api].request(), "", 1)
        return bytes(out + body.data)

    def _unknown_tags(self, count: int) -> bytes:
        first = 1000  # above all that are known
        many = numpy.arange(first, first + count, dtype=numpy.uint32)
        tags = numpy.zeros((count, 5), dtype=numpy.uint8)
        for place in range(4):
            tags[:, place] = (many >> (7 * place)) & 0x7F
        tags[:, :3] |= 0x80
        return tags.tobytes()

    def _struct(self, cls: type, path: str, copies: int) -> Piece:
        piece = Piece()
        tagged: list[tuple[int, Piece]] = []
        for each in fields_of(cls):
            if self._version not in each.versions:
                continue
            where = f"{path}.{each.name}" if path else each.name
            if each.tag is None:
                piece.add(self._field(each, where, copies))
            elif where in self._recipe.genes:
                tagged.append((each.tag, self._field(each, where, copies)))
        if self._is_flexible:
            unknown = self._room // 5 if self._recipe.fill == TAGS and not path else 0
            piece.add(varint(len(tagged) + unknown))
            for tag, content in sorted(tagged, key=lambda each: each[0]):
                piece.add(varint(tag) + varint(len(content.data)))
                piece.add(content)
            piece.add(self._unknown_tags(unknown))
        return piece

    def _field(self, each: Field, path: str, copies: int) -> Piece:
        gene = self._recipe.genes.get(path)
        if gene == FORCED_NULL:
            return Piece(bytearray(self._null(each.type)))
        if isinstance(each.type, ListOf):
            return self._array(each, each.type, path, copies, gene)
        can_be_null = self._version in each.nullable
        if isinstance(each.type, Kind):
            if gene == "null" and can_be_null:
                return Piece(bytearray(self._null(each.type)))
            return self._scalar(each.type, each.name, path, copies, gene)
        if gene == "null" and can_be_null:
            return Piece(bytearray(self._null(each.type)))
        piece = Piece(bytearray(b"\x01" if can_be_null else b""))
        piece.add(self._struct(each.type, path, copies))
        return piece

    def _null(self, wire_type: Kind | ListOf | type) -> bytes:
        if isinstance(wire_type, type):
            return b"\xff"
        if self._is_flexible:
            return b"\x00"
        is_text = isinstance(wire_type, Kind) and wire_type.name == "string"
        return b"\xff\xff" if is_text else b"\xff\xff\xff\xff"

    def _array(
        self, each: Field, wire_type: ListOf, path: str, copies: int, gene: str | int | None
    ) -> Piece:
        if gene == "null" and self._version in each.nullable:
            return Piece(bytearray(self._null(wire_type)))
        count = gene if isinstance(gene, int) else 0
        is_filling = self._recipe.fill == path
        inner_copies = copies * (1 if is_filling else max(1, count))
        item = wire_type.item
        if isinstance(item, Kind):
            element = self._scalar(item, each.name, path + "[]", inner_copies, None)
        else:
            element = self._struct(item, path, inner_copies)
        if is_filling:
            count = self._room // copies // max(1, len(element.data))
        return Piece(bytearray(self._count(count) + _tiled(element, count)))

    def _count(self, count: int) -> bytes:
        return varint(count + 1) if self._is_flexible else struct.pack(">i", count)

    def _scalar(
        self, kind: Kind, name: str, path: str, copies: int, gene: str | int | None
    ) -> Piece:
        choice = str(gene or self._recipe.genes.get(path) or "valid")
        if kind.name == "string":
            content, counters = text(name, choice, self._known)
            return self._sized(content, counters, short=True)
        if kind.name == "uuid":
            content, counters = uuid(choice, self._known)
            return Piece(bytearray(content), counters)
        if kind.name == "float64":
            return Piece(bytearray(8))
        if kind.name == "records":
            if self._recipe.fill != path:
                return self._sized(batches.records("one", 0), [])
            room = self._room // copies
            return self._sized(batches.records(choice, room) if room else b"", [])
        if kind.name == "bytes":
            if self._recipe.fill == path:
                return self._sized(bytes(self._room // copies), [])
            return self._sized(binary(choice), [])
        width = _WIDTHS[kind.name]
        number = integer(kind, name, choice) & ((1 << (8 * width)) - 1)
        counters = [Counter(0, width, is_text=False)] if choice == "count" else []
        return Piece(bytearray(number.to_bytes(width, "big")), counters)

    def _sized(self, content: bytes, counters: list[Counter], short: bool = False) -> Piece:
        fixed = b"" if self._is_flexible else struct.pack(">h" if short else ">i", len(content))
        length = varint(len(content) + 1) if self._is_flexible else fixed
        piece = Piece(bytearray(length))
        piece.add(Piece(bytearray(content), counters))
        return piece


def varint(value: int) -> bytes:
    """Return an unsigned varint."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _tiled(element: Piece, count: int) -> bytes:
    """Return `count` copies of an element, with what counts in it counting."""
    if not element.counters or count < 2:
        return bytes(element.data) * count
    rows = numpy.tile(numpy.frombuffer(bytes(element.data), dtype=numpy.uint8), (count, 1))
    numbers = numpy.arange(count, dtype=numpy.int64)
    for counter in element.counters:
        for place in range(counter.width):
            column = counter.position + place
            power = counter.width - 1 - place
            if counter.is_text:
                rows[:, column] = numbers // 10**power % 10 + ord("0")
            else:
                rows[:, column] = (numbers >> (8 * power)) & 0xFF if power < 8 else 0
    return rows.tobytes()
