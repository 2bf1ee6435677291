"""Writes the decoder of a message in one version: a flat function without calls in the common case.

    decode(data, view, pos, size) -> (message, pos)          a function
    decode_in_slices(data, view, pos, size)                  a generator that returns the same

The generator yields after about each `SLICE_WEIGHT` bytes of objects that it has made, and what they weigh. It is for
large frames: its caller may yield to the loop in between, and drop a message that takes too much memory.

`data` is indexed and sliced (bytes where possible), `view` is a memoryview of the same bytes for records, `size` is
where the frame ends. What makes it fast: neighbours of fixed width are read by one `Struct`, one-byte varints are
in line, objects are made by `object.__new__` and stores into slots, arrays of numbers come at one stroke.

Every length is compared with the bytes that remain before anything is made of its size: for arrays by the least
that an element takes, so that memory is bounded by the frame.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from struct import Struct
from typing import Any, Final

from kavka.wire.primitives import (
    NUMBERS,
    RUN_UNPACKERS,
    TAGS_MAX,
    read_text_length,
    read_varint,
    skip_tags,
    struct_of,
)
from kavka.wire.schema import FRESH, Field, Kind, ListOf, fields_of, schema_of
from kavka.wire.source import Source, compile_function

Decoder = Callable[[Any, memoryview, int, int], tuple[Any, int]]
SlicedDecoder = Callable[[Any, memoryview, int, int], Generator[int, None, tuple[Any, int]]]

SLICE_WEIGHT: Final = 64 * 1024
"""Bytes of objects after which a sliced decoder yields: about 0.2 ms of work."""
_MANY: Final = 2048
"""Numbers of an array that a sliced decoder reads at one stroke."""


def compile_decoder(cls: type, version: int) -> Decoder:
    """Return the decoder of `cls` in `version`, which must be one of its versions."""
    writer = _DecodeWriter(version, version in schema_of(cls).flexible)
    title = f"decoder of {cls.__name__} v{version}"
    with writer.source.block("def decode(data, view, pos, size):"):
        made = writer.struct(cls)
        writer.source.line(f"return {made}, pos")
    return compile_function("decode", writer.source.text(), title, writer.source.names)


def compile_sliced_decoder(cls: type, version: int) -> SlicedDecoder:
    """Return the decoder of `cls` in `version` as a generator that yields what it has made, in bytes."""
    writer = _DecodeWriter(version, version in schema_of(cls).flexible, is_sliced=True)
    title = f"sliced decoder of {cls.__name__} v{version}"
    with writer.source.block("def decode(data, view, pos, size):"):
        writer.source.line("spent = 0")
        writer.source.line(
            f"if size < 0: yield {SLICE_WEIGHT}"
        )  # a generator, be there arrays or not
        made = writer.struct(cls)
        writer.source.line(f"return {made}, pos")
    return compile_function("decode", writer.source.text(), title, writer.source.names)


def has_records(cls: type) -> bool:
    """Return whether a message may carry record batches, anywhere inside."""
    return any(_is_bulk(each.type) for each in fields_of(cls))


def _is_bulk(wire_type: Kind | ListOf | type) -> bool:
    if isinstance(wire_type, ListOf):
        wire_type = wire_type.item
    if isinstance(wire_type, Kind):
        return wire_type.name == "records"
    return has_records(wire_type)


class _DecodeWriter:
    """Writes statements that read at `pos` and advance it."""

    def __init__(self, version: int, is_flexible: bool, *, is_sliced: bool = False) -> None:
        self.source = Source()
        self.source.names.update(
            new=object.__new__,
            read_varint=read_varint,
            read_text_length=read_text_length,
            skip_tags=skip_tags,
        )
        self._version = version
        self._is_flexible = is_flexible
        self._is_sliced = is_sliced

    def struct(self, cls: type) -> str:
        """Read an object of `cls`; return the variable that holds it."""
        values: dict[str, str] = {}
        run: list[tuple[str, Kind]] = []
        tagged: list[Field] = []
        for each in fields_of(cls):
            if self._version not in each.versions:
                values[each.name] = self._default(cls, each)
            elif each.tag is not None:
                tagged.append(each)
                values[each.name] = self.source.variable(each.name)
            elif isinstance(each.type, Kind) and each.type.format:
                values[each.name] = self.source.variable(each.name)
                run.append((values[each.name], each.type))
            else:
                self._fixed(run)
                values[each.name] = self._value(each)
        self._fixed(run)
        if self._is_flexible:
            self._tags(cls, tagged, values)
        return self._make(cls, values)

    def _make(self, cls: type, values: dict[str, str]) -> str:
        made = self.source.variable("made")
        self.source.line(f"{made} = new({self.source.refer(cls.__name__, cls)})")
        for each in fields_of(cls):
            self.source.line(f"{made}.{each.name} = {values[each.name]}")
        return made

    def _default(self, cls: type, each: Field) -> str:
        """Return the expression of a field that the bytes do not have."""
        if each.default is not FRESH:
            return self.source.refer(f"{cls.__name__}_{each.name}", each.default)
        if isinstance(each.type, ListOf):
            return "[]"
        assert isinstance(each.type, type)
        return f"{self.source.refer(each.type.__name__, each.type)}()"

    def _fixed(self, run: list[tuple[str, Kind]]) -> None:
        """Read the neighbours of fixed width that have gathered, and forget them."""
        if not run:
            return
        layout = struct_of("".join(kind.format for _, kind in run))
        unpack = self._unpack(layout)
        targets = ", ".join(variable for variable, _ in run)
        comma = "," if len(run) == 1 else ""
        self.source.line(f"{targets}{comma} = {unpack}(data, pos); pos += {layout.size}")
        run.clear()

    def _unpack(self, layout: Struct) -> str:
        name = "unpack_" + layout.format[1:].replace("?", "bool")
        return self.source.refer(name, layout.unpack_from)

    def _value(self, each: Field) -> str:
        """Read a field that is not of fixed width, or a tagged one."""
        target = self.source.variable(each.name)
        is_nullable = self._version in each.nullable
        if isinstance(each.type, ListOf):
            self._array(target, each.type.item, each.name, is_nullable)
        elif isinstance(each.type, Kind):
            self._primitive(target, each.type, each.name, is_nullable)
        elif is_nullable:
            self.source.line("null = data[pos] > 127; pos += 1")
            with self.source.block("if null:"):
                self.source.line(f"{target} = None")
            with self.source.block("else:"):
                self.source.line(f"{target} = {self.struct(each.type)}")
        else:
            self.source.line(f"{target} = {self.struct(each.type)}")
        return target

    def _primitive(self, target: str, kind: Kind, name: str, is_nullable: bool) -> None:
        if kind.format:
            self._fixed([(target, kind)])
            return
        self._length(kind.name == "string", name, target if is_nullable else None)
        with self.source.block("else:"):
            self.source.line("stop = pos + n")
            with self.source.block("if stop > size:"):
                self.source.line(f"raise ValueError('{name} runs past the end')")
            self.source.line(f"{target} = {_SLICES[kind.name]}; pos = stop")
            if self._is_sliced and kind.name != "records":
                with self.source.block("if n > 1:"):  # shorter ones are shared
                    self.source.line(f"spent += {target}.__sizeof__()")

    def _length(self, is_text: bool, name: str, nullable_target: str | None) -> None:
        """Read a length into `n` and open with `if n < 0:` what null means."""
        if self._is_flexible:
            read = "read_text_length" if is_text else "read_varint"
            self.source.line("n = data[pos]; pos += 1")
            with self.source.block("if n > 127:"):
                self.source.line(f"n, pos = {read}(data, pos, n)")
            self.source.line("n -= 1")
        else:
            layout = struct_of("h" if is_text else "i")
            self.source.line(f"n, = {self._unpack(layout)}(data, pos); pos += {layout.size}")
        with self.source.block("if n < 0:"):
            if nullable_target is None:
                self.source.line(f"raise ValueError('null in {name}')")
            else:
                self.source.line(f"{nullable_target} = None")

    def _array(self, target: str, item: Kind | type, name: str, is_nullable: bool) -> None:
        self._length(False, name, target if is_nullable else None)
        with self.source.block("else:"):
            width = least_size(item, self._version, self._is_flexible)
            assert width > 0, "an array of nothing could have any length"
            with self.source.block(f"if n * {width} > size - pos:"):
                self.source.line(f"raise ValueError(f'{{n}} {name} do not fit into the frame')")
            if isinstance(item, Kind) and item.format and item.format in NUMBERS:
                many = self.source.refer(f"many_{item.format}", RUN_UNPACKERS[item.format])
                if self._is_sliced:
                    self._many_in_slices(target, many, item, width)
                else:
                    self.source.line(f"{target} = [*{many}[n](data, pos)]; pos += n * {width}")
            else:
                self._items(target, item, name)

    def _many_in_slices(self, target: str, many: str, item: Kind, width: int) -> None:
        self.source.line(f"{target} = []")
        with self.source.block("while n > 0:"):
            self.source.line(f"some = min(n, {_MANY}); n -= some")
            self.source.line(f"{target} += {many}[some](data, pos); pos += some * {width}")
            self._spend(f"some * {_POINTER + weight_of(item, self._version)}")

    def _spend(self, weight: str) -> None:
        """Count what was made, and yield after enough of it."""
        self.source.line(f"spent += {weight}")
        with self.source.block(f"if spent >= {SLICE_WEIGHT}:"):
            self.source.line("yield spent")
            self.source.line("spent = 0")

    def _items(self, target: str, item: Kind | type, name: str) -> None:
        add = self.source.variable("add")
        self.source.line(f"{target} = []; {add} = {target}.append")
        with self.source.block("for _ in range(n):"):
            if isinstance(item, Kind):
                one = self.source.variable("item")
                self._primitive(one, item, name, False)
            else:
                one = self.struct(item)
            self.source.line(f"{add}({one})")
            if self._is_sliced:
                self._spend(str(_POINTER + weight_of(item, self._version)))

    def _tags(self, cls: type, tagged: list[Field], values: dict[str, str]) -> None:
        """Read the tagged fields at the end of a structure; unknown ones are skipped."""
        for each in tagged:
            self.source.line(f"{values[each.name]} = {self._default(cls, each)}")
        self.source.line("n = data[pos]; pos += 1")
        with self.source.block("if n:"):
            if tagged:
                self._known_tags(tagged, values)
            else:
                if self._is_sliced:
                    self.source.line("first = pos")
                self.source.line("pos = skip_tags(data, pos, n, size)")
                if self._is_sliced:  # they leave nothing, and take time
                    self.source.line(f"spent += 8 * min(pos - first, {2 * TAGS_MAX})")

    def _known_tags(self, tagged: list[Field], values: dict[str, str]) -> None:
        tag, end = self.source.variable("tag"), self.source.variable("end")
        self._varint("n", "n")
        with self.source.block(f"if n > {TAGS_MAX}:"):
            self.source.line("raise ValueError(f'{n} tagged fields in one structure')")
        with self.source.block("for _ in range(n):"):
            for variable in (tag, "n"):
                self.source.line(f"{variable} = data[pos]; pos += 1")
                self._varint(variable, variable)
            self.source.line(f"{end} = pos + n")
            with self.source.block(f"if {end} > size:"):
                self.source.line(f"raise ValueError(f'tagged field {{{tag}}} runs past the end')")
            for position, each in enumerate(tagged):
                with self.source.block(f"{'elif' if position else 'if'} {tag} == {each.tag}:"):
                    self.source.line(f"{values[each.name]} = {self._value(each)}")
            with self.source.block("else:"):
                self.source.line(f"pos = {end}")
            with self.source.block(f"if pos != {end}:"):
                self.source.line(f"raise ValueError(f'tagged field {{{tag}}} has another length')")

    def _varint(self, target: str, first: str) -> None:
        with self.source.block(f"if {first} > 127:"):
            self.source.line(f"{target}, pos = read_varint(data, pos, {first})")


_SLICES = {
    "string": "str(data[pos:stop], 'utf-8')",
    "bytes": "bytes(data[pos:stop])",
    "records": "view[pos:stop]",
}


_POINTER: Final = 8
_LIST_WEIGHT: Final = 56
_WEIGHTS: Final = {"b": 0, "?": 0, "d": 24, "16s": 56, "string": 0, "bytes": 0, "records": 184}
"""Of values; small numbers are shared, and what has a length is weighed when it is made."""


def weight_of(wire_type: Kind | ListOf | type, version: int) -> int:
    """Return the bytes of memory that a decoded value takes, without what lies in its lists and without texts."""
    if isinstance(wire_type, ListOf):
        return _LIST_WEIGHT
    if isinstance(wire_type, Kind):
        return _WEIGHTS.get(wire_type.format or wire_type.name, 32)
    fields = fields_of(wire_type)
    total = 32 + _POINTER * len(fields)  # with what the garbage collector has of it
    for each in fields:
        if version in each.versions or each.default is FRESH:
            total += weight_of(each.type, version)
    return total


def least_size(wire_type: Kind | ListOf | type, version: int, is_flexible: bool) -> int:
    """Return the fewest bytes that a value of the type takes in a version."""
    if isinstance(wire_type, ListOf):
        return 1 if is_flexible else 4
    if isinstance(wire_type, Kind):
        if wire_type.format:
            return struct_of(wire_type.format).size
        return 1 if is_flexible else 2 if wire_type.name == "string" else 4
    total = 1 if is_flexible else 0
    for each in fields_of(wire_type):
        if version in each.versions and each.tag is None:
            is_marked = isinstance(each.type, type) and version in each.nullable
            total += 1 if is_marked else least_size(each.type, version, is_flexible)
    return total
