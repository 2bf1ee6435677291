"""`kavka delegation-tokens`: options that do not go together, and what refusals look like."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from kavka.cli.json_lines.shapes import TOKEN, TOKEN_END
from kavka.cli.main import main
from kavka.net.event_loop import MeasuredEventLoop
from support.sasl import Server, served

AT = ("--bootstrap-server", "localhost:1", "--command-config", "none")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (AT, "exactly one action: --create, --renew, --expire or --describe"),
        ((*AT, "--create", "--describe"), "exactly one action"),
        (("--describe", *AT[:2]), 'Missing required argument "[command-config]"'),
        ((*AT, "--create"), 'Missing required argument "[max-life-time-period]"'),
        ((*AT, "--renew", "--renew-time-period", "1"), 'Missing required argument "[hmac]"'),
        (
            (*AT, "--describe", "--hmac", "aA=="),
            'Option "[describe]" can\'t be used with option "[hmac]"',
        ),
        (
            (*AT, "--expire", "--hmac", "aA==", "--expiry-time-period", "1", "--owner-principal"),
            'Option "[expire]" can\'t be used with option "[owner-principal]"',
        ),
        (
            (*AT, "--create", "--max-life-time-period", "soon"),
            "Cannot parse argument 'soon' of option max-life-time-period",
        ),
        ((*AT, "--create", "--max-life-time-period"), "[max-life-time-period]"),
        (
            (*AT, "--describe", "--owner-principal", "alice"),
            "expected a string in format principalType:principalName but got alice",
        ),
        (
            (*AT, "--renew", "--renew-time-period", "-1", "--hmac", "no base64"),
            "--hmac is not base64",
        ),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], sentence: str
) -> None:
    assert main(["delegation-tokens", *words]) == 1
    assert sentence in capsys.readouterr().err


def test_a_token_is_made_shown_and_removed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "client.properties"

    def tokens(*words: str, code: int = 0) -> str:
        assert main(["delegation-tokens", "--command-config", str(file), *words]) == code
        printed = capsys.readouterr()
        return printed.err if code else printed.out

    def story(server: Server) -> None:
        config = server.config("alice", "alice secret")
        at = ("--bootstrap-server", config.pop("bootstrap.servers"))
        file.write_text("".join(f"{name}={value}\n" for name, value in config.items()))
        made = tokens(*at, "--create", "--max-life-time-period", "-1")
        row = made.splitlines()[-1]
        hmac = row.split()[1]
        shown = tokens(*at, "--describe")
        assert shown.splitlines()[:2] == [
            "Calling describe token operation for current user.",
            "Total number of tokens : 1",
        ]
        assert shown.splitlines()[-1] == row
        token = json.loads(tokens(*at, "--describe", "--json"))
        assert list(token) == list(TOKEN.fields)
        assert (token["hmac"], token["owner"], token["renewers"]) == (hmac, "User:alice", [])
        renew = ("--renew", "--renew-time-period", "-1", "--hmac", hmac, "--json")
        assert list(json.loads(tokens(*at, *renew))) == list(TOKEN_END.fields)
        gone = tokens(*at, "--expire", "--expiry-time-period", "-1", "--hmac", hmac)
        assert "Completed expire operation. New expiry date : " in gone
        again = tokens(*at, "--expire", "--expiry-time-period", "-1", "--hmac", hmac, code=1)
        assert again == (
            "org.apache.kafka.common.errors.DelegationTokenNotFoundException: "
            "Delegation Token is not found on server.\n"
        )

    async def with_broker() -> None:
        async with served(tmp_path, **{"delegation.token.secret.key": "key"}) as server:
            await asyncio.to_thread(story, server)

    with asyncio.Runner(loop_factory=MeasuredEventLoop) as runner:
        runner.run(with_broker())
