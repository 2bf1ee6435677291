"""The REST catalogue of Apache Iceberg's own tests, as a server: jars of Maven Central, fetched once."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kavka_compat.artifacts import user_cache
from support.waiting import wait_until

_ICEBERG, _JETTY = "1.11.0", "12.1.14"
_ARTIFACTS = (
    f"org.apache.iceberg:iceberg-open-api:{_ICEBERG}:test-fixtures",
    f"org.apache.iceberg:iceberg-core:{_ICEBERG}",
    f"org.apache.iceberg:iceberg-core:{_ICEBERG}:tests",
    f"org.eclipse.jetty.ee10:jetty-ee10-servlet:{_JETTY}",
    f"org.eclipse.jetty.compression:jetty-compression-server:{_JETTY}",
    f"org.eclipse.jetty.compression:jetty-compression-gzip:{_JETTY}",
    "org.xerial:sqlite-jdbc:3.50.3.0",
    "org.apache.hadoop:hadoop-client-api:3.4.1",
    "org.apache.hadoop:hadoop-client-runtime:3.4.1",
)
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>test</groupId><artifactId>test</artifactId><version>1</version><dependencies>{}</dependencies></project>"""
_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
_SERVER = "org.apache.iceberg.rest.RESTCatalogServer"


def _jars() -> Path:
    """Return the directory of jars. Raise RuntimeError when maven cannot fetch them."""
    directory = user_cache(f"iceberg-rest-{_ICEBERG}")
    if directory.exists():
        return directory
    partial = directory.with_name(f"{directory.name}.{os.getpid()}")
    partial.mkdir(parents=True)
    (partial / "pom.xml").write_text(_POM.format("".join(map(_dependency, _ARTIFACTS))))
    command = ["mvn", "-B", "-q", "-f", str(partial / "pom.xml"), _GOAL, f"-DoutputDirectory={partial}"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        shutil.rmtree(partial)
        raise RuntimeError(f"mvn could not fetch the REST catalogue:\n{done.stdout}{done.stderr}")
    partial.rename(directory)
    return directory


def _dependency(artifact: str) -> str:
    group, name, version, *classifier = artifact.split(":")
    more = f"<classifier>{classifier[0]}</classifier>" if classifier else ""
    return (
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId>"
        f"<version>{version}</version>{more}</dependency>"
    )


@contextmanager
def rest_catalog(directory: Path) -> Iterator[dict[str, str]]:
    """Run the server, with a warehouse in a directory, and give the properties of its catalogue."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    settings = {
        "CATALOG_REST_PORT": str(port),
        "CATALOG_WAREHOUSE": str(directory / "warehouse"),
        "CATALOG_URI": f"jdbc:sqlite:{directory / 'catalog.db'}",
        "CATALOG_CATALOG__IMPL": "org.apache.iceberg.jdbc.JdbcCatalog",
    }
    with (directory / "server.log").open("wb") as log:
        process = subprocess.Popen(
            ["java", "-cp", f"{_jars()}/*", _SERVER],
            env={**os.environ, **settings},
            stdout=log,
            stderr=log,
        )
    uri = f"http://127.0.0.1:{port}"
    try:
        _wait_for(f"{uri}/v1/config", process)
        yield {"type": "rest", "uri": uri}
    finally:
        process.kill()
        process.wait()


def _wait_for(url: str, process: subprocess.Popen[bytes]) -> None:

    def answers() -> bool:
        try:
            with urllib.request.urlopen(url, timeout=5) as response:
                response.read()
        except OSError:
            assert process.poll() is None, "the server has ended"
            return False
        return True

    wait_until(answers, 120, "the server answers")
