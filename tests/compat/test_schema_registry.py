"""Schemas with a real registry: Apicurio's, by its API that is Confluent's; it comes from Maven Central."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.schema_registry.avro import AvroSerializer as TheirAvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2

from kavka.client import blocking
from kavka.client.schemas import (
    AvroSerializer,
    IncompatibleSchema,
    JsonSerializer,
    ProtobufSerializer,
    Schema,
    SchemaDeserializer,
    SchemaNotFound,
    SchemaReference,
    SchemaRegistry,
)
from kavka.client.schemas.pinned import PinnedColumns, pin_registered, pin_subject
from kavka.sql.session import Session, SessionOptions
from kavka.sql.value_formats import FormatOptions
from kavka_compat import artifacts
from support.sql_place import rows

if TYPE_CHECKING:
    from kavka_compat.brokers import Broker

pytestmark = [pytest.mark.compat, pytest.mark.long, pytest.mark.timeout(600)]

ARTIFACT = "io.apicurio:apicurio-registry-app:2.6.13.Final:tar.gz:all"
FIRST = '{"type": "record", "name": "R", "fields": [{"name": "n", "type": "long"}]}'
WRONG = '{"type": "record", "name": "R", "fields": [{"name": "t", "type": "string"}]}'
JSON = '{"type": "object", "properties": {"n": {"type": "integer"}}}'
CONTEXT = SerializationContext("clicks", MessageField.VALUE)


def _application() -> Path:
    """Return Apicurio's directory, fetched once."""
    target = artifacts.cache_directory("apicurio-2.6.13")

    def fetch() -> None:
        target.mkdir(parents=True, exist_ok=True)
        goal = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"
        command = ["mvn", "-B", "-q", goal, f"-Dartifact={ARTIFACT}", f"-DoutputDirectory={target}"]
        subprocess.run(command, check=True, capture_output=True)
        for archive in target.glob("*.tar.gz"):
            subprocess.run(["tar", "xzf", archive, "-C", target], check=True)
            archive.unlink()

    artifacts.fetch_once(target, ARTIFACT.encode(), fetch)
    return target


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The URL of a registry in memory."""
    (jar,) = _application().glob("*runner.jar")
    options = ["-Xmx400m", "-Dquarkus.http.port=0", "-Dquarkus.http.host=127.0.0.1"]
    with subprocess.Popen(
        [artifacts.java(), *options, "-jar", str(jar)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            for line in process.stdout:
                found = re.search(r"Listening on: (http://\S+)", line)
                if found:
                    yield f"{found[1]}/apis/ccompat/v7"
                    break
            else:
                raise AssertionError("the registry has ended")
        finally:
            process.kill()


def test_schemas_are_registered_found_and_refused(url: str) -> None:
    registry = SchemaRegistry(url)
    schema_id = registry.register("r-value", Schema(FIRST))
    assert registry.look_up("r-value", Schema(FIRST)) == schema_id
    assert SchemaRegistry(url).schema(schema_id).kind == "AVRO"
    assert registry.version("r-value").schema_id == schema_id
    assert "r-value" in registry.subjects()
    with SchemaRegistryClient({"url": url}) as theirs:
        assert theirs.get_latest_version("r-value").schema_id == schema_id
    with pytest.raises(SchemaNotFound, match="error code 40403"):
        registry.schema(99_999)
    with pytest.raises(SchemaNotFound, match="error code 40401"):
        registry.version("nosuch")
    registry.set_compatibility("BACKWARD", "r-value")
    assert registry.incompatibilities("r-value", Schema(FIRST)) == []
    assert registry.incompatibilities("r-value", Schema(WRONG))
    with pytest.raises(IncompatibleSchema):
        registry.register("r-value", Schema(WRONG))


def test_values_of_all_kinds_are_read_back(url: str) -> None:
    registry = SchemaRegistry(url)
    registry.register(
        "inner-value",
        Schema('{"type": "record", "name": "I", "fields": [{"name": "n", "type": "int"}]}'),
    )
    outer = Schema('{"type": "record", "name": "O", "fields": [{"name": "i", "type": "I"}]}',
                   references=(SchemaReference("I", "inner-value", 1),))  # fmt: skip
    message = descriptor_pb2.FieldOptions.FeatureSupport(deprecation_warning="x")
    written = [
        (AvroSerializer(registry, FIRST, "avro-value")({"n": 5}), {"n": 5}),
        (AvroSerializer(registry, outer, "outer-value")({"i": {"n": 5}}), {"i": {"n": 5}}),
        (JsonSerializer(registry, JSON, "json-value")({"n": 5}), {"n": 5}),
    ]
    reads = SchemaDeserializer(SchemaRegistry(url))
    for data, value in written:
        assert reads(data) == value
    data = ProtobufSerializer(registry, type(message), "proto-value")(message)
    assert reads(data).SerializeToString() == message.SerializeToString()
    with SchemaRegistryClient({"url": url}) as theirs:
        assert AvroDeserializer(theirs)(written[0][0], CONTEXT) == {"n": 5}
        assert reads(TheirAvroSerializer(theirs, FIRST)({"n": 7}, CONTEXT)) == {"n": 7}


def test_sql_reads_with_the_registry(url: str, kavka_broker: Broker, fresh_name: str) -> None:
    settings = {"bootstrap.servers": kavka_broker.bootstrap}
    writes = AvroSerializer(SchemaRegistry(url), FIRST, f"{fresh_name}-value")
    with blocking.Producer(settings | {"value.serializer": writes}) as producer:
        for n in range(10):
            producer.append(fresh_name, {"n": n})
    formats = FormatOptions(registry={"url": url})
    with Session(SessionOptions(settings, formats)) as session:
        query = f"select count(*) c, sum(n)::int s from {session.quoted(fresh_name)}"
        assert rows(session, query) == [{"c": 10, "s": 45}]


def test_columns_are_pinned_with_the_registry(url: str, tmp_path: Path) -> None:
    (tmp_path / "first.avsc").write_text(FIRST)
    (tmp_path / "pinned.proto").write_text('syntax = "proto3"; message P { int32 n = 1; }')
    rows = pa.array([{"n": 5}, {"n": 6}])
    for subject, file in (("pinned-value", "first.avsc"), ("pinned-proto-value", "pinned.proto")):
        registered = pin_registered(url, subject, tmp_path / file)
        pinned = pin_subject(url, subject)
        assert pinned.schema_id == registered.schema_id
        payloads = PinnedColumns(registered).encode(rows).payloads
        unknown = pa.array([b"\0\0\1\x86\x9f"], pa.binary())
        decoded = PinnedColumns(pinned).decode(pa.concat_arrays([payloads, unknown]))
        assert decoded.columns.column("n").to_pylist() == [5, 6, None]
        assert [one.row for one in decoded.bad] == [2]
        assert "error code 40403" in decoded.bad[0].reason
    with SchemaRegistryClient({"url": url}) as theirs:
        payloads = PinnedColumns(pin_subject(url, "pinned-value")).encode(rows).payloads
        assert AvroDeserializer(theirs)(payloads[1].as_py(), CONTEXT) == {"n": 6}
