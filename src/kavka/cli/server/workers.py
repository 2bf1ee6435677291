"""Settings of each broker of `kavka server-start --workers N`: worker i of N, by one rule for each setting.

broker.id              broker.id + i; without one i, or on a given zookeeper.connect a generated one
listeners, advertised  each port + i; 0 is a free one; so is kavka.metrics.port
log.dirs               `{worker}` in a path becomes i, a path without it gets the subdirectory `worker-i`
broker.rack            the machine's name, unless it is set
zookeeper.connect      unless it is set a registry on loopback, kept in the subdirectory `registry` of the first path
                       (where that has `{worker}`: in worker 0's path with `-registry` at its end)
kavka.transaction.version  2 with that registry, unless it is set: only the workers use it
replicas of internal topics  with that registry N, at most the usual 3, unless it is set
"""

from __future__ import annotations

import itertools
import os
import socket
from collections.abc import Iterable, Mapping

from kavka.settings.broker import BROKER_SETTINGS
from kavka.settings.declaration import InvalidSetting
from kavka.storage.checkpoint.meta_properties import META_PROPERTIES

PLACEHOLDER = "{worker}"
_INTERNAL_REPLICAS = (
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
)
_REGISTRY_FILES = ("kavka-registry.journal", "kavka-registry.snapshot")


class WorkerSettings:
    """The settings of N brokers on this machine, made from those of one."""

    def __init__(self, settings: Mapping[str, str], workers: int) -> None:
        """Raise InvalidSetting where one broker's setting cannot be shared out: two would have the same port."""
        self.workers = workers
        self._settings = settings
        self._directories = _items(settings, "log.dirs") or _items(settings, "log.dir")
        if not self._directories:
            raise InvalidSetting("log.dirs", "", "At least one log directory is needed")
        self._refuse_shared_ports()
        self._refuse_directories_of_a_lone_broker()

    @property
    def has_own_registry(self) -> bool:
        """Return whether no registry is given, so that the supervisor runs one."""
        return not self._settings.get("zookeeper.connect", "").strip()

    @property
    def registry_directory(self) -> str:
        """Return the data directory of the supervisor's registry."""
        first = self._directories[0]
        if PLACEHOLDER in first:
            return _of_worker(first, 0).rstrip("/") + "-registry"
        return os.path.join(first, "registry")

    @property
    def of_registry(self) -> dict[str, str]:
        """Return the settings for the registry."""
        return {
            name: self._settings[name] for name in ("kavka.log.level",) if name in self._settings
        }

    def of(self, worker: int, registry: str | None, before: str | None = None) -> dict[str, str]:
        """Return the settings of worker number `worker` that differ from the common ones.

        `registry` is where the supervisor's registry listens, None where there is none; `before` is where the worker
        served until now: it keeps the free ports that it got, because clients know them.
        """
        listeners = [_moved(item, worker) for item in _items(self._settings, "listeners")]
        own = {"log.dirs": ",".join(_of_worker(path, worker) for path in self._directories)}
        if advertised := _items(self._settings, "advertised.listeners"):
            own["advertised.listeners"] = ",".join(_moved(item, worker) for item in advertised)
        elif before is not None:
            listeners = _with_ports(listeners, before.split(","))
        own["listeners"] = ",".join(listeners)
        base = self._base_id()
        if base is not None:
            own["broker.id"] = str(base + worker)
        if metrics := self._metrics_port():
            own["kavka.metrics.port"] = str(metrics + worker)
        if not self._settings.get("broker.rack"):
            own["broker.rack"] = socket.gethostname()
        if registry is not None:
            own["zookeeper.connect"] = registry
            chosen = {"kavka.transaction.version": "2"}
            for name in _INTERNAL_REPLICAS:
                usual = BROKER_SETTINGS[name].default
                assert isinstance(usual, int)
                chosen[name] = str(min(usual, self.workers))
            own |= {name: value for name, value in chosen.items() if name not in self._settings}
        return own

    def _base_id(self) -> int | None:
        given = BROKER_SETTINGS["broker.id"].parse(self._settings.get("broker.id"))
        assert isinstance(given, int)
        if given >= 0:
            return given
        return 0 if self.has_own_registry else None

    def _metrics_port(self) -> int:
        given = BROKER_SETTINGS["kavka.metrics.port"].parse(
            self._settings.get("kavka.metrics.port")
        )
        return given if isinstance(given, int) else 0

    def _refuse_shared_ports(self) -> None:
        for name in ("listeners", "advertised.listeners"):
            ports = [_port(item) for item in _items(self._settings, name)]
            if name == "listeners":
                ports.append(self._metrics_port())
            fixed = sorted({port for port in ports if port})
            for lower, upper in itertools.pairwise(fixed):
                if upper - lower < self.workers:
                    reason = (
                        f"{self.workers} workers take {self.workers} ports from each of these on: "
                        f"{lower} and {upper} are too near"
                    )
                    raise InvalidSetting(name, self._settings.get(name), reason)
            if fixed and fixed[-1] + self.workers - 1 > 65535:
                reason = f"{self.workers} workers need ports up to {fixed[-1] + self.workers - 1}"
                raise InvalidSetting(name, self._settings.get(name), reason)

    def _refuse_directories_of_a_lone_broker(self) -> None:
        """Refuse the directories of a broker without workers: no worker serves the logs in the path itself.

        Their topics are in its registry: logs that are moved without it belong to no topic.
        """
        files = "kavka-registry.*"
        for path in self._directories:
            home = _of_worker(path, 0)
            if PLACEHOLDER not in path and os.path.exists(os.path.join(path, META_PROPERTIES)):
                reason = f"has the data of a broker that ran without --workers: move it to {home}"
                found = path
            elif any(os.path.exists(os.path.join(home, name)) for name in _REGISTRY_FILES):
                reason = f"has {files} of a broker that ran without --workers: move it away"
                found = home
            else:
                continue
            if self.has_own_registry:
                reason += f", and {files} to {self.registry_directory}"
            raise InvalidSetting("log.dirs", found, f"it {reason}; or name another directory")


def _items(settings: Mapping[str, str], name: str) -> list[str]:
    value = BROKER_SETTINGS[name].parse(settings.get(name))
    if isinstance(value, str):  # log.dir, which may name several as well
        value = [part.strip() for part in value.split(",")]
    assert value is None or isinstance(value, list)
    return value or []


def _of_worker(path: str, worker: int) -> str:
    if PLACEHOLDER in path:
        return path.replace(PLACEHOLDER, str(worker))
    return os.path.join(path, f"worker-{worker}")


def _port(listener: str) -> int:
    """Return the port of NAME://host:port, 0 where there is none: the broker says what is wrong with it."""
    digits = listener.rpartition(":")[2]
    return int(digits) if digits.isdecimal() else 0


def _moved(listener: str, by: int) -> str:
    port = _port(listener)
    return f"{listener.rpartition(':')[0]}:{port + by}" if port else listener


def _with_ports(listeners: list[str], served: list[str]) -> list[str]:
    """Replace the free ports of listeners by those that `served` names."""
    ports = {item.partition("://")[0].upper(): _port(item) for item in served}
    return [
        item if _port(item) else f"{item.rpartition(':')[0]}:{ports[name]}"
        for item in listeners
        if (name := item.partition("://")[0].upper()) in ports or _port(item)
    ]


def as_overrides(settings: Mapping[str, str]) -> Iterable[str]:
    """Yield the settings as arguments of `kavka server-start`."""
    for name, value in settings.items():
        yield "--override"
        yield f"{name}={value}"
