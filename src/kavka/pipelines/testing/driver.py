"""The driver that all tests of a process share: its start costs most of a test's time."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from kavka.pipelines.project import Project, require_pipelines
from kavka.pipelines.session import LocalDriver, Session, SparkOptions, open_driver
from kavka.pipelines.testing.isolation import MASTER, driver_settings

_DEFAULT = "default"


class SharedDriver:
    """Starts with the first test; a project with other settings of the driver starts another one."""

    def __init__(self, directory: Path) -> None:
        """Choose where the log and the tables are."""
        self._directory = directory
        self._settings: dict[str, str] = {}
        self._stack = ExitStack()
        self._driver: LocalDriver | None = None

    @contextmanager
    def session(self, project: Project) -> Iterator[Session]:
        """Open a session with an empty catalogue; its tables are gone at the end. Raise SparkMissing, PipelineError."""
        driver = self._ensure(project)
        with driver.session() as session:
            _empty(session.spark, self._warehouse)
            try:
                yield session
            finally:
                _empty(session.spark, self._warehouse)

    @property
    def _warehouse(self) -> Path:
        return self._directory / "tables"

    def _ensure(self, project: Project) -> LocalDriver:
        require_pipelines()
        settings = driver_settings(project, self._warehouse)
        if self._driver is None or settings != self._settings:
            self.close()
            spark_options = SparkOptions(master=MASTER, log_level="off")
            driver = open_driver(settings, self._directory, spark_options)
            self._driver = self._stack.enter_context(driver)
            self._settings = settings
        return self._driver

    def close(self) -> None:
        """Stop the driver."""
        self._driver = None
        self._stack.close()


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


def new_directory(config: pytest.Config, name: str) -> Path:
    """Return a new folder of the run."""
    factory: pytest.TempPathFactory = config._tmp_path_factory  # type: ignore[attr-defined]
    return factory.mktemp(name)


def shared_driver(config: pytest.Config) -> SharedDriver:
    """Return the driver that all tests of the process share; it is not started by this."""
    if _DRIVER not in config.stash:
        config.stash[_DRIVER] = SharedDriver(new_directory(config, "spark"))
    return config.stash[_DRIVER]


def stop_driver(config: pytest.Config) -> None:
    """Stop the driver, if there is one."""
    driver = config.stash.get(_DRIVER, None)
    if driver is not None:
        driver.close()
