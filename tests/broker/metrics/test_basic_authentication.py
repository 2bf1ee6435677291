"""The page behind a password: right ones read it, wrong ones cost little, and the file may change."""

from __future__ import annotations

import asyncio
import base64
import logging
import os
from pathlib import Path
from typing import Any

import pytest

from kavka.broker.environment import OsEnvironment
from kavka.broker.metrics.basic_authentication import BasicAuthentication, Verdict
from kavka.metrics.passwords import hashed
from kavka.settings.declaration import InvalidSetting
from support.one_broker import Served

ALICE = f"alice:{hashed('secret', bytes(16))}\n"


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def get(*headers: str) -> bytes:
    return "\r\n".join(["GET /metrics HTTP/1.1", "Host: x", *headers, "", ""]).encode()


def users_file(directory: Path, text: str = ALICE) -> str:
    path = directory / "users"
    path.write_text(text)
    path.chmod(0o600)
    return str(path)


def write(path: str, text: str) -> None:
    Path(path).write_text(text)


class Clock:
    """A clock that stands still until it is moved."""

    now = 0

    def tick_ms(self) -> int:
        return self.now


def checked(path: str, story: Any) -> None:
    """Run a story on the check alone, with a clock that the story moves."""
    environment = OsEnvironment()
    clock: Any = Clock()

    async def main() -> None:
        check = BasicAuthentication(path, environment.disk, clock, environment.random)
        await check.start()
        await story(check, clock)

    asyncio.run(main())


def test_a_page_is_read_with_the_right_password_only(
    run: Any, scraper: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(served: Served) -> None:
        async def ask(*headers: str) -> tuple[int, dict[str, str], bytes]:
            one = await scraper.of(served.broker)
            response = await one.ask(get(*headers))
            one.close()
            return response

        status, headers, body = await ask()
        assert (status, body) == (401, b"")
        assert headers["www-authenticate"] == 'basic realm="kavka", charset="utf-8"'
        assert headers["connection"] == "close"
        assert (await ask(f"Authorization: {basic('alice', 'wrong')}"))[0] == 401
        assert (await ask("Authorization: Bearer x"))[0] == 401
        assert (await ask("Authorization: Basic !!!"))[0] == 401
        status, _headers, body = await ask(f"authorization: {basic('alice', 'secret')}")
        assert status == 200
        assert b"kafka_server_replicamanager_leadercount 0\n" in body
        one = await scraper.of(served.broker)
        asked = b"GET /other HTTP/1.1\r\nHost: x\r\n\r\n"
        assert (await one.ask(asked))[0] == 401  # what paths there are is not said either
        one.close()

    with caplog.at_level(logging.DEBUG):
        run(story, kavka__metrics__port="0", kavka__metrics__users__file=users_file(tmp_path))
    assert "wrong" not in caplog.text
    assert "secret" not in caplog.text
    assert "metrics refused peer=127.0.0.1 user='alice'" in caplog.text


def test_wrong_passwords_are_few_in_a_second_and_the_scraper_is_answered_all_the_same(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(check: BasicAuthentication, clock: Any) -> None:
        right = basic("alice", "secret")
        assert await check.check(right, "10.0.0.1") is Verdict.ALLOWED
        clock.now = 5000
        guesses = [await check.check(basic("alice", str(i)), "10.0.0.2") for i in range(20)]
        assert guesses == [Verdict.REFUSED] * 2 + [Verdict.TOO_MANY] * 18
        # Of other addresses some are checked, of all together five.
        others = [await check.check(basic("bob", "x"), f"10.0.1.{i}") for i in range(10)]
        assert others == [Verdict.REFUSED] * 3 + [Verdict.TOO_MANY] * 7
        assert await check.check(right, "10.0.0.3") is Verdict.ALLOWED
        clock.now = 6000
        assert await check.check(basic("alice", "y"), "10.0.0.2") is Verdict.REFUSED
        clock.now = 16_000
        assert await check.check(basic("alice", "y"), "10.0.0.2") is Verdict.REFUSED

    checked(users_file(tmp_path), story)
    said = [m for m in caplog.messages if "metrics refused" in m]
    assert [m.split()[2] for m in said] == [
        *["peer=10.0.0.2"] * 2,
        *[f"peer=10.0.1.{i}" for i in range(3)],
        *["peer=10.0.0.2"] * 2,
    ]


def test_wrong_passwords_of_one_address_are_logged_a_few_times_a_minute(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(check: BasicAuthentication, clock: Any) -> None:
        for second in range(8):
            clock.now = second * 1000
            assert await check.check(basic("alice", "x"), "10.0.0.2") is Verdict.REFUSED
        assert await check.check(basic("alice", "x"), "10.0.0.3") is Verdict.REFUSED

    checked(users_file(tmp_path), story)
    said = [m.split()[2] for m in caplog.messages if "metrics refused" in m]
    assert said == [*["peer=10.0.0.2"] * 5, "peer=10.0.0.3"]


def test_a_changed_file_holds_at_once_and_a_broken_one_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = users_file(tmp_path)

    async def story(check: BasicAuthentication, clock: Any) -> None:
        right = basic("alice", "secret")
        assert await check.check(right, "h") is Verdict.ALLOWED
        write(path, "alice:broken\n")
        for _ in range(2):
            assert await check.check(right, "h") is Verdict.ALLOWED
        write(path, f"bob:{hashed('other', bytes(16))}\n")
        clock.now = 2000
        assert await check.check(right, "h") is Verdict.REFUSED
        assert await check.check(basic("bob", "other"), "h") is Verdict.ALLOWED
        os.remove(path)
        assert await check.check(basic("bob", "other"), "h") is Verdict.ALLOWED

    checked(path, story)
    said = [m for m in caplog.messages if "users of metrics not read" in m]
    assert len(said) == 2
    assert "neither scrypt nor bcrypt" in said[0]


@pytest.mark.parametrize("text", [None, "", "alice:x"])
def test_a_broker_does_not_start_with_users_that_it_cannot_read(
    run: Any, tmp_path: Path, text: str | None
) -> None:
    path = str(tmp_path / "none") if text is None else users_file(tmp_path, text)

    async def story(served: Served) -> None:
        raise AssertionError("it started")

    with pytest.raises(InvalidSetting, match=r"kavka\.metrics\.users\.file") as refused:
        run(story, kavka__metrics__port="0", kavka__metrics__users__file=path)
    assert (text is None) == ("kavka metrics-users --file" in str(refused.value))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "metrics are readable by everyone on the network host=0.0.0.0"),
        ({"users": "1"}, "metrics passwords are readable on the network host=0.0.0.0"),
    ],
)
def test_an_open_port_is_warned_of(
    run: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture, settings: dict[str, str], said: str
) -> None:
    more = {"kavka__metrics__users__file": users_file(tmp_path)} if settings else {}

    async def story(served: Served) -> None:
        assert said in caplog.messages

    run(story, kavka__metrics__port="0", kavka__metrics__host="0.0.0.0", **more)


def test_a_file_that_everyone_can_read_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = users_file(tmp_path)
    os.chmod(path, 0o644)

    async def story(check: BasicAuthentication, clock: Any) -> None:
        assert f"password file readable by every user file={path}" in caplog.messages

    checked(path, story)
