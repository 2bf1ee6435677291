"""Apache Kafka: its command-line tools and its brokers as real processes."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from kavka.spark.class_archive import ClassArchive
from kavka_compat.artifacts import cache_directory, jars, java
from kavka_compat.brokers import Broker
from kavka_compat.processes import Running, free_port

_TOOLS = "org.apache.kafka.tools."
_MAIN_CLASSES = {
    "kafka-acls": _TOOLS + "AclCommand",
    "kafka-broker-api-versions": _TOOLS + "BrokerApiVersionsCommand",
    "kafka-cluster": _TOOLS + "ClusterTool",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-console-consumer": _TOOLS + "consumer.ConsoleConsumer",
    "kafka-console-producer": _TOOLS + "ConsoleProducer",
    "kafka-consumer-groups": _TOOLS + "consumer.group.ConsumerGroupCommand",
    "kafka-consumer-perf-test": _TOOLS + "ConsumerPerformance",
    "kafka-delegation-tokens": _TOOLS + "DelegationTokenCommand",
    "kafka-delete-records": _TOOLS + "DeleteRecordsCommand",
    "kafka-dump-log": "kafka.tools.DumpLogSegments",
    "kafka-features": _TOOLS + "FeatureCommand",
    "kafka-e2e-latency": _TOOLS + "EndToEndLatency",
    "kafka-get-offsets": _TOOLS + "GetOffsetShell",
    "kafka-leader-election": _TOOLS + "LeaderElectionCommand",
    "kafka-log-dirs": _TOOLS + "LogDirsCommand",
    "kafka-producer-perf-test": _TOOLS + "ProducerPerformance",
    "kafka-reassign-partitions": _TOOLS + "reassign.ReassignPartitionsCommand",
    "kafka-replica-verification": _TOOLS + "ReplicaVerificationTool",
    "kafka-server-start": "kafka.Kafka",
    "kafka-storage": "kafka.tools.StorageTool",
    "kafka-streams-application-reset": _TOOLS + "StreamsResetter",
    "kafka-topics": _TOOLS + "TopicCommand",
    "kafka-transactions": _TOOLS + "TransactionsCommand",
    "kafka-verifiable-consumer": _TOOLS + "VerifiableConsumer",
    "kafka-verifiable-producer": _TOOLS + "VerifiableProducer",
    "zookeeper-security-migration": "kafka.admin.ZkSecurityMigrator",
    "zookeeper-shell": "org.apache.zookeeper.ZooKeeperMainWithTlsSupportForKafka",
    "zookeeper-server-start": "org.apache.zookeeper.server.ZooKeeperServerMain",
}
_OLDER_MAIN_CLASSES = {
    "kafka-acls": "kafka.admin.AclCommand",
    "kafka-broker-api-versions": "kafka.admin.BrokerApiVersionsCommand",
    "kafka-console-producer": "kafka.tools.ConsoleProducer",
}

_TALKERS = ("kafka-configs", "kafka-consumer-groups", "kafka-topics")
"""Any of them loads most of what the others load, once a broker answers it."""

SMALL = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Options for a short life: the cheapest start."""
SHIPPED = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
)
"""The options that Kafka's own scripts pass, but for the heap."""
SHIPPED_BROKER = ("-Xmx1G", "-Xms1G", *SHIPPED)
SHIPPED_TOOL = ("-Xmx512M", *SHIPPED)

_SINGLE_BROKER = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
_READY = {"kraft": "Kafka Server started (", "zookeeper": "[KafkaServer id=0] started ("}
_CLUSTER_ID = "a2Fma2EtaW4tcHl0aG9uXw"


@dataclass(frozen=True)
class Finished:
    """The result of a tool: its exit code and what it wrote."""

    code: int
    out: str
    err: str

    def __str__(self) -> str:
        """Show all three, for assertions."""
        return f"exit code {self.code}\n--- out\n{self.out}--- err\n{self.err}"

    @property
    def lines(self) -> list[str]:
        """The lines of standard output."""
        return self.out.splitlines()


class ApacheKafka:
    """One release of Apache Kafka, fetched on first use; `release` is one of `artifacts.RELEASES`."""

    def __init__(self, release: str) -> None:
        """Find or fetch the jars."""
        self.release = release
        found = jars(release)
        self._class_path = ":".join(map(str, found))
        self._archive = ClassArchive(cache_directory(release), Path(java()), found)

    def command(
        self,
        tool: str,
        arguments: Sequence[str],
        options: Sequence[str] = SMALL,
        level: str = "WARN",
    ) -> list[str]:
        """Return the command line of the script called `tool` (without `.sh`)."""
        classes = dict(_MAIN_CLASSES)
        if self.release == "3.9":
            classes.update(_OLDER_MAIN_CLASSES)
        logging = self._logging(level, "out" if tool.endswith("server-start") else "err")
        archive = self._archive.reading() if options is SMALL else []
        return [
            java(),
            *options,
            *archive,
            *logging,
            "-cp",
            self._class_path,
            classes[tool],
            *arguments,
        ]

    def tool(
        self,
        tool: str,
        *arguments: str,
        stdin: str = "",
        seconds: float = 60,
        options: Sequence[str] = SMALL,
    ) -> Finished:
        """Run a tool to its end and return what it left, whatever its exit code."""
        makes_archive = options is SMALL and tool in _TALKERS and not self._archive.is_made
        if makes_archive:
            options = [*options, *self._archive.making()]
        done = subprocess.run(
            self.command(tool, arguments, options),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        if makes_archive:
            self._archive.made(is_good=done.returncode == 0)
        return Finished(done.returncode, done.stdout, done.stderr)

    def check(self, tool: str, *arguments: str, stdin: str = "", seconds: float = 60) -> Finished:
        """Run a tool and insist on exit code 0."""
        finished = self.tool(tool, *arguments, stdin=stdin, seconds=seconds)
        assert finished.code == 0, f"{tool} {' '.join(arguments)}: {finished}"
        return finished

    @contextmanager
    def run_broker(
        self,
        directory: Path,
        mode: str = "kraft",
        settings: Mapping[str, str] | None = None,
        options: Sequence[str] = SMALL,
        zookeeper: str = "",
    ) -> Iterator[Broker]:
        """Run a broker with its own controller (`kraft`) or with ZooKeeper (`zookeeper`, 3.9 only).

        `zookeeper` is a `zookeeper.connect`; without one the broker gets a ZooKeeper of its own.
        """
        with ExitStack() as stack:
            if mode == "zookeeper":
                if not zookeeper:
                    zookeeper = stack.enter_context(self.run_zookeeper(directory))
                broker = self.start_with_zookeeper(directory, zookeeper, settings or {}, options)
            else:
                broker = self.start_kraft(directory, settings or {}, options)
            stack.callback(broker.process.stop)
            broker.process.wait_for(_READY[mode], 60)
            yield broker

    @contextmanager
    def run_zookeeper(self, directory: Path) -> Iterator[str]:
        """Run one ZooKeeper server and give its `zookeeper.connect`."""
        port = free_port()
        home = directory / "zookeeper"
        home.mkdir(parents=True)
        properties = {
            "clientPort": str(port),
            "clientPortAddress": "127.0.0.1",
            "dataDir": str(home),
            "admin.enableServer": "false",
            "maxClientCnxns": "0",
        }
        path = write_properties(home / "zookeeper.properties", properties)
        command = self.command("zookeeper-server-start", [str(path)], level="INFO")
        process = Running(command, directory / "zookeeper.out")
        try:
            process.wait_for("binding to port", 30)
            yield f"127.0.0.1:{port}"
        finally:
            process.stop()

    def format_kraft(self, directory: Path, settings: Mapping[str, str]) -> int:
        """Write `server.properties` of a combined node and format its storage; return its client port."""
        port, controller = free_port(), free_port()
        logs = directory / "logs"
        properties = {
            **_SINGLE_BROKER,
            "process.roles": "broker,controller",
            "node.id": "0",
            "controller.quorum.voters": f"0@127.0.0.1:{controller}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
            "log.dirs": str(logs),
            **settings,
        }
        path = write_properties(directory / "server.properties", properties)
        self.check("kafka-storage", "format", "-t", _CLUSTER_ID, "-c", str(path))
        return port

    def start_formatted(self, directory: Path, port: int, options: Sequence[str]) -> Broker:
        """Start a node that `format_kraft` prepared; it is not ready yet when this returns."""
        path = str(directory / "server.properties")
        command = self.command("kafka-server-start", [path], options, level="INFO")
        process = Running(command, directory / "server.out")
        return Broker(f"apache-{self.release}", port, process, directory / "logs")

    def start_kraft(
        self, directory: Path, settings: Mapping[str, str], options: Sequence[str] = SMALL
    ) -> Broker:
        """Format and start a combined node; it is not ready yet when this returns."""
        directory.mkdir(parents=True, exist_ok=True)
        return self.start_formatted(directory, self.format_kraft(directory, settings), options)

    def start_with_zookeeper(
        self, directory: Path, zookeeper: str, settings: Mapping[str, str], options: Sequence[str]
    ) -> Broker:
        """Start a broker of a ZooKeeper's cluster, with id 0 unless `settings` say another; it is not ready yet."""
        port = free_port()
        directory.mkdir(parents=True, exist_ok=True)
        properties = {
            **_SINGLE_BROKER,
            "broker.id": "0",
            "zookeeper.connect": zookeeper,
            "listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "log.dirs": str(directory / "logs"),
            **settings,
        }
        write_properties(directory / "server.properties", properties)
        return self.start_formatted(directory, port, options)

    def _logging(self, level: str, stream: str) -> list[str]:
        """Return the options that send messages of `level` and above to `stream`."""
        form, option = _LOGGING[self.release]
        path = cache_directory(self.release) / f"{level.lower()}-{stream}.properties"
        if not path.exists():
            path.write_text(form.format(level=level, stream=stream, STREAM=stream.upper()))
        return [f"-D{option}={path.as_uri()}"]


def write_properties(path: Path, properties: Mapping[str, str]) -> Path:
    """Write a file of settings and return its path."""
    path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    return path


_LOGGING = {
    "3.9": (
        "log4j.rootLogger={level}, console\n"
        "log4j.appender.console=org.apache.log4j.ConsoleAppender\n"
        "log4j.appender.console.target=System.{stream}\n"
        "log4j.appender.console.layout=org.apache.log4j.PatternLayout\n"
        "log4j.appender.console.layout.ConversionPattern=[%d] %p %m (%c)%n\n",
        "log4j.configuration",
    ),
    "4.1": (
        "rootLogger.level={level}\n"
        "rootLogger.appenderRef.console.ref=console\n"
        "appender.console.type=Console\n"
        "appender.console.name=console\n"
        "appender.console.target=SYSTEM_{STREAM}\n"
        "appender.console.layout.type=PatternLayout\n"
        "appender.console.layout.pattern=[%d] %p %m (%c)%n\n",
        "log4j2.configurationFile",
    ),
}
