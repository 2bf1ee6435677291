"""`kavka console`: pages of a cluster in a browser."""

from __future__ import annotations

import logging
import os
import sys

from kavka.cli.arguments.client_properties import read_properties, servers
from kavka.cli.arguments.options import BadValue, Given, Option, OptionSet
from kavka.cli.server.process import SUPERVISED, end_with_standard_input
from kavka.client.config import CONSUMER
from kavka.client.setting_names import effective_settings
from kavka.settings.declaration import InvalidSetting
from kavka.termination import termination_as_interrupt

_MODULES = ("jinja2", "starlette", "uvicorn")

OPTIONS = OptionSet(
    "Serve pages that show a cluster and act on it, and the same answers as a JSON API. There is no login yet, so "
    "the console listens on this machine's loopback only.",
    Option("port", "The port to listen on (default: 8080; 0: any that is free).", "port"),
    Option("host", "The loopback address to listen on (default: 127.0.0.1).", "address"),
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
)


def main(argv: list[str]) -> int:
    """Run the command: 130 after Ctrl-C and SIGTERM, 1 when it cannot start."""
    return OPTIONS.run(argv, _act)


def _act(given: Given) -> int:
    try:
        with termination_as_interrupt():
            return _serve(given)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _MODULES:
            raise
        return _failed(f"{error.name} is missing: install it with `pip install 'kavka[console]'`")
    except (InvalidSetting, ValueError) as error:
        return _failed(str(error))
    except OSError as error:
        return _failed(f"cannot listen: {error.strerror or error}. Choose another --port.")


def _serve(given: Given) -> int:
    from kavka.console.options import DEFAULT_HOST, DEFAULT_PORT, ConsoleOptions
    from kavka.console.server import address_of, listen, serve

    port, timeout_ms = given.integer("port"), given.integer("timeout")
    settings = effective_settings(CONSUMER, read_properties(given.one("command-config")))
    options = ConsoleOptions(
        servers(given),
        settings,
        registry=_registry_settings(given),
        timeout_ms=8000 if timeout_ms is None else timeout_ms,
    )
    port = DEFAULT_PORT if port is None else port
    if not 0 <= port < 65536:
        raise BadValue(f"--port {port} is no port")
    if options.timeout_ms <= 0:
        raise BadValue(f"--timeout {options.timeout_ms} is no time")
    _log_to_standard_error()
    if SUPERVISED in os.environ:
        end_with_standard_input()
    with listen(given.one("host") or DEFAULT_HOST, port) as listening:
        print(
            f"kavka console: {address_of(listening)} shows the cluster at {options.bootstrap_servers}. "
            "Ctrl-C ends it.",
            flush=True,
        )
        serve(options, listening)
    return 130


def _registry_settings(given: Given) -> dict[str, str]:
    """Return the settings of the registry, none without one. Raise BadValue."""
    url, file = given.one("schema-registry"), given.one("schema-registry-config")
    if url is None:
        if file is not None:
            raise BadValue("--schema-registry-config goes with --schema-registry")
        return {}
    return {**read_properties(file), "url": url}


def _log_to_standard_error() -> None:
    """Log changes, failed pages, and warnings of everything else."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logger = logging.getLogger("kavka")
    logger.handlers[:] = [handler]
    logger.propagate = False
    logger.setLevel(logging.WARNING)
    logging.getLogger("kavka.console.application").setLevel(logging.INFO)


def _failed(sentence: str) -> int:
    print(f"kavka console: {sentence}", file=sys.stderr)
    return 1
