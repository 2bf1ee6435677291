"""The console beside a lone broker (`kavka.console.port`): a child process, started again when it ends.

A thread keeps it, so that the broker's loop has nothing to do with it. After the child ended it is started again, after
0.5 s, then twice as long each time up to 30 s, from the beginning when it ran for a minute. Its standard input is a
pipe of which only the broker has the other end: it ends with the broker, also after kill -9.
"""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from importlib.util import find_spec
from typing import TYPE_CHECKING

from kavka.cli.arguments.client_properties import read_properties
from kavka.cli.arguments.options import BadValue
from kavka.cli.server.process import SUPERVISED

if TYPE_CHECKING:
    from kavka.broker.configs.endpoints import Endpoint

log = logging.getLogger(__name__)

_FIRST_PAUSE_S = 0.5
_MAX_PAUSE_S = 30.0
_HEALTHY_S = 60.0
_STOP_S = 5.0
MODULES = (
    "argon2",
    "authlib",
    "h11",
    "jinja2",
    "joserfc",
    "multipart",
    "requests",
    "starlette",
    "uvicorn",
    "yaml",
)
"""The modules that the extra `console` installs."""
_EVERY_ADDRESS = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}


class NoConsole(ValueError):
    """The console cannot be started; the sentence says what to do."""


def refusal_of_environment() -> str | None:
    """Return what has to be installed for the console, None where everything is."""
    missing = next((name for name in MODULES if find_spec(name) is None), None)
    if missing is None:
        return None
    return f"kavka.console.port needs {missing}, which is not installed: `pip install 'kavka[console]'`"


def missing_module(error: ModuleNotFoundError) -> str:
    """Return what has to be installed for a command of the console. Raise the error where that is not the reason."""
    if (error.name or "").partition(".")[0] not in MODULES:
        raise error
    return f"{error.name} is missing: install it with `pip install 'kavka[console]'`"


def console_words(port: str, config: str, endpoints: Iterable[Endpoint]) -> list[str]:
    """Return the command of the console, which asks the broker at its first listener with its client's protocol.

    `config` is the file with the settings of its client. Raise NoConsole when there is no such listener, or no such
    file.
    """
    protocol = _protocol_of(config)
    for endpoint in endpoints:
        if endpoint.protocol == protocol:
            host = _EVERY_ADDRESS.get(endpoint.host, endpoint.host)
            server = f"[{host}]:{endpoint.port}" if ":" in host else f"{host}:{endpoint.port}"
            words = ["console", "--bootstrap-server", server]
            words += ["--port", port.strip()]
            return [*words, "--command-config", config] if config else words
    if config:
        raise NoConsole(
            f"kavka.console.config: no listener is {protocol}, which is the security.protocol of {config}"
        )
    raise NoConsole(
        "kavka.console.port: no listener is PLAINTEXT, so the console needs a credential. Name a file with the "
        "settings of its client in kavka.console.config"
    )


def _protocol_of(config: str) -> str:
    try:
        settings = read_properties(config or None)
    except BadValue as error:
        raise NoConsole(f"kavka.console.config: {error}") from None
    return settings.get("security.protocol", "PLAINTEXT").strip().upper()


class ConsoleProcess:
    """The child process and the thread that keeps it."""

    def __init__(self, words: list[str]) -> None:
        """Start it with these words after `kavka`."""
        self._words = words
        self._lifeline, self._held = os.pipe()
        self._stopping = threading.Event()
        self._process: subprocess.Popen[str] | None = None
        self._thread = threading.Thread(target=self._keep, name="kavka-console", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the process, by force after five seconds. It blocks."""
        self._stopping.set()
        process = self._process
        if process is not None:
            process.terminate()
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
        self._thread.join(_STOP_S)
        with contextlib.suppress(OSError):
            os.close(self._held)
            os.close(self._lifeline)

    def _keep(self) -> None:
        pause_s = _FIRST_PAUSE_S
        while not self._stopping.is_set():
            began = time.monotonic()
            how = self._run_once()
            if self._stopping.is_set():
                return
            if time.monotonic() - began >= _HEALTHY_S:
                pause_s = _FIRST_PAUSE_S
            log.warning("console ended %s restart_s=%.1f", how, pause_s)
            self._stopping.wait(pause_s)
            pause_s = min(2 * pause_s, _MAX_PAUSE_S)

    def _run_once(self) -> str:
        """Run one process to its end, and return how that was."""
        try:
            process = subprocess.Popen(
                [sys.executable, "-m", "kavka", *self._words],
                stdin=self._lifeline,
                stdout=subprocess.PIPE,
                env={**os.environ, SUPERVISED: "console"},
                text=True,
                start_new_session=True,
            )
        except OSError as error:  # no memory or no process to be had
            return f"reason={error}"
        self._process = process
        with process:
            if self._stopping.is_set():  # stopped while it was started
                process.terminate()
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith("kavka console: "):
                    log.info("console ready address=%s pid=%d", line.split()[2], process.pid)
            return f"code={process.wait()}"
