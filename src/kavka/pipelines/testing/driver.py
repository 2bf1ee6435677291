"""The driver that all tests of a process share: its start costs most of a test's time."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from kavka.pipelines.jvm import end_jvm, has_jvm
from kavka.pipelines.project import Project, require_pipelines
from kavka.pipelines.session import LocalDriver, Session, SparkOptions, open_driver
from kavka.pipelines.testing.isolation import MASTER, driver_settings
from kavka.spark.class_archive import ClassArchive, spark_archive

_DEFAULT = "default"
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_END_OF_JVM_S = 300


class SharedDriver:
    """Starts with the first test; a project with other settings of the driver starts another one."""

    def __init__(self, directory: Path, *, keeps_classes: bool = False) -> None:
        """Choose where the log and the tables are, and whether the JVM leaves an archive of Spark's classes."""
        self._directory = directory
        self._keeps_classes = keeps_classes
        self._settings: dict[str, str] = {}
        self._stack = ExitStack()
        self._driver: LocalDriver | None = None
        self._is_used = False
        self._new_archive: ClassArchive | None = None

    @contextmanager
    def session(self, project: Project) -> Iterator[Session]:
        """Open a session with an empty catalogue. Raise SparkMissing, PipelineError.

        What the session before it has left is dropped now: of the last one it goes with the driver.
        """
        driver = self._ensure(project)
        with driver.session() as session:
            if self._is_used:
                _empty(session.spark, self._warehouse)
            self._is_used = True
            yield session

    @property
    def _warehouse(self) -> Path:
        return self._directory / "tables"

    def _ensure(self, project: Project) -> LocalDriver:
        require_pipelines()
        settings = driver_settings(project, self._warehouse)
        if self._driver is None or settings != self._settings:
            self.close()
            shutil.rmtree(self._warehouse, ignore_errors=True)
            spark_options = SparkOptions(master=MASTER, log_level="off")
            options = f"{settings.get(_JAVA_OPTIONS, '')} {' '.join(self._archive_options())}"
            driver = open_driver(
                settings | {_JAVA_OPTIONS: options.strip()}, self._directory, spark_options
            )
            self._driver = self._stack.enter_context(driver)
            self._settings = settings
            self._is_used = False
        return self._driver

    def close(self) -> None:
        """Stop the driver."""
        self._driver = None
        self._stack.close()

    # The archive of Spark's classes

    def _archive_options(self) -> list[str]:
        """Return the options of a new JVM that reads the archive, or makes it; none for a JVM that runs."""
        archive = None if has_jvm() else spark_archive(os.environ)
        if archive is None:
            return []
        if archive.is_made or not self._keeps_classes:
            return archive.reading()
        self._new_archive = archive
        return archive.making()

    def keep_archive(self, *, is_good: bool) -> Path | None:
        """End the JVM, so that it writes the archive if it is to make one; return that if it is there now."""
        archive, self._new_archive = self._new_archive, None
        if archive is None:
            return None
        try:
            has_ended = end_jvm(_END_OF_JVM_S)  # one that was killed has left a part of it
            archive.made(is_good=is_good and has_ended)
        except OSError:
            return None  # a full disk: the tests have run without it
        return archive.path if archive.is_made else None


def _empty(spark: Any, warehouse: Path) -> None:
    """Drop everything in the catalogue, with its files."""
    for database in spark.catalog.listDatabases():
        if database.name != _DEFAULT:
            spark.sql(f"DROP DATABASE `{database.name}` CASCADE")
    for table in spark.catalog.listTables(_DEFAULT):
        if not table.isTemporary:
            kind = "VIEW" if table.tableType == "VIEW" else "TABLE"
            spark.sql(f"DROP {kind} {_DEFAULT}.`{table.name}`")
    for folder in warehouse.glob("*"):
        shutil.rmtree(folder)


# One for each run of pytest

_DRIVER = pytest.StashKey[SharedDriver]()
_KEEPS_CLASSES = pytest.StashKey[bool]()


class KeepClasses:
    """A plugin of pytest: after tests that passed an archive of Spark's classes is kept."""

    def pytest_configure(self, config: pytest.Config) -> None:
        """Say so to the driver of this run."""
        config.stash[_KEEPS_CLASSES] = True


def new_directory(config: pytest.Config, name: str) -> Path:
    """Return a new folder of the run."""
    factory: pytest.TempPathFactory = config._tmp_path_factory  # type: ignore[attr-defined]
    return factory.mktemp(name)


def shared_driver(config: pytest.Config) -> SharedDriver:
    """Return the driver that all tests of the process share; it is not started by this."""
    if _DRIVER not in config.stash:
        keeps_classes = config.stash.get(_KEEPS_CLASSES, False)
        directory = new_directory(config, "spark")
        config.stash[_DRIVER] = SharedDriver(directory, keeps_classes=keeps_classes)
    return config.stash[_DRIVER]


def stop_driver(config: pytest.Config, exit_code: int | None) -> None:
    """Stop the driver, if there is one; after tests that passed keep the archive of Spark's classes."""
    driver = config.stash.get(_DRIVER, None)
    if driver is None:
        return
    driver.close()
    path = driver.keep_archive(is_good=exit_code == 0)
    if path is not None:
        size = path.stat().st_size / 1e6
        print(f"kept Spark's classes in {path} ({size:.0f} MB): the next tests start with them")
