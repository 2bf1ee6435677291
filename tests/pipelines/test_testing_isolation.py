"""Replacements in tests of pipelines: options of sources and sinks, settings of the driver, storage."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kavka.pipelines.definitions import (
    Definitions,
    FlowDefinition,
    Location,
    OutputDefinition,
    TopicRead,
)
from kavka.pipelines.project import Project
from kavka.pipelines.testing.isolation import (
    Replacements,
    databases,
    driver_settings,
    isolated_project,
    topics,
)

HERE = Replacements("127.0.0.1:7", Path("/tmp/lake"))
SECURE = {
    "Kafka.Bootstrap.Servers": "prod:9092",
    "kafka.security.protocol": "SASL_SSL",
    "kafka.sasl.jaas.config": "secret",
    "kafka.ssl.truststore.location": "/prod",
    "kafka.client.id": "kept",
}
BROKER = {"kafka.client.id": "kept", "kafka.bootstrap.servers": "127.0.0.1:7"}
AT = Location("a.py", 1)


@pytest.mark.parametrize("format", ["kavka", "kafka"])
def test_brokers_and_their_security_are_replaced_whatever_the_spelling(format):
    assert HERE.sink(format, {**SECURE, "topic": "t"}) == {**BROKER, "topic": "t"}
    assert HERE.source(format, SECURE, streaming=False) == BROKER


@pytest.mark.parametrize(
    "given", [{}, {"startingOffsets": "latest"}, {"startingoffsets": "Latest"}]
)
def test_a_stream_from_the_end_begins_at_the_start(given):
    found = HERE.source("kavka", {**SECURE, **given}, streaming=True)
    assert found == {**BROKER, "startingOffsets": "earliest"}


@pytest.mark.parametrize(
    "given",
    [
        {"startingOffsets": "earliest"},
        {"startingOffsets": '{"t":{"0":3}}'},
        {"startingTimestamp": "5"},
        {"startingOffsetsByTimestamp": "{}", "startingOffsets": "latest"},
    ],
)
def test_another_start_is_kept(given):
    assert HERE.source("kavka", {**SECURE, **given}, streaming=True) == {**BROKER, **given}


def test_lakes_have_a_catalogue_of_the_test_and_other_formats_are_left_alone():
    given = {"table": "a.b", "catalog.uri": "prod", "Catalog.token": "secret"}
    assert HERE.sink("kavka-iceberg", given) == {"table": "a.b", "catalog.warehouse": "/tmp/lake"}
    assert HERE.sink("parquet", {"path": "x", "kafka.ssl.a": "b"}) == {
        "path": "x",
        "kafka.ssl.a": "b",
    }


@dataclass(frozen=True)
class Glob:
    include: str


@dataclass(frozen=True)
class Spec:
    name: str = "shop"
    storage: str = "s3://prod"
    catalog: str | None = "lake"
    database: str | None = None
    configuration: Mapping[str, str] = field(
        default_factory=lambda: {
            "spark.sql.catalog.lake.uri": "prod",
            "spark.sql.ansi.enabled": "true",
        }
    )
    libraries: tuple[Glob, ...] = (Glob("transformations/**/*"), Glob("more/a.py"))


def a_project(tmp_path, settings="", of_tests=""):
    (tmp_path / "tests").mkdir()
    (tmp_path / "spark-defaults.conf").write_text(settings)
    if of_tests:
        (tmp_path / "tests" / "spark-defaults.conf").write_text(of_tests)
    return Project(tmp_path / "spark-pipeline.yml", Spec())


def test_storage_catalogue_and_settings_of_a_project_are_the_tests(tmp_path):
    found = isolated_project(a_project(tmp_path), tmp_path / "storage").spec
    assert found.storage == (tmp_path / "storage").as_uri()
    assert found.catalog is None
    assert found.configuration == {"spark.sql.ansi.enabled": "true"}
    assert [one.include for one in found.libraries] == ["transformations/**", "more/a.py"]


def test_settings_of_the_tests_take_the_place_of_those_of_the_specification(tmp_path):
    project = a_project(tmp_path, of_tests="spark.sql.ansi.enabled false\nspark.sql.other 1\n")
    found = isolated_project(project, tmp_path / "storage").spec
    assert found.configuration == {"spark.sql.ansi.enabled": "false"}


def test_a_catalogue_of_the_tests_is_kept(tmp_path):
    project = a_project(tmp_path, of_tests="spark.sql.catalog.lake org.Catalog\n")
    assert isolated_project(project, tmp_path / "storage").spec.catalog == "lake"


def test_the_driver_takes_no_catalogue_metastore_or_master_of_the_project(tmp_path):
    outside = [
        "spark.master spark://prod:7077",
        "spark.sql.catalogImplementation hive",
        "spark.hadoop.hive.metastore.uris thrift://prod:9083",
        "spark.hadoop.javax.jdo.option.ConnectionURL jdbc:derby:prod",
        "spark.sql.catalog.lake.uri prod",
        "spark.sql.warehouse.dir /prod",
    ]
    project = a_project(
        tmp_path, "\n".join([*outside, "spark.jars a.jar"]), "spark.sql.shuffle.partitions 4\n"
    )
    found = driver_settings(project, tmp_path / "tables")
    assert not [value for value in found.values() if "prod" in value]
    assert found["spark.master"] == "local[1]"
    assert found["spark.sql.catalogImplementation"] == "in-memory"
    assert found["spark.sql.warehouse.dir"] == str(tmp_path / "tables")
    assert (found["spark.jars"], found["spark.sql.shuffle.partitions"]) == ("a.jar", "4")


def test_a_project_may_keep_the_files_of_its_tests_apart(tmp_path):
    isolation = "spark.sql.artifact.isolation.enabled"
    project = a_project(tmp_path)
    assert driver_settings(project, tmp_path)[isolation] == "false"
    (tmp_path / "tests" / "spark-defaults.conf").write_text(f"{isolation} true\n")
    assert driver_settings(project, tmp_path)[isolation] == "true"


def test_topics_that_the_project_names_are_found_with_their_partitions():
    def flow(name, **options):
        return FlowDefinition(name, name, AT, (TopicRead("kavka", options, True),))

    sink = OutputDefinition("s", "sink", AT, "kavka", {"Topic": "out"})
    other = OutputDefinition("p", "sink", AT, "parquet", {"topic": "no"})
    flows = [
        flow("a", subscribe="in, more"),
        flow("b", Assign='{"in": [0, 2], "held": [1]}'),
        flow("c", subscribePattern="x.*"),
        flow("d", assign="no JSON"),
    ]
    assert topics(Definitions([sink, other], flows)) == {"in": 3, "more": 1, "held": 2, "out": 1}


def test_databases_are_those_of_tables_and_of_the_specification():
    outputs = [
        OutputDefinition("silver.events", "table", AT),
        OutputDefinition("spark_catalog.`gold`.days", "materialized view", AT),
        OutputDefinition("default.x", "table", AT),
        OutputDefinition("a.view", "temporary view", AT),
    ]
    assert databases(Definitions(outputs), "bronze") == ["bronze", "gold", "silver"]
    assert databases(Definitions(), None) == []
