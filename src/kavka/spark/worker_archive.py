"""An archive of kavka and what it needs, for the workers of a cluster on which it is not installed.

A zip for `--py-files` does not do: Python imports no compiled modules from a zip, and kavka has some (its kernel,
crc32c, cramjam). An archive for `--archives` is unpacked beside each executor, and its folder is put on PYTHONPATH.
"""

from __future__ import annotations

import re
import sys
import tarfile
from collections.abc import Iterable, Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path

_NAME = re.compile(r"[A-Za-z0-9._-]+")
_OF_PYTHON = ("__pycache__", ".pyc")


class CannotPack(Exception):
    """A module that is to be packed is not installed."""


def pack(output: Path, more: Iterable[str] = ()) -> list[str]:
    """Write a .tar.gz of kavka, what it depends on, and `more` installed packages; return the names of what is in it.

    What is compiled fits workers with this release of Python on this kind of machine only. Raise CannotPack, OSError.
    """
    needed = _with_dependencies([*_required(_installed("kavka")), *more])
    with tarfile.open(output, "w:gz", compresslevel=6) as archive:
        for package in ("kavka", "pyspark_kavka", "pyspark_kavka_iceberg"):
            folder = _folder(package)
            for path in sorted(folder.rglob("*")):
                if path.is_file() and not _is_left_out(path.name, path.parts):
                    archive.add(path, str(path.relative_to(folder.parent)))
        for distribution in needed.values():
            for path, name in _files(distribution):
                archive.add(path, name)
    return ["kavka", *sorted(needed)]


def _folder(package: str) -> Path:
    """Return where a package of ours is, which may be a source tree."""
    spec = find_spec(package)
    assert spec is not None, "it is running"
    assert spec.origin is not None, "it has an __init__.py"
    return Path(spec.origin).parent


def _is_left_out(name: str, parts: tuple[str, ...]) -> bool:
    """Return whether a file is no part of a package at run time: caches, kernel sources, other Pythons' builds."""
    if name.endswith((".pyc", ".pyx", ".pxi", ".c")) or "__pycache__" in parts:
        return True
    return name.endswith(".so") and not name.endswith(tuple(EXTENSION_SUFFIXES))


def _installed(name: str) -> Distribution:
    try:
        return distribution(name)
    except PackageNotFoundError:
        raise CannotPack(f"{name} is not installed for {sys.executable}") from None


def _required(distribution: Distribution) -> Iterator[str]:
    """Yield the names of what a distribution needs without extras."""
    for requirement in distribution.requires or ():
        name = _NAME.match(requirement)
        if name is not None and "extra ==" not in requirement.partition(";")[2]:
            yield name[0]


def _with_dependencies(names: Iterable[str]) -> dict[str, Distribution]:
    """Return distributions and all that they need; what a marker excludes here is not installed and left out."""
    requested = list(names)
    remaining, distributions = list(requested), dict[str, Distribution]()
    while remaining:
        name = remaining.pop()
        if name in distributions:
            continue
        try:
            distributions[name] = _installed(name)
        except CannotPack:
            if name in requested:
                raise
            continue
        remaining.extend(_required(distributions[name]))
    return distributions


def _files(distribution: Distribution) -> Iterator[tuple[Path, str]]:
    """Yield the files of a distribution that belong on the path, with their names there."""
    for file in distribution.files or ():
        if ".." not in file.parts and not any(part.endswith(_OF_PYTHON) for part in file.parts):
            path = Path(str(distribution.locate_file(file)))
            if path.is_file():
                yield path, str(file)
