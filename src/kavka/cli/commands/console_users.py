"""`kavka console-users`: the file of users that may log in to the console, with hashed passwords."""

from __future__ import annotations

import sys

from kavka.cli.arguments.options import Given
from kavka.cli.arguments.password_files import change, password_file_options
from kavka.cli.server.console_process import missing_module

OPTIONS = password_file_options(
    "Set or remove the password of a user in a file that users-file in the console's --access names.",
    "The user that is removed; the sessions of the user end.",
)


def main(argv: list[str]) -> int:
    """Run the command; 1 when the file or the name cannot be used."""
    return OPTIONS.run(argv, _act)


def _act(given: Given) -> int:
    try:
        from kavka.console.access.passwords import hashed, users_of
    except ModuleNotFoundError as error:
        print(f"kavka console-users: {missing_module(error)}", file=sys.stderr)
        return 1
    return change(given, lambda text: list(users_of(text)), hashed)
