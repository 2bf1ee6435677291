"""From `--bootstrap-server` and `--command-config` to a connected admin client."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from contextlib import nullcontext

from kavka.cli.arguments.options import BadUsage, BadValue, Given, missing
from kavka.cli.json_lines.lines import logged_as_warnings, print_error
from kavka.cli.text.failures import CommandFailed, TerseFailure
from kavka.cli.text.standard_streams import is_output_failure
from kavka.client.admin.admin import Admin
from kavka.client.config import ADMIN
from kavka.client.setting_names import effective_settings
from kavka.errors import AuthenticationFailed, KafkaError
from kavka.settings.declaration import InvalidSetting
from kavka.settings.properties import parse_properties
from kavka.settings.text_files import read_text

FAILURES = (KafkaError, TimeoutError, OSError, ValueError)
"""Exceptions of a request that was refused, not answered or not sent, or with a value that no version can encode."""


class Unreachable(Exception):
    """No broker answers, or the client's settings are wrong; the sentence is all that the user needs."""

    def __init__(self, reason: object, json_code: str = "UNREACHABLE") -> None:
        """Take the sentence."""
        super().__init__(reason)
        self.json_code = json_code


def with_admin(
    given: Given,
    act: Callable[[Admin], Awaitable[int]],
    failed: Callable[[Exception], int],
    *,
    server_option: str = "bootstrap-server",
    config_option: str = "command-config",
) -> int:
    """Run `act` with a connected client and return its exit code, or that of `failed` when it ends with a failure.

    When no broker answers it is 1, after one sentence. An error of our own output continues.
    With `--json` every failure is printed as JSON, also those that `act` raises for its command line.
    """
    is_json = given.has("json")
    try:
        with logged_as_warnings() if is_json else nullcontext():
            return asyncio.run(_run(given, act, server_option, config_option))
    except (Unreachable, InvalidSetting) as error:
        if is_json:
            return print_error(error)
        print(error, file=sys.stderr)
        return 1
    except FAILURES as error:
        if is_output_failure(error):
            raise
        return print_error(error) if is_json else failed(error)
    except (CommandFailed, TerseFailure, BadUsage, BadValue) as error:
        if is_json:
            return print_error(error)
        raise


async def _run(
    given: Given, act: Callable[[Admin], Awaitable[int]], server_option: str, config_option: str
) -> int:
    admin = Admin(client_settings(given, server_option, config_option))
    try:
        await admin.start()
    except (OSError, TimeoutError, AuthenticationFailed) as error:
        raise Unreachable(error) from error
    try:
        return await act(admin)
    finally:
        await admin.close()


def client_settings(
    given: Given, server_option: str = "bootstrap-server", config_option: str = "command-config"
) -> dict[str, str]:
    """Return the settings of a file that an option names, and the brokers.

    Raise Unreachable when the file cannot be read.
    """
    servers = given.one(server_option)
    if servers is None:
        raise Unreachable(missing(server_option))
    path = given.one(config_option)
    settings = {} if path is None else _properties(path)
    return {**effective_settings(ADMIN, settings), "bootstrap.servers": servers}


def _properties(path: str) -> dict[str, str]:
    try:
        return parse_properties(read_text(path))
    except OSError as error:
        raise Unreachable(f"cannot read {path}: {error.strerror}", "BAD_VALUE") from error
    except ValueError as error:
        raise Unreachable(f"{path}: {error}", "BAD_VALUE") from error
