"""Declaration of settings: name, type, default, bounds, dynamic update mode, and one sentence.

Types, names and the order of checks follow Kafka's `ConfigDef`; the numbers of `ValueType` are those of
DescribeConfigs v3+.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum, IntEnum
from typing import Final

from kavka.errors import PickledError

Value = str | int | float | bool | list[str] | None


class ValueType(IntEnum):
    """The types of values, as DescribeConfigs numbers them."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Scope(Enum):
    """The dynamic update mode of a broker setting (KIP-226)."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


LONG_MAX: Final = (1 << 63) - 1


def whole_number(values: Mapping[str, Value], name: str) -> int:
    """Return the value of a setting that is a whole number."""
    value = values[name]
    assert isinstance(value, int), name
    return value


class InvalidSetting(PickledError, ValueError):
    """A value that a setting refuses; the message names the setting, the value and the reason."""

    def __init__(self, name: str, value: object, reason: str) -> None:
        """Keep the parts of the message for callers that print them apart."""
        shown = f"[{', '.join(map(str, value))}]" if isinstance(value, list) else value
        super().__init__(f"Invalid value {shown} for configuration {name}: {reason}")
        self.name = name
        self.value = value
        self.reason = reason


# What Java reads as a double, without its hexadecimal notation and its NaN, which no setting means.
_DOUBLE: Final = re.compile(
    r"[+-]?(?:Infinity|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[fFdD]?)", re.ASCII
)
_WIDTH: Final = {ValueType.SHORT: 15, ValueType.INT: 31, ValueType.LONG: 63}


class Setting:
    """A setting's declaration. Instances are created once, at import, and never change."""

    __slots__ = (
        "check",
        "choices",
        "default",
        "doc",
        "effective",
        "fixed",
        "maximum",
        "minimum",
        "name",
        "reported_type",
        "scope",
        "synonym",
        "type",
    )

    def __init__(  # noqa: PLR0913  # a declaration: each argument has a name
        self,
        name: str,
        type: ValueType,
        default: Value,
        doc: str,
        *,
        minimum: float | None = None,
        maximum: float | None = None,
        choices: tuple[str, ...] | None = None,
        scope: Scope = Scope.READ_ONLY,
        synonym: str | None = None,
        effective: bool = True,
        check: Callable[[Value], str | None] | None = None,
        fixed: bool = False,
        reported_type: ValueType | None = None,
    ) -> None:
        """`synonym` is the broker's setting behind a topic's; `effective` is false for names that do nothing here.

        `fixed` is true where a broker uses the value of its start, though Kafka lets it be changed later.
        `reported_type` is Kafka's type, where `type` is narrower.
        """
        self.name = name
        self.type = type
        self.default = default
        self.doc = doc
        self.minimum = minimum
        self.maximum = maximum
        self.choices = choices
        self.scope = scope
        self.synonym = synonym
        self.effective = effective
        self.check = check
        self.fixed = fixed
        self.reported_type = type if reported_type is None else reported_type

    @property
    def is_sensitive(self) -> bool:
        """Return whether the value must never be shown."""
        return self.type in (ValueType.PASSWORD, ValueType.UNKNOWN)

    @property
    def is_ineffective(self) -> bool:
        """Return whether a change while the broker runs has no effect."""
        return self.fixed or not self.effective

    def parse(self, text: str | None) -> Value:
        """Return the value that `text` stands for. Raise InvalidSetting with the reason."""
        if text is None:
            return self.default
        text = text.strip()
        value = self._convert(text)
        self._check_bounds(value)
        return value

    def parse_new(self, text: str) -> Value:
        """Return the value of a text that is to be stored. Raise InvalidSetting as `parse`, and for empty items.

        Kafka does not start with such a list. One that is stored already is read without them: to fall back to the
        default could delete what was to be compacted.
        """
        if self.reported_type is ValueType.LIST and text.strip():
            self._check_bounds([item.strip() for item in text.split(",")])
        return self.parse(text)

    def _convert(self, text: str) -> Value:
        match self.type:
            case ValueType.BOOLEAN:
                if text.lower() not in ("true", "false"):
                    raise InvalidSetting(
                        self.name, text, "Expected value to be either true or false"
                    )
                return text.lower() == "true"
            case ValueType.INT | ValueType.SHORT | ValueType.LONG:
                return self._whole_number(text)
            case ValueType.DOUBLE:
                if _DOUBLE.fullmatch(text) is None:
                    raise InvalidSetting(self.name, text, "Not a number of type DOUBLE")
                return float(text.rstrip("fFdD"))
            case ValueType.LIST:
                return [item.strip() for item in text.split(",") if item.strip()]
            case _:
                return text

    def _whole_number(self, text: str) -> int:
        if not re.fullmatch(r"[+-]?\d+", text):
            raise InvalidSetting(self.name, text, f"Not a number of type {self.type.name}")
        try:
            number = int(text)
        except ValueError as error:  # Python converts 4,300 digits at most
            reason = f"Not a number of type {self.type.name}"
            raise InvalidSetting(self.name, text, reason) from error
        limit = 1 << _WIDTH[self.type]
        if not -limit <= number < limit:
            raise InvalidSetting(self.name, text, f"Not a number of type {self.type.name}")
        return number

    def _check_bounds(self, value: Value) -> None:
        if isinstance(value, int | float) and not isinstance(value, bool):
            if self.minimum is not None and value < self.minimum:
                raise InvalidSetting(self.name, value, f"Value must be at least {self.minimum}")
            if self.maximum is not None and value > self.maximum:
                raise InvalidSetting(self.name, value, f"Value must be no more than {self.maximum}")
        if self.choices is not None:
            for item in value if isinstance(value, list) else [value]:
                if item not in self.choices:
                    allowed = ", ".join(self.choices)
                    raise InvalidSetting(self.name, item, f"String must be one of: {allowed}")
        if self.check is not None and (reason := self.check(value)) is not None:
            raise InvalidSetting(self.name, value, reason)

    def print(self, value: Value) -> str | None:
        """Return the text that `parse` would turn into `value`, as DescribeConfigs shows it."""
        if value is None or isinstance(value, str):
            return value
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, list):
            return ",".join(value)
        return str(value)


class Catalogue:
    """The declarations of one kind of entity, by name."""

    def __init__(self, settings: Iterable[Setting]) -> None:
        """Refuse, by assertion, a name that is declared twice."""
        self._by_name: dict[str, Setting] = {}
        for setting in settings:
            assert setting.name not in self._by_name, setting.name
            self._by_name[setting.name] = setting

    def __contains__(self, name: str) -> bool:
        """Return whether the name is declared."""
        return name in self._by_name

    def __getitem__(self, name: str) -> Setting:
        """Return a declaration; KeyError when there is none."""
        return self._by_name[name]

    def __iter__(self) -> Iterator[Setting]:
        """Yield all declarations, in the order in which they were written."""
        return iter(self._by_name.values())

    def parse(self, texts: Mapping[str, str]) -> dict[str, Value]:
        """Return a value for every declared setting. Raise InvalidSetting for the first bad one."""
        return {s.name: s.parse(texts.get(s.name)) for s in self._by_name.values()}

    def nearest(self, name: str) -> str | None:
        """Return the declared name that an unknown one was most likely meant to be."""
        import difflib  # only on the way to a warning

        found = difflib.get_close_matches(name, self._by_name, n=1, cutoff=0.75)
        return found[0] if found else None
