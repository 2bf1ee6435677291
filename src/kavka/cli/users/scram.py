"""SCRAM credentials in `kavka configs --entity-type users`, with the options and lines of `kafka-configs.sh`.

--add-config 'SCRAM-SHA-256=[iterations=8192,password=secret]'    --delete-config SCRAM-SHA-256
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from kavka.cli.arguments.options import BadValue
from kavka.cli.json_lines import shapes
from kavka.cli.json_lines.lines import print_rows
from kavka.cli.json_rows.entities import credential_rows
from kavka.cli.text.java_errors import spelt
from kavka.client.admin import Admin, ScramCredentialInfo, ScramDeletion, ScramUpsertion
from kavka.core.sasl.scram_credential import MIN_ITERATIONS, SCRAM_MECHANISMS
from kavka.errors import ErrorCode, KafkaError

_DEFAULT_ITERATIONS: Final = 4096
_CREDENTIAL: Final = re.compile(r"(?:iterations=(-?[0-9]{0,9}),)?password=(.*)", re.DOTALL)


def is_scram(name: str) -> bool:
    """Return whether a setting of a user is a SCRAM credential."""
    return name in SCRAM_MECHANISMS


def parsed_credential(user: str, mechanism: str, text: str) -> ScramUpsertion:
    """Return the change that `iterations=8192,password=secret` asks for. Raise BadValue, without the password."""
    found = _CREDENTIAL.fullmatch(text)
    if found is None or not found[2]:
        raise BadValue(
            f"Invalid credential property {mechanism}: expected {mechanism}=[iterations=8192,password=<password>]; "
            f"in a file of --add-config-file without brackets: {mechanism}=iterations=8192,password=<password>"
        )
    iterations = int(found[1]) if found[1] not in (None, "", "-", "-1") else _DEFAULT_ITERATIONS
    if iterations < MIN_ITERATIONS:
        raise BadValue(
            f"Iterations {iterations} is less than the minimum {MIN_ITERATIONS} required for {mechanism}"
        )
    return ScramUpsertion(user, mechanism, found[2], iterations=iterations)


def scram_changes(
    user: str, added: Mapping[str, str], removed: Iterable[str]
) -> list[ScramUpsertion | ScramDeletion]:
    """Return the changes of the options. Raise BadValue for what is no credential, and for the default user."""
    if not user:
        raise BadValue(
            "The use of --entity-default or --user-defaults is not allowed with User SCRAM Credentials using "
            "--bootstrap-server."
        )
    return [
        *(ScramDeletion(user, name) for name in removed),
        *(parsed_credential(user, name, text) for name, text in added.items()),
    ]


async def alter_credentials(admin: Admin, changes: list[ScramUpsertion | ScramDeletion]) -> None:
    """Make the changes of one user. Raise KafkaError."""
    outcomes = await admin.alter_user_scram_credentials(changes)
    for refused in outcomes.values():
        if refused is not None:
            raise refused


async def describe_credentials(admin: Admin, user: str | None, *, as_json: bool) -> None:
    """Print the credentials of a user, or of all. Raise KafkaError with JSON, where they cannot be read."""
    found = await admin.describe_user_scram_credentials(None if user is None else [user])
    for name, outcome in found.items():
        if as_json:
            if not isinstance(outcome, KafkaError):
                print_rows(shapes.CREDENTIAL, credential_rows(name, outcome))
            elif outcome.code is not ErrorCode.RESOURCE_NOT_FOUND:
                raise outcome
        elif not isinstance(outcome, KafkaError):
            print(credentials_line(name, outcome))
        elif outcome.code is not ErrorCode.RESOURCE_NOT_FOUND:
            error, text = spelt(outcome)
            print(
                f"Error retrieving SCRAM credential configs for user-principal '{name}': "
                f"{error.rpartition('.')[2]}: {text}"
            )


def credentials_line(user: str, credentials: Iterable[ScramCredentialInfo]) -> str:
    """Return the line about a user."""
    shown = ", ".join(f"{each.mechanism}=iterations={each.iterations}" for each in credentials)
    return f"SCRAM credential configs for user-principal '{user}' are {shown}"
