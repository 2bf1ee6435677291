"""Files of users and hashed passwords, a line `name:hash` for each, as commands change them."""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Callable
from pathlib import Path

from kavka.cli.arguments.options import BadValue, Given, Option, OptionSet
from kavka.settings.text_files import read_text


def password_file_options(about: str, remove: str) -> OptionSet:
    """Return the options of a command that changes such a file; `remove` says what its `--remove` does."""
    return OptionSet(
        about,
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
        Option("remove", remove, "user"),
        Option("list", "List the users."),
        asks_a_broker=False,
    )


def change(given: Given, names: Callable[[str], list[str]], hashed: Callable[[str], str]) -> int:
    """Do what `--set`, `--remove` or `--list` says with `--file`. Raise BadValue for what cannot be done.

    `names` reads the users of a text, and raises ValueError.
    """
    given.require("file")
    action = given.one_action("set", "remove", "list")
    path = Path(given.text("file"))
    try:
        lines = read_text(str(path)).splitlines() if path.exists() else []
        if action == "list":
            print(*names("\n".join(lines)), sep="\n")
            return 0
        user = given.text(action)
        if not user or ":" in user or user.startswith("#") or not user.isprintable():
            raise BadValue(f"A user's name has no colon, and does not begin with #: {user!r}")
        line = f"{user}:{hashed(asked_password())}" if action == "set" else None
        replace_file(path, changed(lines, user, line))
    except OSError as error:
        raise BadValue(f"{path}: {error.strerror or error}") from None
    except ValueError as error:
        raise BadValue(f"{path}: {error}") from None
    return 0


def changed(lines: list[str], user: str, line: str | None) -> list[str]:
    """Return the lines with that of a user replaced, added or, for None, removed."""
    places = [place for place, each in enumerate(lines) if each.partition(":")[0] == user]
    if line is None and not places:
        raise BadValue(f"There is no user {user!r} in the file")
    kept = [each for place, each in enumerate(lines) if place not in places]
    if line is not None:
        kept.insert(places[0] if places else len(kept), line)
    return kept


def asked_password() -> str:
    """Return a password that was typed twice, or the first line of standard input. Raise BadValue."""
    if not sys.stdin.isatty():
        password = sys.stdin.readline().removesuffix("\n")
    else:
        password = getpass.getpass("Password: ")
        if getpass.getpass("Again: ") != password:
            raise BadValue("The passwords are not the same")
    if not password:
        raise BadValue("The password is empty: give it as a line of standard input")
    return password


def replace_file(path: Path, lines: list[str]) -> None:
    """Replace the file at once: a process may read it at any time."""
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write("".join(f"{line}\n" for line in lines))
        file.flush()
        os.fsync(file.fileno())
    if path.exists():
        os.chmod(new, path.stat().st_mode & 0o777)
    os.replace(new, path)
