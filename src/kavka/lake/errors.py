"""Errors of lake tables as one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

_OTHERS = ("pyiceberg", "pyiceberg_core", "sqlalchemy", "pyarrow", "pydantic_core", "sqlite3")
"""Packages whose exceptions are of the catalogue, of its database, and of files."""


class LakeError(ValueError):
    """A lake table cannot do what was asked; the message is one sentence on one line."""


def require_pyiceberg() -> None:
    """Raise LakeError when the extra is not installed."""
    for package in ("pyiceberg", "pyiceberg_core", "pyarrow"):
        if find_spec(package) is None:
            raise LakeError(
                f"{package} is missing: install it with `pip install 'kavka[lake]'`, on Spark's workers, too."
            )


@contextmanager
def lake_errors() -> Iterator[None]:
    """Turn the exceptions of pyiceberg and of what it is built on into a LakeError."""
    try:
        yield
    except (LakeError, OSError):
        raise
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in _OTHERS:
            raise
        text = " ".join(str(error).split()) or type(error).__name__
        raise LakeError(text if len(text) <= 500 else f"{text[:500]}...") from error
