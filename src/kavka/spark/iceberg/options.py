"""Options of `format("kavka-iceberg")`. Pure. Every refusal is a ConnectorError of one sentence."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from kavka.ids import TopicPartition
from kavka.lake.errors import LakeError
from kavka.lake.layout import parse_partitioning, parse_sorting
from kavka.lake.offset_ranges import parse_replaced
from kavka.lake.tables import TableOptions
from kavka.spark.errors import ConnectorError
from kavka.spark.iceberg.table_names import TableNames
from kavka.spark.options import boolean, filled
from kavka.spark.sink_options import is_sink_id, name_of_checkpoint

_NAMES = (
    "table", "partitionBy", "sortBy", "targetFileSize", "mergeSchema", "createTable", "sinkId", "writeId",
    "onNewCheckpoint", "replaceOffsets", "checkpointLocation", "queryName", "path",
)  # fmt: skip
_CATALOG = "catalog."
_PROPERTY = "tableproperty."
_SIZE = re.compile(r"(\d+)\s*(b|kb?|mb?|gb?)?")
_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_TARGET = "write.target-file-size-bytes"


@dataclass(frozen=True, slots=True)
class LakeOptions:
    """Checked options of a load."""

    tables: TableNames
    catalog: dict[str, str]
    table: TableOptions
    sink_id: str | None
    """Names the load in the state of its tables; None for a data frame whose repeat nothing recognises."""
    write_id: str | None
    accepts_other_writes: bool
    replaced: dict[TopicPartition, tuple[int, int]] = field(default_factory=dict)


def parse_lake(options: Mapping[str, str], *, streaming: bool, overwrite: bool) -> LakeOptions:
    """Check the options of `df.write` or `df.writeStream`; names may have any case. Raise ConnectorError."""
    given = {name.lower(): value for name, value in options.items()}
    _refuse_unknown(given)
    try:
        replaced = _replaced(given, streaming, overwrite)
        return LakeOptions(
            tables=TableNames(_required(given, "table")),
            catalog=_prefixed(given, _CATALOG),
            table=_table(given),
            sink_id=_sink_id(given, streaming, bool(replaced)),
            write_id=_write_id(given, streaming),
            accepts_other_writes=_accepts_other_writes(given, streaming),
            replaced=replaced,
        )
    except LakeError as error:
        raise ConnectorError(str(error)) from None


def _refuse_unknown(given: Mapping[str, str]) -> None:
    names = {name.lower(): name for name in _NAMES}
    for name in given:
        if name in names or name.startswith((_CATALOG, _PROPERTY)):
            continue
        near = difflib.get_close_matches(name, names, 1, 0.7)
        hint = f"; did you mean {names[near[0]]}?" if near else "."
        raise ConnectorError(f"The option {name!r} is not one of format kavka-iceberg{hint}")


def _table(given: Mapping[str, str]) -> TableOptions:
    properties = _prefixed(given, _PROPERTY)
    size = filled(given, "targetFileSize")
    if size is not None:
        properties[_TARGET] = str(_bytes("targetFileSize", size))
    partitioning, sorting = filled(given, "partitionBy"), filled(given, "sortBy")
    return TableOptions(
        partition_by=parse_partitioning(partitioning) if partitioning else (),
        sort_by=parse_sorting(sorting) if sorting else (),
        may_create=boolean(given, "createTable", True),
        may_evolve=boolean(given, "mergeSchema", False),
        properties=properties,
    )


def _replaced(
    given: Mapping[str, str], streaming: bool, overwrite: bool
) -> dict[TopicPartition, tuple[int, int]]:
    text = filled(given, "replaceOffsets")
    if text is None:
        if overwrite and not streaming:
            raise ConnectorError(
                "Mode overwrite replaces a range of offsets: say which with replaceOffsets, as `kavka lake reload` "
                "does, or write with mode append."
            )
        return {}
    if streaming or not overwrite:
        raise ConnectorError("replaceOffsets is of df.write with mode overwrite.")
    for name in ("sinkId", "writeId"):
        if name.lower() in given:
            raise ConnectorError(
                f"replaceOffsets cannot be combined with {name}: to replace the same range again does no harm."
            )
    return parse_replaced(text)


def _sink_id(given: Mapping[str, str], streaming: bool, replaces: bool) -> str | None:
    """Return the option sinkId; without, what a stream's checkpoint gives: its place is the same after a restart."""
    name = filled(given, "sinkId")
    if name is not None:
        if not is_sink_id(name):
            raise ConnectorError(
                f"sinkId is at most 200 letters, digits, '.', '_', '-', and not {name!r}."
            )
        return name
    if replaces or (not streaming and "writeid" not in given):
        return None
    checkpoint = filled(given, "checkpointLocation")
    if not streaming or checkpoint is None:
        raise ConnectorError(
            "The load has no name: set the option sinkId, the same at each start"
            + (", or checkpointLocation as an option of the writer." if streaming else ".")
        )
    return name_of_checkpoint("kavka-lake", checkpoint)


def _write_id(given: Mapping[str, str], streaming: bool) -> str | None:
    if streaming and "writeid" in given:
        raise ConnectorError("The option writeId is of batch writes; a stream has its checkpoint.")
    if not streaming and "sinkid" in given and "writeid" not in given:
        raise ConnectorError(
            "sinkId of a df.write needs writeId (the day, the run), by which a repeat is recognised."
        )
    return filled(given, "writeId")


def _accepts_other_writes(given: Mapping[str, str], streaming: bool) -> bool:
    chosen = given.get("onnewcheckpoint", "fail").lower()
    if chosen not in ("fail", "reset") or ("onnewcheckpoint" in given and not streaming):
        raise ConnectorError(
            f"onNewCheckpoint must be fail or reset, and is of streams; not {chosen!r}."
        )
    return not streaming or chosen == "reset"


def _prefixed(given: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {
        name.removeprefix(prefix): value for name, value in given.items() if name.startswith(prefix)
    }


def _required(given: Mapping[str, str], name: str) -> str:
    value = filled(given, name)
    if value is None:
        raise ConnectorError(f"The option {name} is missing: give it as namespace.name.")
    return value


def _bytes(name: str, text: str) -> int:
    match = _SIZE.fullmatch(text.strip().lower())
    if match is None or not int(match[1]):
        raise ConnectorError(f"The option {name} must be a size such as 128MB, not {text!r}.")
    return int(match[1]) * _UNITS[(match[2] or "")[:1]]
