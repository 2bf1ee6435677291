"""A real browser, Debian's Chromium driven by Playwright, and consoles that it can reach."""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from kavka.console.application import create_application
from kavka.console.options import ConsoleOptions
from kavka.console.server import address_of, listen
from kavka_compat.programs import install_node

NEEDS_CHROMIUM = pytest.mark.skipif(
    shutil.which("chromium") is None, reason="no chromium: apt install chromium"
)
AXE = Path(__file__).parent.parent / "console" / "axe"
STOPPED = ("htmx:afterRequest", "htmx:sendAbort")
"""htmx's messages about a request that the reader has stopped."""


def elsewhere(call: Callable[..., object], *arguments: object) -> None:
    """Call in another thread: Playwright's loop runs in this one."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(call, *arguments).result()


@contextmanager
def serving(options: ConsoleOptions) -> Iterator[str]:
    """Serve a console on a thread."""
    with listen("127.0.0.1", 0) as listening:
        config = uvicorn.Config(
            create_application(options), log_config=None, timeout_graceful_shutdown=1
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        try:
            yield address_of(listening)
        finally:
            server.should_exit = True
            thread.join()


@contextmanager
def run_chromium() -> Iterator[Any]:
    """Run the browser, without a window."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        yield browser
        browser.close()


@contextmanager
def opened(chromium: Any, expected: tuple[str, ...] = ("404",), **look: Any) -> Iterator[Any]:
    """Open a page whose errors, those of the Content-Security-Policy too, fail the test; not those `expected`."""
    context = chromium.new_context(**{"viewport": {"width": 1280, "height": 800}, **look})
    made = context.new_page()
    faults: list[str] = []
    made.on("pageerror", lambda error: faults.append(str(error)))
    made.on(
        "console",
        lambda message: (
            faults.append(message.text)
            if message.type == "error"
            and not any(text in message.text for text in expected)
            and not message.text.startswith(STOPPED)
            else None
        ),
    )
    yield made
    context.close()
    assert faults == [], faults


def axe_script() -> str:
    """Return the script of axe-core, which npm installs."""
    found = subprocess.run(
        install_node(AXE, "console-axe"), capture_output=True, text=True, check=True, timeout=60
    )
    return Path(found.stdout.strip()).read_text("utf-8")
