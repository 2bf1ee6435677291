"""SCRAM credentials in the registry: by whom they are changed, what is refused, and when they hold."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from kavka.broker.security.scram_credentials import ScramCredentials
from kavka.cli.main import main
from kavka.client.admin import Admin, ScramCredentialInfo, ScramDeletion, ScramUpsertion
from kavka.core.sasl.scram_credential import SHA_256, ScramCredential
from kavka.errors import AuthenticationFailed, ErrorCode, KafkaError
from kavka.net.event_loop import MeasuredEventLoop
from kavka.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsRequestScramCredentialDeletion,
    AlterUserScramCredentialsRequestScramCredentialUpsertion,
)
from kavka.wire.messages.metadata import MetadataRequest
from kavka.wire.stored import znodes
from support.sasl import Server, served
from support.waiting import until

Run = Callable[..., None]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    def run_story(
        story: Callable[[Server, Admin], Awaitable[None]], **settings: str | None
    ) -> None:
        async def with_broker() -> None:
            async with (
                served(tmp_path, **settings) as server,
                Admin(server.config("alice", "alice secret")) as admin,
            ):
                await story(server, admin)

        with asyncio.Runner(loop_factory=MeasuredEventLoop) as runner:
            runner.run(with_broker())

    return run_story


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_user_with_a_credential_is_authenticated_until_it_is_deleted(
    run: Run, mechanism: str
) -> None:
    async def story(server: Server, admin: Admin) -> None:
        user = "zoë=,<default>"
        upsertion = ScramUpsertion(user, mechanism, "pass word")
        assert await admin.alter_user_scram_credentials([upsertion]) == {user: None}
        assert await admin.describe_user_scram_credentials() == {
            user: [ScramCredentialInfo(mechanism, 8192)]
        }
        peer = await server.connect(user, "pass word", mechanism)
        assert (await peer.send(MetadataRequest(topics=[]), 9)).brokers
        with pytest.raises(AuthenticationFailed):
            await server.connect(user, "pass  word", mechanism)
        deletion = ScramDeletion(user, mechanism)
        assert await admin.alter_user_scram_credentials([deletion]) == {user: None}
        assert await admin.describe_user_scram_credentials() == {}
        with pytest.raises(AuthenticationFailed):
            await server.connect(user, "pass word", mechanism)
        # As in Apache Kafka, what is authenticated stays so until its session ends.
        assert (await peer.send(MetadataRequest(topics=[]), 9)).brokers
        peer.close()

    run(story)


def test_credentials_are_stored_as_apache_kafkas_and_beside_other_settings(run: Run) -> None:
    async def story(server: Server, admin: Admin) -> None:
        registry = server.broker.registry
        path = "/config/users/al%20ice"
        await registry.create(path, znodes.encode_config({"consumer_byte_rate": "1024"}))
        upsertion = ScramUpsertion("al ice", "SCRAM-SHA-256", "secret", iterations=4096)
        await admin.alter_user_scram_credentials([upsertion])
        stored = znodes.decode_config((await registry.get(path))[0])
        credential = ScramCredential.decode(stored["SCRAM-SHA-256"])
        expected = ScramCredential.of_password(SHA_256, credential.salt, "secret", 4096)
        assert stored == {
            "consumer_byte_rate": "1024",
            "SCRAM-SHA-256": expected.encode(),
        }
        await admin.alter_user_scram_credentials([ScramDeletion("al ice", "SCRAM-SHA-256")])
        stored = znodes.decode_config((await registry.get(path))[0])
        assert stored == {"consumer_byte_rate": "1024"}

    run(story)


def test_a_credential_that_another_broker_or_tool_stores_holds_at_once(run: Run) -> None:
    async def story(server: Server, admin: Admin) -> None:
        registry = server.broker.registry
        credential = ScramCredential.of_password(SHA_256, b"salt", "secret", 4096)
        await registry.create(
            "/config/users/bob", znodes.encode_config({"SCRAM-SHA-256": credential.encode()})
        )
        change = znodes.encode_config_change("users/bob")
        await registry.create(znodes.CONFIG_CHANGE, change, sequence=True)
        credentials = server.broker.security.sasl_sessions.credentials
        await until(lambda: credentials.of(SHA_256, "bob"))
        (await server.connect("bob", "secret", "SCRAM-SHA-256")).close()

    run(story)


def test_credentials_are_there_after_a_restart(tmp_path: Path) -> None:
    async def story() -> None:
        async with (
            served(tmp_path) as server,
            Admin(server.config("alice", "alice secret")) as admin,
        ):
            await admin.alter_user_scram_credentials(
                [ScramUpsertion("bob", "SCRAM-SHA-512", "secret")]
            )
        async with served(tmp_path) as server:
            (await server.connect("bob", "secret", "SCRAM-SHA-512")).close()

    with asyncio.Runner(loop_factory=MeasuredEventLoop) as runner:
        runner.run(story())


def upsertion(
    name: str, **changed: Any
) -> AlterUserScramCredentialsRequestScramCredentialUpsertion:
    fields: dict[str, Any] = {
        "mechanism": 1,
        "iterations": 4096,
        "salt": b"s",
        "salted_password": b"p" * 32,
    }
    return AlterUserScramCredentialsRequestScramCredentialUpsertion(
        name=name, **{**fields, **changed}
    )


@pytest.mark.parametrize(
    ("upsertions", "deletions", "refused"),
    [
        ([upsertion("")], [], ("", 93, "Username must not be empty")),
        ([], [("", 1)], ("", 93, "Username must not be empty")),
        (
            [upsertion("..")],
            [],
            ("..", 93, "The registry has no place for a user that is called . or .."),
        ),
        ([upsertion("u", mechanism=3)], [], ("u", 33, "Unknown SCRAM mechanism")),
        ([], [("u", 0)], ("u", 33, "Unknown SCRAM mechanism")),
        ([upsertion("u", iterations=4095)], [], ("u", 93, "Too few iterations")),
        ([upsertion("u", iterations=16385)], [], ("u", 93, "Too many iterations")),
        ([upsertion("u", salt=b"")], [], ("u", 93, "Empty salt")),
        (
            [upsertion("u", mechanism=2)],
            [],
            ("u", 93, "The salted password of SCRAM-SHA-512 has 64 bytes"),
        ),
        (
            [upsertion("u"), upsertion("u")],
            [],
            ("u", 92, "A user credential cannot be altered twice in the same request"),
        ),
        (
            [upsertion("u")],
            [("u", 1)],
            ("u", 92, "A user credential cannot be altered twice in the same request"),
        ),
        (
            [],
            [("u", 1)],
            ("u", 91, "Attempt to delete a user credential that does not exist"),
        ),
    ],
)
def test_changes_that_kafka_refuses_are_refused_alone(
    run: Run, upsertions: list[Any], deletions: list[tuple[str, int]], refused: tuple[str, int, str]
) -> None:
    async def story(server: Server, admin: Admin) -> None:
        peer = await server.connect("alice", "alice secret")
        request = AlterUserScramCredentialsRequest(
            deletions=[
                AlterUserScramCredentialsRequestScramCredentialDeletion(name=n, mechanism=m)
                for n, m in deletions
            ],
            upsertions=[*upsertions, upsertion("fine")],
        )
        response = await peer.send(request, 0)
        results = {r.user: (r.user, r.error_code, r.error_message) for r in response.results}
        assert results == {refused[0]: refused, "fine": ("fine", 0, None)}
        assert list(await admin.describe_user_scram_credentials()) == ["fine"]
        peer.close()

    run(story)


def test_users_without_a_credential_are_not_described(run: Run) -> None:
    async def story(server: Server, admin: Admin) -> None:
        for name in ("nobody", ".."):
            found = (await admin.describe_user_scram_credentials([name]))[name]
            assert isinstance(found, KafkaError)
            assert found.code is ErrorCode.RESOURCE_NOT_FOUND

    run(story)


def test_a_user_is_created_before_the_first_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = str(tmp_path / "data")
    user = ["configs", "--log-dir", directory, "--entity-type", "users", "--entity-name", "admin"]
    config = "SCRAM-SHA-256=[iterations=8192,password=first secret]"
    assert main([*user, "--alter", "--add-config", config]) == 0
    assert main([*user, "--describe"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "Completed updating config for entity: user-principal 'admin'.",
        "SCRAM credential configs for user-principal 'admin' are SCRAM-SHA-256=iterations=8192",
    ]

    async def story() -> None:
        async with served(tmp_path) as server:
            (await server.connect("admin", "first secret", "SCRAM-SHA-256")).close()
            assert await asyncio.to_thread(main, [*user, "--describe"]) == 1

    with asyncio.Runner(loop_factory=MeasuredEventLoop) as runner:
        runner.run(story())
    assert "is in use by a broker" in capsys.readouterr().err


def test_the_tool_creates_shows_and_deletes_credentials(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def story(server: Server) -> None:
        properties = tmp_path / "client.properties"
        config = server.config("alice", "alice secret")
        servers = config.pop("bootstrap.servers")
        properties.write_text("".join(f"{name}={value}\n" for name, value in config.items()))
        tool = ["configs", "--bootstrap-server", servers, "--command-config", str(properties)]
        users = [*tool, "--entity-type", "users"]
        bob = [*users, "--entity-name", "bob"]
        scram = "SCRAM-SHA-256=[password=s1],SCRAM-SHA-512=[iterations=8192,password=s,2]"
        assert main([*bob, "--alter", "--add-config", scram]) == 0
        assert main([*bob, "--describe"]) == 0
        assert main([*bob, "--alter", "--delete-config", "SCRAM-SHA-256"]) == 0
        assert main([*users, "--describe"]) == 0
        assert main([*bob, "--alter", "--delete-config", "SCRAM-SHA-256"]) == 1
        few = "SCRAM-SHA-256=[iterations=10,password=topsecret]"
        assert main([*bob, "--alter", "--add-config", few]) == 1
        many = "SCRAM-SHA-256=[iterations=20000,password=topsecret]"
        assert main([*bob, "--alter", "--add-config", many]) == 1
        properties.write_text(properties.read_text().replace("alice secret", "topsecret"))
        assert main([*bob, "--describe"]) == 1

    async def with_broker() -> None:
        async with served(tmp_path) as server:
            await asyncio.to_thread(story, server)
            (await server.connect("bob", "s,2", "SCRAM-SHA-512")).close()

    with asyncio.Runner(loop_factory=MeasuredEventLoop) as runner:
        runner.run(with_broker())
    printed = capsys.readouterr()
    assert printed.out.splitlines() == [
        "Completed updating config for user bob.",
        "SCRAM credential configs for user-principal 'bob' are "
        "SCRAM-SHA-256=iterations=4096, SCRAM-SHA-512=iterations=8192",
        "Completed updating config for user bob.",
        "SCRAM credential configs for user-principal 'bob' are SCRAM-SHA-512=iterations=8192",
    ]
    for sentence in (
        "Attempt to delete a user credential that does not exist",
        "Iterations 10 is less than the minimum 4096 required for SCRAM-SHA-256",
        "Too many iterations",
        "PLAIN: Authentication failed: Invalid username or password",
    ):
        assert sentence in printed.err
    assert "topsecret" not in printed.err


def test_what_others_write_among_the_notifications_does_not_hide_later_ones(run: Run) -> None:
    async def story(server: Server, admin: Admin) -> None:
        registry = server.broker.registry
        assert server.broker.security.sasl_sessions is not None
        credentials = server.broker.security.sasl_sessions.credentials
        credential = ScramCredential.of_password(SHA_256, b"salt", "pass word", 4096)
        config = znodes.encode_config({"SCRAM-SHA-256": credential.encode()})
        await registry.create(f"{znodes.CONFIG_CHANGES}/zzz", b"")
        for user in ("zoe", "zac"):
            await registry.create(f"/config/users/{user}", config)
            notice = znodes.encode_config_change(f"users/{user}")
            await registry.create(znodes.CONFIG_CHANGE, notice, sequence=True)
            await until(lambda user=user: credentials.of(SHA_256, user) is not None)  # type: ignore[misc]

    run(story)


def test_a_user_that_was_deleted_unseen_is_refused_in_another_session_of_the_registry(
    run: Run,
) -> None:
    async def story(server: Server, admin: Admin) -> None:
        upsertion = ScramUpsertion("zoe", "SCRAM-SHA-256", "pass word")
        assert await admin.alter_user_scram_credentials([upsertion]) == {"zoe": None}
        (await server.connect("zoe", "pass word", "SCRAM-SHA-256")).close()
        # Its notification came and went while the session was lost.
        await server.broker.registry.set("/config/users/zoe", znodes.encode_config({}))
        server.broker.config_changes.session_renewed()
        assert server.broker.security.sasl_sessions is not None
        credentials = server.broker.security.sasl_sessions.credentials
        await until(lambda: credentials.of(SHA_256, "zoe") is None)
        with pytest.raises(AuthenticationFailed):
            await server.connect("zoe", "pass word", "SCRAM-SHA-256")

    run(story)


def test_a_user_that_is_deleted_while_all_are_read_stays_deleted() -> None:
    class SlowRegistry:
        """Returns each user at once, and `aaron` when a test says so."""

        def __init__(self) -> None:
            self.answers = asyncio.Event()
            of_zoe = ScramCredential.of_password(SHA_256, b"salt", "pass word", 4096)
            self.of_zoe = {"SCRAM-SHA-256": of_zoe.encode()}

        async def children(self, path: str) -> list[str]:
            return ["aaron", "zoe"]

        async def get(self, path: str) -> tuple[bytes, None]:
            config = self.of_zoe if path.endswith("/zoe") else {}
            if path.endswith("/aaron"):
                await self.answers.wait()
            return znodes.encode_config(config), None

    async def story() -> None:
        registry: Any = SlowRegistry()
        credentials = ScramCredentials(b"")
        reading = asyncio.create_task(credentials.load(registry))
        for _ in range(3):
            await asyncio.sleep(0)
        registry.of_zoe = {}
        deleting = asyncio.create_task(credentials.entity_changed(registry, "users/zoe"))
        for _ in range(3):
            await asyncio.sleep(0)
        registry.answers.set()
        await asyncio.gather(reading, deleting)
        assert credentials.of(SHA_256, "zoe") is None

    asyncio.run(story())


def test_a_user_cannot_find_out_how_unknown_users_are_answered() -> None:
    """The user of the first name knows his server key; a change of another name changes the response all the same."""

    def imitated(password: str) -> ScramCredential:
        credentials = ScramCredentials(b"")
        credentials._users = {
            user: {"SCRAM-SHA-256": ScramCredential.of_password(SHA_256, b"salt", given, 4096)}
            for user, given in (("aaron", "known to aaron"), ("zoe", password))
        }
        credentials._refresh()
        return credentials.imitated(SHA_256, "mallory")

    assert imitated("one").salt != imitated("two").salt
    assert imitated("one") == imitated("one")
