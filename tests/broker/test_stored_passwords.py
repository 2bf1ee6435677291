"""Passwords among dynamic settings: encrypted in the registry, in force while a broker runs and from its next start."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kavka.cli.main import main
from kavka.errors import ErrorCode
from kavka.net.event_loop import MeasuredEventLoop
from kavka.settings.declaration import InvalidSetting
from kavka.wire.stored import znodes
from support.config_requests import BROKER, DELETE, SET, altered, described
from support.one_broker import Run, Served, serve
from support.sasl import PLAIN_USERS, served
from support.tls import TlsFiles

SECRET = {"password__encoder__secret": "a secret", "password__encoder__iterations": "1024"}
KEY = "listener.name.ssl.ssl.key.password"
STORE = "listener.name.ssl.ssl.keystore.location"
USERS = "listener.name.clients.plain.sasl.jaas.config"


async def change(served: Served, *settings: tuple[str, int, str | None]) -> str:
    """Change settings of broker 0, and return why not."""
    (response,) = await altered(served, (BROKER, "0", list(settings)))
    assert response.error_code in (0, ErrorCode.INVALID_REQUEST)
    return response.error_message or ""


async def stored(served: Served) -> dict[str, str]:
    data, _stat = await served.broker.registry.get(znodes.config_path("brokers", "0"))
    return znodes.decode_config(data)


def in_directory(directory: Path, *command: str) -> int:
    entity = ("configs", "--log-dir", str(directory), "--entity-type", "brokers")
    return main([*entity, "--entity-name", "0", *command])


def run_tls(files: TlsFiles, story: Callable[[Served], Any], **settings: str) -> None:
    texts = files.broker_settings(broker__id="0", **settings)
    with asyncio.Runner(loop_factory=MeasuredEventLoop) as runner:
        runner.run(serve(files.directory / "data", story, files.security(), **texts))


def test_a_key_password_is_set_while_the_broker_runs_and_holds_after_a_restart(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = TlsFiles(tmp_path)
    sealed = files.authority.sign("broker").write_pem(tmp_path / "sealed.pem", "topsecret")

    async def subject(served: Served) -> str:
        (connection,) = served.broker.dispatcher.connections
        context = served.broker.security.tls._listeners["SSL"].reloadable
        assert connection.is_open
        return str(context.settings.key_store.location)

    async def set_it(served: Served) -> None:
        assert "password" in await change(served, (STORE, SET, sealed), (KEY, SET, "wrong"))
        assert await change(served, (STORE, SET, sealed), (KEY, SET, "topsecret")) == ""
        assert await subject(served) == sealed
        before = await stored(served)
        assert "topsecret" not in str(before)
        assert await change(served, ("listener.name.ssl.max.connections", SET, "99")) == ""
        assert (await stored(served))[KEY] == before[KEY]
        rows = {row.name: row for row in (await described(served, BROKER, "0")).configs}
        assert (rows[KEY].value, rows[KEY].is_sensitive) == (None, True)

    async def see_it(served: Served) -> None:
        assert await subject(served) == sealed

    run_tls(files, set_it, **SECRET)
    run_tls(files, see_it, **SECRET)
    assert "topsecret" not in caplog.text


def test_a_password_of_another_secret_is_kept_without_effect(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(served: Served) -> None:
        name = "listener.name.other.ssl.keystore.password"
        texts = {name: "keyLength:128,salt:AAAA", "num.io.threads": "3"}
        data = znodes.encode_config(texts)
        await served.broker.registry.create(znodes.config_path("brokers", "0"), data)
        served.broker.dynamic_configs.broker_configured(texts, default=False)
        assert f"stored password ignored name={name}" in caplog.text
        assert "salt" not in caplog.text
        assert await change(served, ("num.io.threads", SET, "4")) == ""
        assert await stored(served) == {**texts, "num.io.threads": "4"}
        assert await change(served, (name, DELETE, None)) == ""
        assert name not in await stored(served)

    run(story, broker__id="0", **SECRET)


def test_passwords_of_the_old_secret_are_encrypted_with_the_new_one_at_the_start(
    run: Run,
) -> None:
    name = "listener.name.other.ssl.keystore.password"
    texts: list[str] = []

    async def set_it(served: Served) -> None:
        assert await change(served, (name, SET, "topsecret")) == ""
        texts.append((await stored(served))[name])

    async def see_it(served: Served) -> None:
        assert served.broker.context.effective_configs.broker_overrides(default=False) == {
            name: "topsecret"
        }
        texts.append((await stored(served))[name])

    run(set_it, broker__id="0", **SECRET)
    new = {**SECRET, "password__encoder__secret": "a new secret"}
    run(see_it, broker__id="0", password__encoder__old__secret="a secret", **new)
    run(see_it, broker__id="0", **new)
    assert texts[0] != texts[1] == texts[2]


def test_stored_passwords_that_did_not_change_are_not_applied_again(run: Run) -> None:
    name = "listener.name.other.ssl.keystore.password"
    applied: list[None] = []

    async def story(served: Served) -> None:
        assert await change(served, (name, SET, "topsecret")) == ""
        served.broker.context.effective_configs.on_broker_change.append(
            lambda: applied.append(None)
        )
        await served.broker.dynamic_configs.reload()
        assert applied == []
        assert await change(served, (name, SET, "another")) == ""
        assert applied != []

    run(story, broker__id="0", **SECRET)


def test_settings_of_sasl_are_those_of_the_start(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(served: Served) -> None:
        warning = "setting kept without effect while the broker runs name="
        for name in ("plain.sasl.jaas.config", "sasl.enabled.mechanisms"):
            assert await change(served, (f"listener.name.plaintext.{name}", SET, "topsecret")) == ""
            assert f"{warning}listener.name.plaintext.{name}" in caplog.text
        assert await change(served, ("sasl.jaas.config", SET, "topsecret")) == ""
        assert f"{warning}sasl.jaas.config" in caplog.text
        caplog.clear()
        assert await change(served, ("listener.name.plaintext.max.connections", SET, "99")) == ""
        assert caplog.text == ""
        reauth = "listener.name.next.scram-sha-256.connections.max.reauth.ms"
        assert "Not a number of type LONG" in await change(served, (reauth, SET, "x"))
        assert "Cannot update" in await change(served, ("connections.max.reauth.ms", SET, "1"))

    run(story, broker__id="0", **SECRET)
    assert "topsecret" not in caplog.text


def test_users_are_stored_before_the_start_and_complete_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "data"
    file = tmp_path / "users.properties"
    file.write_text(f"{USERS}={PLAIN_USERS}\npassword.encoder.secret=a secret\n")
    settings = {
        "broker.id": "0",
        USERS: None,
        "sasl.enabled.mechanisms": "PLAIN",
        "password.encoder.secret": "a secret",
    }

    async def login() -> None:
        async with served(tmp_path, **settings) as server:
            (await server.connect("alice", "alice secret")).close()

    with asyncio.Runner(loop_factory=MeasuredEventLoop) as runner:
        with pytest.raises(InvalidSetting, match="PLAIN has no users"):
            runner.run(login())
        assert in_directory(directory, "--alter", "--add-config", f"{USERS}=[{PLAIN_USERS}]") == 1
        assert in_directory(directory, "--alter", "--add-config-file", str(file)) == 0
        assert in_directory(directory, "--describe") == 0
        runner.run(login())
    printed = capsys.readouterr()
    assert printed.out.splitlines() == [
        "Completed updating config for entity: brokers '0'.",
        f"Configs for brokers '0' are {USERS}=[hidden]",
    ]
    assert "password.encoder.secret must be specified to update" in printed.err
    assert "alice secret" not in printed.err


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (("--delete-config", "num.io.threads"), "Invalid config(s): num.io.threads"),
        (("--add-config", "log.dirs=/x"), "Cannot update these configs dynamically"),
        (("--add-config", "ssl.keystore.password=topsecret"), "by its prefix"),
        (
            (
                "--add-config",
                f"{KEY}=topsecret,password.encoder.secret=x,password.encoder.key.length=64",
            ),
            "Expected one of 128, 192, 256",
        ),
    ],
)
def test_what_cannot_be_stored_without_a_broker_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: tuple[str, str], reason: str
) -> None:
    assert in_directory(tmp_path / "data", "--alter", *command) == 1
    printed = capsys.readouterr()
    assert reason in printed.err
    assert "topsecret" not in printed.out + printed.err


def test_a_running_broker_is_asked_itself(run: Run) -> None:
    from kavka.cli.admin.offline_configs import alter_broker
    from kavka.cli.arguments.options import BadValue

    async def story(served: Served) -> None:
        for name in ("0", ""):
            with pytest.raises(BadValue, match="running"):
                await alter_broker(name, {"num.io.threads": "3"}, [])(served.broker.registry)
        assert await alter_broker("1", {"num.io.threads": "3"}, [])(served.broker.registry) == 0

    run(story, broker__id="0")
