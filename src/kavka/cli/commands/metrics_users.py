"""`kavka metrics-users`: the file of users that may read a broker's metrics, with hashed passwords."""

from __future__ import annotations

import secrets

from kavka.cli.arguments.options import Given
from kavka.cli.arguments.password_files import change, password_file_options
from kavka.metrics.passwords import Users, hashed

OPTIONS = password_file_options(
    "Set or remove the password of a user in a file for kavka.metrics.users.file.",
    "The user that is removed.",
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
