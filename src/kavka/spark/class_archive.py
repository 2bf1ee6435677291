"""Archives of Java classes, with which short programs start in half of the processor time (dynamic archives, JEP 350).

An archive belongs to one Java and one class path. A Java machine makes it when it ends, of the classes that it has
loaded, and later ones map it into memory in place of reading, verifying and linking these classes again.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final

VARIABLE: Final = "KAVKA_SPARK_CLASSES"
"""Names the folder of archives; `none` makes and reads none."""
_NONE: Final = "none"
_OTHERS: Final = ("SharedArchiveFile", "ArchiveClassesAtExit", "-Xshare:off")
"""Options that choose an archive already."""
_OPTIONS_OF_JAVA: Final = ("SPARK_SUBMIT_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")
_QUIET: Final = "-Xlog:disable"
"""An archive that does not fit is left alone without a word: standard output belongs to the program."""


class ClassArchive:
    """The archive of one Java and one class path, in a folder of archives."""

    def __init__(self, directory: Path, java: Path, jars: Sequence[Path]) -> None:
        """Name the archive by the files, so that another release of one of them has another archive."""
        stamps = [f"{part} {part.stat().st_mtime_ns}" for part in (java.resolve(), *jars)]
        name = hashlib.sha256("\n".join(stamps).encode()).hexdigest()[:16]
        self.path = directory / f"{name}.jsa"
        self._new_path = directory / f"{name}.{os.getpid()}.new"

    @property
    def is_made(self) -> bool:
        """Return whether there is an archive."""
        return self.path.exists()

    def reading(self) -> list[str]:
        """Return the options to start with it, none while it is not made."""
        return [_QUIET, f"-XX:SharedArchiveFile={self.path}"] if self.is_made else []

    def making(self) -> list[str]:
        """Return the options with which a Java machine makes one when it ends."""
        return [_QUIET, f"-XX:ArchiveClassesAtExit={self._new_path}"]

    def made(self, *, is_good: bool) -> None:
        """Keep what such a machine has left, if its program did what it was to do. Raise OSError."""
        if is_good and self._new_path.exists():
            self._new_path.replace(self.path)
        self._new_path.unlink(missing_ok=True)


def spark_archive(environment: Mapping[str, str]) -> ClassArchive | None:
    """Return the archive of the installed Spark; None where there is to be none, or a file of it is missing."""
    java, jars = _java(environment), spark_jars()
    directory = archive_directory(environment)
    if directory is None or java is None or jars is None:
        return None
    try:
        return ClassArchive(directory, java, jars)
    except OSError:
        return None


def spark_jars() -> list[Path] | None:
    """Return the jars of the installed Spark, without its import of half a second; None where there is none."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        return None
    return sorted(Path(spec.origin).parent.glob("jars/*.jar"))


def archive_directory(environment: Mapping[str, str]) -> Path | None:
    """Return the folder of archives, which is made if need be; None where the environment forbids it.

    It is the user's own folder, closed to others, because an archive is code. A folder that cannot be made is none.
    """
    chosen = environment.get(VARIABLE, "")
    options = " ".join(environment.get(name, "") for name in _OPTIONS_OF_JAVA)
    if chosen == _NONE or any(option in options for option in _OTHERS):
        return None
    try:
        directory = Path(chosen) if chosen else _cache(environment) / "kavka" / "spark-classes"
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        facts = directory.stat()
    except (OSError, RuntimeError):
        return None
    is_own = facts.st_uid == os.geteuid() and not facts.st_mode & 0o022
    return directory if is_own else None


def _cache(environment: Mapping[str, str]) -> Path:
    """Return the folder of the user's caches. Raise RuntimeError for a user without a home."""
    chosen = environment.get("XDG_CACHE_HOME")
    return Path(chosen) if chosen else Path.home() / ".cache"


def _java(environment: Mapping[str, str]) -> Path | None:
    """Return the Java that Spark starts."""
    home = environment.get("JAVA_HOME")
    found = os.path.join(home, "bin", "java") if home else shutil.which("java")
    return None if found is None else Path(found)
