"""Catalogues: where tables are looked up. The embedded one is a SQLite database in the warehouse's directory."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from kavka.lake.errors import LakeError, lake_errors, require_pyiceberg

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

Identifier = tuple[str, ...]
"""A table's namespace, of one or more parts, and its name."""

_DEFAULT_NAME = "default"
_EMBEDDED = "catalog.db"
_CHOOSING = ("type", "uri", "py-catalog-impl", "catalog-impl")
"""Properties with which a catalogue is chosen; without any, the warehouse is a directory with an embedded one."""
_SYNCED_FILES = "kavka.lake.synced_files.SyncedFileIO"


def parse_identifier(text: str) -> Identifier:
    """Return the parts of `namespace.table`. Raise LakeError."""
    parts = tuple(text.strip().split("."))
    if len(parts) < 2 or not all(parts):
        raise LakeError(
            f"A table is named with its namespace, as in lake.clicks, and not {text!r}."
        )
    return parts


def embedded(warehouse: str) -> dict[str, str]:
    """Return the properties of the embedded catalogue of a local directory. Pure."""
    directory = os.path.abspath(warehouse.removeprefix("file://"))
    return {
        "type": "sql",
        "uri": f"sqlite:///{directory}/{_EMBEDDED}?timeout=60",
        "warehouse": directory,
        "py-io-impl": _SYNCED_FILES,
    }


def catalog_properties(given: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """Return the name of a catalogue and pyiceberg's properties of it. Raise LakeError. Pure.

    Where only a local warehouse is given, the catalogue is the embedded one. Where only a name is given, pyiceberg
    finds the rest in its own configuration (`~/.pyiceberg.yaml`, `PYICEBERG_CATALOG__...`).
    """
    properties = dict(given)
    name = properties.pop("name", "")
    if any(chosen in properties for chosen in _CHOOSING):
        return name or _DEFAULT_NAME, properties
    warehouse = properties.get("warehouse", "")
    if warehouse:
        if "://" in warehouse and not warehouse.startswith("file://"):
            raise LakeError(
                f"The warehouse {warehouse} is no directory of this machine, so its catalogue must be named, too: "
                "set catalog.type and catalog.uri."
            )
        return name or _DEFAULT_NAME, properties | embedded(warehouse)
    if not name:
        raise LakeError(
            "No catalogue: set catalog.warehouse to a directory, or catalog.type and catalog.uri to a catalogue "
            "that runs, or catalog.name to one of pyiceberg's configuration."
        )
    return name, properties


def open_catalog(given: Mapping[str, str], *, makes: bool = True) -> Catalog:
    """Return a catalogue; an embedded one is made where there is none, if `makes`. Raise LakeError, OSError."""
    require_pyiceberg()
    from pyiceberg.catalog import load_catalog
    from sqlalchemy.exc import SQLAlchemyError

    name, properties = catalog_properties(given)
    if properties.get("py-io-impl") == _SYNCED_FILES:
        directory = Path(properties["warehouse"])
        if makes:
            directory.mkdir(parents=True, exist_ok=True)
        elif not (directory / _EMBEDDED).exists():
            raise LakeError(
                f"There is no catalogue in {directory}: name the folder that the load has as catalog.warehouse, where "
                f"it has made {_EMBEDDED}."
            )
    with lake_errors(), _connection_errors(properties.get("uri", name)):
        try:
            return load_catalog(name, **properties)
        except SQLAlchemyError:
            # Two processes that begin make the tables of the database at once, and one of them fails.
            return load_catalog(name, **properties)


@contextmanager
def _connection_errors(catalogue: str) -> Iterator[None]:
    """Turn the error of a catalogue that does not answer into a LakeError; `requests` has a page of it."""
    try:
        yield
    except OSError as error:
        if type(error).__module__.partition(".")[0] != "requests":
            raise
        raise LakeError(
            f"The catalogue {catalogue} cannot be reached: {_first_reason(error)}."
        ) from error


def _first_reason(error: BaseException) -> str:
    """Return the operating system's reason, where there is one among the causes."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror
        cause = cause.__cause__ or cause.__context__
    return " ".join(str(error).split())
