"""librdkafka's own tests against a cluster of ours: `make librdkafka-tests`.

Fetches Debian's source package (never committed), builds the library and its test runner with the machine's compiler,
runs each test that wants brokers in a process of its own, and prints a table.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from kavka_compat import librdkafka_security
from kavka_compat.artifacts import MissingTool, user_cache
from kavka_compat.killable import run_killable
from kavka_compat.librdkafka_runner import Outcome, Runner
from kavka_compat.word_count import compile_java

_CACHE = user_cache("librdkafka")
_MIRROR = "http://deb.debian.org/debian"
_KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
_BUILT = ".kavka-built"
TRANSACTIONS = ("0098", "0103", "0107", "0129")
NOT_APPLICABLE = {
    "0016": "asks Kafka's JMX through Kafka's own scripts",
    "0028": "a known fault of librdkafka",
    "0047": "a known fault of librdkafka",
    **dict.fromkeys(("0097", "0115", "0119", "0126", "0135", "0142"), "see `security`"),
}
LACKING = {
    "0052": "messages of brokers before 0.11 (magic 0 and 1) are refused, but Kafka 3.9 converts them",
    "0109": "ends with kafka-acls: the brokers of this run have no authorizer; see `security`",
}
"""Tests that fail because a broker of ours does not have something yet; they are run all the same."""
PARTS = {
    "0081": (
        "Topics",
        "Partitions",
        "do_test_AlterConfigs",
        "DescribeConfigs",
        "IncrementalAlterConfigs",
        "Records",
        "DeleteGroups",
        "ConsumerGroup",
        "DescribeCluster",
        "ListOffsets",
    ),
}
"""Sub-tests by a part of their names, where one that needs an authorizer or SCRAM would end the rest."""
_SCENARIOS = {"default": "true", "noautocreate": "false"}
"""The runner's names, and `auto.create.topics.enable` of each."""
_ELSEWHERE = ("", "Filtered due to negative test flags")
"""Reasons why a test is skipped that is of the other scenario, or needs no broker."""
_SETTINGS = {
    "num.partitions": "4",
    "default.replication.factor": "3",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "group.initial.rebalance.delay.ms": "0",
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
}


class NoSources(RuntimeError):
    """The sources cannot be had or built; the text says why and what to do."""


def fetch(suite: str) -> Path:
    """Return the sources of Debian's `suite`, fetching them once. Raise NoSources."""
    target = _CACHE / suite
    source = target / "librdkafka"
    if source.exists():
        return source
    if shutil.which("apt-get") is None:
        raise NoSources(
            "`apt-get` is needed to fetch librdkafka's sources from Debian; "
            "name a directory that has them with --source"
        )
    for part in ("lists/partial", "cache/archives/partial"):
        (target / part).mkdir(parents=True, exist_ok=True)
    sources = target / "sources.list"
    sources.write_text(f"deb-src [signed-by={_KEYS}] {_MIRROR} {suite} main\n")
    # The machine's own lists are left alone.
    options = {
        "Dir::Etc::sourcelist": sources,
        "Dir::Etc::sourceparts": "-",
        "Dir::State::Lists": target / "lists",
        "Dir::Cache": target / "cache",
        "APT::Sandbox::User": "root",
    }
    words = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    try:
        _run(["apt-get", *words, "update"], target, "fetch.out")
        _run(["apt-get", *words, "source", "--download-only", "librdkafka"], target, "fetch.out")
        (archive,) = target.glob("librdkafka_*.orig.tar.gz")
        # As upstream wrote it: Debian's patches want more packages.
        (target / "new").mkdir(exist_ok=True)
        _run(["tar", "-xf", str(archive), "-C", "new", "--strip-components=1"], target, "fetch.out")
    except (NoSources, ValueError) as error:
        raise NoSources(
            f"librdkafka's sources could not be fetched from {_MIRROR} {suite} ({error}); "
            "name a directory that has them with --source"
        ) from None
    return (target / "new").rename(source)


def build(source: Path) -> None:
    """Build library and runner, once. Raise NoSources."""
    has_curl = any(Path("/usr/include").glob("**/curl/curl.h"))
    # A library that was built without libcurl is built again once it is there.
    built = source / (f"{_BUILT}-curl" if has_curl else _BUILT)
    if built.exists():
        return
    for program in ("gcc", "g++", "make"):
        if shutil.which(program) is None:
            raise NoSources(f"`{program}` is needed to build librdkafka")
    if not Path("/usr/include/rapidjson/document.h").exists():
        print(
            "without RapidJSON (Debian's rapidjson-dev) 0098 and 0101 are skipped", file=sys.stderr
        )
    if not has_curl:
        print("without libcurl (Debian's libcurl4-openssl-dev) 0126 fails", file=sys.stderr)
    # Without optimization it is built in a third of the time, and tests are no slower.
    without = ("optimization", "gssapi", "lz4-ext", *(() if has_curl else ("curl",)))
    jobs = f"-j{os.cpu_count()}"
    _run(["./configure", *(f"--disable-{one}" for one in without)], source, "build.out")
    for directory, what in ((".", "libs"), ("tests", "build")):
        _run(["make", jobs, "-C", directory, what], source, "build.out")
    java_tests = source / "tests" / "java"
    compile_java("streams-3.9", java_tests, *sorted(java_tests.glob("*.java")))
    built.touch()


def _run(command: Sequence[str], where: Path, log: str) -> None:
    with (where / log).open("ab") as sink:
        done = subprocess.run(
            list(command),
            cwd=where,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if done.returncode != 0:
        raise NoSources(f"`{' '.join(command[:1] + command[-2:])}` failed: {where / log}")  # type: ignore[operator]


def numbers(source: Path) -> list[str]:
    """Return the numbers of all tests but interactive ones (8000 and above)."""
    return sorted({path.name[:4] for path in (source / "tests").glob("0[0-9][0-9][0-9]-*.c*")})


def _version(source: Path) -> str:
    """Return what the first heading of the changes says."""
    lines = (source / "CHANGELOG.md").read_text().splitlines()
    return next(line.strip("# ") for line in lines if line.startswith("# "))


def run(source: Path, directory: Path, wanted: Sequence[str], quick: bool) -> list[Outcome]:
    """Run tests by number, in each scenario on a cluster of its own, saying each outcome at once."""
    outcomes: list[Outcome] = []
    for scenario, creates in _SCENARIOS.items():
        here = directory / scenario
        here.mkdir(parents=True)
        settings = {**_SETTINGS, "auto.create.topics.enable": creates}
        with run_killable(here, 3, settings) as cluster:
            runner = Runner(source, here, cluster.bootstrap, scenario)
            for number in wanted:
                for outcome in runner.run(number, quick, PARTS.get(number, ("",))):
                    if outcome.state == "SKIPPED" and outcome.reason in _ELSEWHERE:
                        continue
                    print(f"{outcome.state:10} {outcome.seconds:7.1f} s  {outcome}", flush=True)
                    outcomes.append(outcome)
                cluster.assert_alive()
    return outcomes


def main() -> None:
    """Fetch, build, run, and exit with 1 when a test failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "tests", nargs="*", help="numbers, as 0103; `all`; `security`; default: transactions"
    )
    parser.add_argument("--suite", default="sid", help="Debian's release: sid has the newest")
    parser.add_argument(
        "--source", type=Path, help="a directory with the sources, in place of Debian's"
    )
    parser.add_argument("--full", action="store_true", help="the runner's longer tests")
    parser.add_argument("--logs", type=Path, help="where the logs go")
    chosen = parser.parse_args()
    try:
        source = (chosen.source or fetch(chosen.suite)).resolve()
        build(source)
    except (NoSources, MissingTool) as error:
        sys.exit(f"error: {error}")
    wanted = chosen.tests or list(TRANSACTIONS)
    is_security = wanted[0] == "security"
    if wanted == ["all"]:
        wanted = [number for number in numbers(source) if number not in NOT_APPLICABLE]
        for number, reason in NOT_APPLICABLE.items():
            print(f"not run    {number}: {reason}")
    directory = chosen.logs or Path(tempfile.mkdtemp(prefix="kavka-librdkafka-"))
    print(f"{_version(source)}, logs in {directory}", flush=True)
    if is_security:
        outcomes = librdkafka_security.run(source, directory, wanted[1:])
    else:
        outcomes = run(source, directory, wanted, not chosen.full)
    failed = [outcome for outcome in outcomes if outcome.state not in ("PASSED", "SKIPPED")]
    passed = sum(outcome.state == "PASSED" for outcome in outcomes)
    skipped = len(outcomes) - passed - len(failed)
    print(f"{passed} passed, {len(failed)} failed, {skipped} skipped by the runner")
    lacking = librdkafka_security.LACKING if is_security else LACKING
    for outcome in failed:
        print(f"  {outcome.state} {outcome.name}: {lacking.get(outcome.name[:4], outcome.log)}")
    sys.exit(bool(failed) or not passed)


if __name__ == "__main__":
    main()
