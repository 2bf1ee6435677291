"""A cluster in the process that the plugin starts: what a test may ask of it, beyond `LocalCluster`.

Each broker has two listeners. CLIENTS is the application's, where faults are put in and security is asked for;
INTERNAL is that of the other brokers and of the test's own helpers, which therefore work while clients are in trouble.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from kavka.ids import TopicPartition
from kavka.settings.broker import BROKER_SETTINGS
from kavka.settings.dynamic import base_name
from kavka.testing.client_link import ClientLinks
from kavka.testing.hosted_clients import HostedClients
from kavka.testing.local_cluster import REGISTRY, LocalCluster, Member
from kavka.testing.ports import ReservedPort
from kavka.testing.request_faults import (
    FaultKind,
    RequestFault,
    api_named,
    code_named,
    names_some,
)
from kavka.testing.secured import Secured, SecurityOptions
from kavka.testing.waiting import require_number

log = logging.getLogger(__name__)

_OURS = frozenset(
    {
        "advertised.listeners",
        "broker.id",
        "inter.broker.listener.name",
        "listener.security.protocol.map",
        "listeners",
        "log.dir",
        "log.dirs",
        "security.inter.broker.protocol",
        "zookeeper.connect",
    }
)
_DEFAULTS = {
    "auto.create.topics.enable": "true",
    "group.min.session.timeout.ms": "100",
    "kavka.event.loop.stall.warn.ms": "5000",
    "num.partitions": "1",
}


class HostedCluster(LocalCluster):
    """Brokers 1, 2, ..., their clients' connections, and helpers that look at topics from inside."""

    def __init__(
        self,
        path: Path,
        *,
        brokers: int,
        settings: Mapping[str, str] | None,
        security: SecurityOptions,
        has_registry: bool,
    ) -> None:
        """Start. Raise ValueError for a setting that is the cluster's own."""
        given = {name: _text(value) for name, value in (settings or {}).items()}
        own = sorted(_OURS.intersection(given))
        if own:
            raise ValueError(f"{', '.join(own)}: the fixture sets this itself; leave it out")
        _require_names(given)
        self._has_registry = has_registry
        self._reserved = {number: (ReservedPort(), ReservedPort()) for number in _numbers(brokers)}
        self._client_links = {number: ClientLinks(number) for number in self._reserved}
        for number, (port, _) in self._reserved.items():
            self._client_links[number].port = port.number
            self._client_links[number].name_of = self._topic_name
        self.secured = Secured(path / "security", security, secrets.token_hex(16))
        self.faults: dict[int, int | None] = {}
        self.helpers = HostedClients(self._inside(), self.secured)
        super().__init__(
            path, brokers=brokers, settings={**_DEFAULTS, **self.secured.broker_settings(), **given}
        )
        self.helpers.secure()

    def _inside(self) -> dict[str, Any]:
        ports = (internal.number for _, internal in self._reserved.values())
        return {
            "bootstrap.servers": ",".join(f"127.0.0.1:{port}" for port in ports),
            **self.secured.helper_settings(),
        }

    def _listeners_of(self, number: int) -> dict[str, str]:
        clients, internal = self._reserved[number]
        return {
            "listeners": f"CLIENTS://127.0.0.1:{clients.number},INTERNAL://127.0.0.1:{internal.number}",
            "listener.security.protocol.map": self.secured.protocol_map(),
            "inter.broker.listener.name": "INTERNAL",
        }

    def _clients_of(self, number: int) -> ClientLinks:
        return self._client_links[number]

    def _topic_name(self, topic_id: Any) -> str | None:
        for member in list(self._members.values()):
            name = member.broker.metadata.name_of(topic_id)
            if name is not None:
                return str(name)
        return None

    @property
    def numbers(self) -> list[int]:
        """All brokers, running or not."""
        return sorted(self._client_links)

    def facts(self) -> dict[str, Any]:
        """Return what the test's side of the cluster has to know."""
        return {
            "bootstrap_servers": self.bootstrap_servers,
            "numbers": self.numbers,
            "path": self.path,
            "security": self.secured.facts(),
            "zookeeper_connect": self.zookeeper_connect,
        }

    def close(self) -> None:
        """End everything."""
        self.helpers.close()
        for number in self.running:
            self.resume(number)
        super().close()
        for pair in self._reserved.values():
            for port in pair:
                port.release()

    # -- brokers

    def start(self, number: int) -> None:
        """Start a broker, or start it again, on its directory and its ports."""
        self._require_number(number)
        if number in self._members:
            raise RuntimeError(f"broker {number} runs already")
        super().start(number)

    def member(self, number: int) -> Member:
        """Return a running broker. Raise RuntimeError."""
        self._require_number(number)
        found = self._members.get(number)
        if found is None:
            raise RuntimeError(f"broker {number} does not run; start({number}) starts it")
        return found

    def _require_number(self, number: int) -> None:
        if type(number) is not int or number not in self._client_links:
            raise ValueError(f"there is no broker {number!r}, only {self.numbers}")

    def stop(self, number: int) -> None:
        """Stop a broker in order."""
        self.member(number)
        super().stop(number)

    def kill(self, number: int) -> None:
        """End a broker as SIGKILL does."""
        self.member(number)
        super().kill(number)

    def pause(self, number: int) -> None:
        """Pause a broker, as SIGSTOP does."""
        self.member(number)
        super().pause(number)

    def resume(self, number: int) -> None:
        """Resume a broker."""
        self.member(number)
        super().resume(number)

    def cut(self, first: int, second: int, *, one_way: bool = False) -> None:
        """Cut the network between two. Raise ValueError for a number that there is not."""
        for number in (first, second):
            if number != REGISTRY:
                self._require_number(number)
        super().cut(first, second, one_way=one_way)

    def running_brokers(self) -> list[int]:
        """Return the brokers that are alive."""
        return self.running

    def replicated(self, topic: str, partition: int, replicas: int) -> bool:
        """Return whether so many replicas have everything, and know that it is committed."""
        ends = list(self.ends(topic, partition).values())
        return len(ends) >= replicas and len(set(ends)) == 1 and ends[0][0] == ends[0][1]

    # -- faults of requests

    def add_fault(
        self,
        fault_id: int,
        broker: int | None,
        kind: str,
        api: str,
        **options: Any,
    ) -> None:
        """Add a fault to one broker or to all. Raise ValueError."""
        key, what = api_named(api), FaultKind(kind)
        if "code" in options:
            options["code"] = code_named(options["code"], key)
        for name in options["named"]:
            if not names_some(name, key):
                raise ValueError(f"{name}=: requests of {api} name none")
        for number in self._chosen(broker):
            fault = RequestFault(fault_id, key, what, **options)
            self._client_links[number].faults.add(fault)
        self.faults[fault_id] = broker

    def remove_fault(self, fault_id: int) -> None:
        """Remove a fault; the connections of requests that it lets hang break."""
        for number, links in self._client_links.items():
            links.faults.remove(fault_id)
            if number in self._members:
                self._tell(number)

    def fault_hits(self, fault_id: int) -> int:
        """Return how many requests a fault has met, at all brokers."""
        return sum(links.faults.hits(fault_id) for links in self._client_links.values())

    def requests_seen(self, api: str) -> int:
        """Return how many requests of an API clients have sent to all brokers."""
        name = api_named(api).name
        return sum(links.seen[name] for links in self._client_links.values())

    def _chosen(self, broker: int | None) -> list[int]:
        if broker is None:
            return self.numbers
        self._require_number(broker)
        return [broker]

    # -- faults of the network and the disk

    def refuse(self, broker: int | None, refusing: bool) -> None:
        """Refuse new connections of clients, or accept them again."""
        for number in self._chosen(broker):
            self._client_links[number].is_refusing = refusing
            member = self._members.get(number)
            listener = None if member is None else member.process.network.client_listener
            if member is None or listener is None:
                continue
            if refusing:
                member.process.ask(listener.refuse)
            else:
                member.process.call(listener.accept())

    def cut_clients(self, broker: int | None) -> None:
        """Break the connections of clients."""
        for number in self._chosen(broker):
            if number in self._members:
                self._members[number].process.ask(self._client_links[number].cut)

    def silence(self, broker: int | None, silent: bool) -> None:
        """Let nothing through between clients and brokers, or all again."""
        for number in self._chosen(broker):
            self._client_links[number].is_silent = silent
            self._tell(number)

    def slow(self, broker: int | None, latency_s: float, bytes_per_s: float) -> None:
        """Set the latency of each direction and the limit of each connection; zeros end it."""
        for number in self._chosen(broker):
            links = self._client_links[number]
            links.latency_s, links.bytes_per_s = latency_s, bytes_per_s
            self._tell(number)

    def _tell(self, number: int) -> None:
        member = self._members.get(number)
        if member is not None and not member.is_paused:
            member.process.ask(self._client_links[number].changed)

    def fill_disk(self, broker: int | None, full: bool) -> None:
        """Let writes fail with ENOSPC, or succeed again."""
        for number in self._chosen(broker):
            disk = self.member(number).disk
            disk.is_full = full
            disk.was_full |= full

    # -- between tests

    def reset(self) -> None:
        """End all faults, and start what does not run or has lost its disk."""
        self.heal()
        for number, links in self._client_links.items():
            links.is_refusing = False
            member = self._members.get(number)
            if member is None:
                links.reset()
                continue
            if member.is_paused:
                self.resume(number)
            if member.disk.was_full or not self._serves(number):
                self._restart_hard(number)
            self.member(number).process.ask(links.reset)
        self.refuse(None, False)
        for number in set(self.numbers) - set(self.running):
            self.start(number)
        self.faults.clear()

    def _serves(self, number: int) -> bool:
        member = self._members[number]
        return bool(member.process.ask(lambda: member.broker.state.name == "RUNNING"))

    def _restart_hard(self, number: int) -> None:
        with suppress(OSError):
            self.kill(number)
        self.start(number)

    def troubles(self) -> list[str]:
        """Return what is the matter with brokers that cannot be asked for records."""
        found = []
        for number in self.numbers:
            member = self._members.get(number)
            if member is None:
                found.append(f"broker {number} does not run")
            elif member.is_paused:
                found.append(f"broker {number} is paused")
            elif member.disk.was_full:
                found.append(f"broker {number} has lost its log directory, as its disk was full")
        return found

    def known_leaders(self, topic: str, partitions: int) -> bool:
        """Return whether every running broker knows the leaders of a topic."""
        for number, member in self._members.items():
            if member.is_paused:
                continue
            for index in range(partitions):
                key = TopicPartition(topic, index)
                found = self._members[number].broker.metadata.partition(key)
                if found is None or found.leader < 0:
                    return False
        return True


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _require_names(settings: Mapping[str, str]) -> None:
    """Raise ValueError for what is most likely a mistake in writing; a broker warns of other unknown names."""
    for name in settings:
        near = None if base_name(name) in BROKER_SETTINGS else BROKER_SETTINGS.nearest(name)
        if near:
            raise ValueError(f"there is no setting {name}; did you mean {near}?")


def _numbers(brokers: int) -> range:
    require_number("brokers", brokers, least=1)
    if brokers > 100:
        raise ValueError(f"brokers={brokers}: a cluster has from 1 to 100 brokers")
    return range(1, brokers + 1)
