"""`kavka zookeeper-server-start [-daemon] [zookeeper.properties] [--override name=value]...`: a registry on a port."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time

from kavka.cli.server.process import (
    UsageError,
    keep_out_of_core_dumps,
    listen_for_signals,
    log_to_stderr,
    raise_descriptor_limit,
    read_settings,
    start_daemon,
    start_unless_stopped,
    wait_for_stop,
)
from kavka.settings.declaration import InvalidSetting

log = logging.getLogger("kavka")

_USAGE = """usage: kavka zookeeper-server-start [-daemon] [zookeeper.properties] [--override property=value]...

Serves a registry in ZooKeeper's protocol, for clusters in development: one process, no ensemble.
Without a file it serves 127.0.0.1:2181 and keeps its data in /tmp/zookeeper.
A clientPort of 0 takes a free one; the line printed on standard output names it.

-daemon  serves in the background. The log is zookeeper.log and standard error zookeeper.out, in the directory LOG_DIR,
         by default logs in the current directory; KAVKA_LOG_FILE names another file for the log."""
_WITHOUT_FILE = {"clientPortAddress": "127.0.0.1", "maxClientCnxns": "0"}


def main(arguments: list[str]) -> int:
    """Serve until SIGTERM or SIGINT; 0 after a clean stop, 1 when it could not start or had to end."""
    started = time.monotonic()
    if any(word in ("-h", "--help") for word in arguments):
        print(_USAGE)
        return 0
    try:
        settings, is_daemon = read_settings(arguments, _USAGE)
    except UsageError as error:
        print(f"kavka zookeeper-server-start: {error}", file=sys.stderr)
        return 1
    if is_daemon:
        names = ("zookeeper.log", "zookeeper.out")
        return start_daemon("zookeeper-server-start", arguments, names)
    keep_out_of_core_dumps()
    raise_descriptor_limit()
    log_to_stderr(settings.pop("kavka.log.level", "INFO"), os.environ.get("KAVKA_LOG_FILE"))
    if all(word.startswith("-") or "=" in word for word in arguments):
        settings = {**_WITHOUT_FILE, **settings}
    return asyncio.run(_serve(settings, started))


async def _serve(settings: dict[str, str], started: float) -> int:
    from kavka.broker.environment import OsEnvironment
    from kavka.registry.journal import CorruptRegistry
    from kavka.registry.registry_server import DataDirectory, RegistryServer
    from kavka.registry.registry_server_config import RegistryServerConfig

    stop_event = listen_for_signals()
    environment = OsEnvironment()
    try:
        config = RegistryServerConfig.parse(with_jaas_file(settings))
        directory = await start_unless_stopped(
            stop_event, DataDirectory.open(environment, config.data_directory)
        )
        if directory is None:
            return 0
    except BlockingIOError as error:
        return _failed(f"another process uses the dataDir of {error.filename}")
    except (InvalidSetting, CorruptRegistry, OSError) as error:
        return _failed(str(error))
    server = RegistryServer(directory.znode_server, config, environment.network)
    failed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    directory.znode_server.on_failure = lambda error: failed.set_result(
        f"the journal in {config.data_directory} cannot be written: {error}"
    )
    try:
        await server.start()
    except InvalidSetting as error:
        await server.stop()
        await directory.close()
        return _failed(str(error))
    except OSError as error:
        await directory.close()
        return _failed(f"{error.strerror}: {error.filename}")
    took = time.monotonic() - started
    host = config.host if config.port >= 0 else config.secure_host
    shown = f"{host or '0.0.0.0'}:{server.port}"
    print(f"kavka zookeeper ready: {shown} in {took:.2f} s", flush=True)
    reason = await wait_for_stop(stop_event, failed)
    if reason is not None:
        log.error("registry stopped reason=%s", reason)
        _failed(reason)
    await server.stop()
    await directory.close()
    return 0 if reason is None else 1


def with_jaas_file(settings: dict[str, str]) -> dict[str, str]:
    """Return the settings with the JAAS file that the environment names, unless they have one."""
    from kavka.registry.jaas_files import FILE, SERVER_SECTION, java_properties

    given = java_properties(os.environ.get("KAFKA_OPTS"), os.environ.get("SERVER_JVMFLAGS"))
    named = {"kavka.jaas.file": given.get(FILE), "kavka.jaas.section": given.get(SERVER_SECTION)}
    return {**{name: text for name, text in named.items() if text}, **settings}


def _failed(reason: str) -> int:
    print(f"kavka zookeeper-server-start: {reason}", file=sys.stderr)
    return 1
