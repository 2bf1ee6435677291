"""Downloads from PyPI for single long tests: programs in environments of their own, and sources of packages.

Both are kept in `~/.cache/kavka/pypi`, never in the project's environment, and never committed.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from kavka_compat.artifacts import user_cache

_CACHE = user_cache("pypi")
_SECONDS = 600


def environment(package: str, version: str) -> Path:
    """Return the `bin` of an environment that has a package, made on first use."""
    directory = _CACHE / f"{package}-{version}-env"
    done = directory / "done"
    if not done.exists():
        _make(directory)
        _pip(directory, "install", f"{package}=={version}")
        done.touch()
    return directory / "bin"


def sources(package: str, version: str) -> Path:
    """Return the directory of a package's sources (its sdist), fetched on first use."""
    directory = _CACHE / f"{package}-{version}-sources"
    if not directory.exists():
        _CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=_CACHE) as scratch:
            tools, unpacked = Path(scratch) / "tools", Path(scratch) / "unpacked"
            unpacked.mkdir()
            _make(tools)
            wanted = ("--no-deps", "--no-binary", package, f"{package}=={version}")
            _pip(tools, "download", "--dest", scratch, *wanted)
            (archive,) = Path(scratch).glob("*.tar.gz")
            command = ["tar", "-xf", str(archive), "-C", str(unpacked), "--strip-components=1"]
            subprocess.run(command, check=True, timeout=_SECONDS)
            unpacked.rename(directory)
    return directory


def _make(directory: Path) -> None:
    command = [sys.executable, "-m", "venv", "--clear", str(directory)]
    subprocess.run(command, check=True, timeout=_SECONDS)


def _pip(directory: Path, *arguments: str) -> None:
    python = str(directory / "bin" / "python")
    command = [python, "-m", "pip", "-q", "--disable-pip-version-check", *arguments]
    subprocess.run(command, check=True, timeout=_SECONDS)
