"""`kavka storage`: show what log directories belong to and make a cluster's id, as kafka-storage.sh does."""

from __future__ import annotations

import argparse
import secrets
import sys

from kavka.cli.arguments.client_properties import read_properties
from kavka.cli.arguments.options import BadValue
from kavka.cli.arguments.tool_parser import ToolParser
from kavka.cli.json_lines import tool_shapes
from kavka.cli.json_lines.lines import print_error, print_failure, print_rows
from kavka.cli.server.log_directories import identity_of, log_directories
from kavka.ids import uuid_bytes, uuid_text
from kavka.storage.checkpoint.meta_properties import MetaProperties

_NOT_NEEDED = "Nothing to format: a broker prepares its directories, and its cluster's id, when it first starts."


def main(arguments: list[str]) -> int:
    """Run the command; 1 when it is not understood or `info` finds a problem."""
    parser = _parser()
    if not arguments:
        print(f"{parser.format_usage()}kavka storage: error: too few arguments", file=sys.stderr)
        return 1
    given = parser.parse_args(arguments)
    try:
        match given.command:
            case "random-uuid" if given.json:
                print_rows(tool_shapes.UUID, [{"uuid": _random_uuid()}])
                return 0
            case "random-uuid":
                print(_random_uuid())
                return 0
            case "format":
                return _format(given)
            case _:
                return _info(_directories(given.config), as_json=given.json)
    except BadValue as error:
        if given.json:
            return print_error(error)
        print(error, file=sys.stderr)
        return 1


def _parser() -> ToolParser:
    parser = ToolParser("kavka storage", description="The Kafka storage tool.", allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", required=True)
    info = commands.add_parser(
        "info", help="Get information about the Kafka log directories on this node."
    )
    made = commands.add_parser("format", help="Check the options of a format, which is not needed.")
    made_up = commands.add_parser("random-uuid", help="Print a random UUID.")
    parser.add_json(info, made, made_up)
    for command in (info, made):
        command.add_argument("--config", "-c", required=True, help="the broker's properties file")
    made.add_argument("--cluster-id", "-t", required=True, help="a cluster id, from random-uuid")
    made.add_argument("--ignore-formatted", "-g", action="store_true", help="has no effect")
    return parser


def _random_uuid() -> str:
    """Return a random UUID as Kafka prints one, that does not look like an option."""
    while True:
        text = uuid_text(secrets.token_bytes(16))
        if not text.startswith("-"):
            return text


def _directories(path: str) -> list[str]:
    """Return the log directories of a properties file. Raise BadValue when it cannot be read or has none."""
    found = sorted(set(log_directories(read_properties(path))))
    if not found:
        raise BadValue(f"{path}: log.dirs names no directory")
    return found


def _format(given: argparse.Namespace) -> int:
    directories = _directories(given.config)
    try:
        uuid_bytes(given.cluster_id)
    except ValueError as error:
        raise BadValue(
            f"Cluster ID string {given.cluster_id} does not appear to be valid: {error}"
        ) from error
    for directory in directories:
        known, _ = identity_of(directory)
        if known is not None and known.cluster_id not in (None, given.cluster_id):
            raise BadValue(
                f"{directory} belongs to the cluster {known.cluster_id}, not to {given.cluster_id}: nothing was changed"
            )
    if given.json:
        print_rows(tool_shapes.FORMAT, [{"directories": directories, "formatted": False}])
    else:
        print(_NOT_NEEDED)
    return 0


def _info(directories: list[str], *, as_json: bool) -> int:
    problems: list[str] = []
    metadata: list[MetaProperties] = []
    for directory in directories:
        known, problem = identity_of(directory)
        if problem is not None:
            problems.append(problem)
        elif known is not None and known not in metadata:
            metadata.append(known)
    if len({(known.broker_id, known.cluster_id) for known in metadata}) > 1:
        problems.append("The directories belong to different brokers or clusters.")
    if as_json:
        return _print_info(directories, metadata, problems)
    print("Found log directory:" if len(directories) == 1 else "Found log directories:")
    print("".join(f"  {directory}\n" for directory in directories))
    for known in metadata[:1]:
        print(f"Found metadata: {_shown(known)}\n")
    if problems:
        print("Found problem:" if len(problems) == 1 else "Found problems:")
        print("".join(f"  {problem}\n" for problem in problems))
    return 1 if problems else 0


def _print_info(directories: list[str], metadata: list[MetaProperties], problems: list[str]) -> int:
    known = dict(line.split("=", 1) for line in _properties(metadata[0])) if metadata else None
    row = {"directories": directories, "metadata": known, "problems": problems}
    print_rows(tool_shapes.STORAGE, [row])
    return print_failure("FAILED", problems[0]) if problems else 0


def _shown(meta: MetaProperties) -> str:
    """Return an identity as Kafka prints it: properties by name."""
    return "{" + ", ".join(_properties(meta)) + "}"


def _properties(meta: MetaProperties) -> list[str]:
    return sorted(
        line for line in meta.encode().decode().splitlines() if line and not line.startswith("#")
    )
