"""The pytest plugin: brokers as fixtures. Found by itself where kavka is installed.

    def test_orders_are_copied(kavka_broker):
        orders = kavka_broker.topic("orders")
        orders.send("tea")
        copy(kavka_broker.bootstrap_servers, orders.name)

Runs of pytest that use none of the fixtures pay for the import of this module, which imports nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from typing import Unpack

    from kavka.testing.cluster import Cluster, SecurityArguments
    from kavka.testing.topic import Topic


class StartCluster(Protocol):
    """The type of the fixture `kavka_start`."""

    def __call__(
        self,
        *,
        brokers: int = 1,
        settings: Mapping[str, object] | None = None,
        **security: Unpack[SecurityArguments],
    ) -> Cluster:
        """Start a cluster; its caller closes it, by `with` or `close`."""
        ...


_FIXTURES = frozenset({"kavka_session_broker", "kavka_start"})
"""The fixtures on which all others stand."""
_MARKER = (
    "kavka_cluster(brokers=3, settings=None, users=None, tls=False, client_certificates=False, "
    "authorization=False): what the fixture kavka_cluster starts"
)
_SETTINGS_HELP = "a setting of server.properties of all brokers, NAME=VALUE"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options, and the same for the ini file."""
    group = parser.getgroup("kavka", "brokers of kavka")
    options: list[tuple[str, str, dict[str, Any]]] = [
        ("brokers", "how many brokers kavka_cluster starts without a marker (3)", {"metavar": "N"}),
        (
            "bootstrap-servers",
            "an existing cluster in place of brokers of the plugin's own",
            {"metavar": "SERVERS"},
        ),
        (
            "command-config",
            "a properties file with the settings of the existing cluster's clients",
            {"metavar": "FILE"},
        ),
        ("dir", "keep the shared broker's data there, from run to run", {"metavar": "PATH"}),
        (
            "keep-data",
            "keep the brokers' directory: failed (if a test failed), always, never (failed)",
            {"choices": ("failed", "always", "never")},
        ),
        ("log-level", "level of the brokers' log (info)", {"metavar": "LEVEL"}),
        (
            "log-lines",
            "lines of the brokers' log in the report of a failed test (40)",
            {"metavar": "N"},
        ),
    ]
    for name, text, more in options:
        group.addoption(f"--kavka-{name}", default=None, help=text, **more)
        parser.addini(f"kavka_{name.replace('-', '_')}", text, default="")
    group.addoption(
        "--kavka-setting", action="append", default=[], metavar="NAME=VALUE", help=_SETTINGS_HELP
    )
    parser.addini("kavka_settings", f"{_SETTINGS_HELP}, one a line", type="linelist")


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known, and check the options."""
    config.addinivalue_line("markers", _MARKER)
    config.stash[_OPTIONS] = Options(config)
    _import_as_written(config)


def _import_as_written(config: pytest.Config) -> None:
    """Have pytest compile kavka's modules as Python does.

    It rewrites the assertions in all modules of a distribution with a plugin, the clients' too, which costs half a
    second of processor time where bytecode is not kept. It has no public call for this: a pytest without these names
    rewrites, as it does for others.
    """
    names = getattr(config.pluginmanager.rewrite_hook, "_must_rewrite", None)
    if isinstance(names, set):
        names.discard("kavka")


class Options:
    """The options in force: the command line's, else the ini file's, else the defaults."""

    def __init__(self, config: pytest.Config) -> None:
        """Read and check them. Raise UsageError."""
        self._config = config
        self.brokers = self._number("brokers", 3, 1)
        self.directory = self._text("dir", "")
        self.keep_data = self._one_of("keep-data", ("failed", "always", "never"))
        self.log_level = self._one_of("log-level", ("info", "debug", "warning", "error"))
        self.log_lines = self._number("log-lines", 40, 0)
        lines = [*config.getini("kavka_settings"), *config.getoption("kavka_setting")]
        self.settings = dict(self._setting(line) for line in lines)
        self.existing = self._existing()
        """The settings of the clients of an existing cluster; None without one."""

    def _existing(self) -> dict[str, str] | None:
        servers, path = self._text("bootstrap-servers", ""), self._text("command-config", "")
        if not servers:
            if path:
                raise pytest.UsageError(
                    "--kavka-command-config: give --kavka-bootstrap-servers too"
                )
            return None
        if self.settings:
            raise pytest.UsageError("--kavka-setting: an existing cluster keeps its settings")
        return {**_properties(path), "bootstrap.servers": servers}

    def _text(self, name: str, default: str) -> str:
        key = f"kavka_{name.replace('-', '_')}"
        return str(self._config.getoption(key) or self._config.getini(key) or default)

    def _number(self, name: str, default: int, least: int) -> int:
        text = self._text(name, str(default))
        if not text.isdecimal() or int(text) < least:
            raise pytest.UsageError(f"--kavka-{name}={text}: give a number from {least} on")
        return int(text)

    def _one_of(self, name: str, values: tuple[str, ...]) -> str:
        text = self._text(name, values[0]).lower()
        if text not in values:
            raise pytest.UsageError(f"--kavka-{name}={text}: one of {', '.join(values)}")
        return text

    @staticmethod
    def _setting(line: str) -> tuple[str, str]:
        name, equals, value = line.partition("=")
        if not equals or not name.strip():
            raise pytest.UsageError(f"--kavka-setting {line!r}: give NAME=VALUE")
        return name.strip(), value.strip()


def _properties(path: str) -> dict[str, str]:
    if not path:
        return {}
    from kavka.settings.properties import parse_properties

    try:
        return dict(parse_properties(Path(path).read_text()))
    except (OSError, ValueError) as error:
        raise pytest.UsageError(f"--kavka-command-config {path}: {error}") from error


class Runtime:
    """The process of the brokers, started for the first test that needs it, and its directory."""

    def __init__(self, config: pytest.Config) -> None:
        """Start the process; it imports what it needs while pytest goes on."""
        from kavka.testing.host_process import HostProcess

        self.options = config.stash[_OPTIONS]
        self._is_persistent = bool(self.options.directory)
        self.directory = _directory(config, self.options.directory)
        self.log_file = self.directory / "brokers.log"
        self.host = HostProcess(self.log_file, self.options.log_level)
        self.log_start = 0
        self.has_failures = False
        self.shared: Cluster | None = None
        self.open: list[Cluster] = []
        self._count = 0
        self._own: list[Path] = []
        """The directories of this run's clusters, the shared broker's aside."""
        self._not_reached = ""

    def start(self, folder: str = "", **options: Any) -> Cluster:
        """Start a cluster, with the settings of the options beneath its own; or use the existing one."""
        if self.options.existing is not None:
            return self._attach(self.options.existing, options)
        from kavka.testing.cluster import Cluster

        path = self.directory / folder if folder else self._new_directory()
        settings = options.pop("settings", None) or {}
        if isinstance(settings, Mapping):  # else the cluster refuses it
            settings = {**self.options.settings, **settings}
        try:
            cluster = Cluster(self.host, path, settings=settings, **options)
        except BlockingIOError as error:
            given = self.options.directory
            raise RuntimeError(f"--kavka-dir={given}: another run of pytest uses it") from error
        self.open.append(cluster)
        return cluster

    def _attach(self, client_settings: dict[str, str], options: dict[str, Any]) -> Cluster:
        """Use the existing cluster. One that was not reached is not tried again: each try takes its timeout."""
        from kavka.testing.existing import attached

        if self._not_reached:
            raise RuntimeError(self._not_reached)
        options.pop("has_registry", None)
        try:
            existing = attached(self.host, client_settings, options)
        except RuntimeError as error:
            self._not_reached = str(error)
            raise
        self.open.append(existing)
        return existing

    def _new_directory(self) -> Path:
        """Make a directory that no cluster has used; with --kavka-dir, another run may have left some."""
        while True:
            self._count += 1
            path = self.directory / f"cluster-{self._count}"
            try:
                path.mkdir()
            except FileExistsError:
                continue
            self._own.append(path)
            return path

    def start_named(self, **options: Any) -> Cluster:
        """Start a cluster as a test says. Raise TypeError for an argument that there is not."""
        _require_arguments("kavka_start", (), options)
        return self.start(**options)

    def shared_broker(self) -> Cluster:
        """Return the broker that tests share."""
        if self.shared is None:
            self.shared = self.start("shared", has_registry=False)
        return self.shared

    def end(self) -> None:
        """End the process; remove the directory, unless it is to be kept."""
        for cluster in self.open:
            if cluster.is_existing:
                cluster.close()
        self.host.end()
        keep = self.options.keep_data
        if keep == "always" or (keep == "failed" and self.has_failures):
            return
        import shutil

        for path in self._own if self._is_persistent else [self.directory]:
            shutil.rmtree(path, ignore_errors=True)


def _require_arguments(name: str, args: tuple[Any, ...], options: Mapping[str, Any]) -> None:
    from kavka.testing.cluster import SecurityArguments

    if args:
        raise TypeError(f"{name}: give {args[0]!r} by its name, as in brokers=3")
    known = ("brokers", "settings", *SecurityArguments.__annotations__)
    unknown = sorted(options.keys() - set(known))
    if unknown:
        raise TypeError(f"{name}: no argument {unknown[0]!r}; these are: {', '.join(known)}")


_OPTIONS = pytest.StashKey[Options]()
_RUNTIME = pytest.StashKey[Runtime]()


def _directory(config: pytest.Config, given: str) -> Path:
    if given:
        path = config.invocation_params.dir / given / os.environ.get("PYTEST_XDIST_WORKER", "")
        path.mkdir(parents=True, exist_ok=True)
        return path
    factory = getattr(config, "_tmp_path_factory", None)
    if factory is not None:
        return Path(factory.mktemp("kavka"))
    import tempfile

    return Path(tempfile.mkdtemp(prefix="kavka-pytest-"))


def _runtime(config: pytest.Config) -> Runtime:
    if _RUNTIME not in config.stash:
        config.stash[_RUNTIME] = Runtime(config)
    return config.stash[_RUNTIME]


def _uses_brokers(item: pytest.Item) -> bool:
    return not _FIXTURES.isdisjoint(getattr(item, "fixturenames", ()))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Start the brokers' process if a test will need it, so that it is ready when that begins."""
    config = session.config
    if not config.getoption("collectonly") and any(map(_uses_brokers, session.items)):
        _runtime(config)


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the brokers' process."""
    if _RUNTIME in config.stash:
        config.stash[_RUNTIME].end()
        del config.stash[_RUNTIME]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Remember where the brokers' log of this test begins."""
    if _uses_brokers(item) and _RUNTIME in item.config.stash:
        runtime = item.config.stash[_RUNTIME]
        runtime.log_start = runtime.log_file.stat().st_size


@pytest.hookimpl(hookwrapper=True)  # `wrapper` is unknown to older releases of pluggy
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, Any, None]:
    """Add the brokers' log and the topics to the report of a test that failed."""
    outcome = yield
    report: pytest.TestReport = outcome.get_result()
    if report.failed and _uses_brokers(item) and _RUNTIME in item.config.stash:
        from kavka.testing.report import sections

        runtime = item.config.stash[_RUNTIME]
        runtime.has_failures = True
        item.stash[_FAILED] = True
        report.sections += sections(
            runtime.open, runtime.log_file, runtime.log_start, runtime.options.log_lines
        )
        if runtime.options.keep_data != "never":
            report.sections.append(("Kafka brokers' data", str(runtime.directory)))


_FAILED = pytest.StashKey[bool]()


@pytest.fixture(scope="session")
def kavka_session_broker(request: pytest.FixtureRequest) -> Cluster:
    """Give the broker that all tests of this process share, for fixtures that live longer than a test."""
    return _runtime(request.config).shared_broker()


@pytest.fixture
def kavka_broker(
    request: pytest.FixtureRequest, kavka_session_broker: Cluster
) -> Iterator[Cluster]:
    """Give the shared broker, without faults and with no topic or group of another test."""
    broker = kavka_session_broker
    if broker.is_existing:
        yield broker
        broker.reset()
        if request.config.stash[_OPTIONS].keep_data != "always":
            broker.clean()
        return
    before = _topics_before(broker)
    asked_for_before = dict(broker.topics)
    yield broker
    options = request.config.stash[_OPTIONS]
    has_failed = request.node.stash.get(_FAILED, False)
    broker.reset()
    keep = options.keep_data == "always" or (has_failed and options.keep_data == "failed")
    # Those with names of their own disturb no other test.
    kept = broker.unique_topics if keep else set()
    gone = [name for name in broker.helper("topics") if name not in before and name not in kept]
    if gone:
        broker.helper("delete_topics", gone)
        broker.removed_topics.update(gone)
    broker.helper("delete_groups")
    broker.topics = asked_for_before


def _topics_before(broker: Cluster) -> set[str]:
    """Return the topics that are not the test's own, without what an application that goes on has made again.

    Such a topic has a name that was removed after an earlier test, and `topic` has not made it since.
    """
    found = set(broker.helper("topics"))
    again = found & broker.removed_topics
    if again:
        broker.helper("delete_topics", sorted(again))
    return found - again


@pytest.fixture
def kavka_topic(request: pytest.FixtureRequest, kavka_broker: Cluster) -> Topic:
    """Give a topic of the shared broker, with one partition and a name of its own, that of the test in front."""
    name = "".join(c if c.isalnum() else "-" for c in request.node.name if c.isascii())
    return kavka_broker.topic(name.strip("-")[:100] or "topic")


@pytest.fixture(scope="session")
def kavka_start(request: pytest.FixtureRequest) -> StartCluster:
    """Give a function that starts a cluster; its caller closes it, by `with` or `close`."""
    return _runtime(request.config).start_named


@pytest.fixture
def kavka_cluster(request: pytest.FixtureRequest, kavka_start: StartCluster) -> Iterator[Cluster]:
    """Give a cluster of the test's own, as the marker `kavka_cluster` says."""
    marker = request.node.get_closest_marker("kavka_cluster")
    options = {} if marker is None else dict(marker.kwargs)
    _require_arguments("kavka_cluster", () if marker is None else marker.args, options)
    options.setdefault("brokers", request.config.stash[_OPTIONS].brokers)
    with kavka_start(**options) as cluster:
        yield cluster
