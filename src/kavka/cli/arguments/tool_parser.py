"""The parser of commands with sub-commands."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import NoReturn

from kavka.cli.arguments.options import JSON
from kavka.cli.json_lines.lines import print_failure, wants_json


class _Misunderstood(Exception):
    """A command line makes no sense to the parser of a command or of a sub-command."""

    def __init__(self, usage: str, message: str) -> None:
        super().__init__(message)
        self.usage = usage


class ToolParser(argparse.ArgumentParser):
    """Ends with 1 where argparse ends with 2, as every tool of Kafka; `prog` begins with `kavka` and the command."""

    takes_json = False

    def add_json(self, *commands: argparse.ArgumentParser) -> None:
        """Add `--json` to this parser and to its sub-commands: it may stand before and behind their names."""
        if not self.takes_json:
            self.add_argument(f"--{JSON.name}", action="store_true", help=JSON.help)
        self.takes_json = True
        for command in commands:
            # Without a default, which would stand above what was given before the name.
            default = argparse.SUPPRESS
            command.add_argument(
                f"--{JSON.name}", action="store_true", default=default, help=JSON.help
            )

    def parse_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> argparse.Namespace:
        """Return the options; what makes no sense ends the process, as JSON where that is asked for."""
        words = sys.argv[1:] if args is None else list(args)
        try:
            found: argparse.Namespace = super().parse_args(words, namespace)
        except _Misunderstood as error:
            if self.takes_json and wants_json(words):
                sys.exit(print_failure("BAD_USAGE", str(error)))
            command = " ".join(self.prog.split()[:2])
            print(f"{error.usage}{command}: error: {error}", file=sys.stderr)
            sys.exit(1)
        return found

    def error(self, message: str) -> NoReturn:
        """Refuse the command line, in the name of the command also for its sub-commands."""
        raise _Misunderstood(self.format_usage(), message)


def add_brokers(parser: argparse.ArgumentParser) -> None:
    """Add `--bootstrap-server`, and its old name `--broker-list`, as `brokers`; one of them must be given."""
    brokers = parser.add_mutually_exclusive_group(required=True)
    for name, text in (
        ("--bootstrap-server", "the brokers to connect to"),
        ("--broker-list", "deprecated: use --bootstrap-server"),
    ):
        brokers.add_argument(
            name, dest="brokers", metavar="HOST1:PORT1[,HOST2:PORT2[...]]", help=text
        )
