"""Every code block of README and docs/ is run, here or by the test that its comment names, or says why not.

The line above a block may be one of these comments:

    <!-- not run: REASON -->           it is not run
    <!-- run by tests/PATH -->         another test runs it, or does the same
    <!-- output -->                    what the block before it prints
    <!-- pytest -->                    it is a test module

All other blocks of Python and of shell are run in order, each page beside a broker and in its own directory. A page
with `<!-- broker: NAME=VALUE ... -->` has a broker with these settings; `{page}` in a value is the page's directory.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kavka_compat.ours import run_kavka
from support.code_blocks import DATA, PROGRAMS, ROOT, Block, blocks

PAGES = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
)

ALL = [block for page in PAGES for block in blocks(page)]
RUN = {page: [b for b in ALL if b.page == page] for page in PAGES}
RUN = {page: found for page, found in RUN.items() if any(b.is_run_here for b in found)}
"""The pages with blocks that this module runs."""


@pytest.mark.parametrize("block", ALL, ids=lambda block: block.name)
def test_a_block_is_run_or_says_why_not(block: Block) -> None:
    assert block.language in PROGRAMS + DATA, "name the language of the block"
    kind, _, rest = block.comment.partition(":")
    if kind == "not run":
        assert len(rest.split()) >= 2, "say why"
    elif block.comment.startswith("run by "):
        assert (ROOT / block.comment.removeprefix("run by ")).is_file(), block.comment
    else:
        assert block.comment in ("", "output", "pytest"), block.comment
        assert block.language in DATA or block.is_run_here, "run it, or say why not"


_END = "\x1e"
_PROGRAM = f"""
import runpy, sys
for line in sys.stdin:
    runpy.run_path(line.strip(), run_name="__main__")
    print({_END!r}, flush=True)
"""
"""Runs files one after the other, so that a page starts one JVM and not one for each block."""


class Page:
    """Runs blocks in one directory, beside one broker, those of Python in one process."""

    def __init__(self, directory: Path, bootstrap: str) -> None:
        """Take a directory for the files of the blocks."""
        self._directory = directory
        self._bootstrap = bootstrap
        self._environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYSPARK_PYTHON": sys.executable,
            "B": f"--bootstrap-server {bootstrap}",
        }

    def __enter__(self) -> Page:
        self._errors = (self._directory / "errors").open("w+", encoding="utf-8")
        self._python = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM],
            cwd=self._directory,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._python.kill()
        self._python.communicate()
        self._errors.close()

    def run(self, block: Block) -> str:
        """Run a block to its end, and return what it prints."""
        text = re.sub(r"(localhost|127\.0\.0\.1):9092", self._bootstrap, block.text)
        if block.language == "sh":
            return self._execute(block, ["bash", "-euo", "pipefail", "-c", text])
        return self._run_python(block, self._write(block, text))

    def _write(self, block: Block, text: str) -> Path:
        file = self._directory / f"test_line_{block.line}.py"
        file.write_text(text, encoding="utf-8")
        return file

    def test(self, found: list[Block]) -> None:
        """Run the blocks that are test modules, in one process of pytest."""
        alone = ["-q", "-p", "no:cacheprovider", "-p", "kavka.testing.plugin", "-c", os.devnull]
        files = [str(self._write(block, block.text)) for block in found]
        self._execute(found[0], [sys.executable, "-m", "pytest", *alone, *files])

    def _run_python(self, block: Block, file: Path) -> str:
        assert self._python.stdin is not None
        assert self._python.stdout is not None
        self._python.stdin.write(f"{file}\n")
        self._python.stdin.flush()
        printed = ""
        for line in self._python.stdout:
            if line == f"{_END}\n":
                return printed
            printed += line
        raise AssertionError(f"{block.name}\n{printed}\n{Path(self._errors.name).read_text()}")

    def _execute(self, block: Block, command: list[str]) -> str:
        done = subprocess.run(
            command,
            cwd=self._directory,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
        assert done.returncode == 0, f"{block.name}\n{done.stdout}\n{done.stderr}"
        return done.stdout


_LONG = {"docs/how-to/lake.md"}
"""Pages whose steps the tutorial of the lake, `tests/lake` and `tests/spark/test_lake.py` take in `make test`."""


def _pages() -> Iterator[object]:
    for page, found in RUN.items():
        needs_spark = any(
            "pyspark" in block.text or "kavka pipelines" in block.text for block in found
        )
        name = str(page.relative_to(ROOT))
        marks = [pytest.mark.spark] if needs_spark else [pytest.mark.compat]
        marks += [pytest.mark.long] if name in _LONG else []
        yield pytest.param(page, id=name, marks=marks)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", list(_pages()))
def test_the_blocks_of_a_page_run(page: Path, tmp_path: Path) -> None:
    settings = broker_settings(page, tmp_path)
    with (
        run_kavka(tmp_path / "broker", settings) as broker,
        Page(tmp_path, broker.bootstrap) as runner,
    ):
        run_page(page, runner)


def broker_settings(page: Path, directory: Path) -> dict[str, str]:
    """Return the settings that a page asks for, if it does."""
    found = re.search(r"^<!-- broker: (.*) -->$", page.read_text(encoding="utf-8"), re.MULTILINE)
    words = found[1].replace("{page}", str(directory)).split() if found else []
    return dict(word.split("=", 1) for word in words)


def run_page(page: Path, runner: Page) -> None:
    """Run the blocks of a page and compare what they print."""
    printed = ""
    tests = [block for block in RUN[page] if block.comment == "pytest"]
    if tests:
        runner.test(tests)
    for block in RUN[page]:
        if block in tests:
            continue
        if block.comment == "output":
            assert printed == block.text, block.name
        elif block.is_run_here:
            printed = runner.run(block)
