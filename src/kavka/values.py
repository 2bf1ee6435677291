"""Values: small classes with slots that are cheap to declare.

    @frozen
    class Join:
        group_id: string
        protocols: tuple[str, ...] = ()

A type checker takes them for dataclasses, and they behave like `@dataclass(frozen=True, slots=True)`: positional and
named arguments, defaults, `__post_init__`, equality and hash by fields, `match`, pickling. But `dataclasses` compiles
seven methods when the class is made, 0.4 ms each time, and a broker declares a hundred such classes before its first
request (decision 008). Here slots are made at once and the constructor is compiled when the first object is made.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, Final, TypeVar, dataclass_transform

T = TypeVar("T")


class _FieldSpec:
    """The arguments of a `field` call."""

    __slots__ = ("factory", "init")

    def __init__(self, factory: Callable[[], Any] | None, init: bool) -> None:
        self.factory = factory
        self.init = init


_REQUIRED: Final = _FieldSpec(None, True)


def field(*, factory: Callable[[], Any] | None = None, init: bool = True) -> Any:
    """Declare a field that is made by `factory` when it is not given, or (`init=False`) that `__post_init__` sets."""
    return _FieldSpec(factory, init)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: type[T]) -> type[T]:
    """Declare a class of immutable objects; they are equal when their fields are, and can be keys."""
    return _declare(cls, is_frozen=True)


@dataclass_transform(field_specifiers=(field,))
def mutable(cls: type[T]) -> type[T]:
    """Declare a class of mutable objects; they are equal when their fields are, and cannot be keys."""
    return _declare(cls, is_frozen=False)


def replace(value: T, /, **changes: Any) -> T:
    """Return a copy of a value with other values in some fields. Raise TypeError for a field that it has not."""
    cls: Any = type(value)
    values, places = list(cls.__values_of__(value)), cls.__places__
    for name, changed in changes.items():
        if name not in places:
            raise TypeError(f"{cls.__name__} has no field {name}")
        values[places[name]] = changed
    copy: T = cls(*values)
    return copy


def _names(cls: type) -> tuple[str, ...]:
    names: tuple[str, ...] = cls.__match_args__  # type: ignore[attr-defined]
    return names


def _fields(value: Any) -> tuple[Any, ...]:
    values: tuple[Any, ...] = type(value).__values_of__(value)
    return values


def _declare(cls: type[T], *, is_frozen: bool) -> type[T]:
    """Make the class again with slots in place of the defaults in its body."""
    body = dict(vars(cls))
    slots = [
        name
        for name, hint in body.get("__annotations__", {}).items()
        if "ClassVar" not in str(hint)
    ]
    declared: dict[str, Any] = {}
    for base in reversed(cls.__mro__[1:]):
        declared |= base.__dict__.get("__declared__", {})
    inherited = set(declared)
    declared |= {name: body.pop(name, _REQUIRED) for name in slots}
    names = tuple(n for n, how in declared.items() if not isinstance(how, _FieldSpec) or how.init)
    for name in ("__dict__", "__weakref__"):
        body.pop(name, None)
    body |= {
        "__slots__": tuple(name for name in slots if name not in inherited),
        "__match_args__": names,
        "__declared__": declared,
        "__places__": {name: place for place, name in enumerate(names)},
        "__values_of__": staticmethod(_values_of(names)),
    }
    for name, method in _methods(names, is_frozen=is_frozen).items():
        body.setdefault(name, method)
    made: type[T] = type(cls.__name__, cls.__bases__, body)
    if "__init__" not in body:
        _construct_later(made, is_frozen=is_frozen)
    return made


def _values_of(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    """Return what returns the fields `names` of an object as a tuple."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda value: tuple([getattr(value, name) for name in names])


def _methods(names: tuple[str, ...], *, is_frozen: bool) -> dict[str, Any]:
    """Return the methods of a class with the fields `names`."""
    key: Callable[[Any], Any] = attrgetter(*names) if names else type

    def equals(self: Any, other: object) -> Any:
        return key(self) == key(other) if type(other) is type(self) else NotImplemented

    methods: dict[str, Any] = {"__eq__": equals, "__repr__": _describe, "__reduce__": _reduce}
    if is_frozen:
        methods["__hash__"] = lambda self: hash(key(self))
        methods["__setattr__"] = methods["__delattr__"] = _refuse
    else:
        methods["__hash__"] = None
    return methods


def _describe(self: Any) -> str:
    names = _names(type(self))
    shown = (f"{name}={value!r}" for name, value in zip(names, _fields(self), strict=True))
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _reduce(self: Any) -> tuple[Any, ...]:
    return type(self), _fields(self)


def _refuse(self: Any, name: str, *_: Any) -> None:
    raise AttributeError(f"{type(self).__name__}.{name} cannot change: the class is frozen")


def _construct_later(cls: Any, *, is_frozen: bool) -> None:
    """Let the first object compile the constructor of its class."""

    def first(self: Any, *given: Any, **named: Any) -> None:
        cls.__init__ = constructor = _constructor(cls, is_frozen=is_frozen)
        constructor(self, *given, **named)

    cls.__init__ = first


def _constructor(cls: Any, *, is_frozen: bool) -> Callable[..., None]:
    """Compile `__init__`: one store for each field; past the refusal where the class is frozen."""
    names: dict[str, Any] = {"REQUIRED": _REQUIRED}
    parameters, lines = ["self"], []
    for name in _names(cls):
        how, value = cls.__declared__[name], name
        if how is _REQUIRED:
            parameters.append(name)
        elif isinstance(how, _FieldSpec):
            names[f"new_{name}"] = how.factory
            parameters.append(f"{name}=REQUIRED")
            value = f"new_{name}() if {name} is REQUIRED else {name}"
        else:
            names[f"default_{name}"] = how
            parameters.append(f"{name}=default_{name}")
        if is_frozen:
            names[f"set_{name}"] = getattr(cls, name).__set__
            lines.append(f"set_{name}(self, {value})")
        else:
            lines.append(f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    body = "\n    ".join(lines or ["pass"])
    source = f"def __init__({', '.join(parameters)}):\n    {body}\n"
    exec(compile(source, f"<kavka {cls.__module__}.{cls.__qualname__}.__init__>", "exec"), names)
    constructor: Callable[..., None] = names["__init__"]
    constructor.__qualname__ = f"{cls.__qualname__}.__init__"
    return constructor
