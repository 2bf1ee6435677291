"""Client settings from the options of the console and performance tools: a file, then pairs, then the options."""

from __future__ import annotations

from collections.abc import Sequence

from kavka.cli.arguments.options import BadUsage, BadValue, Given, Option
from kavka.settings.properties import parse_properties
from kavka.settings.text_files import read_text

SERVERS = Option(
    "bootstrap-server",
    "REQUIRED: The server(s) to connect to, as HOST1:PORT1,HOST2:PORT2.",
    "servers",
)


def servers(given: Given) -> str:
    """Return the brokers to ask. Raise BadUsage, in Kafka's words, where they are missing or malformed."""
    given.require("bootstrap-server")
    listed = given.text("bootstrap-server")
    for item in listed.split(","):
        host, colon, port = item.rpartition(":")
        if not (colon and host and port.isdigit()):
            raise BadUsage("Please provide valid host:port like host1:9091,host2:9092\n ")
    return listed


def key_values(pairs: Sequence[str]) -> dict[str, str]:
    """Return what `key=value` words say; a key alone has the empty value. Raise BadValue for an empty key."""
    found: dict[str, str] = {}
    for pair in pairs:
        key, _, value = pair.partition("=")
        if not key:
            raise BadValue(f"Invalid command line property: {pair}")
        found[key] = value
    return found


def read_properties(path: str | None) -> dict[str, str]:
    """Return the settings of a properties file, none without a path. Raise BadValue when it cannot be read."""
    if path is None:
        return {}
    try:
        return parse_properties(read_text(path))
    except OSError as error:
        raise BadValue(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise BadValue(f"{path}: {error}") from error


def is_true(properties: dict[str, str], name: str, default: str = "false") -> bool:
    """Return whether a property says true, as Java's tools read it."""
    return properties.get(name, default).strip().lower() == "true"
