"""Print the code that the codec writes for a message: `python -m kavka.wire show MetadataResponse 12`."""

from __future__ import annotations

import sys

from kavka.wire.apis import APIS
from kavka.wire.codec import decoder_of, encoder_of
from kavka.wire.source import source_of

USAGE = (
    "usage: python -m kavka.wire show MESSAGE VERSION      for example: show MetadataResponse 12"
)


def find_message(name: str) -> type | None:
    """Return the request or response of that name, None when there is none."""
    for api in APIS.values():
        for suffix, load in (("Request", api.request), ("Response", api.response)):
            if name == api.key.title + suffix:
                return load()
    return None


def main(arguments: list[str]) -> int:
    """Run the command; return its exit code."""
    if len(arguments) != 3 or arguments[0] != "show" or not arguments[2].isdecimal():
        print(USAGE, file=sys.stderr)
        return 2
    cls, version = find_message(arguments[1]), int(arguments[2])
    if cls is None:
        print(f"there is no message {arguments[1]}", file=sys.stderr)
        return 1
    try:
        print(source_of(decoder_of(cls, version)[0]))
        print(source_of(encoder_of(cls, version)))
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
