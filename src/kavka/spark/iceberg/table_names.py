"""The table of each row: a name, or a template such as `lake.{topic}` with columns in it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kavka.lake.catalogs import Identifier, parse_identifier
from kavka.lake.errors import LakeError

if TYPE_CHECKING:
    import pyarrow as pa

_COLUMN = re.compile(r"\{(\w+)\}")
_ILLEGAL = re.compile(r"[^A-Za-z0-9_]")


@dataclass(frozen=True, slots=True)
class TableNames:
    """The option `table`."""

    template: str

    def __post_init__(self) -> None:
        """Raise LakeError for a name without a namespace, or braces that are no column."""
        self._parts()

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns in the template, in their order; none for a plain name."""
        return tuple(dict.fromkeys(_COLUMN.findall(self.template)))

    @property
    def fixed(self) -> Identifier | None:
        """Return the one table of all rows; None for a template."""
        return None if self.columns else self._parts()

    def of(self, values: dict[str, str]) -> Identifier:
        """Return the table for values of the columns; what is no letter, digit or `_` in them becomes `_`."""
        return tuple(
            _COLUMN.sub(lambda match: _ILLEGAL.sub("_", values[match[1]]), part)
            for part in self._parts()
        )

    def split(self, rows: pa.RecordBatch) -> Iterator[tuple[Identifier, pa.RecordBatch]]:
        """Cut rows by table, in their order. Raise LakeError for a row whose column is null or empty."""
        import pyarrow.compute as pc

        if self.fixed is not None:
            yield self.fixed, rows
            return
        texts = [pc.cast(rows.column(name), "string") for name in self.columns]
        for name, text in zip(self.columns, texts, strict=True):
            if text.null_count or pc.any(pc.equal(text, "")).as_py():
                raise LakeError(f"A row has no table: its column {name} is null or empty.")
        keys = pc.binary_join_element_wise(*texts, "\0")
        for key in pc.unique(keys).to_pylist():
            values = dict(zip(self.columns, key.split("\0"), strict=True))
            yield self.of(values), rows.filter(pc.equal(keys, key))

    def _parts(self) -> Identifier:
        parts = parse_identifier(self.template)
        if any(set(_COLUMN.sub("", part)) & set("{}") for part in parts):
            raise LakeError(
                f"The braces in table {self.template!r} must hold a column, as in lake.{{topic}}."
            )
        return parts
