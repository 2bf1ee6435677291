"""The jars of Apache Kafka, copied once from Maven Central into a cache outside the repository.

`python -m kavka_compat.artifacts` fetches every release that the tests use; it returns at once when all are there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

POM = Path(__file__).resolve().parent.parent / "pom.xml"
RELEASES = ("3.9", "4.1")
ZOOKEEPER = "zookeeper-3.9"
"""A release of ZooKeeper alone: Apache Kafka 3.9 comes with 3.8."""
STREAMS = ("streams-3.9", "streams-4.1")
"""Kafka Streams, its client and a compiler for programs that use them."""
_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
_COMPLETE = ".complete"
_INSTALL = "Apache Kafka's tests need {what}; install it with: apt-get install -y maven openjdk-17-jre-headless"


class MissingTool(RuntimeError):
    """Something that the machine must have is not there; the text says what to install."""


def user_cache(name: str) -> Path:
    """Return a directory of the user's cache, in which tests keep what they fetch; it need not exist yet."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kavka" / name


def cache_directory(release: str) -> Path:
    """Return where the jars of `release` are kept, whether or not they are there yet."""
    return user_cache("apache-kafka") / release


def java() -> str:
    """Return the path of `java`. Raise MissingTool when there is none."""
    return _tool("java")


def jars(release: str) -> list[Path]:
    """Return the sorted jars of `release`, fetching them first when the pom is newer than the cache."""
    target = cache_directory(release)
    fetch_once(target, _pom(release).read_bytes(), lambda: _fetch(release, target))
    return sorted(target.glob("*.jar"))


def fetch_once(target: Path, wanted: bytes, fetch: Callable[[], None]) -> None:
    """Have `fetch` fill `target`, unless it was filled before for the same `wanted`, all that names what is fetched."""
    complete = target / _COMPLETE
    if not complete.exists() or complete.read_bytes() != wanted:
        fetch()
        complete.write_bytes(wanted)


def _tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise MissingTool(_INSTALL.format(what=f"`{name}`"))
    return found


def _pom(release: str) -> Path:
    kind, dash, _version = release.partition("-")
    return POM.parent / kind / "pom.xml" if dash else POM


def _fetch(release: str, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    print(f"fetching {_name(release)} from Maven Central into {target}", file=sys.stderr)
    command = [_tool("mvn"), "-B", "-q", "-f", str(_pom(release)), "-P", release, _GOAL]
    finished = subprocess.run(
        [*command, "-DincludeScope=runtime", f"-DoutputDirectory={target}"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if finished.returncode != 0:
        raise RuntimeError(
            f"mvn could not fetch {_name(release)}:\n{finished.stdout}{finished.stderr}"
        )


def _name(release: str) -> str:
    kind, dash, version = release.partition("-")
    names = {"zookeeper": "Apache ZooKeeper", "streams": "Kafka Streams"}
    return f"{names[kind]} {version}" if dash else f"Apache Kafka {release}"


def main() -> None:
    """Fetch all releases; the text of a failure is one sentence."""
    try:
        java()
        for release in (*RELEASES, ZOOKEEPER, *STREAMS):
            count = len(jars(release))
            print(f"{_name(release)}: {count} jars in {cache_directory(release)}")
    except (MissingTool, RuntimeError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
