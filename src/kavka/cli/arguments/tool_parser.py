"""The parser of commands with sub-commands."""

from __future__ import annotations

import argparse
import sys
from typing import NoReturn


class ToolParser(argparse.ArgumentParser):
    """Ends with 1 where argparse ends with 2, as every tool of Kafka; `prog` begins with `kavka` and the command."""

    def error(self, message: str) -> NoReturn:
        """Print the usage and the sentence, in the name of the command also for its sub-commands."""
        command = " ".join(self.prog.split()[:2])
        print(f"{self.format_usage()}{command}: error: {message}", file=sys.stderr)
        sys.exit(1)


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
