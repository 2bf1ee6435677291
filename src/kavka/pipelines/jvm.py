"""The JVM of this process, in which Spark's driver runs: started, watched, ended.

It has a process group of its own, so that a signal to the group of this process (`timeout`, a shell, a supervisor)
does not end it in the middle of a batch. It ends when its standard input is closed, with this process at the latest.
"""

from __future__ import annotations

import logging
import subprocess
import threading
import warnings
from pathlib import Path
from typing import Any

from kavka.pipelines.project import PipelineError

_POLL_S = 0.2
_REAPED_S = 5.0
"""Seconds in which a process whose connections were reset is seen as ended."""
_LISTENER_WARNING = "StreamingQueryListenerBus Handler thread received exception"


class DriverEnded(PipelineError):
    """The JVM with Spark's driver ended by itself, or was killed."""


def has_jvm() -> bool:
    """Return whether this process has started a JVM, which stays when its driver stops."""
    from pyspark import SparkContext

    return SparkContext._gateway is not None


def start_jvm(conf: Any) -> None:
    """Start the JVM unless there is one. Raise what Spark raises."""
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway

    if not has_jvm():
        SparkContext._ensure_initialized(gateway=launch_gateway(conf, {"process_group": 0}))


def jvm_process() -> subprocess.Popen[bytes] | None:
    """Return the process of the JVM; None without one, or where another program has started it."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    return None if gateway is None else gateway.proc


def end_jvm(timeout_s: float) -> bool:
    """End the JVM of this process, whose driver has stopped, and return whether it ended by itself.

    One that does not end in time is killed.
    """
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    if gateway is None:
        return False
    SparkContext._gateway = SparkContext._jvm = None
    gateway.shutdown()
    process = gateway.proc
    process.stdin.close()
    try:
        return bool(process.wait(timeout_s) == 0)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return False


class JvmWatch:
    """Notices that the JVM has ended. Then it closes the clients' channels: calls would be tried for ten minutes."""

    def __init__(self, process: subprocess.Popen[bytes] | None, log: Path) -> None:
        """Watch a process, None where another program has started it; its log is named in the failure."""
        self._process = process
        self._log = log
        self._clients: list[Any] = []
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="jvm-watch", daemon=True)

    def start(self) -> None:
        """Start the thread that watches."""
        logging.getLogger().addFilter(_is_no_broken_call)
        self._thread.start()

    def close(self) -> None:
        """End the thread."""
        logging.getLogger().removeFilter(_is_no_broken_call)
        self._closing.set()
        self._thread.join()

    def add(self, spark: Any) -> None:
        """Add a session of Spark Connect whose channel is closed when the JVM ends."""
        with self._lock:
            self._clients.append(spark.client)

    def discard(self, spark: Any) -> None:
        """Forget a session that was added."""
        with self._lock:
            self._clients.remove(spark.client)

    @property
    def has_ended(self) -> bool:
        """Return whether the JVM has ended."""
        return self._process is not None and self._process.poll() is not None

    def require_jvm(self) -> None:
        """Raise DriverEnded when the JVM has ended."""
        if self.has_ended:
            raise DriverEnded(self._reason())

    def failure_behind(self, error: BaseException) -> DriverEnded | None:
        """Return the end of the JVM if that is why `error` was raised: its connections break a little earlier."""
        if isinstance(error, DriverEnded):
            return error
        if self._process is None:
            return None
        if _is_of_a_connection(error):
            try:
                self._process.wait(_REAPED_S)
            except subprocess.TimeoutExpired:
                return None
        return DriverEnded(self._reason()) if self.has_ended else None

    def _reason(self) -> str:
        assert self._process is not None, "it has ended"
        code = self._process.returncode
        end = f"with exit code {code}" if code >= 0 else f"by signal {-code}"
        hint = ", as when the machine has no memory left" if code in (-9, 137) else ""
        return (
            f"Spark's driver ended {end}{hint}: its JVM is gone ({self._log} may say why). The next start continues "
            "from the checkpoints; spark.driver.memory in spark-defaults.conf bounds its memory"
        )

    def _watch(self) -> None:
        while not self._closing.wait(_POLL_S):
            if self.has_ended:
                self._close_channels()
                return

    def _close_channels(self) -> None:
        # The thread of Spark's listeners, whose stream of reports ends with the channel, warns of that.
        warnings.filterwarnings("ignore", message=_LISTENER_WARNING)
        with self._lock:
            for client in self._clients:
                client._channel.close()
                # Else the client asks the server to clean up at the interpreter's end.
                client._closed = True


def forget_jvm() -> None:
    """Forget a JVM that has ended, so that this process may start another one."""
    from pyspark import SparkContext

    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None


def _is_no_broken_call(record: logging.LogRecord) -> bool:
    """Return whether a record is to be logged: py4j logs a call that breaks with its stack, and raises it as well."""
    return "py4j" not in Path(record.pathname).parts


def _is_of_a_connection(error: BaseException) -> bool:
    """Return whether py4j or gRPC, or a socket of theirs, is among the causes of an error."""
    causes: BaseException | None = error
    while causes is not None:
        if isinstance(causes, (ConnectionError, EOFError)):
            return True
        if type(causes).__module__.partition(".")[0] in ("py4j", "grpc"):
            return True
        causes = causes.__cause__ or causes.__context__
    return False
