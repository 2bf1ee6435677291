"""`kavka metrics-users`: the file of users that may read a broker's metrics, with hashed passwords."""

from __future__ import annotations

import getpass
import os
import secrets
import sys
from pathlib import Path

from kavka.cli.arguments.options import BadValue, Given, Option, OptionSet
from kavka.metrics.passwords import BadUsers, Users, hashed
from kavka.settings.text_files import read_text

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
    given.require("file")
    action = given.one_action("set", "remove", "list")
    path = Path(given.text("file"))
    try:
        lines = read_text(str(path)).splitlines() if path.exists() else []
        if action == "list":
            print(*Users("\n".join(lines)).names, sep="\n")
            return 0
        user = given.text(action)
        if not user or ":" in user or user.startswith("#") or not user.isprintable():
            raise BadValue(f"A user's name has no colon, and does not begin with #: {user!r}")
        line = None
        if action == "set":
            line = f"{user}:{hashed(_password(), secrets.token_bytes(16))}"
        _write(path, _changed(lines, user, line))
    except BadUsers as error:
        raise BadValue(f"{path}: {error}") from None
    except OSError as error:
        raise BadValue(f"{path}: {error.strerror or error}") from None
    except ValueError as error:
        raise BadValue(f"{path}: {error}") from None
    return 0


def _changed(lines: list[str], user: str, line: str | None) -> list[str]:
    """Return the lines with that of a user replaced, added or, for None, removed."""
    places = [place for place, each in enumerate(lines) if each.partition(":")[0] == user]
    if line is None and not places:
        raise BadValue(f"There is no user {user!r} in the file")
    kept = [each for place, each in enumerate(lines) if place not in places]
    if line is not None:
        kept.insert(places[0] if places else len(kept), line)
    return kept


def _password() -> str:
    if not sys.stdin.isatty():
        password = sys.stdin.readline().removesuffix("\n")
    else:
        password = getpass.getpass("Password: ")
        if getpass.getpass("Again: ") != password:
            raise BadValue("The passwords are not the same")
    if not password:
        raise BadValue("The password is empty: give it as a line of standard input")
    return password


def _write(path: Path, lines: list[str]) -> None:
    """Replace the file at once: a broker may read it at any time."""
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write("".join(f"{line}\n" for line in lines))
        file.flush()
        os.fsync(file.fileno())
    if path.exists():
        os.chmod(new, path.stat().st_mode & 0o777)
    os.replace(new, path)
