"""The code of a run: a digest of all its modules, and its commit, where git knows it."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import kavka

_PACKAGE = Path(kavka.__file__).parent
_SUFFIXES = (".py", ".pyx", ".pxi")


def code_digest(package: Path = _PACKAGE) -> str:
    """Return a hash of the names and contents of all source files of the package. Raise OSError."""
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted(package.rglob("*")):
        if path.suffix in _SUFFIXES:
            content = path.read_bytes()
            digest.update(f"{path.relative_to(package)} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def commit_name(package: Path = _PACKAGE) -> str:
    """Return the commit that is checked out, `-changed` when the package differs from it; without git the version."""
    commit = _git(package, "rev-parse", "--short=12", "HEAD")
    if not commit:
        return f"none, kavka {kavka.__version__}"
    return f"{commit}-changed" if _git(package, "status", "--porcelain", "--", ".") else commit


def _git(package: Path, *words: str) -> str:
    """Return what git says of the package; nothing when there is no git, or no repository that has it."""
    try:
        done = subprocess.run(
            ["git", "-C", str(package), *words], capture_output=True, text=True, check=False
        )
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
