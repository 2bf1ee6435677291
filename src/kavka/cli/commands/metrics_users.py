"""`kavka metrics-users`: the file of users that may read a broker's metrics, with hashed passwords."""

from __future__ import annotations

import secrets

from kavka.cli.arguments.options import Given, Option, OptionSet
from kavka.cli.arguments.password_files import change
from kavka.metrics.passwords import Users, hashed

OPTIONS = OptionSet(
    "Set or remove the password of a user in a file for kavka.metrics.users.file.",
    Option(
        "file",
        "REQUIRED: the file; it is made if it is not there, readable by its owner only.",
        "file",
    ),
    Option(
        "set",
        "The user whose password is set: asked for twice, or the first line of standard input.",
        "user",
    ),
    Option("remove", "The user that is removed.", "user"),
    Option("list", "List the users."),
    asks_a_broker=False,
)


def main(argv: list[str]) -> int:
    """Run the command; 1 when the file or the name cannot be used."""
    return OPTIONS.run(argv, _act)


def _act(given: Given) -> int:
    return change(
        given,
        lambda text: list(Users(text).names),
        lambda password: hashed(password, secrets.token_bytes(16)),
    )
