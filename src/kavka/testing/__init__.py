"""Testing of applications: a pytest plugin with brokers as fixtures, and a checker of histories.

The product does not import this package. Classes that tests may name for their types are here: importing the package
imports none of them before it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kavka.testing.cluster import Cluster
    from kavka.testing.fault import Fault
    from kavka.testing.plugin import StartCluster
    from kavka.testing.running import running_cluster
    from kavka.testing.topic import Record, Topic, Transaction
    from kavka.testing.waiting import NotInTime, wait_for

__all__ = [
    "Cluster",
    "Fault",
    "NotInTime",
    "Record",
    "StartCluster",
    "Topic",
    "Transaction",
    "running_cluster",
    "wait_for",
]

_MODULES = {
    "Cluster": "cluster",
    "Fault": "fault",
    "NotInTime": "waiting",
    "Record": "topic",
    "StartCluster": "plugin",
    "Topic": "topic",
    "Transaction": "topic",
    "running_cluster": "running",
    "wait_for": "waiting",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
