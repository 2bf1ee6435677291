"""Catalogues: where tables are looked up. The embedded one is a SQLite database in the warehouse's directory."""

from __future__ import annotations

import os
from collections.abc import Mapping
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


def open_catalog(given: Mapping[str, str]) -> Catalog:
    """Return a catalogue; an embedded one is made where there is none. Raise LakeError, OSError."""
    require_pyiceberg()
    from pyiceberg.catalog import load_catalog
    from sqlalchemy.exc import SQLAlchemyError

    name, properties = catalog_properties(given)
    if properties.get("py-io-impl") == _SYNCED_FILES:
        Path(properties["warehouse"]).mkdir(parents=True, exist_ok=True)
    with lake_errors():
        try:
            return load_catalog(name, **properties)
        except SQLAlchemyError:
            # Two processes that begin make the tables of the database at once, and one of them fails.
            return load_catalog(name, **properties)
