"""A cluster as a test sees it: brokers in a process beside the test's, and calls for what happens to them."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypedDict, TypeVar, Unpack

from kavka.testing.fault import Fault
from kavka.testing.host_process import HostProcess
from kavka.testing.topic import Topic, Transaction
from kavka.testing.waiting import require_number, wait_for

__tracebackhide__ = True  # pytest shows the line of the test that called
T = TypeVar("T")

_METADATA_GAPS = ("UNKNOWN_TOPIC_OR_PARTITION", "LEADER_NOT_AVAILABLE")


class SecurityArguments(TypedDict, total=False):
    """The security of a cluster; see `Cluster`."""

    users: Mapping[str, str] | None
    tls: bool
    client_certificates: bool
    authorization: bool


class Which(TypedDict, total=False):
    """The requests that meet a fault: all of an API that fit everything given here."""

    times: int | None
    """So many of them."""
    after: int
    """Not the first ones, so many."""
    topic: Topic | str | None
    """Those that name it."""
    group: str | None
    transactional_id: str | None
    client_id: str | None
    broker: int | None
    """Those to the broker of this number."""


class Cluster:
    """Brokers 1, 2, ... All calls return when their effect is complete; a fault ends with the test, at the latest."""

    is_existing = False
    """True for a cluster that others have started."""
    REGISTRY = 0
    """The number of the registry, for `cut`."""

    def __init__(
        self,
        host: HostProcess,
        path: Path,
        *,
        brokers: int = 1,
        settings: Mapping[str, object] | None = None,
        has_registry: bool = True,
        **security: Unpack[SecurityArguments],
    ) -> None:
        """Start brokers under `path`, with `settings` of `server.properties`.

        `users` (name and password): clients authenticate, by PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512. `tls`: with
        certificates of an authority that exists for this cluster; `client_certificates`: clients need one too.
        `authorization`: clients may do what `allow` allows. Raise ValueError.
        """
        _require_types(settings, security)
        self._begin(host)
        facts = host.call(
            self._number,
            "open",
            str(path),
            {**security, "users": dict(security.get("users") or {})},
            brokers=brokers,
            settings=dict(settings or {}),
            has_registry=has_registry,
        )
        self.path: Path = facts["path"]
        self.bootstrap_servers: str = facts["bootstrap_servers"]
        """The clients' addresses of all brokers, stopped ones included."""
        self.zookeeper_connect: str = facts["zookeeper_connect"]
        self.numbers: list[int] = facts["numbers"]
        self.pid: int = facts["pid"]
        """The process in which the brokers run."""
        self._security: dict[str, Any] = facts["security"]

    def _begin(self, host: HostProcess) -> None:
        """Take a number, without a topic or a fault."""
        self._host = host
        self._number = host.new_cluster()
        self._fault_count = 0
        self.has_faults = False
        """Something was done to the brokers that a later test must not find."""
        self.topics: dict[str, Topic] = {}
        """The topics that tests have asked for, by name."""
        self.unique_topics: set[str] = set()
        """Those whose names are their own."""
        self.removed_topics: set[str] = set()
        """Those that were deleted after a test, and that `topic` has not made since."""
        self.is_closed = False

    def _ask(self, method: str, *args: Any, **named: Any) -> Any:
        if self.is_closed and method != "close":
            raise RuntimeError("the cluster is closed: its `with` or its test has ended")
        return self._host.call(self._number, method, *args, **named)

    def _change(self, method: str, *args: Any, **named: Any) -> Any:
        self.has_faults = True
        return self._ask(method, *args, **named)

    def helper(self, method: str, *args: Any, **named: Any) -> Any:
        """Call one of the cluster's own clients."""
        return self._ask(f"helpers.{method}", *args, **named)

    def helper_or(self, method: str, default: T, *args: Any, **named: Any) -> T:
        """Call one of the cluster's own clients; return `default` for a topic that does not exist."""
        try:
            found: T = self.helper(method, *args, **named)
        except Exception as error:
            if getattr(getattr(error, "code", None), "name", "") in _METADATA_GAPS:
                return default
            raise
        return found

    # -- names and topics

    def unique(self, name: str) -> str:
        """Return a name that no other test has: for groups, transactional ids, topics."""
        return f"{name}-{secrets.token_hex(4)}"

    def topic(
        self,
        name: str = "topic",
        partitions: int = 1,
        *,
        exact: bool = False,
        replication_factor: int = -1,
        settings: Mapping[str, object] | None = None,
    ) -> Topic:
        """Create a topic of a name that begins with `name`, or with `exact`, is it; `settings` are the topic's.

        Raise kavka.errors.KafkaError.
        """
        require_number("partitions", partitions, least=-1)
        require_number("replication_factor", replication_factor, least=-1)
        full = name if exact else self.unique(name)
        texts = {key: _text(value) for key, value in (settings or {}).items()}
        self.helper("create_topic", full, partitions, replication_factor, texts)
        self.removed_topics.discard(full)
        if not exact:
            self.unique_topics.add(full)
        self.wait_for(
            lambda: self._ask("known_leaders", full, partitions), f"leaders of topic {full}"
        )
        return self.existing_topic(full)

    def existing_topic(self, name: str) -> Topic:
        """Return a topic that the application makes, has made, or will make."""
        return self.topics.setdefault(name, Topic(self, name))

    def transaction(self) -> Transaction:
        """Return a transaction, for a `with`: `send(value, topic=...)` writes in it, `abort()` aborts it."""
        return Transaction(self)

    def group_state(self, group: str) -> tuple[str, int]:
        """Return the state of a group (Stable, Empty, Dead, PreparingRebalance ...) and the number of its members."""
        state, members = self.helper("group", group)
        return state, members

    def wait_for_group(self, group: str, members: int = 1, *, timeout_s: float = 10.0) -> None:
        """Wait until a group is stable with so many members, or with 0, has none."""
        require_number("members", members, least=0)
        states = ("Stable",) if members else ("Empty", "Dead")
        self.wait_for(
            lambda: self.group_state(group) in [(state, members) for state in states],
            lambda: f"{members} members in group {group}, which is {self.group_state(group)}",
            timeout_s=timeout_s,
        )

    @staticmethod
    def wait_for(
        condition: Callable[[], T],
        message: str | Callable[[], str] = "",
        *,
        timeout_s: float = 10.0,
    ) -> T:
        """See `kavka.testing.waiting.wait_for`."""
        return wait_for(condition, message, timeout_s=timeout_s)

    # -- clients and security

    def client_settings(
        self,
        library: str = "confluent-kafka",
        *,
        user: str | None = None,
        mechanism: str = "SCRAM-SHA-256",
        certificate: str | None = None,
    ) -> dict[str, Any]:
        """Return the settings of a client: its addresses, and what it needs of the cluster's security.

        `library`: confluent-kafka, kavka, aiokafka, kafka-python, spark. `user` is the first of the cluster's by
        default. `certificate` is the name in a client's certificate, which is made for it.
        """
        from kavka.testing.client_settings import client_settings

        pair = None
        if certificate is None and self._security["client_certificates"]:
            certificate = "client"
        if certificate is not None:
            pair = self.client_certificate(certificate)
        return client_settings(
            library,
            self.bootstrap_servers,
            self._security,
            user=user,
            mechanism=mechanism,
            certificate=pair,
        )

    @property
    def ca_file(self) -> str:
        """The certificate of the authority that clients have to trust, as PEM."""
        if self._security["ca_file"] is None:
            raise RuntimeError("the cluster has no certificates: start it with tls=True")
        return str(self._security["ca_file"])

    def client_certificate(self, name: str) -> tuple[str, str]:
        """Return the files of a client's certificate and key: its principal is `User:CN=<name>`."""
        chain, key = self._ask("secured.certificate", name)
        return chain, key

    def allow(
        self,
        user: str,
        operations: str | Sequence[str],
        *,
        topic: Topic | str | None = None,
        group: str | None = None,
        transactional_id: str | None = None,
    ) -> None:
        """Let a user do operations (Read, Write, Describe, Create, All ...) with one resource; a name may end with `*`.

        `user` is a name, or a principal such as `User:CN=app`.
        """
        chosen = {"topic": topic, "group": group, "transactional_id": transactional_id}
        given = {kind: str(name) for kind, name in chosen.items() if name is not None}
        if len(given) != 1:
            raise ValueError("say one of topic=, group= and transactional_id=")
        ((resource, name),) = given.items()
        names = [operations] if isinstance(operations, str) else list(operations)
        self.helper("allow", user, names, resource, name)

    # -- faults of requests

    def delay(self, api: str, seconds: float, **which: Unpack[Which]) -> Fault:
        """Let requests of an API reach the broker later, with all that follows on their connections.

        `which`, here and below, chooses among them: see `Which`.
        """
        delay_s = float(seconds)
        if not 0 <= delay_s < math.inf:
            raise ValueError(f"seconds={seconds}: give a number from 0 on; `hang` answers never")
        return self._fault("delay", api, which, delay_s=delay_s)

    def fail(self, api: str, code: str | int, **which: Unpack[Which]) -> Fault:
        """Answer requests with an error code, by Kafka's name or number; the broker does not get them."""
        return self._fault("fail", api, which, code=code)

    def drop_request(self, api: str, **which: Unpack[Which]) -> Fault:
        """Break the connection before the broker gets the request."""
        return self._fault("drop_request", api, which)

    def drop_response(self, api: str, **which: Unpack[Which]) -> Fault:
        """Break the connection after the broker has carried the request out, before its response."""
        return self._fault("drop_response", api, which)

    def hang(self, api: str, **which: Unpack[Which]) -> Fault:
        """Never answer, on a connection that stays open; when the fault ends, the connection breaks."""
        return self._fault("hang", api, which)

    def _fault(
        self,
        kind: str,
        api: str,
        which: Which,
        **options: Any,
    ) -> Fault:
        unknown = sorted(which.keys() - Which.__annotations__.keys())
        if unknown:
            known = ", ".join(Which.__annotations__)
            raise TypeError(f"{kind}: {unknown[0]!r} chooses no requests; these do: {known}")
        times, after = which.get("times"), which.get("after", 0)
        if times is not None:
            require_number("times", times, least=1)
        require_number("after", after, least=0)
        self._fault_count += 1
        number = self._fault_count
        options |= {"times": times, "after": after, "client_id": which.get("client_id")}
        options["named"] = {
            name: str(which[name])
            for name in ("topic", "group", "transactional_id")
            if which.get(name) is not None
        }
        self._change("add_fault", number, which.get("broker"), kind, api, **options)
        return Fault(
            f"{kind} of {api}",
            lambda: self._ask("remove_fault", number),
            lambda: int(self._ask("fault_hits", number)),
        )

    def requests(self, api: str) -> int:
        """Return how many requests of an API clients have sent so far, to all brokers."""
        return int(self._ask("requests_seen", api))

    # -- faults of the network and the disk

    def refuse_connections(self, *, broker: int | None = None) -> Fault:
        """Refuse new connections of clients; open ones stay, until `cut_connections`."""
        return self._state_fault("connections refused", "refuse", broker, True, back=(False,))

    def cut_connections(self, *, broker: int | None = None) -> None:
        """Break all connections of clients; they may connect again."""
        self._change("cut_clients", broker)

    def cut_off_clients(self, *, broker: int | None = None) -> Fault:
        """Let nothing through between clients and brokers, in either direction; connections stay open."""
        return self._state_fault("clients cut off", "silence", broker, True, back=(False,))

    def slow_network(
        self,
        *,
        latency_s: float = 0.0,
        bytes_per_second: float = 0.0,
        broker: int | None = None,
    ) -> Fault:
        """Delay each direction between clients and brokers, and limit each connection's bytes."""
        latency, rate = float(latency_s), float(bytes_per_second)
        if not (0 <= latency < math.inf and 0 <= rate < math.inf and latency + rate > 0):
            raise ValueError("say latency_s= or bytes_per_second=, above 0")
        return self._state_fault("slow network", "slow", broker, latency, rate, back=(0.0, 0.0))

    def fill_disk(self, *, broker: int | None = None) -> Fault:
        """Let writes to a broker's disk fail with ENOSPC.

        As Apache Kafka's, a broker gives up the log directory at the first failed write, and does not take it back
        when there is space again: `restart` it then. The end of the test does both.
        """
        return self._state_fault("full disk", "fill_disk", broker, True, back=(False,))

    def _state_fault(
        self, text: str, method: str, broker: int | None, *args: Any, back: tuple[Any, ...]
    ) -> Fault:
        self._change(method, broker, *args)
        return Fault(text, lambda: self._ask(method, broker, *back), None)

    # -- brokers

    def kill(self, number: int = 1) -> None:
        """End a broker as SIGKILL does."""
        self._change("kill", number)

    def stop(self, number: int = 1) -> None:
        """Stop a broker in order, as `kavka server-stop` does."""
        self._change("stop", number)

    def start(self, number: int = 1) -> None:
        """Start a broker again, on its directory and its port."""
        self._change("start", number)

    def restart(self, number: int = 1, *, kill: bool = False) -> None:
        """Stop a broker, or kill it, and start it again."""
        (self.kill if kill else self.stop)(number)
        self.start(number)

    def pause(self, number: int = 1) -> None:
        """Pause a broker, as SIGSTOP does."""
        self._change("pause", number)

    def resume(self, number: int = 1) -> None:
        """Let a paused broker run again."""
        self._change("resume", number)

    def cut(self, first: int, second: int, *, one_way: bool = False) -> None:
        """Cut the network between two brokers, or a broker and `REGISTRY`; `one_way`: from `first` to `second` only."""
        self._change("cut", first, second, one_way=one_way)

    def heal(self) -> None:
        """Restore the network between brokers; what was sent meanwhile arrives."""
        self._ask("heal")

    def leader(self, topic: Topic | str, partition: int = 0, *, seen_by: int | None = None) -> int:
        """Return the leader of a partition, -1 for none; `seen_by` one broker, or the first that runs."""
        return int(self._ask("leader", str(topic), partition, seen_by=seen_by))

    def controller(self) -> int:
        """Return the controller, -1 for none."""
        return int(self._ask("controller"))

    def coordinator(self, group: str) -> int:
        """Return the coordinator of a group, -1 for none."""
        return int(self._ask("coordinator", group))

    def in_sync(self, topic: Topic | str, partition: int = 0) -> list[int]:
        """Return the in-sync set; empty without a leader."""
        return list(self._ask("in_sync", str(topic), partition))

    def ends(self, topic: Topic | str, partition: int = 0) -> dict[int, tuple[int, int]]:
        """Return (log end offset, high watermark) of each replica whose broker runs."""
        return dict(self._ask("ends", str(topic), partition))

    def log_bytes(self, number: int, topic: Topic | str, partition: int = 0) -> bytes:
        """Return the content of a replica's segments."""
        return bytes(self._ask("log_bytes", number, str(topic), partition))

    @property
    def running(self) -> list[int]:
        """The brokers that are alive, paused ones included."""
        return [number for number in self.numbers if number in self._ask("running_brokers")]

    def troubles(self) -> list[str]:
        """Return why topics cannot be read: brokers that are dead, or paused, or have lost their disk."""
        return list(self._ask("troubles"))

    def until(self, condition: Callable[[], T], timeout_s: float = 20) -> T:
        """Wait until something holds; as `wait_for`, with more time."""
        return wait_for(condition, timeout_s=timeout_s)

    def until_replicated(
        self, topic: Topic | str, partition: int = 0, replicas: int | None = None
    ) -> None:
        """Wait until so many replicas, by default up to three, have everything and know that it is committed."""
        count = min(3, len(self.numbers)) if replicas is None else replicas
        wait_for(
            lambda: self._ask("replicated", str(topic), partition, count),
            lambda: f"{count} equal replicas of {topic}-{partition}: {self.ends(topic, partition)}",
            timeout_s=20,
        )

    # -- the end

    def reset(self) -> None:
        """End all faults, start what does not run, abort open transactions."""
        if self.has_faults:
            self._ask("reset")
            self.has_faults = False
        self.helper("abort_all")

    def clean(self) -> None:
        """Delete what tests have made in a cluster of others; see `ExistingCluster`."""

    def close(self) -> None:
        """End everything; data stay where they are."""
        if not self.is_closed:
            self.is_closed = True
            self._ask("close")

    def __enter__(self) -> Self:
        """Be closed at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()


def _require_types(settings: object, security: Mapping[str, object]) -> None:
    users: Any = security.get("users")
    for name, value in {"settings": settings, "users": users}.items():
        if not isinstance(value, Mapping | None):
            raise TypeError(f"{name}={value!r}: give names and values, as in {{'name': 'value'}}")
    for setting in settings if isinstance(settings, Mapping) else ():
        if not isinstance(setting, str):
            raise TypeError(f"settings: names are texts, not {setting!r}")
    for name in ("tls", "client_certificates", "authorization"):
        if not isinstance(security.get(name, False), bool):
            raise TypeError(f"{name}={security[name]!r}: give True or False")
    for user, password in (users or {}).items():
        if not isinstance(user, str) or not isinstance(password, str):
            raise TypeError(f"users={{{user!r}: {password!r}}}: names and passwords are texts")


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
