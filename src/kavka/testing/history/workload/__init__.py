"""A workload that records its history: producers, consumers and groups of any of several clients, against any Kafka."""

from kavka.testing.history.workload.load import CLIENTS, Load, run
from kavka.testing.history.workload.settings import Settings

__all__ = ["CLIENTS", "Load", "Settings", "run"]
