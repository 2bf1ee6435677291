"""Options as Kafka's scripts take them: `--name value`, `--name=value`, one dash or two, in any order.

Kafka's parser differs from `argparse`: names are never abbreviated, a value may begin with a dash, options may be
repeated, words that belong to no option are passed over, and every mistake ends with exit code 1.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from kavka.cli.json_lines.lines import OPTION, print_error, wants_json


class BadUsage(Exception):
    """The options do not go together: the sentence is printed with the usage, the exit code is 1."""

    json_code = "BAD_USAGE"


class BadValue(Exception):
    """An option has a value that it cannot have."""

    json_code = "BAD_VALUE"


class Option(NamedTuple):
    """One option; `value` names what follows it, None for a flag."""

    name: str
    help: str
    value: str | None = None
    value_is_optional: bool = False
    value_is_number: bool = False
    """True where an optional value may begin with a dash: it is a whole number."""


class Given:
    """The options of one call."""

    def __init__(self, values: Mapping[str, list[str]], order: Sequence[str] = ()) -> None:
        """Take the values of each option that was given, none for a flag; `order` names all options as they came."""
        self._values = values
        self._order = order

    def has(self, *names: str) -> bool:
        """Return whether one of the options was given."""
        return any(name in self._values for name in names)

    def all(self, name: str) -> list[str]:
        """Return every value of an option, in order."""
        return self._values.get(name, [])

    def in_order(self, *names: str) -> list[str]:
        """Return which of the options were given, as often as they were, in order."""
        return [name for name in self._order if name in names]

    def one(self, name: str) -> str | None:
        """Return the value of an option, None without one. Raise BadValue when it was given twice."""
        values = self.all(name)
        if len(values) > 1:
            raise BadValue(
                f"Found multiple arguments for option {name}, but you asked for only one"
            )
        return values[0] if values else None

    def text(self, name: str) -> str:
        """Return the value of an option that must be there."""
        value = self.one(name)
        if value is None:
            raise BadUsage(missing(name))
        return value

    def integer(self, name: str, bits: int = 32) -> int | None:
        """Return a whole number of so many bits. Raise BadValue when the value is none."""
        value = self.one(name)
        if value is None:
            return None
        try:
            return whole_number(value, bits)
        except ValueError:
            raise BadValue(f"Cannot parse argument '{value}' of option {name}") from None

    def require(self, *names: str) -> None:
        """Raise BadUsage unless all these options were given."""
        for name in names:
            if not self.has(name):
                raise BadUsage(missing(name))

    def forbid(self, name: str, others: Iterable[str]) -> None:
        """Raise BadUsage when `name` was given together with one of the others."""
        if not self.has(name):
            return
        for other in others:
            if self.has(other):
                raise BadUsage(f'Option "[{name}]" can\'t be used with option "[{other}]"')

    def one_action(self, *names: str, before_last: str = ", ") -> str:
        """Return which of the actions was given. Raise BadUsage unless it is exactly one."""
        chosen = [name for name in names if self.has(name)]
        if len(chosen) != 1:
            *others, last = (f"--{name}" for name in names)
            listed = before_last.join((", ".join(others), last))
            raise BadUsage(f"Command must include exactly one action: {listed}")
        return chosen[0]


_WHOLE = re.compile(r"[-+]?[0-9]+")


def whole_number(text: str, bits: int) -> int:
    """Return a number as Java reads it: digits and perhaps a sign. Raise ValueError for all else that `int` takes."""
    if _WHOLE.fullmatch(text) is None:
        raise ValueError(f"{text!r} is no whole number")
    number = int(text)
    if not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise ValueError(f"{text} is no number of {bits} bits")
    return number


def _is_value(word: str, *, is_number: bool) -> bool:
    """Return whether a word behind an option with an optional value is that value, and no option."""
    return not word.startswith("-") or (is_number and _WHOLE.fullmatch(word) is not None)


def missing(name: str) -> str:
    """Return Kafka's sentence about an option that must be given."""
    return f'Missing required argument "[{name}]"'


BOOTSTRAP = Option(
    "bootstrap-server", "REQUIRED: brokers to connect to, as host:port,host:port", "servers"
)
JSON = Option(
    OPTION,
    "Print a JSON object per line, failures too, on standard error (kavka's own).",
)
COMMAND_CONFIG = Option("command-config", "A properties file with settings of the client.", "file")
_HELP = Option("help", "Print this.")
_VERSION = Option("version", "Print the version.")


class OptionSet:
    """The options of one command."""

    def __init__(self, purpose: str, *options: Option, asks_a_broker: bool = True) -> None:
        """Take a sentence about the command and its own options; those of every command are added."""
        everywhere = (BOOTSTRAP, COMMAND_CONFIG) if asks_a_broker else ()
        self.purpose = purpose
        self._options = {o.name: o for o in (*options, *everywhere, _HELP, _VERSION)}

    def parse(self, argv: Sequence[str]) -> Given:
        """Return what was given. Raise BadUsage on an unknown option and on one without its value."""
        values: dict[str, list[str]] = {}
        order: list[str] = []
        words = list(argv)
        while words:
            word = words.pop(0)
            if word == "--":
                break
            if not word.startswith("-") or word == "-":
                continue
            name, equals, attached = word.lstrip("-").partition("=")
            option = self._options.get(name)
            if option is None:
                raise BadUsage(f"{name} is not a recognized option")
            taken = values.setdefault(name, [])
            order.append(name)
            if option.value is None:
                continue
            if equals:
                taken.append(attached)
            elif option.value_is_optional:
                if words and _is_value(words[0], is_number=option.value_is_number):
                    taken.append(words.pop(0))
            elif words:
                taken.append(words.pop(0))
            else:
                raise BadUsage(f"Option {name} requires an argument")
        return Given(values, order)

    def usage(self) -> str:
        """Return the table of options."""
        import textwrap

        shown = {self._left(option): option.help for _, option in sorted(self._options.items())}
        width = max(map(len, shown)) + 2
        rows = [f"{'Option':<{width}}Description", f"{'------':<{width}}-----------"]
        for left, text in shown.items():
            first, *rest = textwrap.wrap(text, max(100 - width, 30))
            rows.append(f"{left:<{width}}{first}")
            rows.extend(" " * width + line for line in rest)
        return "\n".join(rows)

    def _left(self, option: Option) -> str:
        if option.value is None:
            return f"--{option.name}"
        shown = f"[{option.value}]" if option.value_is_optional else f"<{option.value}>"
        return f"--{option.name} {shown}"

    def run(self, argv: Sequence[str], act: Callable[[Given], int]) -> int:
        """Parse, act, and say what was wrong with the options. `--help` ends with 1, as Kafka's scripts do."""
        if not argv:
            return self._refuse(self.purpose)
        if JSON.name in self._options and wants_json(argv):
            return self._run_for_json(argv, act)
        try:
            given = self.parse(argv)
            if given.has("help"):
                return self._refuse(self.purpose)
            if given.has("version"):
                from kavka import __version__

                print(__version__)
                return 0
            return act(given)
        except BadUsage as error:
            return self._refuse(str(error))
        except BadValue as error:
            print(error, file=sys.stderr)
            return 1

    def _run_for_json(self, argv: Sequence[str], act: Callable[[Given], int]) -> int:
        """Parse and act; a wrong option is a failure as JSON, without the table of options."""
        try:
            given = self.parse(argv)
            if not given.has("help", "version"):
                return act(given)
        except (BadUsage, BadValue) as error:
            return print_error(error)
        return self.run([word for word in argv if word.lstrip("-") != JSON.name], act)

    def _refuse(self, sentence: str) -> int:
        print(f"{sentence}\n{self.usage()}", file=sys.stderr)
        return 1
