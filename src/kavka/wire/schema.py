"""Declaration of messages: one class for all versions, with typed fields that name the versions they exist in.

    @message(api_key=12, versions="0-4", flexible="4+")
    class HeartbeatRequest:
        group_id: string = field()
        group_instance_id: string | None = field("3+", nullable="3+", default=None)

Versions are written as in Kafka: `3`, `0-4`, `3+`, `none`. Every field is optional at construction. What is not given
is the declared default, else Kafka's: zero, `""`, an empty list, False, the zero UUID, an empty structure.

Classes are cheap to declare, because a broker declares hundreds in its first tenth of a second: slots, one shared
`__eq__` and `__repr__`, types checked and constructors compiled on first use. (`dataclasses` takes 0.6 ms per class.)
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import (
    Annotated,
    Any,
    Final,
    NamedTuple,
    TypeVar,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from kavka.io import Buffer, FileRange
from kavka.wire.source import compile_function

T = TypeVar("T")


class Kind(NamedTuple):
    """A primitive type of the protocol."""

    name: str
    format: str
    """The character of `struct` when the width is fixed, else empty."""
    zero: Any
    """Kafka's default."""


i8 = Annotated[int, Kind("int8", "b", 0)]
i16 = Annotated[int, Kind("int16", "h", 0)]
i32 = Annotated[int, Kind("int32", "i", 0)]
i64 = Annotated[int, Kind("int64", "q", 0)]
u16 = Annotated[int, Kind("uint16", "H", 0)]
u32 = Annotated[int, Kind("uint32", "I", 0)]
f64 = Annotated[float, Kind("float64", "d", 0.0)]
boolean = Annotated[bool, Kind("bool", "?", False)]
uuid = Annotated[bytes, Kind("uuid", "16s", bytes(16))]
"""16 bytes; zero stands for none."""
string = Annotated[str, Kind("string", "", "")]
"""Up to 32767 bytes of UTF-8."""
binary = Annotated[bytes, Kind("bytes", "", b"")]
"""Small bytes that are stored, such as a member's subscription: decoding copies them out of the frame."""
records = Annotated[Buffer | FileRange, Kind("records", "", None)]
"""Record batches: decoding gives a memoryview of the frame; encoding takes buffers and ranges of files uncopied."""


class ListOf(NamedTuple):
    """The type of an array field."""

    item: Kind | type


class Field(NamedTuple):
    """A field as the codec sees it, with its annotation understood."""

    name: str
    type: Kind | ListOf | type
    versions: range
    nullable: range
    """The versions that can say None; a field annotated `| None` may hold it in any."""
    is_optional: bool
    """True if the annotation allows None."""
    default: Any
    """An immutable default, or `FRESH` when each object gets a new empty list or structure."""
    tag: int | None
    ignorable: bool
    """True if a version without the field may drop a value silently; otherwise encoding refuses it."""

    def new_default(self) -> Any:
        """Return the value of a field that was not given."""
        if self.default is not FRESH:
            return self.default
        return [] if isinstance(self.type, ListOf) else self.type()  # type: ignore[operator]


class Schema(NamedTuple):
    """The schema of a declared class."""

    name: str
    api_key: int | None
    """None for structures and for messages that do not travel as requests."""
    versions: range
    flexible: range
    """The versions with compact lengths and tagged fields (KIP-482)."""


class _Absent:
    """The type of the marks below."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name


ABSENT: Final = _Absent("ABSENT")
"""Stands for a value that was not given."""
FRESH: Final = _Absent("FRESH")
"""Stands for a default that must be a new object each time."""
NEWEST = 32767
"""The largest version that `3+` covers."""


@cache
def version_range(text: str) -> range:
    """Return the versions that `text` (`3`, `0-4`, `3+` or `none`) covers. Raise ValueError for anything else."""
    if text == "none":
        return range(0)
    first, dash, last = text.partition("-")
    if text.endswith("+"):
        first, last = text[:-1], str(NEWEST)
    return range(int(first), int(last if dash or last else first) + 1)


class _Declaration(NamedTuple):
    """The arguments of a `field` call."""

    versions: str
    nullable: str
    default: Any
    tag: int | None
    ignorable: bool


def field(
    versions: str = "0+",
    *,
    nullable: str = "none",
    default: Any = ABSENT,
    tag: int | None = None,
    ignorable: bool = False,
) -> Any:
    """Declare a field that exists in `versions` and can be None on the wire in the versions `nullable`.

    A field with a `tag` is left out of the bytes while it has its default (KIP-482).
    A default must be immutable. To encode a value other than the default in a version without the field
    is refused unless the field is `ignorable`.
    """
    return _Declaration(versions, nullable, default, tag, ignorable)


# No field specifiers: `field()` then counts as a default, which is what makes every argument optional to mypy.
@dataclass_transform(kw_only_default=True)
def message(
    *, versions: str, flexible: str = "none", api_key: int | None = None
) -> Callable[[type[T]], type[T]]:
    """Declare a class as a message that has its own versions."""

    def declare(cls: type[T]) -> type[T]:
        schema = Schema(cls.__name__, api_key, version_range(versions), version_range(flexible))
        return _declare(cls, schema)

    return declare


@dataclass_transform(kw_only_default=True)
def struct(cls: type[T]) -> type[T]:
    """Declare a class as a part of messages; it is encoded in the version of the message that it stands in."""
    return _declare(cls, Schema(cls.__name__, None, range(0), range(0)))


def schema_of(cls: type) -> Schema:
    """Return the schema of a declared class. Raise TypeError for any other class."""
    schema = cls.__dict__.get("__schema__")
    if schema is None:
        raise TypeError(f"{cls.__name__} is not declared with @message or @struct")
    found: Schema = schema
    return found


@cache
def fields_of(cls: type) -> tuple[Field, ...]:
    """Return the fields of a declared class in wire order."""
    schema_of(cls)
    hints = get_type_hints(cls, include_extras=True)
    declarations: dict[str, _Declaration] = cls.__dict__["__declarations__"]
    return tuple(_field(name, given, hints[name]) for name, given in declarations.items())


def _field(name: str, declared: _Declaration, hint: Any) -> Field:
    is_optional = type(None) in get_args(hint) and get_origin(hint) is not Annotated
    if is_optional:
        (hint,) = (part for part in get_args(hint) if part is not type(None))
    understood = _wire_type(hint)
    default = declared.default
    if default is ABSENT:
        default = understood.zero if isinstance(understood, Kind) else FRESH
    return Field(
        name,
        understood,
        version_range(declared.versions),
        version_range(declared.nullable),
        is_optional,
        default,
        declared.tag,
        declared.ignorable,
    )


def _wire_type(hint: Any) -> Kind | ListOf | type:
    if get_origin(hint) is Annotated:
        kind: Kind = get_args(hint)[1]
        return kind
    if get_origin(hint) is list:
        item = _wire_type(get_args(hint)[0])
        assert not isinstance(item, ListOf), "the protocol has no arrays of arrays"
        return ListOf(item)
    assert isinstance(hint, type), f"{hint!r} is not a type of the protocol"
    schema_of(hint)
    return hint


def _declare(cls: type[T], schema: Schema) -> type[T]:
    """Make the class again with slots in place of the declarations in its body."""
    body = dict(vars(cls))
    names = list(body.get("__annotations__", ()))
    declarations = {name: body.pop(name, None) for name in names}
    for name, declared in declarations.items():
        if not isinstance(declared, _Declaration):
            raise TypeError(f"{cls.__name__}.{name} is not declared with field()")
    for name in ("__dict__", "__weakref__"):
        body.pop(name, None)
    body.update(
        __slots__=tuple(names),
        __schema__=schema,
        __declarations__=declarations,
        __init__=_first_init,
        __eq__=_equals,
        __hash__=None,
        __repr__=_describe,
    )
    return type(cls.__name__, cls.__bases__, body)


def _first_init(self: Any, **values: Any) -> None:
    """Stand in for the constructor until the first object is made."""
    cls = type(self)
    cls.__init__ = _constructor(cls)
    self.__init__(**values)


def _constructor(cls: type) -> Callable[..., None]:
    names: dict[str, Any] = {"ABSENT": ABSENT}
    parameters, lines = [], []
    for each in fields_of(cls):
        default, value = f"d_{each.name}", each.name
        if each.default is FRESH:
            default = "ABSENT"
            made = "[]" if isinstance(each.type, ListOf) else f"d_{each.name}()"
            names[f"d_{each.name}"] = each.type
            value = f"{made} if {each.name} is ABSENT else {each.name}"
        else:
            names[default] = each.default
        parameters.append(f"{each.name}={default}")
        lines.append(f"    self.{each.name} = {value}\n")
    signature = f"self, *, {', '.join(parameters)}" if parameters else "self"
    source = f"def __init__({signature}):\n{''.join(lines) or '    pass'}"
    return compile_function("__init__", source, f"{cls.__module__}.{cls.__name__}.__init__", names)


def _equals(self: Any, other: object) -> Any:
    names: tuple[str, ...] = self.__slots__
    if type(other) is not type(self):
        return NotImplemented
    return all(getattr(self, name) == getattr(other, name) for name in names)


def _describe(self: Any) -> str:
    """Show all values, but of bytes only how many: they may be payloads or secrets."""
    shown = (f"{name}={_show(getattr(self, name))}" for name in self.__slots__)
    return f"{type(self).__name__}({', '.join(shown)})"


def _show(value: Any) -> str:
    if isinstance(value, bytes | bytearray | memoryview):
        return f"<{len(value)} bytes>"
    return repr(value)
