"""`kavka console`: pages of a cluster in a browser, its history and alerts; `kavka console check-rules`."""

from __future__ import annotations

import logging
import os
import re
import ssl
import sys
from collections.abc import Sized
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kavka.cli.arguments.client_properties import read_properties, servers
from kavka.cli.arguments.options import BadValue, Given, Option, OptionSet
from kavka.cli.server.console_process import missing_module
from kavka.cli.server.process import SUPERVISED, OneLine, end_with_standard_input
from kavka.client.config import CONSUMER
from kavka.client.setting_names import effective_settings
from kavka.settings.declaration import InvalidSetting
from kavka.termination import termination_as_interrupt

if TYPE_CHECKING:
    from kavka.console.access.config import Access
    from kavka.console.access.exposure import Exposure

_CHECK_RULES = "check-rules"
_IN_MEMORY = "none"

OPTIONS = OptionSet(
    "Serve pages that show a cluster and act on it, and the same answers as a JSON API. It listens on this machine's "
    "loopback; for others it needs a login and TLS, of its own or of a reverse proxy. "
    "`kavka console check-rules FILE` checks a file of rules.",
    Option("port", "The port to listen on (default: 8080; 0: any that is free).", "port"),
    Option("host", "The address to listen on (default: 127.0.0.1).", "address"),
    Option("access", "The file with logins, roles and masks, in TOML.", "file"),
    Option("read-only", "Refuse every change, whatever roles say."),
    Option(
        "tls-certificate",
        "Serve HTTPS with this certificate and those that signed it, PEM.",
        "file",
    ),
    Option("tls-key", "The certificate's key, PEM; by default in the same file.", "file"),
    Option(
        "proxy",
        "The address or network of a reverse proxy that ends TLS; may be given again.",
        "address",
    ),
    Option("public-url", "The address in browsers, such as https://console.example.org.", "url"),
    Option(
        "schema-registry",
        "The schema registry of values that Confluent's serializers wrote: http://host:8081.",
        "url",
    ),
    Option(
        "schema-registry-config",
        "A properties file with its settings: basic.auth.user.info, ssl.ca.location and the like.",
        "file",
    ),
    Option("timeout", "How long a page may wait for the cluster (default: 8000).", "ms"),
    Option(
        "history",
        "The file of the history and the alerts, or none to keep them in memory (default: one for each "
        "--bootstrap-server in ~/.local/state/kavka).",
        "file",
    ),
    Option("rules", "A YAML file with rules of alerts, and where alerts are sent.", "file"),
)


def main(argv: list[str]) -> int:
    """Run the command: 130 after Ctrl-C and SIGTERM, 1 when it cannot start."""
    if argv[:1] == [_CHECK_RULES]:
        return _check_rules(argv[1:])
    return OPTIONS.run(argv, _act)


def _act(given: Given) -> int:
    try:
        with termination_as_interrupt():
            return _serve(given)
    except ModuleNotFoundError as error:
        return _failed(missing_module(error))
    except (InvalidSetting, ValueError) as error:
        return _failed(str(error))
    except OSError as error:
        return _failed(f"cannot listen: {error.strerror or error}. Choose another --port.")


def _serve(given: Given) -> int:
    from kavka.console.access.exposure import DEFAULT_HOST, DEFAULT_PORT
    from kavka.console.alerts.service import InvalidRules
    from kavka.console.history.file import HistoryError
    from kavka.console.options import ConsoleOptions
    from kavka.console.server import address_of, listen, serve

    port, timeout_ms = given.integer("port"), given.integer("timeout")
    settings = effective_settings(CONSUMER, read_properties(given.one("command-config")))
    rules = given.one("rules")
    options = ConsoleOptions(
        servers(given),
        settings,
        registry=_registry_settings(given),
        timeout_ms=8000 if timeout_ms is None else timeout_ms,
        access=_access(given),
        exposure=_exposure(given),
        history=_history(given.one("history"), servers(given)),
        rules=None if rules is None else Path(rules),
    )
    port = DEFAULT_PORT if port is None else port
    if not 0 <= port < 65536:
        raise BadValue(f"--port {port} is no port")
    if options.timeout_ms <= 0:
        raise BadValue(f"--timeout {options.timeout_ms} is no time")
    _log_to_standard_error()
    if SUPERVISED in os.environ:
        end_with_standard_input()
    with listen(given.one("host") or DEFAULT_HOST, port, options) as listening:
        print(
            f"kavka console: {address_of(listening, options)} shows the cluster at {options.bootstrap_servers}. "
            "Ctrl-C ends it.",
            flush=True,
        )
        try:
            serve(options, listening)
        except (HistoryError, InvalidRules) as error:
            return _failed(str(error))
    return 130


def _access(given: Given) -> Access:
    from kavka.console.access.config import Access, read_access

    path = given.one("access")
    access = read_access(path) if path is not None else Access()
    return replace(access, read_only=True) if given.has("read-only") else access


def _exposure(given: Given) -> Exposure:
    from kavka.console.access.exposure import Exposure

    certificate, key = given.one("tls-certificate") or "", given.one("tls-key") or ""
    if certificate:
        _check_certificate(certificate, key)
    return Exposure(certificate, key, tuple(given.all("proxy")), given.one("public-url") or "")


def _check_certificate(certificate: str, key: str) -> None:
    """Say what is wrong with the files before anything listens. Raise ValueError."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(
            certificate, key or None, password=""
        )
    except OSError as error:  # ssl.SSLError is one
        raise ValueError(
            f"--tls-certificate {certificate}: {error.strerror or error}; it needs a certificate and its key in PEM, "
            "without a password"
        ) from error


def _history(given: str | None, bootstrap_servers: str) -> Path | None:
    """Return the file of the history, None for one in memory."""
    if given == _IN_MEMORY:
        return None
    if given is not None:
        return Path(given)
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    name = re.sub("[^A-Za-z0-9.-]+", "_", bootstrap_servers)[:150]
    return Path(state).expanduser() / "kavka" / f"console-{name}.sqlite"


def _check_rules(words: list[str]) -> int:
    """Print the mistakes of files of rules, each with its line: 1 when there are any."""
    if not words or any(word.startswith("-") for word in words):
        print("usage: kavka console check-rules FILE...", file=sys.stderr)
        return 1
    try:
        found = [_mistakes(word) for word in words]
    except ModuleNotFoundError as error:
        return _failed(missing_module(error))
    return 1 if any(found) else 0


def _mistakes(name: str) -> bool:
    """Print what is wrong with a file, or what it has; return whether it has mistakes."""
    from kavka.console.alerts.rules import load

    try:
        rules, problems, _ = load(Path(name))
    except OSError as error:
        print(f"{name}:1: cannot be read: {error.strerror or error}", file=sys.stderr)
        return True
    for problem in problems:
        print(f"{name}:{problem.line}: {problem.sentence}", file=sys.stderr)
    if not problems:
        print(
            f"{name}: {_counted(rules.rules, 'rule')}, {_counted(rules.channels, 'channel')}, "
            f"{_counted(rules.windows, 'maintenance window')}"
        )
    return bool(problems)


def _counted(things: Sized, noun: str) -> str:
    return f"{len(things)} {noun}{'' if len(things) == 1 else 's'}"


def _registry_settings(given: Given) -> dict[str, str]:
    """Return the settings of the registry, none without one. Raise BadValue."""
    url, file = given.one("schema-registry"), given.one("schema-registry-config")
    if url is None:
        if file is not None:
            raise BadValue("--schema-registry-config goes with --schema-registry")
        return {}
    return {**read_properties(file), "url": url}


def _log_to_standard_error() -> None:
    """Log the audit as lines of JSON, failed pages, and warnings of everything else."""
    handler = logging.StreamHandler()
    handler.setFormatter(OneLine("%(asctime)s %(levelname)s %(message)s"))
    logger = logging.getLogger("kavka")
    logger.handlers[:] = [handler]
    logger.propagate = False
    logger.setLevel(logging.WARNING)
    lines = logging.StreamHandler()
    lines.setFormatter(logging.Formatter("%(message)s"))
    audit = logging.getLogger("kavka.console.access.audit")
    audit.handlers[:] = [lines]
    audit.propagate = False
    audit.setLevel(logging.INFO)
    # Its warnings are lines without a time that anyone causes by sending no HTTP.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)


def _failed(sentence: str) -> int:
    print(f"kavka console: {sentence}", file=sys.stderr)
    return 1
