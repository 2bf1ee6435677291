"""Parameters of a workload."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a run. Producers are idempotent with acks=all, consumers read from the beginning, read_committed."""

    bootstrap: str
    client: str = "kavka"
    """A name of `load.CLIENTS`."""
    topic: str = "history"
    """The topic, which is created and must not exist."""
    partitions: int = 4
    replication_factor: int = 1
    min_insync_replicas: int | None = None
    seconds: float = 30
    producers: int = 2
    transactional: int = 0
    """Producers that write in transactions; they commit most and abort some."""
    readers: int = 2
    """Consumers that assign and seek."""
    members: int = 2
    """Consumers that subscribe, in one group; they come and go."""
    rate: float = 200
    """Records a second of each producer."""
    timeout_seconds: float = 120
    """Maximum seconds for sending a record, and for the final scan."""
    seed: int = 0
    config: Mapping[str, str] = field(default_factory=dict)
    """More settings of all clients, by librdkafka's names: `security.protocol`, `sasl.username` and so on."""
