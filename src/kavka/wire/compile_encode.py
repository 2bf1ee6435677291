"""Writes the encoder of a message in one version: a flat function that appends to a bytearray.

    encode(message, out, parts) -> out               a function
    encode_in_slices(message, out, parts)            a generator that returns the same

The generator yields the length of `out` after every `SLICE_ITEMS` items of arrays or so: it is for messages that may be
large, and its caller may yield to the loop in between.

`out` is what was written since the last of `parts`; records and ranges of files go into `parts` uncopied, with what
was written before them. Neighbours of fixed width are packed by one `Struct`.

A field that the version does not have must hold its default unless it is ignorable; otherwise a wish of the
caller (`validate_only`, say) would be lost without a word.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Final

from kavka.io import Sendable
from kavka.wire.primitives import (
    NUMBERS,
    RUN_PACKERS,
    length_of,
    put_records,
    put_text_length,
    put_varint,
    refuse,
    struct_of,
)
from kavka.wire.schema import FRESH, Field, Kind, ListOf, fields_of, schema_of
from kavka.wire.source import Source, compile_function

Encoder = Callable[[Any, bytearray, list[Sendable]], bytearray]
SlicedEncoder = Callable[[Any, bytearray, list[Sendable]], Generator[int, None, bytearray]]

SLICE_ITEMS: Final = 256
_MANY: Final = 2048
"""Numbers of an array that a sliced encoder writes at one stroke."""


def compile_encoder(cls: type, version: int) -> Encoder:
    """Return the encoder of `cls` in `version`, which must be one of its versions."""
    title = f"{cls.__name__} v{version}"
    writer = _EncodeWriter(title, version, version in schema_of(cls).flexible)
    with writer.source.block("def encode(message, out, parts):"):
        writer.struct("message", cls)
        writer.source.line("return out")
    return compile_function(
        "encode", writer.source.text(), f"encoder of {title}", writer.source.names
    )


def compile_sliced_encoder(cls: type, version: int) -> SlicedEncoder:
    """Return the encoder of `cls` in `version` as a generator that yields how much it has written to `out`."""
    title = f"{cls.__name__} v{version}"
    writer = _EncodeWriter(title, version, version in schema_of(cls).flexible, is_sliced=True)
    with writer.source.block("def encode(message, out, parts):"):
        writer.source.line("done = 0")
        writer.source.line("if done: yield 0")  # a generator, be there arrays or not
        writer.struct("message", cls)
        writer.source.line("return out")
    return compile_function(
        "encode", writer.source.text(), f"sliced encoder of {title}", writer.source.names
    )


class _EncodeWriter:
    """Writes statements that append to the variable `out`."""

    def __init__(
        self, title: str, version: int, is_flexible: bool, *, is_sliced: bool = False
    ) -> None:
        self.source = Source()
        self.source.names.update(
            length_of=length_of,
            put_records=put_records,
            put_text_length=put_text_length,
            put_varint=put_varint,
            refuse=refuse,
        )
        self._title = title
        self._version = version
        self._is_flexible = is_flexible
        self._is_sliced = is_sliced

    def struct(self, value: str, cls: type) -> None:
        """Append the object of `cls` that the expression `value` names."""
        run: list[tuple[str, Kind]] = []
        tagged: list[Field] = []
        for each in fields_of(cls):
            expression = f"{value}.{each.name}"
            if self._version not in each.versions:
                self._check_absent(expression, each)
            elif each.tag is not None:
                tagged.append(each)
            elif isinstance(each.type, Kind) and each.type.format:
                run.append((expression, each.type))
            else:
                self._fixed(run)
                self._value(expression, each)
        self._fixed(run)
        if self._is_flexible:
            self._tags(value, sorted(tagged, key=lambda each: each.tag or 0))

    def _check_absent(self, expression: str, each: Field) -> None:
        if each.ignorable:
            return
        with self.source.block(f"if {self._differs(expression, each)}:"):
            self._refuse(each.name, "a value")

    def _refuse(self, name: str, what: str) -> None:
        self.source.line(f"raise refuse({self._title!r}, {name!r}, {what!r})")

    def _differs(self, expression: str, each: Field) -> str:
        """Return the condition that a field does not have its default."""
        if each.default is FRESH and isinstance(each.type, type):
            inner = (self._differs(f"{expression}.{one.name}", one) for one in fields_of(each.type))
            return " or ".join(inner)
        if each.default is FRESH:
            return f"{expression} or {expression} is None" if each.is_optional else expression
        if each.default is None:
            return f"{expression} is not None"
        return f"{expression} != {each.default!r}" if each.default else expression

    def _fixed(self, run: list[tuple[str, Kind]]) -> None:
        """Pack the neighbours of fixed width that have gathered, and forget them."""
        if not run:
            return
        values = ", ".join(expression for expression, _ in run)
        self.source.line(f"out += {self._pack(''.join(kind.format for _, kind in run))}({values})")
        run.clear()

    def _pack(self, characters: str) -> str:
        name = "pack_" + characters.replace("?", "bool")
        return self.source.refer(name, struct_of(characters).pack)

    def _value(self, expression: str, each: Field) -> None:
        """Append a field that is not of fixed width, or the content of a tagged one."""
        if isinstance(each.type, Kind) and each.type.format:
            self._fixed([(expression, each.type)])
            return
        value = self.source.variable(each.name)
        self.source.line(f"{value} = {expression}")
        if not each.is_optional:
            self._present(value, each.type)
            return
        with self.source.block(f"if {value} is None:"):
            if self._version in each.nullable:
                self._null(each.type)
            else:
                self._refuse(each.name, "null")
        with self.source.block("else:"):
            if isinstance(each.type, type) and self._version in each.nullable:
                self.source.line("out.append(1)")
            self._present(value, each.type)

    def _null(self, wire_type: Kind | ListOf | type) -> None:
        if isinstance(wire_type, type):
            self.source.line("out.append(255)")
        elif self._is_flexible:
            self.source.line("out.append(0)")
        else:
            self.source.line(f"out += {struct_of(_length_format(wire_type)).pack(-1)!r}")

    def _present(self, value: str, wire_type: Kind | ListOf | type) -> None:
        """Append a value that is not None and not of fixed width."""
        if isinstance(wire_type, ListOf):
            self._array(value, wire_type)
        elif not isinstance(wire_type, Kind):
            self.struct(value, wire_type)
        elif wire_type.name == "records":
            self._length(f"length_of({value})", wire_type)
            self.source.line(f"out = put_records(parts, out, {value})")
        else:
            if wire_type.name == "string":
                self.source.line(f"{value} = {value}.encode()")
            self._length(f"len({value})", wire_type)
            self.source.line(f"out += {value}")

    def _length(self, length: str, wire_type: Kind | ListOf) -> None:
        if not self._is_flexible:
            self.source.line(f"out += {self._pack(_length_format(wire_type))}({length})")
            return
        is_text = isinstance(wire_type, Kind) and wire_type.name == "string"
        self.source.line(f"n = {length} + 1")
        with self.source.block("if n < 128:"):
            self.source.line("out.append(n)")
        with self.source.block("else:"):
            self.source.line(f"{'put_text_length' if is_text else 'put_varint'}(out, n)")

    def _array(self, value: str, wire_type: ListOf) -> None:
        item = wire_type.item
        self._length(f"len({value})", wire_type)
        if isinstance(item, Kind) and item.format and item.format in NUMBERS:
            many = self.source.refer(f"many_{item.format}", RUN_PACKERS[item.format])
            if self._is_sliced:
                self._many_in_slices(value, many)
            else:
                self.source.line(f"out += {many}[len({value})](*{value})")
            return
        one = self.source.variable("item")
        with self.source.block(f"for {one} in {value}:"):
            if isinstance(item, Kind) and item.format:
                self._fixed([(one, item)])
            else:
                self._present(one, item)
            if self._is_sliced:
                self._count("1")

    def _many_in_slices(self, value: str, many: str) -> None:
        some = self.source.variable("some")
        with self.source.block(f"for at in range(0, len({value}), {_MANY}):"):
            self.source.line(f"{some} = {value}[at : at + {_MANY}]")
            self.source.line(f"out += {many}[len({some})](*{some})")
            self._count(f"len({some}) >> 3")

    def _count(self, items: str) -> None:
        """Count items that were written, and yield after enough of them."""
        self.source.line(f"done += {items}")
        with self.source.block(f"if done >= {SLICE_ITEMS}:"):
            self.source.line("done = 0")
            self.source.line("yield len(out)")

    def _tags(self, value: str, tagged: list[Field]) -> None:
        """Append the tagged fields that do not have their default, by ascending tag."""
        if not tagged:
            self.source.line("out.append(0)")
            return
        assert len(tagged) < 128, "the count of tagged fields is written as one byte"
        count, outer = self.source.variable("count"), self.source.variable("outer")
        tags = self.source.variable("tags")
        self.source.line(f"{count} = 0; {tags} = b''")
        for each in tagged:
            with self.source.block(f"if {self._differs(f'{value}.{each.name}', each)}:"):
                self.source.line(f"{outer} = out; out = bytearray(); {count} += 1")
                self._value(f"{value}.{each.name}", each)
                self.source.line(f"{tags} = bytearray({tags}); put_varint({tags}, {each.tag})")
                self.source.line(f"put_varint({tags}, len(out)); {tags} += out; out = {outer}")
        self.source.line(f"out.append({count}); out += {tags}")


def _length_format(wire_type: Kind | ListOf) -> str:
    is_text = isinstance(wire_type, Kind) and wire_type.name == "string"
    return "h" if is_text else "i"
