"""The side of an existing cluster in the process beside the tests: clients only, and what they can know of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kavka.errors import KafkaError
from kavka.testing.hosted_clients import HostedClients


class AttachedClients(HostedClients):
    """Clients of a cluster in which others have topics and groups: nothing is deleted but by its name."""

    def delete_named_groups(self, names: Sequence[str]) -> None:
        """Delete groups; one that is not there, or has members, stays as it is."""
        self.admin.delete_groups(list(names))

    def delete_groups(self) -> None:
        """Refuse: groups of others are among them."""
        raise AssertionError("groups of an existing cluster are deleted by their names")


class AttachedCluster:
    """A cluster that runs, by its addresses and the settings of its clients."""

    secured = None

    def __init__(self, settings: Mapping[str, str]) -> None:
        """Connect. Raise RuntimeError when it does not answer."""
        self.helpers = AttachedClients(settings, None)
        try:
            description = self.helpers.admin.describe_cluster()
        except (OSError, TimeoutError, KafkaError) as error:
            self.helpers.close()
            servers = settings["bootstrap.servers"]
            raise RuntimeError(f"--kavka-bootstrap-servers {servers}: {error}") from error
        self.numbers = sorted(int(broker.broker_id) for broker in description.brokers)

    def facts(self) -> dict[str, Any]:
        """Return what the test's side has to know."""
        return {"numbers": self.numbers, "path": Path()}

    def close(self) -> None:
        """Close the clients; the cluster goes on."""
        self.helpers.close()

    def known_leaders(self, topic: str, partitions: int) -> bool:
        """Return whether all partitions have leaders."""
        found = self._partitions(topic)
        return len(found) >= partitions and all(each.leader >= 0 for each in found)

    def leader(self, topic: str, partition: int = 0, *, seen_by: int | None = None) -> int:
        """Return the leader of a partition, -1 for none."""
        found = self._partitions(topic)
        return int(found[partition].leader) if partition < len(found) else -1

    def in_sync(self, topic: str, partition: int = 0) -> list[int]:
        """Return the in-sync set; empty without a leader."""
        found = self._partitions(topic)
        if partition >= len(found) or found[partition].leader < 0:
            return []
        return sorted(map(int, found[partition].in_sync_replicas))

    def replicated(self, topic: str, partition: int, count: int) -> bool:
        """Return whether so many replicas are in sync; of a record with acks=all they have it."""
        return len(self.in_sync(topic, partition)) >= count

    def controller(self) -> int:
        """Return the controller, -1 for none."""
        return int(self.helpers.admin.describe_cluster().controller_id)

    def _partitions(self, topic: str) -> Sequence[Any]:
        found = self.helpers.admin.describe_topics([topic])[topic]
        return () if isinstance(found, KafkaError) else found.partitions
