"""`kavka broker-api-versions`: print which versions brokers speak, as `kafka-broker-api-versions.sh` does."""

from __future__ import annotations

import sys

from kavka.cli.admin.connection import with_admin
from kavka.cli.arguments.options import JSON, Given, OptionSet
from kavka.cli.json_lines import shapes
from kavka.cli.json_lines.lines import print_outcomes
from kavka.cli.json_rows.cluster import broker_apis_rows
from kavka.cli.text.java_errors import spelt_together
from kavka.client.admin.admin import Admin
from kavka.wire.apis import APIS, ApiKey
from kavka.wire.messages.api_versions import ApiVersionsResponse

OPTIONS = OptionSet("This tool helps to retrieve broker version information.", JSON)


_NAMED = frozenset(ApiKey)


def main(argv: list[str]) -> int:
    """Run the command; 1 when a broker could not be asked."""
    return OPTIONS.run(argv, _act)


def _act(given: Given) -> int:
    given.require("bootstrap-server")

    async def act(admin: Admin) -> int:
        if given.has("json"):
            rows = broker_apis_rows(await admin.api_versions())
            return print_outcomes(shapes.BROKER_APIS, rows)
        code = 0
        for broker, response in (await admin.api_versions()).items():
            if isinstance(response, Exception):
                print(f"{broker} -> ERROR: {spelt_together(response)}")
                code = 1
            else:
                lines = ",\n\t".join(api_lines(response))
                print(f"{broker} -> (\n\t{lines}\n)")
        return code

    return with_admin(given, act, _failed)


def _failed(error: Exception) -> int:
    print(spelt_together(error), file=sys.stderr)
    return 1


def api_lines(response: ApiVersionsResponse) -> list[str]:
    """Return a line for each API that the broker or this client speaks; `usable` is what they would agree on."""
    served = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
    return [_line(key, served.get(key)) for key in sorted({*served, *map(int, APIS)})]


def _line(key: int, served: tuple[int, int] | None) -> str:
    name = f"{ApiKey(key).title}({key})" if key in _NAMED else f"UNKNOWN({key})"
    if served is None:
        return f"{name}: UNSUPPORTED"
    first, last = served
    shown = str(first) if first == last else f"{first} to {last}"
    ours = APIS.get(key)
    if ours is None:  # newer than this client
        return f"{name}: {shown}"
    if last < ours.min_version or first > ours.max_version:
        return f"{name}: {shown} [unusable: node too {'old' if last < ours.min_version else 'new'}]"
    return f"{name}: {shown} [usable: {min(last, ours.max_version)}]"
