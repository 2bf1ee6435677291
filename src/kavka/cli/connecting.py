"""From `--bootstrap-server` and `--command-config` to a connected admin client."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable

from kavka.cli.options import Given, missing
from kavka.client.admin.admin import Admin
from kavka.settings.declaration import InvalidSetting
from kavka.settings.properties import parse_properties


class Unreachable(Exception):
    """No broker answers, or the client's settings are wrong; the sentence is all that the user needs."""


def with_admin(
    given: Given, act: Callable[[Admin], Awaitable[int]], *, server_option: str = "bootstrap-server"
) -> int:
    """Run `act` with a connected client and return its exit code; 1, with one sentence, when no broker answers."""
    try:
        return asyncio.run(_run(given, act, server_option))
    except (Unreachable, InvalidSetting) as error:
        print(error, file=sys.stderr)
        return 1


async def _run(given: Given, act: Callable[[Admin], Awaitable[int]], server_option: str) -> int:
    admin = Admin(client_settings(given, server_option))
    try:
        await admin.start()
    except (OSError, TimeoutError) as error:
        raise Unreachable(error) from error
    try:
        return await act(admin)
    finally:
        await admin.close()


def client_settings(given: Given, server_option: str = "bootstrap-server") -> dict[str, str]:
    """Return the settings of `--command-config` and the brokers. Raise Unreachable when the file cannot be read."""
    servers = given.one(server_option)
    if servers is None:
        raise Unreachable(missing(server_option))
    path = given.one("command-config")
    settings = {} if path is None else _properties(path)
    return {**settings, "bootstrap.servers": servers}


def _properties(path: str) -> dict[str, str]:
    try:
        with open(path, encoding="utf-8") as file:
            return parse_properties(file.read())
    except OSError as error:
        raise Unreachable(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise Unreachable(f"{path}: {error}") from error
