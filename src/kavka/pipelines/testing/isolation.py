"""Replacements that a test makes in a project, so that nothing outside of it is read or written. Pure.

Brokers: the options of every source and sink of topics are changed when Spark's registry takes them, whatever the
transformations say. Tables: the catalogue is in the driver's memory. Lakes: the catalogue of `kavka-iceberg` is a file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kavka.pipelines.definitions import TOPIC_FORMATS, Definitions, messages
from kavka.pipelines.project import DEFAULTS_NAME, Project, read_defaults
from kavka.pipelines.session import driver_defaults
from kavka.pipelines.supervision import FLOWS_AT_ONCE
from kavka.spark.session import SHORT_LIVED_JVM

MASTER = "local[1]"
_QUICK_JVM = f"{SHORT_LIVED_JVM} -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
"""It does not verify the classes of Spark's jars, which is a fifth of its start."""
_SECURITY = ("kafka.security.", "kafka.sasl.", "kafka.ssl.")
_LAKE_FORMAT = "kavka-iceberg"
_STARTING_TIMES = ("startingtimestamp", "startingoffsetsbytimestamp")
_OUTSIDE = (
    "spark.master",
    "spark.remote",
    "spark.submit.",
    "spark.connect.",
    "spark.plugins",
    "spark.eventLog.",
    "spark.sql.catalogImplementation",
    "spark.sql.catalog.",
    "spark.sql.defaultCatalog",
    "spark.sql.warehouse.dir",
    "spark.sql.hive.",
    "spark.hive.",
    "spark.hadoop.hive.",
    "spark.hadoop.javax.jdo.",
)
"""Prefixes of settings of a project that do not apply to its tests."""


@dataclass(frozen=True, slots=True)
class Replacements:
    """A test's broker and lake, which replace those of the project."""

    bootstrap_servers: str
    lake: Path

    def source(self, format: str, options: Mapping[str, str], *, streaming: bool) -> dict[str, str]:
        """Return the options of a source.

        A stream that begins at the end of its topics begins at their start: what a test has fed is what arrives.
        """
        changed = self._changed(format, options)
        starts = {name.lower(): value for name, value in changed.items()}
        is_last = starts.get("startingoffsets", "latest").lower() == "latest"
        has_time = any(name in starts for name in _STARTING_TIMES)
        if format in TOPIC_FORMATS and streaming and is_last and not has_time:
            changed = _without(changed, ("startingoffsets",))
            changed["startingOffsets"] = "earliest"
        return changed

    def sink(self, format: str, options: Mapping[str, str]) -> dict[str, str]:
        """Return the options of a sink."""
        return self._changed(format, options)

    def _changed(self, format: str, options: Mapping[str, str]) -> dict[str, str]:
        if format == _LAKE_FORMAT:
            return _without(options, ("catalog.",)) | {"catalog.warehouse": str(self.lake)}
        if format not in TOPIC_FORMATS:
            return dict(options)
        kept = _without(options, ("kafka.bootstrap.servers", *_SECURITY))
        return kept | {"kafka.bootstrap.servers": self.bootstrap_servers}

    def plan(self, _flow: str, plan: Any) -> Any:
        """Return a plan of Spark Connect whose sources are those of the test."""
        changed = type(plan)()
        changed.CopyFrom(plan)
        for message in messages(changed):
            if message.DESCRIPTOR.name == "Read" and message.HasField("data_source"):
                source = message.data_source
                options = self.source(
                    source.format, dict(source.options), streaming=message.is_streaming
                )
                source.options.clear()
                source.options.update(options)
        return changed

    def output(self, output: Any) -> Any:
        """Return an output of `pyspark.pipelines` that writes to the test's broker or lake."""
        if not hasattr(output, "options"):
            return output
        return replace(output, options=self.sink(output.format, output.options))


def _without(options: Mapping[str, str], beginnings: tuple[str, ...]) -> dict[str, str]:
    return {
        name: value for name, value in options.items() if not name.lower().startswith(beginnings)
    }


def isolated_project(project: Project, storage: Path) -> Project:
    """Return the project with its checkpoints below a folder, in the catalogue of the test.

    Settings of `tests/spark-defaults.conf` take the place of those of the specification.
    """
    own = _own_settings(project)
    configuration = {
        name: own.get(name, value) for name, value in _inside(project.configuration).items()
    }
    changes: dict[str, Any] = {"storage": storage.as_uri(), "configuration": configuration}
    catalog = project.spec.catalog
    if catalog and not _own_settings(project, f"spark.sql.catalog.{catalog}"):
        changes["catalog"] = None
    # Spark takes `folder/**`, keeps `folder/**/*`, and refuses that when it is given again.
    changes["libraries"] = [
        replace(one, include=one.include.removesuffix("/*")) for one in project.spec.libraries
    ]
    return Project(project.spec_path, replace(project.spec, **changes))


def _inside(settings: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in settings.items() if not name.startswith(_OUTSIDE)}


def _own_settings(project: Project, beginning: str = "") -> dict[str, str]:
    """Return the settings that the project has for its tests."""
    path = project.directory / "tests" / DEFAULTS_NAME
    settings = read_defaults(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return {name: value for name, value in settings.items() if name.startswith(beginning)}


def driver_settings(project: Project, warehouse: Path) -> dict[str, str]:
    """Return the settings of the driver that the tests of a project share.

    They are those of its `spark-defaults.conf`, but for what leads outside, and those of `tests/spark-defaults.conf`.
    """
    return {
        **driver_defaults("tests", MASTER),
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.extraJavaOptions": _QUICK_JVM,
        # Rows are few: a job for each stage costs more than a better plan saves.
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.pipelines.execution.maxConcurrentFlows": str(FLOWS_AT_ONCE),
        # A flow that fails is not tried again: the test wants to know.
        "spark.sql.pipelines.maxFlowRetryAttempts": "0",
        **_inside(project.defaults),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": str(warehouse),
        **_own_settings(project),
    }


def topics(definitions: Definitions) -> dict[str, int]:
    """Return the topics that the project names, each with the least number of partitions that it asks for."""
    counts: dict[str, int] = {}
    for flow in definitions.flows:
        for read in flow.reads:
            for name, partitions in _read_topics(read.options):
                counts[name] = max(counts.get(name, 1), partitions)
    for output in definitions.outputs:
        if output.kind == "sink" and output.format in TOPIC_FORMATS:
            given = {name.lower(): value for name, value in output.options.items()}
            if given.get("topic"):
                counts.setdefault(given["topic"], 1)
    return counts


def _read_topics(options: Mapping[str, str]) -> Iterator[tuple[str, int]]:
    given = {name.lower(): value for name, value in options.items()}
    for name in given.get("subscribe", "").split(","):
        if name.strip():
            yield name.strip(), 1
    try:
        assigned = json.loads(given.get("assign", "{}"))
        for name, numbers in assigned.items():
            yield name, max(numbers, default=0) + 1
    except (AttributeError, TypeError, ValueError):
        return  # Spark refuses the option, in its own words


def databases(definitions: Definitions, default: str | None) -> Iterable[str]:
    """Return the databases of the project's tables, without the one that is always there."""
    names = {default} if default else set()
    for output in definitions.outputs:
        parts = [part.strip("`") for part in output.name.split(".")]
        if output.kind in ("table", "materialized view") and len(parts) > 1:
            names.add(parts[-2])
    return sorted(name for name in names if name and name != "default")
