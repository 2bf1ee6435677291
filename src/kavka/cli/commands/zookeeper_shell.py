"""`kavka zookeeper-shell`: check the registry and change it, as `zookeeper-shell.sh` does.

Commands come from the words of the call, or line by line from standard input. Lines are read by a thread of its own,
so that the session stays alive and watches print while there is no input.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator

from kavka.cli.zookeeper.connection import TLS_OPTION, Connection, with_registry
from kavka.cli.zookeeper.shell_commands import USAGE, Shell, print_event
from kavka.registry.zookeeper import ZooKeeperRegistry

_PURPOSE = "USAGE: kavka zookeeper-shell zookeeper_host:port[/path] [args...]"
_CHUNK_BYTES = 1 << 16


def main(argv: list[str]) -> int:
    """Run the command; the exit code is that of the last command of the shell."""
    words = argv[1:] if argv[:1] == ["-server"] else argv
    if not words or words[0] in ("--help", "-h"):
        print(f"{_PURPOSE}\n{USAGE}", file=sys.stderr)
        return 1
    connect, *typed = words
    tls_file: str | None = None
    if typed[:1] == [f"-{TLS_OPTION}"]:
        if len(typed) < 2:
            print(f"-{TLS_OPTION}: the name of the file is missing", file=sys.stderr)
            return 1
        tls_file, typed = typed[1], typed[2:]
    print(f"Connecting to {connect}", flush=True)

    async def act(registry: ZooKeeperRegistry) -> int:
        registry.session_lost = lambda: print_event("Expired")
        runtime = Shell(registry)
        if typed:
            print_event("SyncConnected")
            return await runtime.run(typed)
        return await _converse(runtime, connect)

    return with_registry(Connection(connect, tls_file), act)


async def _converse(runtime: Shell, connect: str) -> int:
    is_terminal = sys.stdin.isatty()
    print(f"Welcome to ZooKeeper!\nJLine support is {'enabled' if is_terminal else 'disabled'}")
    print_event("SyncConnected")
    code = 0
    if is_terminal:
        _prompt(runtime, connect)
    async for line in _typed_lines():
        said = await runtime.run_line(line)
        if runtime.has_quit:
            print_event("Closed")
            break
        code = said
        sys.stdout.flush()
        if is_terminal:
            _prompt(runtime, connect)
    return code


def _prompt(runtime: Shell, connect: str) -> None:
    print(f"[zk: {connect}(CONNECTED) {runtime.count}] ", end="", flush=True)


async def _typed_lines() -> AsyncIterator[str]:
    chunks: asyncio.Queue[bytes] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    # A daemon: the process may end while it waits for input.
    threading.Thread(
        target=_read, args=(sys.stdin.fileno(), loop, chunks), name="typed", daemon=True
    ).start()
    rest = b""
    while chunk := await chunks.get():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line.decode(errors="replace")
    if rest:
        yield rest.decode(errors="replace")


def _read(file: int, loop: asyncio.AbstractEventLoop, chunks: asyncio.Queue[bytes]) -> None:
    """Pass on what comes, at the end an empty chunk. The buffered reader would keep its lock when the process ends."""
    while True:
        chunk = os.read(file, _CHUNK_BYTES)
        try:
            loop.call_soon_threadsafe(chunks.put_nowait, chunk)
        except RuntimeError:  # the loop has ended
            return
        if not chunk:
            return
