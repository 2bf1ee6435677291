"""Tools whose credential is refused end with a sentence, and show no password."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kavka.cli.main import main
from kavka.net.event_loop import MeasuredEventLoop
from support.sasl import Server, served

TOOLS = [
    ["topics", "--command-config", "{file}", "--list"],
    ["console-producer", "--producer.config", "{file}", "--topic", "t"],
    ["console-consumer", "--consumer.config", "{file}", "--topic", "t"],
    ["consumer-groups", "--command-config", "{file}", "--list"],
    ["get-offsets", "--command-config", "{file}", "--topic", "t"],
    [
        *("consumer-perf-test", "--consumer.config", "{file}"),
        *("--topic", "t", "--messages", "1"),
    ],
]


def test_tools_say_that_their_credential_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "client.properties"

    def story(server: Server) -> None:
        config = server.config("alice", "topsecret")
        at = config.pop("bootstrap.servers")
        file.write_text("".join(f"{name}={value}\n" for name, value in config.items()))
        for tool, *options in TOOLS:
            given = [option.format(file=file) for option in options]
            assert main([tool, "--bootstrap-server", at, *given]) == 1, tool
            printed = capsys.readouterr().err
            assert "PLAIN: Authentication failed: Invalid username or password" in printed, tool
            assert "Traceback" not in printed
            assert "topsecret" not in printed

    async def with_broker() -> None:
        async with served(tmp_path) as server:
            await asyncio.to_thread(story, server)

    with asyncio.Runner(loop_factory=MeasuredEventLoop) as runner:
        runner.run(with_broker())
