"""The Spark session of a pipeline: a driver in this process, or a Spark Connect server elsewhere.

Spark's pipelines speak Spark Connect. For a master (`local[*]`, `spark://...`) this process starts the driver with a
Connect server on loopback and is its client, as Spark's own `spark-pipelines` does; so the driver's objects can be
reached as well (`kavka.pipelines.live`). For `sc://...` there is only the client.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
import signal
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kavka.pipelines.jvm import (
    DriverEnded,
    JvmWatch,
    forget_jvm,
    has_jvm,
    jvm_process,
    start_jvm,
)
from kavka.pipelines.project import PipelineError, Project
from kavka.spark.session import (
    check_spark,
    log_settings,
    put_sources_on_path,
    standard_error_into,
)

log = logging.getLogger(__name__)

_RELEASE_S = 5.0
_CATALOGUE_S = 20.0
_CATALOG = "spark.sql.catalogImplementation"
_METASTORE = "spark.hadoop.javax.jdo.option.ConnectionURL"
_REMOTE_METASTORE = ("spark.hadoop.hive.metastore.uris", "spark.hive.metastore.uris")
_DERBY_DATABASE = re.compile(r"jdbc:derby:;databaseName=([^;]+)")
_WAREHOUSE = "spark.sql.warehouse.dir"
_PLUGIN = "org.apache.spark.sql.connect.SparkConnectPlugin"


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """Options of Spark: a master or a Connect server, with settings."""

    master: str = "local[*]"
    remote: str = ""
    """A Spark Connect server, `sc://host:port`; it excludes a master."""
    conf: Mapping[str, str] = field(default_factory=dict)
    """Settings of the command line; they win over the specification's."""
    log_level: str = "error"


@dataclass(frozen=True, slots=True)
class Session:
    """A session of Spark Connect and, where the driver is in this process, its JVM."""

    spark: Any
    jvm: Any | None
    watch: JvmWatch | None = None
    """It notices when that JVM has ended."""

    def require_driver(self) -> None:
        """Raise DriverEnded when the driver was in this process and has ended."""
        if self.watch is not None:
            self.watch.require_jvm()

    def driver_failure(self, error: BaseException) -> DriverEnded | None:
        """Return the end of the driver if that is why `error` was raised."""
        return None if self.watch is None else self.watch.failure_behind(error)


def session_settings(project: Project, spark_options: SparkOptions) -> dict[str, str]:
    """Return the settings of a driver in this process: defaults, the project's, the command line's.

    Tables are remembered between runs by default: the catalogue is Hive's in an embedded Derby database below the
    storage, unless the project says otherwise.
    """
    given = {**project.defaults, **project.configuration, **spark_options.conf}
    settings = driver_defaults(project.name, spark_options.master)
    return settings | _catalogue(project, given) | given


def driver_defaults(name: str, master: str) -> dict[str, str]:
    """Return the settings that every driver in this process begins with, on loopback where Spark is local."""
    settings = {
        "spark.master": master,
        "spark.app.name": f"kavka pipelines: {name}",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
        # The Connect server is this process's own.
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.plugins": _PLUGIN,
        # It keeps apart the files that sessions upload, and so starts processes of Python for each query: some ten, of
        # half a second of processor time each. A driver in this process has one session.
        "spark.sql.artifact.isolation.enabled": "false",
        "spark.sql.artifact.isolation.alwaysApplyClassloader": "true",
        "spark.sql.connect.serverStacktrace.enabled": "false",
    }
    if master.startswith("local"):
        settings |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.ui.enabled": "false",
        }
    return settings


def _catalogue(project: Project, given: Mapping[str, str]) -> dict[str, str]:
    if given.get(_CATALOG, "hive") != "hive" or any(name in given for name in _REMOTE_METASTORE):
        return {}
    storage = project.storage_path
    if storage is None:
        return {}
    return {
        _CATALOG: "hive",
        _METASTORE: f"jdbc:derby:;databaseName={storage / 'catalog'};create=true",
        _WAREHOUSE: str(storage / "tables"),
    }


@contextmanager
def open_session(project: Project, spark_options: SparkOptions) -> Iterator[Session]:
    """Open the session and stop it at the end. Raise PipelineError, SparkMissing and what Spark raises."""
    if spark_options.remote:
        with _remote(spark_options) as session:
            yield session
        return
    settings = session_settings(project, spark_options)
    failure = storage_failure(project.storage_path) if project.storage_path else ""
    if failure:
        raise PipelineError(f"{project.spec_path}: {failure}")
    if not has_jvm():
        # A JVM of this process keeps the catalogue open from one session to the next.
        require_free_catalogue(settings)
    log_directory = project.storage_path or project.directory
    with open_driver(settings, log_directory, spark_options) as driver:
        yield driver.first


@dataclass(frozen=True, slots=True)
class LocalDriver:
    """A driver in this process."""

    first: Session
    """The session that it was opened with."""
    url: str
    """Of its Connect server, which gives other sessions."""
    watch: JvmWatch

    @contextmanager
    def session(self) -> Iterator[Session]:
        """Open another session of the driver: temporary views, settings and listeners are its own, tables are not."""
        with _watched_client(self.url, self.watch) as spark:
            yield Session(spark, self.first.jvm, self.watch)


@contextmanager
def open_driver(
    settings: Mapping[str, str], log_directory: Path, spark_options: SparkOptions
) -> Iterator[LocalDriver]:
    """Start a driver in this process, with its log below a folder, and stop it at the end.

    Raise DriverEnded, in the place of what its end has raised, when the JVM ends meanwhile.
    """
    check_spark()
    settings = dict(settings)
    with ExitStack() as stack:
        prepare_environment(spark_options)
        java = log_settings(log_directory, spark_options.log_level)
        java += f" -Dderby.stream.error.file={log_directory / 'derby.log'}"
        extra = settings.get("spark.driver.extraJavaOptions", "")
        settings["spark.driver.extraJavaOptions"] = f"{java} {extra}".strip()
        settings.setdefault("spark.executorEnv.PYTHONPATH", os.environ.get("PYTHONPATH", ""))
        if not settings["spark.executorEnv.PYTHONPATH"]:
            del settings["spark.executorEnv.PYTHONPATH"]
        spark_log = log_directory / "spark.log"
        with standard_error_into(spark_log):
            classic = _start_driver(settings)
        watch = JvmWatch(jvm_process(), spark_log)
        stack.callback(_stop_driver, classic, watch)
        watch.start()
        stack.callback(watch.close)
        jvm = classic._jvm
        url = f"sc://localhost:{connect_service(jvm).localPort()}"
        os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"
        stack.callback(os.environ.pop, "SPARK_CONNECT_MODE_ENABLED", None)
        spark = stack.enter_context(_watched_client(url, watch))
        try:
            yield LocalDriver(Session(spark, jvm, watch), url, watch)
        except Exception as error:
            ended = watch.failure_behind(error)
            if ended is None or ended is error:
                raise
            raise ended from error


def require_free_catalogue(settings: Mapping[str, str], wait_s: float = _CATALOGUE_S) -> None:
    """Raise PipelineError when another process has the embedded catalogue open, which Spark says late and obscurely.

    Derby holds a lock on a file of the database as long as it is open. The JVM of a run that was killed ends a little
    later than the run: it is waited for.
    """
    deadline = time.monotonic() + wait_s
    while True:
        try:
            _try_catalogue(settings)
            return
        except PipelineError:
            if time.monotonic() >= deadline:
                raise
        time.sleep(0.2)


def _try_catalogue(settings: Mapping[str, str]) -> None:
    match = _DERBY_DATABASE.match(settings.get(_METASTORE, ""))
    if match is None or settings.get(_CATALOG) != "hive":
        return
    try:
        with open(Path(match[1]) / "dbex.lck", "r+b") as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return  # there is no database yet
    except OSError as error:
        raise PipelineError(
            f"another process has this project's catalogue open ({match[1]}): stop that run first, or share "
            "a metastore (spark.hadoop.hive.metastore.uris in spark-defaults.conf)"
        ) from error


def connect_service(jvm: Any) -> Any:
    """Return the Connect server of the driver in this process."""
    package = jvm.org.apache.spark.sql.connect.service
    return getattr(getattr(package, "SparkConnectService$"), "MODULE$")


def prepare_environment(spark_options: SparkOptions) -> None:
    """Choose the Python of drivers and executors, and the secret of Spark Connect, where the user has not."""
    is_local = spark_options.master.startswith("local")
    python = os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # The driver's JVM takes this one first; on executors the other may be a path that only they have.
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", python if is_local else sys.executable)
    os.environ.setdefault("SPARK_CONNECT_AUTHENTICATE_TOKEN", str(uuid.uuid4()))
    if is_local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    put_sources_on_path()


def _start_driver(settings: Mapping[str, str]) -> Any:
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    if SparkContext._active_spark_context is not None:
        raise PipelineError("this process has a Spark session: run the pipeline in another one")
    conf = SparkConf().setAll(list(settings.items()))
    # PySpark cancels all jobs at Ctrl-C, from within whatever talks to the JVM just then: here a run ends in order.
    at_interrupt = signal.getsignal(signal.SIGINT)
    try:
        start_jvm(conf)
        return SparkSession(SparkContext.getOrCreate(conf))
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, at_interrupt)


def _stop_driver(classic: Any, watch: JvmWatch) -> None:
    from pyspark.sql import SparkSession

    if watch.has_ended:
        forget_jvm()
    else:
        classic.stop()
    SparkSession._instantiatedSession = None


def static_settings(session: Session) -> frozenset[str]:
    """Return the settings of Spark SQL that are fixed when the driver starts; none where it is elsewhere."""
    if session.jvm is None:
        return frozenset()
    configs = session.jvm.PythonSQLUtils.listStaticSQLConfigs()
    return frozenset(config._1() for config in configs)


@contextmanager
def _remote(spark_options: SparkOptions) -> Iterator[Session]:
    os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"
    spark = _client(spark_options.remote)
    for name, value in spark_options.conf.items():
        spark.conf.set(name, value)
    try:
        yield Session(spark, None)
    finally:
        _release(spark)
        os.environ.pop("SPARK_CONNECT_MODE_ENABLED", None)


def _client(url: str) -> Any:
    from pyspark.errors import PySparkException
    from pyspark.sql.connect.session import SparkSession

    try:
        return SparkSession.builder.remote(url).create()
    except PySparkException as error:
        raise PipelineError(f"no session with {url}: {error}") from error


@contextmanager
def _watched_client(url: str, watch: JvmWatch) -> Iterator[Any]:
    """Open a session of a driver in this process, and release it at the end, unless the driver has ended."""
    spark = _client(url)
    watch.add(spark)
    try:
        yield spark
    finally:
        watch.discard(spark)
        if watch.has_ended:
            _clear_active_session(spark)
        else:
            _release(spark)


def _release(spark: Any) -> None:
    """End the session at the server. `SparkSession.stop` would stop a server in this process too, and wait for it."""

    def release() -> None:
        try:
            spark.client.release_session()
            spark.client.close()
        except Exception as error:  # noqa: BLE001 - the server forgets a session that is not used
            log.info("session was not released error=%s", error)

    within(_RELEASE_S, release)
    _clear_active_session(spark)


def _clear_active_session(spark: Any) -> None:
    """Remove the active session, as `stop` does, so that the next one of this process becomes active."""
    from pyspark.sql.connect.session import SparkSession

    if SparkSession._default_session is spark:
        SparkSession._default_session = None
    if getattr(SparkSession._active_session, "session", None) is spark:
        SparkSession._active_session.session = None


def within(seconds: float, work: Callable[[], object]) -> None:
    """Run `work`, but wait for it no longer than this: Spark's client may block at its end."""
    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    worker.join(seconds)


def with_archive(conf: Mapping[str, str], archive: str) -> dict[str, str]:
    """Return settings with which workers unpack an archive of `kavka spark-package` and find kavka in it."""
    given = conf.get("spark.archives", "")
    ours = f"{Path(archive).resolve()}#kavka-spark"
    return {
        "spark.executorEnv.PYTHONPATH": "kavka-spark",
        **conf,
        "spark.archives": ",".join(filter(None, (given, ours))),
    }


def storage_failure(path: Path) -> str:
    """Make a folder of checkpoints if need be, and return why it cannot be written; nothing when it can."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror or str(error)
    else:
        reason = "" if os.access(path, os.W_OK) else "Permission denied"
    if not reason:
        return ""
    return f"storage {path} cannot be written by this user ({reason}): name another folder as `storage`"
