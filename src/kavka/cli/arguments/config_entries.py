"""Settings as `kavka configs` reads them from its options and prints them."""

from __future__ import annotations

import re

from kavka.cli.arguments.options import BadValue
from kavka.client.admin.configs import ConfigEntry

_SOURCES = {
    0: "UNKNOWN",
    1: "DYNAMIC_TOPIC_CONFIG",
    2: "DYNAMIC_BROKER_CONFIG",
    3: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    4: "STATIC_BROKER_CONFIG",
    5: "DEFAULT_CONFIG",
    6: "DYNAMIC_BROKER_LOGGER_CONFIG",
    7: "DYNAMIC_CLIENT_METRICS_CONFIG",
    8: "DYNAMIC_GROUP_CONFIG",
}
_PAIR = re.compile(
    r"\s*(?P<name>[^=,\[\]]+?)\s*=\s*(?:\[(?P<group>[^\]]*)\]|(?P<value>[^,]*?))\s*(?:,|$)"
)


def parse_pairs(text: str) -> dict[str, str]:
    """Return the settings of `a=1,b=[x,y],c=`; brackets hold values with commas together."""
    found: dict[str, str] = {}
    position = 0
    while position < len(text):
        match = _PAIR.match(text, position)
        if match is None:
            raise BadValue(
                'requirement failed: Invalid entity config: all configs to be added must be in the format "key=val" or '
                ' "key=[val1,val2]" to group values which contain commas.'
            )
        group = match["group"]
        found[match["name"]] = match["value"] if group is None else group
        position = match.end()
    return found


def entry_line(entry: ConfigEntry) -> str:
    """Return the line about a setting."""
    synonyms = ", ".join(
        f"{source_name(s.source)}:{s.name}={_shown(s.value)}" for s in entry.synonyms
    )
    return (
        f"  {entry.name}={_shown(entry.value)} sensitive={str(entry.is_sensitive).lower()} "
        f"synonyms={{{synonyms}}}"
    )


def source_name(source: int) -> str:
    """Return Kafka's name of where a value comes from."""
    return _SOURCES.get(source, _SOURCES[0])


def _shown(value: str | None) -> str:
    return "null" if value is None else value
